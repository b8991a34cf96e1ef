"""A fitted estimator -> what the room `explain` needs to know about it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.estimators.inputs import encoding_of
from mercer.estimators.kernels import expression_or_learner
from mercer.explain import Column, Explanation, Provenance, Scores, Subject, explain
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.learners.criteria import CRITERIA

if TYPE_CHECKING:
    from mercer.estimators.regressor import GPRegressor
    from mercer.tables import Encoding


SCORE_NAMES = {**{name: criterion.label for name, criterion in CRITERIA.items()}, "evidence": "-2 log evidence"}


def explanation_of(model: GPRegressor) -> Explanation:
    """Explain a fitted or loaded model at the rows it learned from."""
    return explain(subject_of(model), _provenance(model), model.change_)


def subject_of(model: GPRegressor) -> Subject:
    """Return the model's winner with its data."""
    first = model._mixture.members[0]
    scale, level = model._units.y_scale, model._level

    def predict(rows: Array) -> tuple[Array, Array]:
        found = model._mixture.predict(rows, include_noise=True)
        return level + scale * found.mean, scale * np.sqrt(found.variance)

    return Subject(
        target=target_name(model),
        columns=tuple(readable_columns(model, encoding_of(model))),
        fitted=model.kernel_,
        kernel=first.kernel,
        noise=first.noise,
        data=model._scaled_data().sample,
        engine=model.inference_.engine,
        posterior=first.posterior,
        units=model._units,
        level=level,
        predict=predict,
        named=has_names(model),
    )


def target_name(model: GPRegressor) -> str:
    """Return the name of the target, where the user gave one."""
    return getattr(model, "target_name_", None) or "the target"


def has_names(model: GPRegressor) -> bool:
    """Tell whether the columns have names."""
    return model.encoding_ is not None or hasattr(model, "feature_names_in_")


def readable_columns(model: GPRegressor, encoding: Encoding) -> list[Column]:
    """Return the encoded columns as a reader knows them."""
    low, high = model.X_train_.min(axis=0), model.X_train_.max(axis=0)
    whole = (model.X_train_ == np.round(model.X_train_)).all(axis=0)
    named = has_names(model)
    columns: list[Column] = []
    for table in encoding.columns:
        levels: Any = getattr(table, "levels", (None,) * len(table.encoded_names))
        for name, unit, level in zip(table.encoded_names, table.units, levels, strict=True):
            d = len(columns)
            show: Callable[[float], str] | None = None if unit is None else partial(encoding.describe_value, name)
            told = name if named else f"column {name}"
            source = table.name if named else told
            columns.append(Column(told, unit, float(low[d]), float(high[d]), show, source, level, bool(whole[d])))
    return columns


def _provenance(model: GPRegressor) -> Provenance:
    mixture = model._mixture
    learner = expression_or_learner(model.kernel)
    given = isinstance(learner, Expression)
    settings = {} if isinstance(learner, Expression) else learner.describe()
    beyond = tuple(member.beyond for member in mixture.members)
    bound = model.inference_.engine.name == "vfe"
    return Provenance(
        scores=Scores(model.log_evidence_, model.bic_, model.loo_, model.n_parameters_, bound),
        status=model.status_,
        message=model.message_,
        jitter=model.jitter_,
        noise_is_fitted=not given or model.noise is None,
        given=str(model.kernel) if given else None,
        distilled_from=getattr(model, "distilled_from_", None),
        starts=model.restarts,
        bases=tuple(settings.get("bases", ())),
        score=SCORE_NAMES.get(settings.get("score", settings.get("selection", "bic")), "score"),
        candidates=model.candidates_,
        weights=tuple(member.within for member in mixture.members),
        weights_beyond=None if mixture.column is None else beyond,
        notes=tuple(getattr(model, "notes_", ())),
        cut_short=model.stopped_ != "",
    )
