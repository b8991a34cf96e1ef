"""`mercer.load`: a model or a study, whichever the file holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.estimators import GPRegressor, GridRegressor, KernelSVC
    from mercer.forecast.forecaster import Forecaster
    from mercer.optimise.optimizer import Optimizer

FORECASTER = b'"mercer forecaster"'  # in the first entry of its file


def load(path: str | Path) -> GPRegressor | GridRegressor | KernelSVC | Optimizer | Forecaster:
    """Read a file that `save` of a model, an `Optimizer` or a `Forecaster` wrote; returns it, to go on with.

    A file from a stranger can never run code.
    """
    file = Path(path).expanduser()
    if _is_text(file):
        if FORECASTER in file.read_bytes()[:80]:
            from mercer.forecast.files import read_forecaster

            return read_forecaster(path)
        from mercer.optimise.optimizer import load_study

        return load_study(path)
    from mercer.estimators import load as load_model

    return load_model(path)


def _is_text(file: Path) -> bool:
    """A study is a JSON object; models are archives. What cannot be opened is for the reader of models to refuse."""
    try:
        with file.open("rb") as stream:
            return stream.read(1) == b"{"
    except OSError:
        return False
