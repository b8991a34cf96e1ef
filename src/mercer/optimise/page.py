"""The report of a study: what was found in words and pictures, and what to try next, on one HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mercer.optimise import words
from mercer.optimise.effects import look_closely
from mercer.optimise.explanation import Study, StudyExplanation, explain_study
from mercer.optimise.pictures import Effects, curve_figure, map_figure, progress_figure
from mercer.optimise.trials import Suggestion
from mercer.report.html import draw_picture, list_origin, list_versions, render
from mercer.writing import check_place, write_text

MOST_PARTS = 12
MOST_TRIALS = 200  # rows of the table, the last ones
USAGE = """import mercer
study = mercer.load("study.mercer")  # what study.save("study.mercer") wrote
study.tell(x, y)  # the value of a point
x = study.ask()
print(study.explain())"""
AGAIN = "# do the experiments, add the rows with their results to the table, then\n"


@dataclass(frozen=True, eq=False)
class PartDrawing:
    """A part of the function as the page shows it."""

    title: str
    share: str
    picture: Markup


def write_study_report(
    study: Study, path: str | Path, explanation: StudyExplanation | None = None, command: str | None = None
) -> None:
    """Write the page; give the explanation if you have it already, and the command that goes on if there is one."""
    check_place(Path(path))
    write_text(study_html(study, explanation, command), path)


def study_html(study: Study, explanation: StudyExplanation | None = None, command: str | None = None) -> str:
    """Return the page."""
    found = explain_study(study) if explanation is None else explanation
    progress = Markup("")
    if found.best is not None:
        text = words.describe_progress(found)
        progress = draw_picture("progress", "Best so far", text, partial(progress_figure, study))
    parts = _draw_parts(study, found)
    return render(
        "study.html",
        explanation=found,
        target=study.target,
        headline=words.tell_headline(found),
        best=words.tell_best(found).replace(" = ", "\u00a0=\u00a0"),  # no line ends there
        gain=words.tell_gain(found.gain),
        stop=found.gain.verdict in ("nothing to be expected", "little left"),
        structure=words.tell_structure(found),
        matters=words.tell_inputs(found),
        partitions=[
            (words.show_partition(each.groups), words.show_probability(each.probability))
            for each in found.partitions
            if found.beyond_noise
        ],
        progress=progress,
        parts=parts,
        left_out=words.tell_left_out(found.parts, MOST_PARTS) if found.beyond_noise else "",
        effects=words.describe_effects(found),
        names=list(found.spans),
        shares=[(each, words.show_interval(each.share)) for each in found.inputs[:MOST_PARTS] if found.beyond_noise],
        suggestions=[
            _list_suggestion(each, found)
            for each in sorted(found.suggestions, key=lambda each: each.purpose == "waiting")
        ],
        trials=_list_trials(study, found),
        hidden=max(0, found.trials - MOST_TRIALS),
        model=words.tell_model(found),
        remarks=words.tell_notes(found),
        use_title="Go on in Python" if command is None else "Go on",
        usage=USAGE if command is None else AGAIN + command,
        protocol=_list_protocol(study, found),
    )


def _draw_parts(study: Study, found: StudyExplanation) -> list[PartDrawing]:
    if study.model is None or not found.beyond_noise:
        return []
    surrogate = look_closely(study.model, study.rows, study.values)
    effects = Effects(study, surrogate, study.sign * study.model.on_values().target.spread)
    by_inputs = {tuple(study.space.names[i] for i in part.inputs): part for part in surrogate.parts}
    drawings = []
    for place, fact in enumerate(found.parts[:MOST_PARTS]):
        draw = {1: curve_figure, 2: map_figure}.get(len(fact.inputs))
        if draw is None:
            continue
        title, share = words.name_part(fact), words.tell_share(fact)
        drawn = partial(draw, effects, by_inputs[fact.inputs])
        drawings.append(PartDrawing(title, share, draw_picture(f"part{place}", title, f"{title}: {share}.", drawn)))
    return drawings


def _cells(x: Any, found: StudyExplanation) -> list[str]:
    values = x.values() if isinstance(x, dict) else [float(value) for value in x]
    return [words.show_value(value, span) for value, span in zip(values, found.spans.values(), strict=True)]


def _list_suggestion(each: Suggestion, found: StudyExplanation) -> dict[str, Any]:
    expected = "" if each.mean is None or each.spread is None else words.show_expected(each.mean, each.spread)
    return {"cells": _cells(each.x, found), "purpose": each.purpose, "expected": expected, "reason": each.reason}


def _list_trials(study: Study, found: StudyExplanation) -> list[dict[str, Any]]:
    rows = []
    best = None if found.best is None else found.best.number
    for number, trial in list(enumerate(study.trials))[-MOST_TRIALS:]:
        value = "failed" if trial.value is None else words.show_score(study.sign * trial.value)
        cells = _cells(study.space.decode(trial.row), found)
        rows.append({"number": number + 1, "cells": cells, "value": value, "best": number == best})
    return rows


def _list_protocol(study: Study, found: StudyExplanation) -> list[tuple[str, str]]:
    rows = [*list_origin(None, study.seed), ("Trials", words.count_trials(found))]
    if found.model is not None:
        rows.append(("Kernel, on inputs from 0 to 1", found.model.kernel))
    return [*rows, ("Versions", list_versions())]
