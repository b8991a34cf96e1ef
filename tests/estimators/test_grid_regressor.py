"""GridRegressor: fills holes, extends edges, keeps its word about units, files and bad input."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer
from mercer.errors import DataWarning, FitWarning, InputError, KernelError, ModelFileError, TooLargeError
from mercer.estimators.grid import GridRegressor
from mercer.fitting.grid import GridFitPolicy, beside_holes, fit_grid, line_spectra, lines_along, tile
from mercer.fitting.minimise import Progress
from mercer.fitting.problem import FitOptions
from mercer.inference.contract import Data, Evidence
from mercer.inference.grid import Grid
from mercer.kernels import bind, parse

Array = NDArray[np.float64]


def waves(holes: bool = True, shape: tuple[int, int] = (24, 20), seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    truth = np.sin(np.arange(shape[0]) / 2)[:, None] * np.cos(np.arange(shape[1]) / 3) * 5 + 40
    seen = truth + 0.1 * rng.normal(size=shape)
    if holes:
        seen[8:12, 6:12] = np.nan
        seen[rng.random(shape) < 0.05] = np.nan
    return seen, truth


@pytest.fixture(scope="module")
def fitted() -> GridRegressor:
    return GridRegressor("SE", restarts=1, random_state=0).fit(waves()[0])


def test_holes_are_filled_and_bands_are_honest(fitted: GridRegressor) -> None:
    seen, truth = waves()
    missing = np.isnan(seen)
    filled, std = fitted.fill(return_std=True)
    assert_allclose(filled[~missing], seen[~missing])
    assert (std[~missing] == 0).all()
    error = (filled - truth)[missing]
    assert np.sqrt(np.mean(error**2)) < 0.3
    assert np.mean(np.abs(error) < 2 * std[missing]) > 0.9
    assert fitted.n_missing_ == missing.sum()
    assert fitted.residual_ == 0.0
    assert fitted.evidence_is_ == "exact"
    assert "480 cells (24 x 20)" in fitted.inference_.reason


def test_it_is_the_regressor_for_tables(fitted: GridRegressor) -> None:
    """The same kernel, noise and data through exact inference on rows."""
    seen, _ = waves()
    places = np.argwhere(~np.isnan(seen)).astype(float)
    table = mercer.GPRegressor(str(fitted.kernel_), noise=fitted.noise_, restarts=1)
    table.fit(places, seen[~np.isnan(seen)])
    mine = fitted.predict([[3.0, 9.0], [5.0, 8.0]], return_std=True)
    theirs = table.predict(np.array([[3.0, 5.0], [3.0, 8.0], [9.0, 5.0], [9.0, 8.0]]), return_std=True)
    for one, other in zip(mine, theirs, strict=True):
        assert_allclose(one.ravel(), other, rtol=1e-3)
    assert fitted.log_evidence_ == pytest.approx(table.log_evidence_, rel=1e-5)


def test_edges_are_extended_and_uncertainty_grows(fitted: GridRegressor) -> None:
    mean, std = fitted.predict([np.arange(-6.0, 24), np.arange(20.0)], return_std=True)
    assert mean.shape == (30, 20)
    assert std[0].min() > 3 * std[20].min()
    quiet = fitted.predict([np.arange(24.0), np.arange(20.0)], return_std=True, include_noise=False)[1]
    assert_allclose(quiet**2 + fitted.noise_, fitted.predict(return_std=True)[1] ** 2)
    one = fitted.predict({0: [30.0]})
    assert one.shape == (1, 20)


@pytest.mark.parametrize(
    "kernel",
    [["PER", "SE"], {1: "M32"}, "SE(0)*M52(1)", "SE + RQ", "SM2", "NKN(SE+PER, Linear2-Product1-Linear1)"],
)
def test_kernels_for_each_axis(kernel: object) -> None:
    seen, truth = waves()
    model = GridRegressor(kernel, restarts=2, max_iterations=25, random_state=0).fit(seen)
    missing = np.isnan(seen)
    assert np.sqrt(np.mean((model.fill() - truth)[missing] ** 2)) < 0.6
    assert len(model.kernels_) == 2
    product = model.kernels_[0] * model.kernels_[1]
    assert str(product) == str(model.kernel_)


def test_units_of_coordinates_and_values() -> None:
    seen, _ = waves()
    plain = GridRegressor("SE", restarts=1, random_state=0).fit(seen)
    moved = GridRegressor("SE", restarts=1, random_state=0).fit(
        1000 * seen, [1900 + 0.5 * np.arange(24), np.arange(20)[::-1]]
    )
    assert_allclose(moved.fill(), 1000 * plain.fill(), rtol=1e-4)
    assert_allclose(moved.noise_, 1e6 * plain.noise_, rtol=1e-3)
    lengths = [[leaf.value("lengthscale") for leaf in m.kernel_.leaves()] for m in (plain, moved)]
    assert_allclose(lengths[1], np.array(lengths[0]) * [0.5, 1.0], rtol=1e-3)
    assert_allclose(moved.fill(return_std=True)[1], 1000 * plain.fill(return_std=True)[1], rtol=1e-3)


def test_another_array_by_the_same_kernel(fitted: GridRegressor) -> None:
    seen, truth = waves(seed=5)
    filled, std = fitted.fill(10 * seen, return_std=True)
    missing = np.isnan(seen)
    assert np.sqrt(np.mean((filled / 10 - truth)[missing] ** 2)) < 0.3
    assert std[missing].min() > 0.5
    with pytest.raises(InputError, match="shape"):
        fitted.fill(seen[:5])


def test_three_axes_and_one() -> None:
    rng = np.random.default_rng(0)
    cube = np.sin(np.arange(9))[:, None, None] + np.cos(np.arange(8) / 2)[:, None] * np.arange(7)
    cube += rng.normal(size=(9, 8, 7)) / 20
    hidden = cube.copy()
    hidden[4, 3, 2:5] = np.nan
    model = GridRegressor("SE", restarts=1).fit(hidden)
    assert np.abs(model.fill() - cube)[4, 3, 2:5].max() < 0.8
    series = np.sin(np.arange(60) / 3)
    series[20:24] = np.nan
    line = GridRegressor("SE", restarts=1).fit(series)
    assert_allclose(line.fill()[20:24], np.sin(np.arange(20, 24) / 3), atol=0.1)
    flat = GridRegressor("SE", restarts=1).fit(series[None])
    assert_allclose(flat.fill()[0], line.fill(), atol=1e-3)
    assert flat.kernels_[0] is None


def test_a_whole_row_without_a_value_is_predicted() -> None:
    seen, truth = waves()
    seen[15] = np.nan
    model = GridRegressor("SE", restarts=1, random_state=0)
    with pytest.warns(DataWarning, match="1 along axis 0"):
        model.fit(seen)
    filled, std = model.fill(return_std=True)
    assert np.sqrt(np.mean((filled - truth)[15] ** 2)) < 0.3
    assert (std[15] > 0).all()
    assert any("axis 0" in note for note in model.notes_)


def test_files_hold_everything(fitted: GridRegressor, tmp_path: Path) -> None:
    file = tmp_path / "grid.mercer"
    fitted.save(file)
    again = mercer.load(file)
    assert isinstance(again, GridRegressor)
    assert_allclose(again.fill(return_std=True), fitted.fill(return_std=True), atol=1e-8)
    assert again.kernel_ == fitted.kernel_
    assert again.log_evidence_ == fitted.log_evidence_
    assert again.get_params() == {**fitted.get_params(), "random_state": 0}
    damaged = tmp_path / "damaged.mercer"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(damaged, "w") as new:
        document = json.loads(old.read("model.json"))
        document["units"]["scale"] = [0, 1]
        new.writestr("model.json", json.dumps(document))
        for name in ("X.npy", "y.npy"):
            new.writestr(name, old.read(name))
    with pytest.raises(ModelFileError, match="units"):
        mercer.load(damaged)


def test_kernels_of_files_by_axis(tmp_path: Path) -> None:
    seen, _ = waves(shape=(8, 9), holes=False)
    for kernel in (["SE", "PER"], {1: "M32"}):
        model = GridRegressor(kernel, restarts=1, max_iterations=2).fit(seen)
        model.save(tmp_path / "m")
        assert mercer.load(tmp_path / "m").get_params()["kernel"] == kernel


def test_xarray_in_xarray_out() -> None:
    xarray = pytest.importorskip("xarray")
    seen, _ = waves()
    times = np.datetime64("2000-01-01") + np.arange(24) * np.timedelta64(1, "D")
    array = xarray.DataArray(seen, dims=("time", "x"), coords={"time": times, "x": np.arange(20) / 10}, name="t")
    model = GridRegressor({"time": "SE"}, restarts=1, random_state=0).fit(array)
    filled, std = model.fill(return_std=True)
    assert filled.dims == ("time", "x")
    assert (filled.coords["time"] == array.coords["time"]).all()
    assert not bool(filled.isnull().any())
    assert model.axis_names_ == ("time", "x")
    assert std.shape == (24, 20)
    later = model.predict({"x": np.arange(25) / 10})
    assert later.shape == (24, 25)
    assert_allclose(later.coords["x"], np.arange(25) / 10)
    assert (later.coords["time"] == array.coords["time"]).all()
    further = model.predict({"time": times + np.timedelta64(24, "D")})
    assert further.coords["time"].values[0] == np.datetime64("2000-01-25")


def test_the_same_seed_gives_the_same_fill() -> None:
    seen, _ = waves()
    models = [GridRegressor("SM2", restarts=2, max_iterations=10, random_state=3).fit(seen) for _ in range(2)]
    assert_allclose(models[0].fill(), models[1].fill(), rtol=0, atol=0)


def test_ctrl_c_keeps_the_best_so_far(tmp_path: Path) -> None:
    seen, _ = waves()
    told: list[float] = []

    def stop(state: Progress) -> None:
        told.append(-0.5 * state.score)
        if len(told) == 3:
            raise KeyboardInterrupt

    model = GridRegressor("SE", restarts=1, random_state=0)
    with pytest.warns(FitWarning, match="interrupted"):
        model.fit(seen, progress=stop)
    assert model.status_ == "interrupted"
    assert model.stopped_ == "request"
    model.save(tmp_path / "stopped.mercer")
    assert mercer.load(tmp_path / "stopped.mercer").stopped_ == "request"
    assert GridRegressor("SE", restarts=1, max_iterations=3, random_state=0).fit(seen).stopped_ == ""
    assert not np.isnan(model.fill()).any()
    assert told == sorted(told)


def test_large_holes_choose_by_hidden_boxes() -> None:
    rng = np.random.default_rng(0)
    texture = np.sin(np.arange(60) * 2 * np.pi / 7)[:, None] * np.sin(np.arange(50) * 2 * np.pi / 9)
    seen = texture + 0.2 * rng.normal(size=texture.shape)
    seen[40:52, 10:24] = np.nan
    model = GridRegressor("SM3", restarts=2, max_iterations=20, random_state=0).fit(seen)
    assert any("boxes the size of the largest hole" in note for note in model.notes_)
    error = (model.fill() - texture)[40:52, 10:24]
    assert np.mean(error**2) < 0.1 * np.var(texture)


def tiles(shape: tuple[int, int] = (70, 64), periods: tuple[float, float] = (11.7, 14.3)) -> tuple[Array, Array]:
    """A pattern of known periods, stronger in places, of which overtones are the strongest waves; with a large hole."""
    rng = np.random.default_rng(1)
    rows, columns = (2 * np.pi * np.arange(n) / p for n, p in zip(shape, periods, strict=True))
    truth = (0.4 * np.sin(rows) + np.cos(2 * rows))[:, None] * (0.5 * np.cos(columns) + np.sin(2 * columns) + 0.3)
    truth *= 1.0 + 0.2 * np.sin(np.arange(shape[1]) / 30)
    seen = truth + 0.2 * rng.normal(size=shape)
    seen[24:44, 20:42] = np.nan
    return seen, truth


@pytest.mark.parametrize("seed", range(2))
def test_periods_of_a_pattern_are_found(seed: int) -> None:
    seen, truth = tiles()
    model = GridRegressor("PER", random_state=seed).fit(seen)
    assert_allclose([leaf.value("period") for leaf in model.kernel_.leaves()], [11.7, 14.3], rtol=0.01)
    hole = (model.fill() - truth)[24:44, 20:42]
    assert np.mean(hole**2) < 0.1 * np.var(truth)


def test_an_axis_with_nothing_to_fit() -> None:
    seen, truth = waves()
    given = "SE(variance=fixed(1), lengthscale=fixed(3))"
    model = GridRegressor([given, "SE"], noise=0.01, restarts=2, random_state=0).fit(seen)
    assert np.sqrt(np.mean((model.fill() - truth)[np.isnan(seen)] ** 2)) < 0.6


def test_peaks_of_spectra_lie_between_its_frequencies() -> None:
    wave = np.sin(2 * np.pi * np.arange(80) / 9.37)[:, None] * np.ones(20)
    X = np.stack([g.ravel() for g in np.meshgrid(np.arange(80.0), np.arange(20.0), indexing="ij")], 1)
    assert_allclose(line_spectra(Data(X, wave.ravel()))[0].periods(1), 9.37, rtol=2e-3)  # 8.89 and 10 are those beside


def test_lines_are_whole_where_there_are_enough() -> None:
    seen, _ = tiles()
    places = np.argwhere(~np.isnan(seen))
    data = Data(places.astype(float), seen[tuple(places.T)], True)
    lines = lines_along(data, 0, 16)
    assert lines.lattice is not None
    assert lines.lattice.shape == (70, 16)
    assert len(lines.lattice.holes) == 0
    assert_allclose(lines.y[lines.X[:, 1] == 0], seen[:, 0])
    torn = seen.copy()
    torn[:, ::2][5] = np.nan
    torn[:, 1::2][6] = np.nan  # no line along the first axis is whole
    places = np.argwhere(~np.isnan(torn))
    some = lines_along(Data(places.astype(float), torn[tuple(places.T)], True), 0, 16)
    assert len(np.unique(some.X[:, 1])) == 16
    assert some.count == 16 * 69


def test_a_learner_of_networks(tmp_path: Path) -> None:
    seen, truth = waves()
    learner = mercer.NeuralKernelNetwork("SE + PER", "Linear2-Product2-Linear1", restarts=1, max_iterations=25)
    model = GridRegressor(learner, random_state=0).fit(seen)
    assert np.sqrt(np.mean((model.fill() - truth)[np.isnan(seen)] ** 2)) < 0.6
    assert str(mercer.kernels.structure(model.kernels_[1])) == "NKN(SE(1) + PER(1), Linear2-Product2-Linear1)"
    model.save(tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    assert again.get_params()["kernel"] == learner
    assert_allclose(again.fill(), model.fill())
    assert model.get_params()["kernel__restarts"] == 1


def test_parts_of_large_grids() -> None:
    X = np.stack([g.ravel() for g in np.meshgrid(np.arange(30.0), np.arange(40.0), indexing="ij")], 1)
    hole = (X[:, 0] > 18) & (X[:, 0] < 26) & (X[:, 1] > 10) & (X[:, 1] < 20)
    data = Data(X[~hole], np.sin(X[~hole, 0]), True)
    side = beside_holes(data, 0.25)
    assert side is not None
    assert side.lattice is not None
    assert len(side.lattice.holes) == 0
    assert side.count >= 0.25 * len(X)
    assert beside_holes(Data(X, X[:, 0]), 0.25) is None
    part = tile(data, 200)
    assert 100 <= part.count <= 300
    seen, truth = waves(shape=(40, 36))

    class OnTiles(GridRegressor):
        policies = (GridFitPolicy(tile=200),)

    model = OnTiles("SE", restarts=2, random_state=0).fit(seen)
    assert np.sqrt(np.mean((model.fill() - truth)[np.isnan(seen)] ** 2)) < 0.3


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (3.0, "at least one axis"),
        ("abc", "at least one axis.*'abc' was given"),
        (np.full((3, 4), np.nan), "0 of the 12 cells"),
        (np.full((3, 4), 7.0), "the same value"),
        ([[1.0, 2.0], [3.0]], r"\(1\) has 1 cells and \(0\) has 2 cells"),
        ([[1.0, 2.0], 3.0], r"\(1\) is a single number"),
        ([[[1.0], [2.0]], [[3.0], [4.0, 5.0]]], r"\(1, 1\) has 2 cells"),
        ([[1.0, "x"], [2.0, 3.0]], r"cell \(0, 1\) holds 'x'"),
        ([[1.0, 2.0], [np.inf, 3.0]], r"cell \(1, 0\) is infinite"),
        (np.ones((2, 2)) * 1j, "complex"),
    ],
)
def test_what_is_no_grid_of_numbers(array: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GridRegressor().fit(array)


@pytest.mark.parametrize(
    ("coordinates", "message"),
    [
        (3, r"coordinates are one vector for each axis.*not 3"),
        ([[0, 1, 2]], "1 coordinate vectors were given for 2 axes"),
        ([[0, 1, 2], [0, 1]], "axis 1 has 4 cells and 2 coordinates"),
        ([[0, 1, 1], [0, 1, 2, 3]], r"axis 0 coordinate 2 \(1\)"),
        ([[0, 2, 1], [0, 1, 2, 3]], r"axis 0 coordinate 2 \(1\)"),
        ([[0, 1, np.nan], [0, 1, 2, 3]], "finite"),
        ([["a", "b", "c"], [0, 1, 2, 3]], "numbers or dates"),
        ({"time": [0, 1, 2]}, "no axis 'time'"),
    ],
)
def test_coordinates_that_are_none(coordinates: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GridRegressor().fit(np.random.default_rng(0).normal(size=(3, 4)), coordinates)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("SE(0) + SE(1)", "not a product"),
        (["SE"], "1 kernels were given for 2 axes"),
        ({"z": "SE"}, "no axis 'z'"),
        (["SE(1)", "SE"], "acts on other axes"),
        ("search", "GrammarSearch does not learn on grids"),
        (3, "not 3"),
        ("SE(", "."),
    ],
)
def test_kernels_that_do_not_fit(kernel: object, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        GridRegressor(kernel).fit(np.random.default_rng(0).normal(size=(3, 4)))


@pytest.mark.parametrize(
    ("learner", "settings", "message"),
    [
        (mercer.GrammarSearch(), {}, "GrammarSearch does not learn on grids"),
        (mercer.NeuralKernelNetwork(), {"restarts": 2}, r"NeuralKernelNetwork\(restarts=2\)"),
        (mercer.NeuralKernelNetwork(optimiser="adam"), {}, "optimiser='lbfgs'"),
        (mercer.NeuralKernelNetwork(restarts=0), {}, "restarts"),
        (mercer.NeuralKernelNetwork("SE(0) + SE(1)"), {}, "acts on other axes"),
    ],
)
def test_learners_that_do_not_fit(learner: object, settings: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GridRegressor(learner, **settings).fit(np.random.default_rng(0).normal(size=(3, 4)))


def test_an_axis_that_is_too_long() -> None:
    with pytest.raises(TooLargeError, match="axis 1 has 6,000 cells"):
        GridRegressor().fit(np.random.default_rng(0).normal(size=(2, 6000)))


@pytest.mark.parametrize(
    ("option", "value"), [("device", "abacus"), ("noise", 0.0), ("restarts", 0), ("max_iterations", 1.5)]
)
def test_options_are_checked(option: str, value: object) -> None:
    with pytest.raises(InputError, match=option):
        GridRegressor(**{option: value}).fit(waves()[0])


def test_masked_arrays_and_nested_lists() -> None:
    seen, _ = waves()
    masked = np.ma.masked_invalid(seen)
    model = GridRegressor("SE", restarts=1, max_iterations=5, random_state=0)
    expected = model.fit(seen).fill()
    assert_allclose(model.fit(masked).fill(), expected)
    assert_allclose(model.fit(seen.tolist()).fill(), expected)


def test_the_evidence_is_exact_where_most_cells_are_missing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    seen, truth = waves(holes=False)
    seen[rng.random(seen.shape) < 0.75] = np.nan
    model = GridRegressor("SE", restarts=1, random_state=0).fit(seen)
    places = np.argwhere(~np.isnan(seen)).astype(float)
    table = mercer.GPRegressor(model.kernel_, noise=model.noise_, restarts=1, max_iterations=1, random_state=0)
    assert model.evidence_is_ == "exact"
    assert_allclose(model.log_evidence_, table.fit(places, seen[~np.isnan(seen)]).log_evidence_, rtol=1e-4)
    assert np.sqrt(np.mean((model.fill() - truth) ** 2)) < 0.5
    model.save(tmp_path / "m")
    assert mercer.load(tmp_path / "m").evidence_is_ == "exact"


class StoppingGrid(Grid):
    """The engine of a grid, with Ctrl-C at the given evaluation."""

    calls = 0
    stop = -1

    def evidence(self, *arguments: Any, **settings: Any) -> Evidence:
        StoppingGrid.calls += 1
        if StoppingGrid.calls == StoppingGrid.stop:
            raise KeyboardInterrupt
        return super().evidence(*arguments, **settings)


def test_ctrl_c_while_spectra_are_compared_keeps_the_fit() -> None:
    """Not a point of that comparison, whose values are those of a part of the grid."""
    rng = np.random.default_rng(0)
    texture = np.sin(np.arange(40) * 2 * np.pi / 7)[:, None] * np.sin(np.arange(36) * 2 * np.pi / 9)
    seen = texture + 0.2 * rng.normal(size=texture.shape)
    seen[24:34, 10:20] = np.nan
    places = np.argwhere(~np.isnan(seen))
    data = Data(places / 10.0, seen[~np.isnan(seen)] / seen[~np.isnan(seen)].std(), free_level=True)
    kernel, options = bind(parse("SM3(0) * SM3(1)"), 2), FitOptions(restarts=2, max_iterations=10)
    last: list[Progress] = []
    fit_grid(kernel, data, StoppingGrid(), options, last.append)
    StoppingGrid.calls, StoppingGrid.stop = 0, StoppingGrid.calls - 2  # the very last evaluation is of what was chosen
    stopped, note = fit_grid(kernel, data, StoppingGrid(), options)
    assert stopped.status == "interrupted"
    assert note == ""
    assert stopped.log_evidence == pytest.approx(-0.5 * last[-1].score, rel=1e-6)
