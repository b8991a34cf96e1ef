"""What was learned as data: the file, and how bands are widened."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mercer.forecast.experience import USUAL_ROWS, Priors, from_json, packaged_priors, to_json


def test_bands_of_long_series_are_widened_less():
    experience = replace(packaged_priors().steps["year"], widening=1.5, growth=0.1, settling=0.3)
    steps = np.arange(1, 7)
    np.testing.assert_allclose(experience.widen(steps, USUAL_ROWS), 1.5 * steps**0.1)
    np.testing.assert_allclose(experience.widen(steps, 2 * USUAL_ROWS), 1.5 * steps**0.1 * 2**-0.3)


def test_a_file_keeps_what_was_learned_to_four_digits():
    experience = replace(packaged_priors().steps["year"], settling=0.1234)
    again = from_json(to_json(Priors({"year": experience}, ("some series",))))
    assert again.steps["year"].settling == pytest.approx(0.1234)
    assert again.sources == ("some series",)


def test_a_file_of_an_earlier_version_widens_all_series_alike():
    plain = json.loads(to_json(Priors({"year": packaged_priors().steps["year"]})))
    del plain["steps"]["year"]["settling"]
    assert from_json(json.dumps(plain)).steps["year"].settling == 0
