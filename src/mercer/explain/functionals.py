"""Functionals in a kernel: K against distance, the SE and the Matern 3/2 nearest to it, and its spectrum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from scipy.optimize import minimize_scalar

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.explain.claims import Claim, round_all
from mercer.explain.wording import Column, Vocabulary, number
from mercer.explain.words import Narrator, words_for
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Parameter, find_all
from mercer.kernels.functional import Functional
from mercer.kernels.parameters import values_of

MOST = 6  # that are explained
DIGITS = 5
PLACES = 121
FAR = 12.0  # lengthscales: how far a kernel of several columns is looked at
FADED = 0.01  # a curve ends where less of the variance than this is left
WAVES = 97
FAMILIES = {"SE": "SE", "M32": "Matern 3/2"}  # that a functional is compared with


@dataclass(frozen=True)
class FunctionalExplanation:
    """One functional: correlations (K over its variance) at distances, and how much of its variance each wave has."""

    kernel: str
    unit: str  # of distances: that of the column, or lengthscales where there are several columns
    distances: tuple[float, ...]
    values: tuple[float, ...]
    nearest_se: tuple[float, ...]
    nearest_matern: tuple[float, ...]
    frequencies: tuple[float, ...]
    spectrum: tuple[float, ...]
    sentence: str


@dataclass(frozen=True)
class Nearest:
    """The kernel of a family that is nearest to a curve, and by how much it is off at most."""

    name: str
    lengthscale: float
    off: float


@dataclass(frozen=True)
class Shape:
    """What a functional is like: does it repeat, where has it fallen to one half, which kernels are near?"""

    repeats: bool
    half: float | None
    nearest: tuple[Nearest, ...]


def explain_functionals(
    kernel: Expression, columns: Sequence[Column], names: Sequence[str] | None, narrator: Narrator
) -> tuple[FunctionalExplanation, ...]:
    """Explain the functionals of a kernel in the user's units; a product over columns has one for each, all alike."""
    return tuple(
        _explain_functional(each, columns, names, narrator) for each in islice(find_all(kernel, Functional), MOST)
    )


def _explain_functional(
    functional: Functional, columns: Sequence[Column], names: Sequence[str] | None, narrator: Narrator
) -> FunctionalExplanation:
    used = sorted({d for leaf in functional.leaves() for d in leaf.columns})
    if len(used) == 1:
        column = columns[used[0]]
        unit = f"distance in {column.name}" + (f", {column.unit}" if column.unit else "")
        reach = column.span or 1.0
    else:
        unit, reach = "distance in lengthscales", FAR
    along = _on_one_column(functional, single=len(used) == 1)
    repeats = any(leaf.spec.words.role == "wave" for leaf in functional.leaves())
    end = reach
    if not repeats:  # a little beyond where it has faded
        coarse = np.linspace(0.0, reach, 400)
        alive = np.flatnonzero(np.abs(correlations(along, coarse)) > FADED)
        end = float(coarse[min(len(coarse) - 1, int(alive[-1]) + 1)]) if len(alive) else reach
    at = np.linspace(0.0, end, PLACES)
    values = correlations(along, at)
    half, below = None, np.flatnonzero(values < 0.5)
    if len(below):  # where it passes one half, on the straight line between two places
        around = [int(below[0]), int(below[0]) - 1]
        half = float(np.interp(0.5, values[around], at[around]))
    near = {symbol: find_nearest(symbol, at, values) for symbol in FAMILIES}
    distances = [
        (FAMILIES[symbol], length, float(np.abs(curve - values).max())) for symbol, (length, curve) in near.items()
    ]
    shape = Shape(repeats, half, tuple(Nearest(*each) for each in distances))
    frequencies, spectrum = spectrum_of(along, end * (1.0 if repeats else 2.0))
    text = functional.text(4, names)
    return FunctionalExplanation(
        kernel=text,
        unit=unit,
        distances=round_all(at, DIGITS),
        values=round_all(values, DIGITS),
        nearest_se=round_all(near["SE"][1], DIGITS),
        nearest_matern=round_all(near["M32"][1], DIGITS),
        frequencies=round_all(frequencies, DIGITS),
        spectrum=round_all(spectrum, DIGITS),
        sentence=narrator.say(Claim("shape of a functional", text, shape, unit)),
    )


