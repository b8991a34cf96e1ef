"""Models whose reports are looked at: a series found by a search, and a table with everything in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mercer.datasets import airline
from mercer.estimators import GPRegressor
from mercer.forecast.forecaster import Forecaster
from mercer.learners.grammar import GrammarSearch
from mercer.learners.nkn import NeuralKernelNetwork
from mercer.optimise.optimizer import Optimizer
from mercer.optimise.space import Integer, Log


@pytest.fixture(scope="session")
def found() -> GPRegressor:
    """A year-long rhythm, found by a short search."""
    data = airline().iloc[:72]
    search = GrammarSearch(bases=("SE", "PER", "LIN"), max_depth=2, restarts=2)
    return GPRegressor(search, random_state=0).fit(data[["month"]], data["passengers"])


@pytest.fixture(scope="session")
def mixed() -> GPRegressor:
    """Numbers, dates and categories; names that HTML must escape."""
    rng = np.random.default_rng(0)
    inputs = pd.DataFrame({
        "heat & <light>": rng.uniform(0, 30, 40),
        "region": rng.choice(["north", "a <b>place</b> with a very long name", "south"], 40),
        "day": pd.date_range("2023-01-01", periods=40),
    })  # fmt: skip
    target = pd.Series(np.sin(inputs.iloc[:, 0] / 5) + (inputs["region"] == "south"), name='energy "use" <kWh>')
    kernel = 'SE("heat & <light>") + CAT(region)*LIN(day)'
    return GPRegressor(kernel, random_state=0, restarts=1).fit(inputs, target)


@pytest.fixture(scope="session")
def trained() -> GPRegressor:
    """A small network, trained from two starts."""
    data = airline().iloc[:72]
    network = NeuralKernelNetwork("2*SE + PER + LIN", "Linear4-Product2-Linear1", restarts=2, max_iterations=60)
    return GPRegressor(network, random_state=0).fit(data[["month"]], data["passengers"])


@pytest.fixture(scope="session")
def network_page(trained: GPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the network."""
    path = tmp_path_factory.mktemp("network") / "report.html"
    trained.report(path)
    return path


@pytest.fixture(scope="session")
def page(found: GPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the series."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    found.report(path)
    return path


@pytest.fixture(scope="session")
def forecast_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a forecast of one series."""
    data = airline().iloc[:72]
    series = pd.Series(data["passengers"].to_numpy(), index=pd.DatetimeIndex(data["month"]))
    path = tmp_path_factory.mktemp("forecast") / "report.html"
    Forecaster().fit(series).report(path, target="passengers")
    return path


@pytest.fixture(scope="session")
def study_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an optimisation: a curve, a map, choices, suggestions and trials."""
    bounds = {"temperature": (20.0, 90.0), "dose": Log(0.01, 1.0), "steps": Integer(1, 6), "solvent": ["water", "oil"]}
    study = Optimizer(bounds, "SE(0) + SE(1)*SE(2) + SE(3, 4)", minimize=False, random_state=0)
    for row in study.space.sample(25, np.random.default_rng(0)):
        point = study.space.decode(row)
        study.tell(point, -(((point["temperature"] - 60) / 10) ** 2) - np.log(point["dose"]) ** 2 * point["steps"])
    study.ask(2)
    path = tmp_path_factory.mktemp("study") / "report.html"
    study.report(path, "yield")
    return path
