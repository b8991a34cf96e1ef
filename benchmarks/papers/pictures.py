"""Whether the picture of a row is as young as its numbers.

A run measures first and draws last, so that a stop in between leaves new numbers beside an old picture. When a file was
written does not survive git; so benchmarks/results/pictures.json says when each picture was drawn. One that it does not
name has not been drawn since this is kept: it is taken to be of its row's newest numbers, until a run begins.
"""

from __future__ import annotations

from benchmarks.machine import now
from benchmarks.papers.files import HERE, Place, read_json, write_json


def is_drawn(picture: str, newest: str, place: Place = HERE) -> bool:
    """Tell whether a picture is there, and was drawn when its row's newest number was there."""
    return (place.results / picture).exists() and read_dates(place).get(picture, newest) >= newest


def begin(picture: str, newest: str, place: Place = HERE) -> int:
    """Keep that what is measured from now on is not in a picture; return when its file was written, 0 for none."""
    dates = read_dates(place)
    if picture not in dates:
        write_json(place.pictures, dates | {picture: newest})
    return written(picture, place)


def end(picture: str, before: int, place: Place = HERE) -> None:
    """Keep that a picture was drawn, where its file was written since `begin`."""
    if written(picture, place) != before:
        write_json(place.pictures, read_dates(place) | {picture: now()})


def read_dates(place: Place = HERE) -> dict[str, str]:
    """Return when pictures were drawn."""
    return dict(read_json(place.pictures) or {})


def written(picture: str, place: Place = HERE) -> int:
    """Return when a file was written, in nanoseconds; 0 for none."""
    path = place.results / picture
    return path.stat().st_mtime_ns if path.exists() else 0
