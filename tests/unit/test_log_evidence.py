"""The public `mercer.log_evidence`: a number, or a number and a gradient by path; clear words on wrong arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import mercer
from mercer.kernels import LIN, PER, SE, SM, C, Expression

X = np.linspace(0, 3, 12)[:, None]
Y = np.sin(2 * X[:, 0])
KERNEL = SE(0, variance=1.2, lengthscale=0.7) * PER(0, variance=1, period=1.1, lengthscale=0.9) + C(0.3)


def test_value_equals_scipy() -> None:
    d = X - X.T
    K = 1.2 * np.exp(-0.5 * d**2 / 0.49 - 2 * np.sin(np.pi * d / 1.1) ** 2 / 0.81) + 0.3
    expected = multivariate_normal(np.zeros(12), K + 0.1 * np.eye(12)).logpdf(Y)
    assert mercer.log_evidence(KERNEL, X, Y, noise=0.1) == pytest.approx(expected, rel=1e-10)
    value, gradient = mercer.log_evidence(KERNEL, X, Y, noise=0.1, gradient=True)
    assert value == pytest.approx(expected, rel=1e-10)
    assert set(gradient) == {
        "0:SE.variance", "0:SE.lengthscale", "1:PER.variance", "1:PER.period", "1:PER.lengthscale", "2:C.variance",
        "noise",
    }  # fmt: skip


def test_every_entry_of_the_gradient_is_a_slope() -> None:
    _, gradient = mercer.log_evidence(KERNEL, X, Y, noise=0.1, gradient=True)

    def moved(
        variance: float = 1.2, length: float = 0.7, period: float = 1.1, c: float = 0.3, noise: float = 0.1
    ) -> float:
        kernel = SE(0, variance=variance, lengthscale=length) * PER(0, variance=1, period=period, lengthscale=0.9)
        return mercer.log_evidence(kernel + C(c), X, Y, noise=noise)

    slopes = {
        "0:SE.variance": [moved(variance=1.2 + h) for h in (1e-6, -1e-6)],
        "0:SE.lengthscale": [moved(length=0.7 + h) for h in (1e-6, -1e-6)],
        "1:PER.period": [moved(period=1.1 + h) for h in (1e-6, -1e-6)],
        "2:C.variance": [moved(c=0.3 + h) for h in (1e-6, -1e-6)],
        "noise": [moved(noise=0.1 + h) for h in (1e-6, -1e-6)],
    }
    for path, (up, down) in slopes.items():
        assert gradient[path] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-5)


def test_text_lists_one_column_and_names() -> None:
    expected = mercer.log_evidence(KERNEL, X, Y, noise=0.1)
    assert mercer.log_evidence(str(KERNEL), X[:, 0].tolist(), list(Y), noise=0.1) == expected
    by_name = "SE(t, variance=1.2, lengthscale=0.7) * PER(t, variance=1, period=1.1, lengthscale=0.9) + 0.3"
    both = np.column_stack([np.zeros(12), X[:, 0]])
    assert mercer.log_evidence(by_name, both, Y, noise=0.1, names=["s", "t"]) == pytest.approx(expected)


def test_parameters_with_several_values_have_arrays() -> None:
    wide = np.random.default_rng(0).normal(size=(20, 3))
    value, gradient = mercer.log_evidence(SE(variance=1, lengthscale=2), wide, wide[:, 0], noise=0.2, gradient=True)
    assert np.isfinite(value)
    lengths = gradient["0:SE.lengthscale"]
    assert isinstance(lengths, np.ndarray)
    assert lengths.shape == (3,)
    assert isinstance(gradient["noise"], float)
    kernel = SM(0, components=2, variance=1, weights=[0.5, 0.5], frequency=[0.1, 0.2], bandwidth=[0.1, 0.1])
    _, gradient = mercer.log_evidence(kernel, wide, wide[:, 0], noise=0.2, gradient=True)
    assert_allclose(
        [np.size(gradient[f"0:SM.{n}"]) for n in ("variance", "weights", "frequency", "bandwidth")], [1, 2, 2, 2]
    )


def test_fixed_parameters_have_gradients_too() -> None:
    _, gradient = mercer.log_evidence(SE(0, variance=1, lengthscale=mercer.fixed(0.7)), X, Y, noise=0.1, gradient=True)
    assert gradient["0:SE.lengthscale"] != 0


@pytest.mark.parametrize(
    ("kernel", "inputs", "target", "noise", "words"),
    [
        (SE(0), X, Y, 0.1, ["value for every parameter", "0:SE.variance", "0:SE.lengthscale"]),
        (LIN(0, variance=1), X, Y, 0.1, ["0:LIN.offset"]),
        (KERNEL, X, Y, -1.0, ["noise", "-1"]),
        (KERNEL, X, Y, float("nan"), ["noise"]),
        (KERNEL, X[:5], Y, 0.1, ["(5, 1)", "(12,)"]),
        (KERNEL, X, Y[:, None], 0.1, ["(12, 1)"]),
        (KERNEL, X[:0], Y[:0], 0.1, ["(0, 1)"]),
        (KERNEL, np.where(X > 2, np.nan, X), Y, 0.1, ["finite"]),
        (KERNEL, X, np.where(Y > 0.9, np.inf, Y), 0.1, ["finite"]),
        (SE(1, variance=1, lengthscale=1), X, Y, 0.1, ["dimension 1", "only 0"]),
        (SE("year", variance=1, lengthscale=1), X, Y, 0.1, ["'year'"]),
        ("SE(0 +", X, Y, 0.1, ["^"]),
    ],
)
def test_wrong_arguments(kernel: Expression | str, inputs: Any, target: Any, noise: float, words: list[str]) -> None:
    with pytest.raises(mercer.InputError) as caught:
        mercer.log_evidence(kernel, inputs, target, noise=noise)
    for word in words:
        assert word in str(caught.value)


def test_no_evidence_says_what_to_try() -> None:
    far = LIN(0, variance=1e300, offset=-1e9)
    with pytest.raises(mercer.NumericalError, match="larger noise"):
        mercer.log_evidence(far, X, Y, noise=0.0)


def test_the_speed_benchmark_runs(tmp_path: Path) -> None:
    """A short run of what `make bench-speed` does: it must not rot between releases. No timing is judged here."""
    command = [sys.executable, "-m", "benchmarks.speed", "--quick", "--threads", "1", "--sizes", "150"]
    libraries = ["--libraries", "Mercer", "scikit-learn"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([*command, *libraries, "--out", str(tmp_path)], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "speed.json").read_text())
    assert results["machine"]["processor"]
    for library in ("Mercer", "scikit-learn"):
        for case in ("ARD SE, 8-D", "eight leaves, 1-D"):
            cell = results["cells"]["1"][library][case]["150"]
            assert cell["ratio"] == pytest.approx(cell["time"] / cell["floor"])
            assert cell["value"] == pytest.approx(results["cells"]["1"]["Mercer"][case]["150"]["value"], rel=1e-4)
            assert results["memory"][library][case] > 0
    text = (tmp_path / "speed.md").read_text()
    assert "| threads | N | floor ms | target | Mercer |" in text
    assert "not the same model" not in text
