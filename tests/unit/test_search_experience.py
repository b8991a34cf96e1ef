"""What other series have taught a search: frequencies, priors on numbers, and how they judge few rows."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import mercer
from mercer.errors import InputError
from mercer.fitting.problem import FitOptions, prepare
from mercer.fitting.uncertainty import average_evidence
from mercer.forecast.experience import packaged_priors as priors_of_forecasts
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import bind, parse
from mercer.kernels.expression import Base, Product
from mercer.learners.contract import Context
from mercer.learners.experience import (
    Example,
    SearchPriors,
    count_joins,
    find_season,
    from_plain,
    is_series,
    learn_step,
    packaged_priors,
    parts_of,
    read_priors,
    to_json,
    to_plain,
)
from mercer.learners.grammar import GrammarSearch, SearchPolicy
from mercer.learners.judging import Judge, appoint

MONTH = packaged_priors().steps["month"]


def data_of(rows: int, season: int = 12) -> Data:
    """A line, a season and something rough, without chance."""
    steps = np.arange(rows, dtype=float)
    y = 0.05 * steps + np.sin(2 * np.pi * steps / season) + 0.3 * np.sin(steps**2)
    return Data(((steps - steps.mean()) / steps.std())[:, None], (y - y.mean()) / y.std(), free_level=True)


def judge_of(data: Data, score: str = "auto", priors: object = "experience", columns: int = 1) -> Judge:
    X = np.column_stack([data.X] * columns)
    context = Context(replace(data, X=X), Exact(), list(range(columns)))
    return appoint(context, score, priors, SearchPolicy().prior_rows)


def test_the_frequency_of_a_structure_is_that_of_its_size_its_parts_and_how_they_are_joined():
    kernel = parse("SE(0) + PER(0) * M12(0) * M12(0)")
    assert list(parts_of(kernel)) == ["SE", "PER*", "M12*", "M12*"]
    assert count_joins(kernel) == (2, 1, 1)
    kinds = sum(MONTH.parts[key] for key in parts_of(kernel))
    expected = MONTH.sizes[3] + kinds + 2 * MONTH.multiplied + MONTH.added + MONTH.again
    assert MONTH.log_frequency(kernel) == pytest.approx(expected)


def test_what_is_seldom_is_less_likely():
    texts = ("PER(0) + SE(0)", "PER(0) + SE(0) + LIN(0) * LIN(0)", "LIN(0) * LIN(0) * PER(0) * PER(0)")
    found = [MONTH.log_frequency(parse(text)) for text in texts]
    assert found == sorted(found, reverse=True)
    assert found[0] - found[2] > 3


def test_priors_of_a_kernel_are_in_its_own_units():
    data = data_of(48)
    known = packaged_priors().for_series(data.X[:, 0], data.y)
    assert known is not None
    assert known.season is not None
    assert known.season.kind == "month"
    gap = float(data.X[1, 0] - data.X[0, 0])
    assert known.season.period == pytest.approx(12 * gap)
    prior = known.prior_of(bind(parse("SE(0) + LIN(0) * M12(0)"), 1))
    entries = {path: (centre, spread) for path, centre, spread in prior.entries}
    centre, spread = MONTH.numbers["SE.lengthscale"]
    assert entries["0:SE.lengthscale"] == pytest.approx((centre + math.log(gap), spread))
    place, width = MONTH.numbers["LIN*.offset"]
    span = float(np.ptp(data.X))
    assert entries["1:LIN.offset"] == pytest.approx((data.X[0, 0] + place * span, width * span))
    assert entries["noise"] == MONTH.numbers["noise"]


@pytest.mark.parametrize(("season", "kind"), [(12, "month"), (4, "quarter"), (7, "day")])
def test_a_season_tells_what_the_step_is(season, kind):
    data = data_of(60, season)
    found = find_season(data.X[:, 0], data.y)
    assert found is not None
    assert found.kind == kind


def test_there_is_no_season_in_a_curve_in_few_rows_or_where_rows_are_missing():
    steps = np.arange(60.0)
    assert find_season(steps, 0.01 * steps**2) is None
    data = data_of(60)
    assert find_season(data.X[:9, 0], data.y[:9]) is None
    assert find_season(np.delete(data.X[:, 0], [7, 20, 33]), np.delete(data.y, [7, 20, 33])) is None


def test_places_that_are_no_steps_have_no_experience():
    data = data_of(48)
    some = np.delete(data.X[:, 0], [7, 20, 33])  # rows may be missing
    assert is_series(some)
    days = np.cumsum([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] * 4).astype(float)
    assert is_series(days)
    season = find_season(days, data.y)
    assert season is not None
    assert season.period == pytest.approx(365, rel=0.01)
    scattered = np.sort(np.random.default_rng(0).uniform(size=48))
    assert not is_series(scattered)
    assert not is_series(np.repeat(np.arange(24.0), 2))
    assert packaged_priors().for_series(scattered, data.y) is None


def test_a_file_keeps_what_was_learned_and_anything_else_is_refused():
    priors = SearchPriors({"month": MONTH}, ("some series",))
    again = from_plain(json.loads(to_json(priors)))
    assert again == priors
    with pytest.raises(InputError, match="no file of priors for a search"):
        from_plain({"format": "another"})
    with pytest.raises(InputError, match="priors must be 'experience'"):
        GrammarSearch(priors="weak").check()


def test_frequencies_are_learned_from_examples():
    kernel = bind(parse("SE(0, variance=2, lengthscale=0.5) + PER(0, variance=1, period=1.2, lengthscale=1)"), 1)
    examples = [Example(kernel, 0.1 * (1 + number % 3), 0.1, 0.0, 5.0, 1.2) for number in range(6)]
    found = learn_step(examples)
    assert found.numbers["SE.lengthscale"][0] == pytest.approx(math.log(5.0))  # in steps
    assert found.numbers["noise"][0] == pytest.approx(math.log(0.2), abs=0.4)
    assert found.at_season > 0.9
    assert found.parts["SE"] > found.parts["LIN"]
    assert found.added > found.multiplied
    assert math.exp(found.sizes[1]) > 0.5


def test_what_forecasts_learned_serves_a_search():
    found = read_priors(priors_of_forecasts())
    assert found is not None
    member = [each for each in priors_of_forecasts().steps["month"].members if each.scale == "level"][-1]
    centre, spread = next((c, s) for path, c, s in member.prior.entries if path.endswith("SE.lengthscale"))
    assert found.steps["month"].numbers["SE*.lengthscale"] == pytest.approx((centre + math.log(12), spread))
    assert found.steps["month"].parts == MONTH.parts


def test_experience_judges_series_of_few_rows_and_bic_all_else():
    few, many = data_of(60), data_of(SearchPolicy().prior_rows + 1)
    assert judge_of(few).criterion.name == "evidence"
    assert judge_of(many).criterion.name == "bic"
    assert judge_of(few, columns=2).criterion.name == "bic"
    assert judge_of(few, priors=None).criterion.name == "bic"
    assert judge_of(few, score="bic").criterion.name == "bic"


def test_the_score_is_the_evidence_under_the_priors_and_what_the_structure_costs():
    data = data_of(40)
    judge = judge_of(data)
    fit = GrammarSearch(max_depth=0, bases=("SE",)).learn(Context(data, Exact(), [0])).fit
    problem = prepare(fit.expression, data, Exact(), FitOptions(priors=judge.priors_of(fit.expression)))
    found = average_evidence(problem, problem.point(fit.values, Gaussian(fit.noise)))
    assert judge.known is not None
    price = -2 * judge.known.step.log_frequency(fit.expression)
    assert judge.score(fit) == pytest.approx(-2 * found + price)
    weak = judge_of(data, "evidence", None)
    assert weak.priors_of(fit.expression) is True
    assert weak.price(fit.expression) == 0


def test_a_period_at_the_season_costs_less_than_any_other():
    data = data_of(48)
    judge, gap = judge_of(data), float(data.X[1, 0] - data.X[0, 0])
    assert judge.known is not None
    scores = []
    for steps in (12.0, 9.0):
        kernel = bind(parse(f"PER(0, variance=0.5, period={steps * gap!r}, lengthscale=1)"), 1)
        problem = prepare(kernel, data, Exact(), FitOptions(priors=judge.priors_of(kernel)))
        point = problem.point(problem.known, Gaussian(0.3))
        scores.append(judge.known.log_evidence(problem, point) - average_evidence(problem, point))
    assert scores[0] > 0 > scores[1]


def repeats_a_kind(kernel) -> bool:
    kinds = [child.symbol for child in kernel.children if isinstance(child, Base)]
    own = isinstance(kernel, Product) and len(set(kinds)) < len(kinds)
    return own or any(map(repeats_a_kind, kernel.children))


def test_twelve_rows_have_a_simple_kernel():
    steps = np.arange(12.0)
    y = (1 + 0.1 * steps) ** 2 * (10 + np.sin(2 * np.pi * steps / 4) + 0.4 * np.sin(steps**2))
    model = mercer.GPRegressor(mercer.GrammarSearch(), random_state=0).fit(steps[:, None], y)
    assert len(list(model.kernel_.leaves())) <= 3
    assert not repeats_a_kind(model.kernel_)
    assert model.explain().search.score == "-2 log evidence"


def test_settings_with_priors_are_kept():
    learner = GrammarSearch(priors=packaged_priors())
    again = GrammarSearch.read(json.loads(json.dumps(learner.describe())))
    assert read_priors(again.priors) == packaged_priors()
    assert GrammarSearch.read(GrammarSearch(priors=None).describe()).priors is None
    assert to_plain(packaged_priors())["sources"]
