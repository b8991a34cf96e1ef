"""Change surfaces at points: s_i(x) for all regimes, and the gradient of something by its parameters (METHODS 9).

A surface is a function of one point, not of a pair: it costs N evaluations for N^2 pairs, so it is worked out here, in
NumPy, before a sweep, and the sweep only multiplies s_i(x) k_i(x, x') s_i(x'). The formulas are in kernels/blend.py.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import expit, softmax

from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array

TWO_PI = 2.0 * np.pi
RIDGE = 1e-3


def values_in(surface: Surface) -> Array:
    """Return the values of a bound surface that has them all, one parameter after the other."""
    return np.concatenate([np.array(parameter.values, dtype=np.float64) for parameter in surface.parameters])


def shares(surface: Surface, values: Array, X: Array) -> Array:
    """Return s_i(x), (regimes, rows); `values` are those of the surface alone, X whole rows."""
    parts, x = _read(surface, values, X)
    if surface.kind == "CP":
        return _broken(expit(_steps(parts, x)))
    if surface.kind == "CW":
        begun, lasting = _window(parts, x)
        inside = expit(begun) * expit(lasting)
        return np.stack([1.0 - inside, inside])
    return np.asarray(softmax(np.vstack([np.zeros(len(X)), _functions(surface, parts, x)]), axis=0))


def pull_back(surface: Surface, values: Array, X: Array, by_shares: Array) -> Array:
    """Turn the gradient of something by s_i(x), (regimes, rows), into that by the surface's values."""
    parts, x = _read(surface, values, X)
    if surface.kind == "CP":
        return _change_points_back(parts, x, by_shares)
    if surface.kind == "CW":
        return _window_back(parts, x, by_shares[1] - by_shares[0])
    s = shares(surface, values, X)
    by_functions = (s * (by_shares - (s * by_shares).sum(axis=0)))[1:]
    return _functions_back(surface, parts, x, by_functions)


def nearest_weights(surface: Surface, values: Array, X: Array, wanted: Array) -> Array:
    """Return values with the weights of the features (rks, gp) for which the functions are nearest to those wanted.

    wanted : w_2 ... w_r at the rows, (regimes - 1, rows); a little ridge keeps the weights small.
    """
    features = _features(surface, *_read(surface, values, X))
    result = values.copy()  # the weights come first
    for number, function in enumerate(wanted):
        own = slice(number * surface.features, (number + 1) * surface.features)
        square = features[own] @ features[own].T + RIDGE * len(X) * np.eye(surface.features)
        result[own] = np.linalg.solve(square, features[own] @ function)
    return result


def _read(surface: Surface, values: Array, X: Array) -> tuple[dict[str, Array], Array]:
    """Return the values of each parameter, and the columns of the surface."""
    names, ends, columns = _lay_out(surface)
    return dict(zip(names, np.split(values, ends), strict=True)), np.asarray(X[:, columns], dtype=np.float64)


@lru_cache(maxsize=256)
def _lay_out(surface: Surface) -> tuple[list[str], list[int], list[int]]:
    """Return the names of the parameters, where the values of all but the last end, and the columns.

    Every sweep asks for it.
    """
    names = [parameter.name for parameter in surface.parameters]
    return names, np.cumsum(surface.sizes)[:-1].tolist(), list(surface.columns)


# ------------------------------------------------------------------------------------- change points and windows


def _steps(parts: dict[str, Array], x: Array) -> Array:
    """(x - location) / width, (change points, rows)."""
    return (x[:, 0] - parts["location"][:, None]) / parts["width"][:, None]


def _broken(passed: Array) -> Array:
    """Regime i: the change points before it are passed, its own is not."""
    ones = np.ones((1, passed.shape[1]))
    return np.asarray(np.vstack([ones, np.cumprod(passed, axis=0)]) * np.vstack([1.0 - passed, ones]))


