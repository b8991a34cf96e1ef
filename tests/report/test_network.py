"""The report of a model with a network in its kernel, and the numbers behind it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mercer.compute.evaluate import unit_patterns
from mercer.compute.fused import gram
from mercer.compute.program import compile_program
from mercer.estimators import GPRegressor
from mercer.explain.networks import explain_networks, networks_of, unit_curves
from mercer.explain.subject import subject_of
from mercer.explain.words import Narrator
from mercer.kernels.blend import Blend, under, within
from mercer.kernels.expression import contains
from mercer.kernels.parameters import values_of
from mercer.report.diagnostics import search_figure
from mercer.report.networks import network_figure, units_figure

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")


@pytest.fixture(scope="module")
def beside() -> GPRegressor:
    """A network that is a factor, on two of three columns, and a summand without one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (50, 3))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=50)
    kernel = "NKN(SE(0) + LIN(1), Linear2-Product1-Linear1)*SE(0) + LIN(2)"
    return GPRegressor(kernel, restarts=1, max_iterations=30, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def changing() -> GPRegressor:
    """A network that holds up to a change only, and a factor that holds everywhere."""
    x = np.linspace(0, 10, 60)
    y = np.where(x < 6, np.sin(2 * x), 0.3 * x) * (1 + x) + 0.1 * np.random.default_rng(0).normal(size=60)
    kernel = "CP(NKN(SE + LIN, Linear2-Product1-Linear1), SE)*LIN"
    return GPRegressor(kernel, restarts=1, max_iterations=30, random_state=0).fit(x[:, None], y)


# -------------------------------------------------------------------------------------------------------- the numbers


def test_shares_of_all_terms_add_up_to_one(trained: GPRegressor, beside: GPRegressor, changing: GPRegressor) -> None:
    for model, constants in ((trained, 0), (beside, 1), (changing, 1)):  # a constant times a curve is part of it
        (told,) = model.explain().networks
        assert told.count == {4: 15, 2: 6}[len(told.primitives)]
        assert len(told.terms) == told.count - 1 + constants
        assert [term.words for term in told.terms if term.name == "1"] == ["a constant"] * constants
        assert sum(term.share for term in told.terms) == pytest.approx(1.0, abs=1e-3)
        assert told.rest == pytest.approx(0.0, abs=1e-3)
        assert sum(kind.share for kind in told.kinds) == pytest.approx(1.0, abs=0.05)


def test_share_of_a_term_is_that_of_its_posterior(beside: GPRegressor) -> None:
    """Against a slow reference: the kernel of a term as a summand of its own."""
    subject = subject_of(beside.fitted_)
    (found,) = networks_of(subject)
    (told,) = explain_networks(subject, Narrator(subject.vocabulary))
    se, lin = found.scaled.primitives
    (term,) = [t for t in found.scaled.polynomial(None) if t.powers == (1, 1)]
    assert found.beside is not None
    kernel = se * lin * found.beside
    program, values = compile_program(kernel), values_of(kernel)
    X = subject.data.X
    own = term.coefficient * subject.posterior.predict_part(program, values, X).mean
    whole = subject.posterior.predict_part(found.part.program, found.part.values, X).mean
    expected = np.cov(own, whole)[0, 1] / np.var(whole, ddof=1)
    shown = next(t for t in told.terms if t.name == "SE of column 0 · LIN of column 1")
    assert shown.share == pytest.approx(expected, rel=1e-6)


def test_a_network_under_a_change_is_told(changing: GPRegressor, tmp_path: Path) -> None:
    subject = subject_of(changing.fitted_)
    (found,) = networks_of(subject)
    (told,) = explain_networks(subject, Narrator(subject.vocabulary))
    assert found.beside is not None
    assert contains(found.beside, Blend)
    se, lin = found.scaled.primitives
    (term,) = [t for t in found.scaled.polynomial(None) if t.powers == (1, 1)]
    kernel = under(found.beside, se * lin * within(found.beside))
    X = subject.data.X
    own = term.coefficient * subject.posterior.predict_part(compile_program(kernel), values_of(kernel), X).mean
    whole = subject.posterior.predict_part(found.part.program, found.part.values, X).mean
    shown = next(t for t in told.terms if t.name == "SE · LIN")
    assert shown.share == pytest.approx(np.cov(own, whole)[0, 1] / np.var(whole, ddof=1), rel=1e-6)
    changing.report(tmp_path / "report.html")
    assert "The network Linear2-Product1-Linear1" in (tmp_path / "report.html").read_text()


def test_coefficients_are_those_of_the_polynomial(trained: GPRegressor) -> None:
    coefficients = {term.coefficient for term in trained.kernel_.polynomial(None)}  # type: ignore[attr-defined]
    (told,) = trained.explain().networks
    assert {term.coefficient for term in told.terms} <= coefficients


def test_what_flows_in_flows_on(trained: GPRegressor) -> None:
    (told,) = trained.explain().networks
    assert [layer.symbol for layer in told.layers] == ["Linear4", "Product2", "Linear1"]
    assert told.layers[-1].units == (1.0,)
    for layer in told.layers:
        for unit, flow in enumerate(layer.units):
            into = [line[2] for line in layer.lines if line[1] == unit]
            if layer.kind == "product":
                assert into == pytest.approx([flow, flow])
            else:
                assert sum(into) <= flow + 1e-9


def test_curves_of_units(trained: GPRegressor) -> None:
    subject = subject_of(trained.fitted_)
    (found,) = networks_of(subject)
    layers = unit_curves(subject, found.scaled, ("a", "b", "c", "d"))
    assert [title for title, _ in layers] == ["Primitives", "Linear4", "Product2", "Linear1"]
    last = layers[-1][1][0]
    rows = subject.rows_along(0, last.at)
    whole = unit_patterns(found.scaled, rows)[-1].values[0]
    assert whole == pytest.approx(gram(compile_program(found.scaled), values_of(found.scaled), rows))
    middle = np.eye(len(rows)) - 1.0 / len(rows)
    centred = (middle @ whole @ middle)[-1]
    assert last.values == pytest.approx(centred / centred[-1], abs=1e-6)


def test_judged_by_rows_left_out(trained: GPRegressor) -> None:
    told = trained.explain()
    assert told.structure.found
    assert told.structure.gain > 6.0
    rng = np.random.default_rng(0)
    noise = GPRegressor("NKN(SE + LIN, Linear2-Linear1)", restarts=1, max_iterations=40, random_state=0)
    assert not noise.fit(np.arange(40.0)[:, None], rng.normal(size=40)).explain().structure.found


def test_words(trained: GPRegressor) -> None:
    told = trained.explain()
    text = " ".join(str(told).split())
    assert "This is a network of 2 SE, 1 PER and 1 LIN with the layers Linear4-Product2-Linear1." in text
    assert "Multiplied out, it is a sum of 15 products of them" in text
    assert "The network was trained from 2 starts" in text
    assert told.search is not None
    assert {told.search.path[0].kernel, *(r.kernel for r in told.search.runners_up)} <= {"start 1", "start 2"}


def test_no_polynomial_is_said(trained: GPRegressor) -> None:
    X, y = trained.X_train_, trained.y_train_
    model = GPRegressor("NKN(SE + LIN, Linear2-Exp-Linear1)", restarts=1, max_iterations=5).fit(X, y)
    (told,) = model.explain().networks
    assert told.terms == ()
    assert "its series has no end" in told.polynomial_sentence
    assert network_figure(model.fitted_, told) is not None


@pytest.mark.parametrize(
    "kernel",
    [
        "NKN(2*EXPI + SE, Linear4-Product2-Linear1) + LIN",
        "NKN(SUMI + SE, Linear2-Product1-Linear1)",
        "NKN(EXPI, Linear1)",
    ],
)
def test_waves_that_only_networks_have_are_explained(kernel: str, trained: GPRegressor, tmp_path: Path) -> None:
    model = GPRegressor(kernel, restarts=1, max_iterations=5).fit(trained.X_train_, trained.y_train_)
    told = model.explain()
    assert "learned by a network of" in str(told)
    assert "Beyond the data it goes on as the network has learned" in " ".join(c.continuation for c in told.components)
    model.report(tmp_path / "waves.html")
    assert "Linear1" in (tmp_path / "waves.html").read_text()


# ------------------------------------------------------------------------------------------------------------ the page


def test_page(trained: GPRegressor, network_page: Path) -> None:
    html = network_page.read_text(encoding="utf-8")
    (told,) = trained.explain().networks
    assert '<section id="network">' in html
    for name in ("network0-wide", "network0-narrow", "units0-wide", "units0-narrow"):
        assert f'id="{name}-title"' in html
    table = html[html.index('<table class="terms">') :]
    table = table[: table.index("</table>")]
    assert re.findall(r"<strong>(.*?)</strong>", table) == [term.name for term in told.terms]
    assert "SE 1 · PER" in table
    assert "Which kernel beat which" not in html
    assert "The path of the search" not in html  # starts lead nowhere
    assert search_figure(trained.fitted_, "score") is None


def test_distilled_page(trained: GPRegressor, tmp_path: Path) -> None:
    model = trained.distil(time_budget=1e-9)
    model.report(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<section id="network">' not in html
    assert "The path of the search" in html
    assert "steps from the network" in html
    assert "was distilled from a network of" in html


def test_wide_layers_are_cut(beside: GPRegressor) -> None:
    (told,) = beside.explain().networks
    texts = [text.get_text() for text in network_figure(beside.fitted_, told, most_units=1).axes[0].texts]
    assert "Linear2 (1 of 2 drawn)" in texts
    assert len(units_figure(beside.fitted_, told, 0, most_units=1).axes) == 4


def test_several_columns_are_named(beside: GPRegressor) -> None:
    (told,) = beside.explain().networks
    titles = [axes.get_title(loc="left") for axes in units_figure(beside.fitted_, told, 0, width=400).axes]
    assert titles[0].endswith("column 0")
    assert titles[1].endswith("column 1")


def test_few_terms_are_enough(trained: GPRegressor) -> None:
    subject = subject_of(trained.fitted_)
    (told,) = explain_networks(subject, Narrator(subject.vocabulary), shown=3)
    assert len(told.terms) <= 3
    assert 0 < told.rest < 1
    assert "the largest" in told.polynomial_sentence
