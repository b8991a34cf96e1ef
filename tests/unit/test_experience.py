"""What was learned as data: the file, and how bands are widened."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mercer.forecast.experience import FEW_ROWS, Priors, from_json, packaged_priors, to_json
from mercer.forecast.learning import Held, fit_bands


def test_bands_of_long_series_are_widened_less():
    experience = replace(packaged_priors().steps["year"], widening=1.5, growth=0.1, settling=0.3)
    steps = np.arange(1, 7)
    np.testing.assert_allclose(experience.widen(steps, FEW_ROWS), 1.5 * steps**0.1 * 2**0.3)
    np.testing.assert_allclose(experience.widen(steps, 10**9), 1.5 * steps**0.1)


def test_a_file_keeps_what_was_learned_to_four_digits():
    experience = replace(packaged_priors().steps["year"], settling=0.1234)
    again = from_json(to_json(Priors({"year": experience}, ("some series",))))
    assert again.steps["year"].settling == pytest.approx(0.1234)
    assert again.sources == ("some series",)


def test_a_file_of_an_earlier_version_widens_all_series_alike():
    plain = json.loads(to_json(Priors({"year": packaged_priors().steps["year"]})))
    del plain["steps"]["year"]["settling"]
    assert from_json(json.dumps(plain)).steps["year"].settling == 0


def test_bands_are_learned_from_where_the_values_fell():
    rng, bare, rows = np.random.default_rng(0), packaged_priors().steps["year"], (8, 16, 40)
    bare = replace(bare, members=bare.members[:1])
    truth = replace(bare, widening=1.4, growth=0.2, settling=0.5)
    held = []
    for place in range(600):
        wider = truth.widen(np.arange(1.0, 7.0), rows[place % 3])
        away = wider * rng.standard_t(5, size=6) * np.sqrt(3 / 5)  # of variance one before it is widened
        held.append(Held(np.zeros(1), away[None], np.zeros((1, 6)), rows[place % 3]))
    found = fit_bands(held, bare)
    for few in rows:
        expected = truth.widen(np.arange(1.0, 7.0), few)
        np.testing.assert_allclose(found.widen(np.arange(1.0, 7.0), few), expected, rtol=0.15)
    assert 3 <= found.freedom <= 12
    held[0] = replace(held[0], away=held[0].away * 1e6)  # one that went astray
    again = fit_bands(held, bare)
    np.testing.assert_allclose(again.widen(np.ones(1), 16), found.widen(np.ones(1), 16), rtol=0.1)


def test_members_that_were_wrong_lose_weight():
    rng, bare = np.random.default_rng(0), packaged_priors().steps["year"]
    away = rng.normal(size=(100, 1, 4))
    held = [Held(np.zeros(2), np.concatenate([each, each + 6.0]), np.zeros((2, 4)), 20) for each in away]
    found = fit_bands(held, replace(bare, members=bare.members[:2]))
    assert found.members[0].weight > 0.9
