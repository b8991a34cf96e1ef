"""How much a factor of a product changes over the range of the data: hardly, a little, or like a random walk.

Only the kernel and the range of its columns are looked at, no rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mercer.explain.wording import Column
from mercer.kernels.expression import Base

LITTLE = 0.33  # of its size: a factor that changes less over the data is next to constant (SE: three times their range)
SLOW = 0.2  # of the range of the data: a random walk may be drawn back so soon and still look like one

# What is left of the correlation after a distance of r lengthscales.
CORRELATIONS: dict[str, Callable[[float, float], float]] = {
    "SE": lambda r, _: math.exp(-(r**2) / 2),
    "RQ": lambda r, alpha: (1 + r**2 / (2 * alpha)) ** -alpha,
    "M52": lambda r, _: (1 + math.sqrt(5) * r + 5 / 3 * r**2) * math.exp(-math.sqrt(5) * r),
    "M32": lambda r, _: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r),
    "M12": lambda r, _: math.exp(-r),
}


def change(leaf: Base, place: int, column: Column) -> float:
    """Return how much a factor differs between the two ends of one of its columns, in units of its own size.

    That is sqrt(2 - 2 k(range) / k(0)) for a factor that depends on distances; infinite where it is not known.
    """
    span = column.span
    if span is None:
        return math.inf
    if leaf.symbol == "LIN":
        offsets = leaf.parameter("offset").values
        if offsets is None or len(leaf.columns) > 1 or column.low is None:
            return math.inf
        return span / max(abs(column.low + span / 2 - offsets[0]), 1e-12 * span)
    left = correlation(leaf, place, span)
    return math.inf if left is None else math.sqrt(max(0.0, 2 - 2 * left))


def correlation(leaf: Base, place: int, distance: float) -> float | None:
    """Return what is left of the correlation of a fading factor after a distance along one of its columns."""
    lengths = leaf.parameter("lengthscale").values if leaf.symbol in CORRELATIONS else None
    if lengths is None:
        return None
    alphas = leaf.parameter("alpha").values if leaf.symbol == "RQ" else None
    return CORRELATIONS[leaf.symbol](distance / lengths[min(place, len(lengths) - 1)], alphas[0] if alphas else 1.0)


def hardly_changes(leaf: Base, on: Sequence[Column]) -> bool:
    """Tell whether a factor is next to constant over the data."""
    return bool(on) and all(change(leaf, place, column) < LITTLE for place, column in enumerate(on))


def walks(leaf: Base, on: Sequence[Column]) -> bool:
    """Tell whether a rough factor has a lengthscale beyond the range of the data, and so is a random walk in them."""
    return leaf.symbol == "M12" and _is_long(leaf, on)


def slope_walks(leaf: Base, on: Sequence[Column]) -> bool:
    """Tell whether a factor with a rough slope does: its slope is then a random walk."""
    return leaf.symbol == "M32" and _is_long(leaf, on)


def drawn_back_over(leaf: Base, on: Sequence[Column]) -> float | None:
    """Return the lengthscale of a rough factor that is not much shorter than the data, else None.

    A true random walk is often fitted like that: it stays near the average of its own values (Dickey and Fuller 1979).
    """
    length = _length(leaf, on)
    return length if leaf.symbol == "M12" and length is not None and SLOW <= length / (on[0].span or 1.0) < 1 else None


def _is_long(leaf: Base, on: Sequence[Column]) -> bool:
    length = _length(leaf, on)
    return length is not None and length >= (on[0].span or math.inf)


def _length(leaf: Base, on: Sequence[Column]) -> float | None:
    lengths = leaf.parameter("lengthscale").values if leaf.symbol in CORRELATIONS else None
    if lengths is None or len(on) != 1 or on[0].span is None or on[0].level is not None:
        return None
    return lengths[0]
