"""The network node: building, counting, hand-set networks that are exact, read-out, fitting, files."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer.compute import fused
from mercer.compute.evaluate import unit_patterns
from mercer.compute.program import LeafNode, compile_program
from mercer.errors import KernelError, KernelSyntaxError
from mercer.explain.networks import anova_terms
from mercer.explain.phrases import continuation, phrase, title
from mercer.explain.wording import Column
from mercer.fitting.starts import Frame, Starts, free_bounds
from mercer.inference.contract import Data
from mercer.kernels import EXPI, LIN, NKN, PER, RQ, SE, SUMI, Network, bind, fixed, from_json, layout, parse, to_json
from mercer.kernels.layers import Linear, Multiply
from mercer.kernels.leaf import REGISTRY
from mercer.kernels.network import network, regression_network, time_series_network
from mercer.kernels.parameters import held_variances, values_of
from tests.agree.slow_reference import slow_gram

PAPER = "Linear8-Product4-Linear4-Product2-Linear1"
EIGHT = "2*SE + 2*PER + 2*LIN + 2*RQ"


# ----------------------------------------------------------------------------------------------------------- building


def test_layers_are_as_in_the_paper() -> None:
    net = NKN(EIGHT, PAPER)
    assert [type(layer) for layer in net.layers] == [Linear, Multiply, Linear, Multiply, Linear]
    assert [layer.width for layer in net.layers] == [8, 4, 4, 2, 1]
    assert net.architecture == PAPER
    assert [leaf.symbol for leaf in net.leaves()] == ["SE", "SE", "PER", "PER", "LIN", "LIN", "RQ", "RQ"]


def test_products_take_consecutive_units() -> None:
    (se, lin) = SE(0, variance=1, lengthscale=1), LIN(0, variance=1, offset=0)
    net = NKN([se, lin], "Linear4-Product2-Linear1", weights=[[1, 0, 0, 1, 1, 0, 1, 0], [1, 1]], bias=[0, 0])
    X = np.array([[0.5], [1.0], [2.0]])
    k, q = slow_gram(se, X), slow_gram(lin, X)
    np.testing.assert_allclose(slow_gram(net, X), k * q + k * k)


def test_primitives_as_text_are_terms_of_a_sum_with_copies() -> None:
    assert network("2*SE(0) + SE(1)*PER(0) + (LIN + RQ)", "Linear1").primitives == (
        SE(0), SE(0), SE(1) * PER(0), LIN() + RQ(),
    )  # fmt: skip
    assert NKN([SE(), LIN()], "Linear2-Linear1") == parse("NKN(SE + LIN, Linear2-Linear1)")


def test_primitives_as_a_list_of_texts() -> None:
    assert NKN(["2*SE", LIN(0)], "Linear1") == NKN("2*SE + LIN(0)", "Linear1")


def test_other_spellings_of_a_text() -> None:
    assert parse(" NKN( SE+LIN , linear4 - product2 - LINEAR1 ) ") == NKN("SE + LIN", "Linear4-Product2-Linear1")
    net = parse("NKN(SE, Linear2-Exp-Poly(0, 1, 2.5)-Linear1, weights1=fixed([0, 1]), bias2=3)")
    assert isinstance(net, Network)
    assert net.architecture == "Linear2-Exp-Poly(0.0, 1.0, 2.5)-Linear1"
    assert net.linears[0].parameter("weights").fixed
    assert net.linears[1].parameter("bias").values == (3.0,)
    assert net.linears[0].parameter("bias").values is None


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: NKN("7*SE", "Linear7-Product4-Linear1"), ["Product4 after Linear7", "use Linear8 or Product7"]),
        (lambda: NKN("SE", "Linear6-Product4-Linear1"), ["6 is not divisible by 4; use Linear8 or Product3"]),
        (lambda: NKN("SE", "Linear4-Product2"), ["ends with Linear1", "add -Linear1"]),
        (lambda: NKN("SE", "Linear4"), ["ends with Linear1"]),
        (lambda: NKN("2*SE", "Product1-Linear1"), ["begins with a Linear layer"]),
        (lambda: NKN("SE", "Linear0-Linear1"), ["1 to 1000 units"]),
        (lambda: NKN("SE", "Linear99999999999-Linear1"), ["1 to 1000 units"]),
        (lambda: NKN("SE", "Sigmoid4-Linear1"), ["no layer 'Sigmoid4'", "LinearK, ProductM, Exp"]),
        (lambda: NKN("SE", "Linear4 Product2"), ["cannot read the layers", "Linear8-Product4"]),
        (lambda: NKN("SE", ""), ["cannot read the layers"]),
        (lambda: NKN("SE", None), ["cannot read the layers None"]),  # type: ignore[arg-type]
        (lambda: NKN("SE", ["Linear1"]), ["cannot read the layers"]),  # type: ignore[list-item]
        (lambda: NKN("SE", "Linear2-Poly(1, 0)-Linear1"), ["Poly(1, 0) is a constant"]),
        (lambda: NKN(SE(), "Linear1"), ["a list of kernels"]),  # type: ignore[arg-type]
        (lambda: NKN(3, "Linear1"), ["a list of kernels, not 3"]),  # type: ignore[arg-type]
        (lambda: NKN("SE", "Linear1", weights=3), ["1 Linear layers: give"]),  # type: ignore[arg-type]
        (lambda: NKN("SE", "Linear1", weights=[1], bias=[0]).polynomial(top=-1), ["top must be None", "not -1"]),
        (lambda: NKN("SE", "Linear1", weights=[1], bias=[0]).polynomial(top=2.5), ["top must be"]),  # type: ignore[arg-type]
        (lambda: NKN("SE", "Linear2-Poly(1, -1)-Linear1"), ["none below zero"]),
        (lambda: NKN("SE", "Linear2-Poly(a)-Linear1"), ["Poly(a)", "lowest power first"]),
        (lambda: NKN("2.5*SE", "Linear1"), ["2.5*", "whole number", "C(variance=2.5)"]),
        (lambda: NKN("0*SE", "Linear1"), ["0*", "copies"]),
        (lambda: NKN("3", "Linear1"), ["copies of a primitive"]),
        (lambda: NKN("XX", "Linear1"), ["no base kernel 'XX'"]),
        (lambda: NKN([], "Linear1"), ["1 to 1000 primitive"]),
        (lambda: NKN([SE(), 3], "Linear1"), ["primitive kernels"]),  # type: ignore[list-item]
        (lambda: NKN("EXPI + SE", "Linear1", complex=False), ["EXPI is complex", "COS"]),
        (lambda: NKN("EXPI*SE", "Linear1"), ["a primitive of its own"]),
        (lambda: NKN("EXPI", "Linear2-Exp-Linear1"), ["Exp is not offered for complex"]),
        (lambda: NKN("SE", "Linear1", weights=[-1]), ["not below zero"]),
        (lambda: NKN("SE", "Linear1", weights=[math.inf]), ["not below zero"]),
        (lambda: NKN("SE", "Linear2-Linear1", weights=[1]), ["2 Linear layers"]),
        (lambda: NKN("SE", "Linear1", weights=[[1, 2]]), ["takes 1 value"]),
        (lambda: parse("NKN(SE, Linear1, weights2=1)"), ["'weights2'", "weights1, bias1"]),
        (lambda: parse("NKN(SE, Linear1, weights1=1, weights1=2)"), ["twice"]),
        (lambda: parse("NKN(SE, Linear1, fast)"), ["complex, variances"]),
        (lambda: parse("NKN(SE)"), ["the layers after the primitives"]),
        (lambda: parse("NKN"), ["after NKN"]),
        (lambda: parse("NKN(SE, Linear1"), ["to close NKN("]),
        (lambda: parse("NKN(SE, 3)"), ["expected the layers"]),
        (lambda: Network((SE(),), (Linear(1, 2),)), ["takes 2 units, but there are 1"]),
        (lambda: compile_program(bind(EXPI(0) + SE(0), 1)), ["not a kernel on its own", "COS"]),
        (lambda: compile_program(bind(SUMI(0), 1)), ["not a kernel on its own"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(build: Callable[[], object], words: list[str]) -> None:
    with pytest.raises(KernelError) as caught:
        build()
    for word in words:
        assert word in str(caught.value)


def test_a_syntax_error_points_at_the_layers() -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        parse("SE + NKN(SE + LIN, Linear7-Product4-Linear1)")
    assert caught.value.position == len("SE + NKN(SE + LIN, ")


def test_damaged_json_is_told() -> None:
    good = to_json(NKN("SE + LIN", "Linear4-Product2-Exp-Poly(1, 1)-Linear1", weights=[1, 0], bias=[0, 1]))
    assert good["version"] == 2
    assert to_json(SE())["version"] == 1
    body = good["kernel"]["network"]
    for key, wrong in [
        ("layers", 3), ("layers", []), ("layers", [{"linear": True, "parameters": {}}]), ("layers", [{"what": 1}]),
        ("layers", [{"linear": 4, "parameters": {}}, {"product": 3}]), ("layers", [{"linear": 1, "parameters": 0}]),
        ("layers", [{"linear": 1, "parameters": {"weights": {"values": [-1, 1], "fixed": False}}}]),
        ("layers", [{"linear": 1, "parameters": {"slope": {"values": [1], "fixed": False}}}]),
        ("layers", [{"linear": 10**9, "parameters": {}}]), ("primitives", []), ("primitives", "SE"), ("complex", 1),
    ]:  # fmt: skip
        with pytest.raises(KernelError):
            from_json(good | {"kernel": {"network": body | {key: wrong}}})


# ----------------------------------------------------------------------------------------------------------- counting


def test_parameter_counts_are_the_papers() -> None:
    assert layout(bind(time_series_network(), 1)).n_free == 111
    for d in (1, 2, 4, 13):
        assert layout(bind(regression_network(d), d)).n_free == 4 * d + 85


def test_variances_of_primitives_are_held_unless_asked_for() -> None:
    assert layout(bind(NKN(EIGHT, PAPER), 1)).n_free == 107
    assert layout(bind(NKN(EIGHT, PAPER, variances=True), 1)).n_free == 115
    bound = bind(NKN("SE + LIN*PER", "Linear1"), 1)
    assert held_variances(bound) == {0, 1, 2}
    assert values_of(bound)[0] == 1.0


def test_a_network_carries_the_scale_of_a_product() -> None:
    bound = bind(SE(0) * NKN("LIN", "Linear1") * RQ(0) + SE(0), 1)
    assert held_variances(bound) == {0, 1, 3}  # 2 is the Linear layer, 4 the other summand
    pinned = NKN("LIN", "Linear1", weights=[fixed(1)], bias=[fixed(0)])
    assert held_variances(bind(SE(0) * pinned, 1)) == {1}


def test_unused_parts_are_not_computed() -> None:
    program = compile_program(bind(NKN("EXPI + SE", "Linear2-Linear1"), 1))
    assert [node.kind for node in program.nodes if isinstance(node, LeafNode)] == ["COS", "SE"]


# ------------------------------------------------------------------------------------------------- networks set by hand


def test_a_polynomial_of_degree_four_is_represented_exactly() -> None:
    """NKN theorem 3, two modules: 0.3 a b^2 + 2 a^2 b^2 + 0.5 b + 1.5, each term the product of four factors."""
    a, b = SE(0, variance=1, lengthscale=0.7), LIN(0, variance=1, offset=0.3)
    first = {"a": [1, 0], "b": [0, 1], "1": [0, 0]}
    factors = ["a", "b", "b", "1", "a", "a", "b", "b", "b", "1", "1", "1"]
    weights = [w for name in factors for w in first[name]]
    bias = [float(name == "1") for name in factors]
    net = NKN(
        [a, b], "Linear12-Product6-Linear6-Product3-Linear1",
        weights=[weights, np.eye(6).ravel(), [0.3, 2.0, 0.5]], bias=[bias, 0, 1.5],
    )  # fmt: skip
    X = np.linspace(-1, 2, 7)[:, None]
    A, B = slow_gram(a, X), slow_gram(b, X)
    program = compile_program(net)
    gram = fused.gram(program, values_of(net), X)
    np.testing.assert_allclose(gram, 0.3 * A * B**2 + 2 * A**2 * B**2 + 0.5 * B + 1.5, rtol=1e-12)
    terms = {term.name: term.coefficient for term in net.polynomial()}
    assert terms == {"SE(0)^2*LIN(0)^2": 2.0, "1": 1.5, "LIN(0)": 0.5, "SE(0)*LIN(0)^2": 0.3}


def test_example_one_needs_a_single_complex_primitive() -> None:
    """NKN example 1: sum_t (n/2)^2t cos(4^t tau), here 9/4 cos(4 tau) + 81/16 cos(16 tau), from exp(i tau) alone."""
    wave = EXPI(0, variance=1, frequency=1 / (2 * math.pi))
    net = NKN(
        [wave], "Linear4-Product1-Linear8-Product2-Linear1",
        weights=[1, [1, 0, 0, 0, 1, 1, 1, 1], [9 / 4, 81 / 16]], bias=[0, [0, 1, 1, 1, 0, 0, 0, 0], 0],
    )  # fmt: skip
    assert net.complex
    tau = np.linspace(0, 2, 30)[:, None]
    gram = fused.gram(compile_program(net), values_of(net), tau)
    difference = tau - tau.T
    expected = 9 / 4 * np.cos(4 * difference) + 81 / 16 * np.cos(16 * difference)
    np.testing.assert_allclose(gram, expected, atol=1e-11)
    assert [(t.name, t.coefficient) for t in net.polynomial()] == [("EXPI(0)^16", 81 / 16), ("EXPI(0)^4", 9 / 4)]


def test_the_waves_of_appendix_g_must_be_completed_to_be_a_kernel() -> None:
    x = np.linspace(-2, 2, 9)
    as_printed = np.exp(-(np.subtract.outer(x, x) ** 2) / 2) * 2 * np.cos(np.add.outer(x, x))
    assert np.linalg.eigvalsh(as_printed).min() < -0.1
    net = NKN([SUMI(0, variance=2, frequency=1 / (2 * math.pi), offset=0)], "Linear1", weights=[1], bias=[0])
    completed = np.cos(np.add.outer(x, x)) + np.cos(np.subtract.outer(x, x))
    gram = fused.gram(compile_program(net), values_of(net), x[:, None])
    np.testing.assert_allclose(gram, completed, atol=1e-12)


# ----------------------------------------------------------------------------------------------------------- read-out


def test_the_polynomial_says_what_it_cannot_do() -> None:
    with pytest.raises(KernelError, match="its series has no end"):
        NKN("SE", "Linear2-Exp-Linear1", weights=[1, 1], bias=[0, 0]).polynomial()
    with pytest.raises(KernelError, match="terms, more than"):
        NKN("20*SE", "Linear16-Product1-Linear1", weights=[1, 1], bias=[0, 0]).polynomial()
    with pytest.raises(KernelError, match="without them: Linear2, Linear1"):
        NKN("SE", "Linear2-Linear1").polynomial()


def test_products_are_taken_apart_as_in_the_analysis_of_variance() -> None:
    # rows on a grid: the columns are independent, and the parts can be had from centring matrices
    line, other = np.array([0.0, 0.7, 1.1, 2.0, 3.2]), np.array([-1.0, 0.4, 1.5, 1.7])
    X = np.stack(np.meshgrid(line, other, indexing="ij"), axis=-1).reshape(-1, 2)
    primitives = "SE(0, lengthscale=2) + SE(0, lengthscale=5) + LIN(1, offset=0.2) + SE(1, lengthscale=4)"
    weights = [[0.2, 0.4, 0.1, 0.5, 0.3, 0.9, 0.2, 0.7], [1.5]]
    net = NKN(primitives, "Linear2-Product1-Linear1", weights=weights, bias=[[0.3, 0.1], [0.0]])
    found: dict[tuple[bool, bool], float] = {}
    for term in anova_terms(net, X, top=None):
        columns = any(term.powers[:2]), any(term.powers[2:])
        found[columns] = found.get(columns, 0.0) + term.share
    level, rest = [np.full((n, n), 1 / n) for n in (5, 4)], [np.eye(n) - 1 / n for n in (5, 4)]
    bound = bind(net, 2)
    gram = fused.gram(compile_program(bound), values_of(bound), X)
    pairs = {(True, False): (rest[0], level[1]), (False, True): (level[0], rest[1]), (True, True): (rest[0], rest[1])}
    expected = {key: float(np.sum(np.kron(*pair) * gram)) for key, pair in pairs.items()}
    assert found == pytest.approx({key: value / sum(expected.values()) for key, value in expected.items()})


def test_a_product_of_flat_kernels_is_almost_a_sum() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    weights = [[1, 0, 0, 1], [1]]
    net = NKN("SE(0, lengthscale=6) + SE(1, lengthscale=6)", "Linear2-Product1-Linear1", weights=weights, bias=[0, 0])
    assert [term.name for term in net.polynomial()] == ["SE(0)*SE(1)"]
    parts = anova_terms(net, X)
    assert {part.name for part in parts[:2]} == {"SE(0)", "SE(1)"}
    assert parts[2].powers == (1, 1)
    assert parts[2].share < 0.02
    with pytest.raises(KernelError, match="cannot be taken apart"):
        anova_terms(NKN("EXPI(0)", "Linear1", weights=[1], bias=[0]), X)


def test_a_unit_is_a_kernel_of_its_own() -> None:
    net = NKN("SE + LIN", "Linear4-Product2-Linear1", weights=[1, 1], bias=[0, 0])
    assert net.unit(1, 0).architecture == "Linear4-Product2-Linear1"
    assert [term.name for term in net.unit(1, 1).polynomial()] == ["SE*LIN", "LIN^2", "SE^2"]
    with pytest.raises(KernelError, match="there is no unit 2 in layer 1"):
        net.unit(1, 2)


def test_a_network_is_not_told_as_a_product() -> None:
    term = bind(parse("NKN(SE + PER + C, Linear2-Product1-Linear1) * LIN(1)"), 2)
    columns = [Column("month"), Column("price")]
    assert phrase(term, columns) == "a function of month and price learned by a network of SE, PER, C and LIN"
    assert "as the network has learned" in continuation(term, columns, None)
    assert title(term, columns) == "Function learned by a network"


def test_copies_are_numbered_in_names() -> None:
    assert NKN("2*SE + LIN*PER + LIN", "Linear1").primitive_names() == ("SE[1]", "SE[2]", "(LIN * PER)", "LIN")


def test_patterns_have_one_entry_for_each_unit() -> None:
    net = NKN([SE(0, variance=1, lengthscale=1)], "Linear4-Product2-Linear1", weights=[1, 1], bias=[0, 0])
    patterns = unit_patterns(net, np.linspace(0, 3, 5)[:, None], np.zeros((1, 1)))
    assert [(p.layer, p.values.shape) for p in patterns] == [
        ("primitives", (1, 5, 1)), ("Linear4", (4, 5, 1)), ("Product2", (2, 5, 1)), ("Linear1", (1, 5, 1)),
    ]  # fmt: skip
    assert patterns[1].names == ("Linear4[1]", "Linear4[2]", "Linear4[3]", "Linear4[4]")
    with pytest.raises(KernelError, match="fit it first"):
        unit_patterns(NKN("SE", "Linear1"), np.zeros((2, 1)))


# ------------------------------------------------------------------------------------------------------------ fitting


def seasonal(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    x = 2000 + np.arange(rows) / 12
    return x[:, None], 100 + 3 * (x - 2000) + 4 * np.sin(2 * np.pi * x)


@pytest.mark.parametrize("text", [f"NKN({EIGHT}, {PAPER})", "NKN(2*EXPI + SUMI + SE, Linear4-Product2-Linear1) + LIN"])
def test_starts_lie_within_bounds_and_copies_differ(text: str) -> None:
    X, y = seasonal()
    data = Data((X - X.mean()) / X.std(), (y - y.mean()) / y.std())
    bound = bind(parse(text), 1)
    shape = layout(bound)
    starts = Starts(bound, shape, data)
    bounds = free_bounds(bound, shape, Frame.of(data.X))
    assert bounds.shape == (shape.n_free, 2)
    rng = np.random.default_rng(0)
    for values in (starts.typical(), starts.draw(rng), starts.neutral()):
        free = shape.to_free(values)
        assert np.isfinite(free).all()
        assert ((free >= bounds[:, 0] - 1e-9) & (free <= bounds[:, 1] + 1e-9)).all()
        for name in ("lengthscale", "period", "frequency", "offset"):
            drawn = [(s.symbol, *values[s.where]) for s in shape.slots if s.spec.name == name]
            assert len(set(drawn)) == len(drawn)


def test_a_network_is_fitted_saved_and_loaded(tmp_path: Path) -> None:
    X, y = seasonal()
    text = "NKN(SE + PER + 2*LIN, Linear4-Product2-Linear1)"
    model = mercer.GPRegressor(text, restarts=2, priors="weak", random_state=0).fit(X[:48], y[:48])
    assert np.max(np.abs(model.predict(X[48:]) - y[48:])) < 2.0
    assert model.n_parameters_ == layout(bind(parse(text), 1)).n_free + 1
    parts = model.decompose(X)
    np.testing.assert_allclose(sum(part.mean for part in parts), model.predict(X), rtol=1e-8)
    model.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.kernel_ == model.kernel_
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-9)


def test_hand_set_zeros_stay_where_they_are_fixed() -> None:
    X, y = seasonal(30)
    kernel = NKN("SE + LIN", "Linear2-Product1-Linear1", weights=[fixed([1, 0, 0, 1]), None], bias=[fixed(0), fixed(0)])
    model = mercer.GPRegressor(kernel, restarts=1, random_state=0).fit(X, y)
    assert isinstance(model.kernel_, Network)
    weights = model.kernel_.linears[0].parameter("weights").values
    assert weights is not None
    assert (weights[1], weights[2]) == (0.0, 0.0)


def test_network_only_units_are_not_base_kernels_of_a_search() -> None:
    assert "EXPI" not in REGISTRY
    assert "SUMI" not in REGISTRY
