"""The figures of `benchmarks.scale` against the numbers asked for, as a page of Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# log p - p/2 log N of the published search (Kim & Teh 2018), x and y standardised: lower and upper end
PUBLISHED = {"solar": (-101.3, -100.1), "concrete": (-688.6, -668.6), "power_plant": (59.9, 301.2)}
PUBLISHED_SECONDS = "78,384 to 127,225 s on 10 workers"
LIMITS = {"cpu": 40 * 60, "cuda": 4 * 60}
GAP = 0.01


def write_report(done: dict[str, Any], path: Path) -> str:
    """Write and return the report."""
    rows = ["# Scale", ""]
    rows += _brackets(done) + _search(done.get("search", {})) + _defaults(done.get("defaults", {}))
    for part, found in done.items():
        if part not in ("brackets", "search", "defaults"):
            rows += [f"## {part}", "", _machine(found[""]), ""]
            rows += ["```", json.dumps({k: v for k, v in found[""].items() if k != "machine"}, indent=1), "```", ""]
    text = "\n".join(rows)
    path.write_text(text)
    return text


def _machine(found: dict[str, Any]) -> str:
    machine = found["machine"]
    return (
        f"{machine['date']}, {machine['processor']}, {machine['usable cores']} cores, load {machine['load average']} "
        f"before the run; Python {machine['python']}."
    )


def _brackets(done: dict[str, Any]) -> list[str]:
    found = dict(done.get("brackets", {}))
    if "cpu" in done.get("search", {}) and "power_plant" not in found:
        found["power_plant"] = done["search"]["cpu"]
    if not found:
        return []
    lines = [
        "## Brackets", "",
        "x and y standardised; base kernels SE, PER, LIN, RQ, as in the published search; structure by exact search "
        "(power plant: by intervals), values fitted to the lower bound with at most 320 inducing points, both bounds "
        "at these values: with these points in brackets, with more of them where they leave the interval wide. "
        "BIC is log p - p/2 log N; p counts the noise, and the constant that Mercer fits "
        "and the published code has at zero. Gap: (upper - lower) / |log evidence|, asked for below 1 % on the first "
        "three.", "",
        "| data | rows | log evidence, lower | upper | gap | BIC, lower | upper | published | at least as high | "
        "at least as tight | kernel |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in found.items():
        lower, upper = row["log_evidence"]
        gap = f"{100 * row['gap']:.2f} %{_engines(row)}"
        low, high = row["bic"]
        published, higher, tighter = "", "", ""
        if name in PUBLISHED:
            theirs = PUBLISHED[name]
            published = f"{theirs[0]:.1f} / {theirs[1]:.1f}"
            higher, tighter = _yes(low >= theirs[0]), _yes(high - low <= theirs[1] - theirs[0])
        lines.append(
            f"| {name} | {row['rows']} | {lower:.2f} | {upper:.2f} | {gap} | {low:.1f} | {high:.1f} "
            f"| {published} | {higher} | {tighter} | `{row['kernel'][:160]}` |"
        )
    return [*lines, "", f"Measured {', '.join(sorted({row['machine']['date'] for row in found.values()}))}.", ""]


def _engines(row: dict[str, Any]) -> str:
    gap = row.get("gap_with_the_engines_points")
    return "" if gap is None else f" ({100 * gap:.2f} %)"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _defaults(found: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for row in found.values():
        lines += [
            "## `mercer discover power_plant.csv --target PE`", "", _machine(row), "",
            f"{row['chosen']}", "",
            f"- {row['seconds']:.0f} s ({row['cpu_seconds']:.0f} s of processor time), load {row['load']:.1f} at its "
            "end; asked for: at most 720 s on two cores",
            f"- BIC (log p - p/2 log N, target standardised, {row['parameters']} parameters) {row['bic'][0]:.1f} / "
            f"{row['bic'][1]:.1f}; asked for: at least 1800",
            f"- said first: {' '.join(row['answers'])} Asked for: AT, V and RH are named.",
            f"- said of inputs: {' '.join(row['inputs'])}",
            f"- {row['held_out']}",
            *(f"- {remark}" for remark in row.get("remarks", [])), "",
        ]  # fmt: skip
    return lines


def _search(found: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for device, row in found.items():
        limit = LIMITS[device.split(",")[0]]
        left = ", ".join(f"{count} {kind}" for kind, count in row["left_behind"].items()) or "none by intervals"
        processor = "" if row["cpu_seconds"] is None else f" ({row['cpu_seconds']:.0f} s of processor time)"
        lines += [
            f"## Search on power plant, {device}", "", _machine(row), "",
            f"9,568 rows, 4 columns, three steps from the base kernels SE, PER, LIN, RQ, {row['jobs']} job(s), seed 0. "
            f"{row['inference']}.", "",
            f"- {row['seconds']:.0f} s{processor}, load {row['load']:.1f} at its end; asked for: at most "
            f"{limit} s; published: {PUBLISHED_SECONDS}",
            f"- {row['candidates']} kernels, left behind: {left}",
            f"- BIC (log p - p/2 log N) {row['bic'][0]:.1f} / {row['bic'][1]:.1f}; published "
            f"{PUBLISHED['power_plant'][0]} / {PUBLISHED['power_plant'][1]}",
            f"- `{row['kernel']}`", "",
        ]  # fmt: skip
    return lines
