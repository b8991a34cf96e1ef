"""A `Fitted` -> what the rest of this room needs to know about it, and its explanation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mercer.explain.changes import Change, change_of
from mercer.explain.explanation import Explanation, Provenance, Scores, explain
from mercer.explain.subject import Subject
from mercer.explain.wording import Column
from mercer.kernels.blend import has_blend
from mercer.kernels.domains import Array
from mercer.learners.criteria import CRITERIA
from mercer.model.fitted import Columns, Fitted

SCORE_NAMES = {**{name: criterion.label for name, criterion in CRITERIA.items()}, "evidence": "-2 log evidence"}


def explain_fitted(fitted: Fitted) -> Explanation:
    """Explain a fit at the rows it was learned from."""
    return explain(subject_of(fitted), _provenance(fitted), change_in(fitted))


_CHANGES: WeakKeyDictionary[Fitted, Change] = WeakKeyDictionary()  # its uncertainty takes a while to work out


def change_in(fitted: Fitted) -> Change | None:
    """Return where behaviour changes; None without a change surface."""
    if not has_blend(fitted.kernel):
        return None
    if fitted not in _CHANGES:
        found = change_of(subject_of(fitted), fitted.candidates)
        if found is None:
            return None
        _CHANGES[fitted] = found
    return _CHANGES[fitted]


def subject_of(fitted: Fitted) -> Subject:
    """Return the winner with its data."""
    first, training = fitted.explained, fitted.training
    scale, level = training.units.y_scale, training.level

    def predict(rows: Array) -> tuple[Array, Array]:
        found = fitted.mixture.predict(rows, include_noise=True)
        return level + scale * found.mean, scale * np.sqrt(found.variance)

    return Subject(
        target=training.target_name or "the target",
        columns=tuple(readable_columns(fitted.columns, training.X)),
        fitted=fitted.kernel,
        kernel=first.kernel,
        noise=first.noise,
        data=training.data.sample,
        engine=fitted.choice.engine,
        posterior=first.posterior,
        units=training.units,
        level=level,
        predict=predict,
        named=fitted.columns.named,
    )


def readable_columns(table: Columns, X: Array) -> list[Column]:
    """Return the encoded columns as a reader knows them; X are the rows that were learned from."""
    low, high = X.min(axis=0), X.max(axis=0)
    whole = (np.round(X) == X).all(axis=0)
    encoding = table.encoding
    columns: list[Column] = []
    for each in encoding.columns:
        levels: Any = getattr(each, "levels", (None,) * len(each.encoded_names))
        for name, unit, level in zip(each.encoded_names, each.units, levels, strict=True):
            d = len(columns)
            show: Callable[[float], str] | None = None if unit is None else partial(encoding.describe_value, name)
            told = name if table.named else f"column {name}"
            source = each.name if table.named else told
            columns.append(Column(told, unit, float(low[d]), float(high[d]), show, source, level, bool(whole[d])))
    return columns


def _provenance(fitted: Fitted) -> Provenance:
    members, scores, settings = fitted.mixture.members, fitted.scores, fitted.origin.learner_settings
    beyond = tuple(member.beyond for member in members)
    bound = fitted.choice.engine.name == "vfe"
    return Provenance(
        scores=Scores(scores.log_evidence, scores.bic, scores.leave_one_out, scores.parameters, bound),
        status=fitted.status,
        message=fitted.message,
        jitter=scores.jitter,
        noise_is_fitted=fitted.origin.noise_is_fitted,
        given=fitted.origin.given,
        distilled_from=fitted.origin.distilled_from,
        starts=fitted.origin.options["restarts"],
        bases=tuple(settings.get("bases", ())),
        score=SCORE_NAMES.get(settings.get("score", settings.get("selection", "bic")), "score"),
        candidates=fitted.candidates,
        weights=tuple(member.within for member in members),
        weights_beyond=None if fitted.mixture.column is None else beyond,
        notes=fitted.notes,
        cut_short=fitted.stopped != "",
    )
