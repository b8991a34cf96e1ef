"""The report of a model with a change surface in its kernel."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mercer import ChangeSurface, GPRegressor
from mercer.datasets import nile
from mercer.report.changes import _own_predictions, change_figure
from mercer.report.html import report_html
from mercer.report.view import View

QUICK = {"draws": 4, "kernel_draws": 4, "restarts": 2}


@pytest.fixture(scope="module")
def flow() -> GPRegressor:
    table = nile()
    return GPRegressor(ChangeSurface(kernel="C", **QUICK), random_state=0).fit(table[["year"]], table["flow"])


def test_the_page_tells_where_it_changes(flow: GPRegressor) -> None:
    page = report_html(flow.fitted_)
    assert "Where it changes" in page
    assert "regime 1 gives way to regime 2" in page
    assert "95 % interval" in page.replace("\u00a0", " ")
    assert "what each regime would say by itself" in page
    assert "(best)" in page


def test_two_numbers_called_bic_are_explained(flow: GPRegressor) -> None:
    """A search counts the place of a change twice and a sharp width not at all, and the page says so."""
    page = report_html(flow.fitted_)
    assert flow.change_ is not None
    counted = flow.change_.evidence[-1].bic
    assert counted == pytest.approx(flow.bic_ + np.log(100) - np.log(100))  # the place once more, the width not
    assert f"{counted:.1f}" in page
    assert f"{flow.bic_:.2f}" in page
    assert page.count("counts as two parameters and its width as none where it is sharp: this BIC may differ") == 2
    words = " ".join(str(flow.explain()).split())
    assert "compared by BIC, in which the place of a change counts as two parameters" in words


def test_regimes_are_drawn_where_they_have_a_say(flow: GPRegressor) -> None:
    figure = change_figure(flow.fitted_, width=700)
    assert figure is not None
    series, shares = figure.axes
    assert {"regime 1, until about 1898"} <= {line.get_label() for line in series.get_lines()}
    assert shares.get_ylabel() == "share of the regime"
    narrow = change_figure(flow.fitted_, width=358, density=96)
    assert narrow is not None
    assert "regime 1" in {line.get_label() for line in narrow.axes[0].get_lines()}


def test_each_regime_predicts_its_own_level(flow: GPRegressor) -> None:
    view = View(flow.fitted_)
    column = view.varying[0]
    assert flow.change_ is not None
    before, after = _own_predictions(view, flow.change_, column)
    assert np.nanmean(before) == pytest.approx(1098, abs=10)
    assert np.nanmean(after) == pytest.approx(850, abs=10)
    assert np.isnan(before[-1])
    mean = view.prediction(column, include_noise=True).mean
    np.testing.assert_allclose(before[0], mean[0], rtol=1e-3)


def test_a_map_over_two_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (60, 2))
    y = np.where(X[:, 0] > 0.5, 2.0, 0.0) + 0.1 * rng.normal(size=60)
    learner = ChangeSurface(kernel="C", surface="linear", **QUICK)
    model = GPRegressor(learner, random_state=0).fit(pd.DataFrame(X, columns=["east", "north"]), y)
    figure = change_figure(model.fitted_, width=700)
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes[:2]] == ["east", "east"]


def test_no_picture_without_a_change() -> None:
    table = nile()
    model = GPRegressor("C", restarts=1).fit(table[["year"]], table["flow"])
    assert change_figure(model.fitted_) is None
    assert "Where it changes" not in report_html(model.fitted_)
