"""The work of `predict`: a model file and a new table in, the table with predictions out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mercer.cli.terminal import Terminal
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.estimators import GPRegressor
    from mercer.estimators.classifier import KernelSVC
    from mercer.tables import Encoding, ReadOptions

WITHIN_95 = 1.959964
EARLIER = 10  # years before those of the model that years of two digits may stand for in a new table


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


def predict_table(
    model_file: Path, table_file: Path, terminal: Terminal, options: ReadOptions, missing: str = "drop"
) -> pd.DataFrame:
    """Return the new table with predictions at each of its rows.

    Of a number: the mean and the 95 % band of new observations. Of a class: the class, its probability, and the
    probability of every class. Rows that lack an input have no prediction.
    """
    import numpy as np
    import pandas as pd

    from mercer.estimators import GPRegressor
    from mercer.tables import read_table
    from mercer.tables.selection import find_complete_rows

    if missing not in ("drop", "fail"):
        raise InputError(f"--missing is drop or fail, not '{missing}'.")
    terminal.prepare_core()
    with terminal.working("predicting"):
        model = load_table_model(model_file)
        encoding = model.fitted_.columns.encoding
        table = read_table(table_file, read_like(encoding, options))
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
        known = [column.name for column in encoding.columns if column.name in table.columns]
        complete, _ = find_complete_rows(table[known], refuse=missing == "fail", least=1)
        encoding.apply(table[complete])  # names what is missing or wrong in the table
        inputs = table.loc[complete, known]
        if not complete.all():
            count = len(complete) - int(complete.sum())
            rows = "1 row lacks an input and has" if count == 1 else f"{count} rows lack an input and have"
            terminal.note(f"{rows} no prediction (--missing fail refuses)")
        if isinstance(model, GPRegressor):
            mean, std = model.predict(inputs, return_std=True)
            reach = WITHIN_95 * std
            found = [mean, std, mean - reach, mean + reach]
        else:
            chances = model.predict_proba(inputs)
            found = [model.predict(inputs), chances.max(axis=1), *chances.T]
        columns = (pd.Series(np.asarray(values), index=inputs.index) for values in found)
        return table.assign(**dict(zip(names, columns, strict=True)))


def read_like(encoding: Encoding, options: ReadOptions) -> ReadOptions:
    """Return options by which a new table is read as the one that the model learned from."""
    from mercer.tables.columns import Categories, DateColumn

    kinds = {column.name: "text" if isinstance(column, Categories) else column.kind for column in encoding.columns}
    day_first = any(isinstance(column, DateColumn) and column.day_first for column in encoding.columns)
    origins = [one.timeline.origin.astype(object).year for one in encoding.columns if isinstance(one, DateColumn)]
    first = options.first_year or (max(1, min(origins) - EARLIER) if origins else None)
    return replace(
        options, learned=tuple(kinds.items()), columns=tuple(kinds), usual_day_first=True if day_first else None,
        first_year=first,
    )  # fmt: skip
