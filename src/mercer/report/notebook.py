"""Pictures that belong to pyplot, so that a notebook or a window shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import pyplot

from mercer.errors import InputError
from mercer.explain import explain
from mercer.report.plots import components_figure, fit_figure
from mercer.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from mercer.model.fitted import Fitted

NARROWEST = 200  # pixels
DENSITY = 100  # pixels for an inch: what notebooks have


def plot_fit(fitted: Fitted, width: int) -> Axes | NDArray[Any]:
    """Draw the fit: the axes of a curve, or an array of them where there are several inputs."""
    view = View(_check(fitted, width))
    figure = fit_figure(view, width=width, density=DENSITY, figure=pyplot.figure())
    return figure.axes[0] if view.is_curve else np.array(figure.axes, dtype=object)


def plot_components(fitted: Fitted, width: int) -> NDArray[Any]:
    """Draw every component: an array of axes."""
    view = View(_check(fitted, width))
    found = components_figure(view, explain(fitted), width=width, density=DENSITY, figure=pyplot.figure())
    return np.array(found.axes, dtype=object)


def _check(fitted: Fitted, width: int) -> Fitted:
    """Refuse a width that is none."""
    if isinstance(width, bool) or not isinstance(width, int | np.integer) or width < NARROWEST:
        raise InputError(f"width must be a whole number of pixels, at least {NARROWEST}, not {width!r}")
    return fitted
