"""Support vector machines, and the scores of kernels for them by cross-validation on the training rows.

A kernel is scored by the error of rows left out and, as errors come in whole rows and ties are many, by half their log
loss: the margins of the rows left out, turned into probabilities by one temperature (softmax).

Many kernels are compared with least-squares SVMs (Suykens and Vandewalle 1999): one eigendecomposition of a fold's Gram
matrix gives the margins for every cost. The last few, and the cost, are scored with the SVM that is then used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from mercer.errors import InputError
from mercer.kernels.domains import Array

Labels = NDArray[np.intp]
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
Spectrum = Literal["clip", "flip", "shift"]  # what becomes of eigenvalues of a Gram matrix that are below zero
Blocks = Callable[[int], tuple[Array, Array]]  # number of a fold -> k(train, train), k(left out, train)

COSTS = (0.1, 1.0, 10.0, 100.0, 1000.0)
PAPER_COSTS = tuple(10.0**power for power in range(-3, 4))  # KFO 5.2: "in the exponent space of [-3, 3]"
FINE_COSTS = tuple(float(c) for c in np.geomspace(0.1, 1e4, 11))
TEMPERATURES = np.geomspace(0.1, 30.0, 12)
SHARE_OF_LOSS = 0.5
LARGE_CACHE = 500  # MB that libsvm may keep rows of the Gram matrix in
MOST_STEPS = 10_000_000  # of libsvm, as in its own programs: on some Gram matrices it would not end


@dataclass(frozen=True)
class ClassScore:
    """The cross-validated error and log loss of a kernel at its best cost, and the score to maximise."""

    cost: float
    error: float
    loss: float

    @property
    def score(self) -> float:
        """Larger is better."""
        return -(self.error + SHARE_OF_LOSS * self.loss)


def train_machine(
    gram: Array, labels: Labels, cost: float, nu: float | None = None, most_steps: int = MOST_STEPS
) -> Any:
    """Return an SVM fitted to a Gram matrix: C-SVM, or nu-SVM where `nu` is given.

    Stopped before its end (`note_unsettled`) it is what the last step left: often a poor one, which ranks low.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC, NuSVC

    common: dict[str, Any] = {"kernel": "precomputed", "cache_size": LARGE_CACHE, "break_ties": True}
    machine = SVC(C=cost, max_iter=most_steps, **common) if nu is None else NuSVC(nu=nu, max_iter=most_steps, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(gram, labels)


def note_unsettled(machine: Any, cost: float | None) -> tuple[str, ...]:
    """Say where an SVM was stopped before its end; a cost of None: a nu-SVM, which has none."""
    if np.max(machine.n_iter_) < machine.max_iter:
        return ()
    advice = "give another nu" if cost is None else f"give a smaller cost, such as C={cost / 100:g}"
    return (f"the SVM was stopped after {machine.max_iter:,} steps, unfinished, and may predict poorly: {advice}",)


def make_folds(labels: Labels, seed: int, repeats: int = 1, most: int = 5) -> list[Fold]:
    """Return folds with the classes in proportion; a class with few members makes them fewer."""
    from sklearn.model_selection import KFold, StratifiedKFold

    smallest = int(np.bincount(labels).min())
    count = max(2, min(most, smallest)) if smallest > 1 else most
    kind = StratifiedKFold if smallest > 1 else KFold
    folds: list[Fold] = []
    for repeat in range(repeats):
        split = kind(min(count, len(labels)), shuffle=True, random_state=seed + repeat).split(labels, labels)
        folds += [(a, b) for a, b in split if len(np.unique(labels[a])) > 1]
    return folds


def compute_margins(model: Any, gram: Array, classes: int) -> Array:
    """Return one column of margins for each class; with two classes the first is zero, and classes not seen minus."""
    margin = model.decision_function(gram)
    result = np.full((len(gram), classes), -1e3)
    seen = model.classes_
    if margin.ndim == 1:
        result[:, seen[0]], result[:, seen[1]] = 0.0, margin
    else:
        result[:, seen] = margin
    return result


def log_loss(margins: Array, labels: Labels) -> float:
    """Return the mean log loss of margins, at the temperature that makes it smallest."""
    scaled = margins / (float(np.abs(margins[margins > -1e3]).mean()) or 1.0)
    return min(_loss_at(temperature, scaled, labels) for temperature in TEMPERATURES)


def _loss_at(factor: float, margins: Array, labels: Labels) -> float:
    below = margins - margins.max(axis=1, keepdims=True)
    behind = below[np.arange(len(labels)), labels]
    return float((np.log(np.exp(factor * below).sum(axis=1)) - factor * behind).mean())


def fit_sharpness(margins: Array, labels: Labels) -> float:
    """Return the factor of margins at which their softmax has the smallest log loss."""
    from scipy.optimize import minimize_scalar

    usual = np.maximum(margins, -10.0)
    best = minimize_scalar(lambda log: _loss_at(np.exp(log), usual, labels), bounds=(-5.0, 5.0), method="bounded")
    return float(np.exp(best.x))


def cross_validate(
    blocks: Blocks, labels: Labels, folds: Sequence[Fold],
    costs: Sequence[float] = COSTS, nu: bool = False,
) -> ClassScore:  # fmt: skip
    """Return the score of the best cost (or nu); `blocks(fold)` gives k(train, train) and k(left out, train)."""
    classes = int(labels.max()) + 1
    margins: list[list[Array]] = [[] for _ in costs]
    for number, (train, _) in enumerate(folds):
        within, across = blocks(number)
        for place, cost in enumerate(costs):
            try:
                fitted = train_machine(within, labels[train], *((1.0, cost) if nu else (cost,)))
                margins[place].append(compute_margins(fitted, across, classes))
            except ValueError:  # this nu is not feasible for these classes
                margins[place].append(np.zeros((len(across), classes)))
    return _best_cost(margins, labels, folds, costs)


def cross_validate_quickly(
    blocks: Blocks, labels: Labels, folds: Sequence[Fold],
    costs: Sequence[float] = FINE_COSTS, spectrum: Spectrum = "clip",
) -> ClassScore:  # fmt: skip
    """Return the score of the best cost for least-squares SVMs; a spectrum below zero is repaired.

    Margins K* a + b with (K + I / cost) a = y - b, y one column of +1 and -1 for each class, b such that 1'a = 0.
    """
    classes = int(labels.max()) + 1
    signs = 2.0 * np.eye(classes)[labels] - 1.0
    margins: list[list[Array]] = [[] for _ in costs]
    for number, (train, _) in enumerate(folds):
        within, across = blocks(number)
        values, vectors = eigh(within, driver="evd", check_finite=False)
        factors, repaired = _repair_values(values, spectrum)
        turned = vectors.T @ np.column_stack([signs[train], np.ones(len(train))])
        onto = across @ (vectors * factors)
        for place, cost in enumerate(costs):
            solved = turned / (repaired + 1.0 / cost)[:, None]  # V' A^-1 [y, 1]
            level = (turned[:, -1] @ solved[:, :-1]) / (turned[:, -1] @ solved[:, -1])
            margins[place].append(onto @ (solved[:, :-1] - np.outer(solved[:, -1], level)) + level)
    return _best_cost(margins, labels, folds, costs)


def _best_cost(
    margins: Sequence[Sequence[Array]], labels: Labels, folds: Sequence[Fold], costs: Sequence[float]
) -> ClassScore:
    """Return the best score over the costs, from the margins of the rows left out of every fold."""
    truth = np.concatenate([labels[out] for _, out in folds])
    scores = []
    for cost, of_folds in zip(costs, margins, strict=True):
        found = np.concatenate(of_folds)
        scores.append(ClassScore(float(cost), float((found.argmax(axis=1) != truth).mean()), log_loss(found, truth)))
    return max(scores, key=lambda score: score.score)


def split_gram(gram: Array, folds: Sequence[Fold]) -> Blocks:
    """Return the blocks of one Gram matrix."""

    def blocks(number: int) -> tuple[Array, Array]:
        train, out = folds[number]
        return gram[np.ix_(train, train)], gram[np.ix_(out, train)]

    return blocks


def repair_spectrum(gram: Array, spectrum: Spectrum = "clip") -> tuple[Array, Array | None]:
    """Return a positive semi-definite matrix in place of a symmetric one, and the map P that made it so.

    C = Z D Z'. clip: P = Z [D >= 0] Z' (KFO 3.2). flip: P = Z sign(D) Z', so that |D| is left. P C is the matrix, and
    rows not seen are carried along: k(new, train) P. shift: C - min(D) I, which changes what a row has in common with
    itself alone, so that P is None and rows not seen stay as they are (Chen et al. 2009, 2.2).
    """
    values, vectors = eigh(gram, driver="evd", check_finite=False)
    factors, repaired = _repair_values(values, spectrum)
    if spectrum == "shift":
        return gram + (repaired[0] - values[0]) * np.eye(len(gram)), None
    return np.asarray((vectors * repaired) @ vectors.T), np.asarray((vectors * factors) @ vectors.T)


def _repair_values(values: Array, spectrum: Spectrum) -> tuple[Array, Array]:
    """Return the eigenvalues of P and of the repaired matrix, from those of a matrix in rising order."""
    if spectrum == "shift":
        return np.ones(len(values)), values - min(float(values[0]), 0.0)
    factors = np.where(values >= 0.0, 1.0, 0.0 if spectrum == "clip" else -1.0)
    return factors, factors * values


def refuse_few_members(labels: Labels, folds: int) -> None:
    """Refuse folds that are more than a class has members."""
    fewest = int(np.bincount(labels).min())
    if fewest >= folds:
        return
    fits, change, then = f": at most {fewest} folds fit", f"folds={fewest}", ""
    if fewest == 1:
        fits, change = ", which cannot be left out and learned from at once", "fewer_folds=True"
        then = "; that class is then not checked on rows left out"
    raise InputError(
        f"{folds} folds need {folds} rows of every class, and one class has {fewest}{fits}. Give more rows of that "
        f"class; or give class_policy=replace(policy, {change}), with dataclasses.replace, which keeps all else of the "
        f"policy: your ClassPolicy, or KernelFunctional.paper(classes=True).class_policy{then}"
    )
