"""How a target follows from the function f: a value that travels with the kernel's values.

An engine names the likelihoods that it can work with (`Engine.likelihoods`) and refuses others; to add one, write its
class here and an engine that names it. Engines that it does not concern stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from mercer.errors import InputError
from mercer.kernels.domains import Array


class Likelihood(Protocol):
    """p(y | f) for each row, given f there."""

    name: ClassVar[str]

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each value of the function."""


@dataclass(frozen=True)
class Gaussian:
    """y = f + noise: independent for each row, of one variance."""

    noise: float

    name: ClassVar[str] = "Gaussian"

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each value of the function."""
        return f + np.sqrt(self.noise) * rng.standard_normal(np.shape(f))


GAUSSIAN_ONLY: tuple[type[Likelihood], ...] = (Gaussian,)


def gaussian_noise(likelihood: Likelihood, engine: str) -> float:
    """Return the noise variance of a Gaussian likelihood; an engine that knows no other refuses what is not one."""
    if isinstance(likelihood, Gaussian):
        return likelihood.noise
    raise InputError(refusal(likelihood, engine, GAUSSIAN_ONLY))


def refusal(likelihood: Likelihood, engine: str, likelihoods: Sequence[type[Likelihood]]) -> str:
    """Say that an engine does not work with a likelihood, and with which ones it does."""
    able = ", ".join(each.name for each in likelihoods)
    return f"{engine} inference works with these likelihoods: {able}; not with {likelihood.name}"
