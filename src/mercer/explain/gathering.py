"""Components of what predicts: the summands of one kernel, or of an average those of the same kind, by their weights.

Every component is centred over the rows. With H = I - 11'/N its mean is H m_j and its band that of H f_j: components
(and the level) can hand a constant back and forth, and a band that holds this constant says nothing about the shape.
What is taken off is added to the level, which is said once, so that level and components still add up to the mean.

Whether the columns of a summand act together is judged once, by its mean (`judge_joint`): the kind of a component, its
words and what is claimed of interactions all go by that.

Where kernels m are averaged with weights w_m, a component is what they have of one kind (METHODS 12): its mean is
sum_m w_m m_m, its variance sum_m w_m (v_m + (m_m - mean)^2), where a kernel without it counts as zero. How sure it is
that the component is there is the sum of the weights of the kernels that have it. A line, a slow change and a random
walk of different kernels that are the same curve are one component: what is not known is what to call it. That inputs
matter is as sure as the kernels in which they do have weight, whether these add their effects up or join them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mercer.explain.claims import WITHIN_95
from mercer.explain.factors import (
    FEW_CYCLES,
    LITTLE,
    Groups,
    Joint,
    KernelFactor,
    alters,
    change,
    find_acting,
    find_wave_period,
    group_factors,
    is_seldom,
    judge_by_rule,
    merge_factors,
    open_gates,
    read_factors,
)
from mercer.explain.subject import KernelPart, PredictingKernel, Subject, average, summand_mean
from mercer.explain.wording import INDISTINCT, Column
from mercer.explain.words import LIKELY
from mercer.fitting.calendar import RHYTHMS, rhythms_in
from mercer.inference.contract import Prediction
from mercer.kernels.blend import Surface, is_jump
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Sum, contains, sum_of
from mercer.kernels.functional import Functional
from mercer.kernels.network import Network

MOST_BANDS = 400  # rows whose bands are worked out, and over which they are centred; more are thinned
MANY_ROWS = 1000  # a band costs a solve with all of them: of more, fewer rows and fewer kernels have one
BANDS_OF_MANY_ROWS, BANDS_OF_MANY = 150, 3
BAND_WEIGHT = 0.02  # a kernel with a smaller weight adds to a band by its mean only
SAME_PERIOD = 0.1  # periods that differ by a smaller share are one
NEAR_PERIODS, FEWEST_BEATS = 0.25, 4.0  # as a share; of two patterns, that data must show to tell them from one
SHORT = 3.0  # steps of the data: what is forgotten over fewer is short-lived
AT_ONCE = 0.05  # of the range of the data: in noise a jump cannot be told from a change over so little
RISE = 4.4  # widths of a logistic function: from a tenth to nine tenths of it
SLOW = 0.5  # of the range of the data: what varies over more is a slow change
FEWEST_STEPS = 2.0  # of the data in a period: with fewer it cannot be seen
PARTS_OF_A_PERIOD = (6, 5, 4, 3, 2)  # a pattern that repeats within its period has a shorter one
WITHIN_CYCLES = 0.1  # of its variance: a wave with less within its cycles is a slow curve
ALIKE = 0.9  # the correlation from which two parts of a period are the same
GROWN, GROWS_CLEARLY = 1.5, 3.0  # times the first swing; standard errors of growth in the data
PLACES = 120  # in a period
SURELY = 0.99  # of the weight of the kernels with a component: then its kind is not in doubt
SAME_CURVE = 0.9  # the correlation from which the curves of two kernels are the same
EXCHANGED = 24  # rows whose columns are exchanged with each other
NO_PART, TOGETHER = 0.01, 0.02  # of a component's variance: less is no effect of a column, no interaction
OF_LARGEST = 0.2  # of what the column most joined with others does with them: less may be the wiggles of a fit
CLEARLY, EXCHANGED_FOR_BAND = 2.0, 16  # times its own variance: less of an interaction may be none; rows
SMALL = 0.001  # of the variance of the target: what a smaller component joins is not worth a sentence
MOST_COLUMNS = 8  # exchanged; with more the kernel alone is looked at
WANDERING = ("trend", "slow change", "variation", "short-lived variation", "random walk")  # may be the same curve
ROWS_FOR_A_HARMONIC = 3.0  # that the test of a season must leave
WANDERS = 0.4  # of the range of the data: a season that changes over less has several periods
QUICK = ("variation", "short-lived variation")


@dataclass(frozen=True)
class ComponentKind:
    """What components of several kernels have in common.

    `name` is "trend", "season", "slow change", "variation", "short-lived variation", "random walk", "jump", "noise",
    "constant", "network", "learned function", "effect" (of one input), "effects" (that add up) or "interaction".
    """

    name: str
    columns: tuple[str, ...] = ()  # of the table
    period: float | None = None  # of a season, along its column
    where: tuple[tuple[str, int], ...] = ()  # the surfaces and regimes that it is bound to
    idle_period: float | None = field(default=None, compare=False)  # of a kernel whose curve does not repeat with it


@dataclass(frozen=True, eq=False)
class MemberPart:
    """What one of the kernels has of a component: all its summands of the kind as one."""

    of: PredictingKernel
    part: KernelPart


@dataclass(frozen=True)
class LikelyKind:
    """What most of the kernels take a component for: their share of the weight of all with it, and beyond the data."""

    name: str
    within: float
    beyond: float


@dataclass(frozen=True, eq=False)
class GatheredComponent:
    """A component of what predicts, the kernel that has most weight first."""

    kind: ComponentKind
    members: tuple[MemberPart, ...]
    also: tuple[PredictingKernel, ...] = ()  # kernels that have it within components of other kinds
    likely: LikelyKind | None = None  # what it is most probably, where kernels differ about that

    @cached_property
    def certainty(self) -> float:
        """How sure it is that the component is there, within the data."""
        return min(1.0, sum(each.within for each in (*(member.of for member in self.members), *self.also)))

    @cached_property
    def certainty_beyond(self) -> float:
        """The same beyond the data: the weight of the kernels with it in a forecast."""
        return min(1.0, sum(each.beyond for each in (*(member.of for member in self.members), *self.also)))

    @property
    def columns(self) -> tuple[int, ...]:
        """The encoded columns that it looks at."""
        return tuple(sorted({d for each in self.members for d in each.part.columns}))


_GATHERED: WeakKeyDictionary[Subject, tuple[GatheredComponent, ...]] = WeakKeyDictionary()


def gather(subject: Subject) -> tuple[GatheredComponent, ...]:
    """Return the components: of one kernel its summands in their order, of several those of each kind."""
    if subject not in _GATHERED:
        _GATHERED[subject] = _gather_alone(subject) if subject.alone else _gather_all(subject)
    return _GATHERED[subject]


def _gather_alone(subject: Subject) -> tuple[GatheredComponent, ...]:
    (own,) = subject.kernels
    return tuple(GatheredComponent(classify(subject, own, part), (MemberPart(own, part),)) for part in own.parts)


Found = dict[int, list[KernelPart]]  # summands of a kind, by the kernel (its identity)


def _gather_all(subject: Subject) -> tuple[GatheredComponent, ...]:
    """Gather summands of the same kind, of seasons those whose periods are about the same; the surest first."""
    groups: dict[ComponentKind, Found] = {}
    kernels = sorted(subject.kernels, key=lambda each: -each.within)
    for kernel in kernels:
        for part in kernel.parts:
            kind = classify(subject, kernel, part)
            known = next((each for each in groups if _is_same(each, kind)), kind)
            groups.setdefault(known, {}).setdefault(id(kernel), []).append(part)
    _join_effects(groups)
    _join_rival_effects(subject, groups, {id(kernel): kernel.within for kernel in kernels})
    by_name, gathered = {id(kernel): kernel for kernel in kernels}, []
    for kind, found, likely in _merge_curves(subject, groups, by_name):
        members = [MemberPart(by_name[name], _join(subject, own)) for name, own in found.items()]
        kind = _name_by_calendar(subject, kind, members)
        also = tuple(kernel for kernel in kernels if id(kernel) not in found and _has(kind, groups, id(kernel)))
        gathered.append(GatheredComponent(kind, tuple(sorted(members, key=lambda m: -m.of.within)), also, likely))
    return tuple(sorted(gathered, key=lambda each: -each.certainty))


def _name_by_calendar(subject: Subject, kind: ComponentKind, members: Sequence[MemberPart]) -> ComponentKind:
    """Give seasons of a kernel whose periods are about the same that of a calendar, where it lies between them."""
    if kind.period is None or len(kind.columns) != 1:
        return kind
    column = subject.columns[subject.table_columns[kind.columns[0]][0]]
    periods = list_periods(subject, members[0], kind.period)
    named = [own for own in rhythms_in(column.unit).values() if periods and min(periods) <= own <= max(periods)]
    return replace(kind, period=named[0]) if named else kind


def list_periods(subject: Subject, member: MemberPart, period: float) -> list[float]:
    """Return the periods near one that summands of a kernel have, where the data can tell them apart; else none."""
    terms = member.part.kernel.children if isinstance(member.part.kernel, Sum) else (member.part.kernel,)
    heads = [read_factors(term, subject.columns)[0] for term in terms]
    found = [find_wave_period(head) for head in heads if head.role == "wave"]
    near = [each for each in found if each is not None and abs(math.log(each / period)) < SAME_PERIOD]
    if len(near) < 2 or len(member.part.columns) != 1:
        return []
    cycles = (1.0 / min(near) - 1.0 / max(near)) * float(np.ptp(subject.in_user_units(member.part.columns[0])))
    return near if cycles >= INDISTINCT else []


def _join_effects(groups: dict[ComponentKind, Found]) -> None:
    """Where a kernel has effects that add up in one summand, take those of others that have one for each together."""
    for wide in sorted((kind for kind in groups if kind.name == "effects"), key=lambda kind: -len(kind.columns)):
        if wide not in groups:  # it was taken to a wider one
            continue
        effects = [kind for kind in groups if kind.name in ("effect", "effects") and kind.where == wide.where]
        inside = [kind for kind in effects if set(kind.columns) <= set(wide.columns)]
        for kernel in {name for kind in inside for name in groups[kind]}:
            own = [kind for kind in inside if kernel in groups[kind]]
            if {column for kind in own for column in kind.columns} == set(wide.columns):
                groups[wide][kernel] = [part for kind in own for part in groups[kind].pop(kernel)]
        for kind in [kind for kind in inside if not groups[kind]]:
            del groups[kind]


def _join_rival_effects(subject: Subject, groups: dict[ComponentKind, Found], weights: dict[int, float]) -> None:
    """Take effects that add up as one component where no kernel has two of them: they differ in small inputs only.

    It is called by the inputs that most of these kernels have in it.
    """
    rivals: list[ComponentKind] = []
    for kind in sorted((k for k in groups if k.name == "effects"), key=lambda k: -sum(weights[n] for n in groups[k])):
        like = [each for each in rivals if each.where == kind.where and set(each.columns) & set(kind.columns)]
        if all(groups[each].keys().isdisjoint(groups[kind]) for each in rivals) and (like or not rivals):
            rivals.append(kind)
    if len(rivals) < 2:
        return
    share, total = dict.fromkeys(subject.table_columns, 0.0), 0.0
    for kind in rivals:
        own = sum(weights[kernel] for kernel in groups[kind])
        total += own
        share |= {name: share[name] + own for name in kind.columns}
    kept = tuple(name for name, own in share.items() if own >= LIKELY * total)
    found = {kernel: parts for kind in rivals for kernel, parts in groups.pop(kind).items()}
    joined = replace(rivals[0], columns=kept if len(kept) > 1 else rivals[0].columns)
    for kernel, parts in found.items():
        groups.setdefault(joined, {}).setdefault(kernel, []).extend(parts)


def _has(kind: ComponentKind, groups: dict[ComponentKind, Found], kernel: int) -> bool:
    """Whether the inputs of a kind matter in a kernel, or act together, by components of other kinds."""
    own = [each for each, found in groups.items() if kernel in found and each.name not in ("noise", "constant")]
    if kind.name in ("effect", "effects"):
        return {name for each in own for name in each.columns}.issuperset(kind.columns)
    together = [each for each in own if each.name == "interaction"]
    return kind.name == "interaction" and any(set(each.columns) >= set(kind.columns) for each in together)


def _merge_curves(
    subject: Subject, groups: dict[ComponentKind, Found], kernels: dict[int, PredictingKernel]
) -> list[tuple[ComponentKind, Found, LikelyKind | None]]:
    """Merge kinds that are the same curve, each by kernels of its own: how quickly it varies is all they differ in."""
    rows = subject.data.X[thin(len(subject.data.X))]

    def average_of(found: Found) -> Array:
        parts = [(kernels[name], part) for name, own in found.items() for part in own]
        return np.asarray(np.sum([of.within * mean_of(subject, of, part, rows) for of, part in parts], axis=0))

    merged: list[tuple[list[ComponentKind], Found, Array | None]] = []
    for kind, found in groups.items():
        curve = average_of(found) if kind.name in WANDERING else None
        for names, other, known in merged if curve is not None else ():
            apart = replace(names[0], name=kind.name) != kind or not other.keys().isdisjoint(found)
            if known is not None and curve is not None and not apart and _correlate(known, curve) >= SAME_CURVE:
                names.append(kind)
                other.update(found)
                break
        else:
            merged.append(([kind], dict(found), curve))
    found_kinds = [(_name_merged(kinds, groups, kernels), found) for kinds, found, _ in merged]
    return [(kind, found, likely) for (kind, likely), found in found_kinds]


def _name_merged(
    kinds: list[ComponentKind], groups: dict[ComponentKind, Found], kernels: dict[int, PredictingKernel]
) -> tuple[ComponentKind, LikelyKind | None]:
    """Return a kind that holds for all of several, and the most probable of them."""
    within = {kind: sum(kernels[name].within for name in groups[kind]) for kind in kinds}
    beyond = {kind: sum(kernels[name].beyond for name in groups[kind]) for kind in kinds}
    first, total = max(kinds, key=lambda kind: within[kind]), sum(within.values())
    if total <= 0 or within[first] > SURELY * total:
        return first, None
    quick = any(kind.name in QUICK for kind in kinds)
    likely = LikelyKind(first.name, within[first] / total, beyond[first] / max(sum(beyond.values()), 1e-12))
    return replace(first, name="variation" if quick else "slow change"), likely


def _correlate(one: Array, other: Array) -> float:
    size = float(np.std(one) * np.std(other))
    return 0.0 if size <= 0 else float(np.mean((one - one.mean()) * (other - other.mean()))) / size


def _is_same(one: ComponentKind, other: ComponentKind) -> bool:
    if one.period is None or other.period is None:
        return one == other
    return replace(one, period=other.period) == other and abs(math.log(one.period / other.period)) < SAME_PERIOD


def _join(subject: Subject, parts: Sequence[KernelPart]) -> KernelPart:
    return parts[0] if len(parts) == 1 else subject.part_of(sum_of([part.scaled for part in parts]))


# ---------------------------------------------------------------------------------------------------------------- kinds


def classify(subject: Subject, kernel: PredictingKernel, part: KernelPart) -> ComponentKind:
    """Find the kind of a summand: its shape along the one input or one of dates, else the inputs that it joins."""
    inside, gates = open_gates(part.kernel)
    where = tuple((surface.kind, regime) for surface, regime in gates)
    columns = subject.columns
    if subject.is_noise(part):
        return ComponentKind("noise", _name_tables(part.columns, columns), where=where)
    if contains(inside, Network) or contains(inside, Functional):
        name = "network" if contains(inside, Network) else "learned function"
        return ComponentKind(name, _name_tables(part.columns, columns), where=where)
    if is_jump(part.kernel):
        return ComponentKind(_name_jump(subject, part, gates[0][0]), _name_tables(part.columns, columns))
    joint = judge_by_rule(inside, columns) if gates else judge_joint(subject, kernel, part)
    groups = find_acting(group_factors(inside, columns), joint)
    looked_at = [d for dims in groups for d in dims]
    involved = _name_tables([d for d in looked_at if d not in joint.idle] or looked_at, columns)
    if len(involved) > 1:
        name = "effects" if joint.add_up or _is_line(groups) else "interaction"
        return ComponentKind(name, involved, where=where)
    factors = merge_factors(next(iter(groups.values())))
    if factors[0].role in ("noise", "constant"):
        return ComponentKind(factors[0].role, involved, where=where)
    column = factors[0].on[0]
    if len(factors[0].on) > 1 or column.is_category or (subject.only_column is None and column.unit is None):
        return ComponentKind("effect", involved, where=where)
    place = factors[0].leaf.columns[0]
    name, period = _find_shape(factors, column, subject.step_along(place))
    if period is not None:
        period = column.by_calendar(find_period(subject, kernel, part, place, period), subject.step_along(place))
        if not _repeats_within(subject, kernel, part, place, period):
            return ComponentKind("variation", involved, None, where, idle_period=period)
    return ComponentKind(name, involved, period, where)


def _name_jump(subject: Subject, part: KernelPart, surface: Surface) -> str:
    """Say whether a change of level is a jump, or takes its time: from a tenth to nine tenths of it."""
    (place,), width = part.columns, (surface.parameter("width").values or (0.0,))[0]
    rise, span = RISE * width, float(np.ptp(subject.in_user_units(place)))
    if rise <= max(SHORT * subject.step_along(place), AT_ONCE * span):
        return "jump"
    return "slow change" if rise > SLOW * span else "variation"


_JOINTS: WeakKeyDictionary[KernelPart, Joint] = WeakKeyDictionary()


def judge_joint(subject: Subject, kernel: PredictingKernel, part: KernelPart) -> Joint:
    """Find which columns of a summand do nothing, and whether the effects of the others just add up; judged once.

    A product of kernels need not be an interaction: (a + u)(b + v) with u small beside a is a sum but for the term uv.
    So the mean of the component is looked at where each table column is exchanged between rows: how much of its
    variance has the column by itself, and how much together with the others?
    """
    if part not in _JOINTS:
        _JOINTS[part] = _exchange(subject, kernel, part)
    return _JOINTS[part]


def _exchange(subject: Subject, kernel: PredictingKernel, part: KernelPart) -> Joint:
    sets: dict[str, list[int]] = {}
    for d in part.columns:
        sets.setdefault(subject.columns[d].table_name, []).append(d)
    if len(sets) < 2:
        return judge_by_rule(part.kernel, subject.columns)
    if len(sets) > MOST_COLUMNS:
        joint, flat = (
            judge_by_rule(part.kernel, subject.columns),
            frozenset(part.columns) - _find_bending(subject, part),
        )
        return _settle(subject, kernel, part, replace(joint, apart=flat))
    rows = subject.data.X[np.random.default_rng(0).permutation(subject.data.count)[:EXCHANGED]]
    count, idle, shares, most = len(rows), list[int](), list[float](), 0.0
    for own in sets.values():
        mixed = np.tile(rows, (count, 1))  # row i * count + j has `own` from row i, the other columns from row j
        mixed[:, own] = np.repeat(rows[:, own], count, axis=0)
        mean = mean_of(subject, kernel, part, mixed).reshape(count, count)
        total = float(mean.var()) or 1.0
        by_own, by_others = mean.mean(axis=1), mean.mean(axis=0)
        rest = mean - by_own[:, None] - by_others[None, :] + mean.mean()
        alone, together = float(by_own.var()) / total, float(rest.var()) / total
        if alone + together < NO_PART:
            idle += own
        clear = together < TOGETHER or _is_clear(subject, kernel, part, rows[:EXCHANGED_FOR_BAND], own)
        shares.append(together if clear else 0.0)
        most = max(most, float(rest.var()))
    least = max(TOGETHER, OF_LARGEST * max(shares))
    apart = [d for own, together in zip(sets.values(), shares, strict=True) if together < least for d in own]
    joint = Joint(frozenset(idle), len(apart) == len(part.columns), frozenset(apart), most)
    return _settle(subject, kernel, part, joint)


def _is_clear(subject: Subject, kernel: PredictingKernel, part: KernelPart, rows: Array, own: Sequence[int]) -> bool:
    """Whether what columns do together with the others is more than the model's own doubt about it.

    With f on a grid of n own places by n of the others, r = HfH holds what is together; its mean square against the
    trace of its posterior covariance. Kernels that multiply can fit effects that add up, with a little of both over.
    """
    count = len(rows)
    mixed = np.tile(rows, (count, 1))
    mixed[:, own] = np.repeat(rows[:, own], count, axis=0)
    centre = np.eye(count) - 1.0 / count
    together = centre @ mean_of(subject, kernel, part, mixed).reshape(count, count) @ centre
    spread = covariance_of(subject, kernel, part, mixed).reshape((count,) * 4)
    return float(np.sum(together**2)) > CLEARLY * float(np.einsum("ijkl,ik,jl->", spread, centre, centre))


def _settle(subject: Subject, kernel: PredictingKernel, part: KernelPart, joint: Joint) -> Joint:
    """Return a judgement by which effects add up where fewer than two inputs act together, or what they do is small."""
    least = SMALL * float(np.var(subject.targets))
    if len(name_joined(subject, part, joint)) < 2:
        return replace(joint, add_up=True)
    small = float(np.var(mean_of(subject, kernel, part, subject.data.X))) < least
    return replace(joint, add_up=True) if small else joint


def _find_bending(subject: Subject, part: KernelPart) -> frozenset[int]:
    """Return the columns whose lengthscales are not far beyond their range."""
    found: set[int] = set()
    for leaf in part.kernel.leaves():
        for place, d in enumerate(leaf.columns):
            if leaf.spec.words.role == "trend" or change(leaf, place, subject.columns[d]) >= LITTLE:
                found.add(d)
    return frozenset(found)


def name_joined(subject: Subject, part: KernelPart, joint: Joint) -> tuple[str, ...]:
    """Return the inputs that a summand joins: none where their effects add up, as those of a linear kernel do."""
    if joint.add_up or (isinstance(part.kernel, Base) and part.kernel.spec.words.role == "trend"):
        return ()
    return _name_tables(sorted(frozenset(part.columns) - joint.idle - joint.apart), subject.columns)


def _name_tables(places: Sequence[int], columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(columns[d].table_name for d in sorted(places)))


def _is_line(groups: Groups) -> bool:
    """Whether all that acts is linear: a linear kernel on several columns is a sum over them."""
    return len(groups) == 1 and all(factor.role == "trend" for factors in groups.values() for factor in factors)


def _find_shape(factors: list[KernelFactor], column: Column, step: float) -> tuple[str, float | None]:
    """Name what factors on one column are together, with the period of a season."""
    head, span = factors[0], column.span or math.inf
    fading = [factor for factor in factors if factor.role == "fading"]
    lengths = [factor.lengths[0] for factor in fading if factor.lengths is not None and not factor.hardly_changes]
    memory = min(lengths, default=math.inf)
    if head.role == "wave":
        period = find_wave_period(head)
        if period is None:
            return "variation", None
        if is_seldom(period, column):
            return "slow change" if memory > SLOW * span else "variation", None
        if memory < period or period < FEWEST_STEPS * step:
            return "short-lived variation" if memory <= SHORT * step else "variation", None
        return "season", period
    if head.role == "trend" and not alters(factors):
        return "trend", None
    if head.role not in ("trend", "fading"):
        return head.role, None
    bends = head.role == "trend" and not head.hardly_changes  # a line whose slope wanders is no walk of the level
    if not bends and any(factor.walks or factor.pull is not None for factor in fading):
        return "random walk", None
    if head.slope_walks or not memory <= SLOW * span:
        return "slow change", None
    return ("short-lived variation" if memory <= SHORT * step else "variation"), None


def _repeats_within(subject: Subject, kernel: PredictingKernel, part: KernelPart, place: int, period: float) -> bool:
    """Whether a part of what a wave does at the rows is within its cycles, and not from one to the next.

    PER with a period that misses that of the rows by little, and a short lengthscale, can follow any slow curve.
    """
    values, step = subject.in_user_units(place), subject.step_along(place)
    count = round(period / step) if step > 0 else 0
    if count < FEWEST_STEPS or len(values) < FEW_CYCLES * count:
        return True
    order = np.argsort(values, kind="stable")[-MOST_BANDS * count :]
    mean = mean_of(subject, kernel, part, subject.data.X[order])
    sums = np.cumsum(np.concatenate([[0.0], mean]))
    slow = (sums[count:] - sums[:-count]) / count  # averaged over a cycle
    return float(np.var(slow)) < (1.0 - WITHIN_CYCLES) * float(np.var(mean))


def find_period(subject: Subject, kernel: PredictingKernel, part: KernelPart, place: int, period: float) -> float:
    """Return the shortest period of a pattern: PER with three times the true one can fit as well."""
    values = subject.in_user_units(place)
    cycles = min(FEW_CYCLES, float(np.ptp(values)) / period)
    count = int(PLACES * cycles)
    mean = mean_of(subject, kernel, part, subject.rows_along(place, values.max() - period * np.arange(count) / PLACES))
    for parts in PARTS_OF_A_PERIOD:
        shift = PLACES // parts
        if period / parts < FEWEST_STEPS * subject.step_along(place):
            continue
        one, other = mean[shift:] - mean[shift:].mean(), mean[:-shift] - mean[:-shift].mean()
        size = math.sqrt(float(one @ one) * float(other @ other))
        if size > 0 and float(one @ other) / size >= ALIKE:
            return period / parts
    return period


# --------------------------------------------------------------------------------------------------------------- values


def mean_of(subject: Subject, kernel: PredictingKernel, part: KernelPart, rows: Array) -> Array:
    """Return the mean of a summand at scaled rows, not centred, in the user's units."""
    return subject.units.y_scale * summand_mean(kernel.posterior, part.program, part.values, rows)


