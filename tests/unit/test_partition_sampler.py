"""Which inputs act together: the chain has the right stationary distribution, the learner and the words are honest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import Exact, GPRegressor, InputError, PartitionSampler
from mercer.compute.program import compile_program
from mercer.explain.claims import Claim, ClaimEvidence, InputChance, PartitionFound
from mercer.explain.partitions import count_partitions
from mercer.explain.wording import Vocabulary, probability
from mercer.explain.words import say
from mercer.learners.partition import Groups, sort_groups
from mercer.learners.partition_sampler import SamplerPolicy, log_chance, propose, walk
from mercer.model.fitted import LEARNERS
from tests.policies import regressor_with

QUICK = PartitionSampler(steps=25, burn_in=5, families=("SE",))


def partitions(inputs: int) -> list[Groups]:
    """Every partition, by adding one input after the other to a group or to a new one."""

    def grow(done: int) -> Iterator[list[list[int]]]:
        if not done:
            yield []
            return
        for groups in grow(done - 1):
            for k in range(len(groups)):
                yield [[*g, done - 1] if i == k else g for i, g in enumerate(groups)]
            yield [*groups, [done - 1]]

    return [sort_groups(groups) for groups in grow(inputs)]


def table(rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """(a, b), c, and d that does nothing."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(0.0, 1.0, (rows, 4)), columns=list("abcd"))
    f = 1.5 * np.sin(5.0 * X.a) * np.cos(4.0 * X.b) + np.sin(5.0 * X.c)
    X["a"] = 100.0 + 50.0 * X.a
    return X, pd.Series(f + 0.1 * rng.standard_normal(rows), name="yield")


@pytest.fixture(scope="module")
def model() -> GPRegressor:
    return GPRegressor(QUICK, random_state=0).fit(*table(70))


# ----------------------------------------------------------------------------------------------------------- the chain


@pytest.mark.parametrize("inputs", [2, 3, 4, 5])
def test_the_chances_of_proposals_add_up_to_one_and_are_those_of_the_draws(inputs: int) -> None:
    every = partitions(inputs)
    assert len(set(every)) == count_partitions(inputs)
    rng = np.random.default_rng(0)
    for old in every:
        chances = {new: math.exp(log_chance(old, new)) for new in every if new != old}
        assert sum(chances.values()) == pytest.approx(1.0)
        if inputs == 4:
            drawn = Counter(propose(old, rng) for _ in range(2000))
            assert set(drawn) <= {new for new, chance in chances.items() if chance > 0}
            for new, chance in chances.items():
                assert drawn[new] / 2000 == pytest.approx(chance, abs=4.0 * math.sqrt(chance / 2000) + 1e-9)


def test_the_ratio_of_hastings_is_the_one_written_down() -> None:
    """From (0 1 2)(3): split with 1/2, one large group, floor(3/2) = 1 size, 3 ways. Back: merge 1/2 of 3 pairs."""
    old, new = ((0, 1, 2), (3,)), ((0, 1), (2,), (3,))
    assert log_chance(old, new) == pytest.approx(math.log(0.5 / 1 / 1 / 3))
    assert log_chance(new, old) == pytest.approx(math.log(0.5 / 3))
    whole, halves, alone = ((0, 1, 2, 3),), ((0, 1), (2, 3)), ((0,), (1,), (2,), (3,))
    assert log_chance(whole, halves) == pytest.approx(math.log(1.0 / 1 / 2 / 3))  # two sizes; 3 ways to halve
    assert log_chance(alone, ((0, 1), (2,), (3,))) == pytest.approx(math.log(1.0 / 6))
    assert log_chance(whole, alone) == -math.inf


def visited(scores: dict[Groups, float], steps: int) -> dict[Groups, float]:
    found = Counter(walk(next(iter(scores)), lambda there, _: scores[there], steps, np.random.default_rng(1)))
    return {groups: found[groups] / steps for groups in scores}


@pytest.mark.parametrize("inputs", [[0], 0, -1, "ab", [[0], 1]])
def test_inputs_that_are_no_lists_of_columns_are_a_sentence(inputs: object) -> None:
    with pytest.raises(InputError, match="inputs must be a list with a list of columns for each input"):
        PartitionSampler(inputs=inputs).find_inputs([0, 1])  # type: ignore[arg-type]


@pytest.mark.parametrize("inputs", [3, 4])
def test_frequencies_are_those_of_the_enumerated_posterior(inputs: int) -> None:
    rng = np.random.default_rng(inputs)
    scores = {groups: float(rng.normal(scale=1.5)) for groups in partitions(inputs)}
    total = sum(map(math.exp, scores.values()))
    for groups, share in visited(scores, 20_000).items():
        assert share == pytest.approx(math.exp(scores[groups]) / total, abs=0.02)


