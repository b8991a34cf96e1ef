"""The figures of benchmarks/optimise.py as tables: against what was asked, the published curves, and the peers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.machine import CODE
from benchmarks.machine import lines as machine_lines
from benchmarks.optimise_functions import FIRST, FUNCTIONS, OTHERS, PAPER, draw_rotation, make_function
from benchmarks.optimise_methods import METHODS

AT = (10, 30, 60, 90, 110, 120, 140, 160, 180, 200)  # evaluations at which curves are compared
# Sun et al. (2018), Figure 4, read from the vector curves of the authors' results: mean of ten runs by iteration.
STEPS = (0, 25, 50, 75, 100, 125, 150, 175, 200)
PUBLISHED = {
    "styblinski": {
        "RBF": (-226.8308, -288.1434, -309.8717, -316.074, -325.9385, -333.7611, -334.4946, -336.1129, -336.3041),
        "NKN": (-233.6737, -289.421, -316.1576, -333.8159, -339.8331, -347.7484, -349.3579, -349.6192, -350.1303),
        "oracle": (-226.8308, -304.7214, -337.5993, -344.1942, -345.4301, -348.8694, -350.4329, -350.7669, -350.7669),
    },
    "michalewicz": {
        "RBF": (-2.1309, -2.684, -3.6096, -3.6542, -3.8917, -4.2597, -4.3996, -4.5882, -4.7239),
        "NKN": (-2.3938, -3.18, -3.8308, -4.149, -4.6597, -4.7853, -5.1322, -5.258, -5.3726),
        "oracle": (-2.1783, -3.6104, -4.213, -4.7037, -4.9197, -5.0094, -5.3345, -5.3635, -5.5063),
    },
    "rotated-centred": {
        "RBF": (-194.8354, -261.4916, -268.0573, -285.9155, -302.8748, -310.4492, -321.3387, -325.2865, -331.2617),
        "NKN": (-134.5513, -255.8602, -291.4571, -320.1609, -340.0893, -348.6131, -351.8819, -358.9733, -359.9358),
        "oracle": (-197.3577, -271.5192, -323.2404, -347.0349, -356.0159, -357.5512, -358.7047, -360.7074, -362.8072),
    },
}
TITLES = {
    "styblinski": "Styblinski-Tang, 10 inputs on [-4, 4] (minimum -391.66)",
    "michalewicz": "Michalewicz, 10 inputs on [0, pi], m = 10 (minimum -9.66)",
    "rotated": "rotated Styblinski-Tang on [-5, 5] (minimum -391.66)",
    "rotated-centred": "rotated Styblinski-Tang in the authors' box, whose centre is the minimum (-391.66)",
}
ASKED = (("styblinski", 120, -385.0), ("styblinski", 200, -390.0), ("michalewicz", 200, -8.0), ("rotated", 200, -375.0))
GROUPS_ASKED = {"styblinski": 0.9, "rotated": 0.7}
RIVALS = ("botorch", "optuna-gp")
EVERY = 10  # evaluations between two values of a curve that is kept
EQUAL = 1e-3  # of the spread: smaller regrets count as equal
GAIN = 0.01  # of the spread: smaller gains are not judged
LOOK, END = 100, 200

PROTOCOL = """
Every method is given the same 10 uniform random points of run k (`numpy.random.default_rng(k)`), then asks for one
point at a time up to 200 evaluations; nothing is said about structure (but to `paper-oracle`). Seed k is that of the
method, and of the function where it is random. Default settings; one thread for each run, several runs at a time.

- `mercer`: `mercer.Optimizer(bounds, random_state=k)`; `mercer-nkn`: with `kernel="nkn"`.
- `botorch`: SingleTaskGP and LogExpectedImprovement, inputs scaled to [0, 1], `optimize_acqf` with 10 restarts of 512
  raw samples; categories as columns of zeros and ones by `optimize_acqf_mixed`, whole numbers rounded.
  `botorch-additive`: OrthogonalAdditiveGP, 120 evaluations and one run, because a step takes 10 to 20 s.
