"""What engines say of themselves, what they refuse, and where they work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import mercer
from mercer.compute.backend import NUMBA, backend_for
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.inference.choose import ENGINES, engine_from_plain, engine_to_plain, read_inference
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels import bind, parse
from mercer.kernels.parameters import values_of

KERNEL = bind(parse("SE(0, variance=1, lengthscale=1) * SE(1, variance=1, lengthscale=1)"), 2)
GRID = np.stack([g.ravel() for g in np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij")], 1)


@dataclass(frozen=True)
class Counts:
    """A likelihood that no engine knows."""

    name: ClassVar[str] = "Poisson"


@pytest.mark.parametrize("engine", [kind() for kind in ENGINES], ids=lambda engine: engine.name)
def test_an_engine_refuses_a_likelihood_that_it_does_not_know(engine: Engine) -> None:
    data = Data(GRID, np.sin(GRID[:, 0]))
    assert engine.likelihoods == (Gaussian,)
    for work in (engine.evidence, engine.posterior):
        with pytest.raises(InputError, match="works with these likelihoods: Gaussian; not with Poisson"):
            work(compile_program(KERNEL), values_of(KERNEL), Counts(), data)


@pytest.mark.parametrize(
    "inference",
    [mercer.Exact(), mercer.VFE(60, predicting=90), mercer.VFE(joint=False), mercer.RandomFeatures(20, seed=3),
     mercer.Grid(tolerance=1e-5, exact_cells=0), "auto"],
)  # fmt: skip
def test_what_an_estimator_is_given_goes_through_a_file(inference: object) -> None:
    assert engine_from_plain(engine_to_plain(inference)) == inference
    assert read_inference(inference) == (None if inference == "auto" else inference)


def test_where_to_work_is_a_word_or_a_back_end() -> None:
    assert backend_for("cpu") is NUMBA
    assert backend_for(NUMBA) is NUMBA
    assert mercer.Exact(device="cpu").backend is NUMBA
    assert mercer.VFE().on(backend_for("cpu:0")).backend.batches
    assert mercer.RandomFeatures().on(backend_for("cpu:0")) == mercer.RandomFeatures()  # it works on the CPU alone
    with pytest.raises(InputError, match="there is no device 'gpu': use 'cpu' or 'cuda'"):
        backend_for("gpu")
