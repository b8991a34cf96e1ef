"""The space that Bayesian optimisation searches: inputs with their bounds, points as rows of numbers and back.

A row holds one column in [0, 1] for each number (an input on a log scale by its logarithm, a whole number by its
level) and one column for each choice of a category.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.optimise.constraints import (
    TOLERANCE,
    LinearConstraints,
    Polytope,
    find_centre,
    find_starts,
    read_constraints,
    walk,
)
from mercer.tables.names import quote, suggest

SAME = 1e-9  # rows nearer than this, in every column, are the same point
MOST_ROWS = 4096  # of a space without continuous inputs, that are listed
MOST_LEVELS = 64  # an input with more is treated as continuous where levels could be listed
LARGEST_INTEGER = 2**53  # beyond it not every whole number is a float
COUNTED_LEVELS = 10_000  # under constraints, an input with more levels is treated as continuous, with a margin
RAREST = 1 / 50  # share of random rows that satisfy the constraints, below which rejection takes too long
TEACHES_ONLY = "it teaches, but cannot be the best"
WORDS = "(low, high), mercer.Integer(low, high), mercer.Log(low, high) or a list of categories"


# ------------------------------------------------------------------------------------------------------------ inputs


@dataclass(frozen=True)
class Continuous:
    """What all inputs that are any number between two bounds have in common: one column from 0 to 1."""

    size: ClassVar[int] = 1
    low: float
    high: float

    def snap(self, cells: Array) -> Array:
        return np.clip(cells, 0.0, 1.0)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        return rng.random((count, 1))

    def levels(self) -> Array | None:
        return None


@dataclass(frozen=True)
class Range(Continuous):
    """A number between two bounds."""

    kind: ClassVar[str] = "real"
    linear: ClassVar[bool] = True  # the encoded column is a linear function of the number

    def check(self, name: str) -> Range:
        low, high = _check_range(name, self.low, self.high)
        return Range(low, high)

    def encode(self, name: str, values: Sequence[Any]) -> Array:
        numbers = np.array([_to_number(name, value) for value in values])
        with np.errstate(over="ignore"):  # what is too far away is refused by name
            return ((numbers - self.low) / (self.high - self.low))[:, None]

    def decode(self, cells: Array) -> float:
        share = float(cells[0])
        return _keep_within(share, self.low * (1.0 - share) + self.high * share, self.low, self.high)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


class Stepped(ABC):
    """What all inputs that go in even steps have in common: one column from 0 to 1."""

    size: ClassVar[int] = 1
    linear: ClassVar[bool] = True

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many steps lie between the bounds."""

    def snap(self, cells: Array) -> Array:
        return np.clip(np.round(cells * self.steps), 0.0, self.steps) / self.steps

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        return np.asarray(rng.integers(0, self.steps, size=(count, 1), endpoint=True) / self.steps, dtype=np.float64)

    def levels(self) -> Array | None:
        return np.arange(self.steps + 1)[:, None] / self.steps if self.steps < MOST_LEVELS else None


@dataclass(frozen=True)
class Integer(Stepped):
    """A whole number between two bounds, both included."""

    kind: ClassVar[str] = "integer"
    low: int
    high: int

    @property
    def steps(self) -> int:
        """How many steps lie between the bounds."""
        return self.high - self.low

    def check(self, name: str) -> Integer:
        low, high = _check_range(name, self.low, self.high)
        if not (low.is_integer() and high.is_integer()):
            raise InputError(
                f"The bounds of '{name}' must be whole numbers, not {_show_pair(low, high)}. "
                "Round them, or leave out that they are whole."
            )
        if max(abs(low), abs(high)) > LARGEST_INTEGER:
            raise InputError(
                f"The bounds of '{name}', {_show_pair(low, high)}, are too large for whole numbers (at most 2^53). "
                "Leave out that they are whole."
            )
        return Integer(int(low), int(high))

    def encode(self, name: str, values: Sequence[Any]) -> Array:
        numbers = np.array([_to_number(name, value) for value in values])
        for number in numbers[numbers != np.round(numbers)][:1]:
            raise InputError(
                f"'{name}' must be a whole number, not {number:g}. Round it, or give '{name}' a plain range."
            )
        return ((numbers - self.low) / self.steps)[:, None]

    def decode(self, cells: Array) -> int:
        return self.low + round(float(cells[0]) * self.steps)

    def __str__(self) -> str:
        return f"whole numbers {self.low} to {self.high}"