- `optuna-gp`, `optuna-tpe`: Optuna's GPSampler and TPESampler, the first points added as finished trials.
- `paper-...`: the NKN paper's kernels and acquisition (expected improvement over 10,000 uniform candidates, fully
  dependent or Model-MCMC), see benchmarks/optimise_paper.py. The paper says that all kernels share one lengthscale; its
  code for Figure 4 has one for each input, so that `paper-ard` is what the published RBF curve shows.

Rotated Styblinski-Tang: f(Q x), Q orthogonal within random groups of at most three inputs, redrawn until the minimum
lies inside [-5, 5]^10 and each input of it at least 1 from the centre. The authors' box reaches 3 to each side of the
minimum. Ackley's box is [-32.768, 16.384], so that its centre is not the minimum; Rosenbrock's is [-2.048, 2.048];
Levy's function is a sum over single inputs, too. `sparse20`: Hartmann's function of 4 of 20 inputs. `boosting`:
scikit-learn's gradient boosting on the diabetes table, 6 inputs (one logarithmic, three whole, one of three
categories), root mean squared error of three folds. `svc`: its support vector machine on the digits, 3 inputs (two
logarithmic, one of three categories), share of errors of three folds.

Simple regret: the best value found less the minimum; where that is not known, less the best value that any method
found. Spread: the standard deviation of the function at uniform random points, those of the random search among them.

Mercer's runs are of 2026-11-18 (16 cores of an Intel Xeon; Styblinski-Tang, Michalewicz and rotated 6 to 9 two cores of
an AMD EPYC), but for sparse20 1 to 5 and rotated-centred 2 to 4, which are of the two days before. After
them batches, words about noise, first guesses and checkpoints were mended, and equalities were added, which single asks
in a run without constraints do not pass.
"""


class Runs(NamedTuple):
    """Summaries of complete runs: function -> method -> run -> summary."""

    records: dict[str, dict[str, dict[int, dict[str, Any]]]]

    def of(self, function: str, method: str) -> list[dict[str, Any]]:
        """Return the complete runs of a method on a function, in order."""
        return [record for _, record in sorted(self.records.get(function, {}).get(method, {}).items())]

    def methods(self, functions: Iterable[str]) -> list[str]:
        """Return the methods that have runs on some functions."""
        return [name for name in METHODS if any(self.of(function, name) for function in functions)]

    def all(self) -> list[dict[str, Any]]:
        return [record for function in FUNCTIONS for method in METHODS for record in self.of(function, method)]


def summarise(record: dict[str, Any]) -> dict[str, Any]:
    """Return a run without its points: all that the tables need, small enough to keep."""
    random = record["values"] if record["method"] == "random" else record["values"][:FIRST]
    return {
        "function": record["function"], "method": record["method"], "run": record["run"],
        "best": [float(f"{v:.6g}") for v in np.minimum.accumulate(record["values"])[EVERY - 1 :: EVERY]],
        "spread": float(np.std(random)), "at random": len(random),
        "seconds": round(find_seconds(record), 4), "evaluate": round(record["evaluate"], 1),
        "facts": record["facts"], "facts at look": record.get("facts at look", {}),
        "machine": machine_lines(record["machine"]), "words": record.get("words", "") if record["run"] == 0 else "",
    }  # fmt: skip


def read_runs(folder: Path, kept: Path) -> Runs:
    """Read the summaries that are kept, and the complete runs of a folder, which take their places."""
    summaries = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else []
    for path in sorted(folder.glob("*--*--*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if len(record["values"]) >= record["calls"]:
            summaries.append(summarise(record))
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for each in summaries:
        found.setdefault(each["function"], {}).setdefault(each["method"], {})[each["run"]] = each
    return Runs(found)


def best_after(summary: dict[str, Any], evaluations: int) -> float:
    """Return the best value after this many evaluations, a multiple of ten; NaN where there were fewer."""
    place, rest = divmod(evaluations, EVERY)
    if rest:
        raise ValueError(f"curves are kept at multiples of {EVERY} evaluations, not at {evaluations}")
    return float(summary["best"][place - 1]) if len(summary["best"]) >= place else math.nan


def average(numbers: Iterable[float], how: Callable[[Any], Any] = np.mean) -> float:
    """Return the mean (or another summary) of the numbers that there are; NaN of none."""
    known = [number for number in numbers if not math.isnan(number)]
    return float(how(known)) if known else math.nan


def write_number(number: float, digits: int = 4) -> str:
    return "" if math.isnan(number) else f"{number:.{digits}g}"


def interpolate(curve: tuple[float, ...], evaluations: int) -> float:
    return float(np.interp(evaluations - FIRST, STEPS, curve))


def write_table(header: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)] + [""]


def answer(yes: bool | None) -> str:
    return {None: "not measured", True: "yes", False: "**no**"}[yes]


# ------------------------------------------------------------------------------------------------ the paper's functions


def report_curves(runs: Runs) -> list[str]:
    """Return a table for each of the paper's functions, and the means that were asked for."""
    parts = ["## The paper's functions: mean of the best value", ""]
    rows = []
    for function, evaluations, limit in ASKED:
        found = runs.of(function, "mercer")
        mean = average(best_after(record, evaluations) for record in found)
        reached = None if math.isnan(mean) else mean <= limit
        rows.append([function, str(evaluations), str(len(found)), write_number(mean, 5), f"{limit:g}", answer(reached)])
    parts += write_table(["function", "evaluations", "runs", "Mercer", "asked: at most", "reached"], rows)
    for function in PAPER:
        methods = runs.methods([function])
        if not methods:
            continue
        rows = []
        for method in methods:
            found = runs.of(function, method)
            means = [average(best_after(record, evaluations) for record in found) for evaluations in AT]
            deviation = average((best_after(record, AT[-1]) for record in found), np.std)
            rows.append([method, str(len(found)), *(write_number(m) for m in means), write_number(deviation, 3)])
        for kernel, curve in PUBLISHED.get(function, {}).items():
            rows.append([f"published {kernel}", "10", *(write_number(interpolate(curve, at)) for at in AT), ""])
        parts += [f"### {TITLES[function]}", ""]
        parts += write_table(["method", "runs", *(f"after {at}" for at in AT), "sd of the last"], rows)
    parts += [
        "Published: Figure 4, at iterations 0, 25, ..., after the ten random points; in between by straight lines. The",
        "curves of Figure 12 (RBF + RBF, Model-MCMC) are not published as numbers. The published rotated function had",
        "the authors' box and groups of any size.",
        "",
    ]
    return parts


