"""The page in the browser under load: `python -m benchmarks.app` (`make bench-app`), some minutes.

A server as users have it, in a process of its own. How long from the drop of a file to the first picture, and from the
start of a search to its first fit (in Chromium); 50 uploads at once; 200 in a row, each deleted again, and 330 more
that are left to the server, with memory and disk before and after. The table goes to benchmarks/results/app.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.app.browser import CHROMIUM, browsing
from tests.app.conftest import Site

from benchmarks import machine
from mercer.app.store import Store
from mercer.datasets import airline

RESULT = Path(__file__).parent / "results" / "app.md"
AT_ONCE, IN_A_ROW, PICTURES = 50, 200, 5
MORE = 330  # that are not deleted: more than the server keeps
FIRST = 60  # in a row before memory is measured: until caches are as they stay
LIMIT = 3.0  # seconds from the drop of a file to the first picture
SETTLED = 1.1  # memory after the work, relative to before: what Python keeps for the next time
BY_HAND = "\n## Looked at by hand\n"  # what follows is kept
END = [
    "",
    "Memory is what the system counts as resident: of the server alone, and with the process that reads tables and the",
    "one that is ready for the next search. Of tables that are not deleted the server keeps the last 300, for a day.",
    "",
]


@contextmanager
def running(folder: Path) -> Iterator[tuple[Site, subprocess.Popen[str]]]:
    """Give a server with the settings that users have, ready and warm."""
    command = [sys.executable, "-m", "mercer", "app", "--folder", str(folder), "--no-browser"]
    process = subprocess.Popen(command, text=True, stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.readline()
    store = Store(folder)
    site = Site(store, store.port)
    try:
        yield site, process
    finally:
        process.kill()
        process.wait()


def find_family(parent: int) -> list[int]:
    """Return a process and all that descend from it."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = [parent]
    for each in family:
        family += [child for child, of in parents.items() if of == each]
    return family


def measure_memory(process: int) -> tuple[float, float]:
    """Return the megabytes of the server, and of it with its processes."""

    def resident(number: int) -> float:
        try:
            lines = Path(f"/proc/{number}/status").read_text().splitlines()
        except OSError:
            return 0.0
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)

    return resident(process), sum(resident(each) for each in find_family(process))