def _on_one_column(functional: Functional, single: bool) -> Functional:
    """Return the functional of one column of distances; of several columns in units of their lengthscales."""

    def move(leaf: Base) -> Expression:
        parameters = []
        for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
            values = parameter.values or ()
            if spec.name == "variance":
                parameter = Parameter("variance", (1.0,))
            elif not single and spec.unit == "length":
                parameter = replace(parameter, values=(1.0,))
            elif "dimension" in spec.shape:
                parameter = replace(parameter, values=values[:1])
            parameters.append(parameter)
        return replace(leaf, dims=(0,), parameters=tuple(parameters), isotropic=False, ratios=())

    changed = functional.map_leaves(move)
    assert isinstance(changed, Functional)
    return changed


def correlations(functional: Functional, at: Array) -> Array:
    """Return K at distances, one at distance zero."""
    program, values = compile_program(functional), values_of(functional)
    found = fused.cross(program, values, np.asarray(at, dtype=np.float64)[:, None], np.zeros((1, 1)))[:, 0]
    start = float(fused.diagonal(program, values, np.zeros((1, 1)))[0])
    return np.asarray(found / start)


def find_nearest(symbol: str, at: Array, values: Array) -> tuple[float, Array]:
    """Return the lengthscale of the SE or Matern 3/2 kernel nearest to a curve, and its values there."""

    def curve(log_length: float) -> Array:
        r = at / math.exp(log_length)
        if symbol == "SE":
            return np.asarray(np.exp(-0.5 * r**2))
        return np.asarray((1.0 + math.sqrt(3.0) * r) * np.exp(-math.sqrt(3.0) * r))

    def off(log_length: float) -> float:
        return float(((curve(log_length) - values) ** 2).sum())

    coarse = np.linspace(math.log(at[1] / 3.0), math.log(20.0 * at[-1]), 60)
    place = int(np.argmin([off(log_length) for log_length in coarse]))
    between = (coarse[max(0, place - 1)], coarse[min(len(coarse) - 1, place + 1)])
    found = float(minimize_scalar(off, bounds=between, method="bounded", options={"xatol": 1e-6}).x)
    return math.exp(found), curve(found)


def spectrum_of(functional: Functional, reach: float) -> tuple[Array, Array]:
    """Return frequencies and the spectral density there (largest: one), by a cosine transform that fades out gently."""
    at = np.linspace(0.0, reach, 2001)
    window = 0.5 * (1.0 + np.cos(np.pi * at / reach))
    curve = correlations(functional, at)
    step = at[1]
    repeats = any(leaf.spec.words.role == "wave" for leaf in functional.leaves())
    if repeats:
        curve = curve - float(curve.mean())  # the mean is the level, and would hide everything else
    highest = (20.0 if repeats else 12.0) / reach
    frequencies = np.linspace(0.0, highest, WAVES)
    density = np.array([(curve * window * np.cos(2.0 * np.pi * f * at)).sum() * step for f in frequencies])
    density = np.maximum(density, 0.0)
    return frequencies, density / (float(density.max()) or 1.0)


# --------------------------------------------------------------------------------------------------------------- words


@words_for("shape of a functional")
def _say_shape_of_a_functional(claim: Claim, _: Vocabulary) -> str:
    found = claim.value
    if found.repeats:
        return "The kernel has no formula: it is a learned function that repeats, which no SE or Matern kernel does."
    half = "" if found.half is None else f"It falls to one half at {number(found.half)} ({claim.unit}). "
    nearest = ", ".join(
        f"{near.name} with lengthscale {number(near.lengthscale)} is off by at most {near.off:.2f}"
        for near in found.nearest
    )
    closest = min(found.nearest, key=lambda near: near.off)
    same = f"It is {closest.name} for all practical purposes"
    verdict = same if closest.off < 0.01 else "It is none of the usual kernels"
    return f"The kernel has no formula: it is a learned function of the distance. {half}{verdict}: {nearest}."