def find_true_groups(record: dict[str, Any]) -> bool | None:
    """Tell whether the most probable partition is the true one; None where the method names none."""
    partitions, true = record["facts"].get("partitions"), make_function(record["function"], record["run"]).groups
    if not partitions or true is None:
        return None
    return {frozenset(group) for group in partitions[0]["groups"]} == {frozenset(group) for group in true}


def report_groups(runs: Runs) -> list[str]:
    rows = []
    for function in FUNCTIONS:
        for method in runs.methods([function]):
            found = [record for record in runs.of(function, method) if find_true_groups(record) is not None]
            if not found:
                continue
            right = sum(bool(find_true_groups(record)) for record in found)
            share = average(record["facts"]["partitions"][0]["probability"] for record in found)
            wanted = GROUPS_ASKED.get(function) if method == "mercer" else None
            reached = "" if wanted is None else answer(right >= wanted * len(found))
            limit = "" if wanted is None else f"{wanted:.0%}"
            rows.append([function, method, f"{right} of {len(found)}", write_number(share, 3), limit, reached])
    header = ["function", "method", "runs with the true groups", "mean probability of the first", "asked", "reached"]
    return [
        "## Groups: is the most probable partition after the last evaluation the true one?",
        "",
        *write_table(header, rows),
        *describe_misses(runs.of("rotated", "mercer")),
    ]


def describe_misses(records: Sequence[Any]) -> list[str]:
    """Say by how much the rotation joins inputs of a true group that were found apart."""
    lines = []
    for record in records:
        found = [set(group) for group in record["facts"]["partitions"][0]["groups"]]
        _, rotation = draw_rotation(record["run"])
        for group in make_function("rotated", record["run"]).groups or ():
            parts = [sorted(part & set(group)) for part in found if part & set(group)]
            if len(parts) > 1:
                joins = max(np.abs(rotation[np.ix_(a, b)]).max() for a in parts for b in parts if a != b)
                lines.append(f"run {record['run']}: {group} as {parts}, which the rotation joins by {joins:.3f}")
    if not lines:
        return []
    return [
        "", "True groups of the rotated function that were found in parts, with the largest number of the rotation",
        "that joins the parts (0: it does not, and the function is a sum over them; 0.71 between two inputs: as much",
        "as can be):", "", *(f"- {line}" for line in lines),
    ]  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- the others


