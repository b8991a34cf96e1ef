"""On what machine, with which libraries, and how busy: without this a figure means nothing."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import hashlib
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Any

PACKAGES = ("mercer", "numpy", "scipy", "numba", "torch", "gpytorch", "botorch", "optuna", "scikit-learn", "GPy")


def describe() -> dict[str, Any]:
    """Return the machine, the versions and the state of the code as plain values."""
    return {
        "date": now(),
        "code": code(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "usable cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory GB": round(_meminfo("MemTotal") / 1e6, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "blas": blas(),
        "versions": {name: _version(name) for name in PACKAGES},
        "load average": load(),
    }


CODE = "code"  # how the line of a description begins that names the state of the package
SHOWN = ("report", "cli")  # rooms of the package that no figure depends on
NEVER = "9999"  # a date after all others: what is older than that is everything


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def read_date(text: str) -> str:
    """Return a date as it was given, for argparse; "" is none, and what `now` could not have written is refused."""
    form = "%Y-%m-%d %H:%M" if " " in text else "%Y-%m-%d"
    try:
        known = datetime.datetime.strptime(text, form).strftime(form)
    except ValueError:
        known = ""
    if text != known:  # dates are compared as texts, so 2026-1-5 will not do
        raise argparse.ArgumentTypeError(
            f"{text!r} is no date: give YYYY-MM-DD or 'YYYY-MM-DD HH:MM' in UTC, such as 2026-11-18"
        )
    return text


def read_past(text: str) -> str:
    """Return a date that is not to come, for argparse: what is measured now would be older than that at once."""
    today = now().removesuffix(" UTC")
    if read_date(text) > today[: len(text)]:
        raise argparse.ArgumentTypeError(
            f"{text!r} is still to come, and what is measured now would be older than that too: to measure again all "
            f"that there is, give the time that it is now in UTC, '{today}'"
        )
    return text


def read_dates(text: str) -> str:
    """Return a date, or one for each kind of measurement with commas between, as `is_kept` takes them."""
    for each in text.split(","):
        read_date(each.rpartition("=")[2])
    return text


def code() -> str:
    """Name the state of the package: cells of different states are not one measurement, and the report says so."""
    import mercer

    root = Path(mercer.__file__).parent
    return hash_code({path.relative_to(root): path.read_bytes() for path in root.rglob("*.py")})


def hash_code(files: Mapping[PurePath, bytes]) -> str:
    """Return a short hash of the package's files, given by their paths in it."""
    kept = sorted(path for path in files if path.parts[0] not in SHOWN)
    return hashlib.sha1(b"".join(files[path] for path in kept)).hexdigest()[:8]


def circumstances() -> dict[str, str]:
    """Return what every measurement is kept with: its date, the machine and the state of the code."""
    return {"date": now(), "machine": f"{processor()}, {os.cpu_count()} cores", "code": code()}


def is_kept(found: dict[str, Any], older: str = "", name: str = "") -> bool:
    """Tell whether a measurement stays: it was made at this date or later.

    `older`: a date for all, or one for each kind with commas between, "random/*/nkn=2026-11-19,sm/*=2026-11-18"; what
    is of no kind that is named stays.
    """
    kinds = [each.rpartition("=") for each in older.split(",")]
    dates = [date for kind, _, date in kinds if not kind or fnmatch.fnmatchcase(name, kind)]
    return bool(found.get("date", "") >= max(dates, default=""))


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def blas() -> list[str]:
    """Return the BLAS of SciPy and NumPy, and what else runs threads."""
    import scipy.linalg.lapack  # noqa: F401  (loads its BLAS)
    from threadpoolctl import threadpool_info

    found = []
    for pool in threadpool_info():
        home, kind = Path(pool["filepath"]).parent.name, pool.get("architecture", "")
        found.append(f"{home}: {pool['internal_api']} {pool['version']} {kind}".strip())
    return found


def load() -> float:
    """Return the load average of the last minute: well above zero before a run means a noisy run."""
    return round(os.getloadavg()[0], 2)


def lines(machine: dict[str, Any]) -> list[str]:
    """Return the description as lines of text."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return [
        f"date        {machine['date']}",
        f"processor   {machine['processor']}, {machine['usable cores']} of {machine['cores']} cores, "
        f"{machine['memory GB']} GB; {machine['system']}",
        f"blas        {'; '.join(machine['blas'])}",
        f"versions    Python {machine['python']}, {versions}",
        f"load        {machine['load average']} before the run",
        *([f"{CODE}        {machine['code']}"] if "code" in machine else []),
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _meminfo(field: str) -> int:
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return 0
    return next((int(line.split()[1]) for line in meminfo.read_text().splitlines() if line.startswith(field)), 0)