@dataclass(frozen=True)
class Steps(Stepped):
    """A number that goes from one bound to the other in even steps: low, low + step, ..., high."""

    kind: ClassVar[str] = "steps"
    low: float
    high: float
    step: float

    @property
    def steps(self) -> int:
        """How many steps lie between the bounds."""
        return round((self.high - self.low) / self.step)

    def check(self, name: str) -> Steps:
        low, high = _check_range(name, self.low, self.high)
        if not 0.0 < self.step <= high - low:
            raise InputError(f"The step of '{name}' is {self.step:g}: give one of at most {high - low:g}.")
        return self

    def encode(self, name: str, values: Sequence[Any]) -> Array:
        numbers = np.array([_to_number(name, value) for value in values])
        return np.round((numbers - self.low) / self.step)[:, None] / self.steps

    def decode(self, cells: Array) -> float:
        return self.low + round(float(cells[0]) * self.steps) * self.step  # whole where bounds and step are

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g} in steps of {self.step:g}"


@dataclass(frozen=True)
class Log(Continuous):
    """A positive number between two bounds, searched on a logarithmic scale."""

    kind: ClassVar[str] = "log"
    linear: ClassVar[bool] = False

    def check(self, name: str) -> Log:
        low, high = _check_range(name, self.low, self.high)
        if low <= 0.0:
            raise InputError(
                f"The lower bound of '{name}' is {low:g}, but a logarithmic scale needs positive bounds. "
                "Give a small positive number, or bounds that are a plain range."
            )
        if not math.log(low) < math.log(high):
            raise InputError(f"The bounds of '{name}' are too close for a logarithmic scale. Give a plain range.")
        return Log(low, high)

    def encode(self, name: str, values: Sequence[Any]) -> Array:
        numbers = np.array([_to_number(name, value) for value in values])
        for number in numbers[numbers <= 0.0][:1]:
            raise InputError(
                f"'{name}' must be positive, because it is searched on a logarithmic scale; {number:g} was given. "
                f"Give a number within {self.low:g} to {self.high:g}."
            )
        low, high = math.log(self.low), math.log(self.high)
        return np.asarray((np.log(numbers) - low) / (high - low), dtype=np.float64)[:, None]

    def decode(self, cells: Array) -> float:
        share = float(cells[0])
        power = math.log(self.low) * (1.0 - share) + math.log(self.high) * share
        value = _keep_within(share, math.exp(power), self.low, self.high)
        short = _keep_within(share, float(f"{value:.12g}"), self.low, self.high)
        # 0.1 comes back as 0.1, not as 0.10000000000000006; a number with more digits within rounding errors.
        return short if short > 0.0 and self.encode("", [short])[0, 0] == share else value

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g} on a logarithmic scale"


@dataclass(frozen=True)
class Category:
    """One of several choices without an order."""

    kind: ClassVar[str] = "category"
    linear: ClassVar[bool] = False
    choices: tuple[Any, ...]

    @property
    def size(self) -> int:
        """The number of encoded columns."""
        return len(self.choices)

    def check(self, name: str) -> Category:
        choices = tuple(choice.item() if isinstance(choice, np.generic) else choice for choice in self.choices)
        for choice in choices:
            storable = choice is None or isinstance(choice, str | int | float)
            if not storable or (isinstance(choice, float) and not math.isfinite(choice)):
                raise InputError(
                    f"The choices of '{name}' must be texts, finite numbers, True, False or None, not {choice!r}. "
                    "Give each choice a name and look it up in the function."
                )
        if len(choices) < 2:
            raise InputError(
                f"'{name}' has {len(choices)} of the two or more choices that a category needs: {list(choices)!r}. "
                "Add choices, or leave the input out."
            )
        repeated = [choice for choice, count in Counter(choices).items() if count > 1]
        if repeated:
            raise InputError(f"The choices of '{name}' hold {repeated[0]!r} more than once. Give each choice once.")
        return Category(choices)

    def encode(self, name: str, values: Sequence[Any]) -> Array:
        rows = np.zeros((len(values), self.size))
        rows[np.arange(len(values)), np.array([self.find(name, value) for value in values], dtype=int)] = 1.0
        return rows

    def find(self, name: str, value: Any) -> int:
        """Return the position of a choice; a table's 3 or 3.0 is also the choice "3"."""
        if isinstance(value, np.generic):
            value = value.item()
        for position, choice in enumerate(self.choices):
            if type(choice) is type(value) and choice == value:
                return position
        text, texts = _show_choice(value), [_show_choice(choice) for choice in self.choices]
        if texts.count(text) == 1:
            return texts.index(text)
        raise InputError(
            f"'{name}' has no choice {value!r}; the choices are {', '.join(map(repr, self.choices))}."
            f"{suggest(text, texts) or ' Correct it, or declare it in the bounds.'}"
        )

    def decode(self, cells: Array) -> Any:
        return self.choices[int(np.argmax(cells))]

    def snap(self, cells: Array) -> Array:
        return np.asarray(np.eye(self.size)[np.argmax(cells, axis=1)], dtype=np.float64)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        return np.asarray(np.eye(self.size)[rng.integers(self.size, size=count)], dtype=np.float64)

    def levels(self) -> Array | None:
        return np.eye(self.size) if self.size <= MOST_LEVELS else None

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.choices))}"


