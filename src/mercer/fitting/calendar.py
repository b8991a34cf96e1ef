"""Periods that a calendar has a name for: known before any data are seen, along a column of dates."""

from __future__ import annotations

DAYS = {"seconds": 1 / 86400, "minutes": 1 / 1440, "hours": 1 / 24, "days": 1.0, "weeks": 7.0, "months": 30.44,
        "years": 365.25}  # fmt: skip
RHYTHMS = {"hourly": 1 / 24, "daily": 1.0, "weekly": 7.0, "monthly": 30.44, "quarterly": 91.31, "yearly": 365.25}
# Months and years are counted by the calendar: a year is 12 months, whatever the days.
IN_MONTHS = {"monthly": 1.0, "quarterly": 3.0, "yearly": 12.0}
MONTHS = {"months": 1.0, "years": 12.0}


def rhythms_in(unit: str | None) -> dict[str, float]:
    """Return the periods of a calendar in a unit of time, by their names; none for a column that holds no dates."""
    if unit not in DAYS:
        return {}
    lengths = {name: days / DAYS[unit] for name, days in RHYTHMS.items()}
    if unit in MONTHS:
        lengths |= {name: months / MONTHS[unit] for name, months in IN_MONTHS.items()}
    return lengths
