"""The words of an explanation, by rule (METHODS 3).

One summand of a kernel becomes a noun phrase: among the factors on the same columns the first in `NOUNS` is the noun,
the others are clauses about it. Factors on different columns make an interaction. Nothing here looks at data: all that
is needed about the columns is in `Column`. Every word that a reader of an explanation sees comes from this file.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mercer.kernels.expression import Base, Expression

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
POWERS = {1: "linear", 2: "quadratic", 3: "cubic"}
GROWTH = {1: "linearly", 2: "quadratically", 3: "cubically"}

LONGEST_KERNEL = 600  # characters
LISTED = 3  # inputs or waves that are named one by one; the rest is counted
LONG = 3.0  # a lengthscale of so many times the range of the data changes next to nothing within it
NEARLY_SINUSOIDAL = 2.0  # the lengthscale of PER from which its second harmonic is below 7 % of the first

DAYS = {"seconds": 1 / 86400, "minutes": 1 / 1440, "hours": 1 / 24, "days": 1.0, "weeks": 7.0, "months": 30.44,
        "years": 365.25}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """An input column as a reader knows it: `unit` is None for a plain number, `show` writes a value (a date, say)."""

    name: str
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    show: Callable[[float], str] | None = None

    @property
    def span(self) -> float | None:
        """The range of the data, where known and not zero."""
        return self.high - self.low if self.low is not None and self.high is not None and self.high > self.low else None

    def at(self, value: float) -> str:
        """A place on this column: a date, or a number with its unit."""
        return self.show(value) if self.show is not None else self.length(value)

    def length(self, value: float) -> str:
        """A distance along this column: "12.0 months"."""
        return f"{number(value)} {self.unit}" if self.unit else number(value)


# ----------------------------------------------------------------------------------------------------------- numbers


def number(value: float) -> str:
    """Three significant digits, trailing zeros kept: 12.0, 0.640, 1,230, 1.23e-07."""
    if not math.isfinite(value):
        return "an unknown number" if math.isnan(value) else f"{'-' if value < 0 else ''}infinity"
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    if 1000 <= abs(rounded) < 1e7:
        return f"{rounded:,.0f}"
    if 1e-3 <= abs(rounded) < 1000:
        return f"{value:#.3g}".rstrip(".")
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def percent(share: float) -> str:
    """A share of the variance: "83 %", "0.4 %"."""
    if not math.isfinite(share):
        return "an unknown share"
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def roughly(value: float, unit: str) -> str:
    """A length of time in the unit that suits it: 71 months are "about 6 years"."""
    days = value * DAYS[unit]
    fitting = [name for name, length in DAYS.items() if days / length >= 2 and (name != "weeks" or unit == "weeks")]
    chosen = fitting[-1] if fitting else unit
    amount = days / DAYS[chosen]
    shown = f"{amount:.1f}".removesuffix(".0") if amount < 3 else f"{float(f'{amount:.2g}'):,.0f}"
    return f"about {shown} {chosen}"


def listed(names: Sequence[str]) -> str:
    """Join as "a", "a and b", "a, b and c"."""
    return " and ".join(([", ".join(names[:-1])] if len(names) > 1 else []) + [names[-1]])


def counted(count: int, noun: str) -> str:
    """Write "1 row" or "144 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# -------------------------------------------------------------------------------------------------------- components


def sentence(term: Expression, columns: Sequence[Column], slope: float | None = None) -> str:
    """Say what one summand of a kernel (canonical form, units of the data, bound to columns) is, as a sentence.

    `slope` is the fitted slope of a linear summand on one column; a kernel alone does not know it.
    """
    words = phrase(term, columns)
    if slope is not None:
        (leaf,) = term.leaves()
        words += f", {_slope_words(slope, columns[leaf.columns[0]])}"
    return words[0].upper() + words[1:] + "."


def phrase(term: Expression, columns: Sequence[Column]) -> str:
    """Say what one summand is, as a noun phrase such as "a periodic function of month with period 12.0 months"."""
    groups: dict[tuple[int, ...], list[Base]] = {}
    for leaf in sorted(term.leaves(), key=lambda each: NOUNS.index(each.symbol)):
        groups.setdefault(leaf.columns, []).append(leaf)
    parts = [_on_same_columns(leaves, [columns[d] for d in dims]) for dims, leaves in groups.items()]
    if isinstance(term, Base) and term.symbol in ("WN", "C"):
        return parts[0] + _size(term)
    if len(parts) == 1:
        return parts[0]
    involved = sorted({d for dims in groups for d in dims})
    return f"an interaction of {_names([columns[d] for d in involved])}: {', multiplied by '.join(parts)}"


def _on_same_columns(leaves: list[Base], on: list[Column]) -> str:
    head = leaves[0]
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
    symbol, of = leaf.symbol, _names(on) if on else ""
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
    base = f"{article} {degree}{shape} function of {_names(on)}"
    if periods is None:
        return base
    if len(on) == 1:
        return f"{base} with period {on[0].length(periods[0])}"
    each = [f"{c.length(p)} in {c.name}" for c, p in zip(on, _each(periods, on), strict=True)]
    return f"{base} with periods {_first_few(each)}"


def _wavelengths(leaf: Base, on: list[Column]) -> str:
    frequencies = leaf.parameter("frequency").values
    if frequencies is None:
        return ""
    each = list(zip(on, _each(frequencies, on), strict=True))
    if len(on) == 1:
        return f" {_period_of(frequencies[0], on[0])}"
    return f" {_first_few([f'{_period_of(f, c)} along {c.name}' for c, f in each])}"


