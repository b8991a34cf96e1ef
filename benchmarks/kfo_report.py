"""The figures of benchmarks/kfo.py as tables, with the published ones and what they mean beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.machine import lines as machine_lines

SETS = (
    "hayes-roth", "wine", "sonar", "seeds", "glass", "heart", "ecoli", "ionosphere", "wdbc", "credit", "biodeg",
    "contraceptive", "car", "phoneme",
)  # fmt: skip
TABLES = ("fertility", "yacht", "slump", "boston", "auto", "airfoil")
BASELINES = ("rbf", "c-linear", "nu-linear", "mkl-uniform", "mkl-easy", "sm", "ard-matern")
# Nested cross-validation with scikit-learn alone, ten stratified splits of its own (phoneme: two), error in %
PEERS = {
    "hayes-roth": 17.4, "wine": 1.7, "sonar": 7.9, "seeds": 4.1, "glass": 21.6, "heart": 14.8, "ecoli": 4.1,
    "ionosphere": 4.8, "wdbc": 2.5, "credit": 24.4, "biodeg": 12.2, "contraceptive": 28.6, "car": 0.5, "phoneme": 12.6,
}  # fmt: skip
QUESTIONS = {
    "KFO no worse than SVM-RBF within one standard error of its mean": " (asked: 12 of 14)",
    "KFO strictly better than SVM-RBF": " (asked: 6 of 14)",
    "KFO no worse than the SVM-RBF of others (other splits) within one standard error": "",
    "KFO-MKL better than or tied with every baseline, by the means": " (asked: 9 of 14)",
    "KFO-MKL no worse than any baseline within one standard error of the difference": "",
}
WAVES = ("triangular_NZ", "triangular_Z", "gaussian_mixture", "sinc")
LIMITS = {"sonar": 60, "heart": 60, "glass": 60, "credit": 180}

PROTOCOL = """
Classification: stratified 80/20 splits, `train_test_split(random_state=0..9)`; columns standardised on the training
rows; kernels, their parameters and C chosen by cross-validation inside the training part. KFO and KFO-MKL (with SE,
M32 and LIN) are `KernelSVC(KernelFunctional(plus="SE + M32 + LIN"))` and its `functional_` alone. SVM-RBF: eight
lengthscales and five costs, 5-fold (twice below 250 rows). The linear C- and nu-SVM, uniform MKL and EasyMKL-like
weights, and SM2 and ARD Matern 3/2 fitted to the labels by evidence, all with C (nu) by cross-validation. Standard
errors are of the mean over splits.

Regression: 80/20 splits, inputs and target scaled to [0, 1] over all rows as in the paper's code, sum of the negative
log densities of the test rows. ARD kernels: `GPRegressor("M32")`, `GPRegressor("SE")` with default settings.

Remark on the published figures: the SVM errors were selected on the test rows (the paper minimises the test error, and
its code calls the test set from the objective), and the regression figures are sums on min-max scaled targets. What is
measured here was chosen on training rows only.
"""


WAVES_REMARK = r"""
Why sinc stayed plain before: its spectrum is flat up to an edge, and a series of powers without weights below zero
only adds frequencies to those of the kernel inside. Weights of either sign, as bands of frequencies, take some away.
SE\*PER also missed the period of ten unless it began with PER. Log evidence of draws 0 to 2 was 150.6, 161.0 and 148.5
(PER); it is 163.6, 170.6 and 156.6 for SE\*PER, and 167.7, 175.3 and 160.8 with bands. SE times a sum of just the five
harmonics below the edge, which no search knows, has 185.0, 190.2 and 176.4.

The mixture has three bumps at irregular places, and no pattern that repeats. Kernels with a flat or a triangular
spectrum are worse than SE there, by 3 to 7 and 1 to 4 in log evidence, and what a functional gains is less than one
number costs: the kernel is the plain one, and the notes of the model say so.

