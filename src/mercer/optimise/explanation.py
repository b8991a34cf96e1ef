"""What a study found, as facts: the best, which inputs act together, what is left to gain, what comes next.

`explain_study` looks at a study and returns a `StudyExplanation`; `words` puts it into sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mercer.kernels.domains import Array
from mercer.learners.partition import Groups, sort_groups
from mercer.optimise import words
from mercer.optimise.effects import VarianceShare, is_beyond_noise, look_closely, measure_shares
from mercer.optimise.models import Belief, Scale, measure_spread
from mercer.optimise.space import Category, Space
from mercer.optimise.surrogate import FunctionModel
from mercer.optimise.trials import Best, Suggestion, Trial

Origin = Literal["averaged", "given", "learned"]  # of the kernel: over structures, by the user, by a learner
Verdict = Literal["worth going on", "little left", "nothing to be expected", "too early"]
Reason = Literal[
    "against the spread", "against the noise", "few trials", "no model", "equal values", "noise alone", "first guess"
]


@dataclass(frozen=True)
class ExplainPolicy:
    """From when on something is said plainly."""

    settled: float = 0.8  # probability of a partition, from which on it is called settled
    trials_each: int = 2  # trials for each input beside the first ones: with fewer, nothing is settled
    hardly: float = 0.005  # upper end of a share of the variance (7 % of the spread): below, an input hardly matters
    little: float = 0.01  # expected gain, of the spread of the values
    nothing: float = 1e-3
    noise: float = 0.5  # expected gain, of the standard deviation of the noise: less cannot be distinguished from it
    shown: int = 4  # partitions
    rarest: float = 0.01  # of them


@dataclass(frozen=True, eq=False)
class Study:
    """What there is to explain. Values are to be minimised; `sign` gives the user's."""

    space: Space
    minimize: bool
    trials: tuple[Trial, ...]
    rows: Array  # of the trials that did not fail
    values: Array  # of these, to be minimised
    best: Best | None
    gain: float | None
    model: Belief | None  # None before there is one
    origin: Origin
    pending: tuple[Suggestion, ...]
    first: int  # trials at random before anything is learned
    seed: Any = None
    target: str = "value"  # what the values are called
    acquisition: str = "auto"

    @property
    def sign(self) -> float:
        """What turns a value to be minimised into the user's."""
        return 1.0 if self.minimize else -1.0


@dataclass(frozen=True)
class PartitionFact:
    """Which inputs act together, with the probability of that among the structures that were looked at.

    Inputs that hardly matter are left out: with whom they act cannot be seen.
    """

    groups: tuple[tuple[str, ...], ...]
    probability: float


@dataclass(frozen=True)
class GroupFact:
    """Inputs that act together in the most probable partition, or one that acts alone."""

    inputs: tuple[str, ...]
    probability: float  # that these act together; of one input: that it acts alone


@dataclass(frozen=True)
class PartFact:
    """An additive part of the model that predicts."""

    inputs: tuple[str, ...]
    share: VarianceShare


@dataclass(frozen=True)
class InputFact:
    """How much the function varies with one input."""

    name: str
    share: VarianceShare
    hardly_matters: bool


@dataclass(frozen=True)
class GainFact:
    """How much the best is expected to improve by, against the spread of the values and the noise, and what follows."""

    verdict: Verdict
    reason: Reason
    expected: float | None = None
    spread: float | None = None
    noise: float | None = None


@dataclass(frozen=True)
class ModelFact:
    """What predicts: the kernel on encoded inputs, where it comes from, and the scale of the values."""

    kernel: str
    origin: Origin
    scale: Scale
    noise: float  # standard deviation, in units of the values near the best


