"""Numbers as people write them: 1,234.5 and 1.234,5, $5, 12 %, (5), −5. One way of writing holds for a whole column.

A text such as 1,234 can mean two numbers. Which one, the other entries of the column tell, or those of the file, or the
steps from row to row; where nothing tells, it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.tables.decisions import Decision

THOUSANDS = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
# By the decimal mark: digits, or thousands set apart by one other mark, or as in India (12,34,567).
BODY = {
    point: re.compile(
        rf"(?:\d+|[1-9]\d{{0,2}}(?P<mark>[{other} '])\d{{3}}(?:(?P=mark)\d{{3}})*"
        rf"|[1-9]\d?(?P<lakh>[{other}])(?:\d\d(?P=lakh))+\d{{3}})(?:[{point}]\d*)?|[{point}]\d+",
        re.ASCII,
    )
    for point, other in ((".", ","), (",", "."))
}
_CURRENCY = (
    r"USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|RUB|TRY|KRW|SGD|HKD|ILS|RON|"
    r"US\$|A\$|C\$|R\$|Fr\.|kr|Kč|zł|Ft|Rs|[$€£¥₹₽₩₺₪฿₫₴]"
)
NUMERAL = re.compile(
    rf"(?:(?P<ahead>{_CURRENCY})\s*(?=\())?(?P<open>\()?\s*(?P<sign>[-+]?)\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-+]?)"
    rf"(?:(?P<whole>\d[\d.,' ]*)[.,]-{{1,2}}|(?P<body>\d[\d.,' ]*|[.,]\d+)(?P<exponent>(?:[eE][-+]?|[dD][-+])\d+)?)"
    rf"\s*(?P<after>{_CURRENCY})?\s*(?P<share>%)?(?P<trailing>-?)\s*(?:(?P<close>\))\s*(?P<behind>{_CURRENCY})?)?",
    re.ASCII,
)
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
# Amounts in parts and multiples, which are no categories even where few of them are different.
UNITS = re.compile(
    r"[kKMGT]|Mio\.?|Mrd\.?|Tsd\.?|bn|mn|million|billion|thousand|CR|DR|Cr|Dr|[µumkMG]?(?:g|m|W|Wh|V|A|Hz|Pa|bar|mol|B)|"
    r"t|kg|lbs?|oz|[mcd]?[lL]|mm|cm|km|in|ft|yd|mi|s|sec|ms|min|h|hrs?|hours?|d|days?|weeks?|months?|years?|°?[CF]"
)
CODE = re.compile(r"0\d+", re.ASCII)
MEASURED = re.compile(r"(?P<number>.*\d)\s*(?P<unit>[^\d\s.,'’()-][^\d]{0,9})", re.ASCII)
CLOCK = re.compile(
    r"(?P<hour>\d{1,3}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d(?:[.,]\d+)?))?"
    r"(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?",
    re.ASCII,
)
# What typists and programs write for a minus, a space and an apostrophe.
PLAIN = str.maketrans("−–‐‑﹣－\u00a0\u2007\u2009\u202f’‘´`", "------    ''''")
ODD_MINUS = re.compile("[−–‐‑﹣－]")


class Numeral(NamedTuple):
    """A text taken apart: what stands around the digits, and the digits with their marks."""

    body: str
    exponent: str
    negative: bool
    currency: str
    per_cent: bool
    odd_minus: str  # "" or how a minus was written otherwise than by a hyphen in front


@dataclass(frozen=True)
class NumberStyle:
    """The decimal mark and the mark between thousands ("" for none)."""

    decimal: str
    thousands: str


def take_apart(text: str) -> Numeral | None:
    """Return the parts of a number; None where a text is none."""
    match = NUMERAL.fullmatch(text.translate(PLAIN))
    if match is None or bool(match["open"]) != bool(match["close"]):
        return None
    currency = [match[place] for place in ("ahead", "before", "after", "behind") if match[place]]
    if len(currency) > 1:
        return None
    minus = [match["sign"], match["inner"], match["trailing"]].count("-")
    if minus + bool(match["open"]) > 1:
        return None
    odd = "−" if minus and ODD_MINUS.search(text) else ""
    if match["open"] or match["trailing"]:
        odd = "(5)" if match["open"] else "5-"
    return Numeral(
        (match["whole"] or match["body"]).strip(), (match["exponent"] or "").lower().replace("d", "e"),
        bool(minus or match["open"]),
        "".join(currency), bool(match["share"]), odd,
    )  # fmt: skip


def find_thousands(body: str, decimal: str) -> str | None:
    """Return the mark between the thousands of a number ("" for none) given its decimal mark; None: it is no number."""
    match = BODY[decimal].fullmatch(body)
    return None if match is None else match["mark"] or match["lakh"] or ""


def find_styles(numerals: Sequence[Numeral]) -> list[NumberStyle]:
    """Return the ways in which all numbers of a column can be written; one where no mark can be taken in two ways."""
    styles = []
    for decimal in BODY:
        marks = {find_thousands(numeral.body, decimal) for numeral in numerals} - {""}
        if len(marks) <= 1 and None not in marks:
            styles.append(NumberStyle(decimal, next(iter(marks), "")))  # type: ignore[arg-type]  # None is not in it
    if len(styles) == 2 and all(to_number(one, styles[0]) == to_number(one, styles[1]) for one in numerals):
        return styles[:1]
    return styles


def to_number(numeral: Numeral, style: NumberStyle) -> float:
    """Return the number that is meant."""
    digits = numeral.body.replace(style.thousands, "") if style.thousands else numeral.body
    value = float(digits.replace(style.decimal, ".") + numeral.exponent)
    return -value if numeral.negative else value


@dataclass(frozen=True)
class Numerals:
    """The distinct texts of a column as numbers, with the ways in which they can be read; None for other texts."""

    texts: tuple[str, ...]
    parts: tuple[Numeral | None, ...]
    styles: tuple[NumberStyle, ...]

    @property
    def readable(self) -> NDArray[np.bool_]:
        """Which texts are numbers."""
        known = (one is not None or INFINITE.fullmatch(text) for one, text in zip(self.parts, self.texts, strict=True))
        return np.fromiter(map(bool, known), dtype=bool, count=len(self.texts))

    def read(self, style: NumberStyle) -> NDArray[np.float64]:
        """Return the numbers; NaN for other texts."""
        values = np.full(len(self.texts), np.nan)
        for place, (one, text) in enumerate(zip(self.parts, self.texts, strict=True)):
            if one is not None:
                values[place] = to_number(one, style)
            elif INFINITE.fullmatch(text):
                values[place] = float(text)
        return values


def find_numerals(texts: Sequence[str]) -> Numerals:
    """Take the distinct texts of a column apart."""
    parts = tuple(take_apart(text) for text in texts)
    return Numerals(tuple(texts), parts, tuple(find_styles([one for one in parts if one is not None])))


def find_odd_ones(numerals: Numerals) -> list[str]:
    """Return an example of each way in which numbers are written, of which no two fit together."""
    found: dict[tuple[str | None, ...], str] = {}
    for text, one in zip(numerals.texts, numerals.parts, strict=True):
        if one is not None and not one.body.isdigit():
            found.setdefault(tuple(find_thousands(one.body, decimal) for decimal in BODY), text)
    return list(found.values())


def take_off_unit(texts: Sequence[str]) -> tuple[list[str], str]:
    """Return numbers without the unit that stands behind all of them, and the unit; "" where there is none."""
    matches = [MEASURED.fullmatch(text) for text in texts]
    units = {"" if match is None else match["unit"] for match in matches}
    if len(units) != 1 or "" in units:
        return [], ""
    numbers = [match["number"] for match in matches if match is not None]
    return (numbers, units.pop()) if all(take_apart(number) for number in numbers) else ([], "")


def read_clock(texts: Sequence[str]) -> NDArray[np.float64] | None:
    """Return times of day or durations such as 10:30 as hours; None where a text is none."""
    matches = [match for text in texts if (match := CLOCK.fullmatch(text))]
    if len(matches) < len(texts) or not matches:
        return None
    seconds = ((match["second"] or "0").replace(",", ".") for match in matches)
    return np.array(
        [
            _read_hour(match) + int(match["minute"]) / 60 + float(second) / 3600
            for match, second in zip(matches, seconds, strict=True)
        ]
    )


def _read_hour(match: re.Match[str]) -> int:
    hour = int(match["hour"])
    return hour % 12 + 12 * (match["half"] in "Pp") if match["half"] else hour


def find_units(texts: Sequence[str]) -> list[str]:
    """Return an amount in each unit of a column of amounts in several units, as 5 kg and 800 g; none of others."""
    found: dict[str, str] = {}
    for text in texts:
        match = MEASURED.fullmatch(text)
        if match is None:
            if take_apart(text) is None:
                return []
            found.setdefault("", text)
        elif UNITS.fullmatch(match["unit"]) and take_apart(match["number"]) is not None:
            found.setdefault(match["unit"], text)
        else:
            return []
    return list(found.values()) if len(found) > 1 else []


def holds_codes(texts: Sequence[str]) -> str:
    """Return a text such as 0012, where digits are a code: a number has no zeros in front. "" where there is none."""
    return next((text for text in texts if CODE.fullmatch(text)), "") if all(t.isdigit() for t in texts) else ""


def choose_style(
    name: str, numerals: Numerals, order: NDArray[np.intp], decimal: str | None, point: bool
) -> NumberStyle:
    """Choose among the styles of a column; `order` are the places of its rows' texts, `point` what 1.234 means.

    `decimal` is the mark that the user names, or that the rest of the file has.
    """
    given = [style for style in numerals.styles if decimal in (None, style.decimal)] or list(numerals.styles)
    if len(given) == 1:
        return given[0]
    even = [style for style in numerals.styles if _is_even(numerals.read(style)[order])]
    if len(even) == 1:
        return even[0]
    bodies = [one.body for one in numerals.parts if one is not None]
    example = next(body for body in bodies if not body.isdigit())
    mark = "," if "," in example else "."
    grouped, plain = (next(s for s in numerals.styles if (s.thousands == mark) is wanted) for wanted in (True, False))
    whole = [int(body) for body in bodies if body.isdigit()]
    if any(value >= 1000 for value in whole):  # who writes 1234 does not set thousands apart
        return plain
    if any(whole):  # and one decimal in a thousand is whole by chance
        return grouped
    if mark == "." and point:
        return plain
    raise InputError(
        f"Column '{name}' does not tell whether {example} means {example.replace(mark, '')} or "
        f"{example.replace(mark, '.')}: the decimal mark may be a point or a comma. Say --decimal . or --decimal , "
        "(in Python, turn the column into numbers first).",
        about="decimal",
    )


def _is_even(values: NDArray[np.float64]) -> bool:
    steps = np.diff(values)
    return len(steps) > 1 and steps[0] != 0 and bool(np.allclose(steps, steps[0], rtol=1e-6))


def list_decisions(name: str, numerals: Numerals, style: NumberStyle) -> list[Decision]:
    """Return what was decided about a column of numbers; mixed currencies or shares are refused."""
    parts = [one for one in numerals.parts if one is not None]
    found = []
    if style.decimal == "," and any("," in one.body for one in parts):
        found.append(Decision("decimal", ",", (name,)))
    if style.thousands:
        found.append(Decision("thousands", THOUSANDS[style.thousands], (name,)))
    currencies = sorted({one.currency for one in parts} - {""})
    if len(currencies) > 1:
        raise InputError(
            f"Column '{name}' holds amounts in several currencies ({', '.join(currencies)}). Convert them to one, "
            "or leave the column out (--exclude).",
            about="kinds",
        )
    if currencies:
        found.append(Decision("currency", currencies[0], (name,)))
    shares = {one.per_cent for one in parts if one.body.strip("0.,")}
    if len(shares) > 1:
        raise InputError(
            f"Column '{name}' holds numbers with and without a per cent sign. Write all of them in one way, or leave "
            "the column out (--exclude).",
            about="kinds",
        )
    if True in shares:
        found.append(Decision("per cent", "%", (name,)))
    found += [Decision("minus", odd, (name,)) for odd in sorted({one.odd_minus for one in parts} - {""})]
    return found