def measure_spread(runs: Runs, function: str) -> float:
    """Return the standard deviation of a function at random points: random search, or what all runs begin with."""
    measured = [each for each in runs.of(function, "random") if each["at random"]] or [
        each for method in runs.methods([function]) for each in runs.of(function, method) if each["at random"]
    ]
    return float(np.sqrt(np.mean([each["spread"] ** 2 for each in measured]))) if measured else math.nan


def find_least(runs: Runs, function: str) -> float:
    """Return the minimum, or the best value that any method found."""
    known = make_function(function, 0).minimum
    if known is not None:
        return known
    found = [record["best"][-1] for method in runs.methods([function]) for record in runs.of(function, method)]
    return min(found, default=math.nan)


def find_regret(runs: Runs, function: str, method: str, evaluations: int = END) -> float:
    """Return the median simple regret over the runs."""
    least = find_least(runs, function)
    return average((best_after(record, evaluations) - least for record in runs.of(function, method)), np.median)


def judge(ours: float, rivals: list[float], floor: float) -> tuple[bool | None, bool | None]:
    """Tell whether a regret is no worse than the best of the rivals', and whether it is within a factor of two."""
    known = [rival for rival in rivals if not math.isnan(rival)]
    if math.isnan(ours) or len(known) < len(rivals):
        return None, None
    ours, best = max(ours, floor), max(min(known), floor)
    return ours <= best * (1 + 1e-12), ours <= 2.0 * best * (1 + 1e-12)


def report_regrets(runs: Runs) -> list[str]:
    parts = [f"## Other functions: median simple regret after {END} evaluations", ""]
    methods, rows, verdicts = runs.methods(OTHERS), [], []
    for function in OTHERS:
        spread = measure_spread(runs, function)
        regrets = {method: find_regret(runs, function, method) for method in methods}
        nan = math.nan
        no_worse, near = judge(regrets.get("mercer", nan), [regrets.get(r, nan) for r in RIVALS], EQUAL * spread)
        verdicts.append((no_worse, near))
        counts = [
            f"{write_number(regrets[m], 3)} ({len(runs.of(function, m))})" if runs.of(function, m) else ""
            for m in methods
        ]
        rows.append([function, write_number(spread, 3), *counts, answer(no_worse), answer(near)])
    header = ["function", "spread", *methods, "no worse", "within a factor of two"]
    parts += write_table(header, rows)
    judged = [each for each in verdicts if each[0] is not None]
    worse, near = sum(bool(a) for a, _ in judged), sum(bool(b) for _, b in judged)
    parts += [
        "In brackets the number of runs. No worse: than the best of BoTorch and Optuna's GPSampler; regrets below",
        f"{EQUAL:g} of the spread count as equal.",
        "",
        f"- no worse on {worse} of {len(judged)} functions judged (asked: 5 of 8)",
        f"- within a factor of two on {near} of {len(judged)} (asked: all 8)",
        "",
    ]
    return parts


# --------------------------------------------------------------------------------------------------- times and promises


def find_seconds(record: dict[str, Any]) -> float:
    """Return the median time of ask and tell together over the last 20 evaluations that were asked for."""
    return float(np.median(np.add(record["ask"], record["tell"])[FIRST:][-20:]))


