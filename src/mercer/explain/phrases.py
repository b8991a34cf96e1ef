"""The words of a component, by rule (METHODS 3): what it is, what it is called, what it does beyond the data.

Every factor of a summand has been read into a record (`factors.py`). Among the factors on the same columns the one of
the lowest rank (see `Words` of a base kernel) is the noun, the others are clauses about it. Factors on different
columns make an interaction, unless `Joint` says otherwise. What is said about the whole model is in `words.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mercer.explain.categories import say_pairs
from mercer.explain.factors import (
    FEW_CYCLES,
    LASTING,
    LITTLE,
    Groups,
    Joint,
    KernelFactor,
    alters,
    find_acting,
    find_bending,
    find_growth,
    find_wave_period,
    group_factors,
    has_ended,
    is_seldom,
    judge_by_rule,
    merge_factors,
    open_gates,
    read_factor,
    read_factors,
)
from mercer.explain.wording import (
    LISTED,
    Column,
    capital,
    choose_unit,
    first_few,
    list_names,
    name_columns,
    number,
    percent,
    roughly,
    write_count,
)  # fmt: skip
from mercer.fitting.calendar import DAYS
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.expression import Base, Expression, contains, product_of
from mercer.kernels.functional import Functional
from mercer.kernels.network import Network

POWERS = {1: "linear", 2: "quadratic", 3: "cubic"}
GROWTH = {1: "linearly", 2: "quadratically", 3: "cubically"}
GOING_ON = {1: "in a straight line", 2: "as a parabola", 3: "as a cubic curve, which soon leaves all bounds"}
UNFORESEEN = "Nothing of it can be foreseen"
LONG = 3.0  # a lengthscale of this many times the range of the data changes next to nothing within it
NEARLY_SINUSOIDAL = 2.0  # the lengthscale of PER from which its second harmonic is below 7 % of the first


@dataclass(frozen=True)
class Seen:
    """What the curve of a component shows, where the kernel alone could mislead; None: not known.

    A wide PER may hold a jump, if the data ask for one; a factor LIN need not let a season grow; what fits a jump in
    level looks like a random walk.
    """

    sinusoidal: bool | None = None
    grows: bool | None = None
    jump: Jump | None = None
    idle_period: float | None = None  # of a kernel whose curve does not repeat with it
    noise: bool = False  # rows have nothing of it in common


@dataclass(frozen=True)
class Jump:
    """Where most of what a component does happens, between two neighbouring rows, and by how much."""

    at: float
    size: float


# -------------------------------------------------------------------------------------------------------------- phrases


def phrase(term: Expression, columns: Sequence[Column], joint: Joint | None = None, seen: Seen | None = None) -> str:
    """Say what one summand (canonical form, units of the data) is: "a periodic function of month with period 12".

    `seen` is what its curve shows, where that is known; else the kernel alone is asked.
    """
    if isinstance(term, Blend):
        inside, gates = open_gates(term)
        return f"{phrase(inside, columns, joint, seen)}, {gate_words(gates, columns)}"
    used = sorted({d for leaf in term.leaves() for d in leaf.columns})
    if contains(term, Network):  # its primitives are added and multiplied by weights: no rule for products applies
        symbols = list(dict.fromkeys(leaf.symbol for leaf in term.leaves()))
        return f"a function of {name_columns([columns[d] for d in used])} learned by a network of {list_names(symbols)}"
    if _has_no_formula(term, columns):
        what = f"a function of {name_columns([columns[d] for d in used])}"
        return f"{what} with a kernel that was learned without a formula"
    joint = judge_by_rule(term, columns) if joint is None else joint
    groups, parts = find_acting(group_factors(term, columns), joint), []
    levels = [factors[0] for factors in groups.values() if factors[0].role == "levels"]
    if levels and len(groups) > 1 and not joint.add_up:
        return _differing(term, columns, joint, groups, levels)
    for factors in groups.values():
        parts.append(_describe(merge_factors(factors), seen or Seen()))
    if isinstance(term, Base):  # in a product the variance of one factor says nothing
        return parts[0] + _size(groups[term.columns][0])
    involved = sorted({d for dims in groups for d in dims})
    idle = sorted(set(used).difference(involved))
    hardly = f", hardly changing with {name_columns([columns[d] for d in idle])}" if idle else ""
    if len(parts) == 1:
        return parts[0] + hardly
    if len({columns[d].table_name for d in involved}) == 1 and all(columns[d].level is not None for d in involved):
        return f"a difference between the values of {columns[involved[0]].table_name}{hardly}"
    if joint.add_up:
        return ", plus ".join(parts) + hardly
    return f"an interaction of {name_columns([columns[d] for d in involved])}: {', multiplied by '.join(parts)}{hardly}"


def _differing(
    term: Expression, columns: Sequence[Column], joint: Joint, groups: Groups, levels: list[KernelFactor]
) -> str:
    """Say what differs between categories: a product with one factor of them or several."""
    names = list_names([name_columns(factor.on) for factor in levels])
    others = [leaf for leaf in term.leaves() if groups.get(leaf.columns, levels)[0].role != "levels"]
    if not others:
        return f"a level for each combination of {names}"
    idle = frozenset(d for factor in levels for d in factor.leaf.columns)
    alike = list_names([say_pairs(factor.leaf, factor.on[0]) for factor in levels])
    what = phrase(product_of(others), columns, replace(joint, idle=joint.idle | idle))
    return f"{what}, different for each {names}{f' ({alike})' if alike else ''}"


def _has_no_formula(term: Expression, columns: Sequence[Column]) -> bool:
    return contains(term, Functional) and not any(factor.role == "wave" for factor in read_factors(term, columns))


def _describe(factors: list[KernelFactor], seen: Seen) -> str:
    """Say what factors on the same columns are: a noun with clauses, the second about a thing with "and"."""
    head, on = factors[0], factors[0].on
    if len(on) == 1 and on[0].level is not None and head.role != "noise":  # zero or one: whatever the kernel, a step
        return f"a difference between {on[0].name} and the others"
    if head.role == "levels":
        return f"a level for each {name_columns(on)}"
    others = [factor for factor in factors[1:] if factor.role != "trend"]
    lines = find_bending(factors)
    text, about = _noun(head, alters(others), seen), "whose shape"
    if head.role == "trend":
        text, about = _polynomial(lines), {1: "whose slope"}.get(len(lines), "whose size")
    clauses: list[str] = []
    again = False  # the clause before is about the same thing
    for factor in others:
        if factor.role == "fading":
            clauses.append(f"{'and' if again else about} {_change(factor)}")
        else:
            clauses.append(f"modulated by {_noun(factor, False, Seen())}")
        again = factor.role == "fading"
    if lines and head.role != "trend":
        growth = find_growth(factors)
        how = GROWTH.get(growth.power, f"as a polynomial of degree {growth.power}")
        where = f"with {name_columns(on)}"
        if growth.zero is not None:
            where = f"{'towards' if growth.kind == 'shrinking' else 'away from'} {on[0].at(growth.zero)}"
        constant = growth.kind == "constant" or (growth.kind == "growing" and seen.grows is False)
        clauses.append("with almost constant amplitude" if constant else f"with amplitude {growth.kind} {how} {where}")
    return " ".join([text, ", ".join(clauses)]) if clauses else text


def _noun(factor: KernelFactor, altered: bool, seen: Seen) -> str:
    on, words, of = factor.on, factor.words, name_columns(factor.on) if factor.on else ""
    if factor.role == "wave":
        return _mixture(factor) if factor.leaf.spec.mixture else _wave(factor, altered, seen.sinusoidal)
    if factor.role == "levels":
        return f"a level for each {of}"
    if factor.role == "noise":
        return f"{words.summary}, drawn anew for every value of {of}"
    if factor.role == "constant":
        return words.summary
    if factor.role == "trend":
        return f"{words.summary} of {of}"
    if factor.walks:
        return f"a function of {of} that wanders like a random walk"
    if factor.pull is not None:
        return f"a function of {of} that wanders like a random walk, slowly drawn back over {_over(factor.pull, on[0])}"
    if factor.slope_walks:
        return f"a function of {of} whose slope wanders like a random walk: its last direction is the best guess"
    if factor.slope_fades:
        over = f" over {_over(factor.lengths[0], on[0])}" if factor.lengths is not None and len(on) == 1 else ""
        return f"a function of {of} whose slope wanders and fades{over}: its last direction holds for a while"
    if factor.lengths is None:
        return f"{words.noun} of {of}"
    if len(on) > 1:
        return f"{words.noun} of {of}{_sensitivity(factor)}"
    if factor.hardly_changes:
        length = on[0].length(factor.lengths[0])
        return f"{words.noun} of {of}, almost straight within the data (lengthscale {length})"
    return f"{words.noun} of {of}, {words.varying} {_over(factor.lengths[0], on[0])}"


def _wave(factor: KernelFactor, altered: bool, judged: bool | None = None) -> str:
    """Name what repeats with one period along each column; of a wave that they show seldom, nobody knows."""
    leaf, on, of = factor.leaf, factor.on, name_columns(factor.on)
    period = find_wave_period(factor)
    if period is not None and is_seldom(period, on[0]):
        part = "a part of " if on[0].span is not None and on[0].span < period else ""
        return f"a slow curve of {of}, like {part}a wave{_shown(period, on[0])}"
    if not leaf.spec.has("period"):
        base = f"{'an approximately regular' if altered else 'a pure'} wave in {of}"
        frequencies = leaf.parameter("frequency").values
        if frequencies is None:
            return base
        if len(on) == 1:
            return f"{base} {_period(frequencies[0], on[0])}"
        each = [f"{_period(f, c)} along {c.name}" for c, f in zip(on, _each(frequencies, on), strict=True)]
        return f"{base} {first_few(each)}"
    periods, widths = leaf.parameter("period").values, leaf.parameter("lengthscale").values
    sinusoidal = widths is not None and min(widths) >= NEARLY_SINUSOIDAL and judged is not False
    article = "a nearly" if sinusoidal else "a"
    kind = "sinusoidal" if sinusoidal else "periodic"
    base = f"{'an approximately' if altered else article} {kind} function of {of}"
    if periods is None:
        return base
    if len(on) > 1:
        each = [f"{c.length(p)} in {c.name}" for c, p in zip(on, _each(periods, on), strict=True)]
        return f"{base} with periods {first_few(each)}"
    return f"{base}{_shown(periods[0], on[0])}"


def _shown(period: float, column: Column) -> str:
    """Write a period, and how often the data show it where that is seldom."""
    text = f" with period {column.length(period)}"
    if column.span is None or column.span >= FEW_CYCLES * period:
        return text
    times = f", which the data show only {column.span / period:.1f} times"
    return text + (", of which the data show only a part" if column.span < period else times)


def _period(frequency: float, column: Column) -> str:
    if frequency == 0 or (column.span is not None and abs(frequency) * column.span < 1 / (2 * LONG)):
        return "with a period far longer than the data"
    return _shown(1 / abs(frequency), column).strip()


def _mixture(factor: KernelFactor) -> str:
    """Name the strongest waves of a mixture; where exp(-2 pi^2 b^2 d^2) fades it is an SE of length 1 / (2 pi b)."""
    leaf, on = factor.leaf, factor.on
    base = f"a mixture of {write_count(leaf.components, 'fading wave')} in {name_columns(on)}"
    weights, frequencies, widths = (leaf.parameter(n).values for n in ("weights", "frequency", "bandwidth"))
    if weights is None or frequencies is None or widths is None:
        return base
    waves = []
    for q in sorted(range(leaf.components), key=lambda q: -weights[q])[:LISTED]:
        own = slice(q * len(on), (q + 1) * len(on))
        frequency, width = (_each(values, on, leaf.components)[own] for values in (frequencies, widths))
        d = max(range(len(on)), key=lambda i: abs(frequency[i]) * (on[i].span or 1.0))
        fades = f"{_over(1 / (2 * math.pi * width[d]), on[d])}{f' along {on[d].name}' if len(on) > 1 else ''}"
        swings = abs(frequency[d]) >= width[d]  # else it fades before it has swung once
        what = f"one {_period(frequency[d], on[d])}, fading over" if swings else "a smooth part varying over"
        waves.append(f"{what} {fades} ({percent(weights[q])})")
    return f"{base}: {'; '.join(waves)}" + ("; and weaker ones" if leaf.components > LISTED else "")


def _polynomial(lines: Sequence[KernelFactor]) -> str:
    power, on = len(lines), lines[0].on
    kind = f"a {POWERS[power]} function of" if power in POWERS else f"a polynomial of degree {power} in"
    words = f"{kind} {name_columns(on)}"
    weights = lines[0].leaf.parameter("weights").values
    if len(on) == 1 or weights is None or power > 1:
        return words
    effects = [w * (c.span or 0.0) ** 2 for w, c in zip(_each(weights, on), on, strict=True)]
    strongest = sorted(range(len(on)), key=lambda d: -effects[d])
    steep = [on[d].name for d in strongest[:LISTED] if effects[d] > 0.05 * sum(effects)]
    return f"{words}, steepest in {list_names(steep)}" if steep else words


def _change(factor: KernelFactor) -> str:
    """Say how a factor that fades changes the noun."""
    words, on = factor.words, factor.on
    if factor.walks:
        by = f", by about {percent(factor.changes[0])} over the data" if factor.changes[0] < 1 else ""
        return f"drifts like a random walk{by}"
    if factor.lengths is None:
        return words.verb
    if len(on) > 1:
        return f"{words.verb}{_sensitivity(factor)}"
    if factor.hardly_changes:
        return f"hardly changes within the data (lengthscale {on[0].length(factor.lengths[0])})"
    return f"{words.verb}{words.over} {_over(factor.lengths[0], on[0])}"


def _sensitivity(factor: KernelFactor) -> str:
    """Say over which lengths a function of several columns varies, and which of them matter most."""
    on, lengths = factor.on, _each(factor.lengths or (), factor.on)
    relevant = [d for d in range(len(on)) if factor.changes[d] >= LITTLE]
    if factor.leaf.isotropic and not factor.leaf.ratios:
        almost = "" if relevant else ", almost straight within the data"
        varies = f"{factor.words.scales}, with" if factor.words.scales else f", {factor.words.varying}"
        return f"{almost}{varies} one lengthscale for all, {number(lengths[0])}"
    if not relevant:
        return ", almost straight within the data"
    order = sorted(range(len(on)), key=lambda d: lengths[d] / (on[d].span or 1.0))
    first = [d for d in order if d in relevant][:LISTED]
    names = [f"{on[d].name} (lengthscale {on[d].length(lengths[d])})" for d in first]
    words = f"{factor.words.scales}, most sensitive to {list_names(names)}"
    idle = len(on) - len(relevant)
    if 0 < idle <= LISTED:
        return f"{words} and hardly depending on {list_names([on[d].name for d in order[-idle:]])}"
    return f"{words} and hardly depending on {idle} others" if idle else words


def _over(length: float, column: Column) -> str:
    if column.unit in DAYS:
        return f"{roughly(length, str(column.unit))} (lengthscale {column.length(length)})"
    return f"a lengthscale of {column.length(length)}"


def slope_phrase(slope: float, column: Column) -> str:
    """Say how steep a line is."""
    if slope == 0:
        return "level"
    if column.level is not None:
        return f"{column.name} being {'higher' if slope > 0 else 'lower'} by {number(abs(slope))}"
    per = f"per {column.unit.removesuffix('s')}" if column.unit else f"for every unit of {column.name}"
    return f"{'rising' if slope > 0 else 'falling'} by {number(abs(slope))} {per}"


def _size(factor: KernelFactor) -> str:
    """Say how large noise or a constant is, and how far a random walk goes in one step, or in all the data."""
    variance = factor.leaf.parameter("variance").values
    if factor.role in ("noise", "constant"):
        return "" if variance is None else f", of standard deviation {number(math.sqrt(variance[0]))}"
    if not factor.walks:
        return ""
    far = ""
    if variance is not None and len(factor.on) == 1:
        column = factor.on[0]
        distance = 1.0 if column.unit else column.span or 1.0
        step = distance if factor.lengths is None else 2 * -math.expm1(-distance / factor.lengths[0])
        size = number(math.sqrt(variance[0] * step))
        unit = (column.unit or "").removesuffix("s")
        when = f"in {'an' if unit == 'hour' else 'a'} {unit}" if unit else "over all the data"
        far = f", by about {size} {when}"
    return f"{far}: where it is now is the best guess for where it goes"


def _each(values: Sequence[float], on: Sequence[Column], repeats: int = 1) -> Sequence[float]:
    """One value may stand for all of them."""
    return values if len(values) == len(on) * repeats else tuple(values) * (len(on) * repeats)


def gate_words(gates: Sequence[tuple[Surface, int]], columns: Sequence[Column]) -> str:
    """Say where a component holds: "until about 1898"."""
    return " and ".join(where_phrase(surface, regime, columns) for surface, regime in gates)


def where_phrase(surface: Surface, regime: int, columns: Sequence[Column]) -> str:
    """Say where a regime holds: "until about 1898", "between about 1645 and 1715"."""
    value = {p.name: p.values for p in surface.parameters}
    on = [columns[c] for c in surface.columns]
    if surface.kind == "CP" and value["location"] is not None:
        places = [on[0].about(place) for place in value["location"]]
        if regime == 0:
            return f"until about {places[0]}"
        if regime == len(places):
            return f"from about {places[-1]} on"
        return f"between about {places[regime - 1]} and {places[regime]}"
    if surface.kind == "CW" and value["start"] is not None and value["duration"] is not None:
        start = value["start"][0]
        ends = f"between about {on[0].about(start)} and {on[0].about(start + value['duration'][0])}"
        return ends if regime == 1 else f"except {ends}"
    return f"where regime {regime + 1} of the change over {name_columns(on)} holds"


# --------------------------------------------------------------------------------------------------------------- titles


def title(term: Expression, columns: Sequence[Column], alone: bool = True, joint: Joint | None = None) -> str:
    """Name one summand in a few words: "Pattern with period 12.0 months". `alone`: there is only one input."""
    if isinstance(term, Blend):
        inside, gates = open_gates(term)
        return f"{title(inside, columns, alone, joint)}, {gate_words(gates, columns)}"
    if contains(term, Network):
        return "Function learned by a network"
    if _has_no_formula(term, columns):
        return "Function with a learned kernel"
    joint = judge_by_rule(term, columns) if joint is None else joint
    groups = find_acting(group_factors(term, columns), joint)
    used = sorted({d for dims in groups for d in dims})
    involved = list(dict.fromkeys(columns[d].table_name for d in used))
    if len(groups) > 1 and len(involved) > 1:
        what = "Effects" if joint.add_up else "Interaction"
        return f"{what} of {list_names(involved) if len(involved) <= LISTED else f'{len(involved)} inputs'}"
    factors = next(iter(groups.values()))
    on = factors[0].on
    if len(on) == 1 and on[0].level is not None and factors[0].role != "noise":
        return f"Difference of {on[0].name if len(groups) == 1 else on[0].table_name}"
    return _title_of_factors(merge_factors(factors), "" if alone or not on else f" in {name_columns(on)}")


def _title_of_factors(factors: list[KernelFactor], of: str) -> str:
    head, *others = factors
    adjectives, power = list[str](), len(find_bending(factors))
    if head.role == "wave" and (growth := find_growth(factors).kind) in ("growing", "shrinking"):
        adjectives.append(growth)
    if any([factor.walks for factor in others]):
        adjectives.append("drifting")
    elif alters(others):
        adjectives.append("changing")
    described = " and ".join(adjectives) + " " if adjectives else ""
    if head.role == "wave":
        period = find_wave_period(head)
        if period is not None and is_seldom(period, head.on[0]):
            return f"Slow change{of}"
        rhythm = None if period is None else head.on[0].rhythm(period)
        if rhythm is not None:
            return f"{capital(described + rhythm)} pattern{of}"
        return f"{capital(described + 'pattern')}{of}{'' if period is None else _shown_period(period, head.on[0])}"
    if head.role == "trend":
        shape = f"{POWERS[power]} trend" if power in POWERS else f"trend of degree {power}"
        return f"{capital(described + shape)}{of}"
    if head.walks:
        return f"Random walk{of}"
    if head.pull is not None:
        return f"Random walk{of}, drawn back {_title_length(head)}"
    if head.slope_walks:
        return f"Wandering trend{of}"
    if head.slope_fades:
        return " ".join(filter(None, [f"Fading trend{of}", _title_length(head)]))
    if head.role == "levels":
        return f"Differences between {name_columns(head.on)}"
    if head.role == "fading":
        slow = "Slow change" if head.hardly_changes else head.words.title
        return " ".join(filter(None, [f"{slow}{of}", _title_length(head)]))
    return f"Noise at each value{of}" if head.role == "noise" else "Constant"


def _shown_period(period: float, column: Column) -> str:
    far = column.span is not None and column.span < period / (2 * LONG)
    return " with a period far longer than the data" if far else f" with period {column.length(period)}"


def _title_length(factor: KernelFactor) -> str:
    if not factor.lengths or len(factor.on) != 1:
        return ""
    column, length = factor.on[0], factor.lengths[0]
    return f"over {roughly(length, column.unit) if column.unit in DAYS else f'about {column.length(length)}'}"


def distinct(
    titles: Sequence[str], terms: Sequence[Expression], columns: Sequence[Column], shares: Sequence[float]
) -> list[str]:
    """Add to titles that several components carry what differs between them: another period, a length, or the share."""
    added_to = list(titles)
    for same, count in Counter(titles).items():
        if count == 1:
            continue
        places = [place for place, each in enumerate(titles) if each == same]
        by_period, by_length = [], []
        for place in places:
            factors = [factor for factor in read_factors(terms[place], columns) if len(factor.on) == 1]
            waves = [factor for factor in factors if factor.leaf.spec.has("period")]
            known = [(wave.on[0], wave.leaf.parameter("period").values) for wave in waves]
            periods = [column.length(values[0]) for column, values in known if values]
            by_period.append(f", modulated with period {list_names(periods[1:])}" if len(periods) > 1 else "")
            leaves = [leaf for leaf in terms[place].leaves() if len(leaf.columns) == 1]
            fading = [leaf for leaf in leaves if leaf.spec.words.role == "fading"]
            lengths = [_title_length(read_factor(leaf, (columns[leaf.columns[0]],))) for leaf in fading]
            by_length.append(f", {lengths[0]}" if lengths and lengths[0] else "")
        by_share = [f" ({percent(shares[place])} of the variance)" for place in places]
        numbered = [f" ({number})" for number in range(1, count + 1)]
        added = next((way for way in (by_period, by_length, by_share) if len(set(way)) == count), numbered)
        for place, words in zip(places, added, strict=True):
            added_to[place] = f"{same}{words}"
    return added_to


# ------------------------------------------------------------------------------------------------------ beyond the data


def continuation(term: Expression, columns: Sequence[Column], horizon: float | None, rest: float | None = None) -> str:
    """Say what one summand on one column does beyond the data.

    `horizon` is how far from the last row its band has become as wide as it would be without data; None: it never does
    within any sensible distance; zero: the data say next to nothing of it even at the last row. `rest` is where it
    stays, less its average over the data; None: it moves on, or that is not known.
    """
    if isinstance(term, Blend):
        inside, gates = open_gates(term)
        if any(has_ended(surface, regime, columns) for surface, regime in gates):
            ended = "It has ended before the end of the data"
            return f"{ended} and plays no part beyond it." if not rest else f"{ended}; beyond it, it {_staying(rest)}."
        return continuation(inside, columns, horizon, rest)
    factors = read_factors(term, columns)
    column = next((factor.on[0] for factor in factors if factor.on), columns[0])
    roles = [factor.role for factor in factors]
    if "noise" in roles:
        return f"{UNFORESEEN}."
    if roles == ["constant"]:
        return "It stays as it is."
    if "levels" in roles:
        return f"Of a new {column.name} nothing is known but what all have in common."
    if horizon == 0:
        return f"{UNFORESEEN}: even at the end of the data it is hardly known."
    until = "" if horizon is None else f"{after(horizon, column)} nothing of it is known any more"
    if contains(term, Network):
        return f"Beyond the data it goes on as the network has learned{until and f'; {until}'}."
    if contains(term, Functional) and "wave" not in roles:
        return f"Beyond the data it {_returning(rest)}{until and f'; {until}'}."
    factors = merge_factors(factors)
    going = _going_on(factors, horizon, rest)
    if any([factor.walks for factor in factors]):
        alone = len(factors) == 1
        if horizon is not None and horizon > LONG * (column.span or math.inf):
            until = ""  # far beyond what anyone should look at
        end = f"; {until}" if until else ""
        if alone and not until:
            end = ": there is no average to return to"
        return f"{going}, and its band grows {'' if alone else 'at least '}like the square root of the distance{end}."
    if until:
        return f"{going}; {until}."
    fading = "fading" in [factor.role for factor in factors]
    return f"{going}; its band stays narrow as far as one can look." if fading else f"{going}."


def _staying(rest: float) -> str:
    return f"stays {number(abs(rest))} {'above' if rest > 0 else 'below'} its average over the data"


def _returning(rest: float | None) -> str:
    if rest is None:
        return "returns to zero"
    return f"settles and {_staying(rest)}" if rest else "returns to its average"


def _going_on(factors: list[KernelFactor], horizon: float | None, rest: float | None) -> str:
    """Say what its mean does."""
    fading = [factor for factor in factors if factor.role in LASTING]
    wave = next((factor for factor in factors if factor.role == "wave"), None)
    if wave is not None:
        longest = 0.0  # of its periods, where they are known
        if wave.leaf.spec.has("period"):
            longest = max(wave.leaf.parameter("period").values or (0.0,))
        elif not wave.leaf.spec.mixture and (frequencies := wave.leaf.parameter("frequency").values) and frequencies[0]:
            longest = 1 / abs(frequencies[0])
        if horizon is not None and horizon < longest:
            return "Beyond the data it fades before it has repeated once"
        swings = ", with growing swings" if find_growth(factors).kind == "growing" else ""
        return f"Beyond the data it goes on repeating{swings}"
    power = len(find_bending(factors))
    if power and fading and not any([factor.walks for factor in fading]):
        return "Beyond the data it goes on for a while, less and less surely"
    if power:
        return f"Beyond the data it goes on {GOING_ON.get(power, 'as a polynomial, which soon leaves all bounds')}"
    if fading[0].walks:
        return "Beyond the data its last value remains the best guess"
    if fading[0].slope_walks:
        return "Beyond the data it goes on in its last direction, less and less surely"
    if fading[0].slope_fades:
        return "Beyond the data it goes on in its last direction, less and less steeply"
    return f"Beyond the data it {'' if fading[0].pull is None else 'slowly '}{_returning(rest)}"


def after(distance: float, column: Column) -> str:
    """Say "after about 3 years (36.0 months)"."""
    if column.unit is None or column.unit not in DAYS:
        return f"after another {column.length(distance)}"
    exact = "" if choose_unit(distance, column.unit) == column.unit else f" ({column.length(distance)})"
    return f"after {roughly(distance, column.unit)}{exact}"
