"""Which files of the data folder the commands of a row read: what is missing is said before anything runs.

The folder itself is described in benchmarks/README.md.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Iterable
from pathlib import Path

from benchmarks import kfo, nkn, scale, textures
from benchmarks.papers import cells
from benchmarks.papers.row import Row

SPLITS = "regression/splits_nkn.json"
PUBLISHED = "../reference.json"  # beside the folder: published numbers, for the report at the end of benchmarks.nkn
CELLS = {  # what kinds of cells of benchmarks.papers.cells read, * being the second part of their names
    "bbb": ("regression/*.csv", SPLITS),
    "sm": ("regression/*.csv", SPLITS),
    "sm4-start": ("regression/*.csv", SPLITS),
    "nkn-printed*": ("regression/*.csv", SPLITS),
    "first-loss": ("regression/*.csv",),
    "nkn-nested": ("regression/*.csv",),
    "*-start*": ("regression/*.csv",),
    "alpha-*": ("regression/*.csv",),
    "fkl-*": ("regression/*.csv",),
    "classes*": ("classification/*.csv",),
    "shares": ("classification/*.csv",),
    "cks": ("timeseries/*.csv",),
    "surface": ("change/synth_changesurface_2d.csv",),
}
SURFACES = {  # parts of benchmarks.surfaces
    "synthetic": ("change/synth_changepoint_1d.csv", "change/synth_changesurface_2d.csv"),
    "real": ("change/nile.csv", "change/coal_disasters_annual.csv", "change/seatbelts.csv"),
    "measles": ("change/us_measles_state_year.csv",),
}


def check_data(row: Row, data: Path) -> None:
    """Refuse a folder that lacks a file which the commands of a row read."""
    needed = files_of_row(row)
    missing = [name for name in needed if not is_file(data / name)]
    if not missing:
        return
    where = "which lacks" if data.is_dir() else "but there is no such folder: it lacks"
    raise SystemExit(
        f"{row.item} reads {len(needed)} files of the data folder {data}, {where} {', '.join(missing)} (missing, or "
        "empty). Give DATA=FOLDER that has them: benchmarks/README.md, The data folder"
    )


def is_file(path: Path) -> bool:
    """Tell whether there is a file with something in it."""
    return path.is_file() and path.stat().st_size > 0


def files_of_row(row: Row) -> list[str]:
    """Return the files that the commands of a row read, by their paths in the data folder."""
    return list(dict.fromkeys(name for command in row.commands for name in files_of(shlex.split(command))))


def files_of(command: list[str]) -> list[str]:
    """Return the files that a command reads."""
    module, part, only = command[2].removeprefix("benchmarks."), option(command, "--part"), option(command, "--only")
    names = only.split(",") if only else []
    if module == "papers.cells":
        patterns = [each for each in command[command.index("--cells") + 1 :] if not each.startswith("--")]
        chosen = cells.choose(cells.all_cells(Path()), patterns)
        return [file for name in chosen for file in files_of_cell(name)]
    if module == "nkn":
        return [*files_of_networks(part, names), PUBLISHED]
    if module == "kfo":
        return files_of_functionals(part, names)
    if module == "discovery":
        return series_of(names) if part in ("extrapolation", "interpolation") else []
    if module == "surfaces":
        return list(SURFACES.get(part, ()))
    if module == "scale":
        return [scale.FILES[name] for name in (["power_plant"] if part == "search" else names or scale.BRACKETS)]
    return [f"textures/{name}.png" for name in textures.PICTURES] if module == "textures" else []


def files_of_cell(name: str) -> list[str]:
    """Return the files that a cell of benchmarks.papers.cells reads; most kinds make their data."""
    kind, _, rest = name.partition("/")
    found = [files for pattern, files in CELLS.items() if fnmatch.fnmatchcase(kind, pattern)]
    return [file.replace("*", rest.split("/")[0]) for files in found[:1] for file in files]


def files_of_networks(part: str, only: list[str]) -> list[str]:
    """Return the files that a part of benchmarks.nkn reads; figure1 and recovery make their data."""
    if part in ("random", "pca"):
        return [*paths("regression", only or nkn.TABLES), SPLITS]
    if part == "seconds":
        return paths("timeseries", nkn.SHORT.values())
    return series_of(only) if part == "series" else []


def files_of_functionals(part: str, only: list[str]) -> list[str]:
    """Return the files that a part of benchmarks.kfo reads; waves and the line are made."""
    folders = {
        "classification": ("classification", kfo.CLASSES),
        "seconds": ("classification", kfo.TIMED),
        "regression": ("regression", kfo.TABLES),
    }
    folder, names = folders.get(part, ("", ()))
    return paths(folder, [name for name in names if not only or name in only])


def series_of(only: list[str]) -> list[str]:
    """Return the files of series, of all or of some by their numbers."""
    return paths("timeseries", [name for name in cells.SERIES if not only or name[:2] in only])


def paths(folder: str, names: Iterable[str]) -> list[str]:
    return [f"{folder}/{name}.csv" for name in names]


def option(command: list[str], name: str) -> str:
    """Return what is given for an option of a command; "" where it is not given."""
    return command[command.index(name) + 1] if name in command else ""
