"""The work of `predict`: a model file and a new table in, the table with predictions out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mercer.cli.terminal import Terminal
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.estimators import GPRegressor
    from mercer.estimators.classifier import KernelSVC

WITHIN_95 = 1.959964


def load_table_model(file: Path) -> GPRegressor | KernelSVC:
    """Read a model of a table; one of a grid has no columns to predict from."""
    from mercer.estimators import GridRegressor
    from mercer.optimise.loading import load
    from mercer.optimise.optimizer import Optimizer

    model = load(file)
    if isinstance(model, Optimizer):
        raise InputError(f"'{file}' holds a study. Use it in Python: print(mercer.load({str(file)!r}).explain()).")
    if isinstance(model, GridRegressor):
        raise InputError(f"'{file}' holds a model of a grid. Use it in Python: mercer.load({str(file)!r}).predict().")
    return model


def predict_table(model_file: Path, table_file: Path, terminal: Terminal) -> pd.DataFrame:
    """Return the new table with predictions at each of its rows.

    Of a number: the mean and the 95 % band of new observations. Of a class: the class, its probability, and the
    probability of every class.
    """
    from mercer.estimators import GPRegressor
    from mercer.tables import read_table

    terminal.prepare_core()
    with terminal.working("predicting"):
        model, table = load_table_model(model_file), read_table(table_file)
        encoding = model.fitted_.columns.encoding
        if isinstance(model, GPRegressor):
            names = ["mean", "std", "lower_95", "upper_95"]
        else:
            names = ["class", "probability", *(f"probability_{name}" for name in model.classes_)]
        taken = [name for name in names if name in table.columns]
        if taken:
            raise InputError(
                f"'{table_file.name}' already has a column {', '.join(map(repr, taken))}; rename it first, "
                "because the predictions are written under that name."
            )
        encoding.apply(table)  # names what is missing or wrong in the table
        inputs = table[[column.name for column in encoding.columns]]
        if isinstance(model, GPRegressor):
            mean, std = model.predict(inputs, return_std=True)
            reach = WITHIN_95 * std
            found = [mean, std, mean - reach, mean + reach]
        else:
            chances = model.predict_proba(inputs)
            found = [model.predict(inputs), chances.max(axis=1), *chances.T]
        return table.assign(**dict(zip(names, found, strict=True)))