@dataclass(frozen=True, eq=False)
class StudyExplanation:
    """What a study found, as facts; `str()` puts it into sentences."""

    target: str
    minimize: bool
    trials: int
    failed: int
    spans: dict[str, float | None]  # the range of each input; None for a category
    best: Best | None
    partitions: tuple[PartitionFact, ...]
    settled: bool
    searching: bool  # whether the structure is a first guess, and looked for further with the next trials
    beyond_noise: bool  # False: there are trials enough, and the inputs explain them no better than noise does
    needed: int  # trials with a value before anything is called settled
    groups: tuple[GroupFact, ...]  # of the most probable partition
    parts: tuple[PartFact, ...]  # of the model that predicts, largest share first
    inputs: tuple[InputFact, ...]  # largest share first
    gain: GainFact
    suggestions: tuple[Suggestion, ...]  # pending
    acquisition: str  # by which they are chosen
    model: ModelFact | None
    notes: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """All of it in words, a paragraph each."""
        return words.tell_all(self)

    def to_text(self, width: int = 80) -> str:
        """Return the sentences, wrapped."""
        return words.wrap_all(self.sentences, width)

    def __str__(self) -> str:
        return self.to_text()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        best = self.best
        return {
            "goal": "minimize" if self.minimize else "maximize",
            "trials": self.trials,
            "failed": self.failed,
            "best": None
            if best is None
            else {
                "x": _plain_point(best.x), "y": best.y, "expected": best.mean, "trial": best.number + 1,
                "better": best.better, "allowed": best.allowed,
            },
            "partitions": [{"groups": each.groups, "probability": each.probability} for each in self.partitions],
            "settled": self.settled,
            "searching": self.searching,
            "beyond_noise": self.beyond_noise,
            "groups": [
                {"inputs": each.inputs, "probability": each.probability} for each in self.groups
            ],
            "parts": [{"inputs": each.inputs, "share": each.share.mean} for each in self.parts],
            "inputs": [
                {
                    "name": each.name, "share": each.share.mean, "low": each.share.low, "high": each.share.high,
                    "hardly_matters": each.hardly_matters,
                }
                for each in self.inputs
            ],
            "gain": {
                "verdict": self.gain.verdict, "reason": self.gain.reason, "expected": self.gain.expected,
                "spread": self.gain.spread, "noise": self.gain.noise,
            },
            "acquisition": self.acquisition,
            "suggestions": [
                {
                    "x": _plain_point(each.x), "purpose": each.purpose, "expected": each.mean, "spread": each.spread,
                    "way": each.way, "why": each.why,
                }
                for each in self.suggestions
            ],
            "model": None
            if self.model is None
            else {"kernel": self.model.kernel, "scale": self.model.scale, "noise": self.model.noise},
            "notes": list(self.notes),
        }  # fmt: skip


def _plain_point(x: Any) -> Any:
    return dict(x) if isinstance(x, dict) else [float(value) for value in x]


def explain_study(study: Study, policy: ExplainPolicy | None = None) -> StudyExplanation:
    """Look at a study."""
    policy = ExplainPolicy() if policy is None else policy
    names, finished = study.space.names, study.values
    needed = study.first + policy.trials_each * len(names)
    few = len(finished) < needed
    surrogate = None if study.model is None else look_closely(study.model, study.rows, study.values)
    searching = study.model is not None and study.model.searching
    beyond = few or surrogate is None or is_beyond_noise(surrogate)
    unsettled = few or searching or not beyond
    parts, inputs = _measure(study, surrogate, unsettled, policy)
    hardly = {names.index(each.name) for each in inputs if each.hardly_matters}
    partitions = [] if study.model is None else drop_inputs(study.model.partitions, hardly)
    certain = study.origin != "averaged" or (not unsettled and bool(partitions) and partitions[0][1] >= policy.settled)
    model = _describe_model(study)
    return StudyExplanation(
        target=study.target,
        minimize=study.minimize,
        trials=len(study.trials),
        failed=len(study.trials) - len(finished),
        spans={
            name: None if isinstance(one, Category) else float(one.high - one.low)
            for name, one in zip(names, study.space.inputs, strict=True)
        },
        best=study.best,
        partitions=tuple(
            PartitionFact(tuple(tuple(names[i] for i in group) for group in found), probability)
            for found, probability in partitions[: policy.shown]
            if probability >= policy.rarest
        ),
        settled=certain,
        searching=searching,
        beyond_noise=beyond,
        needed=needed,
        groups=tuple(
            GroupFact(tuple(names[i] for i in group), find_probability(group, partitions))
            for group in (partitions[0][0] if partitions else ())
        ),
        parts=parts,
        inputs=inputs,
        gain=judge_gain(study.gain, finished, None if model is None else model.noise, few, policy, searching)
        if beyond
        else GainFact("too early", "noise alone"),
        suggestions=study.pending,
        acquisition=study.acquisition,
        model=model,
        notes=_collect_notes(study),
    )


