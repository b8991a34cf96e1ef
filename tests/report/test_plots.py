"""Pictures: the right panels and labels, nothing cut off, no global state."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from mercer.datasets import airline
from mercer.errors import InputError
from mercer.estimators import GPRegressor
from mercer.learners.grammar import GrammarSearch
from mercer.report.diagnostics import residuals_figure, search_figure
from mercer.report.plots import MOST_PANELS, components_figure, fit_figure, save_figure


@pytest.fixture(scope="module")
def series() -> GPRegressor:
    data = airline().iloc[:60]
    inputs, target = data[["month"]], data["passengers"].astype(float)
    return GPRegressor("SE*PER + LIN", random_state=0, restarts=1).fit(inputs, target)


@pytest.mark.parametrize("name", [r"$\frac{1}{0$", "$x$", "a$b", "_x", "$" * 3])
def test_names_are_shown_as_they_are(name: str) -> None:
    """Matplotlib would take what stands between dollars for mathematics."""
    x = np.linspace(0.0, 6.0, 20)
    target = pd.Series(np.sin(x), name=name)
    model = GPRegressor("SE", random_state=0, restarts=1).fit(pd.DataFrame({name: x}), target)
    for figure in (fit_figure(model.fitted_), components_figure(model.fitted_, model.explain(), width=400)):
        assert figure.axes[-1].get_xlabel() == name
        assert name in figure.axes[-1].get_ylabel()


def test_a_very_long_name_is_cut_short() -> None:
    x = np.linspace(0.0, 6.0, 20)
    model = GPRegressor("SE", random_state=0, restarts=1).fit(pd.DataFrame({"x" * 300: x}), np.sin(x))
    assert fit_figure(model.fitted_).axes[0].get_xlabel() == "x" * 39 + "…"


@pytest.fixture(scope="module")
def table() -> GPRegressor:
    rng = np.random.default_rng(0)
    inputs = pd.DataFrame({
        "heat": rng.uniform(0, 30, 40),
        "region": rng.choice(["north", "south", "a place with a very long name"], 40),
        "day": pd.date_range("2023-01-01", periods=40),
    })  # fmt: skip
    target = pd.Series(np.sin(inputs["heat"] / 5) + (inputs["region"] == "south"), name="energy use")
    return GPRegressor("SE + LIN", random_state=0, restarts=1).fit(inputs, target)


def assert_nothing_is_cut_off(figure: Figure) -> None:
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    width, height = figure.canvas.get_width_height()
    texts = [t for axes in figure.axes for t in (axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label)]
    texts += [t for legend in figure.legends for t in legend.get_texts()]
    for text in texts:
        if text.get_text():
            box = text.get_window_extent(renderer)
            assert -1 <= box.x0 <= box.x1 <= width + 1, text.get_text()
            assert -1 <= box.y0 <= box.y1 <= height + 1, text.get_text()


def labels_do_not_overlap(figure: Figure) -> bool:
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for axes in figure.axes:
        boxes = [t.get_window_extent(renderer) for t in axes.get_xticklabels() if t.get_text() and not t.get_rotation()]
        boxes.sort(key=lambda box: box.x0)
        low, high = axes.get_window_extent(renderer).intervalx
        boxes = [box for box in boxes if low - 5 <= (box.x0 + box.x1) / 2 <= high + 5]
        if any(left.x1 > right.x0 for left, right in itertools.pairwise(boxes)):
            return False
    return True


@pytest.mark.parametrize("width", [1200, 390])
def test_one_date_column(series: GPRegressor, width: int) -> None:
    figure = fit_figure(series.fitted_, width=width)
    assert figure.canvas.get_width_height()[0] == width
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("month", "passengers")
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["data", "mean", "95 % of new observations", "beyond the data"]
    assert_nothing_is_cut_off(figure)
    assert labels_do_not_overlap(figure)
    parts = components_figure(series.fitted_, series.explain(), width=width)
    assert len(parts.axes) == 2
    assert_nothing_is_cut_off(parts)
    assert labels_do_not_overlap(parts)


@pytest.mark.parametrize("width", [1200, 390])
def test_several_columns(table: GPRegressor, width: int) -> None:
    figure = fit_figure(table.fitted_, width=width)
    assert figure.axes[0].get_title(loc="left") == "Leave-one-out check"
    assert {axes.get_xlabel() for axes in figure.axes[1:]} == {"heat", "region", "day"}
    assert_nothing_is_cut_off(figure)
    assert labels_do_not_overlap(figure)
    parts = components_figure(table.fitted_, table.explain(), width=width)
    assert len(parts.axes) == 2
    assert_nothing_is_cut_off(parts)


@pytest.mark.filterwarnings("ignore::mercer.FitWarning")
def test_many_columns_and_plain_numbers(tmp_path: Path) -> None:
    numbers = np.random.default_rng(2).normal(size=(10, 14))
    inputs = pd.DataFrame(numbers, columns=[f"input {i}" for i in range(14)])
    target = pd.Series(1e12 * numbers[:, 0], name="y")
    model = GPRegressor("LIN", random_state=0, restarts=1).fit(inputs, target)
    figure = fit_figure(model.fitted_)
    assert len(figure.axes) == 1 + MOST_PANELS
    assert_nothing_is_cut_off(figure)
    save_figure(figure, tmp_path / "many.svg")
    assert (tmp_path / "many.svg").read_text().startswith("<?xml")
    with pytest.raises(InputError, match="cannot write"):
        save_figure(figure, tmp_path / "absent" / "many.png")


def test_one_column_of_categories() -> None:
    inputs = pd.DataFrame({"shop": list("aabbcc" * 3)})
    target = pd.Series(np.arange(18.0) % 6, name="y")
    model = GPRegressor("LIN", random_state=0, restarts=1).fit(inputs, target)
    figure = fit_figure(model.fitted_)
    assert [t.get_text() for t in figure.axes[1].get_xticklabels()] == ["a", "b", "c"]
    assert len(components_figure(model.fitted_, model.explain()).axes) == 1


@pytest.mark.parametrize("width", [760, 358])
def test_what_is_left_over(series: GPRegressor, table: GPRegressor, width: int) -> None:
    ordered = residuals_figure(series.fitted_, width=width, density=100)
    assert [axes.get_xlabel() for axes in ordered.axes] == [
        "month", "rows apart", "period (months)", "error in units of the band",
    ]  # fmt: skip
    assert_nothing_is_cut_off(ordered)
    assert labels_do_not_overlap(ordered)
    dated = residuals_figure(
        table.fitted_, width=width, density=100
    )  # one column of dates among others gives the order
    assert dated.axes[0].get_xlabel() == "day"
    numbers = np.random.default_rng(0).normal(size=(20, 2))
    loose = GPRegressor("LIN", random_state=0, restarts=1).fit(numbers, numbers[:, 0] + 0.1 * numbers[:, 1] ** 2)
    assert [axes.get_xlabel() for axes in residuals_figure(loose.fitted_, width=width).axes] == [
        "fitted the target", "error in units of the band",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [760, 358])
def test_the_path_of_a_search(series: GPRegressor, width: int) -> None:
    assert search_figure(series.fitted_, "BIC", width=width) is None
    data = airline().iloc[:40]
    search = GrammarSearch(bases=("SE", "LIN"), max_depth=2, restarts=1)
    model = GPRegressor(search, random_state=0).fit(data[["month"]], data["passengers"])
    figure = search_figure(model.fitted_, "BIC", width=width, density=100)
    assert figure is not None
    (axes,) = figure.axes
    way = axes.lines[0]
    assert list(way.get_ydata())[-1] == 0.0
    assert len(way.get_xdata()) == len(model.explain().search.path)
    dots = sum(len(drawn.get_offsets()) for drawn in axes.collections)
    assert dots == sum(np.isfinite(candidate.score) for candidate in model.candidates_)
    assert_nothing_is_cut_off(figure)


def test_no_global_state() -> None:
    script = "import sys, mercer.report.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
