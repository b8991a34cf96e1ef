"""What `benchmarks.optimise` minimises: functions whose minimum is known, and two searches for hyperparameters.

`make_function(name, run)` gives one of them; only the rotated functions differ from run to run. A point is a list with
one value for each input. A function of real inputs gets it as an array, one of mixed inputs as a dict.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray
Groups = tuple[tuple[int, ...], ...]
FIRST = 10  # random points that every method is given


# ------------------------------------------------------------------------------------------------------------ inputs


@dataclass(frozen=True)
class Real:
    """A number between two bounds."""

    low: float
    high: float

    def draw(self, share: float) -> float:
        """Return the value at a share (0 to 1) of the range."""
        return self.low + (self.high - self.low) * share

    def place(self, value: float) -> float:
        """Return where a value lies, from 0 to 1: what a model of the function sees."""
        return (value - self.low) / (self.high - self.low)

    def value(self, place: float) -> float:
        """Return the value at a place."""
        return float(min(max(self.draw(place), self.low), self.high))


@dataclass(frozen=True)
class Log(Real):
    """A number between two bounds, on a logarithmic scale."""

    def draw(self, share: float) -> float:
        return float(math.exp(math.log(self.low) + math.log(self.high / self.low) * share))

    def place(self, value: float) -> float:
        return math.log(value / self.low) / math.log(self.high / self.low)


@dataclass(frozen=True)
class Integer:
    """A whole number between two bounds, both included."""

    low: int
    high: int

    def draw(self, share: float) -> int:
        count = self.high - self.low + 1
        return self.low + min(int(share * count), count - 1)

    def place(self, value: int) -> float:
        return (value - self.low) / (self.high - self.low)

    def value(self, place: float) -> int:
        return int(min(max(round(self.low + (self.high - self.low) * place), self.low), self.high))


@dataclass(frozen=True)
class Choice:
    """One of some categories; its place is its number."""

    options: tuple[Any, ...]

    def draw(self, share: float) -> Any:
        return self.options[min(int(share * len(self.options)), len(self.options) - 1)]

    def place(self, value: Any) -> float:
        return float(self.options.index(value))

    def value(self, place: float) -> Any:
        return self.options[min(max(round(place), 0), len(self.options) - 1)]


Input = Real | Integer | Choice


@dataclass(frozen=True, eq=False)
class Function:
    """What is minimised. `groups` are the inputs that act together, where the function is a sum over them."""

    name: str
    inputs: dict[str, Input]
    compute: Callable[[Any], float]
    minimum: float | None = None
    where: tuple[float, ...] | None = None  # the minimum, where it is known
    groups: Groups | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether every input is a real number on a linear scale."""
        return all(type(each) is Real for each in self.inputs.values())

    def evaluate(self, point: list[Any]) -> float:
        """Return the value at a point."""
        given = np.array(point, dtype=float) if self.plain else dict(zip(self.inputs, point, strict=True))
        return float(self.compute(given))

    def draw(self, shares: Array) -> list[Any]:
        """Return the point at shares of the ranges."""
        return [each.draw(float(share)) for each, share in zip(self.inputs.values(), shares, strict=True)]

    def first_points(self, run: int) -> list[list[Any]]:
        """Return the random points that a run begins with: the same for every method."""
        return [self.draw(row) for row in np.random.default_rng(run).random((FIRST, len(self.inputs)))]


def make_box(low: float, high: float, count: int) -> dict[str, Input]:
    """Return the inputs x0, x1, ... with the same bounds."""
    return {f"x{number}": Real(low, high) for number in range(count)}


def split_all(count: int) -> Groups:
    """Return one group for each input."""
    return tuple((number,) for number in range(count))


# ------------------------------------------------------------------------------------------------ the paper's functions

STYBLINSKI_PLACE = -2.903534027771177
STYBLINSKI_LEAST = -39.16616570377142
MICHALEWICZ_LEAST = -9.660151715641348


def compute_styblinski(x: Array) -> float:
    return float(0.5 * np.sum(x**4 - 16.0 * x**2 + 5.0 * x))


