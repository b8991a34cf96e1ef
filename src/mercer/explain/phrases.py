"""The words of a component, by rule (METHODS 3).

One summand of a kernel becomes a noun phrase: among the factors on the same columns the first in `NOUNS` is the noun,
the others are clauses about it. Factors on different columns make an interaction, unless `Joint` says otherwise.
Nothing here looks at data: all that is needed about the columns is in `Column`. What a summand is called is in
`titles.py`, what it does beyond the data in `onward.py`, what is said about the whole model in `remarks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mercer.explain.change_words import gate_words, opened
from mercer.explain.drift import LITTLE, change, drawn_back_over, hardly_changes, slope_walks, walks
from mercer.explain.wording import (
    DAYS,
    LISTED,
    Column,
    capital,
    counted,
    first_few,
    listed,
    named,
    number,
    percent,
    roughly,
)
from mercer.kernels.blend import Blend
from mercer.kernels.expression import Base, Expression
from mercer.kernels.functional import has_functional
from mercer.kernels.network import has_network

# Which factor of a product is the noun; those of one symbol are taken in the order of the canonical form. A product is
# as rough as its roughest factor.
NOUNS = ("WN", "PER", "CPER", "COS", "SM", "LIN", "M12", "M32", "M52", "RQ", "SE", "C")
IN_NETWORKS = ("EXPI", "SUMI")  # primitives of networks have no words of their own, but stand among their leaves
WAVES = ("PER", "CPER", "COS", "SM")

SMOOTHNESS = {  # the noun, how it varies, how it changes another noun, over what
    "SE": ("a smooth function", "varying over", "changes smoothly", " over"),
    "RQ": ("a function", "varying on many scales, typically", "changes on many scales", ", typically"),
    "M52": ("a fairly smooth function", "varying over", "changes fairly smoothly", " over"),
    "M32": ("a moderately rough function", "varying over", "changes somewhat roughly", " over"),
    "M12": ("an erratic function", "its values forgotten over", "changes erratically", ", forgotten over"),
}
POWERS = {1: "linear", 2: "quadratic", 3: "cubic"}
GROWTH = {1: "linearly", 2: "quadratically", 3: "cubically"}

LONG = 3.0  # a lengthscale of so many times the range of the data changes next to nothing within it
FEW_CYCLES = 3.0  # so often must a pattern be seen for "it repeats" to be plain
NEARLY_SINUSOIDAL = 2.0  # the lengthscale of PER from which its second harmonic is below 7 % of the first


@dataclass(frozen=True)
class Joint:
    """How the columns of a product go together: `idle` ones do nothing, the effects of the others may just add up."""

    idle: frozenset[int] = frozenset()
    add_up: bool = False


def by_rule(term: Expression, columns: Sequence[Column]) -> Joint:
    """Judge by the kernel alone: a factor that hardly changes over the data is idle, unless all of them are so."""
    if has_network(term):
        return Joint()
    groups = grouped(term)
    on = {dims: [columns[d] for d in dims] for dims in groups}
    idle = [dims for dims, leaves in groups.items() if all(hardly_changes(leaf, on[dims]) for leaf in leaves)]
    if len(idle) == len(groups):
        return Joint(add_up=True)
    return Joint(frozenset(d for dims in idle for d in dims))


def nouns_first(term: Expression) -> list[Base]:
    """Return the base kernels of a summand in the order of `NOUNS`."""
    return sorted(term.leaves(), key=lambda leaf: (*NOUNS, *IN_NETWORKS).index(leaf.symbol))


def grouped(term: Expression) -> dict[tuple[int, ...], list[Base]]:
    """Return the factors of a summand by the columns they look at, the noun of each group first."""
    groups: dict[tuple[int, ...], list[Base]] = {}
    for leaf in nouns_first(term):
        groups.setdefault(leaf.columns, []).append(leaf)
    return groups


def acting(term: Expression, columns: Sequence[Column], joint: Joint | None) -> dict[tuple[int, ...], list[Base]]:
    """Return the groups of factors that do something."""
    groups, idle = grouped(term), (by_rule(term, columns) if joint is None else joint).idle
    return {dims: leaves for dims, leaves in groups.items() if not dims or not idle.issuperset(dims)} or groups


def sentence(
    term: Expression, columns: Sequence[Column], slope: float | None = None, joint: Joint | None = None
) -> str:
    """Say what one summand of a kernel (canonical form, units of the data, bound to columns) is, as a sentence.

    `slope` is the fitted slope of a linear summand on one column; a kernel alone does not know it.
    """
    words = phrase(term, columns, joint)
    if slope is not None:
        (leaf,) = term.leaves()
        words += f", {_slope_words(slope, columns[leaf.columns[0]])}"
    return f"{capital(words)}."


def phrase(term: Expression, columns: Sequence[Column], joint: Joint | None = None) -> str:
    """Say what one summand is, as a noun phrase such as "a periodic function of month with period 12.0 months"."""
    if isinstance(term, Blend):
        inside, gates = opened(term)
        return f"{phrase(inside, columns, joint)}, {gate_words(gates, columns)}"
    if has_network(term):  # its primitives are added and multiplied by weights: no rule for products applies
        used = sorted({d for leaf in term.leaves() for d in leaf.columns})
        symbols = list(dict.fromkeys(leaf.symbol for leaf in term.leaves()))
        return f"a function of {named([columns[d] for d in used])} learned by a network of {listed(symbols)}"
    if has_functional(term) and not any(leaf.symbol in WAVES for leaf in term.leaves()):
        used = sorted({d for leaf in term.leaves() for d in leaf.columns})
        return f"a function of {named([columns[d] for d in used])} with a kernel that was learned without a formula"
    joint = by_rule(term, columns) if joint is None else joint
    groups = acting(term, columns, joint)
    parts = [_on_same_columns(leaves, [columns[d] for d in dims]) for dims, leaves in groups.items()]
    if isinstance(term, Base):  # in a product the variance of one factor says nothing
        return parts[0] + _size(term, [columns[d] for d in term.columns])
    involved = sorted({d for dims in groups for d in dims})
    idle = sorted({d for leaf in term.leaves() for d in leaf.columns}.difference(involved))
    hardly = f", hardly changing with {named([columns[d] for d in idle])}" if idle else ""
    if len(parts) == 1:
        return parts[0] + hardly
    if len({columns[d].table_name for d in involved}) == 1 and all(columns[d].level is not None for d in involved):
        return f"a difference between the values of {columns[involved[0]].table_name}{hardly}"
    if joint.add_up:
        return ", plus ".join(parts) + hardly
    return f"an interaction of {named([columns[d] for d in involved])}: {', multiplied by '.join(parts)}{hardly}"


def _on_same_columns(leaves: list[Base], on: list[Column]) -> str:
    leaves = merged(leaves, on)
    head, *others = leaves
    if len(on) == 1 and on[0].level is not None and head.symbol != "WN":  # zero or one: whatever the kernel, a step
        return f"a difference between {on[0].name} and the others"
    lines = bending([leaf for leaf in leaves if leaf.symbol == "LIN"], on)
    others = [leaf for leaf in others if leaf.symbol != "LIN"]
    if head.symbol == "LIN":
        return _joined(_polynomial(lines, on), [_changing(leaf, on, len(lines)) for leaf in others])
    clauses = [_changing(leaf, on) for leaf in others] + ([growing(lines, on)] if lines else [])
    return _joined(_noun(head, on, "approximately " if alters(others, on) else ""), clauses)


def merged(leaves: list[Base], on: Sequence[Column]) -> list[Base]:
    """Join factors that depend on distances in one column: as rough as the roughest, forgotten as soon as the first.

    Where none is forgotten within the data, only those that hardly change beside the roughest are left out. Lines whose
    zero is far away are left out, too: what they multiply is no trend.
    """
    if leaves[0].symbol == "LIN" and all(hardly_changes(leaf, on) for leaf in leaves if leaf.symbol == "LIN"):
        leaves = [leaf for leaf in leaves if leaf.symbol != "LIN"] or leaves
    fading = [leaf for leaf in leaves if leaf.symbol in SMOOTHNESS]
    lengths = [leaf.parameter("lengthscale").values for leaf in fading]
    if len(fading) < 2 or len(on) != 1 or any(values is None for values in lengths):
        return leaves
    shortest = min(values[0] for values in lengths if values is not None)
    if shortest >= (on[0].span or math.inf):
        return [leaf for leaf in leaves if leaf not in fading[1:] or not hardly_changes(leaf, on)]
    joined = fading[0].with_parameter(replace(fading[0].parameter("lengthscale"), values=(shortest,)))
    return [joined if leaf is fading[0] else leaf for leaf in leaves if leaf is fading[0] or leaf not in fading]


def drifts(term: Expression, columns: Sequence[Column]) -> bool:
    """Tell whether a factor of a summand is a random walk within the data."""
    groups = [(leaves, [columns[d] for d in dims]) for dims, leaves in grouped(term).items()]
    return any(walks(leaf, on) for leaves, on in groups for leaf in merged(leaves, on))


def alters(others: Sequence[Base], on: Sequence[Column]) -> bool:
    """Tell whether factors make a pattern change from one repetition to the next."""
    fading = [leaf for leaf in others if leaf.symbol in SMOOTHNESS]
    return any(walks(leaf, on) or not hardly_changes(leaf, on) for leaf in fading)


def _joined(noun: str, clauses: list[str]) -> str:
    """Put clauses behind a noun; the second about the same thing begins with "and"."""
    for place in range(len(clauses) - 1, 0, -1):
        about = " ".join(clauses[place].split()[:2])
        if about.startswith("whose") and clauses[place - 1].startswith(about):
            clauses[place] = clauses[place].replace(about, "and", 1)
    return " ".join([noun, ", ".join(clauses)]) if clauses else noun


def _noun(leaf: Base, on: list[Column], degree: str) -> str:
    symbol, of = leaf.symbol, named(on) if on else ""
    if symbol in ("PER", "CPER"):
        return _periodic(leaf, on, degree)
    if symbol == "COS":
        return f"{'an approximately regular' if degree else 'a pure'} wave in {of}{_wavelengths(leaf, on)}"
    if symbol == "SM":
        return _mixture(leaf, on)
    if symbol == "WN":
        return f"uncorrelated noise, drawn anew for every value of {of}"
    if symbol == "C":
        return "a constant"
    if walks(leaf, on):
        return f"a function of {of} that wanders like a random walk"
    if (pull := drawn_back_over(leaf, on)) is not None:
        return f"a function of {of} that wanders like a random walk, slowly drawn back over {_over(pull, on[0])}"
    if slope_walks(leaf, on):
        return f"a function of {of} whose slope wanders like a random walk: its last direction is the best guess"
    return f"{SMOOTHNESS[symbol][0]} of {of}{_varying(leaf, on)}"


def _periodic(leaf: Base, on: list[Column], degree: str) -> str:
    periods, widths = leaf.parameter("period").values, leaf.parameter("lengthscale").values
    shape = "sinusoidal" if widths is not None and min(widths) >= NEARLY_SINUSOIDAL else "periodic"
    degree = degree or ("nearly " if shape == "sinusoidal" else "")
    article = "an" if degree.startswith("a") else "a"
    base = f"{article} {degree}{shape} function of {named(on)}"
    if periods is None:
        return base
    if len(on) == 1:
        return f"{base} with period {on[0].length(periods[0])}{_seen(periods[0], on[0].span)}"
    each = [f"{c.length(p)} in {c.name}" for c, p in zip(on, _each(periods, on), strict=True)]
    return f"{base} with periods {first_few(each)}"


def _seen(period: float, span: float | None) -> str:
    """Say so where the data show a pattern too few times to be sure that it repeats."""
    if span is None or span >= FEW_CYCLES * period:
        return ""
    if span < period:
        return ", of which the data show only a part"
    return f", which the data show only {span / period:.1f} times"


def _wavelengths(leaf: Base, on: list[Column]) -> str:
    frequencies = leaf.parameter("frequency").values
    if frequencies is None:
        return ""
    each = list(zip(on, _each(frequencies, on), strict=True))
    if len(on) == 1:
        return f" {period_of(frequencies[0], on[0])}"
    return f" {first_few([f'{period_of(f, c)} along {c.name}' for c, f in each])}"


def period_of(frequency: float, column: Column) -> str:
    """Say the period of a wave."""
    if frequency == 0 or (column.span is not None and abs(frequency) * column.span < 1 / (2 * LONG)):
        return "with a period far longer than the data"
    return f"with period {column.length(1 / abs(frequency))}"


def _mixture(leaf: Base, on: list[Column]) -> str:
    base = f"a mixture of {counted(leaf.components, 'fading wave')} in {named(on)}"
    weights, frequencies, widths = (leaf.parameter(n).values for n in ("weights", "frequency", "bandwidth"))
    if weights is None or frequencies is None or widths is None:
        return base
    order = sorted(range(leaf.components), key=lambda q: -weights[q])
    waves = []
    for q in order[:LISTED]:
        rows = [_each(v, on, leaf.components)[q * len(on) : (q + 1) * len(on)] for v in (frequencies, widths)]
        waves.append(f"{_fading(rows[0], rows[1], on)} ({percent(weights[q])})")
    return f"{base}: {'; '.join(waves)}" + ("; and weaker ones" if leaf.components > LISTED else "")


def _fading(frequencies: Sequence[float], widths: Sequence[float], on: list[Column]) -> str:
    """exp(-2 pi^2 b^2 d^2) is a squared exponential with lengthscale 1 / (2 pi b): the time a wave takes to fade."""
    d = max(range(len(on)), key=lambda i: abs(frequencies[i]) * (on[i].span or 1.0))
    column, fading = on[d], 1 / (2 * math.pi * widths[d])
    along = f" along {column.name}" if len(on) > 1 else ""
    if abs(frequencies[d]) < widths[d]:  # it fades before it has swung once
        return f"a smooth part varying over {_over(fading, column)}{along}"
    return f"one {period_of(frequencies[d], column)}, fading over {_over(fading, column)}{along}"


def _polynomial(lines: list[Base], on: list[Column]) -> str:
    power = len(lines)
    kind = f"a {POWERS[power]} function of" if power in POWERS else f"a polynomial of degree {power} in"
    words = f"{kind} {named(on)}"
    weights = lines[0].parameter("weights").values
    if len(on) == 1 or weights is None or power > 1:
        return words
    effects = [w * (c.span or 0.0) ** 2 for w, c in zip(_each(weights, on), on, strict=True)]
    strongest = sorted(range(len(on)), key=lambda d: -effects[d])
    steep = [on[d].name for d in strongest[:LISTED] if effects[d] > 0.05 * sum(effects)]
    return f"{words}, steepest in {listed(steep)}" if steep else words


def growing(lines: list[Base], on: Sequence[Column]) -> str:
    """Say how a factor LIN, or several, scales the noun."""
    lines = bending(lines, on)
    power = len(lines)
    if power == 1 and hardly_changes(lines[0], on):
        return "with almost constant amplitude"
    how = GROWTH.get(power, f"as a polynomial of degree {power}")
    offsets = [line.parameter("offset").values for line in lines]
    known = [values[0] for values in offsets if values is not None]
    low, high = on[0].low, on[0].high
    if len(on) > 1 or len(known) < power or low is None or high is None:
        return f"with amplitude growing {how} with {named(on)}"
    if min(known) >= high:
        whither = f"towards {on[0].at(known[0])}" if power == 1 else f"with {on[0].name}"
        return f"with amplitude shrinking {how} {whither}"
    if power == 1:
        return f"with amplitude growing {how} away from {on[0].at(known[0])}"
    return f"with amplitude {'growing' if max(known) <= low else 'changing'} {how} with {on[0].name}"


def bending(lines: list[Base], on: Sequence[Column]) -> list[Base]:
    """Return the factors LIN that matter within the data: not those whose zero is far away, as long as one is left."""
    return [line for line in lines if not hardly_changes(line, on)] or lines[:1]


def _changing(leaf: Base, on: list[Column], power: int = 0) -> str:
    """Say how a factor other than LIN changes the noun; `power` is the degree where the noun is a polynomial."""
    subject = {0: "shape", 1: "slope"}.get(power, "size")
    if leaf.symbol not in SMOOTHNESS:
        return f"modulated by {_noun(leaf, on, '')}"
    lengths = leaf.parameter("lengthscale").values
    _, _, verb, over = SMOOTHNESS[leaf.symbol]
    if walks(leaf, on):
        much = change(leaf, 0, on[0])
        by = f", by about {percent(much)} over the data" if much < 1 else ""
        return f"whose {subject} drifts like a random walk{by}"
    if lengths is None:
        return f"whose {subject} {verb}"
    if len(on) > 1:
        return f"whose {subject} {verb}{_varying(leaf, on)}"
    if hardly_changes(leaf, on):
        return f"whose {subject} hardly changes within the data (lengthscale {on[0].length(lengths[0])})"
    return f"whose {subject} {verb}{over} {_over(lengths[0], on[0])}"


def _varying(leaf: Base, on: list[Column]) -> str:
    """Say over which lengths a function varies; with several columns, which of them matter most."""
    lengths = leaf.parameter("lengthscale").values
    if lengths is None:
        return ""
    if len(on) == 1:
        if hardly_changes(leaf, on):
            return f", almost straight within the data (lengthscale {on[0].length(lengths[0])})"
        return f", {SMOOTHNESS[leaf.symbol][1]} {_over(lengths[0], on[0])}"
    ratios = [length / (column.span or 1.0) for length, column in zip(_each(lengths, on), on, strict=True)]
    order = sorted(range(len(on)), key=lambda d: ratios[d])
    relevant = [d for d in order if change(leaf, d, on[d]) >= LITTLE]
    if not relevant:
        return ", almost straight within the data"
    told = [f"{on[d].name} (lengthscale {on[d].length(_each(lengths, on)[d])})" for d in relevant[:LISTED]]
    scales = " on many scales" if leaf.symbol == "RQ" else ""
    words = f"{scales}, most sensitive to {listed(told)}"
    idle = len(on) - len(relevant)
    if 0 < idle <= LISTED:
        return f"{words} and hardly depending on {listed([on[d].name for d in order[-idle:]])}"
    return f"{words} and hardly depending on {idle} others" if idle else words


def _over(length: float, column: Column) -> str:
    if column.unit in DAYS:
        return f"{roughly(length, str(column.unit))} (lengthscale {column.length(length)})"
    return f"a lengthscale of {column.length(length)}"


def _slope_words(slope: float, column: Column) -> str:
    if slope == 0:
        return "level"
    if column.level is not None:
        return f"{column.name} being {'higher' if slope > 0 else 'lower'} by {number(abs(slope))}"
    per = f"per {column.unit.removesuffix('s')}" if column.unit else f"for every unit of {column.name}"
    return f"{'rising' if slope > 0 else 'falling'} by {number(abs(slope))} {per}"


def _size(leaf: Base, on: Sequence[Column]) -> str:
    """Say how large noise or a constant is, and how far a random walk goes."""
    variance = leaf.parameter("variance").values
    if walks(leaf, on):
        far = "" if variance is None else _steps(leaf, on[0], variance[0])
        return f"{far}: where it is now is the best guess for where it goes"
    if variance is None or leaf.symbol not in ("WN", "C"):
        return ""
    return f", of standard deviation {number(math.sqrt(variance[0]))}"


def _steps(leaf: Base, column: Column, variance: float) -> str:
    (length,) = leaf.parameter("lengthscale").values or (math.inf,)
    far = 1.0 if column.unit else column.span or 1.0
    size = number(math.sqrt(2 * variance * -math.expm1(-far / length)))
    if column.unit is None:
        return f", by about {size} over all the data"
    return f", by about {size} in {'an' if column.unit == 'hours' else 'a'} {column.unit.removesuffix('s')}"


def _each(values: Sequence[float], on: Sequence[Column], repeats: int = 1) -> Sequence[float]:
    """One value may stand for all of them."""
    return values if len(values) == len(on) * repeats else tuple(values) * (len(on) * repeats)
