"""The space of Bayesian optimisation: reading bounds and points, encoding, constraints, sampling."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, NonlinearConstraint
from scipy.sparse import csr_array

import mercer
from mercer.errors import InputError
from mercer.optimise.bounds_text import range_of_column, read_bounds_text
from mercer.optimise.space import (
    Category,
    Integer,
    Log,
    Range,
    Space,
    read_point,
    read_space,
)

SETTINGS = settings(max_examples=60, deadline=None)
MIXED = {"t": (20, 90), "n": Integer(1, 10), "rate": Log(1e-4, 1), "solvent": ["a", "b", "c"]}

numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 6))
choices = st.one_of(st.text(min_size=1, max_size=5), st.integers(-5, 5), st.booleans(), st.none())


@st.composite
def ranges(draw: st.DrawFn) -> tuple[float, float]:
    low, high = sorted((draw(numbers), draw(numbers)))
    assume(high - low > 1e-3)
    return low, high


@st.composite
def integers(draw: st.DrawFn) -> Integer:
    low = draw(st.integers(-1000, 1000))
    return Integer(low, low + draw(st.integers(1, 2000)))


@st.composite
def logs(draw: st.DrawFn) -> Log:
    low = draw(st.floats(1e-12, 1e3))
    return Log(low, low * draw(st.floats(1.5, 1e9)))


categories = st.lists(choices, min_size=2, max_size=70, unique_by=lambda choice: str(choice).strip().lower()).filter(
    lambda found: len(set(found)) == len(found)
)
specs = st.one_of(ranges(), integers(), logs(), categories)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Named spaces of every kind of input, and lists of numbers."""
    if draw(st.booleans()):
        found = draw(st.lists(specs, min_size=1, max_size=5))
        return read_space({f"input {i}": one for i, one in enumerate(found)})
    return read_space(draw(st.lists(st.one_of(ranges(), integers(), logs()), min_size=1, max_size=5)))


seeds = st.integers(0, 2**32 - 1)


# ------------------------------------------------------------------------------------------------------- properties


@SETTINGS
@given(spaces(), seeds)
def test_rows_survive_the_way_to_points_and_back(space: Space, seed: int) -> None:
    rows = space.sample(5, np.random.default_rng(seed))
    assert rows.shape == (5, space.width)
    points = [space.decode(row) for row in rows]
    np.testing.assert_allclose(space.encode(points), rows, atol=1e-6)
    for point in points:
        row, notes = read_point(space, point)
        assert notes == []
        assert space.is_outside(row) == []