def compute_michalewicz(x: Array, m: int = 10) -> float:
    rank = np.arange(1, len(x) + 1)
    return float(-np.sum(np.sin(x) * np.sin(rank * x**2 / np.pi) ** (2 * m)))


def make_styblinski(run: int) -> Function:
    return Function(
        "styblinski", make_box(-4.0, 4.0, 10), compute_styblinski, 10 * STYBLINSKI_LEAST, (STYBLINSKI_PLACE,) * 10,
        split_all(10),
    )  # fmt: skip


def make_michalewicz(run: int) -> Function:
    return Function(
        "michalewicz", make_box(0.0, math.pi, 10), compute_michalewicz, MICHALEWICZ_LEAST, groups=split_all(10)
    )


def draw_rotation(run: int, count: int = 10, largest: int = 3) -> tuple[Groups, Array]:
    """Draw groups of at most three inputs, and a rotation within each.

    Redrawn until the minimum Q' (-2.9, ..., -2.9) lies inside [-5, 5]^10 and no input of it within 1 of the centre.
    Its distance from the centre is always 9.2; that each input is away from it is the stricter reading.
    """
    rng = np.random.default_rng([run, 1])
    order, groups = rng.permutation(count), []
    while len(order):
        size = min(int(rng.integers(1, largest + 1)), len(order))
        groups.append(tuple(sorted(int(each) for each in order[:size])))
        order = order[size:]
    rotation = np.zeros((count, count))
    for group in groups:
        while True:
            block, _ = np.linalg.qr(rng.standard_normal((len(group), len(group))))
            place = np.abs(block.T @ np.full(len(group), STYBLINSKI_PLACE))
            if np.all((place >= 1.0) & (place < 5.0)):
                break
        rotation[np.ix_(group, group)] = block
    return tuple(sorted(groups)), rotation


def make_rotated(run: int) -> Function:
    groups, rotation = draw_rotation(run)
    where = rotation.T @ np.full(10, STYBLINSKI_PLACE)
    return Function(
        "rotated", make_box(-5.0, 5.0, 10), lambda x: compute_styblinski(rotation @ x), 10 * STYBLINSKI_LEAST,
        tuple(where.tolist()), groups,
    )  # fmt: skip


def make_rotated_centred(run: int) -> Function:
    """The authors' box: 3 to each side of the minimum, which is its centre."""
    groups, rotation = draw_rotation(run)
    where = rotation.T @ np.full(10, STYBLINSKI_PLACE)
    inputs: dict[str, Input] = {f"x{i}": Real(float(v) - 3.0, float(v) + 3.0) for i, v in enumerate(where)}
    return Function(
        "rotated-centred", inputs, lambda x: compute_styblinski(rotation @ x), 10 * STYBLINSKI_LEAST,
        tuple(where.tolist()), groups,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------- standard functions

HARTMANN_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_STEEP = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN_CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
MATTER = (2, 7, 11, 16)  # of the twenty inputs


def compute_hartmann(x: Array) -> float:
    """Hartmann's function of the first of its six inputs, as many as x has."""
    count = len(x)
    inside = np.sum(HARTMANN_STEEP[:, :count] * (x - HARTMANN_CENTRES[:, :count]) ** 2, axis=1)
    return float(-HARTMANN_WEIGHTS @ np.exp(-inside))


def compute_ackley(x: Array) -> float:
    waves = np.mean(np.cos(2.0 * np.pi * x))
    return float(-20.0 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(waves) + 20.0 + math.e)


def compute_levy(x: Array) -> float:
    w = 1.0 + (x - 1.0) / 4.0
    middle = np.sum((w[:-1] - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * w[:-1] + 1.0) ** 2))
    last = (w[-1] - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * w[-1]) ** 2)
    return float(np.sin(np.pi * w[0]) ** 2 + middle + last)


def compute_rosenbrock(x: Array) -> float:
    return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))


def compute_branin(x: Array) -> float:
    bend = x[1] - 5.1 / (4.0 * np.pi**2) * x[0] ** 2 + 5.0 / np.pi * x[0] - 6.0
    return float(bend**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x[0]) + 10.0)


