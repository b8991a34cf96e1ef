"""The figures of `benchmarks.speed` against the numbers asked for, as a page of Markdown."""

from __future__ import annotations

from benchmarks import machine, speed
from benchmarks.speed import CASES, FIRST_TARGET, IMPORT_TARGET, LIBRARIES, MEMORY_TARGET, TARGETS, Result


def milliseconds(results: Result, threads: str, library: str, case: str, n: int, what: str = "time") -> float | None:
    cell = results["cells"][threads].get(library, {}).get(case, {}).get(str(n))
    return None if cell is None else float(cell[what])


def verdict(met: bool) -> str:
    return "met" if met else "**not met**"


def shown(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def speed_table(results: Result, case: str) -> list[str]:
    peers = [name for name in LIBRARIES if name != "Mercer"]
    rows = [
        f"| threads | N | floor ms | target | Mercer | | evenly spaced | {' | '.join(peers)} | faster than all |",
        "|---" * (8 + len(peers)) + "|",
    ]
    for threads in results["cells"]:
        for n in results["sizes"]:
            own, floor = (milliseconds(results, threads, "Mercer", case, n, what) for what in ("time", "floor"))
            if own is None or floor is None:
                continue
            even, target = results["cells"][threads]["Mercer"].get(f"{case}, evenly spaced", {}), TARGETS[case][n]
            times = [milliseconds(results, threads, peer, case, n) for peer in peers]
            known = [other for other in times if other is not None]
            entries = [
                threads, n, shown(floor), target, shown(own / floor), verdict(own <= target * floor),
                shown(even[str(n)]["ratio"] if even else None),
                *(shown(None if other is None else other / floor, 1) for other in times),
                verdict(own < min(known)) if known else "-",
            ]  # fmt: skip
            rows.append(f"| {' | '.join(map(str, entries))} |")
    return rows


def remarks(results: Result) -> list[str]:
    """Return what a reader must know: libraries that could not be measured, and models that do not agree."""
    found = []
    for threads, libraries in results["cells"].items():
        for library, cases in libraries.items():
            if "absent" in cases:
                found.append(f"{library} ({threads} thread(s)): not measured here: {cases['absent']}")
                continue
            for case in (case for case in cases if case in TARGETS):
                for n in results["sizes"]:
                    own = libraries.get("Mercer", {}).get(case, {}).get(str(n))
                    if own and abs(cases[case][str(n)]["value"] - own["value"]) > 1e-4 * abs(own["value"]) + 1e-3:
                        found.append(f"{library}, {case}, N = {n}: another evidence, so not the same model")
    return found


def report(description: Result, results: Result) -> str:
    imports, memory, size = results["imports"], results["memory"], results["memory size"]
    text = ["# Speed of the exact evidence with its gradient", "", "```", *machine.lines(description), "```", ""]
    text += [line.strip() for line in str(speed.__doc__).strip().splitlines()[5:]]
    text += [
        "float64, value and gradient for all parameters. Columns give the ratio to the floor beside Mercer's runs",
        "",
    ]
    text[-2] += " (in the JSON: also to the floor beside each library's own)."
    for case in TARGETS:
        text += [f"## {case}", "", f"`{CASES[case]}`", "", *speed_table(results, case), ""]
    text += ["## Memory and start", "", "| what | target | figure | |", "|---|---|---|---|"]
    for case, peak in memory.get("Mercer", {}).items():
        if case in TARGETS:
            what = f"peak memory over the start at N = {size}, {case}, in N x N matrices"
            text.append(f"| {what} | {MEMORY_TARGET:g} | {peak:.2f} | {verdict(peak <= MEMORY_TARGET)} |")
    more, first = imports["more than torch"], imports["first"]
    text += [
        f"| import mercer ({imports['mercer']:.2f} s) less import torch ({imports['torch']:.2f} s), whole processes | "
        f"{IMPORT_TARGET} s | {more:.2f} s | {verdict(more <= IMPORT_TARGET)} |",
        f"| first evaluation in a fresh process, warm cache | {FIRST_TARGET} s | {first:.2f} s | "
        f"{verdict(first <= FIRST_TARGET)} |",
        "",
    ]
    others = {library: cases for library, cases in memory.items() if library != "Mercer" and "absent" not in cases}
    if others:
        peaks = "; ".join(f"{name} " + " and ".join(f"{p:.1f}" for p in peak.values()) for name, peak in others.items())
        text += [f"Peers' peak memory in N x N matrices ({' and '.join(TARGETS)}): {peaks}.", ""]
    text += [f"- {remark}" for remark in remarks(results)]
    return "\n".join(text).rstrip() + "\n"
