"""Functions that are known, for the neural kernel network: Figure 1 of the paper, and kernel recovery (I.4).

Rows are drawn with a seed, without noise. Nothing here is fitted to a result: the criteria were written down first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import mercer

Array = np.ndarray[Any, Any]

DIMENSIONS = 10
GROUPS = (tuple(range(5)), tuple(range(5, 10)))
TOP = 20


def figure_function(X: Array) -> Array:
    """(cos 2 x1 + cos 2 x2) sqrt|x1 x2|: the paper leaves out the bars, without which half the square has no value."""
    return (np.cos(2 * X[:, 0]) + np.cos(2 * X[:, 1])) * np.sqrt(np.abs(X[:, 0] * X[:, 1]))


def figure_data(seed: int, rows: int = 100) -> tuple[Array, Array]:
    """Rows in [-6, 6]^2, uniform at random."""
    X = np.random.default_rng(seed).uniform(-6, 6, (rows, 2))
    return X, figure_function(X)


def figure_square(side: int = 101) -> tuple[Array, Array]:
    """Return the square as an even grid."""
    line = np.linspace(-6, 6, side)
    X = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    return X, figure_function(X)


def styblinski_tang(X: Array) -> Array:
    return 0.5 * np.sum(X**4 - 16 * X**2 + 5 * X, axis=1)


def additive_data(seed: int, rows: int = 100) -> tuple[Array, Array]:
    """Styblinski-Tang in ten dimensions: a sum over the columns, on [-4, 4]^10."""
    X = np.random.default_rng(seed).uniform(-4, 4, (rows, DIMENSIONS))
    return X, styblinski_tang(X)


def michalewicz_data(seed: int, rows: int = 500, steepness: int = 10) -> tuple[Array, Array]:
    """Michalewicz in ten dimensions: a sum over the columns with steep valleys, on [0, pi]^10."""
    X = np.random.default_rng(seed).uniform(0, np.pi, (rows, DIMENSIONS))
    valleys = np.sin(np.arange(1, DIMENSIONS + 1) * X**2 / np.pi) ** (2 * steepness)
    return X, -np.sum(np.sin(X) * valleys, axis=1)


def grouped_data(seed: int, rows: int = 200) -> tuple[Array, Array]:
    """Styblinski-Tang of Qx, Q orthonormal in each of two blocks of five columns: a sum over the two groups.

    On the cube of half-width 3 around the minimum, as in the authors' code.
    """
    rng = np.random.default_rng(seed)
    Q = np.zeros((DIMENSIONS, DIMENSIONS))
    for group in GROUPS:
        Q[np.ix_(group, group)] = np.linalg.qr(rng.standard_normal((len(group), len(group))))[0]
    middle = Q.T @ np.full(DIMENSIONS, -2.903534)
    X = middle + rng.uniform(-3, 3, (rows, DIMENSIONS))
    return X, styblinski_tang(X @ Q.T)


def column_network(**settings: Any) -> Any:
    """Return the learner of I.4: one SE for each column, and the paper's layers."""
    primitives = " + ".join(f"SE({column})" for column in range(DIMENSIONS))
    return mercer.NeuralKernelNetwork(primitives=primitives, **settings)


def additive_verdict(terms: Sequence[Any]) -> dict[str, Any]:
    """Are the ten largest terms that are not constant the ten single primitives?"""
    largest = [term for term in terms if any(term.powers)][:DIMENSIONS]
    single = [term for term in largest if sum(term.powers) == 1]
    return {"single": len(single), "recovered": len(single) == DIMENSIONS}


def grouped_verdict(terms: Sequence[Any]) -> dict[str, Any]:
    """Do the 20 largest terms stay within one group? Recovered: at least 18 do, and some join columns in each group."""
    columns = [{i for i, power in enumerate(term.powers) if power} for term in terms if any(term.powers)][:TOP]
    within = [used for used in columns if any(used <= set(group) for group in GROUPS)]
    joining = [used for used in columns if len(used) > 1]
    both = all(any(len(used) > 1 and used <= set(group) for used in within) for group in GROUPS)
    return {
        "within": len(within),
        "joining": len(joining),
        "joining_within": len([used for used in joining if used in within]),
        "recovered": len(within) >= 18 and both,
    }


def joining_verdict(parts: Sequence[Any]) -> dict[str, Any]:
    """Of the ten sets of several columns that vary most together, how many lie within one group? By chance 4.4."""
    shares: dict[tuple[int, ...], float] = {}
    for part in parts:
        used = tuple(i for i, power in enumerate(part.powers) if power)
        if len(used) > 1:
            shares[used] = shares.get(used, 0.0) + part.share
    largest = sorted(shares, key=lambda used: -shares[used])[:10]
    return {"sets": len(largest), "sets_within": sum(any(set(s) <= set(group) for group in GROUPS) for s in largest)}


def interaction(model: Any, X: Array, seed: int = 0) -> float:
    """Return how much of the predicted variation is not a sum over the two groups: 0 for the true function, at most 1.

    With rows i and j and their columns a and b: f(ai, bi) - f(ai, bj) - f(aj, bi) + f(aj, bj) is 0 for a sum.
    """
    other = X[np.random.default_rng(seed).permutation(len(X))]
    first, second = X.copy(), X.copy()
    first[:, list(GROUPS[1])] = other[:, list(GROUPS[1])]
    second[:, list(GROUPS[0])] = other[:, list(GROUPS[0])]
    values = [model.predict(rows) for rows in (X, first, second, other)]
    crossed = values[0] - values[1] - values[2] + values[3]
    return float(np.mean(crossed**2) / (4 * np.var(np.concatenate(values))))
