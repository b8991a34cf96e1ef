"""The figures of `benchmarks.discovery` against the numbers asked for, as a page of Markdown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import lines as machine_lines

NINE = ("ABCD-accuracy", "ABCD-interpretability", "SP", "TCI", "MKL", "EL", "CP", "SE", "Lin")


def write_report(done: dict[str, Any], published: dict[str, Any], path: Path) -> str:
    """Write and return the report."""
    results = done["results"]
    title = "Recovery of known kernels" if all(k.startswith("recovery") for k in results) else "Kernel discovery"
    lines = [f"# {title}", "", "```", *machine_lines(done["machine"]), "```", ""]
    for part in ("extrapolation", "interpolation"):
        chosen = {k.split("/")[1]: v for k, v in results.items() if k.startswith(part)}
        if chosen:
            lines += _series(part, chosen, published[part])
    lines += _recovery({k: v for k, v in results.items() if k.startswith("recovery")})
    lines += _tabular({k: v for k, v in results.items() if k.startswith("tabular")})
    lines += _racing({k: v for k, v in results.items() if k.startswith("racing")})
    remarks = path.with_name(f"{path.stem}-remarks.md")  # written by hand, where a figure needs explaining
    lines += [remarks.read_text().rstrip()] if remarks.exists() else []
    text = "\n".join(lines) + "\n"
    path.write_text(text)
    return text


def _series(part: str, found: dict[str, Any], published: dict[str, Any]) -> list[str]:
    lines = [
        f"## 13 series, {part}", "",
        "RMSE in raw y, divided by the best of nine published methods; default settings, the test part never seen.", "",
        "| series | seconds | best of nine | average: RMSE / best | winner: RMSE / best | log density (both) "
        "| ABCD-accuracy | inside 95 % | kernel |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    ratios: dict[str, list[float]] = {"average": [], "winner": []}
    inside, points, better = {"average": 0.0, "winner": 0.0}, 0, 0
    for name, row in sorted(found.items()):
        best = min(published[m][name]["rmse"] for m in NINE if name in published[m])
        theirs = published["ABCD-accuracy"][name]["mean_loglik"]
        for kind in ratios:
            ratios[kind].append(row[kind]["rmse"] / best)
            inside[kind] += row[kind]["inside_95"]
        points += row["average"]["points"]
        better += row["average"]["log_density"] > theirs
        share = row["average"]["inside_95"] / row["average"]["points"]
        lines.append(
            f"| {name} | {row['seconds']:.0f} | {best:.4g} | {ratios['average'][-1]:.3f} | {ratios['winner'][-1]:.3f} "
            f"| {row['average']['log_density']:.2f}, {row['winner']['log_density']:.2f} | {theirs:.2f} "
            f"| {share:.2f} | `{row['kernel'][:120]}` |"
        )
    means = {kind: math.exp(np.mean(np.log(values))) for kind, values in ratios.items()}
    lines += [
        "",
        f"Geometric mean over {len(found)} series: average {means['average']:.3f}, winner alone {means['winner']:.3f}. "
        f"Log density better than ABCD-accuracy's on {better} of {len(found)}. "
        f"95 % intervals hold {inside['average'] / points:.3f} of {points} test points "
        f"(winner {inside['winner'] / points:.3f}).",
        "",
    ]
    return lines


def _recovery(found: dict[str, Any]) -> list[str]:
    if not found:
        return []
    lines = ["## Recovery of known kernels (N = 300)", ""]
    for ratio in ("10", "1"):
        rows = [v for k, v in found.items() if k.split("/")[-2] == ratio]
        if rows:
            same = np.mean([r["same_form"] for r in rows])
            good = np.mean([r["bic"] <= r["bic_of_truth"] + 1.0 for r in rows])
            lines.append(
                f"- signal-to-noise {ratio}: true canonical form {same:.0%}, BIC no worse than the true kernel's "
                f"(within 1) {good:.0%}, of {len(rows)}"
            )
    noise = [v for k, v in found.items() if "/noise/" in k]
    if noise:
        none = np.mean([r["bic"] >= r["bic_of_noise"] - 1.0 for r in noise])
        lines.append(f"- pure noise: no structure in {none:.0%} of {len(noise)}")
    return [*lines, ""]


def _tabular(found: dict[str, Any]) -> list[str]:
    if not found:
        return []
    budgets = sorted({row["budget"] for row in found.values() if row.get("budget")})
    told = "".join(f" `--budget {budget:g}`: searches were told to stop after {budget:g} s." for budget in budgets)
    lines = [
        "## Tables, 90/10 splits", "",
        f"Default settings; RMSE and mean log density of the test rows, search / ARD SE.{told}", "",
        "| split | RMSE | ARD SE | log density | ARD SE | seconds | ended by | kernels | winner |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in sorted(found.items()):
        ours, plain = row["search"], row["ard_se"]
        lines.append(
            f"| {name[8:]} | {ours['rmse']:.3f} | {plain['rmse']:.3f} | {ours['log_density']:.3f} | "
            f"{plain['log_density']:.3f} | {row['seconds']:.0f} | {row.get('stopped') or 'itself'} | "
            f"{row.get('candidates', '')} | `{row['kernel'][:150]}` |"
        )
    better = sum(row["search"]["rmse"] <= row["ard_se"]["rmse"] for row in found.values())
    return [*lines, "", f"No worse than ARD SE on {better} of {len(found)} splits.", ""]


def _racing(found: dict[str, Any]) -> list[str]:
    if not any(name.endswith("/raced") for name in found):
        return []
    lines = [
        "## Racing", "",
        "Log evidence of the kernel found on the training part (`extrap_9010`). Un-raced: no candidate is left behind, "
        "each goes through the same laps to its end.", "",
        "| series | raced | un-raced | difference | raced s | un-raced s | saved |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    differences = []
    for name in sorted({name.rsplit("/", 1)[0] for name in found}):
        raced, unraced = found.get(f"{name}/raced"), found.get(f"{name}/unraced")
        if raced is None or unraced is None:
            continue
        saved = 1 - raced["seconds"] / unraced["seconds"]
        values = raced["log_evidence"], unraced["log_evidence"]
        differences.append(values[0] - values[1])
        times = f"{raced['seconds']:.0f} | {unraced['seconds']:.0f} | {saved:.0%}"
        lines.append(f"| {name[7:]} | {values[0]:.2f} | {values[1]:.2f} | {differences[-1]:+.2f} | {times} |")
    equal, better = sum(abs(d) <= 0.5 for d in differences), sum(d > 0.5 for d in differences)
    lines += ["", f"Equal within 0.5 on {equal} of {len(differences)}, better on {better}."]
    return [*lines, ""]
