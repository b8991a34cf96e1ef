"""Which inputs act together: the posterior over partitions that a `PartitionSampler` found, and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from mercer.explain.claims import Claim, ClaimEvidence, InputChance, PartitionFound, PartitionsTried
from mercer.explain.components import share_of_input
from mercer.explain.subject import Subject
from mercer.explain.wording import LISTED, Vocabulary, first_few, list_names, probability, write_count
from mercer.explain.words import SENTENCES, Narrator, words_for
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, Sum
from mercer.learners.contract import Candidate
from mercer.learners.partition_sampler import PartitionSampler
from mercer.model.fitted import Fitted

SURE = 0.9  # a probability from which on inputs are said to act together, or by themselves
IDLE = 0.01  # of the variance: what an input with less acts together with, the data can hardly tell
SHOWN, WORTH = 8, 0.005  # partitions in the table, and from which probability on

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class PartitionChance:
    """A partition of the inputs, its probability among those tried, and the share of the chain's steps there."""

    groups: Groups
    probability: float
    visits: float | None
    text: str


@dataclass(frozen=True)
class PartitionExplanation:
    """Which inputs act together: `together` has the probability of every pair to be in one group.

    `partitions` are those of the inputs that matter: what the `idle` ones act together with is hardly known.
    Probabilities are exp(score), normalised over the partitions that were tried.
    """

    inputs: tuple[str, ...]
    idle: tuple[str, ...]
    together: tuple[tuple[float, ...], ...]
    partitions: tuple[PartitionChance, ...]
    tried: int
    possible: int
    sentences: tuple[str, ...]


def count_partitions(inputs: int) -> int:
    """Return Bell's number: in how many ways that many inputs can be grouped."""
    bell = [1]
    for n in range(inputs):
        bell.append(sum(comb(n, k) * bell[k] for k in range(n + 1)))
    return bell[inputs]


def explain_partitions(
    fitted: Fitted, subject: Subject, informative: bool, narrator: Narrator
) -> PartitionExplanation | None:
    """Say which inputs act together; None where no partitions were sampled.

    `informative`: the model explains the data better than noise does. If not, the probabilities are those of the prior.
    """
    sampler = fitted.origin.kernel
    tried = [c for c in fitted.candidates if c.step.kind == "partition" and np.isfinite(c.score)]
    if not isinstance(sampler, PartitionSampler) or not tried:
        return None
    inputs = find_inputs(subject, sampler, tried[0].expression)
    if len(inputs) < 2:
        return None
    names = tuple(inputs)
    idle = tuple(name for name, places in inputs.items() if share_of_input(subject, places) < IDLE)
    matter = [name for name in names if name not in idle]
    every = [group_inputs(c.expression, inputs) for c in tried]
    together = pair_chances(every, weigh(tried), names)
    likely = _add_up(every, tried, matter or names, names)
    informative = informative and bool(matter)
    claims = _claim(likely, names, together, idle, informative)
    possible = count_partitions(len(names))
    sampled = PartitionsTried(len(tried), possible, tuple(sampler.families), likely[0].visits)
    claims.append(("partitions tried", sampled, None))
    evidence = ClaimEvidence(rows=tried[0].step.rows or subject.data.count)
    said = [narrator.say(Claim(kind, subject.target, it, certainty=p, evidence=evidence)) for kind, it, p in claims]
    return PartitionExplanation(
        inputs=names,
        idle=idle,
        together=tuple(tuple(map(float, row)) for row in together),
        partitions=tuple(each for place, each in enumerate(likely[:SHOWN]) if place < 2 or each.probability >= WORTH),
        tried=len(tried),
        possible=possible,
        sentences=tuple(said),
    )


def _add_up(
    groupings: Sequence[Groups], tried: Sequence[Candidate], matter: Sequence[str], names: Sequence[str]
) -> list[PartitionChance]:
    """Return the partitions of the inputs that matter, wherever the others are, most probable first."""
    chances, visits = dict[Groups, float](), Counter[Groups]()
    for groups, chance, candidate in zip(groupings, weigh(tried), tried, strict=True):
        kept = [tuple(name for name in group if name in matter) for group in groups]
        own = tuple(sorted((group for group in kept if group), key=lambda group: names.index(group[0])))
        chances[own] = chances.get(own, 0.0) + float(chance)
        visits[own] += candidate.step.number
    counted = visits.total()
    return [
        PartitionChance(groups, min(chance, 1.0), visits[groups] / counted if counted else None, partition_text(groups))
        for groups, chance in sorted(chances.items(), key=lambda pair: -pair[1])
    ]


def find_inputs(subject: Subject, sampler: PartitionSampler, kernel: Expression) -> dict[str, tuple[int, ...]]:
    """Return the inputs that were grouped, each with its encoded columns."""
    used = sorted({c for owner in kernel.owners() for c in owner.columns})
    found = {}
    for places in sampler.find_inputs(used, [column.name for column in subject.columns]):
        names = dict.fromkeys(subject.columns[c].table_name for c in places)
        found[" and ".join(names)] = places
    return found


def weigh(candidates: Sequence[Candidate]) -> Array:
    """Return the probabilities of partitions among themselves: scores are minus twice a log probability."""
    scores = np.array([c.score for c in candidates])
    weights = np.exp(-0.5 * (scores - scores.min()))
    return np.asarray(weights / weights.sum())


