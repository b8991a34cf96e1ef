"""Functionals in explanations and reports: the nearest kernels, the spectrum, the picture and the page."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor, KernelFunctional
from mercer.explain.functionals import explain_functionals, find_nearest, spectrum_of
from mercer.explain.wording import Column, Vocabulary
from mercer.explain.words import Narrator
from mercer.kernels import KF, M32, PER, SE
from mercer.report.networks import shape_figure

COLUMN = (Column("x", None, 0.0, 10.0),)
NARRATOR = Narrator(Vocabulary("y", COLUMN))


def test_the_nearest_kernels_of_kernels_that_are_known() -> None:
    at = np.linspace(0.0, 5.0, 121)
    length, curve = find_nearest("SE", at, np.exp(-0.5 * (at / 0.7) ** 2))
    assert abs(length - 0.7) < 1e-4
    assert np.abs(curve - np.exp(-0.5 * (at / 0.7) ** 2)).max() < 1e-4
    (told,) = explain_functionals(KF(M32(0, variance=2.0, lengthscale=1.3), [1], [1.0]), COLUMN, None, NARRATOR)
    assert "Matern 3/2 for all practical purposes" in told.sentence
    columns = tuple(Column(f"x{i}", None, 0.0, 10.0) for i in range(3))
    (plain,) = explain_functionals(
        KF(SE(0, 1, 2, variance=1.0, lengthscale=[1.0, 2.0, 3.0]), [1], [1.0]), columns, None, NARRATOR
    )
    assert "SE for all practical purposes: SE with lengthscale 1.00 is off by at most 0.00" in plain.sentence
    assert "one half at 1.18 " in plain.sentence  # sqrt(2 log 2)
    assert told.values[0] == 1.0
    assert told.distances[-1] <= 10.0
    (mixed,) = explain_functionals(
        KF(M32(0, variance=2.0, lengthscale=9.0), [1, 200], [0.5, 0.5]), COLUMN, None, NARRATOR
    )
    assert "none of the usual kernels" in mixed.sentence


def test_the_spectrum_of_a_wave_has_its_peak_at_its_frequency() -> None:
    wave = KF(PER(0, variance=1.0, period=1.5, lengthscale=1.0), [1], [1.0])
    frequencies, density = spectrum_of(wave, 15.0)
    assert abs(frequencies[int(np.argmax(density))] - 1 / 1.5) < 0.03
    smooth = KF(SE(0, variance=1.0, lengthscale=1.0), [1], [1.0])
    frequencies, density = spectrum_of(smooth, 10.0)
    truth = np.exp(-2 * np.pi**2 * frequencies**2)
    assert np.abs(density - truth).max() < 0.05


@pytest.fixture(scope="module")
def model() -> GPRegressor:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (50, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=50)
    learner = KernelFunctional(subspaces=1, iterations=1, tuning=1, hyperkernel="matern-harmonic")
    return GPRegressor(learner, random_state=0).fit(X, y)


def test_explanation_and_report(model: GPRegressor, tmp_path) -> None:
    told = model.explain()
    assert "learned without a formula" in told.components[0].sentence
    assert "shape" in str(told)
    assert "Bayesian optimisation in a space of kernels" in " ".join(str(told).split())
    assert told.to_json()["functionals"][0]["unit"] == "distance in lengthscales"
    model.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "The shape of the kernel" in page
    assert page.count("nearest SE") >= 2


@pytest.mark.parametrize("width", [358, 900])
def test_the_picture_has_both_panels_and_nothing_is_cut_off(model: GPRegressor, width: int) -> None:
    figure = shape_figure(model.explain().functionals[0], width=width)
    assert len(figure.axes) == 2
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= -1
        assert box.x1 <= figure.bbox.x1 + 1
