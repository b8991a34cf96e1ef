"""How a search goes on, as a small file of numbers: how far it is, the best kernel so far, and the picture of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.estimators import GPRegressor
from mercer.estimators.inputs import read_training
from mercer.explain.claims import WITHIN_95
from mercer.explain.subject import structure_text
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import values_of
from mercer.report.moving import axis_numbers, round_numbers
from mercer.tables.columns import Categories, DateColumn
from mercer.writing import write_text

if TYPE_CHECKING:
    import pandas as pd

    from mercer.fitting.minimise import Progress

PLACES = 240  # along a curve that a screen shows
MOST_ROWS = 300  # of the data in the picture: with them it takes some hundredths of a second
AHEAD = 0.2  # how far the curve goes beyond the data, as a share of their range, as in the report
EVERY = 0.4  # seconds between two looks at the search; the page asks twice a second


class Live:
    """Writes how far a search is, at most every so often, with the picture where the best kernel changed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.state: dict[str, Any] = {"stage": "starting", "version": 0}
        self.picture: Picture | None = None
        self.names: Sequence[str] | None = None
        self.shift = 0.0
        self._last, self._shown = -math.inf, math.inf

    def tell(self, **fields: Any) -> None:
        """Write at once."""
        self.state |= fields
        write_text(json.dumps(self.state), self.file)
        self._last = time.monotonic()

    def show(self, inputs: pd.DataFrame, target: pd.Series, names: Sequence[str]) -> None:
        """Show the data, before there is a kernel."""
        self.picture, self.names = Picture.of(inputs, target), names if len(names) > 1 else None
        spread = float(np.std(target.to_numpy()))
        self.shift = 2.0 * len(target) * math.log(spread) if spread > 0 else 0.0  # a score is that of the scaled target
        self.tell(stage="searching", picture=self.picture.draw(None, None), version=1)

    def report(self, progress: Progress) -> None:
        """Take a report of the search."""
        if time.monotonic() - self._last < EVERY and not (progress.best is not None and math.isinf(self._shown)):
            return
        fields: dict[str, Any] = {
            "stage": "searching", "done": progress.done, "total": progress.total, "counted": progress.counted,
            "step": progress.depth, "seconds_left": progress.seconds_left,
        }  # fmt: skip
        if progress.best is not None:
            count = 1 if self.names is None else len(self.names)
            fields["kernel"] = structure_text(progress.best, self.names and tuple(self.names), count)
            fields["score"] = progress.score + self.shift if math.isfinite(progress.score) else None
            if self.picture is not None and progress.score < self._shown:
                self._shown = progress.score
                fields |= {"picture": self.picture.draw(progress.best, progress.noise)}
                fields["version"] = self.state["version"] + 1
        self.tell(**fields)


class Picture:
    """The data, thinned, and what a kernel makes of them: a curve, or for several inputs each row from the others."""

    def __init__(self, rows: Any, target: str) -> None:
        self.rows, self.target = rows, target
        kept = np.linspace(0, len(rows.y) - 1, min(MOST_ROWS, len(rows.y))).round().astype(int)
        self.data = Data(rows.data.X[kept], rows.data.y[kept], free_level=True)
        self.observed = rows.y[kept]
        columns = rows.columns.encoding.columns
        varying = [c for c in range(rows.X.shape[1]) if np.ptp(rows.X[:, c]) > 0]
        self.column, self.place = columns[0], varying[0] if varying else 0
        one = len(columns) == 1 and len(varying) == 1
        self.is_curve = one and not isinstance(self.column, Categories)
        self.at = rows.X[kept, self.place]

    @staticmethod
    def of(inputs: pd.DataFrame, target: pd.Series) -> Picture:
        """Scale rows as a fit does."""
        return Picture(read_training(GPRegressor(), inputs, target).rows, str(target.name))

    def draw(self, kernel: Expression | None, noise: float | None) -> dict[str, Any]:
        """Return the picture as numbers; without a kernel, or where it has no posterior, the data alone."""
        spec = self._draw_data()
        if kernel is None or noise is None:
            return spec
        try:
            posterior = Exact().posterior(compile_program(kernel), values_of(kernel), Gaussian(noise), self.data)
        except (NumericalError, InputError):
            return spec
        level, scale = self.rows.level, self.rows.units.y_scale
        if not self.is_curve:
            expected = level + scale * posterior.leave_one_out().mean
            return spec | {"points": {"x": round_numbers(expected), "y": round_numbers(self.observed)}}
        along = self._places()
        matrix = np.tile(np.median(self.rows.X, axis=0), (len(along), 1))
        matrix[:, self.place] = along
        found = posterior.predict(self.rows.scale(matrix))
        mean, reach = level + scale * found.mean, WITHIN_95 * scale * np.sqrt(found.variance + noise)
        line = {"mean": mean, "low": mean - reach, "high": mean + reach}
        return spec | {
            "line": {"x": axis_numbers(self.column, along), **{name: round_numbers(y) for name, y in line.items()}}
        }

    def _draw_data(self) -> dict[str, Any]:
        if not self.is_curve:
            empty: dict[str, Any] = {"x": [], "y": []}
            label = f"{self.target} as the other rows predict it"
            return {"kind": "scatter", "x": {"name": label, "dates": False}, "y": self.target, "points": empty}
        x, along = axis_numbers(self.column, self.at), self._places()
        ends = axis_numbers(self.column, np.array([along[0], along[-1]]))
        return {
            "kind": "curve", "x": {"name": self.column.name, "dates": isinstance(self.column, DateColumn)},
            "y": self.target, "points": {"x": x, "y": round_numbers(self.observed)}, "ends": ends,
        }  # fmt: skip

    def _places(self) -> Array:
        numbers = self.rows.X[:, self.place]
        low, high = float(numbers.min()), float(numbers.max())
        before = 0.0 if isinstance(self.column, DateColumn) else AHEAD / 2
        return np.linspace(low - before * (high - low), high + (AHEAD - before) * (high - low), PLACES)
