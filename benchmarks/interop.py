"""Do other libraries predict what Mercer predicts? `python -m benchmarks.interop` (`make bench-interop`).

For each target 500 random models (tests/exports.py): sums and products three levels deep, networks, change surfaces,
functionals and kernels of categories (with one that is not known), in odd units, some rows equal, noises from none to
large; for BoTorch and ONNX averages of up to three kernels, too. A model agrees where every mean and variance differs
by at most 1e-8 of the prior's scale, or by 1e-14 times the condition number of the covariance where that is above 1e6.
(Of an average whose members lie further apart than that, of its own scale.)
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.exports import TARGETS, WITH_AVERAGES, Case, cases, worst_difference

from benchmarks import machine
from mercer.errors import InputError

RESULTS = Path(__file__).parent / "results" / "interop.md"


@dataclass(frozen=True)
class Judged:
    kind: str
    condition: float
    difference: float  # of the prior's scale; infinite where the model was refused
    tolerance: float

    @property
    def agrees(self) -> bool:
        return self.difference <= self.tolerance


def judge(target: str, count: int, number: int) -> list[Judged]:
    """Export random models to one target and compare."""
    found: list[Judged] = []

    @seed(number)
    @settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=cases(averages=target in WITH_AVERAGES))
    def compare(case: Case) -> None:
        try:
            difference = worst_difference(case, TARGETS[target](case))
        except InputError as refusal:
            print(target, "refuses", case.model.kernel_, refusal)
            difference = float("inf")
        found.append(Judged(case.kind, case.condition, difference, case.tolerance))
        if not found[-1].agrees:
            print(target, found[-1], case)

    compare()
    return found[:count]


def tabulate(results: dict[str, list[Judged]], seconds: float, described: dict[str, object]) -> str:
    """Return the page."""
    lines = [
        "# Other libraries predict the same",
        "",
        f"{described['date']}, {described['processor']}, {described['cores']} cores; {seconds:.0f} s. "
        + ", ".join(f"{name} {number}" for name, number in described["versions"].items() if number),  # type: ignore
        "",
        "Largest difference in mean and variance, of the prior's scale, where the condition number is below 1e6",
        "(allowed: 1e-8), and that divided by the condition number where it is above (allowed: 1e-14).",
        "Of an average whose members lie further apart than the prior reaches, of its own scale.",
        "",
        "| target | models | agree | below 1e6 | largest difference | above 1e6 | largest / condition number |",
        "|---|---|---|---|---|---|---|",
    ]
    for target, found in results.items():
        well = [one for one in found if one.condition < 1e6]
        ill = [one for one in found if one.condition >= 1e6]
        largest = max((one.difference for one in well), default=0.0)
        ratio = max((one.difference / one.condition for one in ill), default=0.0)
        lines.append(
            f"| {target} | {len(found)} | {sum(one.agrees for one in found)} | {len(well)} | {largest:.1e} "
            f"| {len(ill)} | {ratio:.1e} |"
        )
    lines += ["", "| target | " + " | ".join(kinds := sorted({one.kind for f in results.values() for one in f})) + " |"]
    lines.append("|---" * (len(kinds) + 1) + "|")
    for target, found in results.items():
        counts = Counter(one.kind for one in found)
        lines.append(f"| {target} | " + " | ".join(str(counts[kind]) for kind in kinds) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Judge all targets and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    described, started = machine.describe(), time.perf_counter()
    results = {target: judge(target, asked.count, asked.seed + place) for place, target in enumerate(TARGETS)}
    page = tabulate(results, time.perf_counter() - started, described)
    asked.out.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
