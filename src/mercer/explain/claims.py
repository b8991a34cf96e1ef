"""What is found, as data: claims, and what each rests on. `words.py` puts them into sentences; none is read back."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from math import exp, isfinite
from typing import Any

import numpy as np

from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression

MAD = 1.4826  # times the median error is the standard deviation, of a normal distribution
WITHIN_95 = 1.959964  # standard deviations: 95 % of a normal distribution lie within


@dataclass(frozen=True)
class ClaimEvidence:
    """What a claim rests on; None where something does not apply.

    components : the positions of the components it is about. searched : a search looked for it.
    best_with, best_without : the BIC of the best kernels that have it and that do not.
    all_finished : every candidate that has it was fitted to the end.
    """

    components: tuple[int, ...] = ()
    searched: bool = False
    best_with: float | None = None
    best_without: float | None = None
    all_finished: bool | None = None
    p_value: float | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Claim:
    """One finding: its kind (which decides its words), what it is about, and a number or a small record of numbers.

    `unit` is that of a number along a column; `certainty` a probability, where there is one. An absence ("absent") may
    be claimed only where every candidate with the thing in question was finished.
    """

    kind: str
    subject: str
    value: Any = None
    unit: str | None = None
    certainty: float | None = None
    evidence: ClaimEvidence = ClaimEvidence()

    def __post_init__(self) -> None:
        if self.kind == "absent" and not self.evidence.all_finished:
            raise ValueError(f"'{self.subject}' cannot be claimed absent: not all candidates with it were finished")


@dataclass(frozen=True)
class Composition:
    """Of how many components a target is made, and the share of its variance that is noise.

    `pure`: nothing was found in it; else it may hold what the model has not found. Not `known`: the curve passes
    through nearly every row, and how much of it is noise cannot be told.
    """

    components: int
    noise_share: float
    pure: bool = True
    known: bool = True


@dataclass(frozen=True)
class Spread:
    """A level and the standard deviation around it, and why it may not be all there is: keys of `words.DOUBTS`."""

    level: float
    std: float
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Size:
    """How many rows there are, and how many numbers were fitted to them."""

    rows: int
    parameters: int


def round_all(values: Array, digits: int) -> tuple[float, ...]:
    """Return numbers with few significant digits."""
    return tuple(float(f"{value:.{digits}g}") for value in values)


@dataclass(frozen=True)
class InputChance:
    """One input or several, and a probability that is about them: to act by itself, to act together."""

    names: tuple[str, ...]
    probability: float


@dataclass(frozen=True)
class PartitionFound:
    """The most probable partition of the inputs; `informative`: the data say more than the prior."""

    groups: tuple[tuple[str, ...], ...]
    probability: float
    informative: bool


@dataclass(frozen=True)
class PartitionsTried:
    """How many partitions of how many were fitted, and the share of the chain's steps at the most probable one."""

    tried: int
    possible: int
    families: tuple[str, ...]
    visits: float | None


def certainty_of(gain: float) -> float:
    """Return the probability that a difference of BIC stands for, where both sides were equally likely before."""
    return 1.0 / (1.0 + exp(-min(max(gain, -700.0), 700.0) / 2.0))


def plain(value: Any) -> Any:
    """Return JSON types only: records become objects, kernels text, and a number that is not finite null."""
    if isinstance(value, Expression):
        return value.text()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [plain(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
