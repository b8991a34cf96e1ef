"""The small words of an explanation: numbers, lengths, shares, lists, and the columns that they are about."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mercer.fitting.calendar import DAYS, RHYTHMS, rhythms_in

# from how many on a length is given in a longer unit
LONGER = {"seconds": ("minutes", 120.0), "minutes": ("hours", 120.0), "hours": ("days", 72.0)}
SAME_RHYTHM = 0.025  # of a period: how far it may be off what a calendar has a name for
INDISTINCT = 0.5  # of a cycle over the data
MOST_STEPS, OFF_STEPS = 8.0, 0.1  # in a period, and of a step: a shorter one off the steps is seen at other phases
WIDE = 20  # steps of whole numbers: on fewer a fraction of a step matters
UNBROKEN = "\u00a0"  # the space between a number and its sign, where no line ends
LISTED = 3  # things that are named one by one; the rest is counted
DUST = 1e-12  # of a range: less is nothing but rounding


@dataclass(frozen=True)
class Column:
    """An encoded input column as a reader knows it.

    `unit` is None for a plain number; `show` writes a value (a date, say). A column of categories has `levels`, with
    the value of each in `codes`; one of zeros and ones is for one `level`. `source` is its name in the user's table.
    `whole`: all its values are whole numbers.
    """

    name: str
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    show: Callable[[float], str] | None = None
    source: str | None = None
    level: str | None = None
    whole: bool = False
    levels: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()
    moment: Callable[[float], Any] | None = None  # the date of a value, of a column of dates

    @property
    def is_category(self) -> bool:
        """Whether it holds categories, or zeros and ones for one of them."""
        return self.level is not None or bool(self.levels)

    @property
    def table_name(self) -> str:
        """The name of the column in the user's table."""
        return self.name if self.source is None else self.source

    @property
    def span(self) -> float | None:
        """The range of the data, where known and not zero; codes of categories have none."""
        if self.levels:
            return None
        return self.high - self.low if self.low is not None and self.high is not None and self.high > self.low else None

    @property
    def ends(self) -> tuple[str | None, str | None]:
        """The ends of the data, written as a reader would."""
        if self.levels:
            return None, None
        return None if self.low is None else self.at(self.low), None if self.high is None else self.at(self.high)

    def at(self, value: float, step: float | None = None) -> str:
        """A place on this column: a date, or a number as fine as the range of the data asks for, with its unit.

        step : the distance between places that must not look the same.
        """
        if self.show is not None:
            return self.show(value)
        whole = value == round(value) and abs(value) < 1e5  # years are written without commas
        finest = [size for size in (self.span, 100.0 * step if step else None) if size]
        shown = f"{value:.0f}" if whole else resolve(value, min(finest, default=None))
        return f"{shown.replace(',', '')} {self.unit}" if self.unit else shown.replace(",", "")

    def about(self, value: float) -> str:
        """A place that is known roughly: between whole numbers (years) no fraction is shown; dates have their own."""
        coarse = self.whole and self.show is None and self.span is not None and self.span >= WIDE
        return self.at(float(round(value)) if coarse else value)

    def length(self, value: float) -> str:
        """A distance along this column: "12.0 months"; 1,440 minutes are "24.0 hours"."""
        unit = self.unit
        while unit in LONGER and value > LONGER[unit][1] * (1.0 - 1e-9):
            value, unit = value * DAYS[unit] / DAYS[LONGER[unit][0]], LONGER[unit][0]
        return f"{number(value)} {unit}" if unit else number(value)

    def by_calendar(self, period: float, step: float = 0.0) -> float:
        """Return the period that a calendar has a name for, where the data cannot tell the two apart.

        Half a cycle over all of the data: a season that drifts a little is known no better. And of rows that are a step
        apart: what has a period of 3.5 steps repeats after 7.
        """
        rhythms = rhythms_in(self.unit)
        if not rhythms or self.span is None:
            return period
        name, span = self.rhythm(period), self.span
        if name is not None:
            own = rhythms[name]
            return own if abs(span / period - span / own) < INDISTINCT else period
        steps = period / step if step > 0 else 0.0
        for times in (2, 3) if 1.0 < steps < MOST_STEPS and abs(steps - round(steps)) > OFF_STEPS else ():
            for own in rhythms.values():
                whole = abs(own / step - round(own / step)) < 1e-6 * own / step
                if whole and abs(span / period - times * span / own) < INDISTINCT:
                    return own
        return period

    def rhythm(self, period: float) -> str | None:
        """What a calendar calls a period along this column: "yearly" of 12 months; None: it has no name."""
        if self.unit not in DAYS:
            return None
        days = period * DAYS[self.unit]
        return next((name for name, own in RHYTHMS.items() if abs(days / own - 1.0) < SAME_RHYTHM), None)