Input = Range | Integer | Steps | Log | Category
KINDS: dict[str, type[Range] | type[Integer] | type[Log]] = {kind.kind: kind for kind in (Range, Integer, Log)}


def _check_range(name: str, low: Any, high: Any) -> tuple[float, float]:
    bounds = []
    for given in (low, high):
        number = _as_float(given)
        if number is None:
            raise InputError(f"The bounds of '{name}' must be numbers, not {given!r}. Give {WORDS}.")
        bounds.append(number)
    low, high = bounds
    if math.isnan(low) or math.isnan(high):
        raise InputError(f"A bound of '{name}' is NaN: {_show_pair(low, high)}. Give two finite numbers.")
    if math.isinf(low) or math.isinf(high) or math.isinf(high - low):
        raise InputError(
            f"The bounds of '{name}' are infinite or too wide: {_show_pair(low, high)}. "
            "Give the widest finite range that makes sense."
        )
    if low == high:
        raise InputError(
            f"The bounds of '{name}' are equal: {_show_pair(low, high)}. Give a range, or leave the input out."
        )
    if low > high:
        raise InputError(
            f"The bounds of '{name}' are reversed: {_show_pair(low, high)}. "
            f"Give the lower one first: {_show_pair(high, low)}."
        )
    return low, high


def _as_float(value: Any) -> float | None:
    """The value as a float, or None where it is no number."""
    if isinstance(value, str | bytes | bool | np.bool_ | list | tuple) or _has_entries(value):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def _has_entries(value: Any) -> bool:
    """Tell an array, a series or a tensor from one number."""
    return bool(getattr(value, "shape", ()))


def _to_number(name: str, value: Any) -> float:
    number = _as_float(value)
    if number is None:
        raise InputError(f"'{name}' must be a number, not {value!r}. Correct the point.")
    if not math.isfinite(number):
        raise InputError(f"'{name}' must be a finite number, not {number}. Correct the point, or leave it out.")
    return number


def _keep_within(share: float, value: float, low: float, high: float) -> float:
    """Mend rounding errors: a share of 0 to 1 never leaves the bounds."""
    return min(max(value, low), high) if -TOLERANCE <= share <= 1.0 + TOLERANCE else value


def _show_pair(low: float, high: float) -> str:
    return f"({low:g}, {high:g})"


def _show_choice(choice: Any) -> str:
    """A choice as a table may show it: 3.0 as 3, True as true."""
    if isinstance(choice, float) and choice.is_integer():
        return str(int(choice))
    text = str(choice).strip()
    return text.lower() if text in (str(True), str(False)) else text


# ------------------------------------------------------------------------------------------------------------- space


