"""One lengthscale for all columns: in text, Python, JSON and words, in both back ends, in every engine, in a fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import mercer
from mercer.compute import fused, torch_backend
from mercer.compute.program import compile_program
from mercer.compute.separate import separate
from mercer.compute.spectral import draw_features
from mercer.errors import KernelError, KernelSyntaxError
from mercer.explain.phrases import phrase
from mercer.explain.wording import Column
from mercer.kernels import M32, REGISTRY, RQ, SE, bind, canonical, fixed, from_json, layout, parse, structure, to_json
from mercer.kernels.parameters import values_of

RADIAL = sorted(symbol for symbol, leaf in REGISTRY.items() if leaf.radial)


def test_text_python_and_json_say_the_same() -> None:
    kernel = SE(0, 1, 2, isotropic=True, variance=2, lengthscale=1.5)
    assert kernel.text() == "SE(0, 1, 2, isotropic=True, variance=2.0, lengthscale=1.5)"
    assert parse(kernel.text()) == kernel
    assert from_json(to_json(kernel)) == kernel
    assert to_json(kernel)["version"] == 4
    assert to_json(SE(0, 1))["version"] == 1
    assert parse("SE(0, 1, isotropic=False)") == SE(0, 1)
    assert SE(0, isotropic=True) == SE(0)
    assert bind(parse("SE(isotropic=True)"), 1) == SE(0)
    assert bind(parse("RQ(isotropic=True)"), 2) == RQ(0, 1, isotropic=True)
    assert structure(kernel) == SE(0, 1, 2, isotropic=True)
    unequal = M32(0, 1, isotropic=[1, 2], lengthscale=3)
    assert unequal.lengthscales() == (3.0, 6.0)
    assert parse(unequal.text()) == unequal
    assert from_json(to_json(unequal)) == unequal
    assert M32(0, 1, isotropic=[1, 1]) == M32(0, 1, isotropic=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("PER(0, 1, isotropic=True)", "PER cannot be isotropic: SE, RQ, M12, M32, M52 can have one lengthscale"),
        ("LIN(0, 1, isotropic=True)", "LIN cannot be isotropic: SE, RQ, M12, M32, M52 can have one lengthscale"),
        ("SE(0, 1, isotropic=True, isotropic=True)", "'isotropic' is given twice"),
        ("SE(0, 1, isotropic=maybe)", "expected a number"),
        ("SE(0, 1, isotropic=[1, 2, 3])", "one number greater than zero for each dimension"),
        ("SE(0, 1, isotropic=[1, -2])", "one number greater than zero for each dimension"),
        ("SE(0, 1, isotropic=True, lengthscale=[1, 2])", "'lengthscale' takes 1 value(s), 2 given"),
    ],
)
def test_mistakes_are_pointed_at(text: str, problem: str) -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        parse(text)
    assert problem in str(caught.value)


def test_python_takes_a_flag_or_a_list() -> None:
    assert SE(0, 1, isotropic=np.True_) == SE(0, 1, isotropic=True)
    assert SE(0, 1, isotropic=None) == SE(0, 1, isotropic=np.False_) == SE(0, 1)
    assert SE(0, 1, isotropic=np.array([1, 2])) == SE(0, 1, isotropic=[1, 2])
    for wrong in (1, 2.0, "x", ["x", "y"], [], [True, True], {1, 2}):
        with pytest.raises(KernelError, match="SE: 'isotropic' is True, or a list of one number"):
            SE(0, isotropic=wrong)


def test_a_fixed_length_is_read_back_as_it_was_written() -> None:
    X = np.random.default_rng(0).uniform(size=(40, 3)) * [1.0, 30.0, 700.0]
    for isotropic in (True, False):
        kernel = SE(0, 1, 2, isotropic=isotropic, lengthscale=fixed(100), variance=fixed(0.3))
        (leaf,) = mercer.GPRegressor(kernel, restarts=1, random_state=0).fit(X, X[:, 1]).kernel_.leaves()
        assert set(leaf.lengthscales() or ()) == {100.0}
        assert leaf.value("variance") == 0.3


def test_damaged_json_is_refused() -> None:
    document = to_json(SE(0, 1, isotropic=True))
    document["kernel"]["isotropic"] = 3
    with pytest.raises(KernelError, match="isotropic"):
        from_json(document)


@pytest.mark.parametrize("symbol", RADIAL)
def test_it_is_the_kernel_with_equal_lengthscales_and_one_free_number(symbol: str) -> None:
    one = bind(parse(f"{symbol}(0, 1, 2, isotropic=True, variance=1.5, lengthscale=0.8)"), 3)
    many = bind(parse(f"{symbol}(0, 1, 2, variance=1.5, lengthscale=0.8)"), 3)
    if "alpha" in [p.name for p in one.parameters]:  # type: ignore[attr-defined]
        one, many = (parse(each.text()[:-1] + ", alpha=0.7)") for each in (one, many))
    assert layout(many).n_free - layout(one).n_free == 2
    X = np.random.default_rng(0).normal(size=(7, 3))
    matrix, vector = np.cos(np.add.outer(np.arange(7.0), np.arange(7.0))), np.arange(7.0)
    gradients = []
    for kernel in (one, many):
        program, values = compile_program(kernel), values_of(kernel)
        gram = fused.gram(program, values, X)
        assert_allclose(torch_backend.gram(program, torch.as_tensor(values), torch.as_tensor(X)), gram, rtol=1e-12)
        gradients.append((gram, fused.contract(program, values, fused.points(X), matrix, vector)))
    assert_allclose(gradients[0][0], gradients[1][0], rtol=1e-14)
    assert_allclose(gradients[0][1][1], gradients[1][1][1:4].sum(), rtol=1e-12)


def test_canonical_form_orders_columns_and_merges_only_what_is_alike() -> None:
    one = parse("SE(1, 0, isotropic=[2, 1], variance=1, lengthscale=3)")
    assert canonical(one) == parse("SE(0, 1, isotropic=[1, 2], variance=1, lengthscale=3)")
    both = parse(
        "SE(0, 1, isotropic=True, variance=1, lengthscale=3) * SE(0, 1, isotropic=True, variance=1, lengthscale=4)"
    )
    assert canonical(both).text(digits=4) == "SE(0, 1, isotropic=True, variance=1, lengthscale=2.4)"
    apart = canonical(
        parse("SE(0, 1, isotropic=True, variance=1, lengthscale=3) * SE(0, 1, variance=1, lengthscale=4)")
    )
    assert len(list(apart.leaves())) == 2


def test_features_and_their_gradient() -> None:
    kernel = bind(
        parse("SE(0, 1, isotropic=[1, 2], variance=1, lengthscale=0.7) * PER(0, variance=1, period=2, lengthscale=1)"),
        2,
    )
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5, 2))
    found = [draw_features(kernel, 64, 2, rng, X) for _ in range(300)]
    truth = fused.gram(compile_program(kernel), values_of(kernel), X)
    assert_allclose(np.mean([f.phi(X) @ f.phi(X).T for f in found], axis=0), truth, atol=0.03)
    features, weights = found[0], rng.normal(size=(5, found[0].count))
    gradient = features.gradient(features.slopes(X, features.phi(X), weights))
    values = features.values
    for place in range(len(values)):
        up, down = values.copy(), values.copy()
        up[place] += 1e-6
        down[place] -= 1e-6
        slope = np.sum(weights * (features.at(up).phi(X) - features.at(down).phi(X))) / 2e-6
        assert_allclose(gradient[place], slope, rtol=1e-5, atol=1e-7)


def test_it_comes_apart_by_columns_where_the_kernel_does() -> None:
    kernel = bind(parse("SE(0, 1, isotropic=[1, 2], variance=2, lengthscale=0.7)"), 2)
    program, values = compile_program(kernel), values_of(kernel)
    parts = separate(program, 2)
    assert parts is not None
    X = np.random.default_rng(0).normal(size=(6, 2))
    product = np.prod([fused.gram(part, values, X[:, [d]]) for d, part in enumerate(parts)], axis=0)
    assert_allclose(product, fused.gram(program, values, X), rtol=1e-12)
    assert separate(compile_program(bind(parse("M32(0, 1, isotropic=True)"), 2)), 2) is None


def test_a_fit_finds_one_length_in_the_units_of_the_table(tmp_path: Path) -> None:
    """Two columns on the same map, one ten times as long: the lengthscale is that of the map, and one number."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(0, 100, 150), rng.uniform(0, 10, 150)])
    truth = bind(parse("SE(0, 1, isotropic=True, variance=4, lengthscale=8)"), 2)
    gram = fused.gram(compile_program(truth), values_of(truth), X)
    y = np.linalg.cholesky(gram + 0.01 * np.eye(150)) @ rng.standard_normal(150)
    model = mercer.GPRegressor("SE(0, 1, isotropic=True)", restarts=2, random_state=0).fit(X, y)
    (leaf,) = model.kernel_.leaves()
    assert leaf.isotropic
    assert leaf.ratios == ()
    assert leaf.value("lengthscale") == pytest.approx(8, rel=0.15)
    assert "one lengthscale for all" in " ".join(str(model.explain()).split())
    model.save(tmp_path / "model.mercer")
    assert_allclose(mercer.load(tmp_path / "model.mercer").predict(X), model.predict(X), atol=1e-8)
    priors = mercer.GPRegressor("SE(0, 1, isotropic=True)", restarts=1, priors="weak", random_state=0).fit(X, y)
    assert priors.score(X, y) > 0.9


def test_words() -> None:
    columns = [Column("east", 0.0, 10.0), Column("north", 0.0, 10.0)]
    kernel = bind(parse("SE(0, 1, isotropic=True, variance=1, lengthscale=2.5)"), 2)
    assert phrase(kernel, columns) == "a smooth function of east and north, varying over one lengthscale for all, 2.50"


def test_the_widest_column_may_be_the_one_that_matters() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 1e6, 80), rng.uniform(0, 1, 80)])
    y = np.sin(X[:, 0] / 1.5e5) + 0.05 * rng.normal(size=80)
    model = mercer.GPRegressor("SE(0, 1, isotropic=True)", random_state=0).fit(X, y)
    alone = mercer.GPRegressor("SE(0)", random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert model.log_evidence_ == pytest.approx(alone.log_evidence_, abs=1.0)