Weights of either sign and the price of a shape (BIC for one number) were judged on nine other waves: saw-tooth,
square, two tones, damped, sinc squared, band-limited noise, bumps, |sin|, wavelets; 100 rows each. They were thought of
after folds of sinc and of the mixture had been seen. In three folds of the nine, functionals had more evidence nearly
always, by up to 21, but no more log density at the rows left out: -0.44 a fold without bands, -0.30 with them, -0.26
with the price as well, most of it from kinks (square, |sin|). Rows among others on a dense grid are predicted well by
any kernel; a stretch held out shows more.
"""


def write_report(done: dict[str, Any], published: dict[str, Any], path: Path) -> str:
    """Write and return the page."""
    results = done["results"]
    steps = ", ".join(f"{name}={value}" for name, value in done["steps"].items())
    parts = ["# Kernel functional optimisation", PROTOCOL.strip(), f"Steps of the search: {steps}.", ""]
    parts += _shapes(results)
    parts += _untouched(done.get("untouched", {}))
    parts += _classification(results, published)
    parts += _regression(results, published)
    parts += _synthetic(results, published)
    parts += _others(results, published)
    for machine, measured in _machines(done):
        parts += [f"## Machine: {measured}", "", *(f"- {line}" for line in machine_lines(machine)), ""]
    text = "\n".join(parts).rstrip() + "\n"
    path.write_text(text, encoding="utf-8")
    return text


def _machines(done: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Return every machine with the parts that were last measured on it."""
    found: list[tuple[dict[str, Any], list[str]]] = []
    for part, machine in done["machines"].items():
        known = next((parts for other, parts in found if other == machine), None)
        if known is None:
            found.append((machine, [part]))
        else:
            known.append(part)
    return [(machine, ", ".join(parts)) for machine, parts in found]


