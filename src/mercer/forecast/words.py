"""What was found in a series, in words: those of a fitted kernel, for the member with the largest weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mercer.estimators.regressor import GPRegressor
from mercer.explain.answers import Rate, Season
from mercer.explain.explanation import Explanation, explain
from mercer.explain.wording import list_names, number, resolve
from mercer.explain.words import article
from mercer.forecast.calendar import Calendar
from mercer.forecast.effects import find_effects, find_slopes
from mercer.forecast.findings import STRIKING, Finding, ForecastChange, Outlook, Surprise
from mercer.forecast.model import SeriesModel
from mercer.forecast.reading import Named
from mercer.kernels.algebra import structure
from mercer.kernels.expression import Base, Expression, Sum, sum_of
from mercer.kernels.parameters import Units, to_data_units
from mercer.model.fitted import Origin

TARGETS = {"level": "{name}", "root": "the square root of {name}", "log": "the logarithm of {name}"}


def explain_series(
    named: Named, model: SeriesModel, called: str = "y", time: str = "ds", causes: tuple[str, ...] = ()
) -> Explanation:
    """Explain the heaviest member: its kernel in the units of the dates, its values and noise as they are.

    `called` is the target of a series that has no name of its own, `time` the column of its times. Of known causes
    there are sentences in the notes; the rest is of the values less their effects.
    """
    member, series, calendar = model.heaviest, named.series, named.calendar
    lengths = (calendar.step * series.season, *named.spreads)
    units = Units((calendar.first, *named.centres), lengths, member.size)
    kernel = _along_time(to_data_units(member.kernel, units)).map_owners(_fix)
    target = TARGETS[member.scale.name].format(name=named.name or called)
    columns: dict[Any, Any] = {time: calendar.times(series.places * series.season)}
    regressor = GPRegressor(kernel, noise=member.noise * member.size**2, restarts=1, random_state=0)
    scaled = member.scale.forward(series.values)
    if causes:
        target, scaled = f"{target} less its known causes", scaled - series.causes @ find_slopes(member)[0]
    values = pd.Series(scaled, name=target)
    regressor.fit(pd.DataFrame(columns), values)
    share = float(np.max(model.weights))
    note = (
        f"forecasts average {len(model.members)} kernels on up to three scales by evidence; this is the one with the "
        f"largest weight ({share:.0%}), with priors learned from other series"
    )
    effects = [effect.sentence for effect in find_effects(named, model, causes)]
    fitted = regressor.fitted_
    origin = Origin({**fitted.origin.options, "kernel": structure(kernel).text()})  # its values were found, not given
    return explain(replace(fitted, origin=origin, notes=(*fitted.notes, note, *effects)))


def _along_time(kernel: Expression) -> Expression:
    """Return the kernel without known causes, and without a constant: a fitted model has a level of its own."""
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    own = [term for term in terms if all(set(leaf.columns) <= {0} for leaf in term.leaves())]
    kept = [term for term in own if not (isinstance(term, Base) and term.spec.words.role == "constant")]
    return sum_of(kept) if kept else kernel


def _fix(owner: Any) -> Any:
    for parameter in owner.parameters:
        if parameter.values is not None:
            owner = owner.with_parameter(replace(parameter, fixed=True))
    return owner


# -------------------------------------------------------------------------------------------------------- the forecast

LEAST_SHARE = 0.0005  # less is 0.0 %
CYCLES = {("month", 12): "year", ("quarter", 4): "year", ("week", 52): "year", ("day", 7): "week", ("hour", 24): "day"}
PLURALS = {"month": "months", "quarter": "quarters", "year": "years", "week": "weeks", "day": "days", "hour": "hours"}


def count_steps(count: int, calendar: Calendar) -> str:
    """Count steps as a calendar calls them: "12 months"."""
    plural = PLURALS.get(calendar.kind, "steps")
    return f"{count} {plural if count != 1 else plural[:-1]}"


def tell_time(moment: Any, calendar: Calendar) -> str:
    """Write a time as its kind of step asks for: July 2023, Monday 3 July 2023, or a number."""
    if not isinstance(moment, pd.Timestamp):
        return f"{moment:g}" if isinstance(moment, float) else str(moment)
    day = f"{moment.day} {moment.month_name()} {moment.year}"
    ways = {
        "month": f"{moment.month_name()} {moment.year}", "quarter": f"quarter {moment.quarter} of {moment.year}",
        "year": str(moment.year), "week": f"week of {day}", "day": f"{moment.day_name()} {day}",
        "hour": f"{moment.day_name()} {day}, {moment:%H:%M}",
    }  # fmt: skip
    return ways.get(calendar.kind, str(moment).removesuffix(" 00:00:00"))


def tell_headline(outlook: Outlook, target: str) -> str:
    """Say what the page is about."""
    calendar, times = outlook.named.calendar, outlook.times
    ends = [tell_time(moment, calendar) for moment in (times[0], times[-1])]
    steps = count_steps(len(outlook.ahead), calendar)
    return f"The next {steps} of {target}, from {len(times):,} values, {ends[0]} to {ends[1]}"


def tell_last(outlook: Outlook, target: str) -> str:
    """Say what is expected at the last step."""
    last, finest = outlook.ahead.iloc[-1], outlook.finest
    mean, low, high = (resolve(float(last[name]), finest) for name in ("mean", "lower_95", "upper_95"))
    when = tell_time(outlook.ahead.index[-1], outlook.named.calendar)
    return f"{when}: {target} is expected to be {mean}, with 95 % probability between {low} and {high}."


def tell_seasons(count: int, outlook: Outlook) -> str:
    """Count seasons as a calendar calls them: "a year"."""
    name = CYCLES.get((outlook.named.calendar.kind, round(outlook.named.series.season)), "season")
    return f"a {name}" if count == 1 else f"{count} {name}s"


def show_change(outlook: Outlook, change: ForecastChange) -> str:
    """Write a change in per cent where values are positive and it is no tiny share of them, else as it is."""
    if change.share is None or abs(change.share) < LEAST_SHARE:
        return f"{'+' if change.after >= change.before else ''}{resolve(change.after - change.before, outlook.finest)}"
    return f"{100 * change.share:+.1f} %".replace("-", "\u2212")


def tell_change(outlook: Outlook, change: ForecastChange, target: str) -> str:
    """Say how what comes differs from what was."""
    calendar = outlook.named.calendar
    amount = show_change(outlook, change).lstrip("+\u2212-")
    side = "above" if change.after >= change.before else "below"
    when = tell_time(outlook.ahead.index[-1], calendar)
    what, than = f"The forecast for {when} lies", "the last value"
    if change.seasons:
        what = f"On average the next {count_steps(change.steps, calendar)} lie"
        than = f"the same {PLURALS.get(calendar.kind, 'steps')} {tell_seasons(change.seasons, outlook)} before"
    if change.after == change.before:
        return f"{what} as high as {than}."
    size = "less than" if change.strength < 1 else f"{change.strength:.1f} times"
    return f"{what} {amount} {side} {than}; that is {size} the uncertainty of a single step."


def show_surprise(outlook: Outlook, surprise: Surprise) -> str:
    """Write the worst predicted value for a table."""
    when = tell_time(outlook.times[surprise.place], outlook.named.calendar)
    deviations = round(surprise.deviations, 1) + 0.0  # no minus before zero
    return f"{when}: {deviations:+.1f} sd".replace("-", "\u2212").replace("+0.0", "0.0")


def tell_surprise(outlook: Outlook, surprise: Surprise) -> list[str]:
    """Say which past value was far from what the others predict; nothing where none was."""
    if abs(surprise.deviations) < STRIKING:
        return []
    when, finest = tell_time(outlook.times[surprise.place], outlook.named.calendar), outlook.finest
    value, expected = resolve(surprise.value, finest), resolve(surprise.expected, finest)
    return [
        f"{when} had {value} where the other values say {expected}: {abs(surprise.deviations):.1f} standard deviations."
    ]


def tell_many(findings: Sequence[Finding], target: str) -> str:
    """Say how many series stand out."""
    rising = sum(each.change.strength >= 1 and each.change.after > each.change.before for each in findings)
    falling = sum(each.change.strength >= 1 and each.change.after < each.change.before for each in findings)
    odd = sum(abs(each.surprise.deviations) >= STRIKING for each in findings)
    return (
        f"In {rising:,} of {len(findings):,} series {target} is expected to rise by more than the uncertainty of a "
        f"single step, in {falling:,} to fall by more; {odd:,} had a value more than {STRIKING} standard deviations "
        "from what the other values say."
    )


# ------------------------------------------------------------------------------------------------------ the explanation


def choose_answers(explanation: Explanation, outlook: Outlook, target: str) -> list[tuple[str, str]]:
    """Return (question, sentence): those of the explanation, growth and season in per cent where it is of logarithms.

    What comes next is in the table already, and right: the explanation is of one member, on its scale.
    """
    scale = outlook.model.heaviest.scale.name
    own = {"trend", "season"} if scale == "log" else set()
    on_scale = "" if scale == "level" else f" (Errors are those of {explanation.target}.)"
    asides = {"certain": on_scale}
    answers = [each for each in explanation.answers if each.question not in own | {"next"}]
    kept = [(each.question, each.sentence + asides.get(each.question, "")) for each in answers]
    if not own:
        return kept
    found = [("trend", tell_growth(explanation.rate, target))] if explanation.rate is not None else []
    found += [("season", tell_swing(season, target)) for season in explanation.seasons[:1]]
    return found + kept


def tell_growth(rate: Rate, target: str) -> str:
    """Say a slope b of log y in per cent: 100 (e^b - 1)."""
    slope, *ends = (100 * math.expm1(each * rate.units) for each in (rate.slope, rate.low, rate.high))
    per = f"{article(rate.per)} {rate.per}" if rate.per else f"for each unit of {rate.column}"
    if not rate.clear:
        between = f"95 % between {ends[0]:.1f} and {ends[1]:.1f} % {per}"
        return f"Over the data {target} neither clearly rises nor falls ({between})."
    low, high = sorted(abs(end) for end in ends)
    move = "rises" if slope > 0 else "falls"
    between = f"95 % between {low:.1f} and {high:.1f} %"
    return f"Over the data {target} {move} by {abs(slope):.1f} % {per} on average ({between})."


def tell_swing(season: Season, target: str) -> str:
    """Say a swing s of log y: the top is 100 (e^s - 1) % above the bottom."""
    swing, low, high = (100 * math.expm1(each) for each in (season.swing, season.low, season.high))
    name = f"{season.rhythm} pattern".capitalize() if season.rhythm else f"Pattern with period {number(season.period)}"
    at = {"daily": "at", "weekly": "on"}.get(season.rhythm or "", "in")
    places = [f"{side} {at} {list_names(list(named)).replace(' and ', ' or ')}"
              for side, named in (("highest", season.top), ("lowest", season.bottom)) if named]  # fmt: skip
    where = "".join(f", {place}" for place in places)
    return (
        f"{name}: in its last cycle {target} is {swing:.0f} % higher at the top than at the bottom (95 % "
        f"between {low:.0f} and {high:.0f} %){where}."
    )