def test_frequencies_agree_with_the_scores_of_a_table() -> None:
    """The scores of a real table with little to tell; the chain of the learner and the enumeration use the same."""
    X, y = table(25)
    sampler = PartitionSampler(steps=400, burn_in=0, families=("SE",))
    found = GPRegressor(sampler, random_state=0).fit(X[["a", "b", "c"]], y).candidates_
    assert len(found) == 5
    weights = np.exp(-0.5 * np.array([c.score - found[0].score for c in found]))
    scores = dict(enumerate(weights / weights.sum()))
    assert sum(c.step.number for c in found) == 400
    for number, candidate in enumerate(found):  # correlated samples: a rough agreement is all that 400 steps can show
        assert candidate.step.number / 400 == pytest.approx(scores[number], abs=0.15)


# --------------------------------------------------------------------------------------------------------- the learner


def test_the_true_partition_is_the_most_probable(model: GPRegressor) -> None:
    found = model.explain().partition
    assert found is not None
    assert found.inputs == ("a", "b", "c", "d")
    assert found.idle == ("d",)
    assert found.partitions[0].groups == (("a", "b"), ("c",))
    assert found.partitions[0].probability > 0.9
    assert np.allclose(found.together, np.transpose(found.together))
    assert np.allclose(np.diag(found.together), 1.0)
    assert found.together[0][1] > 0.9


def test_what_is_learned(model: GPRegressor) -> None:
    candidates, members = model.candidates_, model.fitted_.mixture.members
    assert all(c.step.kind == "partition" for c in candidates)
    assert len({c.expression for c in candidates}) == len(candidates)
    assert list(candidates) == sorted(candidates, key=lambda c: c.score)
    assert sum(c.step.number for c in candidates) == 20
    assert candidates[0].expression == model.kernel_
    assert 1 <= len(members) <= 8
    assert sum(member.within for member in members) == pytest.approx(1.0)
    new, truth = table(300, seed=5)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.25
    lengths = {leaf.columns: leaf.lengthscales() for leaf in model.kernel_.leaves()}
    assert lengths[0, 1][0] > 5.0  # a is in its own units, from 100 to 150
    fit, data = model.fitted_.as_fit(), model.fitted_.training.data
    again = Exact().evidence(compile_program(fit.expression), fit.values, fit.likelihood, data)
    assert again.value == pytest.approx(fit.log_evidence, abs=1e-6)