@SETTINGS
@given(spaces(), seeds)
def test_decoded_points_lie_within_the_bounds(space: Space, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.vstack([space.sample(3, rng), np.zeros(space.width), np.ones(space.width)])
    for row in rows:
        point = space.decode(row)
        values = list(point.values()) if space.named else list(point)
        for value, one in zip(values, space.inputs, strict=True):
            if isinstance(one, Category):
                assert any(value is choice for choice in one.choices)
            else:
                assert one.low <= value <= one.high
                if space.named:
                    assert type(value) is (int if isinstance(one, Integer) else float)


@SETTINGS
@given(spaces(), seeds)
def test_snap_is_legal_idempotent_and_leaves_legal_rows_alone(space: Space, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wild = rng.uniform(-1, 2, (6, space.width))
    snapped = space.snap(wild)
    assert np.all((snapped >= 0) & (snapped <= 1))
    assert np.array_equal(space.snap(snapped), snapped)
    assert np.array_equal(space.snap(wild[0]), snapped[0])
    legal = space.sample(6, rng)
    assert np.array_equal(space.snap(legal), legal)
    for one, columns in zip(space.inputs, space.columns, strict=True):
        cells = snapped[:, list(columns)]
        if isinstance(one, Category):
            assert np.array_equal(cells.sum(axis=1), np.ones(6))
            assert np.array_equal(cells.argmax(axis=1), wild[:, list(columns)].argmax(axis=1))
        if isinstance(one, Integer):
            nearest = np.abs(np.clip(wild[:, list(columns)], 0, 1) - cells)
            assert np.all(nearest <= 0.5 / one.steps + 1e-12)


@SETTINGS
@given(spaces(), seeds)
def test_levels_are_the_values_that_samples_take(space: Space, seed: int) -> None:
    rows = space.sample(20, np.random.default_rng(seed))
    for i, (one, columns) in enumerate(zip(space.inputs, space.columns, strict=True)):
        levels = space.levels(i)
        if isinstance(one, Range | Log) or (isinstance(one, Integer) and one.steps >= 64) or one.size > 64:
            assert levels is None
            continue
        assert levels is not None
        assert levels.shape[1] == len(columns)
        known = {tuple(level) for level in levels}
        assert len(known) == len(levels)
        assert {tuple(row) for row in rows[:, list(columns)]} <= known


@SETTINGS
@given(spaces())
def test_plain_form_reads_back(space: Space) -> None:
    again = Space.from_plain(json.loads(json.dumps(space.to_plain(), allow_nan=False)))
    assert again == space
    assert hash(again) == hash(space)
    assert again.find_difference(space) is None
    assert pickle.loads(pickle.dumps(space)) == space


@SETTINGS
@given(spaces(), seeds)
def test_columns_partition_the_row(space: Space, seed: int) -> None:
    assert [column for columns in space.columns for column in columns] == list(range(space.width))
    assert np.array_equal(space.sample(4, np.random.default_rng(seed)), space.sample(4, np.random.default_rng(seed)))


@SETTINGS
@given(ranges(), st.floats(-3, 4))
def test_numbers_outside_the_bounds_are_kept(bounds: tuple[float, float], share: float) -> None:
    low, high = bounds
    value = low + share * (high - low)
    space = read_space({"a": bounds})
    row, notes = read_point(space, {"a": value})
    assert row[0] == pytest.approx(share, abs=1e-6)
    assert space.decode(row)["a"] == pytest.approx(value, rel=1e-9, abs=1e-6)
    if share < -1e-6 or share > 1 + 1e-6:
        assert len(notes) == 1
        assert "'a'" in notes[0]
        assert space.is_outside(row) == ["a"]


@SETTINGS
@given(st.integers(1, 5), st.integers(1, 3), seeds)
def test_constraints_hold_in_the_users_units(size: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.uniform(-100, 100, size)
    high = low + rng.uniform(0.1, 1000, size)
    inner = rng.uniform(low, high)  # satisfies every constraint
    matrix = rng.normal(size=(rows, size))
    slack = rng.uniform(0.02, 0.5, rows) * (np.abs(matrix) @ (high - low))
    constraint = LinearConstraint(matrix, matrix @ inner - slack, matrix @ inner + slack)
    space = read_space(np.c_[low, high], constraint)
    found = space.sample(30, rng)
    assert found.shape == (30, size)
    assert space.satisfies(found).all()
    reached = np.array([space.decode(row) for row in found]) @ matrix.T
    scale = 1e-8 * (np.abs(matrix) @ (high - low))
    assert np.all(np.abs(reached - matrix @ inner) <= slack + scale)
    # The encoded form says the same of any row.
    linear = space.linear()
    assert linear is not None
    anywhere = rng.random((50, size))
    encoded = anywhere @ linear[0].T
    legal = np.all((encoded >= linear[1]) & (encoded <= linear[2]), axis=1)
    values = np.array([space.decode(row) for row in anywhere]) @ matrix.T
    assert np.array_equal(legal, np.all(np.abs(values - matrix @ inner) <= slack, axis=1))
    assert np.array_equal(legal, space.satisfies(anywhere))


# --------------------------------------------------------------------------------------------------------- reading


def test_a_dict_gives_dicts_and_a_list_gives_arrays() -> None:
    space = read_space(MIXED)
    assert space.named
    assert space.names == ("t", "n", "rate", "solvent")
    assert space.inputs == (Range(20, 90), Integer(1, 10), Log(1e-4, 1), Category(("a", "b", "c")))
    assert space.columns == ((0,), (1,), (2,), (3, 4, 5))
    assert space.width == 6
    point = {"t": 55.0, "n": 10, "rate": 0.01, "solvent": "b"}
    np.testing.assert_allclose(space.encode([point]), [[0.5, 1.0, 0.5, 0.0, 1.0, 0.0]])
    assert space.decode(space.encode([point])[0]) == pytest.approx(point)
    plain = read_space([(0, 1), [2, 4], Integer(0, 3), Log(1, 100)])
    assert not plain.named
    assert plain.names == ("x0", "x1", "x2", "x3")
    found = plain.decode(np.array([0.5, 0.5, 1.0, 0.5]))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, [0.5, 3.0, 3.0, 10.0])
    assert read_space(np.array([[0, 1], [2, 3]])) == read_space([(0.0, 1.0), (2.0, 3.0)])


def test_names_are_public() -> None:
    assert mercer.Integer is Integer
    assert mercer.Log is Log


def test_a_tuple_is_a_range_and_a_list_holds_categories() -> None:
    space = read_space({"a": (1, 2), "b": [1, 2], "c": np.array([1, 2])})
    assert [type(one) for one in space.inputs] == [Range, Category, Range]


def test_no_points_give_no_rows() -> None:
    space = read_space(MIXED)
    assert space.encode([]).shape == (0, 6)
    assert space.sample(0, np.random.default_rng(0)).shape == (0, 6)
    limited = read_space([(0, 1)] * 2, LinearConstraint([1, 1], ub=1))
    assert limited.sample(0, np.random.default_rng(0)).shape == (0, 2)


def test_a_point_may_be_a_row_of_a_table_or_one_number() -> None:
    space = read_space(MIXED)
    row = pd.Series({"solvent": "c", "rate": 1.0, "n": 3.0, "t": 20})
    assert space.decode(space.encode([row])[0]) == {"t": 20.0, "n": 3, "rate": 1.0, "solvent": "c"}
    one = read_space([(0, 2)])
    assert one.encode([1.0, [1.0], np.array(1.0), np.array([1.0])]).ravel().tolist() == [0.5] * 4


def test_choices_are_found_as_a_table_writes_them() -> None:
    space = read_space({"size": [16, 32], "wet": [True, False], "word": ["7", "x"]})
    row = space.encode([{"size": 16.0, "wet": np.True_, "word": 7}])
    assert space.decode(row[0]) == {"size": 16, "wet": True, "word": "7"}
    assert space.decode(space.encode([{"size": "32", "wet": "True", "word": "x"}])[0])["wet"] is True


def test_whole_numbers_are_sampled_evenly() -> None:
    space = read_space({"n": Integer(1, 4), "c": ["a", "b", "c", "d"]})
    rows = space.sample(8000, np.random.default_rng(0))
    for cells in (np.c_[[rows[:, 0] == level / 3 for level in range(4)]], rows[:, 1:].T):
        np.testing.assert_allclose(cells.mean(axis=1), 0.25, atol=0.02)


def test_ties_of_a_category_go_to_the_first() -> None:
    space = read_space({"c": ["a", "b", "c"]})
    assert space.snap(np.array([[0.2, 0.7, 0.7]])).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ([], "no inputs"),
        ({}, "no inputs"),
        ("0:1", "list of pairs"),
        (3, "list of pairs"),
        ((0, 1), r"\[\(low, high\)\]"),
        ([(0, 1), (90, 20)], r"'x1' are reversed: \(90, 20\).*\(20, 90\)"),
        ({"t": (5, 5)}, "'t' are equal"),
        ({"t": (0, math.inf)}, "'t' are infinite"),
        ({"t": (-1.7e308, 1.7e308)}, "'t' are infinite or too wide"),
        ({"t": (math.nan, 1)}, "'t' is NaN"),
        ({"t": (1, 2, 3)}, r"'t' must be a pair.*\(1, 2, 3\)"),
        ({"t": ()}, "'t' must be a pair"),
        ({"t": 5}, "'t' must be a pair"),
        ({"t": None}, "'t' must be a pair"),
        ({"t": {"a", "b"}}, "'t' must be a pair.*list of categories"),
        ({"t": ("a", "b")}, "'t' must be numbers, not 'a'.*list of categories"),
        ({"t": (False, True)}, "'t' must be numbers"),
        ({"t": ([1], 2)}, "'t' must be numbers"),
        ([(0, 1), (0, "1")], "'x1' must be numbers"),
        ([(0, 1), 7], "'x1' must be a pair"),
        ([(0, 1), Category(("a", "b"))], "'x1' is a category.*dict"),
        ([["a", "b"]], "'x0' must be numbers"),
        ({"r": Log(0, 1)}, "'r' is 0, but a logarithmic"),
        ({"r": Log(-1, 1)}, "'r' is -1"),
        ({"r": Log(1, 0.1)}, "'r' are reversed"),
        ({"n": Integer(1, 2.5)}, "'n' must be whole"),  # type: ignore[arg-type]
        ({"n": Integer(3, 1)}, "'n' are reversed"),
        ({"n": Integer(0, 2**60)}, "'n'.*too large"),
        ({"n": Integer(0, 10**400)}, "'n' are infinite"),
        ({"n": Integer("a", 3)}, "'n' must be numbers"),  # type: ignore[arg-type]
        ({"c": []}, "'c' has 0 of the two"),
        ({"c": ["a"]}, "'c' has 1 of the two"),
        ({"c": ["a", "b", "a"]}, "'c' hold 'a' more than once"),
        ({"c": ["a", ("b",)]}, r"'c' must be texts.*\('b',\)"),
        ({"c": ["a", math.nan]}, "'c' must be texts.*nan"),
        ({"c": [print, len]}, "'c' must be texts"),
        ({3: (0, 1)}, "must be a text, not 3"),
        ({" ": (0, 1)}, "must be a text"),
    ],
)
def test_bad_bounds_are_sentences(bounds: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_space(bounds)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"solvent": "water"}, "'solvent' has no choice 'water'; the choices are 'a', 'b', 'c'"),
        ({"solvent": None}, "'solvent' has no choice None"),
        ({"solvent": math.nan}, "'solvent' has no choice nan"),
        ({"solvent": ["a"]}, "'solvent' has no choice"),
        ({"t": "hot"}, "'t' must be a number, not 'hot'"),
        ({"t": "50"}, "'t' must be a number"),
        ({"t": None}, "'t' must be a number"),
        ({"t": True}, "'t' must be a number"),
        ({"t": [1, [2]]}, "'t' must be a number"),
        ({"t": 1j}, "'t' must be a number"),
        ({"t": math.nan}, "'t' must be a finite number, not nan"),
        ({"t": -math.inf}, "'t' must be a finite"),
        ({"n": 2.5}, "'n' must be a whole number, not 2.5"),
        ({"rate": 0}, "'rate' must be positive.*0 was given"),
        ({"tt": 3}, "There is no input 'tt'.*Did you mean 't'"),
    ],
)
def test_bad_points_are_sentences(change: dict[str, Any], words: str) -> None:
    good = {"t": 55.0, "n": 10, "rate": 0.01, "solvent": "b"}
    with pytest.raises(InputError, match=words):
        read_point(read_space(MIXED), good | change)