def _measure(
    study: Study, surrogate: FunctionModel | None, unsettled: bool, policy: ExplainPolicy
) -> tuple[tuple[PartFact, ...], tuple[InputFact, ...]]:
    if surrogate is None:
        return (), ()
    names, shares = study.space.names, measure_shares(surrogate, study.space)
    parts = [
        PartFact(tuple(names[i] for i in part.inputs), share)
        for part, share in zip(surrogate.parts, shares.parts, strict=True)
    ]
    inputs = [
        InputFact(names[i], share, not unsettled and share.high < policy.hardly) for i, share in shares.inputs.items()
    ]
    return (
        tuple(sorted(parts, key=lambda part: -part.share.mean)),
        tuple(sorted(inputs, key=lambda each: -each.share.mean)),
    )


def drop_inputs(partitions: Sequence[tuple[Groups, float]], dropped: set[int]) -> list[tuple[Groups, float]]:
    """Return partitions of the other inputs, those that become equal taken together, most probable first."""
    found: dict[Groups, float] = {}
    for groups, probability in partitions:
        left = sort_groups([[i for i in group if i not in dropped] for group in groups])
        found[left] = found.get(left, 0.0) + probability
    return sorted(found.items(), key=lambda pair: -pair[1])


def find_probability(inputs: tuple[int, ...], partitions: Sequence[tuple[Groups, float]]) -> float:
    """Return the probability that inputs are in one group; of a single one that it is a group of its own."""
    chosen = set(inputs)
    if len(chosen) == 1:
        return min(1.0, sum(p for groups, p in partitions if inputs in groups))
    return min(1.0, sum(p for groups, p in partitions if any(chosen <= set(group) for group in groups)))


def judge_gain(
    gain: float | None, values: Array, noise: float | None, few: bool, policy: ExplainPolicy, searching: bool = False
) -> GainFact:
    """Say whether to go on. That nothing is left is said only where there are trials enough to know."""
    if gain is None:
        equal = len(values) > 1 and float(np.ptp(values)) == 0.0
        return GainFact("too early", "equal values" if equal else "no model")
    spread = measure_spread(values)
    if gain > policy.little * spread and (noise is None or gain > policy.noise * noise):
        return GainFact("worth going on", "against the spread", gain, spread, noise)
    if few:
        return GainFact("too early", "few trials", gain, spread, noise)
    if searching:
        return GainFact("too early", "first guess", gain, spread, noise)
    if gain <= policy.nothing * spread:
        return GainFact("nothing to be expected", "against the spread", gain, spread, noise)
    reason: Reason = "against the spread" if gain <= policy.little * spread else "against the noise"
    return GainFact("little left", reason, gain, spread, noise)


def _describe_model(study: Study) -> ModelFact | None:
    if study.model is None or study.best is None:
        return None
    surrogate = study.model.draw(study.rows, study.values, None)
    target, best = study.model.target, study.sign * study.best.y
    middle = float(target.forward(np.array(best)))
    step = math.sqrt(surrogate.likelihood.noise)
    low, high = target.backward(middle + step * np.array([-1.0, 1.0]))
    names = study.space.column_names
    return ModelFact(
        surrogate.expression.text(digits=3, names=names), study.origin, target.scale, float(high - low) / 2.0
    )


def _collect_notes(study: Study) -> tuple[str, ...]:
    return tuple(words.note_of_trial(number, trial.note) for number, trial in enumerate(study.trials) if trial.note)