def test_the_same_seed_gives_the_same_result_whatever_the_jobs() -> None:
    X, y = table(40)
    sampler = PartitionSampler(steps=6, burn_in=1)
    one, other = (GPRegressor(sampler, random_state=3, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    assert one.kernel_ == other.kernel_
    assert [c.step.number for c in one.candidates_] == [c.step.number for c in other.candidates_]


def test_a_category_is_one_input_with_one_correlation() -> None:
    X, y = table(50)
    X["kind"] = np.random.default_rng(1).choice(["red", "green", "blue"], 50)
    y = y + (X.kind == "red") * X.c * 3.0
    model = GPRegressor(QUICK, random_state=0).fit(X[["c", "kind", "a"]], y)
    found = model.explain().partition
    assert found is not None
    assert found.inputs == ("c", "kind", "a")
    (leaf,) = (leaf for leaf in model.kernel_.leaves() if leaf.columns == (1,))
    assert leaf.symbol == "CAT"
    assert 0 < leaf.value("correlation") < 1
    by_hand = PartitionSampler(inputs=[[1, 2]]).find_inputs([0, 1, 2, 3])
    assert by_hand == ((0,), (1, 2), (3,))


def test_a_known_noise_stays() -> None:
    X, y = table(40)
    known = GPRegressor(QUICK, noise=0.04, random_state=0).fit(X, y)
    assert known.noise_ == pytest.approx(0.04)
    free = GPRegressor(QUICK, random_state=0).fit(X, y)
    assert known.n_parameters_ == free.n_parameters_ - 1 or known.kernel_ != free.kernel_
    exact = GPRegressor(QUICK, noise=0.0, random_state=0).fit(X, y)
    assert exact.noise_ == 0.0


def test_one_input_has_nothing_to_sample() -> None:
    x = np.linspace(0.0, 1.0, 30)[:, None]
    model = GPRegressor(QUICK, random_state=0).fit(x, np.sin(6.0 * x[:, 0]))
    assert len(model.candidates_) == 1
    assert model.explain().partition is None


def test_a_stop_on_request_and_the_end_of_the_time_give_what_there_is() -> None:
    X, y = table(40)

    def stop(state: Any) -> None:
        assert (state.counted, state.total) == ("steps", 25)
        if state.done == 8:
            raise KeyboardInterrupt

    early = GPRegressor(QUICK, random_state=0).fit(X, y, progress=stop)
    assert early.stopped_ == "request"
    assert any("stopped on request, after 8 of 25 steps" in note for note in early.notes_)
    assert early.explain().partition is not None
    short = GPRegressor(PartitionSampler(time_budget=1e-6), random_state=0).fit(X, y)
    assert (short.stopped_, len(short.candidates_)) == ("time", 1)


def test_of_many_rows_some_are_sampled_with_and_all_are_fitted() -> None:
    X, y = table(90)
    model = regressor_with(SamplerPolicy(rows=40))(QUICK, random_state=0).fit(X, y)
    assert any("scored on 40 of the rows" in note for note in model.notes_)
    claims = [claim for claim in model.explain().claims if claim.kind == "partition"]
    assert [claim.evidence.rows for claim in claims] == [40]
    winner = model.candidates_[0]
    assert winner.expression == model.kernel_
    assert winner.log_evidence != pytest.approx(model.log_evidence_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"steps": 10, "burn_in": 10}, "10 is not less than 10"),
        ({"families": ()}, "families must be a list of some of SE, M12"),
        ({"families": ("PER",)}, "families must be a list of some of SE, M12"),
        ({"families": "SE"}, "families must be a list of some of SE, M12"),
        ({"time_budget": -1.0}, "time_budget must be a number of seconds greater than zero"),
        ({"inputs": [["a", "x"]]}, "inputs names the column 'x', which is not there; the columns are a, b, c, d"),
        ({"inputs": [["a", "b"]]}, "must be zeros and ones"),
        ({"inputs": [["a"], ["a"]]}, "lists of different columns"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GPRegressor(PartitionSampler(**settings)).fit(*table(20))


def test_it_is_saved_and_its_settings_are_reached(model: GPRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    X, _ = table(20, seed=9)
    assert np.allclose(again.predict(X), model.predict(X))
    assert again.kernel.describe() == QUICK.describe()
    assert again.explain().to_json()["partition"] == model.explain().to_json()["partition"]
    assert GPRegressor(PartitionSampler()).set_params(kernel__steps=7).kernel.steps == 7
    assert isinstance(LEARNERS["partition"](), PartitionSampler)


# ----------------------------------------------------------------------------------------------------------- the words


def test_claims_of_what_acts_together(model: GPRegressor) -> None:
    explanation = model.explain()
    claims = {claim.kind: claim for claim in explanation.claims}
    assert [pair.names for pair in claims["acting together"].value] == [("a", "b")]
    assert [each.names for each in claims["acting alone"].value] == [("c",)]
    assert claims["acting unknown"].value == ("d",)
    assert claims["partition"].certainty == pytest.approx(claims["partition"].value.probability)
    assert "interaction" not in claims
    assert "no interaction" not in claims
    text = explanation.to_text(1000)
    assert "a and b together, c by itself" in text
    assert "Groups of inputs were sampled" in text
    assert "Kernels that differ only in its place count as one here" in text
    assert "-2 log posterior" in str(explanation.search)


def test_few_rows_settle_nothing() -> None:
    explanation = GPRegressor(QUICK, random_state=0).fit(*table(9)).explain()
    assert explanation.partition is not None
    assert "not settled: 9 rows tell too little" in explanation.partition.sentences[0]
    assert not any(claim.kind.startswith("acting") for claim in explanation.claims)


def test_a_probability_is_never_rounded_to_certainty() -> None:
    shown = [probability(value) for value in (1.0, 0.9999, 0.99, 0.734, 0.01, 0.004, 0.0)]
    assert shown == ["more than 99 %", "more than 99 %", "99 %", "73 %", "1 %", "less than 1 %", "less than 1 %"]


def test_sentences_of_partitions() -> None:
    names, rows = Vocabulary("yield", ()), ClaimEvidence(rows=30)

    def tell(groups: tuple[tuple[str, ...], ...], chance: float, told: bool = True) -> str:
        return say(Claim("partition", "yield", PartitionFound(groups, chance, told), evidence=rows), names)

    assert tell((("a", "b"), ("c",)), 0.8) == "Most probable is: a and b together, c by itself (probability 80 %)."
    assert "a and b by themselves" in tell((("a",), ("b",)), 0.8)
    assert "8 inputs by themselves" in tell(tuple((name,) for name in "abcdefgh"), 0.8)
    assert ": a and b together (" in tell((("a", "b"),), 0.8)
    assert ": a and b together, c and d together (" in tell((("a", "b"), ("c", "d")), 0.8)
    assert ": a by itself (" in tell((("a",),), 0.8)
    assert "the others by themselves" in tell((("a", "b"), ("c",), ("d",), ("e",), ("f",)), 0.8)
    assert "not settled by 30 rows" in tell((("a", "b"), ("c",)), 0.3)
    pair = InputChance(("a", "b"), 0.46)
    unsettled = say(Claim("acting together unsettled", "yield", (pair,)), names)
    assert unsettled == "Not settled is whether these act together: a and b (46 %)."


def test_an_input_that_acts_only_through_another_is_not_said_to_hardly_matter() -> None:
    """In the middle of a, b does nothing: the product is antisymmetric."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1.0, 1.0, (60, 2)), columns=["a", "b"])
    X.iloc[0] = 0.0
    model = GPRegressor("SE(a, b)", restarts=1, random_state=0).fit(X, X.a * X.b)
    directions = {effect.column: effect.direction for effect in model.explain().effects}
    assert "hardly matters" not in directions.values()


def test_the_page_shows_the_matrix(model: GPRegressor, tmp_path: Path) -> None:
    model.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '<section id="partition">' in page
    assert page.count("partition-wide-title") == 2  # the picture and its name
    assert "partition-narrow-desc" in page
    assert "(a, b) + c" in page
    assert "&gt;99" in page
    assert "Runners-up" not in page