def _change_points_back(parts: dict[str, Array], x: Array, by_shares: Array) -> Array:
    """With t the step and S = S(t): d log s_i / dt_k = 1 - S_k for i > k and -S_k for i = k."""
    t = _steps(parts, x)
    passed = expit(t)
    weighed = by_shares * _broken(passed)
    later = np.cumsum(weighed[::-1], axis=0)[::-1][1:]  # of the regimes after each change point
    by_step = (later * expit(-t) - weighed[:-1] * passed) / parts["width"][:, None]
    return np.concatenate([-by_step.sum(axis=1), -(by_step * t).sum(axis=1)])


def _window(parts: dict[str, Array], x: Array) -> tuple[Array, Array]:
    end = parts["start"] + parts["duration"]
    return (x[:, 0] - parts["start"]) / parts["width"], (end - x[:, 0]) / parts["width"]


def _window_back(parts: dict[str, Array], x: Array, by_inside: Array) -> Array:
    begun, lasting = _window(parts, x)
    inside = expit(begun) * expit(lasting) * by_inside
    by_begun, by_lasting = inside * expit(-begun), inside * expit(-lasting)
    width = parts["width"][0]
    by_start = (by_lasting - by_begun).sum() / width
    by_width = -(by_begun * begun + by_lasting * lasting).sum() / width
    return np.array([by_start, by_lasting.sum() / width, by_width])


# ----------------------------------------------------------------------- softmax of functions: linear, rks, gp


def _functions(surface: Surface, parts: dict[str, Array], x: Array) -> Array:
    """w_2 ... w_r at the rows; that of the first regime is zero."""
    if surface.kind == "linear":
        return np.asarray(parts["slope"].reshape(-1, x.shape[1]) @ x.T + parts["bias"][:, None])
    weights = parts["amplitude" if surface.kind == "rks" else "weights"]
    features = _features(surface, parts, x)
    waves = (weights[:, None] * features).reshape(surface.regimes - 1, surface.features, -1)
    return np.asarray(waves.sum(axis=1))


def _features(surface: Surface, parts: dict[str, Array], x: Array) -> Array:
    """Waves or bumps, (features of all functions, rows)."""
    if surface.kind == "rks":
        return np.cos(_angles(parts, x))
    return np.asarray(np.exp(-0.5 * ((_from_centres(parts, x) / parts["lengthscale"]) ** 2).sum(axis=2)))


def _angles(parts: dict[str, Array], x: Array) -> Array:
    """Of the waves, (features, rows)."""
    return np.asarray(TWO_PI * parts["frequency"].reshape(-1, x.shape[1]) @ x.T + parts["phase"][:, None])


def _from_centres(parts: dict[str, Array], x: Array) -> Array:
    """x - z, (features, rows, columns)."""
    return np.asarray(x[None, :, :] - parts["centres"].reshape(-1, x.shape[1])[:, None, :])


def _functions_back(surface: Surface, parts: dict[str, Array], x: Array, by_functions: Array) -> Array:
    if surface.kind == "linear":
        return np.concatenate([(by_functions @ x).ravel(), by_functions.sum(axis=1)])
    each = np.repeat(by_functions, surface.features, axis=0)
    if surface.kind == "rks":
        angle = _angles(parts, x)
        by_angle = -each * parts["amplitude"][:, None] * np.sin(angle)
        by_frequency = TWO_PI * by_angle @ x
        return np.concatenate([(each * np.cos(angle)).sum(axis=1), by_frequency.ravel(), by_angle.sum(axis=1)])
    bumps = _features(surface, parts, x)
    weighed = (each * parts["weights"][:, None] * bumps)[:, :, None]
    away, length = _from_centres(parts, x), parts["lengthscale"]
    by_centres = (weighed * away).sum(axis=1) / length**2
    by_length = (weighed * away**2).sum(axis=(0, 1)) / length**3
    return np.concatenate([(each * bumps).sum(axis=1), by_centres.ravel(), by_length])
