"""What the server allows, as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AppPolicy:
    """Bounds of the server, each with its reason."""

    most_bytes: int = 256 * 2**20  # of an upload: a million rows of ten columns are about 100 MB
    most_form_bytes: int = 2**20  # of a form: the names of ten thousand columns
    free_bytes: int = 2**30  # of the disk that uploads leave to others
    most_kept: int = 300  # tables, and as many models: beyond, the oldest that are not at work go
    kept_seconds: float = 24 * 3600.0  # after which a table or a model is deleted
    tidy_seconds: float = 600.0  # between two looks at what is too old
    most_waiting: int = 200  # jobs in a lane: a person cannot mean more
    searches: int = 1  # at a time: one keeps all cores busy
    quick: int = 1  # readings, forecasts and predictions at a time
    quick_seconds: float = 120.0  # for one of them; the largest table that is allowed takes about a minute to read
    quick_jobs: int = 200  # of one process: then another takes its place, and what memory it had kept is free
    warm: bool = True  # processes begin before there is a job for them: nobody waits for their imports
    ready_seconds: float = 300.0  # for a process to be ready: the first of all compiles the numerical core
    checked_bytes: int = 16 * 2**20  # of a table whose rows are looked at before a search waits: within a few seconds
    most_columns: int = 400  # that a form shows; a table with more is for the command line
    seconds_choices: tuple[int, ...] = (10, 60, 600, 3600)  # for a search; a person waits for a minute
    usual_seconds: int = 60
    jobs: int = -1  # kernels that a search fits at a time; -1: as many as there are cores
    alone_seconds: float = 15.0  # up to which a search works alone: other processes take about five to begin
    most_steps: int = 1000  # of a forecast: a page shows no more