def _period_of(frequency: float, column: Column) -> str:
    if frequency == 0 or (column.span is not None and abs(frequency) * column.span < 1 / (2 * LONG)):
        return "with a period far longer than the data"
    return f"with period {column.length(1 / abs(frequency))}"


def _mixture(leaf: Base, on: list[Column]) -> str:
    base = f"a mixture of {counted(leaf.components, 'fading wave')} in {_names(on)}"
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
    words = f"{kind} {_names(on)}"
    weights = lines[0].parameter("weights").values
    if len(on) == 1 or weights is None or power > 1:
        return words
    effects = [w * (c.span or 0.0) ** 2 for w, c in zip(_each(weights, on), on, strict=True)]
    strongest = sorted(range(len(on)), key=lambda d: -effects[d])
    named = [on[d].name for d in strongest[:LISTED] if effects[d] > 0.05 * sum(effects)]
    return f"{words}, steepest in {listed(named)}" if named else words


def _growing(lines: list[Base], on: list[Column]) -> str:
    """Say how a factor LIN, or several, scales the noun."""
    power = len(lines)
    how = GROWTH.get(power, f"as a polynomial of degree {power}")
    offsets = lines[0].parameter("offset").values
    if len(on) > 1 or power > 1 or offsets is None:
        return f"with amplitude growing {how} with {_names(on)}"
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
    per = f"per {column.unit.removesuffix('s')}" if column.unit else f"for every unit of {column.name}"
    return f"{'rising' if slope > 0 else 'falling'} by {number(abs(slope))} {per}"


def _size(leaf: Base) -> str:
    variance = leaf.parameter("variance").values
    return "" if variance is None else f", of standard deviation {number(math.sqrt(variance[0]))}"


def _names(on: Sequence[Column]) -> str:
    return listed([c.name for c in on]) if len(on) <= LISTED + 1 else f"{len(on)} inputs"


def _first_few(parts: list[str]) -> str:
    rest = len(parts) - LISTED
    return listed(parts if rest <= 1 else [*parts[:LISTED], f"{rest} others"])


def _each(values: Sequence[float], on: Sequence[Column], repeats: int = 1) -> Sequence[float]:
    """One value may stand for all of them."""
    return values if len(values) == len(on) * repeats else tuple(values) * (len(on) * repeats)


# ---------------------------------------------------------------------------------------------------- the whole model


def headline(target: str, inputs: Sequence[str], rows: int) -> str:
    """Say what was modelled."""
    return f"{target} explained by {_names([Column(name) for name in inputs])}, from {counted(rows, 'row')}"


def noise_sentence(deviation: float) -> str:
    """Say what no component explains."""
    return f"Noise of standard deviation {number(deviation)}."


def shares_sentence() -> str:
    """Say what the numbers in front of the components are."""
    return "(shares of the variance; components can overlap or cancel)"


def kernel_phrase(kernel: str) -> str:
    """Return the kernel's text, cut where it would fill the screen."""
    return textwrap.shorten(kernel, LONGEST_KERNEL, placeholder=" ... (cut here; --json shows all of it)")


def scores_phrase(log_evidence: float, bic: float, leave_one_out: float, parameters: int) -> str:
    """List the scores."""
    shown = [f"{score:.2f}" if math.isfinite(score) else "unknown" for score in (log_evidence, bic, leave_one_out)]
    return f"log evidence {shown[0]}, BIC {shown[1]} ({counted(parameters, 'parameter')}), leave-one-out {shown[2]}"


def found_sentence(structure: str, starts: int) -> str:
    """Say where the structure of the kernel comes from."""
    return f"The structure {structure} was given; its parameters were fitted from {counted(starts, 'start')}."


def status_sentence(status: str, message: str, kernel: Expression, names: Sequence[str]) -> str:
    """Say how the fit ended, naming parameters by kernel and column instead of by their place in a vector."""
    if status == "converged":
        return "The fit converged."
    if status == "at a bound":
        bounds = (message.partition(": ")[2] or message).split(", ")
        told = _first_few([_with_parameter_names(bound, kernel, names) for bound in bounds])
        return f"The fit converged at the edge of the search, with {told}: a simpler kernel may say as much."
    if status == "interrupted":
        return f"The fit was interrupted: {message}."
    return f"The fit {status}: {_with_parameter_names(message, kernel, names)}."


def _with_parameter_names(message: str, kernel: Expression, names: Sequence[str]) -> str:
    """Turn "2:PER.lengthscale" into "the lengthscale of PER(month)"."""
    leaves = list(kernel.leaves())

    def named(match: re.Match[str]) -> str:
        place = int(match["leaf"])
        if place >= len(leaves) or leaves[place].symbol != match["symbol"]:
            return match[0]
        on, index = leaves[place].columns, int(match["index"] or 0)
        own = match["index"] and match["name"] != "weights" and index < len(on)
        which = f" for {names[on[index]]}" if own else ""
        of = ", ".join(names[d] for d in on) if len(on) <= LISTED else f"{len(on)} inputs"
        return f"the {match['name']} of {match['symbol']}({of}){which}"

    return re.sub(r"\b(?P<leaf>\d+):(?P<symbol>[A-Z0-9]+)\.(?P<name>\w+)(?:\[(?P<index>\d+)\])?", named, message)