def covariance_of(subject: Subject, kernel: PredictingKernel, part: KernelPart | None, rows: Array) -> Array:
    """Return the posterior covariance of a summand (None: of the whole) at scaled rows, in the user's units."""
    if part is None:
        return subject.units.y_scale**2 * kernel.posterior.predict_joint(rows)[1]
    found = kernel.posterior.project(rows, (part.program, part.values), joint=True)
    level = kernel.posterior.fitted_level.variance
    return np.asarray(subject.units.y_scale**2 * (found.variance + level * np.outer(found.pull, found.pull)))


class Curves:
    """The components of a subject as functions of rows; what does not depend on the rows is computed once."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.components = gather(subject)
        self._middles: dict[MemberPart, float] = {}
        self._means: dict[MemberPart, Array] = {}
        self._at_rows: dict[GatheredComponent, Prediction] = {}
        self._chances: dict[GatheredComponent, float] = {}

    @cached_property
    def reference(self) -> Array:
        """The rows over which bands are centred: all, or evenly chosen ones."""
        return self.subject.data.X[thin(len(self.subject.data.X), self.most)]

    @cached_property
    def most(self) -> int:
        """How many rows have bands of their own, and how many bands are centred over: fewer of many rows."""
        return MOST_BANDS if len(self.subject.data.X) <= MANY_ROWS else BANDS_OF_MANY_ROWS

    @cached_property
    def level(self) -> float:
        """What the components are added to: with them it makes the mean."""
        subject = self.subject
        own = [float(kernel.posterior.level.mean[0]) for kernel in subject.kernels]
        shares = np.array([kernel.within for kernel in subject.kernels])
        level = subject.level + subject.units.y_scale * float(shares @ own) / float(shares.sum())
        middles = [each.of.within * self.middle(each) for component in self.components for each in component.members]
        return level + sum(middles) / float(shares.sum())

    def mean_at_rows(self, member: MemberPart) -> Array:
        """Return the mean of what a kernel has of a component at the training rows, not centred."""
        if member not in self._means:
            self._means[member] = mean_of(self.subject, member.of, member.part, self.subject.data.X)
        return self._means[member]

    def middle(self, member: MemberPart) -> float:
        """Return its mean over the rows: what is taken off."""
        if member not in self._middles:
            self._middles[member] = float(self.mean_at_rows(member).mean())
        return self._middles[member]

    def at_rows(self, component: GatheredComponent) -> Prediction:
        """Return a component at the training rows; of very many, each has the band of the nearest that was chosen."""
        if component in self._at_rows:
            return self._at_rows[component]
        X = self.subject.data.X
        means = [self.mean_at_rows(each) - self.middle(each) for each in component.members]
        mean = self._weigh(component, X, means)
        order = np.argsort(X[:, component.columns[0]], kind="stable") if component.columns else np.arange(len(X))
        chosen = thin(len(X), self.most)
        band, variance = self.at(component, X[order[chosen]]).variance, np.empty(len(X))
        variance[order] = band[np.searchsorted((chosen[1:] + chosen[:-1]) / 2, np.arange(len(X)))]
        self._at_rows[component] = Prediction(mean, variance)
        return self._at_rows[component]

    def at(self, component: GatheredComponent, rows: Array) -> Prediction:
        """Return a component at scaled rows: mean and variance of its centred shape, in the user's units."""
        means, variances = [], []
        heaviest = sorted(component.members, key=lambda each: -max(each.of.within, each.of.beyond))
        matter = heaviest[: None if len(self.subject.data.X) <= MANY_ROWS else BANDS_OF_MANY]
        for each in component.members:
            means.append(mean_of(self.subject, each.of, each.part, rows) - self.middle(each))
            matters = each in matter and max(each.of.within, each.of.beyond) >= BAND_WEIGHT
            variances.append(self._variance(each, rows) if matters else np.zeros(len(rows)))
        weights, widening = self._weights(component, rows)
        rest = np.maximum(1.0 - weights.sum(axis=0), 0.0)[None]
        found = average(
            np.vstack([weights, rest]), np.vstack([*means, np.zeros(len(rows))]),
            np.vstack([*(np.array(variances) * widening), np.zeros(len(rows))]),
        )  # fmt: skip
        return found

    @cached_property
    def season_groups(self) -> list[list[GatheredComponent]]:
        """Seasons that are likely there, the largest first, each with those that cannot be told from it.

        Two waves of near periods are one that swells and fades, cos at + cos bt = 2 cos((a - b)t/2) cos((a + b)t/2). A
        pattern that changes as it goes looks like two, unless they are seen to swell and fade several times.
        """
        seasons = [c for c in self.components if c.kind.name == "season" and c.certainty >= LIKELY]
        groups: list[list[GatheredComponent]] = []
        for season in sorted(seasons, key=lambda each: -float(np.var(self.at_rows(each).mean))):
            near = next((group for group in groups if self._is_near(group[0], season)), None)
            groups.append([season]) if near is None else near.append(season)
        return groups

    def _is_near(self, one: GatheredComponent, other: GatheredComponent) -> bool:
        """Whether two seasons could be one whose period is between theirs, and which changes as it goes."""
        periods = one.kind.period, other.kind.period
        if periods[0] is None or periods[1] is None or one.columns != other.columns or len(one.columns) != 1:
            return False
        beats = abs(1.0 / periods[0] - 1.0 / periods[1]) * float(np.ptp(self.subject.in_user_units(one.columns[0])))
        return abs(math.log(periods[0] / periods[1])) < NEAR_PERIODS and beats < FEWEST_BEATS

    def find_between(self, component: GatheredComponent) -> tuple[float, float] | None:
        """Return the shortest and the longest period of the seasons that cannot be told from one; None: it is alone.

        One that changes as it goes has the periods that its change makes of it.
        """
        group = next((each for each in self.season_groups if component in each), [])
        periods = [each.kind.period for each in group if each.kind.period is not None]
        for each in group:
            periods += [] if each.kind.period is None else list_periods(self.subject, each.members[0], each.kind.period)
        if len(periods) == 1:
            rate, wander = 1.0 / periods[0], self._find_wander(component)
            periods = [1.0 / (rate + wander), 1.0 / (rate - wander)] if 0.0 < wander < rate else periods
        return (min(periods), max(periods)) if len(periods) > 1 else None

    def _find_wander(self, component: GatheredComponent) -> float:
        """Return by how much the frequency of a season wanders (95 %); zero where it hardly changes within the data.

        SE of a lengthscale l has the spectrum of a Gaussian with a standard deviation of 1 / (2 pi l), and the season
        times it that around its own frequency.
        """
        place = self.column_of(component)
        if place is None:
            return 0.0
        factors = read_factors(component.members[0].part.kernel, self.subject.columns)
        fading = [each for each in factors if each.role == "fading" and each.lengths is not None]
        length = min((each.lengths[0] for each in fading if each.lengths is not None), default=math.inf)
        span = float(np.ptp(self.subject.in_user_units(place)))
        return WITHIN_95 / (2.0 * math.pi * length) if length < WANDERS * span else 0.0

    def join_seasons(self, group: Sequence[GatheredComponent]) -> GatheredComponent:
        """Return seasons as one: its period a calendar's where one has such, else by the sizes of their waves."""
        if len(group) == 1:
            return group[0]
        column, parts = self.subject.columns[group[0].columns[0]], dict[int, list[KernelPart]]()
        kernels = {id(each.of): each.of for season in group for each in season.members}
        for each in (member for season in group for member in season.members):
            parts.setdefault(id(each.of), []).append(each.part)
        known = [(each.kind.period, float(np.var(self.at_rows(each).mean))) for each in group if each.kind.period]
        named = [period for period, _ in known if column.rhythm(period) is not None]
        rates, sizes = np.array([1.0 / period for period, _ in known]), np.array([size for _, size in known])
        period = named[0] if named else float(sizes.sum() / (sizes @ rates)) if sizes.sum() > 0 else known[0][0]
        members = [MemberPart(kernels[name], _join(self.subject, own)) for name, own in parts.items()]
        return GatheredComponent(replace(group[0].kind, period=period), tuple(members))

    def column_of(self, component: GatheredComponent) -> int | None:
        """Return the one column that a component goes along; others that kernels have beside it may be idle."""
        names = component.kind.columns
        places = self.subject.table_columns.get(names[0], component.columns) if len(names) == 1 else ()
        return places[0] if len(places) == 1 else None

    def without_others(self, component: GatheredComponent) -> Array:
        """Return what the other components leave of the data, with all that is noise."""
        kept = [each for each in self.components if each is not component and not is_noise(self.subject, each)]
        others = [self.at_rows(each).mean for each in kept]
        rest = self.subject.targets - self.level
        return np.asarray(rest - np.sum(others, axis=0)) if others else rest

    def test_season(self, component: GatheredComponent) -> float | None:
        """Return the p-value of a season's waves in what the other components leave of the data, were it pure noise.

        An F-test of the first harmonics, at the period and at those that the data hardly tell from it, corrected for
        all that could have been: the few that a calendar names, or as many frequencies as the data show. None where the
        component is no season.
        """
        period, place = component.kind.period, self.column_of(component)
        if period is None or place is None:
            return None
        if component not in self._chances:
            rest = self.without_others(component)
            at, step = self.subject.in_user_units(place), self.subject.step_along(place)
            near = [1.0 / (1.0 / period + part / float(np.ptp(at))) for part in (-INDISTINCT, 0.0, INDISTINCT)]
            named = self.subject.columns[place].rhythm(period) is not None
            found = [test_waves(at, rest, each, step) for each in near if each > 0]
            self._chances[component] = min(1.0, len(found) * min(found) * (len(RHYTHMS) if named else len(at) / 2.0))
        return self._chances[component]

    def _weigh(self, component: GatheredComponent, rows: Array, means: Sequence[Array]) -> Array:
        weights, _ = self._weights(component, rows)
        return np.asarray((weights * np.array(means)).sum(axis=0))

    def _weights(self, component: GatheredComponent, rows: Array) -> tuple[Array, Array]:
        """Return the weights of the kernels with a component and the factors of their variances, kernels x rows."""
        beyond = self.subject.mixture.beyond(rows)
        total = sum(kernel.within for kernel in self.subject.kernels)
        kernels = [each.of for each in component.members]
        weights = np.array([each.within / total * (1.0 - beyond) + each.beyond * beyond for each in kernels])
        return weights, np.array([1.0 + (each.widening - 1.0) * beyond for each in kernels])

    def _variance(self, member: MemberPart, rows: Array) -> Array:
        """Return the variance of f_j(x) less its mean over the reference rows."""
        found, some = np.empty(len(rows)), len(self.reference)
        for start in range(0, len(rows), self.most):
            block = rows[start : start + self.most]
            both = covariance_of(self.subject, member.of, member.part, np.vstack([block, self.reference]))
            own, count = np.diagonal(both)[: len(block)], len(block)
            centred = own - 2.0 * both[:count, count:].mean(axis=1) + both[count:, count:].sum() / some**2
            found[start : start + count] = np.maximum(centred, 0.0)
        return found


