"""Public holidays of a country as known causes: a column for each, by the package `holidays`.

Holidays that always follow each other are one cause ("24 to 26 December"). The eves of Christmas and New Year count
where 25 December and 1 January are holidays: work ends early there, whatever the law says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from mercer.errors import InputError
from mercer.kernels.domains import Array

EVES = {(12, 25): "Christmas Eve", (1, 1): "New Year's Eve"}
DAYS_IN_STEP = {"hour": 1, "day": 1, "week": 7}  # of steps in which a holiday can be distinguished from the season
MOST_NEAR = 8  # countries that are named with an error
ONE_DAY = timedelta(days=1)
Days = Mapping[date, frozenset[str]]  # the names of the holidays of each day


@dataclass(frozen=True)
class Holiday:
    """One cause: what it is called, and the names of the days that belong to it."""

    label: str
    names: tuple[str, ...]


def list_days(country: str, first: int, last: int) -> Days:
    """Return the public holidays of some years with their English names; "DE-BY" is a part of a country."""
    package = _import_package()
    code, part = read_country(package, country)
    found = _ask(package, code, part or None, range(first, last + 2))  # the eve of the year after, too
    days: dict[date, set[str]] = {}
    for day, text in found.items():
        days.setdefault(day, set()).update(name.strip() for name in text.split(";"))
    for day in list(days):
        if (day.month, day.day) in EVES:
            days.setdefault(day - ONE_DAY, set()).add(EVES[day.month, day.day])
    return {day: frozenset(names) for day, names in sorted(days.items())}


def _import_package() -> Any:
    try:
        import holidays
    except ImportError:
        raise InputError("holidays need the package 'holidays': pip install holidays") from None
    return holidays


def _ask(package: Any, code: str, part: str | None, years: range) -> Mapping[date, str]:
    """Ask in English where the package has that for the country; days off in lieu are left out: they are too rare."""
    languages = package.list_localized_countries().get(code, [])
    language = next((each for each in languages if each.startswith("en")), None)
    found: Mapping[date, str] = package.country_holidays(
        code, subdiv=part, years=years, language=language, observed=False
    )
    return found


def read_country(package: Any, country: str) -> tuple[str, str]:
    """Return the code of a country and of a part of it, as the package writes them; "de-by" is DE and BY."""
    asked, _, part = country.strip().partition("-")
    parts, code = package.list_supported_countries(include_aliases=False), asked.upper()
    if code not in parts:
        raise InputError(f"there are no holidays of {asked!r:.60}; {suggest_countries(asked, package)}")
    found = next((each for each in ("", *parts[code]) if each.casefold() == part.casefold()), None)
    if found is None:
        there = ", ".join(f"{code}-{each}" for each in parts[code][:20]) or "none"
        raise InputError(f"{code} has no part {part!r:.60} with holidays of its own; there are {there}")
    return code, found


def suggest_countries(asked: str, package: Any) -> str:
    """Name the countries that may be meant, by code or by name."""
    codes = package.list_supported_countries(include_aliases=False)
    entries = [entry for entry in package.registry.COUNTRIES.values() if entry[1] in codes]
    names = {entry[0]: entry[1] for entry in entries}
    near = [(names[name], name) for name in get_close_matches(asked.title().replace(" ", ""), names, n=3)]
    by_code = {code: name for name, code in names.items()}
    if len(asked) == 3:  # DEU is a code of three letters; DEE is DE with one too many
        long = {code: entry[1] for entry in entries for code in entry[1:]}
        close = [asked.upper(), asked[:2].upper(), *get_close_matches(asked.upper(), long, n=MOST_NEAR)]
        near += [(long[code], by_code[long[code]]) for code in close if code in long]
    if len(asked) == 2:  # of two letters the first is the right one more often
        near += [(code, by_code[code]) for code in sorted(by_code) if code[0] == asked[0].upper()][:MOST_NEAR]
    if not near:
        return "give the two letters of a country, such as DE, FR or US"
    return f"near ones are {', '.join(f'{code} ({name})' for code, name in dict(near).items())}"


# -------------------------------------------------------------------------------------------------------------- causes


def find_holidays(days: Days, times: pd.DatetimeIndex, kind: str) -> tuple[Holiday, ...]:
    """Return the holidays that some of the times have, those that always follow each other as one."""
    if kind not in DAYS_IN_STEP:
        step = kind if kind != "none" else "another length"
        raise InputError(f"holidays are for hours, days and weeks; in steps of {step} they are part of the season")
    dates: dict[str, list[date]] = {}
    for day, names in days.items():
        for name in names:
            dates.setdefault(name, []).append(day)
    groups = _join(dates)
    made = [Holiday(_label([dates[name] for name in group], group), tuple(group)) for group in groups]
    columns = mark_days(made, days, times, kind)
    return tuple(each for each, column in zip(made, columns.T, strict=True) if column.any())


def _join(dates: Mapping[str, Sequence[date]]) -> list[list[str]]:
    """Put holidays together of which one is always the day after the other, in the order of the year."""
    groups: list[list[str]] = []
    for name in sorted(dates, key=lambda each: (dates[each][0].month, dates[each][0].day)):
        before = next((group for group in groups if _follows(dates[group[-1]], dates[name])), None)
        if before is None:
            groups.append([name])
        else:
            before.append(name)
    first = groups[0] if groups else []  # the year's end joins its beginning
    if len(groups) > 1 and _follows(dates[groups[-1][-1]], dates[first[0]]):
        groups = [*groups[1:-1], [*groups[-1], *first]]
    return groups


def _follows(some: Sequence[date], others: Sequence[date]) -> bool:
    """Tell whether the others are the days after some."""
    return {day + ONE_DAY for day in some} == set(others)


def _label(dates: Sequence[Sequence[date]], names: Sequence[str]) -> str:
    """Call fixed days by their dates, moving ones by their names."""
    if any(len({(day.month, day.day) for day in each}) > 1 for each in dates):
        return " and ".join(names)
    first, last = (pd.Timestamp(each[0]) for each in (dates[0], dates[-1]))
    if len(dates) == 1:
        return f"{first.day} {first.month_name()} ({names[0]})"
    start = f"{first.day}" if first.month == last.month else f"{first.day} {first.month_name()}"
    return f"{start} to {last.day} {last.month_name()}"


def mark_days(holidays: Sequence[Holiday], days: Days, times: pd.DatetimeIndex, kind: str) -> Array:
    """Return a row for each time: 1 where its step has a day of the holiday (all hours of that day), else 0."""
    starts = [moment.date() for moment in times]
    result = np.zeros((len(starts), len(holidays)))
    none: frozenset[str] = frozenset()
    for row, start in enumerate(starts):
        for later in range(DAYS_IN_STEP[kind]):
            names = days.get(start + later * ONE_DAY, none)
            if names:
                result[row] = np.maximum(result[row], [bool(names.intersection(each.names)) for each in holidays])
    return result


def list_days_of(country: str, times: pd.DatetimeIndex) -> Days:
    """Return the holidays of the years that some times span; the last step may be a week."""
    return list_days(country, times.min().year, (times.max() + pd.Timedelta(days=7)).year)
