"""What a program is made of: leaves, terms and weighted sums (see program.py)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from mercer.kernels.blend import Surface


class LeafKind(IntEnum):
    """What a leaf computes; `offsets` of the leaf point at the parameters named here, in this order."""

    SE = 0  # log: -sum d^2 / 2 l^2; lengthscale
    RQ = 1  # log: -a log1p(sum d^2 / 2 a l^2); lengthscale, alpha
    M12 = 2  # log: -r; lengthscale
    M32 = 3  # log: -sqrt3 r + log1p(sqrt3 r); lengthscale
    M52 = 4  # log: -sqrt5 r + log(1 + sqrt5 r + 5 r^2 / 3); lengthscale
    ENVELOPE = 5  # log: -2 pi^2 sum b^2 d^2; bandwidth (the fading of one component of SM)
    PER = 6  # log: -sum (1 - cos(2 pi d / p)) / l^2; period, lengthscale
    CPER = 7  # (exp(q (cos t - 1)) - I0e(q)) / (1 - I0e(q)), t = 2 pi d / p, q = 1 / l^2; period, lengthscale
    LIN = 8  # sum w (x - c)(x' - c); offset, weights
    COS = 9  # cos(2 pi f.d); frequency
    WN = 10  # [d = 0]
    SIN = 11  # sin(2 pi f.d), the imaginary part of EXPI; frequency
    SUMI = 12  # cos(2 pi f.(x - c)) cos(2 pi f.(x' - c)); frequency, offset
    GATE = 13  # s_i(x) s_i(x'), i the `regime` of a change `surface`; all of its parameters


LOG_KINDS = frozenset(
    {LeafKind.SE, LeafKind.RQ, LeafKind.M12, LeafKind.M32, LeafKind.M52, LeafKind.ENVELOPE, LeafKind.PER}
)
# These know how far apart the points are, and not where.
STATIONARY = LOG_KINDS | {LeafKind.CPER, LeafKind.COS, LeafKind.SIN, LeafKind.WN}


@dataclass(frozen=True)
class Leaf:
    """A unit function of one pair on some columns; `offsets` point at its parameter blocks in the values vector."""

    kind: LeafKind
    dims: tuple[int, ...]
    offsets: tuple[int, ...]
    surface: Surface | None = None  # of a GATE: without values, as those are in the values vector
    regime: int = 0


@dataclass(frozen=True)
class Term:
    """exp(sum of `logs`) times the product of `factors` (node numbers); a log is a leaf or the input of an Exp unit."""

    logs: tuple[int, ...]
    factors: tuple[int, ...]


@dataclass(frozen=True)
class Affine:
    """Weighted sum of `children` (node numbers); weights[i] lists the values whose product weighs children[i].

    `constants` multiply the weights; none: they are one.
    """

    children: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    constants: tuple[float, ...] = ()


Node = Leaf | Term | Affine
