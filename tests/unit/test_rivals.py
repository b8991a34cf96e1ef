"""Kernels that are level with the best of a line are grown before the line ends."""

from __future__ import annotations

from mercer.inference.exact import Exact
from mercer.learners.contract import Context
from mercer.learners.grammar import GrammarSearch, Search, SearchPolicy
from mercer.learners.growth import count_parts
from mercer.learners.racing import RacePolicy
from mercer.learners.trials import Attempt
from tests.unit.test_grammar import season
from tests.unit.test_race import run_that_promises


def searched(rivals: int, **settings) -> Search:
    how = GrammarSearch(policy=SearchPolicy(rivals=rivals), score="bic", priors=None, **settings)
    search = Search(how, Context(season(60, seed=1), Exact(), [0]))
    search.run()
    return search


def rivals_left(search: Search) -> list[int]:
    """The numbers of finished kernels that are level with the best, have no more parts, and were not grown."""
    candidates, best = search.trials.candidates, search.trials.incumbent
    assert best is not None
    limit = best.score + search.policy.improvement
    level = [i for i in search.trials.find_finished() if candidates[i].score < limit and i not in search.grown]
    return [i for i in level if count_parts(candidates[i]) <= count_parts(best)]


def test_a_line_ends_when_no_rival_is_left_or_its_number_is_reached():
    none, all_of_them = searched(0), searched(1000)
    assert rivals_left(none)
    assert not rivals_left(all_of_them)
    before, after = none.trials.incumbent, all_of_them.trials.incumbent
    assert before is not None
    assert after is not None
    assert after.score <= before.score
    assert len(all_of_them.trials.candidates) > len(none.trials.candidates)


def test_rivals_keep_to_the_greatest_depth():
    assert max(c.depth for c in searched(1000, max_depth=1).trials.candidates) == 1


def test_what_a_candidate_may_be_behind_is_what_several_steps_promise():
    search = Search(GrammarSearch(score="bic"), Context(season(60), Exact(), [0]))
    attempt = Attempt((run_that_promises(3.0, rows=30),), 0, 0.0)
    assert search.hope(attempt) == RacePolicy().steps_ahead * 2.0 * 3.0 * 60 / 30
