"""The words of a component, by rule (METHODS 3).

One summand of a kernel becomes a noun phrase: among the factors on the same columns the first in `NOUNS` is the noun,
the others are clauses about it. Factors on different columns make an interaction. Nothing here looks at data: all that
is needed about the columns is in `Column`. What is said about the whole model is in `remarks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from mercer.kernels.expression import Base, Expression
from mercer.kernels.network import has_network

# Which factor of a product is the noun; those of one symbol are taken in the order of the canonical form.
NOUNS = ("WN", "PER", "CPER", "COS", "SM", "LIN", "SE", "RQ", "M52", "M32", "M12", "C")
WAVES = ("PER", "CPER", "COS", "SM")

SMOOTHNESS = {  # the noun, how it varies, how it changes another noun
    "SE": ("a smooth function", "varying over", "changes smoothly over"),
    "RQ": ("a function", "varying on many scales, typically", "changes on many scales, typically"),
    "M52": ("a fairly smooth function", "varying over", "changes fairly smoothly over"),
    "M32": ("a moderately rough function", "varying over", "changes somewhat roughly over"),
    "M12": ("a rough function", "varying over", "changes erratically over"),
}
SHORT = {
    "SE": "Smooth variation", "RQ": "Variation on many scales", "M52": "Fairly smooth variation",
    "M32": "Moderately rough variation", "M12": "Rough variation",
}  # fmt: skip
POWERS = {1: "linear", 2: "quadratic", 3: "cubic"}
GROWTH = {1: "linearly", 2: "quadratically", 3: "cubically"}
GOING_ON = {1: "in a straight line", 2: "as a parabola", 3: "as a cubic curve, which soon leaves all bounds"}

LONG = 3.0  # a lengthscale of so many times the range of the data changes next to nothing within it
NEARLY_SINUSOIDAL = 2.0  # the lengthscale of PER from which its second harmonic is below 7 % of the first


def sentence(term: Expression, columns: Sequence[Column], slope: float | None = None) -> str:
    """Say what one summand of a kernel (canonical form, units of the data, bound to columns) is, as a sentence.

    `slope` is the fitted slope of a linear summand on one column; a kernel alone does not know it.
    """
    words = phrase(term, columns)
    if slope is not None:
        (leaf,) = term.leaves()
        words += f", {_slope_words(slope, columns[leaf.columns[0]])}"
    return f"{capital(words)}."


def title(term: Expression, columns: Sequence[Column], alone: bool = True) -> str:
    """Name one summand in a few words: "Pattern with period 12.0 months". `alone`: there is only one input."""
    if has_network(term):
        return "Function learned by a network"
    leaves = sorted(term.leaves(), key=lambda each: NOUNS.index(each.symbol))
    involved = list(dict.fromkeys(columns[d].table_name for leaf in leaves for d in leaf.columns))
    if len({leaf.columns for leaf in leaves}) > 1 and len(involved) > 1:
        return f"Interaction of {listed(involved) if len(involved) <= LISTED else f'{len(involved)} inputs'}"
    on = [columns[d] for d in leaves[0].columns]
    if len(on) == 1 and on[0].level is not None and leaves[0].symbol != "WN":
        return f"Difference of {on[0].name}"
    of = "" if alone or not on else f" in {named(on)}"
    symbol, power = leaves[0].symbol, len(_lines(leaves))
    changing = any(leaf.symbol in SMOOTHNESS and not _hardly_changes(leaf, on) for leaf in leaves)
    if symbol in ("PER", "CPER", "COS", "SM"):
        return f"{'Changing pattern' if changing else 'Pattern'}{of}{_title_period(leaves[0], on)}"
    if symbol == "LIN":
        kind = f"{POWERS[power]} trend" if power in POWERS else f"trend of degree {power}"
        return capital(f"{'changing ' if changing else ''}{kind}{of}")
    if symbol in SMOOTHNESS:
        lengths = leaves[0].parameter("lengthscale").values
        kind = "Slow change" if _hardly_changes(leaves[0], on) else SHORT[symbol]
        over = f" over {_short_length(lengths[0], on[0])}" if lengths and len(on) == 1 else ""
        return f"{kind}{of}{over}"
    return f"Noise at each value{of}" if symbol == "WN" else "Constant"


def _title_period(leaf: Base, on: list[Column]) -> str:
    if len(on) != 1 or leaf.symbol == "SM":
        return ""
    if leaf.symbol == "COS":
        frequencies = leaf.parameter("frequency").values
        return f" {_period_of(frequencies[0], on[0])}" if frequencies else ""
    periods = leaf.parameter("period").values
    return f" with period {on[0].length(periods[0])}" if periods else ""


def _short_length(length: float, column: Column) -> str:
    return roughly(length, str(column.unit)) if column.unit in DAYS else f"about {column.length(length)}"


def phrase(term: Expression, columns: Sequence[Column]) -> str:
    """Say what one summand is, as a noun phrase such as "a periodic function of month with period 12.0 months"."""
    if has_network(term):  # its primitives are added and multiplied by weights: no rule for products applies
        used = sorted({d for leaf in term.leaves() for d in leaf.columns})
        symbols = list(dict.fromkeys(leaf.symbol for leaf in term.leaves()))
        return f"a function of {named([columns[d] for d in used])} learned by a network of {listed(symbols)}"
    groups: dict[tuple[int, ...], list[Base]] = {}
    for leaf in sorted(term.leaves(), key=lambda each: NOUNS.index(each.symbol)):
        groups.setdefault(leaf.columns, []).append(leaf)
    parts = [_on_same_columns(leaves, [columns[d] for d in dims]) for dims, leaves in groups.items()]
    if isinstance(term, Base) and term.symbol in ("WN", "C"):
        return parts[0] + _size(term)
    if len(parts) == 1:
        return parts[0]
    involved = sorted({d for dims in groups for d in dims})
    return f"an interaction of {named([columns[d] for d in involved])}: {', multiplied by '.join(parts)}"


def _on_same_columns(leaves: list[Base], on: list[Column]) -> str:
    head = leaves[0]
    if len(on) == 1 and on[0].level is not None and head.symbol != "WN":  # zero or one: whatever the kernel, a step
        return f"a difference between {on[0].name} and the others"
    lines = [leaf for leaf in leaves if leaf.symbol == "LIN"]
    others = [leaf for leaf in leaves[1:] if leaf.symbol != "LIN"]
    if head.symbol == "LIN":
        return _joined(_polynomial(lines, on), [_changing(leaf, on, len(lines)) for leaf in others])
    clauses = [_changing(leaf, on) for leaf in others] + ([_growing(lines, on)] if lines else [])
    changing = any(leaf.symbol in SMOOTHNESS and not _hardly_changes(leaf, on) for leaf in others)
    return _joined(_noun(head, on, "approximately " if changing else ""), clauses)


def _joined(noun: str, clauses: list[str]) -> str:
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
        partly = ", of which the data show only a part" if on[0].span is not None and periods[0] > on[0].span else ""
        return f"{base} with period {on[0].length(periods[0])}{partly}"
    each = [f"{c.length(p)} in {c.name}" for c, p in zip(on, _each(periods, on), strict=True)]
    return f"{base} with periods {first_few(each)}"


def _wavelengths(leaf: Base, on: list[Column]) -> str:
    frequencies = leaf.parameter("frequency").values
    if frequencies is None:
        return ""
    each = list(zip(on, _each(frequencies, on), strict=True))
    if len(on) == 1:
        return f" {_period_of(frequencies[0], on[0])}"
    return f" {first_few([f'{_period_of(f, c)} along {c.name}' for c, f in each])}"


def _period_of(frequency: float, column: Column) -> str:
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
    return f"one {_period_of(frequencies[d], column)}, fading over {_over(fading, column)}{along}"


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


def _growing(lines: list[Base], on: list[Column]) -> str:
    """Say how a factor LIN, or several, scales the noun."""
    power = len(lines)
    how = GROWTH.get(power, f"as a polynomial of degree {power}")
    offsets = lines[0].parameter("offset").values
    if len(on) > 1 or power > 1 or offsets is None:
        return f"with amplitude growing {how} with {named(on)}"
    column, offset = on[0], offsets[0]
    if column.high is not None and offset >= column.high:
        return f"with amplitude shrinking {how} towards {column.at(offset)}"
    if column.low is not None and column.span is not None and offset < column.low - LONG * column.span:
        return "with almost constant amplitude"
    return f"with amplitude growing {how} away from {column.at(offset)}"


def _changing(leaf: Base, on: list[Column], power: int = 0) -> str:
    """Say how a factor other than LIN changes the noun; `power` is the degree where the noun is a polynomial."""
    subject = "slope" if power == 1 else "shape"
    if leaf.symbol not in SMOOTHNESS:
        return f"modulated by {_noun(leaf, on, '')}"
    lengths = leaf.parameter("lengthscale").values
    verb = SMOOTHNESS[leaf.symbol][2]
    if lengths is None:
        return f"whose {subject} {verb.rsplit(maxsplit=1)[0].rstrip(',')}"
    if len(on) > 1:
        return f"whose {subject} {verb.rsplit(maxsplit=1)[0].rstrip(',')}{_varying(leaf, on)}"
    if _hardly_changes(leaf, on):
        return f"whose {subject} hardly changes within the data (lengthscale {on[0].length(lengths[0])})"
    return f"whose {subject} {verb} {_over(lengths[0], on[0])}"


def _hardly_changes(leaf: Base, on: list[Column]) -> bool:
    lengths = leaf.parameter("lengthscale").values
    known = [(c, l) for c, l in zip(on, _each(lengths, on), strict=True) if c.span is not None] if lengths else []
    return bool(known) and all(length > LONG * (column.span or math.inf) for column, length in known)


def _varying(leaf: Base, on: list[Column]) -> str:
    """Say over which lengths a function varies; with several columns, which of them matter most."""
    lengths = leaf.parameter("lengthscale").values
    if lengths is None:
        return ""
    if len(on) == 1:
        if _hardly_changes(leaf, on):
            return f", almost straight within the data (lengthscale {on[0].length(lengths[0])})"
        return f", {SMOOTHNESS[leaf.symbol][1]} {_over(lengths[0], on[0])}"
    ratios = [length / (column.span or 1.0) for length, column in zip(_each(lengths, on), on, strict=True)]
    order = sorted(range(len(on)), key=lambda d: ratios[d])
    relevant = [d for d in order if ratios[d] <= LONG]
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


def _size(leaf: Base) -> str:
    variance = leaf.parameter("variance").values
    return "" if variance is None else f", of standard deviation {number(math.sqrt(variance[0]))}"


def _each(values: Sequence[float], on: Sequence[Column], repeats: int = 1) -> Sequence[float]:
    """One value may stand for all of them."""
    return values if len(values) == len(on) * repeats else tuple(values) * (len(on) * repeats)


# ---------------------------------------------------------------------------------------------------- beyond the data


def continuation(term: Expression, columns: Sequence[Column], horizon: float | None) -> str:
    """Say what one summand on one column does beyond the data.

    `horizon` is how far from the last row its band has become as wide as it would be without data; None: it never does
    within any sensible distance.
    """
    leaves = list(term.leaves())
    symbols, lines = [leaf.symbol for leaf in leaves], _lines(leaves)
    power = len(lines)
    fading = [leaf for leaf in leaves if leaf.symbol in SMOOTHNESS]
    column = columns[next((leaf.columns[0] for leaf in leaves if leaf.columns), 0)]
    if has_network(term):
        until = "" if horizon is None else f"; {after(horizon, column)} nothing of it is known any more"
        return f"Beyond the data it goes on as the network has learned{until}."
    if "WN" in symbols:
        return "Nothing of it can be foreseen."
    if symbols == ["C"]:
        return "It stays as it is."
    if any(symbol in WAVES for symbol in symbols):
        swings = ", with growing swings" if lines and "growing" in _growing(lines, [column]) else ""
        going = f"Beyond the data it goes on repeating{swings}"
    elif power and fading:
        going = "Beyond the data it goes on for a while, less and less surely"
    elif power:
        going = f"Beyond the data it goes on {GOING_ON.get(power, 'as a polynomial, which soon leaves all bounds')}"
    else:
        going = "Beyond the data it returns to zero"
    if horizon is None:
        return f"{going}; its band stays narrow as far as one can look." if fading else f"{going}."
    return f"{going}; {after(horizon, column)} nothing of it is known any more."


def after(distance: float, column: Column) -> str:
    """Say "after about 3 years (36.0 months)", or "at once"."""
    if distance == 0:
        return "at once"
    if column.unit not in DAYS:
        return f"after another {column.length(distance)}"
    short, exact = roughly(distance, str(column.unit)), column.length(distance)
    return f"after {short}" if short.endswith(f" {column.unit}") else f"after {short} ({exact})"


def _lines(leaves: Sequence[Base]) -> list[Base]:
    return [leaf for leaf in leaves if leaf.symbol == "LIN"]
