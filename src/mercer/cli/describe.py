"""A fitted model -> its summary: the words and numbers that every command shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mercer.estimators.inputs import encoding_of
from mercer.explain import Column, Outcome, Scores, Summary, summarise
from mercer.explain.narrate import found_sentence

if TYPE_CHECKING:
    from mercer.estimators import GPRegressor
    from mercer.tables import Encoding


def summary_of(model: GPRegressor, notes: Sequence[str]) -> Summary:
    """Summarise a fitted or loaded model at the rows it learned from."""
    encoding = encoding_of(model)
    return summarise(
        target=getattr(model, "target_name_", "the target"),
        table_columns=[column.name for column in encoding.columns],
        columns=_columns(model, encoding),
        kernel=model.kernel_,
        parts=model.decompose(),
        inputs=model.X_train_,
        observed=model.y_train_,
        noise_variance=model.noise_,
        scores=Scores(model.log_evidence_, model.bic_, model.loo_, model.n_parameters_),
        outcome=Outcome(
            found_sentence(str(model.kernel), model.restarts), model.status_, model.message_, model.jitter_
        ),
        notes=notes,
    )


def _columns(model: GPRegressor, encoding: Encoding) -> list[Column]:
    low, high = model.X_train_.min(axis=0), model.X_train_.max(axis=0)

    def shown(name: str, unit: str | None) -> Callable[[float], str] | None:
        return partial(encoding.describe_value, name) if unit is not None else None

    return [
        Column(name, unit, float(low[d]), float(high[d]), shown(name, unit))
        for d, (name, unit) in enumerate(zip(encoding.names, encoding.units, strict=True))
    ]
