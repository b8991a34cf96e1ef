"""Optional weak priors: a Gaussian on each free number, wide enough to matter only where the data say nothing.

In scaled units: variances near one, lengthscales near a third of the range, noise near a tenth, each within a factor of
about e^2 (one standard deviation). Weights of a network near one share of its inputs each: a layer of a hundred units
says no more than one of ten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.fitting.ranges import Frame
from mercer.fitting.surfaces import surface_prior
from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array, NonNegative
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Layout

SPREAD = 2.0


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """log p(free) = -sum ((free - centre) / spread)^2 / 2, up to a constant; infinite spread: no opinion."""

    centre: Array
    spread: Array

    def log_density(self, free: Array) -> tuple[float, Array]:
        """Return the log density (up to a constant) and its gradient."""
        distance = (free - self.centre) / self.spread
        return -0.5 * float(distance @ distance), -distance / self.spread


def weak_prior(expression: Expression, layout: Layout, frame: Frame) -> GaussianPrior:
    """Build the weak prior on the free vector followed by the log noise."""
    leaves = list(expression.owners())
    centre: list[float] = []
    spread: list[float] = []
    for slot in layout.slots:
        count = slot.spec.domain.free_size(slot.size) if slot.fitted else 0
        if not count:
            continue
        owner = leaves[slot.leaf]
        columns = list(owner.columns)
        if isinstance(owner, Surface):
            own = surface_prior(slot.spec.name, owner, count, np.array(frame.span)[columns])
            centre += own[0]
            spread += own[1]
        elif isinstance(slot.spec.domain, NonNegative):
            share = np.array([1.0 / max(1, len(leaves[slot.leaf].dims or ()))])
            centre += [float(slot.spec.domain.to_free(share)[0])] * count
            spread += [SPREAD] * count
        elif slot.spec.name in ("offset", "frequency"):  # a place, not a size: no opinion
            centre += [0.0] * count
            spread += [np.inf] * count
        elif slot.spec.unit == "length":
            factor = max(1, len(columns)) ** 0.5 / 3.0
            logs = [float(np.log(frame.span[d] * factor)) for d in columns]
            centre += logs if count == len(columns) else [float(np.mean(logs))]  # or one for all columns
            spread += [SPREAD] * count
        elif slot.spec.name == "bandwidth":
            repeats = count // len(columns)
            centre += [float(np.log(0.3 / frame.span[d])) for d in columns] * repeats
            spread += [SPREAD] * count
        else:
            centre += [0.0] * count
            spread += [SPREAD] * count
    return GaussianPrior(np.array([*centre, np.log(0.1)]), np.array([*spread, SPREAD]))
