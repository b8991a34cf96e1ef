"""What was learned as data: the file, and how bands are widened."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mercer.errors import InputError
from mercer.forecast.experience import (
    FARTHEST_RELATIVE,
    FEW_ROWS,
    Experience,
    Priors,
    from_json,
    packaged_priors,
    to_json,
)
from mercer.forecast.learning import LEAN, LEAST_APART, Held, find_lean, fit_bands
from mercer.forecast.mixture import Part
from mercer.forecast.model import mix
from mercer.forecast.scales import scale_called


def test_bands_of_long_series_are_widened_less():
    experience = replace(packaged_priors().steps["year"], widening=1.5, growth=0.1, settling=0.3)
    steps = np.arange(1, 7)
    np.testing.assert_allclose(experience.widen(steps, FEW_ROWS), 1.5 * steps**0.1 * 2**0.3)
    np.testing.assert_allclose(experience.widen(steps, 10**9), 1.5 * steps**0.1)


def test_a_file_keeps_what_was_learned_to_four_digits():
    experience = replace(packaged_priors().steps["year"], settling=0.1234, lean=0.2345)
    experience = replace(experience, shrinkage=0.3456, typical=0.0567)
    again = from_json(to_json(Priors({"year": experience}, ("some series",))))
    assert again.steps["year"].settling == pytest.approx(0.1234)
    assert again.steps["year"].lean == pytest.approx(0.2345)
    assert (again.steps["year"].shrinkage, again.steps["year"].typical) == pytest.approx((0.3456, 0.0567))
    assert again.sources == ("some series",)


def test_a_file_of_an_earlier_version_widens_all_series_alike_and_moves_none():
    plain = json.loads(to_json(Priors({"year": packaged_priors().steps["year"]})))
    for name in ("settling", "lean", "shrinkage", "typical"):
        del plain["steps"]["year"][name]
    again = from_json(json.dumps(plain)).steps["year"]
    assert (again.settling, again.lean, again.shrinkage) == (0, 0, 0)
    with pytest.raises(InputError, match="typical relative deviation"):
        from_json(json.dumps(plain).replace('"series"', '"typical": 0, "series"'))


def test_bands_are_learned_from_where_the_values_fell():
    rng, bare, rows = np.random.default_rng(0), packaged_priors().steps["year"], (8, 16, 40)
    bare = replace(bare, members=bare.members[:1])
    truth = replace(bare, widening=1.4, growth=0.2, settling=0.5)
    held = []
    for place in range(600):
        wider = truth.widen(np.arange(1.0, 7.0), rows[place % 3])
        away = wider * rng.standard_t(5, size=6) * np.sqrt(3 / 5)  # of variance one before it is widened
        held.append(Held(np.zeros(1), away[None], np.zeros((1, 6)), np.zeros((1, 6)), rows[place % 3]))
    found = fit_bands(held, bare)
    for few in rows:
        expected = truth.widen(np.arange(1.0, 7.0), few)
        np.testing.assert_allclose(found.widen(np.arange(1.0, 7.0), few), expected, rtol=0.15)
    assert 3 <= found.freedom <= 12
    short = [
        replace(each, away=each.away[:, :4], log_unit=each.log_unit[:, :4], relative=each.relative[:, :4])
        for each in held[:200]
    ]
    np.testing.assert_allclose(fit_bands([*short, *held[200:]], bare).widening, found.widening, rtol=0.1)
    held[0] = replace(held[0], away=held[0].away * 1e6)  # one that went astray
    again = fit_bands(held, bare)
    np.testing.assert_allclose(again.widen(np.ones(1), 16), found.widen(np.ones(1), 16), rtol=0.1)


def test_what_series_say_of_their_own_uncertainty_is_drawn_to_the_typical():
    plain = Experience(packaged_priors().steps["year"].members, shrinkage=0.5, typical=0.1)
    found = plain.widen(np.ones(3), 10**9, np.array([0.05, 0.1, 0.2]))
    np.testing.assert_allclose(found, [2**0.5, 1.0, 0.5**0.5], rtol=1e-6)
    far = plain.widen(np.ones(2), 10**9, np.array([1e-9, 1e9]))  # such as 1e9 with noise 1
    np.testing.assert_allclose(far, np.exp([0.5 * FARTHEST_RELATIVE, -0.5 * FARTHEST_RELATIVE]), rtol=1e-6)
    parts = [Part(scale_called(name), np.ones(1), np.array([size]), 0.5) for name, size in
             (("level", 0.8), ("root", 0.2), ("log", 0.2))]  # fmt: skip
    above = mix(parts, plain, np.array([3.0, 5.0])).parts  # each is a fifth of the mean of 4
    found = np.array([part.deviation[0] for part in above])
    np.testing.assert_allclose(found, np.array([0.8, 0.2, 0.2]) * _few(plain, 2) / 2**0.5)
    (below,) = mix(parts[:1], plain, np.array([-3.0, 11.0])).parts
    np.testing.assert_allclose(below.deviation, 0.8 * _few(plain, 2))


def _few(experience: Experience, rows: int) -> float:
    return float(experience.widen(np.ones(1), rows)[0])


def test_shrinkage_is_learned_from_ends_that_were_less_unusual_than_they_seemed():
    rng, bare = np.random.default_rng(3), packaged_priors().steps["year"]
    bare = replace(bare, members=bare.members[:1])
    held = []
    for place in range(400):
        unusual = rng.normal()
        away = np.exp(-0.3 * unusual) * rng.normal(size=(1, 6))
        relative = np.full((1, 6), unusual - 3.0)
        held.append(Held(np.zeros(1), away, np.zeros((1, 6)), relative, 10**6, group=(place % 20, 1)))
    found = fit_bands(held, bare)
    assert 0.2 < found.shrinkage < 0.4
    assert found.typical == pytest.approx(np.exp(-3.0), rel=0.2)


def test_members_that_were_wrong_lose_weight():
    rng, bare = np.random.default_rng(0), packaged_priors().steps["year"]
    away = rng.normal(size=(100, 1, 4))
    none = np.full((2, 4), np.nan)  # of series that are not above zero
    both = [Held(np.zeros(2), np.concatenate([each, each + 6.0]), np.zeros((2, 4)), none, 20) for each in away]
    held = [replace(each, group=(place % 5, 1)) for place, each in enumerate(both)]  # five archives
    found = fit_bands(held, replace(bare, members=bare.members[:2])).members
    assert found[0].weight > 0.9
    alone = fit_bands(both, replace(bare, members=bare.members[:2])).members
    assert 0.5 < alone[0].weight < found[0].weight  # one archive at one time says less
    season = fit_bands(held, replace(bare, members=bare.members[:2]), seasonal=True).members
    assert 0.7 < season[0].weight < found[0].weight  # nearer to equal


def test_middles_of_series_above_zero_lean():
    experience = replace(
        packaged_priors().steps["year"], lean=0.3, widening=2.0, growth=0.0, settling=0.0, shrinkage=0.0
    )
    part = Part(scale_called("level"), np.array([10.0, 11.0]), np.array([1.0, 2.0]), 1.0)
    (moved,) = mix([part], experience, np.array([8.0, 9.0])).parts
    np.testing.assert_allclose(moved.middle, [10.3, 11.6])
    np.testing.assert_allclose(moved.deviation, [2.0, 4.0])
    (kept,) = mix([part], experience, np.array([-8.0, 9.0])).parts
    np.testing.assert_allclose(kept.middle, part.middle)


def test_a_lean_is_learned_as_far_as_groups_agree():
    groups = [np.arange(12) // 4 == number for number in range(3)]

    def lean(*errors: float) -> float:
        return find_lean(np.ones((12, 1)), np.repeat(errors, 4)[:, None, None] * np.ones((12, 1, 6)), groups)

    assert lean(0.4, 0.4, 0.4) == pytest.approx(0.4 * 3 / (3 + LEAST_APART**2 / LEAN**2))
    assert lean(0.5, -0.5, 0.0) == pytest.approx(0.0)
    assert 0 < lean(1.4, -0.5, 0.3) < 0.05  # the same mean, but the groups do not agree
    assert find_lean(np.ones((12, 1)), np.ones((12, 1, 6)), [np.ones(12, dtype=bool)]) == 0.0  # one year says nothing


def test_quantiles_on_the_scale_of_roots_pass_zero_as_those_of_levels_do():
    parts = [Part(scale_called("root"), np.array([0.5]), np.array([1.0]), 0.5),
             Part(scale_called("level"), np.array([0.4]), np.array([1.0]), 0.5)]  # fmt: skip
    plain = Experience(packaged_priors().steps["year"].members, freedom=60.0)
    found = mix(parts, plain, np.ones(4)).quantiles((0.1, 0.2, 0.3, 0.9))[:, 0]
    assert np.all(np.diff(found) > 0)
    assert found[2] < 0 < found[3]
    bounded = mix(parts[:1], plain, np.ones(4)).quantiles((0.1, 0.2, 0.3, 0.9))[:, 0]  # of scales above zero alone
    assert list(bounded[:3]) == [0.0, 0.0, 0.0]
    assert bounded[3] > 0


def test_what_is_borrowed_from_another_kind_of_step_does_not_lean():
    year = replace(packaged_priors().steps["year"], lean=0.3)
    priors = Priors({"year": year})
    assert priors.of("year", seasonal=False).lean == 0.3
    assert priors.of("month", seasonal=False) == replace(year, lean=0.0)
