"""`KernelSVC`: every way to a kernel, classes of all kinds, files, probabilities, and bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import KernelFunctional, KernelSVC
from mercer.errors import DataWarning, InputError, ModelFileError
from mercer.fitting.minimise import Clock, Progress
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.expression import find_all
from mercer.kernels.functional import Functional
from mercer.learners.classes import CrossValidation, draw_rows, evaluate_blocks, find_easy_weights, fit_relevances
from mercer.learners.contract import Context
from mercer.learners.kfo_classes import ClassSearch
from mercer.learners.margin import (
    cross_validate_quickly,
    log_loss,
    make_folds,
    note_unsettled,
    repair_spectrum,
    split_gram,
    train_machine,
)
from mercer.learners.trials import Trials

QUICK = {"subspaces": 1, "iterations": 1, "tuning": 1, "hyperkernel": "matern-harmonic"}


def rings(rows: int = 120, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rings in the first two columns, and a column that says nothing."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    angle, radius = rng.uniform(0, 2 * np.pi, rows), 1.0 + 1.5 * labels + 0.2 * rng.normal(size=rows)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=rows)]), labels


@pytest.mark.parametrize(
    "kernel",
    [
        KernelFunctional(**QUICK), KernelFunctional(**QUICK, definite="spectrum"),
        KernelFunctional(**QUICK, plus="LIN"),
        "rbf", "mkl", "mkl-uniform", "M32", "SE(0, 1, lengthscale=1.0, variance=1.0)",
        mercer.GrammarSearch(max_depth=1, bases=("SE", "LIN")),
    ],
    ids=["kfo", "spectrum", "kfo-mkl", "rbf", "mkl", "mkl-uniform", "M32", "given", "search"],
)  # fmt: skip
def test_every_way_to_a_kernel(kernel, tmp_path) -> None:
    X, y = rings()
    model = KernelSVC(kernel=kernel, random_state=0).fit(X, y)
    new, truth = rings(seed=1)
    assert model.score(new, truth) > 0.85
    assert 0 <= model.error_ < 0.2
    chances = model.predict_proba(new)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.mean(chances.argmax(axis=1) == truth) > 0.85
    assert np.mean((model.decision_function(new) > 0) == truth) > 0.85
    model.save(tmp_path / "m.mercer")
    read = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(read.predict(new), model.predict(new))
    np.testing.assert_allclose(read.decision_function(new), model.decision_function(new), atol=1e-6)
    np.testing.assert_allclose(read.predict_proba(new), chances, atol=1e-4)
    assert str(read.kernel_) == str(model.kernel_)


def test_kfo_keeps_the_functional_and_what_was_tried() -> None:
    X, y = rings()
    model = KernelSVC(kernel=KernelFunctional(**QUICK, plus="SE + M32 + LIN"), random_state=0).fit(X, y)
    assert isinstance(model.functional_, Functional)
    assert any(" itself" in note for note in model.notes_)
    assert len(model.candidates_) > 18
    assert all(np.isfinite(c.score) for c in model.candidates_)
    same = KernelSVC(kernel=KernelFunctional(**QUICK, plus="SE + M32 + LIN"), random_state=0).fit(X, y)
    assert str(same.kernel_) == str(model.kernel_)
    lengths = next(model.functional_.leaves()).value("lengthscale")
    assert len(lengths) == 3


def test_kfo_tunes_the_rate_of_the_hyperkernel() -> None:
    X, y = rings(60)
    model = KernelSVC(KernelFunctional(**{**QUICK, "tuning": 3}), random_state=0).fit(X, y)
    assert [c.step.kind for c in model.candidates_].count("rate") == 3 + 3


def test_kfo_as_a_product_over_columns(tmp_path) -> None:
    X, y = rings()
    model = KernelSVC(KernelFunctional(**QUICK, form="product"), random_state=0).fit(X, y)
    assert [f.inside.dims for f in find_all(model.kernel_, Functional)] == [(0,), (1,), (2,)]
    shares = {each.column: each.share for each in model.explain().relevance}
    assert shares["column 2"] < 0.2 * shares["column 0"]
    assert model.score(*rings(seed=1)) > 0.85
    model.report(tmp_path / "report.html")
    model.save(tmp_path / "m.mercer")
    assert str(mercer.load(tmp_path / "m.mercer").kernel_) == str(model.kernel_)


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_numbers_near_the_ends_of_their_range(unit: float) -> None:
    X, y = rings(80)
    usual, odd = (KernelSVC("rbf", random_state=0).fit(rows, y) for rows in (X, X * unit))
    assert odd.score(X * unit, y) == usual.score(X, y) > 0.9


def test_a_kernel_that_has_seen_the_rows_left_out_says_so() -> None:
    X, y = rings(60)
    assert any("too low" in note for note in KernelSVC("M32", random_state=0).fit(X, y).notes_)
    given = KernelSVC("SE(0, 1, lengthscale=1.0, variance=1.0)", random_state=0).fit(X, y)
    assert not any("too low" in note for note in given.notes_)


def test_several_classes_of_text_booleans_and_numbers() -> None:
    X, y = rings(150, classes=3)
    words = np.array(["inner", "middle", "outer"])[y]
    model = KernelSVC("rbf", random_state=0).fit(X, words)
    assert list(model.classes_) == ["inner", "middle", "outer"]
    assert model.score(X, words) > 0.9
    assert model.decision_function(X).shape == (150, 3)
    np.testing.assert_array_equal(model.classes_[model.decision_function(X).argmax(axis=1)], model.predict(X))
    truth = KernelSVC("linear", random_state=0).fit(X, y > 0)
    assert truth.predict(X).dtype == bool
    numbers = KernelSVC("linear", C=2.0, random_state=0).fit(X, np.array([7, 3, 5])[y])
    assert set(numbers.predict(X)) <= {3, 5, 7}
    assert numbers.C_ == 2.0


@pytest.mark.parametrize("labels", [["b", "a"], [True, False], [2, 1], [0.0, 1.0]], ids=str)
def test_classes_of_all_kinds_are_saved(labels, tmp_path) -> None:
    X, y = rings(60)
    target = np.array(labels)[y]
    model = KernelSVC("linear", random_state=0).fit(X, target)
    model.save(tmp_path / "m.mercer")
    read = mercer.load(tmp_path / "m.mercer")
    assert list(read.predict(X)) == list(model.predict(X))


def test_a_machine_that_would_never_end_is_stopped() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(16, 1)), np.tile([0, 1], 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopped = train_machine(1e6 * X @ X.T, y, 1000.0, most_steps=1000)
        settled = train_machine(X @ X.T, y, 0.1)
    assert stopped.n_iter_.max() == 1000
    (note,) = note_unsettled(stopped, 1000.0)
    assert note.startswith("the SVM was stopped after 1,000 steps, unfinished")
    assert "C=10" in note
    assert "another nu" in note_unsettled(stopped, None)[0]
    assert note_unsettled(settled, 0.1) == ()


def test_nu_and_precomputed() -> None:
    X, y = rings(80)
    model = KernelSVC("SE(0, 1, lengthscale=1.0, variance=1.0)", nu="auto", random_state=0).fit(X, y)
    assert 0 < model.nu_ < 1
    gram = np.exp(-0.5 * ((X[:, None, :2] - X[None, :, :2]) ** 2).sum(axis=2))
    given = KernelSVC("precomputed", random_state=0).fit(gram, y)
    assert given.score(gram, y) > 0.9
    assert given.kernel_ is None
    indefinite = gram - 0.3
    assert "clipped" in KernelSVC("precomputed", random_state=0).fit(indefinite, y).notes_[0]
    with pytest.raises(InputError, match="not symmetric"):
        KernelSVC("precomputed").fit(gram + np.triu(np.ones_like(gram), 1), y)
    with pytest.raises(InputError, match="square"):
        KernelSVC("precomputed").fit(gram[:, :-1], y)
    with pytest.raises(InputError, match="no kernel to save"):
        given.save("nowhere")


def test_tables_with_categories_and_rows_without_a_class() -> None:
    X, y = rings(80)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.where(X[:, 2] > 0, "red", "blue")})
    target = pd.Series(np.array(["in", "out"])[y], name="where", dtype=object)
    target.iloc[:3] = None
    with pytest.warns(DataWarning, match="3 of 80 rows have no class"):
        model = KernelSVC("rbf", random_state=0).fit(table, target)
    assert model.target_name_ == "where"
    assert model.score(table.iloc[3:], target.iloc[3:]) > 0.9
    with pytest.raises(ValueError, match=r"kind|feature"):
        model.predict(table[["a", "b"]])
    missing = table.copy()
    missing.loc[0, "a"] = np.nan
    with pytest.raises(InputError, match="a"):
        model.predict(missing)


def test_bad_input() -> None:
    X, y = rings(40)
    with pytest.raises(InputError, match=r"only one class \('0\.0'\)"):
        KernelSVC("rbf").fit(X, np.zeros(40))
    with pytest.raises(InputError, match="too few rows"):
        KernelSVC("linear").fit(X[:2], ["a", "b"])
    alone = y.copy()
    alone[0] = 2
    with pytest.warns(DataWarning, match="one member"):
        model = KernelSVC("rbf", random_state=0).fit(X, alone)
    assert model.predict_proba(X).shape == (40, 3)
    with pytest.warns(DataWarning, match="one member"):
        KernelSVC(KernelFunctional(**QUICK), random_state=0).fit(X, alone)
    for wrong in ({"C": 0}, {"C": "big"}, {"nu": 1.5}, {"C": True}, {"C": np.ones(2)}):
        with pytest.raises(InputError):
            KernelSVC("linear", **wrong).fit(X, y)
    with pytest.raises(InputError):
        KernelSVC("no such kernel").fit(X, y)
    with pytest.raises(InputError, match=r"nu=0.9 .* up to 0.25"):
        KernelSVC("linear", nu=0.9).fit(X, np.arange(40) < 5)
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        KernelSVC("linear").fit(broken, y)
    with pytest.raises(InputError, match="requires y"):
        KernelSVC("linear").fit(X, None)
    with pytest.raises(ValueError, match="features"):
        KernelSVC("linear").fit(X, y).predict(X[:, :2])
    with pytest.raises(InputError, match="periodic"):
        KernelSVC(KernelFunctional(hyperkernel="periodic-harmonic")).fit(X, y)


def test_an_objective_of_ones_own_that_fails_at_times() -> None:
    X, y = rings(60)
    sign = 2.0 * y - 1.0

    def alignment(gram: np.ndarray) -> float:
        if gram[0, 1] < 1e-3:
            raise RuntimeError("too narrow")
        return float(sign @ gram @ sign) / (np.linalg.norm(gram) * len(sign))

    model = KernelSVC(KernelFunctional(**QUICK, objective=alignment), random_state=0).fit(X, y)
    failed = [c for c in model.candidates_ if c.status == "failed"]
    assert failed
    assert "too narrow" in failed[0].message
    assert model.score(X, y) > 0.9
    with pytest.raises(InputError, match="no kernel could be judged"):
        KernelSVC(KernelFunctional(**QUICK, objective=lambda gram: float("nan"))).fit(X, y)


def test_a_damaged_file(tmp_path) -> None:
    import zipfile

    X, y = rings(40)
    model = KernelSVC("linear", random_state=0).fit(X, y)
    model.save(tmp_path / "m.mercer")
    with zipfile.ZipFile(tmp_path / "m.mercer") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["model.json"] = parts["model.json"].replace(b'"classification"', b'"classification", "classes": [1]', 1)
    parts["model.json"] = parts["model.json"].replace(b'"C":', b'"D":')
    with zipfile.ZipFile(tmp_path / "bad.mercer", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(ModelFileError):
        mercer.load(tmp_path / "bad.mercer")


# ------------------------------------------------------------------------------------------------------------ judging


def test_relevance_finds_the_column_that_says_nothing() -> None:
    X, y = rings(150)
    found = fit_relevances((X - X.mean(axis=0)) / X.std(axis=0), y)
    assert found[2] < 0.2 * found[:2].min()
    assert np.isclose(found.mean(), 1.0, atol=1e-3)


def test_quick_verdicts_equal_a_slow_reference() -> None:
    """Least-squares SVM by solving the whole linear system."""
    X, y = rings(50)
    gram = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    folds = make_folds(y, 0)
    cost = 7.0
    margins = []
    for train, out in folds:
        n = len(train)
        ridged, ones = gram[np.ix_(train, train)] + np.eye(n) / cost, np.ones((n, 1))
        system = np.block([[ridged, ones], [ones.T, np.zeros((1, 1))]])
        signs = 2.0 * np.eye(2)[y[train]] - 1.0
        solved = np.linalg.solve(system, np.vstack([signs, np.zeros((1, 2))]))
        margins.append(gram[np.ix_(out, train)] @ solved[:n] + solved[n])
    truth = np.concatenate([y[out] for _, out in folds])
    found = cross_validate_quickly(split_gram(gram, folds), y, folds, [cost])
    assert np.isclose(found.loss, log_loss(np.concatenate(margins), truth))
    assert np.isclose(found.error, np.mean(np.concatenate(margins).argmax(axis=1) != truth))


def test_relevances_of_a_fold_have_not_seen_the_rows_left_out() -> None:
    X, y = rings(60)
    folds = CrossValidation.draw(X, y, 0)
    for (train, _), scales in zip(folds.folds, folds.scales, strict=True):
        assert len(scales.rows) == len(train)
        np.testing.assert_allclose(scales.relevance, fit_relevances(X[train], y[train], 0))


def test_clipping_a_spectrum_and_carrying_it_to_new_rows() -> None:
    rng = np.random.default_rng(0)
    square = rng.normal(size=(20, 20))
    gram = square + square.T
    _, keep = repair_spectrum(gram)
    values = np.linalg.eigvalsh(keep @ gram)
    np.testing.assert_allclose(np.sort(values)[-10:], np.sort(np.maximum(np.linalg.eigvalsh(gram), 0))[-10:], atol=1e-9)
    assert values.min() > -1e-9


def test_easy_weights_prefer_the_kernel_that_parts_the_classes() -> None:
    X, y = rings(80)
    good = np.exp(-0.5 * ((X[:, None, :2] - X[None, :, :2]) ** 2).sum(axis=2))
    bad = np.exp(-0.5 * (X[:, None, 2] - X[None, :, 2]) ** 2)
    weights = find_easy_weights([good, bad], y)
    assert weights[0] > weights[1]
    assert np.isclose(weights.sum(), 1.0)


def test_samples_keep_every_class() -> None:
    labels = np.array([0] * 500 + [1] * 490 + [2] * 10)
    chosen = draw_rows(labels, 100, 0)
    assert len(chosen) <= 103
    assert (np.bincount(labels[chosen]) >= [2, 2, 2]).all()


def test_progress_is_told_and_ctrl_c_keeps_the_best() -> None:
    X, y = rings(60)
    seen: list[int] = []

    def stop(state) -> None:
        seen.append(state.done)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelSVC(KernelFunctional(**QUICK), random_state=0).fit(X, y, progress=stop)
    assert model.stopped_ == "request"
    assert len(model.candidates_) == 4
    assert next(model.kernel_.leaves()).symbol == "M32"


class HandClock(Clock):
    """A clock whose time is up when a test says so."""

    up = False

    @property
    def seconds(self) -> float:
        return 2.0 if HandClock.up else 0.0


def class_context(X, y, engine=None) -> Context:
    _, labels = np.unique(y, return_inverse=True)
    return Context(Data((X - X.mean(axis=0)) / X.std(axis=0), labels.astype(float)), engine or Exact(), [0, 1, 2])


@pytest.mark.parametrize("step", ["part of a sum", "usual"])
@pytest.mark.parametrize("reason", ["request", "time"])
def test_a_search_that_ends_while_kernels_are_added_keeps_what_it_found(step, reason) -> None:
    context, HandClock.up = class_context(*rings(60)), False

    def stop(state: Progress) -> None:
        if trials.candidates[-1].step.kind == step:
            HandClock.up = True
            if reason == "request":
                raise KeyboardInterrupt

    trials = Trials(stop, HandClock(budget=1.0))
    found = ClassSearch(KernelFunctional(subspaces=0, tuning=0, plus="LIN"), context, trials).run()
    assert found.stopped == reason
    assert any("this is the best kernel found until then" in note for note in found.notes)
    labels = context.data.y.astype(np.intp)
    gram, _ = evaluate_blocks(found.kernel, context.data.X, context.data.X[:1])
    assert train_machine(gram, labels, found.cost).score(gram, labels) > 0.9


@pytest.mark.parametrize("relevances", [0, 1])
def test_ctrl_c_is_not_lost_while_a_fit_inside_gives_its_best_so_far(relevances) -> None:
    """A fit that is interrupted returns what it has; the search around it must stop all the same.

    It happens while the relevances of all rows are fitted, or those of the first fold, for the first kernel.
    """

    class Interrupted(Exact):
        def evidence(self, program, values, likelihood, data, gradient=True):
            rows.add(data.count)
            if len(rows) > relevances:
                raise KeyboardInterrupt
            return super().evidence(program, values, likelihood, data, gradient)

    rows: set[int] = set()
    context = class_context(*rings(60), Interrupted())
    with pytest.raises(KeyboardInterrupt):
        KernelFunctional(**QUICK).learn_classes(context)
    assert len(rows) == relevances + 1


def test_ctrl_c_while_a_given_kernel_is_fitted_to_the_labels() -> None:
    def stop(state: Progress) -> None:
        raise KeyboardInterrupt

    X, y = rings(60)
    assert KernelSVC("M32", random_state=0).fit(X, y, progress=stop).stopped_ == "request"


def test_a_search_that_ends_early_says_so() -> None:
    X, y = rings(60)
    learner = mercer.GrammarSearch(max_depth=3, time_budget=0.5)
    assert KernelSVC(learner, random_state=0).fit(X, y).stopped_ == "time"