def report_seconds(runs: Runs, folder: Path) -> list[str]:
    methods = runs.methods(FUNCTIONS)
    parts, rows = ["## Seconds for one ask and tell, median of the last 20 evaluations", ""], []
    for function in FUNCTIONS:
        seconds = {
            method: average((record["seconds"] for record in runs.of(function, method)), np.median)
            for method in methods
        }
        if all(math.isnan(each) for each in seconds.values()):
            continue
        ratio = seconds.get("mercer", math.nan) / (seconds.get("botorch") or math.nan)
        rows.append([function, *(write_number(seconds[method], 2) for method in methods), write_number(ratio, 2)])
    parts += write_table(["function", *methods, "mercer / botorch"], rows)
    timed = folder / "ask.json"
    if not timed.exists():
        return [*parts, "One ask with the same points told to each in turn is not measured yet (`--ask`).", ""]
    record = json.loads(timed.read_text(encoding="utf-8"))
    parts += [
        "One ask and tell after random points of Styblinski-Tang, methods in turn in one process (`--ask`), the median",
        "of five; the first has nothing to begin from but the points, and Mercer looks for the structure then:",
        "",
    ]
    for count, each in record["seconds"].items():
        medians = {name: float(np.median(seconds)) for name, seconds in each.items()}
        shown = [f"{name} {value:.3g} s (the first {each[name][0]:.3g} s)" for name, value in medians.items()]
        parts.append(f"- {count} points: {', '.join(shown)}")
        if count == str(END) and {"mercer", "botorch"} <= set(medians):
            ratio = medians["mercer"] / medians["botorch"]
            parts.append(
                f"- mercer / botorch at {count} points: {ratio:.2g} (asked: at most 0.5): {answer(ratio <= 0.5)}"
            )
        if count == "2000" and "mercer" in medians:
            most = medians["mercer"]
            parts.append(
                f"- mercer at 2000 points: {most:.3g} s (asked: at most 1 s on 2 cores): {answer(most <= 1.0)}"
            )
    return [*parts, "", *(f"    {line}" for line in machine_lines(record["machine"])), ""]


def report_gain(runs: Runs) -> list[str]:
    """Compare the further gain that was expected after 100 evaluations with what came."""
    rows, factors = [], []
    for function in FUNCTIONS:
        spread, ratios = measure_spread(runs, function), []
        for record in runs.of(function, "mercer"):
            expected = record.get("facts at look", {}).get("expected gain")
            gain = best_after(record, LOOK) - best_after(record, END)
            if expected is not None and gain > GAIN * spread:
                ratios.append(max(expected, 1e-300) / gain)
        if ratios:
            rows.append([function, str(len(ratios)), write_number(average(ratios, np.median), 3)])
            factors += [max(ratio, 1.0 / ratio) for ratio in ratios]
    parts = [f"## Further gain expected at evaluation {LOOK}, over what the next {END - LOOK} gained", ""]
    parts += write_table(["function", "runs that gained more than 1 % of the spread", "median ratio"], rows)
    middle = average(factors, np.median)
    verdict = answer(None if math.isnan(middle) else middle <= 3.0)
    return [*parts, f"- median factor by which it is off: {write_number(middle, 3)} (asked: at most 3): {verdict}", ""]


def report_words(runs: Runs) -> list[str]:
    parts = []
    for function in PAPER[:3]:
        for record in runs.of(function, "mercer")[:1]:
            if record.get("words"):
                parts += [f"### {function}, run {record['run']}", "", "```", record["words"].strip()[:1500], "```", ""]
    return ["## What it says at the end", "", *parts] if parts else []


def report_machines(runs: Runs) -> list[str]:
    """Return every machine with what was measured on it."""
    found: dict[tuple[str, ...], set[str]] = {}
    for record in runs.all():
        lines = tuple(line for line in record["machine"] if not line.startswith(("date", "load", "blas", CODE)))
        found.setdefault(lines, set()).add(record["method"])
    parts = []
    for machine, methods in found.items():
        names = ", ".join(name for name in METHODS if name in methods)
        parts += [f"## Machine: {names}", "", *(f"- {line}" for line in machine), ""]
    return parts


def write_report(folder: Path, path: Path) -> str:
    """Write the page, and beside it the summaries of all runs; return the page."""
    runs = read_runs(folder, path.with_suffix(".json"))
    parts = ["# Bayesian optimisation", "", PROTOCOL.strip(), ""]
    for section in (report_curves, report_groups, report_regrets):
        parts += section(runs)
    parts += report_seconds(runs, folder)
    for section in (report_gain, report_words, report_machines):
        parts += section(runs)
    text = "\n".join(parts).rstrip() + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    rows = ",\n".join(json.dumps(each) for each in runs.all())
    path.with_suffix(".json").write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    return text