@dataclass(frozen=True)
class Vocabulary:
    """What a reader calls things: the target, and the encoded columns."""

    target: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)


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


def resolve(value: float, span: float | None) -> str:
    """Write a number so finely that a hundredth of `span` shows, and at least as `number` does."""
    if span and math.isfinite(span) and abs(value) < DUST * span:
        return "0"
    if not span or not math.isfinite(span) or not 1e-3 <= abs(value) < math.inf:
        return number(value)
    finer = 2 - math.floor(math.log10(span))
    digits = finer + 1 + math.floor(math.log10(abs(value)))
    if digits <= 3 or digits > 15:  # more than 15 a float does not have
        return number(value)
    if abs(value) >= 1e13:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{round(value, finer):,.{max(0, finer)}f}"


def percent(share: float) -> str:
    """A share of the variance: "83 %", "0.4 %"."""
    if not math.isfinite(share):
        return "an unknown share"
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if -0.0005 < share <= 0:  # not "-0.0 %"
        return "0.0 %"
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def probability(value: float) -> str:
    """A probability, never rounded to certainty: "73 %", "more than 99 %", "less than 1 %"."""
    if value > 0.99:
        return "more than 99 %"
    return "less than 1 %" if value < 0.01 else f"{100 * value:.0f} %"


def choose_unit(value: float, unit: str) -> str:
    """Return the unit that suits a length of time: the longest of which it has two."""
    days = value * DAYS[unit]
    fitting = [name for name, length in DAYS.items() if days / length >= 2 and (name != "weeks" or unit == "weeks")]
    return fitting[-1] if fitting else unit


def roughly(value: float, unit: str) -> str:
    """A length of time in the unit that suits it: 71 months are "about 6 years"."""
    chosen = choose_unit(value, unit)
    amount = value * DAYS[unit] / DAYS[chosen]
    shown = f"{amount:.1f}".removesuffix(".0") if amount < 3 else f"{float(f'{amount:.2g}'):,.0f}"
    return f"about {shown} {chosen}"


def list_names(names: Sequence[str]) -> str:
    """Join as "a", "a and b", "a, b and c"."""
    return " and ".join(([", ".join(names[:-1])] if len(names) > 1 else []) + [names[-1]])


def write_count(count: int, noun: str) -> str:
    """Write "1 row" or "144 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Write how long something takes: "0.8 seconds", "45 seconds", "2 minutes"."""
    if seconds < 90:
        return f"{seconds:.0f} seconds" if seconds >= 9.95 else f"{seconds:.2g} seconds"
    minutes = seconds / 60.0
    return f"{minutes:.0f} minutes" if minutes >= 9.95 else f"{minutes:.2g} minutes"


def name_columns(columns: Sequence[Column]) -> str:
    """Name columns, or count them where they are many."""
    return list_names([c.name for c in columns]) if len(columns) <= LISTED + 1 else f"{len(columns)} inputs"


def first_few(parts: list[str]) -> str:
    """List the first few and count the others."""
    rest = len(parts) - LISTED
    return list_names(parts if rest <= 1 else [*parts[:LISTED], f"{rest} others"])


def brief(text: str, most: int = 32) -> str:
    """Cut a long name, for places where there is room for this many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def p_value(value: float) -> str:
    """Write "p = 0.03", "p < 0.001"."""
    if value < 0.001:
        return "p < 0.001"
    return f"p = {value:.2g}" if value < 0.1 else f"p = {value:.2f}"


def capital(text: str) -> str:
    """Begin with a capital letter."""
    return text[:1].upper() + text[1:]


def wrap(text: str, label: str, width: int) -> list[str]:
    """Wrap text behind a label; following lines are indented to it."""
    indent, whole = " " * len(label), text.replace(" %", f"{UNBROKEN}%")
    lines = textwrap.wrap(whole, max(width, 30), initial_indent=label, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(UNBROKEN, " ") for line in lines]
