"""What a component does beyond the data, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mercer.explain.change_words import has_ended, opened
from mercer.explain.drift import drawn_back_over, slope_walks, walks
from mercer.explain.phrases import LONG, SMOOTHNESS, WAVES, bending, growing, merged, nouns_first
from mercer.explain.wording import DAYS, Column, roughly
from mercer.kernels.blend import Blend
from mercer.kernels.expression import Base, Expression
from mercer.kernels.functional import has_functional
from mercer.kernels.network import has_network

GOING_ON = {1: "in a straight line", 2: "as a parabola", 3: "as a cubic curve, which soon leaves all bounds"}
UNFORESEEN = "Nothing of it can be foreseen"


def continuation(term: Expression, columns: Sequence[Column], horizon: float | None) -> str:
    """Say what one summand on one column does beyond the data.

    `horizon` is how far from the last row its band has become as wide as it would be without data; None: it never does
    within any sensible distance; zero: the data say next to nothing of it even at the last row.
    """
    if isinstance(term, Blend):
        inside, gates = opened(term)
        if any(has_ended(surface, regime, columns) for surface, regime in gates):
            return "It has ended before the end of the data and plays no part beyond it."
        return continuation(inside, columns, horizon)
    leaves = nouns_first(term)
    column = columns[next((leaf.columns[0] for leaf in leaves if leaf.columns), 0)]
    symbols = [leaf.symbol for leaf in leaves]
    if "WN" in symbols:
        return f"{UNFORESEEN}."
    if symbols == ["C"]:
        return "It stays as it is."
    if horizon == 0:
        return f"{UNFORESEEN}: even at the end of the data it is hardly known."
    until = "" if horizon is None else f"{after(horizon, column)} nothing of it is known any more"
    if has_network(term):
        return f"Beyond the data it goes on as the network has learned{until and f'; {until}'}."
    if has_functional(term) and "PER" not in symbols:
        return f"Beyond the data it returns to its average{until and f'; {until}'}."
    leaves = merged(leaves, [column])
    going = _going_on(leaves, column, horizon)
    if any(walks(leaf, [column]) for leaf in leaves):
        alone = len(leaves) == 1
        if horizon is not None and horizon > LONG * (column.span or math.inf):
            until = ""  # far beyond what anyone should look at
        end = f"; {until}" if until else ": there is no average to return to" if alone else ""
        return f"{going}, and its band grows {'' if alone else 'at least '}like the square root of the distance{end}."
    if until:
        return f"{going}; {until}."
    fading = any(leaf.symbol in SMOOTHNESS for leaf in leaves)
    return f"{going}; its band stays narrow as far as one can look." if fading else f"{going}."


def _going_on(leaves: list[Base], column: Column, horizon: float | None) -> str:
    """Say what its mean does."""
    on, lines = [column], [leaf for leaf in leaves if leaf.symbol == "LIN"]
    fading = [leaf for leaf in leaves if leaf.symbol in SMOOTHNESS]
    wave = next((leaf for leaf in leaves if leaf.symbol in WAVES), None)
    if wave is not None:
        if horizon is not None and horizon < _period(wave):
            return "Beyond the data it fades before it has repeated once"
        swings = ", with growing swings" if lines and "growing" in growing(lines, on) else ""
        return f"Beyond the data it goes on repeating{swings}"
    power = len(bending(lines, on))
    if power and fading and not any(walks(leaf, on) for leaf in fading):
        return "Beyond the data it goes on for a while, less and less surely"
    if power:
        return f"Beyond the data it goes on {GOING_ON.get(power, 'as a polynomial, which soon leaves all bounds')}"
    if walks(fading[0], on):
        return "Beyond the data its last value remains the best guess"
    if slope_walks(fading[0], on):
        return "Beyond the data it goes on in its last direction, less and less surely"
    slowly = "" if drawn_back_over(fading[0], on) is None else "slowly "
    return f"Beyond the data it {slowly}returns to zero"


def _period(wave: Base) -> float:
    """Return the longest period of a wave; zero where it is not known."""
    if wave.symbol == "COS":
        frequencies = wave.parameter("frequency").values
        return 1 / abs(frequencies[0]) if frequencies and frequencies[0] else 0.0
    periods = wave.parameter("period").values if wave.symbol in ("PER", "CPER") else None
    return max(periods) if periods else 0.0


def after(distance: float, column: Column) -> str:
    """Say "after about 3 years (36.0 months)"."""
    if column.unit not in DAYS:
        return f"after another {column.length(distance)}"
    short, exact = roughly(distance, str(column.unit)), column.length(distance)
    return f"after {short}" if short.endswith(f" {column.unit}") else f"after {short} ({exact})"