@pytest.mark.filterwarnings("error")
def test_points_of_the_wrong_shape_are_sentences() -> None:
    named, plain = read_space(MIXED), read_space([(0, 1), (0, 1)])
    with pytest.raises(InputError, match="no value for 'n', 'rate', 'solvent'"):
        read_point(named, {"t": 30})
    with pytest.raises(InputError, match="must be a dict with 't', 'n'"):
        read_point(named, [30, 1, 0.1, "a"])
    with pytest.raises(InputError, match=r"must have 2 numbers.*3 were given"):
        read_point(plain, [0.1, 0.2, 0.3])
    with pytest.raises(InputError, match=r"must have 2 numbers.*1 were given"):
        read_point(plain, 0.1)
    with pytest.raises(InputError, match="must be 2 numbers"):
        read_point(plain, {"x0": 1, "x1": 2})
    with pytest.raises(InputError, match="'x1' must be a number, not 'a'"):
        read_point(plain, [0.1, "a"])
    with pytest.raises(InputError, match="'x0' must be a number"):
        read_point(read_space([(0, 1)]), [[0.1, 0.2]])
    with pytest.raises(InputError, match="too far outside"):
        read_point(read_space([(0, 1e-300)]), [1e300])


def test_notes_name_what_lies_outside() -> None:
    space = read_space({"a": (0, 1), "n": Integer(1, 3), "r": Log(0.1, 1)}, LinearConstraint([1, 0, 0], ub=0.5))
    row, notes = read_point(space, {"a": 0.7, "n": 5, "r": 10})
    assert row.tolist() == pytest.approx([0.7, 2.0, 2.0])
    assert space.is_outside(row) == ["n", "r"]
    assert "'n' = 5 lies outside its bounds, whole numbers 1 to 3" in notes[0]
    assert "'r' = 10" in notes[1]
    assert "constraints" in notes[2]
    assert space.decode(row) == pytest.approx({"a": 0.7, "n": 5, "r": 10.0})