def test_waves(at: Array, values: Array, period: float, step: float) -> float:
    """Return the p-value of the first harmonics of a period in values that are noise: the F-test of a regression."""
    from scipy.stats import f

    waves = list_waves(at, len(values), period, step)
    left = values - waves @ np.linalg.lstsq(waves, values, rcond=None)[0]
    free = len(values) - waves.shape[1]
    whole, own = float(np.sum((values - values.mean()) ** 2)), float(left @ left)
    if free < 1 or whole <= 0:
        return 1.0
    numbers = waves.shape[1] - 1
    return float(f.sf((whole - own) / numbers / max(own / free, 1e-300), numbers, free))


def list_waves(at: Array, rows: int, period: float, step: float) -> Array:
    """Return the first harmonics of a period as columns, and a constant; no more than the rows can tell."""
    harmonics = int(min(3, max(1, period / (2.0 * step)), max(1, rows / (2 * ROWS_FOR_A_HARMONIC))))
    phase = 2.0 * np.pi * np.outer(at, np.arange(1, harmonics + 1)) / period
    return np.column_stack([np.cos(phase), np.sin(phase), np.ones(len(at))])


def is_noise(subject: Subject, component: GatheredComponent) -> bool:
    """Whether rows have nothing of a component in common: it belongs to the noise, whatever its kernel is."""
    return all(subject.is_noise(each.part) for each in component.members)


