"""A base kernel added from outside, by the code of docs/add-base-kernel.md: it obeys the laws of Mercer's own."""

from __future__ import annotations

import importlib
import math
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer
from mercer.compute import fused, torch_backend
from mercer.compute.leaves import unregister
from mercer.compute.program import compile_program
from mercer.compute.separate import separate
from mercer.errors import KernelError
from mercer.explain.phrases import phrase, title
from mercer.explain.wording import Column
from mercer.kernels import REGISTRY, Expression, bind, canonical, from_json, layout, parse, to_json
from mercer.kernels.leaf import LEAVES
from mercer.kernels.parameters import values_of
from tests.agree import slow_reference
from tests.agree.slow_reference import slow_gram
from tests.agree.test_fused import check_contraction, check_even_path, check_values
from tests.laws.test_kernel_laws import assert_is_kernel_matrix
from tests.laws.test_unit_laws import UNITS, check_units
from tests.laws.variations import assert_same_gram
from tests.strategies import base_kernels, deep_kernels, inputs
from tests.unit.test_documentation import ROOT, blocks

Array = NDArray[np.float64]
FEW = settings(max_examples=15, deadline=None)
PAGE = ROOT / "docs" / "add-base-kernel.md"


def wendland(p: dict[str, list[float]], xs: list[float], zs: list[float]) -> float:
    r = math.sqrt(sum(((x - z) / l) ** 2 for x, z, l in zip(xs, zs, p["lengthscale"], strict=True)))
    return max(0.0, 1 - r) ** 4 * (4 * r + 1)