# ----------------------------------------------------------------------------------------------------- constraints


def constrain(A: Any, lb: Any = -np.inf, ub: Any = np.inf, size: int = 3) -> Space:
    return read_space([(0, 1)] * size, LinearConstraint(A, lb, ub))


def test_constraints_are_read_in_every_form_that_scipy_knows() -> None:
    wanted = constrain([[1, 1, 1]], ub=1)
    assert constrain([1, 1, 1], ub=[1]) == wanted
    assert constrain(csr_array([[1.0, 1.0, 1.0]]), ub=1) == wanted
    assert read_space([(0, 1)] * 3, [LinearConstraint([1, 1, 1], ub=1)]) == wanted
    assert constrain(np.eye(3)).constraints is None  # no finite bound
    assert read_space([(0, 1)] * 3, []).constraints is None
    two = read_space([(0, 1)] * 3, [LinearConstraint([1, 1, 1], ub=1), LinearConstraint(np.eye(3), lb=0.1)])
    assert two.constraints is not None
    assert len(two.constraints.matrix) == 4
    assert Space.from_plain(json.loads(json.dumps(two.to_plain(), allow_nan=False))) == two


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (LinearConstraint([[1, 1, 0], [1, 1, 0]], [1, 1.2], [1, 1.2]), "No point within the bounds"),
        (LinearConstraint([1, 1, 1], 0, 0), "almost no room"),
        (LinearConstraint([1, 1], ub=1), "2 coefficients in a row, but there are 3 inputs"),
        (LinearConstraint([1, 1, 1], 2, 1), "reversed"),
        (LinearConstraint([1, 1, math.nan], ub=1), "NaN or infinite"),
        (LinearConstraint([1, 1, 1], ub=math.nan), "NaN or infinite"),
        (LinearConstraint([1, 1, 1], lb=math.inf), "no point satisfies"),
        (LinearConstraint([1, 1, 1], lb=4), "No point within the bounds"),
        (LinearConstraint([[1, 1, 1], [1, -1, 0]], [2.9, 0.5], np.inf), "No point within the bounds"),
        (LinearConstraint([1, 1, 1], lb=3), "almost no room"),
        (LinearConstraint([0, 0, 0], lb=3), "no coefficient"),
        (NonlinearConstraint(sum, 0, 1), "NonlinearConstraint.*not supported"),
        ({"type": "ineq"}, "must be a scipy.optimize.LinearConstraint, not str"),
        (7, "must be a scipy.optimize.LinearConstraint, not int"),
    ],
)
def test_bad_constraints_are_sentences(constraint: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_space([(0, 1)] * 3, constraint)


def test_constraints_on_logs_and_categories_are_refused() -> None:
    bounds = {"a": (0, 1), "r": Log(0.1, 1), "c": ["u", "v"]}
    with pytest.raises(InputError, match="'r' is not supported"):
        read_space(bounds, LinearConstraint([1, 1, 0], ub=1))
    with pytest.raises(InputError, match="'c' is not supported"):
        read_space(bounds, LinearConstraint([1, 0, 1], ub=1))
    space = read_space(bounds, LinearConstraint([1, 0, 0], ub=0.001))
    rows = space.sample(200, np.random.default_rng(0))
    assert rows[:, 0].max() <= 0.001
    assert 0.3 < rows[:, 1].mean() < 0.7  # not constrained: as wide as ever
    assert 0.3 < rows[:, 2].mean() < 0.7
    np.testing.assert_array_equal(rows[:, 2] + rows[:, 3], 1.0)


def test_rare_points_are_sampled_evenly() -> None:
    # sum x <= 1 leaves 1 in 10! of the box; the mean of each entry is 1/11, its second moment 2/(11 12).
    space = constrain(np.ones(10), ub=1, size=10)
    rows = space.sample(3000, np.random.default_rng(0))
    assert space.satisfies(rows).all()
    np.testing.assert_allclose(rows.mean(axis=0), 1 / 11, atol=0.008)
    np.testing.assert_allclose((rows**2).mean(), 2 / (11 * 12), rtol=0.05)


def test_a_thin_band_is_sampled_along_its_length() -> None:
    matrix = np.zeros((2, 6))
    matrix[0, :2], matrix[1, 2:4] = (1, -1), (1, 1)
    space = constrain(matrix, [-1e-4, 0.9999], [1e-4, 1.0001], size=6)
    rows = space.sample(2000, np.random.default_rng(1))
    assert space.satisfies(rows).all()
    np.testing.assert_allclose(rows.mean(axis=0), 0.5, atol=0.03)
    np.testing.assert_allclose(rows.std(axis=0), math.sqrt(1 / 12), atol=0.03)


def test_whole_numbers_under_tight_constraints_are_sampled_evenly() -> None:
    # Three whole numbers that add up to 3 within 0 to 30: 10 of 29,791 triples.
    bounds = {name: Integer(0, 30) for name in "abc"}
    space = read_space(bounds, LinearConstraint([1, 1, 1], 2.5, 3.5))
    rows = space.sample(2000, np.random.default_rng(0))
    found, counts = np.unique(np.round(rows * 30), axis=0, return_counts=True)
    assert len(found) == 10
    assert np.all(found.sum(axis=1) == 3)
    assert counts.min() > 120
    assert counts.max() < 290


def test_whole_and_other_numbers_under_one_constraint() -> None:
    space = read_space({"n": Integer(0, 10), "x": (0, 10)}, LinearConstraint([1, -1], -0.02, 0.02))
    rows = space.sample(400, np.random.default_rng(0))
    assert space.satisfies(rows).all()
    points = [space.decode(row) for row in rows]
    assert {point["n"] for point in points} >= set(range(1, 10))
    assert all(abs(point["n"] - point["x"]) <= 0.0201 for point in points)


def test_whole_numbers_alone_may_leave_no_level() -> None:
    with pytest.raises(InputError, match="No point within the bounds"):
        read_space({"n": Integer(0, 3), "x": (0, 1)}, LinearConstraint([1, 0], 0.2, 0.8))


def test_shares_of_a_mixture_are_sampled_evenly() -> None:
    # Uniform on sum x = 1 (Dirichlet with ones): mean 1/5 and variance 4 / (25 6).
    space = constrain(np.ones(5), 1, 1, size=5)
    rows = space.sample(3000, np.random.default_rng(0))
    assert space.allows(rows).all()
    np.testing.assert_allclose(rows.mean(axis=0), 0.2, atol=0.012)
    np.testing.assert_allclose(rows.var(axis=0), 4 / 150, rtol=0.12)
    stepped = rows + 0.2 * np.random.default_rng(1).standard_normal(rows.shape)
    pulled = space.legalise(stepped)
    assert space.allows(pulled).all()
    assert len(pulled) > 0.95 * len(rows)


def test_the_best_mixture_is_found_on_the_border() -> None:
    best = np.array([0.6, 0.4, 0.0])

    def miss(x: Any) -> float:
        return float(((x - best) ** 2).sum())

    whole = LinearConstraint([1, 1, 1], 1, 1)
    result = mercer.minimize(miss, [(0, 1)] * 3, calls=18, constraints=whole, random_state=0)
    np.testing.assert_allclose(np.array(result.x_iters).sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(result.x, best, atol=0.05)


def test_equalities_of_other_units_whole_numbers_and_both() -> None:
    bounds = {"n": Integer(0, 10), "x": (0.0, 30.0), "free": (-1.0, 1.0)}
    space = read_space(bounds, [LinearConstraint([2, 1, 0], 20, 20), LinearConstraint([0, 1, 0], ub=15)])
    points = [space.decode(row) for row in space.sample(400, np.random.default_rng(0))]
    assert {point["n"] for point in points} == set(range(3, 11))  # x <= 15 leaves n of 2.5 and more
    assert all(abs(2 * point["n"] + point["x"] - 20) < 1e-7 for point in points)
    assert np.std([point["free"] for point in points]) > 0.4
    whole = read_space({name: Integer(0, 6) for name in "abc"}, LinearConstraint([1, 1, 1], 6, 6))
    triples = np.round(whole.sample(2000, np.random.default_rng(0)) * 6)
    assert np.all(triples.sum(axis=1) == 6)
    assert len(np.unique(triples, axis=0)) == 28
    with pytest.raises(InputError, match="more than 10,000 levels"):
        read_space({"n": Integer(0, 10**6), "x": (0, 10**6)}, LinearConstraint([1, 1], 10**6, 10**6))


def test_many_levels_stay_within_the_constraints() -> None:
    space = read_space({"n": Integer(0, 10**7), "x": (0, 1)}, LinearConstraint([1, 0], 5000.5, 5100.5))
    rows = space.sample(100, np.random.default_rng(0))
    assert space.satisfies(rows).all()
    assert len({space.decode(row)["n"] for row in rows}) > 40


# ------------------------------------------------------------------------------------------------------ saved spaces


@pytest.mark.parametrize(
    "damage",
    [
        {"names": ["a"]},
        {"names": ["a", "a", "b", "c"]},
        {"named": 3},
        {"inputs": None},
        {"inputs": [{"kind": "cube", "low": 0, "high": 1}] * 4},
        {"inputs": [{"kind": "real", "low": 1, "high": 0}] * 4},
        {"constraints": {"matrix": [[1]], "lower": [0], "upper": [1]}},
    ],
)
def test_damaged_spaces_are_refused(damage: dict[str, Any]) -> None:
    plain = read_space(MIXED).to_plain()
    with pytest.raises(InputError, match="saved space cannot be read"):
        Space.from_plain(plain | damage)
    with pytest.raises(InputError, match="saved space cannot be read"):
        Space.from_plain([])


def test_the_difference_of_two_spaces_names_the_input() -> None:
    saved = read_space(MIXED)
    found = {
        "'n' was whole numbers 1 to 10 and is now whole numbers 1 to 11": MIXED | {"n": Integer(1, 11)},
        "'solvent' (one of 'a', 'b', 'c') is missing": {k: v for k, v in MIXED.items() if k != "solvent"},
        "'new' is new": MIXED | {"new": (0, 1)},
        "order": dict(reversed(MIXED.items())),
    }
    for words, bounds in found.items():
        assert words in str(saved.find_difference(read_space(bounds)))
    limited = read_space(MIXED, LinearConstraint([1, 0, 0, 0], ub=50))
    assert "constraints" in str(saved.find_difference(limited))
    assert saved.find_difference(read_space(MIXED)) is None
    assert read_space([(0, 1)]).find_difference(read_space({"x0": (0, 1)})) is not None


# --------------------------------------------------------------------------------------------------- command line


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("temperature=20:90", ("temperature", (20.0, 90.0))),
        (" t = -1.5 : 2e3 ", ("t", (-1.5, 2000.0))),
        ("n=1:10:integer", ("n", Integer(1, 10))),
        ("rate=1e-4:1:LOG", ("rate", Log(1e-4, 1.0))),
        ("solvent=a,b, c", ("solvent", ["a", "b", "c"])),
        ("size=16,32,0.5", ("size", [16, 32, 0.5])),
        ("time=8:00,12:30", ("time", ["8:00", "12:30"])),
    ],
)
def test_bounds_are_read_from_text(text: str, wanted: tuple[str, Any]) -> None:
    found = read_bounds_text(text)
    assert found == wanted
    read_space(dict([found]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not complete"),
        ("20:90", "not complete"),
        ("=20:90", "not complete"),
        ("t=", "not complete"),
        ("t=20", "'t' are not a range"),
        ("t=a", "'t' are not a range"),
        ("t=1:2:3:4", "'t' are not a range"),
        ("t=a:b", "'t' hold 'a', which is not a number"),
        ("t=1:", "'t' hold '', which is not a number"),
        ("t=90:20", "'t' are reversed"),
        ("t=1:inf", "'t' are infinite"),
        ("t=nan:1", "'t' is NaN"),
        ("t=1:2:integr", "neither integer nor log. Did you mean 'integer'"),
        ("t=1:2:x", "neither integer nor log"),
        ("t=1:2.5:integer", "'t' must be whole"),
        ("t=0:1:log", "'t' is 0, but a logarithmic"),
        ("t=0,5:1,5:log", "decimals"),
        ("t=0,5:1,5", "decimals with a point: t=0.5:1.5"),
        ("t=a,", "'t' hold an empty one"),
        ("t=a,a", "'t' hold 'a' more than once"),
    ],
)
def test_bad_texts_are_sentences(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_bounds_text(text)


def test_a_column_without_bounds_gives_its_range() -> None:
    spec, note = range_of_column("t", [20.5, 90, np.nan])
    assert spec == (20.5, 90.0)
    assert note == "column 't' has no bounds: its range, 20.5 to 90, is searched (give --bounds t=low:high for another)"
    spec, note = range_of_column("n", pd.Series([1, 2, 5], name="other"))
    assert spec == (1.0, 5.0)
    assert "--bounds n=1:5:integer for whole numbers only" in note
    assert range_of_column("n", ["1", "2.5"])[0] == (1.0, 2.5)
    spec, note = range_of_column("s", ["b", "a", None, "b"])
    assert spec == ["a", "b"]
    assert note == "column 's' has no bounds: its values 'a', 'b' are the choices"
    assert range_of_column("w", [True, False, True])[0] == [False, True]
    for values, words in (
        ([3.0, 3.0], "only one value, 3"),
        (["a", "a"], "only one value, a"),
        ([True, True], "only one value, True"),
        ([np.nan, np.nan], "'s' is empty"),
        ([1.0, np.inf], "'s' are infinite"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "'s' holds dates"),
        ([f"name {i}" for i in range(80)], "too many for categories"),
    ):
        with pytest.raises(InputError, match=words):
            range_of_column("s", values)
