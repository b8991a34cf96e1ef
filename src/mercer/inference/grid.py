"""Inference on a grid, with holes: Kronecker structure instead of a matrix of all pairs (METHODS 7).

The kernel must be a product over columns, k(x, x') = k_1(x_1, x_1') ... k_D(x_D, x_D'), each factor any kernel of one
column (grid_product.py), or a sum of such products, with change surfaces or without (grid_sum.py; what follows is about
one product). Nothing is stored but vectors over the grid and the n_d x n_d matrices of the factors; an evaluation takes
N sum(n_d) operations times a few, times the steps of conjugate gradients where cells are missing.

    log p(y) = -y' A_MM^-1 y / 2 - log|A_MM| / 2 - M log(2 pi) / 2

Exact where no cell is missing or few are (`exact_work`); otherwise the quadratic term is exact to the tolerance, and
the log-determinant is that of the grid's M largest eigenvalues scaled by M/N, or by Lanczos quadrature on request. The
eigenvalues are of little use where most cells are missing (40 x 40 cells, SE, 70 % missing: 50 off 387, the gradient by
twice its size): few rows are then left to exact inference (`exact_cells`), many that fill hardly any cells are refused.
Gradients: everything is a function of the K_d, so each gradient is a contraction of an n_d x n_d matrix with dK_d.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from mercer.compute.backend import NUMBA, Backend
from mercer.compute.program import Program
from mercer.compute.separate import separate, summands
from mercer.errors import InputError, KernelError, NumericalError
from mercer.inference.contract import Data, Engine, Evidence, Posterior
from mercer.inference.exact import Exact
from mercer.inference.lattice import Lattice
from mercer.inference.likelihood import Likelihood
from mercer.kernels.domains import Array
from mercer.linalg.threads import one_torch_thread

if TYPE_CHECKING:
    from mercer.inference.grid_product import GridProblem
    from mercer.inference.grid_sum import SumProblem

LogDeterminant = Literal["auto", "lanczos", "weyl"]
EXACT_WORK = 2e7  # operations that the precision of holes may take in an evaluation; gradients take ten times that
FEW_CELLS = 3000  # with fewer a second thread gains little, and on a busy machine loses much
UNDEFINED = "the kernel gave infinite or undefined values"


@dataclass(frozen=True)
class GridPolicy:
    """What inference on a grid may cost, and how closely it estimates what cannot be had exactly."""

    posterior_work: float = 4e11  # operations that the precision of holes may take in a posterior, which is made once
    variance_work: float = 4e11  # operations that variances may take before they are estimated by draws
    samples: int = 64  # draws to estimate variances from
    probes: int = 8  # vectors of Lanczos quadrature
    steps: int = 40  # of it, for sums of products
    near_steps: int = 15  # of it where a matrix of low rank is near
    most_rank: int = 1500  # of that matrix
    cells_per_row: float = 10.0  # more, and rows are scattered: there the scaled eigenvalues are far off
    fft_from: int = 500  # cells along an axis: products with an even factor go by FFT


@dataclass(frozen=True, eq=False)
class GridEvidence(Evidence):
    """Evidence with what conjugate gradients left over (relative), their steps, and how the determinant was found."""

    residual: float = 0.0
    iterations: int = 0
    log_determinant: str = "exact"


@dataclass(frozen=True)
class Grid(Engine):
    """The engine for rows on a grid.

    `tolerance` and `most_steps` end conjugate gradients; if they end early, the evidence is a bit too small.
    `log_determinant`: "auto" is exact where that is cheap and else the scaled eigenvalues; "lanczos" uses Lanczos
    quadrature there instead (unbiased, a few times slower). For sums "auto" is exact with few cells and else "lanczos",
    and "weyl" is a bound.
    `device`: "cpu" or "cuda".
    """

    tolerance: float = 1e-4
    log_determinant: LogDeterminant = "auto"
    device: str | Backend = field(default=NUMBA, repr=False)
    seed: int = field(default=0, repr=False)
    exact_work: float = field(default=EXACT_WORK, repr=False)
    most_steps: int = field(default=200, repr=False)
    policy: GridPolicy = field(default_factory=GridPolicy, repr=False)
    # rows that are left to exact inference for sums, or on a grid that is mostly holes
    exact_cells: int = field(default=2000, repr=False)

    name = "grid"
    accelerated = True
    saved: ClassVar = {
        "tolerance": float, "log_determinant": str, "seed": int, "exact_work": float, "most_steps": int,
        "exact_cells": int,
    }  # fmt: skip

    def __post_init__(self) -> None:
        if self.log_determinant not in get_args(LogDeterminant):
            known = ", ".join(map(repr, get_args(LogDeterminant)))
            raise InputError(f"log_determinant must be one of {known}, not {self.log_determinant!r}")
        if not isinstance(self.tolerance, Real) or not 0.0 < self.tolerance < 1.0:
            raise InputError(f"tolerance must be a number between 0 and 1, not {self.tolerance!r}")
        if not isinstance(self.exact_work, Real) or not self.exact_work >= 0.0:
            raise InputError(f"exact_work is a number of operations, at least 0, not {self.exact_work!r}")
        for name, least in (("seed", 0), ("most_steps", 1), ("exact_cells", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        noise, problem = self.noise_of(likelihood), self.problem(program, data)
        if problem is None:
            return GridEvidence(**vars(Exact().evidence(program, values, likelihood, data, gradient)))
        self.check_filled(problem.lattice)
        with one_torch_thread(when=data.count < FEW_CELLS):
            return problem.evidence(values, noise, gradient)

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> Posterior:
        """Return the posterior, solved for a hundred times more exactly than for the evidence."""
        tolerance, work = self.tolerance / 100.0, self.policy.posterior_work
        closer = replace(self, tolerance=tolerance, exact_work=work, most_steps=10 * self.most_steps)
        noise, problem = self.noise_of(likelihood), closer.problem(program, data)
        if problem is None:
            return Exact().posterior(program, values, likelihood, data)
        with one_torch_thread(when=data.count < FEW_CELLS):
            found = problem.posterior(values, noise)
        if found is None:
            raise NumericalError(f"no posterior: {UNDEFINED}; try another kernel")
        return found

    def leaves_to_exact(self, data: Data) -> bool:
        """Whether the rows are few enough for exact inference, and no other is asked for."""
        return not self.backend.batches and self.log_determinant == "auto" and data.count <= self.exact_cells

    def check_filled(self, lattice: Lattice) -> None:
        """Refuse rows that fill hardly any cells of a grid."""
        rows = len(lattice.cells)
        if lattice.size > self.policy.cells_per_row * rows:
            raise InputError(
                f"the {rows:,} rows fill hardly any of the {lattice.size:,} cells of their grid: its evidence would be "
                "far off. Use inference=mercer.Exact(), or mercer.VFE() if they are too many for that"
            )

    def problem(self, program: Program, data: Data) -> GridProblem | SumProblem | None:
        """Take the kernel apart on the grid of the rows, or refuse them.

        None: so few rows that a matrix of all pairs of them is quicker than iterating (sums), or exact where the grid,
        mostly holes, is not.
        """
        from mercer.inference.grid_product import GridProblem  # both load PyTorch
        from mercer.inference.grid_sum import SumProblem

        columns = data.X.shape[1]
        parts, terms = separate(program, columns), summands(program, columns)
        if parts is None and terms is None:
            raise KernelError(
                "on a grid the kernel must be a product of one kernel for each column, such as SE(0)*PER(1) or "
                "(SE(0) + LIN(0))*SE(1), or a sum of such products; RQ, M12, M32, M52, LIN, COS and SM on several "
                "columns at once, and sums inside products of several columns, are not"
            )
        if data.lattice is None:
            raise InputError("the rows do not form a grid: two of them have the same inputs; use another inference")
        if self.leaves_to_exact(data) and (parts is None or data.lattice.mostly_holes):
            return None
        if parts is not None:
            return GridProblem(program, data, data.lattice, self, parts)
        assert terms is not None
        return SumProblem(program, data, data.lattice, self, terms)
