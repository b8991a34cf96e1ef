"""The page of a forecast: the picture, the next steps in a table and the sentences; of many series, what stands out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from mercer.explain.explanation import Explanation
from mercer.explain.wording import resolve
from mercer.forecast import words
from mercer.forecast.calendar import Calendar
from mercer.forecast.findings import LEVELS, Finding, Outlook, choose_unusual, compare, find, find_finest, look_ahead
from mercer.forecast.forecaster import Forecaster
from mercer.forecast.pictures import count_shown, forecast_figure, forecasts_figure
from mercer.report.html import QUESTIONS, draw_picture, list_origin, list_versions, render
from mercer.report.plots import save_figure
from mercer.writing import check_place, write_text

MOST_STEPS = 60  # rows of the table of what comes: five years of months
MOST_SERIES = 2000  # rows of findings: half a megabyte
MOST_PICTURES = 8  # of unusual series
USUAL_PICTURES = 2  # where no series is unusual: those that change most, and surprised most
USAGE = """import mercer
model = mercer.Forecaster({settings}).fit(series{causes})  # or a table with unique_id, ds and y
print(model.predict({horizon}, levels=(50, 80, 95){coming}))
print(model.explain({name}))"""


@dataclass(frozen=True, eq=False)
class Forecasts:
    """What a page or a picture is made of; made once for both."""

    forecaster: Forecaster
    outlooks: tuple[Outlook, ...]
    target: str
    time: str = "ds"

    @staticmethod
    def of(forecaster: Forecaster, horizon: int, X: Any = None, target: str = "y") -> Forecasts:
        """Foresee all series."""
        found = forecaster.predict(horizon, LEVELS, X)
        return Forecasts(forecaster, look_ahead(forecaster, found), target)

    @property
    def horizon(self) -> int:
        """How many steps are foreseen."""
        return len(self.outlooks[0].ahead)

    def findings(self) -> list[Finding]:
        """Find what stands out in every series."""
        return [find(outlook) for outlook in self.outlooks]


def write_page(forecasts: Forecasts, path: str | Path, findings: list[Finding] | None = None) -> None:
    """Write the page; give the findings if you have them already."""
    check_place(Path(path))
    many = len(forecasts.outlooks) > 1
    write_text(many_html(forecasts, findings or forecasts.findings()) if many else one_html(forecasts), path)


def write_picture(forecasts: Forecasts, path: str | Path, findings: list[Finding] | None = None) -> None:
    """Write the picture of the series, or of the most unusual ones."""
    if len(forecasts.outlooks) == 1:
        save_figure(forecast_figure(forecasts.outlooks[0], forecasts.target), path)
        return
    chosen = choose_unusual(findings or forecasts.findings(), MOST_PICTURES)
    save_figure(forecasts_figure([forecasts.outlooks[place] for place in chosen], forecasts.target), path)


def one_html(forecasts: Forecasts) -> str:
    """Return the page of one series."""
    outlook, target = forecasts.outlooks[0], forecasts.target
    explanation = words.explain_series(
        outlook.named, outlook.model, target, forecasts.time, forecasts.forecaster.reading_.causes
    )
    sentences = [words.tell_last(outlook, target), words.tell_change(outlook, compare(outlook), target)]
    return render(
        "forecast.html",
        question=f"What comes next in {target}?",
        headline=words.tell_headline(outlook, target),
        sentences=sentences,
        picture=_draw(outlook, "forecast", target, " ".join(sentences)),
        rows=list_steps(outlook)[:MOST_STEPS],
        hidden=max(0, forecasts.horizon - MOST_STEPS),
        questions=QUESTIONS,
        answers=words.choose_answers(explanation, outlook, target),
        explanation=explanation,
        findings=[],
        unusual=[],
        unusual_heading="",
        **_end(forecasts, explanation),
    )


def many_html(forecasts: Forecasts, findings: list[Finding]) -> str:
    """Return the page of many series."""
    target = forecasts.target
    ordered = choose_unusual(findings, len(findings))
    shown = [place for place in ordered if findings[place].unusual][:MOST_PICTURES]
    heading = "What is unusual" if shown else "Nothing is unusual: the largest change and the largest surprise"
    unusual = []
    for number, place in enumerate(shown or ordered[:USUAL_PICTURES]):
        outlook, finding = forecasts.outlooks[place], findings[place]
        said = [words.tell_last(outlook, target), words.tell_change(outlook, finding.change, target)]
        said += words.tell_surprise(outlook, finding.surprise)
        said += [each.sentence for each in forecasts.forecaster.effects(outlook.named.name) if each.clear]
        picture = _draw(outlook, f"series{number}", target, " ".join(said))
        unusual.append({"name": outlook.named.name, "sentences": said, "picture": picture})
    return render(
        "forecast.html",
        question=f"What comes next in {target}?",
        headline=f"The next {forecasts.horizon} steps of {target} in {len(findings):,} series",
        sentences=[words.tell_many(findings, target)],
        picture="",
        rows=[],
        hidden=max(0, len(findings) - MOST_SERIES),
        questions=QUESTIONS,
        answers=[],
        explanation=None,
        findings=[list_finding(forecasts.outlooks[place], findings[place]) for place in ordered[:MOST_SERIES]],
        unusual=unusual,
        unusual_heading=heading,
        **_end(forecasts, None),
    )


def _draw(outlook: Outlook, name: str, target: str, said: str) -> Markup:
    count, all_values = count_shown(outlook), len(outlook.named.series.values)
    shown = f"The last {count} of {all_values} values" if count < all_values else f"The {all_values} values"
    text = f"{shown} as dots, and what comes with its 50, 80 and 95 % bands. {said}"
    title = f"{target}: data and forecast" if not outlook.named.name else f"{outlook.named.name}: data and forecast"
    return draw_picture(name, title, text, partial(forecast_figure, outlook, target))


def list_steps(outlook: Outlook) -> list[dict[str, Any]]:
    """Return the rows of the table of what comes."""
    return list_rows(outlook.ahead, outlook.named.calendar)


def list_rows(ahead: pd.DataFrame, calendar: Calendar) -> list[dict[str, Any]]:
    """Return the rows of a table of means and bands by time."""
    rows, finest = [], find_finest(ahead)
    for time, row in ahead.iterrows():
        ends = [(row[f"lower_{level}"], row[f"upper_{level}"]) for level in LEVELS]
        bands = [f"{resolve(low, finest)} to {resolve(high, finest)}" for low, high in ends]
        rows.append({"when": words.tell_time(time, calendar), "mean": resolve(row["mean"], finest), "bands": bands})
    return rows


def list_finding(outlook: Outlook, finding: Finding) -> dict[str, str]:
    """Return one row of the table of findings."""
    last = outlook.ahead.iloc[-1]
    return {
        "name": finding.name,
        "mean": resolve(last["mean"], outlook.finest),
        "band": f"{resolve(last['lower_95'], outlook.finest)} to {resolve(last['upper_95'], outlook.finest)}",
        "change": words.show_change(outlook, finding.change),
        "strength": f"{finding.change.strength:.1f}",
        "surprise": words.show_surprise(outlook, finding.surprise),
    }


def _end(forecasts: Forecasts, explanation: Explanation | None) -> dict[str, Any]:
    """Return what the page ends with: how to go on in Python, and what another person needs to get the same."""
    forecaster, named = forecasts.forecaster, forecasts.outlooks[0].named
    given = {"season": forecaster.season, "positive": forecaster.positive or None,
             "holidays": forecaster.holidays}  # fmt: skip
    settings = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    effects = [each.sentence for each in forecaster.effects(named.name)] if explanation is not None else []
    name = repr(named.name) if len(forecasts.outlooks) > 1 else ""
    causes, coming = (", causes", ", X=coming") if forecaster.reading_.given_causes else ("", "")
    usage = USAGE.format(settings=settings, horizon=forecasts.horizon, name=name, causes=causes, coming=coming)
    rows = [*list_origin(None, None)[:1], ("Settings", settings or "as they are by default")]
    further = () if explanation is None else explanation.notes
    notes = [*forecaster.notes_, *(note for note in further if note not in effects)]
    return {"effects": effects, "usage": usage, "protocol": [*rows, ("Versions", list_versions())], "notes": notes}
