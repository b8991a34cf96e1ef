"""The sums over rows by joblib's workers and by Dask's: equal to those of one process, also where a worker dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.estimators.streams import StreamPolicy, open_stream
from mercer.inference.contract import Data
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import VFE, FixedVFE
from mercer.kernels import bind, parse
from mercer.kernels.parameters import values_of
from mercer.learners.many_rows import ManyRowsPolicy
from tests.policies import regressor_with

pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")
EXPRESSION = bind(parse("SE(variance=1, lengthscale=0.4) + LIN(1, variance=0.2, offset=0) * WN(0, variance=0.1)"), 2)


def table(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(-2, 2, rows), "b": rng.uniform(-2, 2, rows)})
    return frame.assign(y=np.sin(3 * frame["a"]) + 0.3 * frame["b"] + 0.1 * rng.normal(size=rows))


def data_of(frame: pd.DataFrame) -> Data:
    return Data(frame[["a", "b"]].to_numpy(), frame["y"].to_numpy(), free_level=True)


def everything(engine: FixedVFE, data: Data) -> np.ndarray:
    found = engine.evidence(compile_program(EXPRESSION), values_of(EXPRESSION), Gaussian(0.05), data)
    assert found.gradient is not None
    return np.concatenate([[found.value, found.noise_gradient], found.gradient])


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_gives_the_same_sums(backend: str) -> None:
    data = data_of(table(600))
    engine = FixedVFE(data.X[:12], block=150)
    expected = everything(engine, data)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        np.testing.assert_allclose(everything(engine, data), expected, rtol=1e-11)
    np.testing.assert_allclose(everything(FixedVFE(data.X[:12], 150, n_jobs=2), data), expected, rtol=1e-11)


# ------------------------------------------------------------------------------------------------------------- Dask


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        Client(local) as client,
    ):
        yield client


def dask_frame(frame: pd.DataFrame, partitions: int = 5) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(frame, npartitions=partitions, sort=False)


def test_two_workers_give_the_fit_of_one_machine(cluster: Any) -> None:
    quick = regressor_with(ManyRowsPolicy(rounds=1, iterations=8), StreamPolicy(sample=100))  # so that it is a stream
    frame = table(360)
    lazy = dask_frame(frame, 3)
    kernel, engine = "SE(a) + LIN(b)", VFE(inducing=20)
    found = quick(kernel, inference=engine, restarts=1, random_state=0).fit(lazy[["a", "b"]], lazy["y"])
    assert found.inference_.engine == engine
    assert "360 rows" in found.inference_.reason
    assert found.target_name_ == "y"
    new = frame[["a", "b"]].iloc[:50]
    whole = quick(kernel, inference=engine, restarts=1, random_state=0).fit(frame[["a", "b"]], frame["y"])
    assert found.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1.0)
    np.testing.assert_allclose(found.predict(new), whole.predict(new), atol=0.02)


def test_the_sums_of_two_workers_are_those_of_one_machine(cluster: Any) -> None:
    import dask.array as da

    frame = table(900)
    data = data_of(frame)
    engine = FixedVFE(data.X[:12], block=70)
    expected = everything(engine, data)
    lazy = dask_frame(frame)
    arrays = da.from_array(data.X, chunks=(200, 1)), da.from_array(data.y, chunks=200)
    for X, y in ((lazy[["a", "b"]], lazy["y"]), arrays):
        source = _Source(open_stream(X, y), 900)
        stream = Data(data.X[:50], data.y[:50], free_level=True, source=source)
        np.testing.assert_allclose(everything(engine, stream), expected, rtol=1e-9)


class _Source:
    """A stream in the units that it has."""

    def __init__(self, stream: Any, count: int) -> None:
        self.stream, self.count = stream, count

    def add_up(self, work: Any, size: int) -> Any:
        return self.stream.add_up(work, size)


def counted(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The number of rows, their sum, and who did it, slowly enough for a worker to be killed meanwhile."""
    time.sleep(0.15)
    return np.array([len(y), X.sum(), y.sum()])


def test_a_worker_that_dies_costs_nothing_but_time(cluster: Any) -> None:
    """Its partitions are worked on again elsewhere: none is lost, none is counted twice."""
    from threading import Timer

    frame = table(1200)
    lazy = dask_frame(frame, partitions=12)
    stream = open_stream(lazy[["a", "b"]], lazy["y"])
    victim = next(iter(cluster.run(os.getpid).values()))
    killer = Timer(0.5, os.kill, (victim, signal.SIGKILL))
    killer.start()
    found = stream.add_up(counted, 1000)
    killer.join()
    expected = [1200, frame[["a", "b"]].to_numpy().sum(), frame["y"].sum()]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert victim not in cluster.run(os.getpid).values()  # it did die


def test_partitions_that_are_wrong(cluster: Any) -> None:
    import dask.dataframe as dd
    from dask import delayed

    frame = table(90)
    lazy = dask_frame(frame, 3)

    def refused(X: Any, y: Any, words: str) -> None:
        with pytest.raises(InputError, match=words):
            mercer.GPRegressor("LIN").fit(X, y)

    refused(lazy[["a", "b"]], frame["y"], "y must be one too")
    refused(lazy[["a", "b"]], dask_frame(frame, 2)["y"], "3 partitions and y 2")
    refused(lazy.assign(c="text")[["a", "c"]], lazy["y"], "'c' hold no numbers")
    hole = frame.assign(b=np.where(np.arange(90) == 70, np.nan, 1.0))
    refused(dask_frame(hole, 3)[["a", "b"]], lazy["y"], "partition 3, row 11: column 'b' holds nothing")
    turns = [delayed(frame.iloc[:45]), delayed(frame.iloc[45:].rename(columns={"b": "c"}))]
    other = dd.from_delayed(turns, meta=frame.iloc[:0], verify_meta=False)
    refused(other[["a", "y"]].rename(columns={"y": "b"}), dask_frame(frame.iloc[:89], 2)["y"], "rows and that of y")


def test_without_a_cluster_dask_works_here() -> None:
    import dask

    frame = table(300)
    lazy = dask_frame(frame, 3)
    with dask.config.set(scheduler="synchronous"):
        model = mercer.GPRegressor("SE(a) + LIN(b)", random_state=0).fit(lazy[["a", "b"]], lazy["y"])
    whole = mercer.GPRegressor("SE(a) + LIN(b)", random_state=0).fit(frame[["a", "b"]], frame["y"])
    assert model.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-8)
