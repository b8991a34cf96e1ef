"""`NeuralKernelNetwork`: the settings of a network to train, and what training returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal

from mercer.errors import InputError, TooLargeError
from mercer.kernels.expression import Base, Expression, Sum
from mercer.kernels.layers import Multiply
from mercer.kernels.network import PAPER_LAYERS, Network, network, regression_network, time_series_network
from mercer.kernels.parameters import bind
from mercer.kernels.units import Units, to_scaled_units
from mercer.learners.contract import Context, Learned, Learner, checked_jobs
from mercer.learners.neural.average import conclude
from mercer.learners.neural.training import Plan, Training

MOST_ROWS = 2000
STEPS = {"lbfgs": 200, "adam": 20_000}
CHOICES = {"selection": ("loo", "evidence"), "optimiser": tuple(STEPS), "priors": ("weak", None)}
ONE_COLUMN = "2*SE + 2*PER + 2*LIN + 2*RQ"
SEVERAL_COLUMNS = "2*RQ + 2*SE + 2*LIN"


@dataclass(frozen=True)
class NeuralKernelNetwork(Learner):
    """A neural kernel network (NKN, Sun et al. 2018) trained from several starts.

    Parameters
    ----------
    primitives : kernels to build from, as a text ("2*SE + LIN(0)", where 2* means two copies) or a list of kernels or
        texts. Columns by number or name, values in the units of the data. None: two SE, PER, LIN and RQ each for one
        column; for several, two RQ, SE and LIN each, with one lengthscale for each column.
    layers : as in the paper, "Linear8-Product4-Linear4-Product2-Linear1".
    activation : "Exp" or "Poly(c0, c1, ...)", put after every Product layer; None: none.
    complex : carry real and imaginary parts (always so where a primitive is EXPI).
    variances : fit the primitives' own variances too; with primitives=None exactly the paper's networks, of 111 and
        4 d + 85 parameters.
    restarts : starts, each drawn from the data; all are trained for a while, and the promising ones to the end.
    selection : the best start is that with the best "loo" (leave one out) or the best "evidence".
    optimiser : "lbfgs", or "adam" as in the paper: 20,000 steps, every start to its end.
    learning_rate : of Adam.
    priors : "weak" keeps weights that the data do not determine small; None: none, as in the paper.
    max_iterations : steps of the optimiser for each start; None: 200 (lbfgs) or 20,000 (adam).
    average : predict with all finished starts, weighted by how well they predict rows left out, not with the best
        alone. The kernel that is shown and explained stays the best one's.
    n_jobs : starts trained at the same time, through joblib. The result does not depend on it.
    """

    primitives: str | Sequence[Expression | str] | None = None
    layers: str = PAPER_LAYERS
    activation: str | None = None
    complex: bool = False
    variances: bool = False
    restarts: int = 8
    selection: Literal["loo", "evidence"] = "loo"
    optimiser: Literal["lbfgs", "adam"] = "lbfgs"
    learning_rate: float = 1e-3
    priors: Literal["weak"] | None = "weak"
    max_iterations: int | None = None
    average: bool = True
    n_jobs: int | None = None

    @classmethod
    def paper(cls, **changes: Any) -> NeuralKernelNetwork:
        """Return the settings of the paper (its parameters, one start, Adam, no priors), with your changes."""
        settings = cls(variances=True, restarts=1, selection="evidence", optimiser="adam", priors=None, average=False)
        return replace(settings, **changes)

    @property
    def most_rows(self) -> int:
        """How many rows it can be trained on."""
        return MOST_ROWS

    def scale_kernels(self, columns: list[int], names: list[str], units: Units) -> Learner:
        """Return the settings with primitives on column numbers and their values in scaled units."""
        if self.primitives is None:
            return self
        scaled = to_scaled_units(self.network(columns, len(units.scale), names), units)
        assert isinstance(scaled, Network)
        return replace(self, primitives=scaled.primitives)

    @property
    def keeps_noise(self) -> bool:
        """A known noise variance stays as it is."""
        return True

    def learn(self, context: Context) -> Learned:
        """Train on scaled data."""
        data = context.data
        if data.count > MOST_ROWS:
            raise TooLargeError(
                f"{data.count:,} rows are too many to train a neural kernel network on, which is done exactly, on at "
                f"most {MOST_ROWS:,} rows. In GPRegressor leave inference='auto': it trains on a sample and then fits "
                f"to all rows. Or give a random subset of the rows, such as table.sample({MOST_ROWS})."
            )
        plan = self._plan(context)
        network = self.network(context.columns, data.X.shape[1])
        training = Training(plan, network, data, context.engine, context.columns, context.report)
        training.run()
        return conclude(training, self.average)

    def network(
        self, columns: Sequence[int], dimensions: int | None = None, names: Sequence[str] | None = None
    ) -> Network:
        """Return the untrained network for these columns of a table with so many, which may have names."""
        dimensions = 1 + max(columns) if dimensions is None else dimensions
        primitives = self.primitives
        if primitives is None and self.variances:
            primitives = _paper_primitives(columns)
        elif primitives is None:
            primitives = ONE_COLUMN if len(columns) == 1 else SEVERAL_COLUMNS
        # None: where a primitive is complex
        built = network(primitives, self.layers, complex=self.complex or None, variances=self.variances)
        if self.activation is not None:
            self._check_activation(built)
            layers = [
                f"{layer.symbol}-{self.activation}" if isinstance(layer, Multiply) else layer.symbol
                for layer in built.layers
            ]
            built = network(built.primitives, "-".join(layers), complex=built.complex, variances=self.variances)
        bound = bind(built, dimensions, names, default=columns)
        assert isinstance(bound, Network)
        return bound

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.primitives is not None and not isinstance(self.primitives, str):
            parts = network(self.primitives, "Linear1").primitives
            texts = (f"({part.text()})" if isinstance(part, Sum) else part.text() for part in parts)
            settings["primitives"] = " + ".join(texts)
        return settings

    def _check_activation(self, built: Network) -> None:
        kind = self.activation.strip().lower() if isinstance(self.activation, str) else ""
        if kind != "exp" and not (kind.startswith("poly") and "-" not in kind.partition(")")[2]):
            raise InputError(f"activation must be 'Exp', 'Poly(c0, c1, ...)' or None, not {self.activation!r:.80}")
        if not any(isinstance(layer, Multiply) for layer in built.layers):
            raise InputError(
                f"activation={self.activation!r} goes after every Product layer, but {built.architecture} has none: "
                f"write it among the layers, as in Linear4-{self.activation}-Linear1"
            )

    def _plan(self, context: Context) -> Plan:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                listed = " or ".join(repr(each) for each in known)
                raise InputError(f"{name} must be {listed}, not {getattr(self, name)!r}")
        for name in ("complex", "variances", "average"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, not {getattr(self, name)!r}")
        iterations = STEPS[self.optimiser] if self.max_iterations is None else self.max_iterations
        for name, count in (("restarts", self.restarts), ("max_iterations", iterations)):
            if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
                raise InputError(f"{name} must be a whole number of at least 1, not {count!r}")
        rate = self.learning_rate
        if not isinstance(rate, Real) or not 0 < rate < 1:
            raise InputError(f"learning_rate must be a number between 0 and 1, not {rate!r}")
        if context.device != "cpu":
            from mercer.fitting.batched import available_device  # it loads PyTorch

            available_device(context.device)
        return Plan(
            restarts=int(self.restarts),
            selection=self.selection,
            rate=float(rate) if self.optimiser == "adam" else None,
            priors=self.priors == "weak",
            max_iterations=int(iterations),
            n_jobs=checked_jobs(self.n_jobs if self.n_jobs is not None else context.jobs) or 1,
            seed=context.seed,
            device=context.device,
            noise=context.noise,
        )


def _paper_primitives(columns: Sequence[int]) -> tuple[Expression, ...]:
    """The paper's, which count columns from 0, on the columns that vary."""
    paper = time_series_network() if len(columns) == 1 else regression_network(len(columns))

    def moved(leaf: Base) -> Base:
        return leaf if leaf.dims is None else replace(leaf, dims=tuple(columns[int(d)] for d in leaf.dims))

    return tuple(part.map_leaves(moved) for part in paper.primitives)
