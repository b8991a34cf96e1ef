"""What a notebook shows: mathematics that a browser reads, text that cannot be code, pictures and bars."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from matplotlib.axes import Axes

import mercer
from mercer.errors import InputError
from mercer.explain.wording import percent
from mercer.fitting.minimise import Progress
from mercer.kernels.expression import Expression
from mercer.kernels.leaf import LEAVES
from mercer.kernels.mathml import kernel_to_html, tex_to_math, wrap_math
from mercer.report.progress import write_state
from tests.strategies import deep_kernels

EVIL = '<script>alert("x")</script>'
VOID = ("<br>",)


def read(html: str) -> ElementTree.Element:
    """Parse what must be well-formed."""
    for tag in VOID:
        html = html.replace(tag, "")
    return ElementTree.fromstring(f"<all>{html}</all>")


@pytest.fixture(scope="module")
def models() -> dict[str, object]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({EVIL: rng.uniform(size=30), "b": rng.uniform(size=30)})
    y = pd.Series(np.sin(5 * X[EVIL]) + X["b"], name="a & <b>")
    several = mercer.GPRegressor("SE + LIN", restarts=1, random_state=0).fit(X, y)
    one = mercer.GPRegressor("SE + LIN", restarts=1, random_state=0).fit(X[["b"]], y)
    classes = mercer.KernelSVC("rbf", random_state=0).fit(X, np.where(y > y.median(), EVIL, "low"))
    grid = mercer.GridRegressor("SE", restarts=1, max_iterations=5, random_state=0).fit(rng.normal(size=(5, 6)))
    return {"several": several, "one": one, "classes": classes, "grid": grid}


@pytest.mark.parametrize("name", ["several", "one", "classes", "grid"])
def test_a_fitted_model_shows_its_kernel_as_mathematics(models: dict[str, object], name: str) -> None:
    shown = models[name]._repr_mimebundle_()  # type: ignore[attr-defined]
    assert shown["text/plain"].startswith(type(models[name]).__name__)
    assert shown["text/html"] == models[name]._repr_html_()  # type: ignore[attr-defined]
    page = read(shown["text/html"])
    assert page.findall(".//{*}math")
    assert not page.findall(".//script")
    assert EVIL not in shown["text/html"]


def test_a_bound_that_a_fit_reached_is_named_as_the_user_writes_it() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(size=30), "z": rng.uniform(size=30)})
    model = mercer.GPRegressor("SE(a) + LIN(z)", restarts=1, random_state=0).fit(X, np.sin(9 * X["a"]))
    assert model.status_ == "at a bound"
    text = "".join(read(model._repr_html_()).itertext())
    assert "of LIN(z) at its lower bound" in text
    assert "1:LIN" not in text


def test_a_classifier_and_its_explanation_say_the_same_error(models: dict[str, object]) -> None:
    model: Any = models["classes"]
    error = percent(model.explain().error)
    assert f"{error} of rows left out" in "".join(read(model._repr_html_()).itertext())


def test_before_it_is_fitted_a_model_shows_its_settings() -> None:
    shown = mercer.GPRegressor("auto")._repr_mimebundle_()
    assert "sk-estimator" in shown["text/html"]


@pytest.mark.parametrize("name", ["several", "one", "classes"])
def test_an_explanation_shows_its_sentences(models: dict[str, object], name: str) -> None:
    explanation = models[name].explain()  # type: ignore[attr-defined]
    html = explanation._repr_html_()
    assert not read(html).findall(".//script")
    assert explanation.headline in "".join(read(html).itertext())
    assert EVIL not in html


@pytest.mark.parametrize(
    ("kernel", "said", "unsaid"),
    [
        ("SE", ["the variance", "the lengthscale", "the distance"], ["the period", "the offset"]),
        ("LIN + CAT(1)", ["the offset", "the correlation", "one where they are the same"], ["the lengthscale"]),
        ("SM2", ["the bandwidth", "the weights", "the frequency"], ["from the origin"]),
        ("RW + IRW", ["from the origin", "the larger distance"], ["the bandwidth", "the distance,"]),
        ("RQ*CPER", ["which sets the tails", "a Bessel function", "the period"], ["the origin"]),
    ],
)
def test_the_legend_explains_the_letters_that_are_there(kernel: str, said: list[str], unsaid: list[str]) -> None:
    text = "".join(read(mercer.parse(kernel)._repr_html_()).itertext())
    assert all(words in text for words in said)
    assert not any(words in text for words in unsaid)
    assert "weights 1" not in "".join(read(mercer.parse("LIN(0, weights=1)")._repr_html_()).itertext())


@given(deep_kernels())
@settings(max_examples=30, deadline=None)
def test_every_kernel_is_mathematics(kernel: Expression) -> None:
    page = read(kernel._repr_html_())
    text = "".join(page.itertext())
    assert "k(x,x′)=" in text
    for leaf in list(kernel.leaves())[:3]:
        assert leaf.symbol in text


@pytest.mark.parametrize("symbol", sorted(LEAVES))
def test_every_formula_is_read_to_its_end(symbol: str) -> None:
    text = "".join(read(wrap_math(tex_to_math(LEAVES[symbol].tex))).itertext())
    assert "\\" not in text
    assert "{" not in text
    assert text.startswith("σ2")


def test_formulas_have_roots_fractions_and_powers() -> None:
    found = read(wrap_math(tex_to_math(r"\frac{a_1^2}{\sqrt{3}} - \unknown")))
    assert [len(found.findall(f".//{{*}}{tag}")) for tag in ("mfrac", "msqrt", "msubsup", "mtext")] == [1, 1, 1, 1]


def test_a_network_is_cut_and_counted() -> None:
    kernel = mercer.NeuralKernelNetwork().network([0])
    text = "".join(read(kernel_to_html(kernel)).itertext())
    assert "…" in text or len(text) < 2000


def test_one_input_is_one_picture_and_several_are_more(models: dict[str, object]) -> None:
    matplotlib.use("agg")
    one, several = models["one"], models["several"]
    assert isinstance(one, mercer.GPRegressor)
    assert isinstance(several, mercer.GPRegressor)
    axes = one.plot()
    assert isinstance(axes, Axes)
    assert axes.get_xlabel() == "b"
    assert len(several.plot()) == 3
    parts = one.plot_components(width=500)
    assert len(parts) == len(one.explain().main_components)
    assert matplotlib.pyplot.fignum_exists(axes.figure.number)
    matplotlib.pyplot.close("all")
    with pytest.raises(InputError, match="width must be a whole number of pixels"):
        one.plot(width=10)


def test_a_bar_in_a_notebook_says_how_far_it_is() -> None:
    state = Progress(3, 8, "kernels", mercer.parse("SE(0)*PER(0)"), seconds_left=12.0, depth=1)
    page = read(write_state(state, EVIL, None))
    assert "3 of 8 kernels, 12 s left" in "".join(page.itertext())
    assert "SE" in "".join(page.itertext())
    bar = page.find(".//progress")
    assert bar is not None
    assert bar.attrib == {"value": "3", "max": "8"}


def test_a_bar_can_be_asked_for_where_nobody_sees_it() -> None:
    X = np.linspace(0, 1, 12)[:, None]
    model = mercer.GPRegressor("SE", restarts=1, random_state=0).fit(X, X[:, 0] ** 2, progress=True)
    assert model.kernel_ is not None
    with pytest.raises(InputError, match="progress must be True"):
        mercer.GPRegressor("SE").fit(X, X[:, 0], progress="bar")


def test_a_kernel_of_many_parts_is_mathematics() -> None:
    page = read(mercer.parse(" + ".join(f"SE({column})" for column in range(40)))._repr_html_())
    assert "more base kernels" in "".join(page.itertext())