@dataclass(frozen=True)
class Space:
    """Inputs with bounds, and linear constraints on them.

    `named` says that the user gave a dict: points are dicts then, and 1-D arrays otherwise.
    """

    names: tuple[str, ...]
    inputs: tuple[Input, ...]
    named: bool
    constraints: LinearConstraints | None = None

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """The encoded columns of each input."""
        ends = np.cumsum([one.size for one in self.inputs]).tolist()
        return tuple(tuple(range(end - one.size, end)) for one, end in zip(self.inputs, ends, strict=True))

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return self.columns[-1][-1] + 1

    @property
    def column_names(self) -> list[str]:
        """A name for each encoded column; that of a category says the choice, as solvent=water."""
        return [
            label
            for name, one in zip(self.names, self.inputs, strict=True)
            for label in ([f"{name}={choice}" for choice in one.choices] if isinstance(one, Category) else [name])
        ]

    def encode(self, points: Sequence[Any]) -> Array:
        """Return points as rows. Numbers outside the bounds go outside [0, 1]."""
        values = [split_point(self, point) for point in points]
        rows = np.empty((len(values), self.width))
        for i, (name, one, columns) in enumerate(zip(self.names, self.inputs, self.columns, strict=True)):
            cells = one.encode(name, [value[i] for value in values])
            far = ~np.isfinite(cells).all(axis=1)
            if far.any():
                value = values[int(np.flatnonzero(far)[0])][i]
                raise InputError(
                    f"'{name}' = {float(value):g} lies too far outside its bounds, {one}. Correct the point."
                )
            rows[:, columns] = cells
        return rows

    def decode(self, row: Array) -> Any:
        """Return a row as a point: a dict of floats, ints and choices, or a 1-D array."""
        cells = np.asarray(row, dtype=np.float64).ravel()
        values = [one.decode(cells[list(columns)]) for one, columns in zip(self.inputs, self.columns, strict=True)]
        return dict(zip(self.names, values, strict=True)) if self.named else np.array(values, dtype=np.float64)

    def snap(self, rows: Array) -> Array:
        """Return the nearest rows within the bounds, with whole numbers whole and one choice of each category."""
        given = np.asarray(rows, dtype=np.float64)
        snapped = np.empty_like(given)
        for one, columns in zip(self.inputs, self.columns, strict=True):
            snapped[..., columns] = one.snap(given[..., columns].reshape(-1, one.size)).reshape(
                *given.shape[:-1], one.size
            )
        return snapped

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return random rows that are legal and satisfy the constraints, uniform over all such rows."""
        rows = self._draw(count if self.constraints is None else max(count, 500), rng)
        if self.constraints is None:
            return rows
        legal = rows[self.satisfies(rows)]
        if len(legal) < RAREST * len(rows):
            return self._walk(count, rng)
        while len(legal) < count:
            more = self._draw(len(rows), rng)
            legal = np.concatenate([legal, more[self.satisfies(more)]])
        return legal[:count]

    def _draw(self, count: int, rng: np.random.Generator) -> Array:
        return np.hstack([one.sample(count, rng) for one in self.inputs])

    def _walk(self, count: int, rng: np.random.Generator) -> Array:
        rows = self._draw(count, rng)  # the categories are free
        numbers, polytope = self.polytope
        rows[:, numbers] = walk(polytope, self._starts, count, rng)
        return self.snap(rows)

    @cached_property
    def polytope(self) -> tuple[list[int], Polytope]:
        """The columns of numbers, and the set that the constraints leave among them."""
        found = self.linear()
        numbers = [columns[0] for one, columns in zip(self.inputs, self.columns, strict=True) if one.size == 1]
        steps = np.array([one.steps if isinstance(one, Stepped) else 0 for one in self.inputs if one.size == 1], float)
        if found is None:
            raise InputError("There are no constraints.")
        matrix, lower, upper = found[0][:, numbers], found[1], found[2]
        many = steps > COUNTED_LEVELS
        if matrix[np.ix_(lower == upper, many)].any():
            raise InputError(
                f"An equality on a whole number with more than {COUNTED_LEVELS:,} levels is not supported. Give it a "
                "pair of bounds and round it in the function, or relax the equality."
            )
        margin = np.abs(matrix[:, many]) @ (0.5 / steps[many])  # room for rounding to a level
        return numbers, Polytope(matrix, lower + margin, upper - margin, np.where(many, 0.0, steps))

    @cached_property
    def _starts(self) -> Array:
        polytope = self.polytope[1]
        return find_starts(polytope, find_centre(polytope))

    def legalise(self, rows: Array) -> Array:
        """Return the nearest legal rows to some others; those that still break a constraint are left out."""
        if self.constraints is not None and self.polytope[1].equal.any():
            numbers, polytope = self.polytope
            rows = self.snap(rows)  # whole numbers keep their levels while the others are pulled
            rows[:, numbers] = polytope.pull(rows[:, numbers])
        rows = self.snap(rows)
        return rows[self.satisfies(rows)]

    def is_outside(self, row: Array) -> list[str]:
        """Return the names of the inputs that lie outside their bounds."""
        cells = np.asarray(row, dtype=np.float64).ravel()
        beyond = (cells < -TOLERANCE) | (cells > 1.0 + TOLERANCE)
        return [name for name, columns in zip(self.names, self.columns, strict=True) if beyond[list(columns)].any()]

    def satisfies(self, rows: Array) -> NDArray[np.bool_]:
        """Tell which rows satisfy the constraints, within 1e-9 of the range of the inputs."""
        given = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        if self._linear is None:
            return np.ones(len(given), dtype=bool)
        matrix, lower, upper = self._linear
        found = given @ matrix.T
        return np.asarray(((found >= lower - TOLERANCE) & (found <= upper + TOLERANCE)).all(axis=1), dtype=bool)

    def allows(self, rows: Array) -> NDArray[np.bool_]:
        """Tell which rows lie within the bounds and satisfy the constraints."""
        given = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        within = ((given >= -TOLERANCE) & (given <= 1.0 + TOLERANCE)).all(axis=1)
        return np.asarray(within & self.satisfies(given), dtype=bool)

    def list_rows(self) -> Array | None:
        """Return all rows that are allowed where there are few; else None."""
        levels = [one.levels() for one in self.inputs]
        known = [each for each in levels if each is not None]
        if len(known) < len(levels) or math.prod(map(len, known)) > MOST_ROWS:
            return None
        rows = np.array([np.concatenate(cells) for cells in itertools.product(*known)])
        return np.asarray(rows[self.satisfies(rows)])

    def levels(self, i: int) -> Array | None:
        """Return all encoded values of input i where it has at most 64, as rows; else None."""
        return self.inputs[i].levels()

    def linear(self) -> tuple[Array, Array, Array] | None:
        """Return the constraints on rows: matrix, lower and upper, with lower <= matrix row <= upper.

        Each row of the matrix is divided by its largest coefficient. x = low + span u gives
        lower - a'low <= (a span)'u <= upper - a'low.
        """
        return self._linear

    @cached_property
    def _linear(self) -> tuple[Array, Array, Array] | None:
        if self.constraints is None:
            return None
        coefficients = np.array(self.constraints.matrix)
        lower, upper = np.array(self.constraints.lower), np.array(self.constraints.upper)
        matrix = np.zeros((len(coefficients), self.width))
        for i, (name, one, columns) in enumerate(zip(self.names, self.inputs, self.columns, strict=True)):
            if not coefficients[:, i].any():
                continue
            if isinstance(one, Log | Category):
                raise InputError(
                    f"A constraint on '{name}' is not supported: it is {one}. Constraints must be on numbers that are "
                    "searched as they are; set its coefficient to 0, or give it a pair of bounds."
                )
            matrix[:, columns[0]] = coefficients[:, i] * (one.high - one.low)
            lower, upper = lower - coefficients[:, i] * one.low, upper - coefficients[:, i] * one.low
        sizes = np.abs(matrix).max(axis=1)
        sizes[sizes == 0.0] = 1.0
        return matrix / sizes[:, None], lower / sizes, upper / sizes

    def to_plain(self) -> dict[str, Any]:
        """Return everything as lists, dicts and numbers that JSON can hold."""
        inputs: list[dict[str, Any]] = [
            {"kind": one.kind, "choices": list(one.choices)}
            if isinstance(one, Category)
            else {"kind": one.kind, "low": one.low, "high": one.high}
            | ({"step": one.step} if isinstance(one, Steps) else {})
            for one in self.inputs
        ]
        plain: dict[str, Any] = {"names": list(self.names), "inputs": inputs, "named": self.named, "constraints": None}
        if self.constraints is not None:
            plain["constraints"] = {
                "matrix": [list(row) for row in self.constraints.matrix],
                "lower": [low if math.isfinite(low) else None for low in self.constraints.lower],
                "upper": [high if math.isfinite(high) else None for high in self.constraints.upper],
            }
        return plain

    @staticmethod
    def from_plain(data: Any) -> Space:
        """Build the space that `to_plain` wrote."""
        try:
            names, named, given = tuple(data["names"]), data["named"], data["constraints"]
            inputs = tuple(input_from_plain(name, one) for name, one in zip(names, data["inputs"], strict=True))
            texts = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
            choices = any(isinstance(one, Category) for one in inputs)
            if not names or not isinstance(named, bool) or not texts or (choices and not named):
                raise TypeError
            constraints = None if given is None else _constraints_from_plain(given, len(names))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = error if isinstance(error, InputError) else "it is not what Mercer writes."
            raise InputError(f"The saved space cannot be read: {reason}") from None
        return Space(names, inputs, named, constraints)

    def find_difference(self, other: Space) -> str | None:
        """Return a sentence about the first thing in which another space differs from this one, or None."""
        for name, one in zip(self.names, self.inputs, strict=True):
            if name not in other.names:
                return f"'{name}' ({one}) is missing."
            theirs = other.inputs[other.names.index(name)]
            if theirs != one:
                return f"'{name}' was {one} and is now {theirs}."
        for name in other.names:
            if name not in self.names:
                return f"'{name}' is new."
        if self.names != other.names:
            return f"The order of the inputs was {quote(self.names)} and is now {quote(other.names)}."
        if self.named != other.named:
            return "Points were a dict and are now an array, or the other way round."
        return None if self.constraints == other.constraints else "The constraints are others."


def input_from_plain(name: str, plain: Any) -> Input:
    """Return the input that `to_plain` wrote, checked."""
    if plain["kind"] == Category.kind:
        return Category(tuple(plain["choices"])).check(name)
    if plain["kind"] == Steps.kind:
        return Steps(plain["low"], plain["high"], plain["step"]).check(name)
    return KINDS[plain["kind"]](plain["low"], plain["high"]).check(name)


def _constraints_from_plain(plain: Any, inputs: int) -> LinearConstraints:
    matrix = tuple(tuple(float(cell) for cell in row) for row in plain["matrix"])
    lower = tuple(-math.inf if low is None else float(low) for low in plain["lower"])
    upper = tuple(math.inf if high is None else float(high) for high in plain["upper"])
    if not len(matrix) == len(lower) == len(upper) or any(len(row) != inputs for row in matrix):
        raise ValueError
    return LinearConstraints(matrix, lower, upper)


# ----------------------------------------------------------------------------------------------------------- reading


def read_space(bounds: Any, constraints: Any = None) -> Space:
    """Read bounds (a list of pairs, or a dict of names) and scipy's LinearConstraint, one or several."""
    named = isinstance(bounds, Mapping)
    if named:
        names = tuple(bounds)
        for name in names:
            if not isinstance(name, str) or not name.strip():
                raise InputError(f"The name of an input must be a text, not {name!r}. Rename it in the bounds.")
        given = list(bounds.values())
    else:
        if isinstance(bounds, str) or not hasattr(bounds, "__len__"):
            raise InputError(f"bounds must be a list of pairs or a dict of names, not {bounds!r}.")
        given = list(bounds)
        names = tuple(f"x{i}" for i in range(len(given)))
        if given and not any(isinstance(one, tuple | list | np.ndarray | Input) for one in given):
            raise InputError(f"bounds must be a list of pairs, not {bounds!r}. For one input write [(low, high)].")
    if not given:
        raise InputError("There are no inputs: the bounds are empty. Give bounds for at least one input.")
    inputs = tuple(read_input(name, one, named) for name, one in zip(names, given, strict=True))
    space = Space(names, inputs, named, read_constraints(constraints, len(inputs)))
    _refuse_empty(space)
    return space