def group_inputs(kernel: Expression, inputs: dict[str, tuple[int, ...]]) -> Groups:
    """Return the groups of inputs that the summands of a kernel stand for, in the order of the inputs."""
    terms = kernel.children if isinstance(kernel, Sum) else (kernel,)
    columns = [{c for owner in term.owners() for c in owner.columns} for term in terms]
    groups = [tuple(name for name, places in inputs.items() if used.intersection(places)) for used in columns]
    order = list(inputs)
    return tuple(sorted(groups, key=lambda group: order.index(group[0])))


def pair_chances(groupings: Sequence[Groups], chances: Array, names: Sequence[str]) -> Array:
    """Return the probability of every two inputs to be in one group."""
    found = np.zeros((len(names), len(names)))
    for groups, chance in zip(groupings, chances, strict=True):
        for group in groups:
            places = [names.index(name) for name in group]
            found[np.ix_(places, places)] += chance
    return np.minimum(found, 1.0)


def partition_text(groups: Sequence[Sequence[str]]) -> str:
    """Write a partition: "(a, b) + c"."""
    return " + ".join(f"({', '.join(group)})" if len(group) > 1 else group[0] for group in groups)


def _claim(
    likely: Sequence[PartitionChance], names: tuple[str, ...], together: Array, idle: tuple[str, ...], informative: bool
) -> list[tuple[str, object, float | None]]:
    """Return what can be claimed of the inputs that matter: kind, value, certainty."""
    best = likely[0]
    claims: list[tuple[str, object, float | None]] = [
        ("partition", PartitionFound(best.groups, best.probability, informative), best.probability),
    ]
    if not informative:
        return claims
    matter = [name for name in names if name not in idle]
    pairs = [
        InputChance((a, b), float(together[names.index(a), names.index(b)]))
        for i, a in enumerate(matter)
        for b in matter[i + 1 :]
    ]
    pairs.sort(key=lambda pair: -pair.probability)
    alone = [
        InputChance((name,), sum(each.probability for each in likely if (name,) in each.groups)) for name in matter
    ]
    sorted_out = (
        ("acting together", [pair for pair in pairs if pair.probability >= SURE]),
        ("acting alone", [each for each in alone if each.probability >= SURE]),
        ("acting together unsettled", [pair for pair in pairs if 1.0 - SURE < pair.probability < SURE]),
    )
    for kind, found in sorted_out:
        if found:
            claims.append((kind, tuple(found), min(each.probability for each in found)))
    if idle:
        claims.append(("acting unknown", idle, None))
    return claims


# --------------------------------------------------------------------------------------------------------------- words


@words_for("partition")
def _say_partition(claim: Claim, _: Vocabulary) -> str:
    found, rows = claim.value, write_count(claim.evidence.rows or 0, "row")
    if not found.informative:
        return f"Which inputs act together is not settled: {rows} tell too little of it."
    most = _say_groups(found.groups)
    if found.probability < 0.5:
        return (
            f"Which inputs act together is not settled by {rows}: the most probable answer ({most}) has a probability "
            f"of {probability(found.probability)}."
        )
    return f"Most probable is: {most} (probability {probability(found.probability)})."


def _say_groups(groups: Sequence[Sequence[str]]) -> str:
    """Write "a and b together, c by itself"."""
    parts = [f"{_name_inputs(group)} together" for group in groups if len(group) > 1]
    single = [group[0] for group in groups if len(group) == 1]
    if len(single) == 1:
        parts.append(f"{single[0]} by itself")
    elif single:
        parts.append(f"{'the others' if parts and len(single) > LISTED else _name_inputs(single)} by themselves")
    return ", ".join(parts)


def _name_inputs(names: Sequence[str]) -> str:
    return list_names(names) if len(names) <= 2 * LISTED else f"{len(names)} inputs"


def _list_chances(found: Sequence[InputChance]) -> str:
    parts = [f"{list_names(each.names)} ({probability(each.probability)})" for each in found]
    rest = len(parts) - 2 * LISTED
    return "; ".join(parts if rest <= 1 else [*parts[: 2 * LISTED], f"{rest} others"])


SENTENCES |= {
    "acting together": lambda claim, _: f"Acting together: {_list_chances(claim.value)}.",
    "acting alone": lambda claim, _: (
        f"Acting by themselves: {_list_chances(claim.value)}."
        if len(claim.value) > 1
        else f"Acting by itself: {_list_chances(claim.value)}."
    ),
    "acting together unsettled": lambda claim, _: (
        f"Not settled is whether these act together: {_list_chances(claim.value)}."
    ),
    "acting unknown": lambda claim, _: (
        f"What {first_few(list(claim.value))} act{'s' if len(claim.value) == 1 else ''} together with is not known: "
        f"{'it accounts' if len(claim.value) == 1 else 'each accounts'} for less than 1 % of the variance. Kernels "
        f"that differ only in {'its' if len(claim.value) == 1 else 'their'} place count as one here; where kernels are "
        "averaged, each of them has a weight of its own."
    ),
}


@words_for("partitions tried")
def _say_partitions_tried(claim: Claim, _: Vocabulary) -> str:
    found = claim.value
    among = (
        f"all {found.possible:,} ways to group the inputs"
        if found.tried == found.possible
        else f"the {found.tried:,} of {found.possible:,} ways to group the inputs that were tried"
    )
    stay = f"; the chain spent {probability(found.visits)} of its steps at the most probable" if found.visits else ""
    return f"Probabilities are among {among}{stay}."


@words_for("sampled partitions")
def _say_sampled_partitions(claim: Claim, _: Vocabulary) -> str:
    found = claim.value
    return (
        f"Groups of inputs were sampled, splitting and merging them: {write_count(found.tried, 'grouping')} "
        f"{'was' if found.tried == 1 else 'were'} fitted, with {list_names(found.families)}."
    )