@pytest.fixture(scope="module", autouse=True)
def _with_the_kernel_of_the_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write the blocks of the page up to the registration into a module, import it, and take the kernel out after."""
    code: list[str] = []
    for block in blocks(PAGE):
        if block.language == "python" and not any("register(WENDLAND" in each for each in code):
            code.append(block.code)
    folder = tmp_path_factory.mktemp("outside")
    (folder / "outside_wendland.py").write_text("\n".join(code), encoding="utf-8")
    sys.path.insert(0, str(folder))
    importlib.import_module("outside_wendland")
    slow_reference.OUTSIDE["WEN"] = wendland
    yield
    del slow_reference.OUTSIDE["WEN"], sys.modules["outside_wendland"]
    sys.path.remove(str(folder))
    unregister("WEN")
    assert "WEN" not in REGISTRY


def tensor(array: Array) -> torch.Tensor:
    return torch.as_tensor(np.asarray(array, dtype=np.float64))


@FEW
@given(data=st.data())
def test_both_back_ends_equal_the_formula(data: st.DataObject) -> None:
    check_values(data.draw(base_kernels(symbol="WEN")), data.draw(inputs()), data.draw(inputs()))


@FEW
@given(data=st.data())
def test_gradients_equal_autograd_and_differences(data: st.DataObject) -> None:
    expression, X = data.draw(base_kernels(symbol="WEN")), data.draw(inputs())
    check_contraction(compile_program(expression), values_of(expression), fused.points(X))
    weights = tensor(np.cos(np.arange(float(len(X) ** 2))).reshape(len(X), -1))
    weights = weights + weights.T
    values = tensor(values_of(expression)).requires_grad_(True)
    (expected,) = torch.autograd.grad(
        (weights * torch_backend.gram(compile_program(expression), values, tensor(X))).sum(), values
    )
    found = torch_backend.contract(compile_program(expression), values.detach(), tensor(X), weights)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@FEW
@given(a=deep_kernels(1, 1), rows=st.integers(3, 9))
def test_sums_products_and_evenly_spaced_inputs(a: Expression, rows: int) -> None:
    one, two = (parse(f"WEN(0, variance=0.7, lengthscale={length})") for length in (1.3, 2))
    expression = bind(one * a + two, 1)
    X = 0.5 * np.arange(rows, dtype=np.float64)[:, None]
    check_even_path(compile_program(expression), values_of(expression), X)
    check_values(expression, X, X[:2])


def test_right_hand_points_have_a_gradient() -> None:
    expression = bind(parse("WEN(0, 1, variance=2, lengthscale=[1.5, 2]) * SE(0, variance=1, lengthscale=1)"), 2)
    program, values = compile_program(expression), values_of(expression)
    rng = np.random.default_rng(0)
    X, Z, weights = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), rng.normal(size=(5, 4))
    assert fused.can_move(program)
    at = tensor(Z).requires_grad_(True)
    total = (tensor(weights) * torch_backend.cross(program, tensor(values), tensor(X), at)).sum()
    (expected,) = torch.autograd.grad(total, at)
    assert_allclose(
        fused.contract_cross(program, values, X, Z, weights, None, True)[1], expected, rtol=1e-9, atol=1e-12
    )


@FEW
@given(kernel=base_kernels(symbol="WEN"), X=inputs(max_rows=4), units=UNITS)
def test_the_laws_of_kernels_text_and_units(kernel: Expression, X: Array, units: object) -> None:
    assert_is_kernel_matrix(slow_gram(kernel, X))
    assert parse(kernel.text()) == kernel
    assert from_json(to_json(kernel)) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert_same_gram(slow_gram(canonical(kernel * kernel), X), slow_gram(kernel, X) ** 2, 1e-10)
    check_units(kernel, X, units)  # type: ignore[arg-type]
    assert separate(compile_program(bind(parse("WEN(0, 1)"), 2)), 2) is None


def test_one_lengthscale_for_all_columns() -> None:
    kernel = bind(parse("WEN(0, 1, 2, isotropic=True, variance=1, lengthscale=1.7)"), 3)
    assert layout(kernel).n_free == 2
    X = np.random.default_rng(0).normal(size=(6, 3))
    check_contraction(compile_program(kernel), values_of(kernel), fused.points(X))
    same = bind(parse("WEN(0, 1, 2, variance=1, lengthscale=1.7)"), 3)
    assert_allclose(fused.gram(compile_program(kernel), values_of(kernel), X), slow_gram(same, X), rtol=1e-12)


def test_a_fit_a_search_and_words() -> None:
    rng = np.random.default_rng(0)
    x = np.arange(40.0)[:, None]
    y = np.sin(x[:, 0] / 4) + 0.1 * rng.standard_normal(40)
    model = mercer.GPRegressor("WEN", random_state=0).fit(x, y)
    assert model.score(x, y) > 0.9
    assert "short memory" in str(model.explain())
    search = mercer.GrammarSearch(bases=("WEN", "LIN"), max_depth=1, restarts=2)
    found = mercer.GPRegressor(search, random_state=0).fit(x, y)
    assert any(leaf.symbol == "WEN" for c in found.candidates_ for leaf in c.expression.leaves())
    columns = [Column("x", 0.0, 10.0)]
    short = bind(parse("WEN(0, variance=1, lengthscale=2)"), 1)
    assert phrase(short, columns).startswith("a fairly smooth function of short memory of x, varying over")
    assert title(short, columns) == "Variation of short memory over about 2.00"


def test_sparse_inference_and_random_features() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, size=(120, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(120)
    model = mercer.GPRegressor("WEN", inference=mercer.VFE(20), random_state=0).fit(x, y)
    assert model.score(x, y) > 0.9
    with pytest.raises(mercer.MercerError, match="WEN has no spectrum, so it has no random features: SE, PER"):
        mercer.GPRegressor("WEN", inference=mercer.RandomFeatures(50), random_state=0).fit(x, y)


def test_a_worker_process_imports_the_module_that_registers_it() -> None:
    sent = pickle.dumps(parse("WEN(0, variance=1, lengthscale=2)"))
    folder = Path(sys.modules["outside_wendland"].__file__ or "").parent
    code = f"import pickle, sys; sys.path.insert(0, {str(folder)!r}); print(pickle.loads({sent!r}))"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert seen.strip() == "WEN(0, variance=1.0, lengthscale=2.0)"


def test_mistakes_are_errors() -> None:
    with pytest.raises(KernelError, match="belongs to Mercer"):
        unregister("SE")
    with pytest.raises(KernelError, match="there is no base kernel 'XYZ'"):
        parse("XYZ(0)")
    assert LEAVES["WEN"].module == "outside_wendland"