def read_input(name: str, given: Any, named: bool = True) -> Input:
    """Read the bounds of one input. Among named inputs a list holds categories and a tuple a range."""
    if isinstance(given, Category) or (named and isinstance(given, list)):
        if not named:
            raise InputError(f"'{name}' is a category: give the bounds as a dict, with a name for each input.")
        return (given if isinstance(given, Category) else Category(tuple(given))).check(name)
    if isinstance(given, Range | Integer | Steps | Log):
        return given.check(name)
    if not isinstance(given, tuple | list | np.ndarray) or len(given) != 2:
        raise InputError(f"The bounds of '{name}' must be a pair of numbers, not {given!r}. Give {WORDS}.")
    return Range(given[0], given[1]).check(name)


def _refuse_empty(space: Space) -> None:
    """Raise where the constraints cannot be used or no point satisfies them."""
    found = space.linear()
    if found is None:
        return
    matrix, lower, upper = found
    for row, low, high in zip(matrix, lower, upper, strict=True):
        if not row.any() and not low <= 0.0 <= high:
            raise InputError(
                f"A constraint has no coefficient and asks for {low:g} <= 0 <= {high:g}, which no point satisfies. "
                "Correct its coefficients or its bounds."
            )
    if matrix.any():
        find_centre(space.polytope[1])


