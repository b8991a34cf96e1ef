"""What a known cause does to the target: the change when it is there, or when it is higher, with its 95 % interval.

On a member's scale the effect of a cause is a straight line; its slope has a Gaussian posterior. Two predictions that
differ in the cause alone give it: b = f(x, 1) - f(x, 0), var b = k(1, 1) - 2 k(1, 0) + k(0, 0) of the posterior. From
there it is taken to the units of the target at its usual level, and averaged over the members by their weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer.explain.claims import WITHIN_95
from mercer.explain.wording import number
from mercer.forecast.model import FittedMember, SeriesModel
from mercer.forecast.reading import Named
from mercer.kernels.domains import Array
from mercer.linalg.threads import one_thread


@dataclass(frozen=True)
class Effect:
    """The change of the target when a cause goes up by `amount`; in shares of the usual level where `relative`.

    `switch`: the cause is 0 or 1. `seen`: it varies in the data; of one that does not, nothing can be said.
    """

    cause: str
    change: float
    low: float
    high: float
    relative: bool
    amount: float
    switch: bool
    seen: bool = True

    @property
    def clear(self) -> bool:
        """Whether it is known to raise, or to lower."""
        return self.low > 0 or self.high < 0

    @property
    def sentence(self) -> str:
        """The effect in words: "24 to 26 December: 61 % lower (95 % between 55 and 66 % lower)."."""
        what = self.cause if self.switch else f"{self.cause} higher by {self.amount:g}"
        if not self.seen:
            return f"{self.cause}: it never varies in the data, so its effect is not known."
        if not self.clear:
            return f"{what}: no clear effect (95 % between {self._show(self.low)} and {self._show(self.high)})."
        near, far = sorted((self.low, self.high), key=abs)
        unit = " %" if self.relative else ""
        ends = f"{self._size(near)} and {self._size(far)}{unit}"
        return f"{what}: {self._show(self.change)} (95 % between {ends})."

    def _size(self, value: float) -> str:
        percent = 100 * abs(value)
        return (f"{percent:.1f}" if percent < 10 else f"{percent:.0f}") if self.relative else number(abs(value))

    def _show(self, value: float) -> str:
        return f"{self._size(value)}{' %' if self.relative else ''} {'higher' if value >= 0 else 'lower'}"


def find_effects(named: Named, model: SeriesModel, causes: tuple[str, ...]) -> tuple[Effect, ...]:
    """Find what each known cause does."""
    if not causes:
        return ()
    with one_thread():
        slopes = [find_slopes(member) for member in model.members]
    known = named.series.causes * named.spreads + named.centres
    return tuple(_find(place, name, known[:, place], named, model, slopes) for place, name in enumerate(causes))


def find_slopes(member: FittedMember) -> tuple[Array, Array]:
    """Return the slope of each cause (for one of its spreads) and its deviation, on the member's scale."""
    inputs = member.problem.data.X
    count = inputs.shape[1] - 1
    rows = np.zeros((count + 1, count + 1))
    rows[:, 0] = inputs[-1, 0]
    rows[1:, 1:] = np.eye(count)
    mean, covariance = member.posterior.predict_joint(rows)
    variances = np.diag(covariance)[1:] + covariance[0, 0] - 2 * covariance[0, 1:]
    return member.size * (mean[1:] - mean[0]), member.size * np.sqrt(np.maximum(variances, 0.0))


def _find(
    place: int, cause: str, values: Array, named: Named, model: SeriesModel, slopes: list[tuple[Array, Array]]
) -> Effect:
    switch = bool(np.all(np.isclose(values, 0) | np.isclose(values, 1)))
    spread, centre = float(named.spreads[place]), float(named.centres[place])
    seen = bool(np.ptp(values) > 1e-12 * max(1.0, abs(centre)))
    amount = 1.0 if switch or not seen else 10.0 ** math.floor(math.log10(2 * spread))
    found = []
    for member, (slope, deviation) in zip(model.members, slopes, strict=True):
        base = member.shift - (slope[place] * centre / spread if switch else 0.0)
        reach = slope[place] * amount / spread + WITHIN_95 * deviation[place] * amount / spread * np.array(
            [0.0, -1.0, 1.0]
        )
        before, *after = member.scale.backward(np.concatenate([[base], base + reach]))
        found.append([before, *(np.array(after) - before)])
    weights, table = model.weights, np.array(found)
    before, change = weights @ table[:, 0], weights @ table[:, 1]
    # Of a mixture: the average of the variances, and the variance of the averages.
    variances = ((table[:, 3] - table[:, 2]) / (2 * WITHIN_95)) ** 2 + (table[:, 1] - change) ** 2
    reach = WITHIN_95 * math.sqrt(float(weights @ variances))
    relative = bool(np.all(named.series.values > 0) and before > 0)
    scale = float(before) if relative else 1.0
    ends = (change - reach) / scale, (change + reach) / scale
    return Effect(cause, float(change / scale), float(ends[0]), float(ends[1]), relative, amount, switch, seen)
