"""How a target follows from the function f: a value that travels with the kernel's values.

An engine names the likelihoods that it can work with (`Engine.likelihoods`) and refuses others; to add one, write its
class here and an engine that names it. Engines that it does not concern stay as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

LOG_2_PI = math.log(2.0 * math.pi)


class Likelihood(Protocol):
    """p(y | f) for each row, given f there."""

    name: ClassVar[str]


@dataclass(frozen=True)
class Gaussian:
    """y = f + noise: independent for each row, of one variance."""

    noise: float

    name: ClassVar[str] = "Gaussian"


GAUSSIAN_ONLY: tuple[type[Likelihood], ...] = (Gaussian,)