def split_point(space: Space, point: Any) -> list[Any]:
    """Return the values of a point in the order of the inputs; missing and unknown inputs are errors."""
    if not space.named:
        if isinstance(point, Mapping | str):
            raise InputError(
                f"A point must be {len(space.names)} numbers, because the bounds are a list, not {point!r}."
            )
        values = list(point) if isinstance(point, list | tuple) or _has_entries(point) else [point]
        if len(values) != len(space.names):
            raise InputError(
                f"A point must have {len(space.names)} numbers, one for each input; {len(values)} were given."
            )
        return values
    if not hasattr(point, "keys"):
        raise InputError(f"A point must be a dict with {quote(space.names)}, not {point!r}.")
    keys = list(point.keys())
    for key in keys:
        if key not in space.names:
            raise InputError(
                f"There is no input {key!r}; the inputs are {quote(space.names)}.{suggest(str(key), space.names)}"
            )
    missing = [name for name in space.names if name not in keys]
    if missing:
        raise InputError(f"The point has no value for {quote(missing)}. Give a value for each input.")
    return [point[name] for name in space.names]


def read_point(space: Space, point: Any) -> tuple[Array, list[str]]:
    """Return a point as a row, and notes: a point outside the bounds or the constraints is kept and noted."""
    row = space.encode([point])[0]
    values = dict(zip(space.names, split_point(space, point), strict=True))
    notes = []
    for name in space.is_outside(row):
        bounds = space.inputs[space.names.index(name)]
        notes.append(f"'{name}' = {float(values[name]):g} lies outside its bounds, {bounds}; {TEACHES_ONLY}")
    if not space.satisfies(row)[0]:
        notes.append(f"the point does not satisfy the constraints; {TEACHES_ONLY}")
    return row, notes