def measure_disk(folder: Path) -> tuple[int, float]:
    """Return files and megabytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files) / 2**20


def show_pictures(site: Site, file: Path, work: Path) -> tuple[list[float], list[float]]:
    """Return seconds to the first picture of a dropped file, and of a search to its first fit, by the browser."""
    pictures, fits = list[float](), list[float]()
    with browsing(work / "profile") as browser:
        browser.resize(1200)
        for number in range(PICTURES):
            browser.open(f"{site.base}/")
            started = time.perf_counter()
            browser.choose_file("#file", file)
            browser.wait("document.querySelector('svg[data-chart] .c-dots')")
            pictures.append(time.perf_counter() - started)
            if number:
                continue
            browser.evaluate("document.querySelector('#field-seconds').value = '10'")
            started = time.perf_counter()
            browser.evaluate("document.querySelector('form[action$=search] button').click()")
            browser.wait("document.querySelector('[data-is=picture] .c-mean')")
            fits.append(time.perf_counter() - started)
            browser.wait("document.querySelector('#predict')", 120)
            time.sleep(8.0)  # the next process gets ready
    return pictures, fits


def upload_at_once(site: Site, content: str) -> tuple[int, float, float]:
    """Return how many of many uploads at once were read, and the seconds until all were answered, and read."""
    started = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as people:
        answers = list(people.map(lambda number: site.upload(f"table{number}.csv", content), range(AT_ONCE)))
    answered = time.perf_counter() - started
    paths = {answer.json["place"].removeprefix(f"/{site.store.token}") for answer in answers if answer.status == 201}
    read = sum(site.wait(path, "reading")["status"] == "read" for path in paths)
    seconds = time.perf_counter() - started
    for path in paths:
        site.post(f"{path}/delete")
    return read, answered, seconds


def upload_in_a_row(site: Site, content: str, count: int, delete: bool) -> float:
    """Upload and read a table many times; return the seconds for one."""
    started = time.perf_counter()
    for number in range(count):
        path = site.read(f"table{number}.csv", content)
        if delete:
            site.post(f"{path}/delete")
    return (time.perf_counter() - started) / count


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.app", description=__doc__)
    parser.add_argument("--report", type=Path, default=RESULT)
    options = parser.parse_args()
    rows, failures = list[str](), list[str]()
    before = options.report.read_text() if options.report.exists() else ""
    by_hand = "".join(before.partition(BY_HAND)[1:])
    head = [
        "# The page in the browser", "",
        f"{machine.describe()['date']}, {machine.processor()}, {os.cpu_count()} cores, load average {machine.load()}.",
        "`make bench-app`.", "", "| what | asked | found |", "|---|---|---|",
    ]  # fmt: skip

    def note(what: str, asked: str, found: str, good: bool = True) -> None:
        rows.append(f"| {what} | {asked} | {found} |")
        print(f"{what}: {found}" + (f" (asked: {asked})" if asked else ""), flush=True)
        if not good:
            failures.append(what)
        # a run that is cut off has written what it found
        options.report.write_text("\n".join([*head, *rows, *END]) + by_hand)

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        file = work / "airline.csv"
        airline().to_csv(file, index=False)
        content = file.read_text()
        with running(work / "app") as (site, process):
            site.post(f"{site.read('warm.csv', content)}/delete")
            if CHROMIUM is not None:
                pictures, fits = show_pictures(site, file, work)
                found = f"{statistics.median(pictures):.2f} s (median of {len(pictures)}; slowest {max(pictures):.2f})"
                good = max(pictures) <= LIMIT
                note("drop of the file to the first picture, airline", f"at most {LIMIT:g} s", found, good)
                note("start of a search to its first fit", "", f"{fits[0]:.1f} s")
            for path in [f"/table/{each['name']}" for each in site.store.list("tables")]:
                site.post(f"{path}/delete")
            for path in [f"/model/{each['name']}" for each in site.store.list("models")]:
                site.post(f"{path}/delete")
            read, answered, seconds = upload_at_once(site, content)
            told = f"{read} read; all answered after {answered:.1f} s, read after {seconds:.1f} s"
            note(f"{AT_ONCE} uploads at once", "none lost", told, read == AT_ONCE)
            measure_row(site, process.pid, content, note)
    return 1 if failures else 0


def measure_row(site: Site, process: int, content: str, note: Callable[..., None]) -> None:
    """Measure memory and disk around many uploads in a row."""
    upload_in_a_row(site, content, FIRST, delete=True)
    (own, family), (files, size) = measure_memory(process), measure_disk(site.store.folder)
    each = upload_in_a_row(site, content, IN_A_ROW, delete=True)
    (own_after, family_after), (files_after, size_after) = measure_memory(process), measure_disk(site.store.folder)
    note(f"{IN_A_ROW} uploads in a row, each deleted", "", f"{each:.2f} s each")
    good = own_after <= SETTLED * own and family_after <= SETTLED * family
    told = f"{own:.0f} MB before, {own_after:.0f} MB after; with its processes {family:.0f} and {family_after:.0f} MB"
    note("memory of the server", "where it was", told, good)
    told = f"{files} files, {size:.2f} MB before; {files_after} files, {size_after:.2f} MB after"
    note("disk", "where it was", told, files_after == files)
    upload_in_a_row(site, content, MORE, delete=False)
    tables = len(site.store.list("tables"))
    (own_left, _), (files_left, size_left) = measure_memory(process), measure_disk(site.store.folder)
    told = f"{tables} tables are kept: {files_left} files, {size_left:.1f} MB; memory of the server {own_left:.0f} MB"
    note(f"{MORE} more, not deleted", "bounded", told, tables <= 301)  # and the one at work


if __name__ == "__main__":
    sys.exit(main())
