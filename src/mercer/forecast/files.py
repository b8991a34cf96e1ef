"""A forecaster as a JSON file: settings, series, priors and the optimum of every member; nothing in it can run code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mercer.errors import ModelFileError
from mercer.forecast.calendar import Calendar
from mercer.forecast.experience import Experience, Priors, from_json, to_json
from mercer.forecast.forecaster import Forecaster
from mercer.forecast.model import Series, SeriesModel, resume
from mercer.forecast.public_holidays import Holiday
from mercer.forecast.reading import Named, Reading
from mercer.kernels.expression import Expression
from mercer.kernels.text import parse
from mercer.tables.dates import timeline_from_json
from mercer.writing import check_place

FORMAT = "mercer forecaster"
VERSION = 1


def write_forecaster(forecaster: Forecaster, path: str | Path) -> None:
    """Write all that is needed to predict and explain again."""
    reading, models = forecaster.reading_, forecaster.models_
    used: list[Experience] = []
    for model in models.values():
        if model.experience not in used:
            used.append(model.experience)
    kernel = forecaster.kernel
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "kernel": kernel.text() if isinstance(kernel, Expression) else kernel,
        "season": forecaster.season,
        "positive": forecaster.positive,
        "causes": list(reading.causes),
        "notes": list(reading.notes),
        "long": reading.long,
        "country": reading.country,
        "holidays": [[each.label, list(each.names)] for each in reading.holidays],
        "priors": json.loads(to_json(Priors({str(n): each for n, each in enumerate(used)}))),
        "series": [_plain_series(named, models[named.name], used) for named in reading.many],
    }
    check_place(Path(path))
    target = Path(path)
    beside = target.with_name(target.name + ".part")
    beside.write_text(json.dumps(plain), encoding="utf-8")
    beside.replace(target)


def _plain_series(named: Named, model: SeriesModel, used: list[Experience]) -> dict[str, Any]:
    calendar, series = named.calendar, named.series
    return {
        "name": named.name,
        "timeline": None if calendar.timeline is None else calendar.timeline.to_json(),
        "calendar": [calendar.step, calendar.first, calendar.kind, calendar.season, calendar.even],
        "offset": calendar.offset,
        "midnights": calendar.midnights,
        "closed": list(calendar.closed),
        "season": series.season,
        "places": series.places.tolist(),
        "values": series.values.tolist(),
        "causes": series.causes.tolist(),
        "centres": named.centres.tolist(),
        "spreads": named.spreads.tolist(),
        "experience": used.index(model.experience),
        "points": [member.point.tolist() for member in model.members],
        "weights": model.weights.tolist(),
    }


def read_forecaster(path: str | Path) -> Forecaster:
    """Read what `write_forecaster` wrote."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
        if plain["format"] != FORMAT or plain["version"] != VERSION:
            raise ValueError(f"format {plain['format']!r}, version {plain['version']!r}")
        steps = from_json(json.dumps(plain["priors"])).steps
        many, models = [], {}
        for each in plain["series"]:
            named, model = _read_series(each, steps[str(each["experience"])])
            many.append(named)
            models[named.name] = model
        kernel = plain["kernel"] if plain["kernel"] == "auto" else parse(plain["kernel"])
        country = plain.get("country")  # files from before holidays were causes have none
        holidays = tuple(Holiday(str(label), tuple(names)) for label, names in plain.get("holidays", []))
        positive = bool(plain.get("positive", False))  # files of earlier versions do not say it
        found = Forecaster(kernel, plain["season"], positive=positive, holidays=country)
        known = tuple(plain["causes"]), tuple(plain["notes"]), bool(plain["long"])
        found.reading_ = Reading(tuple(many), *known, country, holidays)
        found.models_ = models
        return found
    except (OSError, KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(f"{path} is no forecaster that this version can read: {error}") from None


def _read_series(plain: Any, experience: Experience) -> tuple[Named, SeriesModel]:
    arrays = {name: np.array(plain[name], dtype=float) for name in ("places", "values", "weights")}
    causes = np.array(plain["causes"], dtype=float).reshape(len(arrays["places"]), -1)
    series = Series(arrays["places"], arrays["values"], causes, float(plain["season"]))
    timeline = None if plain["timeline"] is None else timeline_from_json(plain["timeline"])
    step, first, kind, season, even = plain["calendar"]
    known = str(kind), int(season), bool(even), plain.get("offset"), bool(plain.get("midnights"))
    closed = tuple(int(day) for day in plain.get("closed", ()))
    calendar = Calendar(timeline, float(step), float(first), *known, closed)
    centres, spreads = np.array(plain["centres"], dtype=float), np.array(plain["spreads"], dtype=float)
    points = [np.array(point, dtype=float) for point in plain["points"]]
    model = resume(series, experience, points, arrays["weights"])
    return Named(str(plain["name"]), series, calendar, centres, spreads), model