def read_points(space: Space, points: Any, count: int) -> list[Any]:
    """Return as many points as there are values: of a list, a table or anything that can be gone through."""
    if _is_point(space, points):
        if count == 1:
            return [points]
        raise InputError(f"tell(x, y) was given one point and {count} values. Give one value for one point.")
    if isinstance(points, pd.DataFrame):
        points = points.to_dict("records") if space.named else points.to_numpy()
    if not isinstance(points, Iterable) or isinstance(points, str):
        raise InputError(f"tell(x, y) with {count} values needs a list of as many points, not {points!r:.80}")
    found = list(points)
    if len(found) != count:
        raise InputError(f"tell needs as many values as points: {len(found)} points and {count} values were given")
    return found


def _is_point(space: Space, given: Any) -> bool:
    """Tell one point from several; of one input, a list of numbers is one of points."""
    if space.named:
        return hasattr(given, "keys") and not isinstance(given, pd.DataFrame)
    several = isinstance(given, list | tuple | np.ndarray | pd.Series) and len(given) == len(space.names) > 1
    return several and all(_as_float(cell) is not None for cell in given)


def find_best(space: Space, rows: Array, values: Array) -> int:
    """Return the number of the row with the least value among those that are allowed; of all where none is."""
    allowed = space.allows(rows)
    return int(np.argmin(np.where(allowed, values, np.inf) if allowed.any() else values))


def is_new(old: Array, rows: Array) -> NDArray[np.bool_]:
    """Tell which rows are none of the old ones."""
    return np.array([bool((np.abs(old - row).max(axis=1) > SAME).all()) for row in rows], dtype=bool)
