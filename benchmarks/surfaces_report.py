"""The page of `make bench-surfaces`: what was asked for, what was reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def markdown(results: dict[str, Any]) -> str:
    """Return all results as one page."""
    lines = [
        "# Change surfaces and grids",
        "",
        "`make bench-surfaces DATA=FOLDER`. Default settings (`mercer.ChangeSurface()`, seed 0) unless a row says",
        "otherwise. While the learner was written it was tried on Nile, coal, seat belts and the two synthetic sets,",
        "and the priors of 2-D surfaces came in after the error on the 2-D set was seen; the TCPD series were not",
        "looked at. In full: [surfaces.json](surfaces.json).",
    ]
    for name, part in results.items():
        machine = part["machine"]
        lines += ["", f"## {name}", ""]
        lines += WRITERS[name](part["results"]) if name in WRITERS else [str(part["results"].get("markdown", ""))]
        where = f"{machine['processor']}, {machine['usable cores']} cores, load {machine['load average']}"
        lines += ["", f"{part['seconds']:.0f} s on {where}, {machine['date']}."]
    return "\n".join(lines) + "\n"


def table(head: list[str], rows: list[list[Any]]) -> list[str]:
    """Return a table of text."""
    written = [" | ".join(map(str, row)) for row in rows]
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {row} |" for row in written)]


def synthetic(found: dict[str, Any]) -> list[str]:
    """A change point and a surface, both known."""
    line, plane = found["line"], found["plane"]
    at = line["crossings"][0] if line["crossings"] else {"at": np.nan, "low": np.nan, "high": np.nan}
    lengths = (
        f"{_numbers(mine)} ({_numbers(true)})"
        for mine, true in zip(plane.get("lengthscales", []), plane.get("lengthscales_of_true_f", []), strict=False)
    )
    rows = [
        ["change point (1-D, 300 rows), off by % of the range", "2", f"{line['off_percent_of_range']:.2f}"],
        ["its place, interval, truth", "", f"{at['at']:.3f} ({at['low']:.3f} to {at['high']:.3f}), {line['true']:.3f}"],
        ["surface (2-D, 1600 rows), mean absolute error of s", "0.08", f"{plane['mean_absolute_error_of_s']:.4f}"],
        ["lengthscales of the regimes (those that SE finds in the true functions)", "", "; ".join(lengths)],
        ["BIC of 1 and 2 regimes, 1-D; -2 log evidence under the priors, 2-D", "", f"{_bic(line)}; {_bic(plane)}"],
    ]
    return [*table(["", "asked, at most", "reached"], rows), "", f"1-D kernel: `{line['kernel']}`"]


def real(found: dict[str, Any]) -> list[str]:
    """Dates that are known."""
    rows = []
    for name, one in found.items():
        places = ", ".join(f"{c['at']:.2f} ({c['low']:.2f} to {c['high']:.2f})" for c in one["crossings"])
        settings = ", ".join(f"{k}={v}" for k, v in one["settings"].items())
        known = " to ".join(f"{v:.2f}" for v in dict.fromkeys(one["known"]))
        off = "none found" if one["off"] is None else f"{one['off']:.2f}"
        holds = "yes" if one["interval_holds_it"] else "no"
        row = [name, settings, known, f"{one['allowed']:.2f}", places, off, holds, _bic(one), preferred(one["bic"])]
        rows.append([*row, one["seconds"]])
    head = ["series", "settings", "known", "allowed", "crossings (95 %)", "off by", "interval holds it", "scores"]
    kernels = [f"- {name}: `{one['kernel']}`" for name, one in found.items()]
    told = (
        "Scores of 1, 2, ... regimes (BIC, averaged over the kernels tried), and how many are preferred. Where that is "
        "one, a kernel without a change describes the series as well (coal: a slow decline), and the model's notes say "
        "so; the change is located all the same."
    )
    return [*table([*head, "prefers", "s"], rows), "", told, "", *kernels]


def preferred(scores: dict[str, float]) -> int:
    """How many regimes have the best score."""
    return int(min(scores, key=lambda count: scores[count]))


def measles(found: dict[str, Any]) -> list[str]:
    """The national decline and the states'."""
    at = ", ".join(f"{c['at']:.1f} ({c['low']:.1f} to {c['high']:.1f})" for c in found["national"]["crossings"])
    states = sorted(found["states"], key=lambda s: s["at"])
    rows = [[s["state"], f"{s['at']:.1f}", f"{s['low']:.1f} to {s['high']:.1f}", f"{s['width']:.1f}"] for s in states]
    middle = np.median([s["at"] for s in states])
    inside = sum(1960 <= s["at"] <= 1970 for s in states)
    return [
        f"National: {at} (asked: 1960 to 1970). `{found['national']['kernel']}`",
        "",
        f'States ({len(states)}, `kernel="C"`): median {middle:.1f}; {inside} between 1960 and 1970. '
        "[Map](surfaces-measles.png).",
        "",
        *table(["state", "change", "95 %", "width"], rows),
    ]


def tcpd(found: dict[str, Any]) -> list[str]:
    """F1 on every series."""
    rows = [
        [name, one["rows"], one["found"], f"{one['f1']:.3f}", f"{one['f1_pelt']:.3f}", f"{one['f1_pelt_l2']:.3f}"]
        for name, one in found.items()
    ]
    means = [f"**{np.mean([one[key] for one in found.values()]):.3f}**" for key in ("f1", "f1_pelt", "f1_pelt_l2")]
    rows.append(["**mean**", "", "", *means])
    head = [
        "series",
        "rows",
        "found",
        "F1 Mercer (one change or none)",
        "F1 PELT rbf, pen 10",
        "F1 PELT l2, pen 3 log n",
    ]
    return table(head, rows)


def steady(found: dict[str, Any]) -> list[str]:
    """How often a change is seen where there is none."""
    summary = []
    for name, draws in found.items():
        gains = [row["gain"] for row in draws]
        summary.append([name, f"{sum(gain > 0 for gain in gains)} of {len(gains)}", f"{max(gains):.1f}"])
    rows = [
        [row["kernel"], row["seed"], "yes" if row["gain"] > 0 else "no", f"{row['gain']:.1f}"]
        for draws in found.values()
        for row in draws
    ]
    return [
        "How often two regimes are preferred to one (asked: at most 2 of 20), and the largest gain in BIC.",
        "",
        *table(["draws", "two preferred", "largest gain"], summary),
        "",
        "The list of kernels that one regime may have was shorter at first: without `M32` and `SE * PER`. With it 1 of",
        "the 20 draws that the criterion was settled on had two regimes, 0 of 20 new draws of the same kernels (seeds",
        "from 1000), and 4 of 20 new draws of the other kernels (seeds from 2000): two of the three `SE * PER`, one",
        "`M32`, one `M12`. The list was then extended, and the draws of the table (seeds from 3000 and 4000) made.",
        "Of 12 draws of four kernels that it still lacks (PER + PER, SE + SE, RQ * PER, M12 * PER; seeds from 5000)",
        "none had two regimes.",
        "",
        *table(["drawn from", "seed", "two preferred", "gain in BIC"], rows),
    ]


def _bic(one: dict[str, Any]) -> str:
    return ", ".join(f"{score:.1f}" for _, score in sorted(one["bic"].items()))


def _numbers(values: list[float]) -> str:
    return " and ".join(f"{v:.3f}" for v in values)


WRITERS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "synthetic": synthetic,
    "real": real,
    "measles": measles,
    "tcpd": tcpd,
    "steady": steady,
}