def thin(count: int, most: int = MOST_BANDS) -> NDArray[np.intp]:
    """Return the places of all rows, or of evenly chosen ones."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.intp)


def share_out(means: Sequence[Array], targets: Array, noise: float) -> list[float]:
    """Return the shares of the variance that components have, which add up to one with that of the noise.

    What each has in common with the target, cov(m_j, y), none less than nothing, divides what the noise leaves: the
    variances of the components themselves would add up to more where they cancel each other.
    """
    common = [max(0.0, float(np.mean((mean - mean.mean()) * (targets - targets.mean())))) for mean in means]
    total, left = sum(common), max(0.0, 1.0 - noise)
    return [left * each / total if total > 0 else 0.0 for each in common]


def is_growing(curves: Curves, component: GatheredComponent) -> bool:
    """Say whether the last cycle of a season clearly swings more than the first: in its curve, and in the data.

    A kernel like LIN * PER takes growth for granted, so that its band does not say whether there is any.
    """
    subject, place, period = curves.subject, curves.column_of(component), component.kind.period
    if place is None or period is None:
        return False
    if subject.freedom < len(component.members[0].of.values):  # then noise is part of the curve
        return False
    values, cycle = subject.in_user_units(place), np.linspace(0.0, period, PLACES)
    ends = [subject.rows_along(place, at) for at in (values.min() + cycle, values.max() - cycle)]
    found = [curves.at(component, rows) for rows in ends]
    first, last = (float(np.ptp(each.mean)) for each in found)
    spread = math.sqrt(2.0 * sum(float(np.median(each.variance)) for each in found))
    if not (last > GROWN * first and last - first > WITHIN_95 * spread):
        return False
    return measure_growth(values, curves.without_others(component), period, subject.step_along(place)) > GROWS_CLEARLY


def measure_growth(at: Array, values: Array, period: float, step: float) -> float:
    """Return by how many standard errors a pattern g that repeats grows: the size of b in values = a g + b g t + noise.

    g is the fit of the first harmonics, and t the place, less its mean.
    """
    waves = list_waves(at, len(values), period, step)
    pattern = waves @ np.linalg.lstsq(waves, values, rcond=None)[0]
    pattern -= pattern.mean()
    design = np.column_stack([pattern, pattern * (at - at.mean()), np.ones(len(at))])
    fitted, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    free = len(values) - waves.shape[1] - 1
    if rank < 3 or free < 1:
        return 0.0
    left = float(np.sum((values - design @ fitted) ** 2)) / free
    return float(fitted[1] / math.sqrt(max(left * np.linalg.inv(design.T @ design)[1, 1], 1e-300)))
