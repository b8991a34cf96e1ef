"""Settings as printed have a name: what is in them, and that an ordinary fit works with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mercer
from mercer.errors import DataWarning, InputError
from mercer.fitting.starts import Starts
from mercer.inference.contract import Data
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.parameters import bind, layout
from mercer.kernels.text import parse
from mercer.learners.bayesian import CONFIDENCE, SubspacePlan
from mercer.learners.classes import CrossValidation
from mercer.learners.grammar import SearchPolicy
from mercer.learners.kernel_space import MOST_COMPONENTS, RATE_LIMITS, RATES, build_space
from mercer.learners.kfo import FunctionalPolicy
from mercer.learners.kfo_classes import ClassPolicy
from mercer.learners.margin import refuse_few_members, repair_spectrum
from mercer.learners.surface import SurfacePolicy

LINE = np.linspace(0.0, 6.0, 30)[:, None]


def wave(seed: int = 0) -> Any:
    return np.sin(3.0 * LINE[:, 0]) + 0.1 * np.random.default_rng(seed).standard_normal(len(LINE))


FEW_STEPS: dict[str, Any] = {"tuning": 0, "subspaces": 1, "iterations": 1}


def with_members(count: int) -> tuple[Any, Any]:
    """Rows of two classes, of which one has this many."""
    X, y = two_classes()
    rows = np.flatnonzero(y == 0)[count:]
    return np.delete(X, rows, axis=0), np.delete(y, rows)


def two_classes(rows: int = 40) -> tuple[Any, Any]:
    X = np.random.default_rng(1).standard_normal((rows, 2))
    return X, (np.hypot(*X.T) > 1.0).astype(int)


def test_the_search_of_the_paper_is_algorithm_1() -> None:
    settings = mercer.GrammarSearch.paper()
    assert set(settings.bases) == {"SE", "LIN", "PER", "RQ"}
    assert (settings.grammar, settings.score, settings.max_depth) == ("cks", "bic", None)
    assert not settings.race
    assert not settings.average
    assert settings.policy is not None
    assert (settings.policy.first_parents, settings.policy.improvement) == (1, 0.0)
    found = mercer.GPRegressor(replace(settings, restarts=1, bases=("SE", "PER")), random_state=0).fit(LINE, wave())
    levels = [[c for c in found.candidates_ if c.depth == depth] for depth in (0, 1, 2)]
    best = [min((c.score for c in level), default=np.inf) for level in levels]
    # one parent at every depth, all fitted to the end, and the last level is the first without a lower BIC
    for level in levels[1:]:
        assert len({c.parent for c in level}) <= 1
    assert {c.status for c in found.candidates_}.isdisjoint({"raced out", "not finished"})
    lowest = min(c.score for c in found.candidates_)
    assert found.bic_ == pytest.approx(lowest)
    depth = max(c.depth for c in found.candidates_)
    deepest = min(c.score for c in found.candidates_ if c.depth == depth)
    assert deepest > lowest
    assert lowest == min(best)


def test_the_search_of_the_paper_begins_with_base_kernels_on_one_column() -> None:
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (25, 2))
    settings = mercer.GrammarSearch.paper(bases=("SE",), restarts=1, max_depth=0)
    found = mercer.GPRegressor(settings, random_state=0).fit(X, X[:, 0] ** 2)
    assert [c.expression.text().partition("(")[2][0] for c in found.candidates_] == ["0", "1"]


def test_a_model_file_keeps_a_policy(tmp_path: Any) -> None:
    settings = mercer.GrammarSearch.paper(bases=["SE"], restarts=1, max_depth=0)
    mercer.GPRegressor(settings, random_state=0).fit(LINE, wave()).save(tmp_path / "wave.mercer")
    assert mercer.load(tmp_path / "wave.mercer").kernel == settings


def test_the_network_of_the_paper() -> None:
    settings = mercer.NeuralKernelNetwork.paper()
    assert (settings.optimiser, settings.learning_rate, settings.iterations) == ("adam", 1e-3, 20_000)
    assert (settings.restarts, settings.priors, settings.average) == (1, None, False)
    assert settings.layers == "Linear8-Product4-Linear4-Product2-Linear1"


def test_the_functional_of_the_paper() -> None:
    settings = mercer.KernelFunctional.paper()
    assert (settings.subspaces, settings.iterations, settings.start) == (5, 20, "zero")
    assert (settings.acquisition, settings.tuning_acquisition) == ("ucb", "ucb")
    assert (settings.hyperkernel, settings.definite) == ("matern-harmonic", "clip")
    assert mercer.KernelFunctional.paper(classes=True).definite == "spectrum"
    svms = settings.class_policy
    assert svms is not None
    assert svms.folds == 10
    assert svms.by_svm
    assert (min(svms.costs), max(svms.costs)) == pytest.approx((1e-3, 1e3))
    quick = replace(settings, subspaces=1, iterations=2, tuning=0)
    found = mercer.GPRegressor(quick, random_state=0).fit(LINE, wave())
    assert found.predict(LINE).shape == (30,)
    # nothing is known when the subspaces are searched
    assert not [c for c in found.candidates_ if "where the search begins" in c.step.words]


def test_the_functional_of_the_paper_for_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = two_classes()
    settings = mercer.KernelFunctional.paper(classes=True, subspaces=2, iterations=3, tuning=0)
    scored: list[int] = []
    score = CrossValidation.score
    monkeypatch.setattr(CrossValidation, "score", lambda *given: scored.append(1) or score(*given))
    assert settings.class_policy is not None
    quick = replace(settings.class_policy, folds=3, costs=(1.0, 10.0), factors=(0.5, 1.0))
    found = mercer.KernelSVC(replace(settings, class_policy=quick), random_state=0).fit(X, y)
    assert found.C_ in (1.0, 10.0)
    assert found.score(X, y) > 0.8
    kernels = [candidate.expression for candidate in found.candidates_]
    assert len(scored) == len(set(kernels)) < len(kernels)  # a search comes back to a kernel, and knows its score


def test_ten_folds_of_four_members_are_refused_with_what_keeps_the_rest_of_the_policy() -> None:
    X, y = with_members(4)
    printed = mercer.KernelFunctional.paper(classes=True)
    with pytest.raises(
        InputError, match=r"10 folds need 10 rows of every class, and one class has 4: at most 4"
    ) as said:
        mercer.KernelSVC(printed).fit(X, y)
    for words in ("class_policy=replace(policy, folds=4)", "KernelFunctional.paper(classes=True).class_policy"):
        assert words in str(said.value)  # and not a ClassPolicy with other costs, machines and repeats
    policy = printed.class_policy
    assert policy is not None
    changed = mercer.KernelFunctional.paper(classes=True, class_policy=replace(policy, folds=4), **FEW_STEPS)
    assert changed.class_policy == replace(policy, folds=4)
    assert mercer.KernelSVC(changed, random_state=0).fit(X, y).C_ in policy.costs


def test_one_member_of_a_class_fits_no_number_of_folds() -> None:
    X, y = with_members(1)
    policy = ClassPolicy(folds=3, fewer_folds=False)
    settings = mercer.KernelFunctional(class_policy=policy, **FEW_STEPS)
    with pytest.raises(InputError, match="one class has 1, which cannot be left out and learned from") as said:
        refuse_few_members(y, 3)
    assert "as many as fit" not in str(said.value)
    assert "replace(policy, fewer_folds=True)" in str(said.value)
    kept = replace(settings, class_policy=replace(policy, fewer_folds=True))
    with pytest.warns(DataWarning, match="one member"):
        mercer.KernelSVC(kept, random_state=0).fit(X, y)


def test_the_change_surface_of_the_paper_has_no_priors() -> None:
    settings = mercer.ChangeSurface.paper()
    assert (settings.kernel, settings.surface, settings.regimes) == ("SE", "rks", 2)
    assert settings.policy is not None
    assert not settings.policy.priors
    assert settings.policy.linear_starts == 0
    quick = replace(settings, draws=2, kernel_draws=2, max_iterations=15, features=3)
    found = mercer.GPRegressor(quick, random_state=0).fit(LINE, np.where(LINE[:, 0] < 3.0, 0.0, wave()))
    assert found.change_ is not None
    assert all(one.log_evidence_under_priors is None for one in found.change_.evidence)


def test_every_surface_of_algorithm_2_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    typical, seen = Starts.typical, list[Any]()
    monkeypatch.setattr(Starts, "typical", lambda self: seen.append(self) or typical(self))
    y = np.where(LINE[:, 0] < 3.0, 0.0, wave())
    for settings, wanted in ((mercer.ChangeSurface.paper(), False), (mercer.ChangeSurface(surface="rks"), True)):
        seen.clear()
        quick = replace(settings, kernel="SE", draws=2, kernel_draws=1, max_iterations=3, features=3)
        mercer.GPRegressor(quick, random_state=0).fit(LINE, y)
        drawn = [starts for starts in seen if any(isinstance(leaf, Surface) for leaf in starts.leaves)]
        assert bool(drawn) is wanted


@pytest.mark.parametrize(
    "changes",
    [
        *({"folds": 1}, {"folds": -1}, {"folds": 2.5}, {"repeats": 0}, {"costs": ()}, {"costs": (-1.0,)}, {"costs": 3}),
        *({"costs": np.array(costs)} for costs in ([], [1.0, -1.0], [np.nan], [[1.0, 2.0]], 3.0)),
    ],
)
def test_folds_and_costs_that_mean_nothing_are_refused(changes: Any) -> None:
    policy = mercer.KernelFunctional.paper(classes=True).class_policy
    assert policy is not None
    with pytest.raises(InputError, match=f"{next(iter(changes))} of ClassPolicy must be"):
        replace(policy, **changes)


@pytest.mark.parametrize("costs", [np.array([1.0, 10.0]), np.array([1, 10]), [1.0, 10.0], (1, 10)])
def test_costs_are_any_sequence_of_numbers_and_kept_as_a_tuple(costs: Any) -> None:
    """An array was refused, as if it had no numbers above zero."""
    policy = ClassPolicy(costs=costs)
    assert policy.costs == (1.0, 10.0)
    assert policy == ClassPolicy(costs=(1.0, 10.0))
    assert hash(policy) == hash(ClassPolicy(costs=(1.0, 10.0)))
    mercer.KernelFunctional(class_policy=policy).check()


@pytest.mark.parametrize(
    "settings",
    [
        mercer.GrammarSearch(policy=SurfacePolicy()),  # type: ignore[arg-type]
        mercer.ChangeSurface(policy=SurfacePolicy(finalists="many")),  # type: ignore[arg-type]
        mercer.KernelFunctional(class_policy=FunctionalPolicy()),  # type: ignore[arg-type]
        mercer.KernelFunctional(class_policy=ClassPolicy(by_svm=3)),  # type: ignore[arg-type]
    ],
)
def test_policies_of_another_kind_are_refused(settings: Any) -> None:
    with pytest.raises(InputError, match="must be"):
        settings.check()


def test_a_policy_survives_its_description() -> None:
    settings = mercer.GrammarSearch(policy=SearchPolicy(first_parents=1))
    assert mercer.GrammarSearch.read(settings.describe()) == replace(settings, bases=list(settings.bases))
    assert "policy" not in mercer.GrammarSearch().describe()


@pytest.mark.parametrize("spectrum", ["clip", "flip", "shift"])
def test_indefinite_gram_matrices_are_repaired(spectrum: Any) -> None:
    rng = np.random.default_rng(0)
    square = rng.normal(size=(20, 20))
    gram = square + square.T
    values, vectors = np.linalg.eigh(gram)
    repaired, carried = repair_spectrum(gram, spectrum)
    wanted = {"clip": np.maximum(values, 0.0), "flip": np.abs(values), "shift": values - values[0]}[spectrum]
    np.testing.assert_allclose(repaired, (vectors * wanted) @ vectors.T, atol=1e-9)
    if carried is not None:  # a row of the matrix is carried to the same row of the repaired one
        np.testing.assert_allclose(gram[3] @ carried, repaired[3], atol=1e-9)
    else:
        np.testing.assert_allclose(np.delete(repaired[3], 3), np.delete(gram[3], 3))


@pytest.mark.parametrize("spectrum", ["flip", "shift"])
def test_a_machine_on_an_indefinite_matrix(spectrum: Any, tmp_path: Any) -> None:
    X, y = two_classes()
    gram = np.tanh(X @ X.T - 1.0)
    found = mercer.KernelSVC("precomputed", spectrum=spectrum).fit(gram, y)
    assert any("below zero" in note for note in found.notes_)
    assert found.predict(gram).shape == y.shape
    settings = mercer.KernelFunctional(
        "matern-harmonic", definite=f"spectrum-{spectrum}", subspaces=1, iterations=1, tuning=0
    )
    model = mercer.KernelSVC(settings, random_state=0).fit(X, y)
    model.save(tmp_path / "classes.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "classes.mercer").predict(X), model.predict(X))
    with pytest.raises(InputError, match="spectrum must be"):
        mercer.KernelSVC("precomputed", spectrum="square").fit(gram, y)  # type: ignore[arg-type]


def test_the_functional_of_the_paper_comes_from_the_subspaces() -> None:
    settings = mercer.KernelFunctional.paper(subspaces=1, iterations=1, tuning=0)
    found = mercer.GPRegressor(settings, random_state=0).fit(LINE, 0.1 * wave(3))
    assert "KF(" in found.kernel_.text()  # and not the kernel inside, whether that is better or not


# ------------------------------------------------------------------------------------------------- changes, deviations

LEARNERS: list[Any] = [
    mercer.GrammarSearch,
    mercer.NeuralKernelNetwork,
    mercer.KernelFunctional,
    mercer.ChangeSurface,
]


@pytest.mark.parametrize("learner", LEARNERS)
def test_an_unknown_setting_of_a_paper_is_refused_with_those_there_are(learner: Any) -> None:
    with pytest.raises(InputError, match=rf"{learner.__name__}.paper\(\) has no setting 'speed'. What can be") as said:
        learner.paper(speed=3)
    listed = str(said.value).partition("What can be changed: ")[2].split(", ")
    assert listed[listed[0] == "classes" :] == list(vars(learner()))
    assert all(hasattr(learner(), name) for _, name in learner.letters)


@pytest.mark.parametrize(
    ("learner", "letter", "sentence"),
    [
        (mercer.KernelFunctional, "T", "S is subspaces, T is iterations"),
        (mercer.ChangeSurface, "g", "g is draws, h is kernel_draws"),
        (mercer.GrammarSearch, "T", "T is max_depth"),
    ],
)
def test_the_letters_of_a_paper_are_translated(learner: Any, letter: str, sentence: str) -> None:
    with pytest.raises(InputError, match=f"no setting '{letter}'.*{sentence}"):
        learner.paper(**{letter: 20})


def test_known_settings_of_a_paper_are_changed() -> None:
    assert mercer.KernelFunctional.paper(iterations=7) == replace(mercer.KernelFunctional.paper(), iterations=7)
    assert mercer.KernelFunctional.paper(classes=True, grid=50).definite == "spectrum"


def test_what_the_network_of_the_paper_holds() -> None:
    network = mercer.NeuralKernelNetwork.paper().network([0, 1])
    held = {leaf.symbol: {p.name: p.values for p in leaf.parameters if p.fixed} for leaf in network.leaves()}
    assert held == {"RQ": {"alpha": (1.0,)}, "SE": {}, "LIN": {"offset": (0.0, 0.0), "weights": (0.5, 0.5)}}
    named = mercer.NeuralKernelNetwork.paper(primitives="RQ + LIN").network([0])
    assert not any(p.fixed for leaf in named.leaves() for p in leaf.parameters)


def test_the_grid_of_the_paper() -> None:
    settings, rng = mercer.KernelFunctional.paper(), np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    inside = bind(parse("M32(lengthscale=1, variance=1)"), 2)
    grid = settings.draw_grid(inside, X, 2, np.random.default_rng(0))
    units = inside(X)[np.triu_indices(50, 1)]
    np.testing.assert_allclose(np.sort(grid), np.append(np.quantile(units, np.linspace(0.0, 1.0, 39)), 1.0))
    assert build_space(grid, 0.9).dimensions <= MOST_COMPONENTS == 16
    plan = settings.plan()
    assert (plan.directions, SubspacePlan().random_kernels, plan.line_points) == (1, 4, 129)
    assert (CONFIDENCE, RATE_LIMITS, len(RATES), settings.tuning) == (0.1, (0.02, 0.98), 3, 6)


def test_how_the_supplement_is_read() -> None:
    X = np.linspace(0.0, 4.0, 30)[:, None]
    kernel = bind(parse("BLEND(rks400, SE, SE)"), 1)
    assert isinstance(kernel, Blend)
    shape, rng = layout(kernel), np.random.default_rng(0)
    starts = Starts(kernel, shape, Data(X, wave()))
    values = starts.draw(rng)
    drawn = {slot.spec.name: values[slot.where] for slot in shape.slots if slot.leaf == 2}
    # Lambda = (range / 2)^2, and a has the variance 1 / m
    assert np.std(drawn["frequency"]) == pytest.approx(1.0 / (np.pi * 4.0), rel=0.1)
    assert np.std(drawn["amplitude"]) == pytest.approx(1.0 / np.sqrt(400), rel=0.1)
