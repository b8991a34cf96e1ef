"""What a row of docs/papers.md still wants: cells that are missing or of older code, and how long each may take."""

from __future__ import annotations

import argparse
import fnmatch
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import kfo, nkn
from benchmarks.machine import is_kept
from benchmarks.papers import cells
from benchmarks.papers.files import HERE, Place, load
from benchmarks.papers.read import last_change_of
from benchmarks.papers.row import Row

MODULES = {"papers": "benchmarks.papers.cells", "nkn": "benchmarks.nkn", "kfo": "benchmarks.kfo"}
LARGE = ("kin8nm", "power_plant", "naval")
# seconds that one is expected to take where none of its kind was measured
FITS = {"kin8nm": 280.0, "power_plant": 280.0, "naval": 280.0}
LARGE_CLASSES = {"credit": 330.0, "biodeg": 360.0, "contraceptive": 500.0, "car": 500.0, "phoneme": 500.0}
STEPS_OF_ADAM = {"yacht": 150.0, "boston": 300.0, "energy": 600.0, "concrete": 1000.0, "wine": 2900.0}  # 20,000 of them
MARGIN = 1.5  # what is expected, over the longest that was measured


@dataclass(frozen=True)
class Task:
    """One measurement: its file, its name there, the device it is for, and the seconds it is expected to take there."""

    file: str
    name: str
    device: str
    seconds: float


def all_names(file: str, place: Place = HERE) -> list[str]:
    """Return the cells that a file of results could have."""
    if file == "papers":
        return list(cells.all_cells(Path()))
    if file == "kfo":
        return list(kfo.jobs_of(kfo_settings(Path(), ",".join(kfo.PARTS)), {}))
    tables, methods = (*nkn.TABLES, *nkn.LARGE), ("nkn", "se", "sm4")
    other = [(table, method) for table in nkn.TABLES for method in nkn.OTHER_NETWORKS]
    random = [*((table, method) for table in tables for method in methods), *other]
    found = [f"random/{table}/{split}/{method}" for split in range(1, 11) for table, method in random]
    found += [f"pca/{table}/{method}" for table in tables for method in methods[:2]]
    found += [f"pca/{table}/{method}" for table, method in other]
    kept = kept_in("nkn", place)  # the parts that are measured whole
    return found + [name for name in kept if name.split("/")[0] not in ("random", "pca")]


def kept_in(file: str, place: Place = HERE) -> dict[str, Any]:
    """Return the cells that a file of results has."""
    return dict((load(f"{file}.json", place) or {}).get("results", {}))


def find_tasks(row: Row, older: str = "", place: Place = HERE) -> Iterator[Task]:
    """Yield what a row shows and has not, or has of older code, or from before a date."""
    for source in row.sources:
        file = source.file.removesuffix(".json")
        if file not in MODULES:
            continue
        kept, limit = kept_in(file, place), older or last_change_of(row, source, place)
        shown = [f.mercer.path.split("|")[1] for f in row.figures if f.mercer and f.mercer.file == source.file]
        for name in fnmatch.filter(all_names(file, place), source.cells):
            wanted = any(fnmatch.fnmatchcase(name, each) for each in shown)
            if wanted and not (name in kept and is_kept(kept[name], limit)):
                yield make_task(file, name, kept)


def make_task(file: str, name: str, kept: dict[str, Any]) -> Task:
    """Return a task with the time that cells of its kind took, the longest of them."""
    parts = name.split("/")
    table = parts[1] if len(parts) > 1 else ""
    by_adam = parts[0].startswith(("nkn-printed", "nkn-start"))
    large = (table in LARGE and parts[0] != "bbb") or (table, parts[-1]) == ("wine", "sm4")
    alike = fnmatch.filter(kept, "/".join("*" if part.isdigit() else part for part in parts))
    by_gpu = any(kept[each].get("device", "cpu") != "cpu" for each in alike)  # their seconds are those of a GPU
    device = "cuda" if large or by_gpu else "cpu"
    seconds = max((seconds_of(kept[each]) for each in alike), default=0.0)
    usual = STEPS_OF_ADAM if by_adam else FITS | LARGE_CLASSES
    return Task(file, name, device, MARGIN * seconds or usual.get(table, 100.0))


def describe_tasks(tasks: Sequence[Task], device: str) -> str:
    """Say how long measurements take: those of a GPU apart, also where there is none."""
    small = [task for task in tasks if task.device == "cpu"]
    large = [task for task in tasks if task.device != "cpu"]
    found = [f"{f'{len(small)} in ' if large else ''}{minutes_of(small)} of one core, likely less"] if small else []
    if large and device == "cpu":
        names = ", ".join(sorted({task.name.split("/")[1] for task in large}))
        found.append(f"{len(large)} of {names}, timed on a GPU only: hours to days without one (DEVICE=cuda)")
    elif large:
        found.append(f"{f'{len(large)} in ' if small else ''}{minutes_of(large)} of a GPU")
    return "; ".join(found)


def minutes_of(tasks: Sequence[Task]) -> str:
    minutes = math.ceil(sum(task.seconds for task in tasks) / 60.0)
    return f"about {minutes} minute{'' if minutes == 1 else 's'}"


def seconds_of(found: dict[str, Any]) -> float:
    """Return the processor's seconds of a measurement, or those of its methods together."""
    own = found.get("cpu_seconds") or found.get("cpu") or found.get("seconds") or 0.0
    return float(own) or sum(each.get("cpu_seconds", 0.0) for each in found.values() if isinstance(each, dict))


def kfo_settings(folder: Path, part: str, only: str = "", splits: str = "0-9") -> argparse.Namespace:
    return argparse.Namespace(data=folder, part=part, only=only, splits=splits)
