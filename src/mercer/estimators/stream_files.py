"""What a model file keeps of a stream: not its rows, but the sums over them that the posterior is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.inference.choose import Choice, asked_engine
from mercer.inference.contract import Data, Engine, Posterior, Sum
from mercer.inference.likelihood import Gaussian
from mercer.inference.sparse import Statistics, model_of, solve
from mercer.inference.vfe import VFE, FixedVFE
from mercer.inference.vfe_posterior import VFEPosterior
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import values_of
from mercer.linalg.factor import Failure
from mercer.model.fitted import Fitted


@dataclass(frozen=True)
class Forgotten:
    """Rows that a saved model was learned from; they are not in its file."""

    count: int

    def summed(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Say that they are gone."""
        raise InputError(
            "this needs the rows that the model was learned from, and they are not in its file: they were read in "
            "parts. Fit the model again"
        )


def stream_to_plain(fitted: Fitted) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the sums as JSON data and arrays by name."""
    arrays: dict[str, Array] = {}
    entries = []
    for number, member in enumerate(fitted.mixture.members):
        posterior = member.posterior
        assert isinstance(posterior, VFEPosterior)
        sums = posterior.solution.sums
        arrays[f"points{number}.npy"] = posterior.solution.model.Z
        arrays[f"gram{number}.npy"] = np.tril(sums.gram)
        arrays[f"vectors{number}.npy"] = np.stack([sums.by_target, sums.by_one])
        entries.append({"log_noise": sums.log_noise, "prior": sums.prior, "moments": list(map(float, sums.moments))})
    return {"count": fitted.training.count, "sums": entries}, arrays


def posteriors_of(
    entry: dict[str, Any], arrays: dict[str, Array], kernels: Sequence[tuple[Expression, float]], data: Data
) -> list[Posterior]:
    """Read `stream_to_plain` back, checking it."""
    found: list[Posterior] = []
    for number, (kernel, noise) in enumerate(kernels):
        Z, gram, vectors = (arrays[f"{name}{number}.npy"] for name in ("points", "gram", "vectors"))
        points, columns = len(Z), data.X.shape[1]
        if Z.shape != (points, columns) or gram.shape != (points, points) or vectors.shape != (2, points):
            raise InputError("the sums over its rows do not fit together")
        if not all(a.dtype == np.float64 and np.isfinite(a).all() for a in (Z, gram, vectors)):
            raise InputError("the sums over its rows are not finite numbers")
        plain = entry["sums"][number]
        sums = Statistics(
            int(entry["count"]), float(plain["log_noise"]), float(plain["prior"]),
            np.array([float(m) for m in plain["moments"]]), gram, vectors[0], vectors[1],
        )  # fmt: skip
        solution = solve(model_of(compile_program(kernel), values_of(kernel), noise, data, Z), data, sums=sums)
        if isinstance(solution, Failure):
            raise InputError(solution.reason)
        found.append(VFEPosterior(solution, data))
    return found


def points_moved(engine: Engine) -> bool:
    """Tell whether the inducing points are not those that the engine chooses: they were fitted, or there are more."""
    return engine.saves_points


def points_to_plain(fitted: Fitted) -> dict[str, Array]:
    """Return the inducing points of every member."""
    posteriors = [member.posterior for member in fitted.mixture.members]
    return {f"points{i}.npy": p.solution.model.Z for i, p in enumerate(posteriors) if isinstance(p, VFEPosterior)}


def moved_posteriors(
    arrays: dict[str, Array], kernels: Sequence[tuple[Expression, float]], data: Data
) -> list[Posterior]:
    """Read `points_to_plain` back, checking it, and go over the rows with them."""
    found: list[Posterior] = []
    for number, (kernel, noise) in enumerate(kernels):
        Z = arrays[f"points{number}.npy"]
        if Z.shape != (len(Z), data.X.shape[1]) or Z.dtype != np.float64 or not np.isfinite(Z).all():
            raise InputError("its inducing points do not fit its data")
        found.append(FixedVFE(Z).posterior(compile_program(kernel), values_of(kernel), Gaussian(noise), data))
    return found


def streamed_choice(inference: Any) -> Choice:
    """Return the engine of a model that was learned from a stream."""
    engine = asked_engine(inference)
    able = engine if engine is not None and engine.streams else VFE()
    return Choice(able, "sparse variational inference, by sums over parts")