def make_hartmann(run: int) -> Function:
    where = (0.20168951, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053)
    return Function("hartmann6", make_box(0.0, 1.0, 6), compute_hartmann, -3.322368011415515, where)


def make_ackley(run: int) -> Function:
    """Not the usual box, whose centre is the minimum: this one has it at two thirds."""
    return Function("ackley10", make_box(-32.768, 16.384, 10), compute_ackley, 0.0, (0.0,) * 10)


def make_levy(run: int) -> Function:
    """A sum over single inputs, too, though seldom called so."""
    return Function("levy10", make_box(-10.0, 10.0, 10), compute_levy, 0.0, (1.0,) * 10, split_all(10))


def make_rosenbrock(run: int) -> Function:
    return Function("rosenbrock8", make_box(-2.048, 2.048, 8), compute_rosenbrock, 0.0, (1.0,) * 8)


def make_branin(run: int) -> Function:
    inputs: dict[str, Input] = {"x0": Real(-5.0, 10.0), "x1": Real(0.0, 15.0)}
    return Function("branin", inputs, compute_branin, 0.39788735772973816, (math.pi, 2.275))


def make_sparse(run: int) -> Function:
    """Hartmann's function of four inputs among twenty; the other sixteen do nothing."""
    where = np.full(20, 0.5)
    where[list(MATTER)] = (0.18739527, 0.19415153, 0.55791778, 0.26477962)
    return Function(
        "sparse20", make_box(0.0, 1.0, 20), lambda x: compute_hartmann(x[list(MATTER)]), -3.729840584485593,
        tuple(where.tolist()),
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------- hyperparameters


@cache
def load_table(name: str) -> tuple[Array, Array]:
    """Return inputs and target of a table that comes with scikit-learn."""
    from sklearn import datasets

    table = getattr(datasets, f"load_{name}")()
    return table.data, table.target


def compute_boosting(chosen: dict[str, Any]) -> float:
    """Error of gradient boosting on the diabetes table: root mean square, three folds."""
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_score

    model = GradientBoostingRegressor(**chosen, random_state=0)
    folds = KFold(3, shuffle=True, random_state=0)
    return -float(
        cross_val_score(model, *load_table("diabetes"), cv=folds, scoring="neg_root_mean_squared_error").mean()
    )


def compute_svc(chosen: dict[str, Any]) -> float:
    """Share of handwritten digits that a support vector machine gets wrong: three folds."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    model = make_pipeline(StandardScaler(), SVC(**chosen))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    return 1.0 - float(cross_val_score(model, *load_table("digits"), cv=folds).mean())


def make_boosting(run: int) -> Function:
    inputs: dict[str, Input] = {
        "learning_rate": Log(0.003, 0.5), "n_estimators": Integer(10, 150), "max_depth": Integer(1, 8),
        "min_samples_leaf": Integer(1, 40), "subsample": Real(0.3, 1.0),
        "loss": Choice(("squared_error", "absolute_error", "huber")),
    }  # fmt: skip
    return Function("boosting", inputs, compute_boosting)


def make_svc(run: int) -> Function:
    inputs: dict[str, Input] = {
        "C": Log(1e-3, 1e3), "gamma": Log(1e-5, 1.0), "kernel": Choice(("linear", "rbf", "sigmoid"))
    }  # fmt: skip
    return Function("svc", inputs, compute_svc)


FUNCTIONS: dict[str, Callable[[int], Function]] = {
    "styblinski": make_styblinski, "michalewicz": make_michalewicz, "rotated": make_rotated,
    "rotated-centred": make_rotated_centred, "hartmann6": make_hartmann, "ackley10": make_ackley, "levy10": make_levy,
    "rosenbrock8": make_rosenbrock, "branin": make_branin, "sparse20": make_sparse, "boosting": make_boosting,
    "svc": make_svc,
}  # fmt: skip
PAPER = ("styblinski", "michalewicz", "rotated", "rotated-centred")
OTHERS = tuple(name for name in FUNCTIONS if name not in PAPER)


def make_function(name: str, run: int) -> Function:
    """Return a function as a run sees it."""
    return FUNCTIONS[name](run)
