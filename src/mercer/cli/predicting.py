"""The work of `predict`: a model file and a new table in, the table with predictions out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.cli.terminal import Terminal
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.estimators import GPRegressor
    from mercer.estimators.classifier import KernelSVC

WITHIN_95 = 1.959964
ADDED = ("mean", "std", "lower_95", "upper_95")


def table_model(file: Path) -> GPRegressor | KernelSVC:
    """Read a model of a table; one of a grid has no columns to predict from."""
    from mercer.estimators import GridRegressor, load

    model: GPRegressor | KernelSVC | GridRegressor = load(file)
    if isinstance(model, GridRegressor):
        raise InputError(f"'{file}' holds a model of a grid. Use it in Python: mercer.load({str(file)!r}).predict().")
    return model


def with_predictions(model_file: Path, table_file: Path, terminal: Terminal) -> pd.DataFrame:
    """Return the new table with the mean and the 95 % band of new observations at each of its rows."""
    from mercer.estimators import GPRegressor
    from mercer.tables import read_table

    terminal.prepare_core()
    with terminal.working("predicting"):
        model = table_model(model_file)
        table = read_table(table_file)
        if not isinstance(model, GPRegressor):
            return _with_classes(model, table, table_file)
        taken = [name for name in ADDED if name in table.columns]
        if taken:
            raise InputError(
                f"'{table_file.name}' already has a column {', '.join(map(repr, taken))}; rename it first, "
                "because the predictions are written under that name."
            )
        encoding = model.fitted_.columns.encoding
        encoding.apply(table)  # names what is missing or wrong in the table
        mean, std = model.predict(table[[column.name for column in encoding.columns]], return_std=True)
    reach = WITHIN_95 * std
    return table.assign(mean=mean, std=std, lower_95=mean - reach, upper_95=mean + reach)


def _with_classes(model: Any, table: pd.DataFrame, table_file: Path) -> pd.DataFrame:
    """Return the table with the class of each row, its probability, and the probability of every class."""
    encoding = model.fitted_.columns.encoding
    chances = {f"probability_{name}": place for place, name in enumerate(model.classes_)}
    added = ("class", "probability", *chances)
    taken = [name for name in added if name in table.columns]
    if taken:
        raise InputError(
            f"'{table_file.name}' already has a column {', '.join(map(repr, taken))}; rename it first, "
            "because the predictions are written under that name."
        )
    encoding.apply(table)  # names what is missing or wrong in the table
    rows = table[[column.name for column in encoding.columns]]
    found, probability = model.predict(rows), model.predict_proba(rows)
    new = {"class": found, "probability": probability.max(axis=1)}
    return table.assign(**new, **{name: probability[:, place] for name, place in chances.items()})