def _collected(results: dict[str, Any], part: str, name: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Return method -> split -> entry."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for key, entries in results.items():
        kind, own, *rest = key.split("/")
        if kind == part and own == name:
            for method, entry in entries.items():
                if isinstance(entry, dict):
                    found.setdefault(method, {})[int(rest[0])] = entry
    return found


def is_plain(kernel: str) -> bool:
    """Tell whether a kernel, as text, is the kernel inside and nothing else."""
    return "KF(" not in kernel or "powers=[1], weights=[1]" in kernel


class Shapes(NamedTuple):
    """What functionals gain over the kernel inside on rows left out: a row for each set."""

    rows: list[list[str]]
    counts: dict[str, list[int]]  # for each part: fits where it is the plain kernel, and all
    won: list[str]
    clearly: list[str]


def _measure_shapes(results: dict[str, Any]) -> Shapes:
    """Compare with the plain kernel on the same splits."""
    rows: list[list[str]] = []
    counts = {"classification": [0, 0], "regression": [0, 0], "synthetic": [0, 0]}
    won: list[str] = []
    clearly: list[str] = []
    measures = [
        ("classification", SETS, "error", 100.0), ("regression", TABLES, "nll", 1.0), ("synthetic", WAVES, "rmse", 1.0),
    ]  # fmt: skip
    for part, names, measure, factor in measures:
        for name in names:
            kernels = {int(k.split("/")[2]): v["kernel"] for k, v in results.items()
                       if k.startswith(f"{part}/{name}/") and k.endswith("/kfo")}  # fmt: skip
            found = _collected(results, part, name)
            plain = {split for split, kernel in kernels.items() if is_plain(kernel)}
            counts[part][0] += len(plain)
            counts[part][1] += len(kernels)
            both = [s for s in kernels if s in found.get("plain", {}) or (s in plain and part == "classification")]
            if not both:
                continue
            one = factor * np.array([found["kfo"][s][measure] for s in both])
            two = factor * np.array([found.get("plain", found["kfo"]).get(s, found["kfo"][s])[measure] for s in both])
            gain = two - one
            digits = 3 if part == "synthetic" else 2
            figures = [f"{x:.{digits}f}" for x in (one.mean(), two.mean(), gain.mean(), _spread(gain))]
            sides = f"{int((gain > 1e-9).sum())} / {int((gain < -1e-9).sum())}"
            rows.append([name, measure, f"{len(plain)} of {len(kernels)}", *figures, sides])
            if part != "synthetic" and len(plain) < len(kernels) and gain.mean() > 0:
                won.append(name)
                clearly += [name] if gain.mean() > _spread(gain) + 1e-9 else []
    return Shapes(rows, counts, won, clearly)


SHAPE_HEADS = [
    "set", "on rows left out", "plain kernel chosen", "KFO", "plain", "gain", "± se", "splits better / worse",
]  # fmt: skip


def _shapes(results: dict[str, Any]) -> list[str]:
    """How often a functional is no more than the kernel inside, and what it gains over that on rows left out."""
    rows, counts, won, clearly = _measure_shapes(results)
    if not rows:
        return []
    shares = ", ".join(f"{a} of {b} {part}" for part, (a, b) in counts.items() if b)
    return [
        "## What the functional is", "",
        f"The functional is no more than the kernel inside in {shares} fits",
        "(before its weights followed their gradient: in 31 of 60 regression, 16 of 40 synthetic). `plain` is that",
        "kernel on the same splits: for classes the kernel inside at the same lengthscales, for regression the same",
        "search without shapes (`KernelFunctional(subspaces=0)`). Errors, %, summed negative log densities, RMSE in a",
        "stretch held out: smaller is better. All is chosen on training rows only; `notes_` of a model says what. The",
        "tables of real data, splits 0 to 9, are of the state before bands and the price of a shape (below).", "",
        *_table(SHAPE_HEADS, rows), "",
        "- real sets where a functional that is not the plain kernel is better on the test rows, by the means: "
        f"{len(won)} of {sum(row[0] not in WAVES for row in rows)} ({', '.join(won) or 'none'}; asked: 3 of 20);",
        f"  by more than one standard error of the difference: {', '.join(clearly) or 'none'}",
        *_wave_folds(results), "", WAVES_REMARK.strip(), "",
    ]  # fmt: skip


def _untouched(results: dict[str, Any]) -> list[str]:
    """The same on splits from 10 on, which no choice has seen."""
    rows, counts, won, clearly = _measure_shapes(results)
    if not rows:
        return []
    shares = ", ".join(f"{a} of {b} {part}" for part, (a, b) in counts.items() if b)
    return [
        "### Splits that no choice has seen", "",
        "Splits 10 to 19, measured once, after the rule by which a functional is dropped was fixed (on made waves that",
        f"are not on this page). The plain kernel is chosen in {shares} fits.", "",
        *_table(SHAPE_HEADS, rows), "",
        f"- better by the means: {', '.join(won) or 'none'};",
        f"  by more than one standard error of the difference: {', '.join(clearly) or 'none'}", "",
    ]  # fmt: skip


def _wave_folds(results: dict[str, Any]) -> list[str]:
    """The synthetic functions in five folds: searched anew without each, summed log density of the rows left out."""
    told = []
    for name in WAVES:
        found = _collected(results, "synthetic", name)
        seeds = [s for s, entry in found.get("kfo", {}).items() if "folds" in entry]
        if not seeds:
            continue
        gain = [
            a["log_density"] - b["log_density"]
            for s in seeds
            for a, b in zip(found["kfo"][s]["folds"], found["plain"][s]["folds"], strict=True)
        ]
        shaped = sum(fold["shaped"] for s in seeds for fold in found["kfo"][s]["folds"])
        told.append(
            f"- {name} in five folds of {len(seeds)} draws, searched anew without each: log density of the rows left "
            f"out {np.mean(gain):+.2f} a fold against the plain kernel (± {_spread(np.array(gain)):.2f}); the "
            f"functional is not the plain kernel in {shaped} of {len(gain)}"
        )
    return told


def _error(value: float) -> str:
    return f"{100 * value:.1f}"


def _classification(results: dict[str, Any], published: dict[str, Any]) -> list[str]:
    known = published.get("kfo_table1_classification_error_pct", {}).get("values", {})
    rows, measured, counts = [], 0, dict.fromkeys(QUESTIONS, 0)
    for name in SETS:
        found = _collected(results, "classification", name)
        splits = sorted(set(found.get("kfo", {})) & set(found.get("rbf", {})))
        if not splits:
            continue
        measured += len(splits)
        errors = {m: np.array([found[m][s]["error"] for s in splits]) for m in ("kfo", "kfo-mkl", *BASELINES)}
        for question, answer in zip(QUESTIONS, _answers(errors, PEERS[name] / 100), strict=True):
            counts[question] += answer
        printed = known.get(name, {}).get("KFO", "")
        printed = printed[0] if isinstance(printed, list) else printed
        mean = {m: _error(float(e.mean())) for m, e in errors.items()}
        spread = {m: _error(_spread(e)) for m, e in errors.items()}
        row = [name, str(len(splits)), mean["kfo"], spread["kfo"], mean["kfo-mkl"], mean["rbf"], spread["rbf"]]
        rows.append([*row, *(mean[b] for b in BASELINES[1:]), f"{PEERS[name]:.1f}", str(printed)])
    if not rows:
        return []
    heads = ["set", "splits", "KFO", "± se", "KFO-MKL", "rbf", "± se", *BASELINES[1:]]
    heads += ["SVM-RBF of others, other splits", "published KFO (selected on test)"]
    return [
        "## Classification: mean test error, %", "", *_table(heads, rows), "",
        *_unfinished(measured, 10 * len(SETS)),
        *(f"- {question}: {counts[question]} of {len(rows)}{asked}" for question, asked in QUESTIONS.items()), "",
    ]  # fmt: skip


def _answers(errors: dict[str, np.ndarray], peer: float) -> list[bool]:
    """Answer the questions for one set, given the errors of every split for every method."""
    kfo, rbf, mkl = errors["kfo"], errors["rbf"], errors["kfo-mkl"]
    return [
        bool(kfo.mean() <= rbf.mean() + _spread(rbf) + 1e-12),
        bool(kfo.mean() < rbf.mean() - 1e-12),
        bool(kfo.mean() <= peer + _spread(kfo) + 1e-12),
        all(mkl.mean() <= errors[b].mean() + 1e-12 for b in BASELINES),
        all((mkl - errors[b]).mean() <= _spread(mkl - errors[b]) + 1e-12 for b in BASELINES),
    ]


def _spread(values: np.ndarray) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _regression(results: dict[str, Any], published: dict[str, Any]) -> list[str]:
    known = published.get("kfo_table2_regression_nll", {}).get("values", {})
    heads = ["table", "splits", "KFO", "± se", "ARD Matern 3/2", "ARD SE", "published KFO", "published ARD Matern"]
    rows, printed_wins, own_wins, measured = [], 0, 0, 0
    for name in TABLES:
        found = _collected(results, "regression", name)
        splits = sorted(set(found.get("kfo", {})) & set(found.get("ard-se", {})))
        if not splits:
            continue
        measured += len(splits)
        values = {m: np.array([found[m][s]["nll"] for s in splits]) for m in ("kfo", "ard-matern", "ard-se")}
        mean = {m: float(v.mean()) for m, v in values.items()}
        se = _spread(values["kfo"])
        one, two = (known.get(name, {}).get(m, [np.nan])[0] for m in ("KFO", "ARD-Matern"))
        printed_wins += mean["kfo"] < one
        own_wins += mean["kfo"] < mean["ard-matern"]
        numbers = (mean["kfo"], se, mean["ard-matern"], mean["ard-se"], one, two)
        rows.append([name, str(len(splits)), *(f"{n:.1f}" if abs(n) < 1e5 else f"{n:.2g}" for n in numbers)])
    if not rows:
        return []
    older = [name for name in TABLES if any(key.startswith(f"regression/{name}/") and key.endswith("/before")
             and key.replace("/before", "/kfo") not in results for key in results)]  # fmt: skip
    return [
        "## Regression: summed negative log density of the test rows (smaller is better)", "", *_table(heads, rows), "",
        *_unfinished(measured, 10 * len(TABLES)),
        *([f"Splits of {', '.join(older)} are of an earlier search, whose weights did not follow their gradient.", ""]
          if older else []),
        f"- better than the published KFO: {printed_wins} of {len(rows)} (asked: 5 of 6)",
        f"- better than our own ARD Matern 3/2: {own_wins} of {len(rows)} (asked: 3 of 6)", "",
    ]  # fmt: skip


def _synthetic(results: dict[str, Any], published: dict[str, Any]) -> list[str]:
    known = published.get("kfo_table4_synthetic_loglik", {}).get("values", {})
    methods = ("kfo", "SE", "Mat3/2", "MKL")
    rows, higher, half = [], 0, 0
    for name in WAVES:
        found = _collected(results, "synthetic", name)
        if not {*methods} <= {*found}:
            continue
        evidence = {m: float(np.mean([e["log_evidence"] for e in found[m].values()])) for m in methods}
        error = {m: float(np.mean([e["rmse"] for e in found[m].values()])) for m in methods}
        higher += all(evidence["kfo"] > evidence[m] for m in methods[1:])
        half += name.startswith("triangular") and error["kfo"] <= 0.5 * error["Mat3/2"]
        printed = known.get(name, {}).get("KFO", [""])[0]
        rows.append(
            [name, str(len(found["kfo"]))] + [f"{evidence[m]:.1f}" for m in methods]
            + [f"{error['kfo']:.3f}", f"{error['Mat3/2']:.3f}", f"{error['kfo'] / error['Mat3/2']:.2f}", str(printed)]
        )  # fmt: skip
    if not rows:
        return []
    heads = ["function", "runs", "KFO", "SE", "Matern 3/2", "MKL"]
    heads += ["held-out RMSE KFO", "of Matern", "ratio", "printed KFO"]
    return [
        "## Synthetic functions: log evidence, and error in a stretch held out", "",
        "The functions are drawn after the appendix (noise of variance 0.001; rows, stretches and the widths of the",
        "mixture are ours, as the paper does not print them), so its figures cannot be compared one to one.", "",
        *_table(heads, rows), "",
        f"- higher log evidence than SE, Matern 3/2 and MKL: {higher} of {len(rows)} (asked: all four)",
        f"- held-out RMSE of the triangular waves at most half of Matern's: {half} of 2 (asked: both)", "",
    ]  # fmt: skip


def _others(results: dict[str, Any], published: dict[str, Any]) -> list[str]:
    told: list[str] = []
    if "linear/line" in results:
        found = results["linear/line"]
        rows = [
            [name, f"{100 * entry['share']:.4f}", f"{entry['log_density']:.1f}", f"`{entry['kernel']:.60}`"]
            for name, entry in found.items()
            if isinstance(entry, dict)
        ]
        told += ["## The linear kernel", "",
                 "y = 0.5 x at 41 points of [-1, 1], without noise: the largest error of the posterior mean there, in",
                 "% of the largest value (asked: 2), and the log density of 500 points of [-10, 10] (asked: at least",
                 "LIN's; the paper prints 2449 for KFO and 2045 for LIN).", "",
                 *_table(["kernel or hyperkernel", "error, %", "log density", "found"], rows), ""]  # fmt: skip
    known = published.get("kfo_table3_runtime", {}).get("values", {})
    rows = [
        [
            name,
            str(entry["rows"]),
            f"{entry['seconds']:.0f}",
            f"{entry['cpu_seconds']:.0f}",
            str(LIMITS[name]),
            str(known.get(name, {}).get("total_s", [""])[0]),
        ]
        for name in LIMITS
        if (entry := results.get(f"seconds/{name}"))
    ]
    if rows:
        heads = ["set", "training rows", "seconds", "of a processor", "asked: at most", "published"]
        told += ["## Time of a whole fit, S = T = 5", "", *_table(heads, rows), ""]
    return told


def _unfinished(measured: int, wanted: int) -> list[str]:
    if measured >= wanted:
        return []
    return [f"**Not complete: {measured} of {wanted} splits are measured.** A mean of few splits says little.", ""]


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
