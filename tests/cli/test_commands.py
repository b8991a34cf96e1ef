"""The commands as a user runs them: what they print, what they write, how they end."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import mercer as library
from mercer.cli.files import read_rows
from mercer.cli.learn import Request, choose_kernel, learn_and_write
from mercer.cli.terminal import Terminal
from mercer.fitting.minimise import Progress
from mercer.inference.core import SWEEPS, core_is_compiled
from mercer.tables import ReadOptions
from tests.cli.conftest import Mercer, table, wave_text

PNG = b"\x89PNG"


def shell(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "mercer"), *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


# ------------------------------------------------------------------------------------------------ as a shell sees it


def test_demo_from_the_shell(tmp_path: Path) -> None:
    done = shell("demo", "--depth", "1", "--jobs", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or "compiling" in done.stderr
    assert "passengers explained by month, from 144 rows" in done.stdout
    text = " ".join(done.stdout.split())
    assert "with period 12.0 months" in text
    assert "Each row was predicted from all the others: the mean error is" in text
    assert "A search over sums and products of SE, PER, LIN, RQ and M12 found the structure in 1 step" in text
    assert "done in" in text
    assert sorted(p.name for p in (tmp_path / "mercer-demo").iterdir()) == [
        "candidates.json", "components.png", "explanation.json", "fit.png", "model.mercer", "report.html",
    ]  # fmt: skip
    assert (tmp_path / "mercer-demo" / "fit.png").read_bytes().startswith(PNG)
    assert "<svg" in (tmp_path / "mercer-demo" / "report.html").read_text()


def test_bad_input_from_the_shell(tmp_path: Path) -> None:
    table(tmp_path / "data.csv", "x,y\n1,2\n2,oops\n3,4\n4,5\n5,6\n6,7\n")
    done = shell("discover", "data.csv", "--target", "y", folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: Column 'y', data row 2: 'oops' is not a number")
    assert "Traceback" not in done.stderr


def test_help_does_not_wait_for_the_numerical_libraries() -> None:
    heavy = "{'torch', 'numba', 'sklearn', 'scipy', 'pandas', 'matplotlib', 'numpy'}"
    script = f"import sys, mercer.cli.main as m; m.execute(['--help']); sys.exit(bool({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for command in ("demo", "discover", "predict", "explain"):
        assert command in done.stdout


@pytest.mark.parametrize("command", ["discover a.csv --target y", "demo", "fill a.npy --out b.npy", "explain a"])
def test_a_person_sees_something_before_the_numerical_libraries_are_imported(command: str) -> None:
    script = f"""
import sys
from mercer.cli.main import execute
from mercer.cli.terminal import Terminal

class Watched(Terminal):
    def working(self, task):
        print(task, {{"torch", "numba", "sklearn", "scipy", "pandas", "matplotlib"}} & set(sys.modules))
        raise KeyboardInterrupt

execute({command.split()!r}, Watched(as_json=False))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "getting ready set()\n", done.stderr


# -------------------------------------------------------------------------------------------------- in this process


def test_version_and_no_command(mercer: Mercer) -> None:
    assert mercer("--version").out == f"mercer {library.__version__}\n"
    bare = mercer()
    assert bare.code == 0
    assert "Usage: mercer" in bare.out


@pytest.fixture(scope="module")
def shops() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    days = pd.date_range("2024-01-01", periods=40)
    shop = np.array(["north", "south"])[rng.integers(0, 2, 40)]
    price = rng.uniform(1, 3, 40)
    sales = 10 - 3 * price + 2 * (shop == "south") + rng.normal(0, 0.1, 40)
    return pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "shop": shop, "price": price, "sales": sales})


def test_discover_with_a_network(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "data.csv", wave_text(24))
    found = mercer("discover", name, "--target", "y", "--kernel", "nkn", "--jobs", "1", "--out", "out", "--json")
    assert found.code == 0, found.err
    kernel = found.document["explanation"]["expression"]
    assert "Linear8-Product4-Linear4-Product2-Linear1" in kernel
    tried = json.loads((tmp_path / "out" / "candidates.json").read_text())
    assert len(tried["candidates"]) == 8
    assert tried["winner"] is not None
    again = mercer("explain", "out/model.mercer")
    assert again.code == 0, again.err


def test_discover_predict_explain(mercer: Mercer, tmp_path: Path, shops: pd.DataFrame) -> None:
    shops.to_parquet(tmp_path / "shops.parquet")
    search = ("--bases", "se,lin", "--depth", "1", "--jobs", "1")
    found = mercer("discover", "shops.parquet", "--target", "sales", "--out", "out", "--json", *search)
    assert found.code == 0, found.out
    explanation = found.document["explanation"]
    assert explanation["table_columns"] == ["day", "shop", "price"]
    assert [entry["unit"] for entry in explanation["inputs"]] == ["days", None, None]
    assert any("column 'shop' has 2 categories: north, south" in note for note in explanation["notes"])
    assert explanation == json.loads((tmp_path / "out" / "explanation.json").read_text())
    assert all(Path(path).exists() for path in found.document["files"].values())

    told = mercer("explain", "out/model.mercer")
    assert told.code == 0
    assert "sales explained by day, shop and price, from 40 rows" in told.out
    assert "has 2 categories: north, south" in " ".join(told.out.split())
    again = mercer("explain", "out/model.mercer", "--json").document["explanation"]
    assert again["kernel_exact"] == explanation["kernel_exact"]
    assert again["notes"] == explanation["notes"]
    assert [c["sentence"] for c in again["components"]] == [c["sentence"] for c in explanation["components"]]
    assert again["noise_std"] == pytest.approx(explanation["noise_std"])
    assert again["search"] == explanation["search"]

    candidates = json.loads((tmp_path / "out" / "candidates.json").read_text())
    assert len(candidates["candidates"]) == explanation["search"]["tried"]
    winner = candidates["candidates"][candidates["winner"]]
    assert winner["kernel"] == explanation["kernel_exact"]
    assert set(winner) == {
        "kernel", "score", "log_evidence", "parameters", "depth", "step", "parent", "status", "message", "seconds",
    }  # fmt: skip
    assert "SE(day)" in {each["step"] for each in candidates["candidates"]}
    assert any(each["kernel"].startswith("LIN(price,") for each in candidates["candidates"])
    parents = [candidates["candidates"][each["parent"]] for each in candidates["candidates"] if each["depth"] == 1]
    assert parents
    assert all(parent["depth"] <= 1 for parent in parents)  # what is taken off is taken off at the same depth

    new = shops.drop(columns="sales").assign(comment="kept")[["comment", "price", "shop", "day"]]
    new.to_csv(tmp_path / "new.csv", index=False)
    said = mercer("predict", "out/model.mercer", "new.csv", "--out", "p.csv")
    assert said.code == 0, said.err
    assert "wrote   p.csv: 40 rows" in said.out
    answers = mercer("predict", "out/model.mercer", "new.csv", "--out", "deep/p.parquet", "--json")
    assert answers.document["rows"] == 40
    written, parquet = pd.read_csv(tmp_path / "p.csv"), pd.read_parquet(tmp_path / "deep" / "p.parquet")
    assert list(written.columns) == ["comment", "price", "shop", "day", "mean", "std", "lower_95", "upper_95"]
    assert list(parquet.columns) == answers.document["columns"]
    np.testing.assert_allclose(written["mean"], parquet["mean"], rtol=1e-12)
    np.testing.assert_allclose(written["upper_95"] - written["lower_95"], 2 * 1.959964 * written["std"])
    assert np.abs(written["mean"] - shops["sales"]).max() < 0.5


@pytest.mark.usefixtures("no_pictures")
def test_inputs_kernel_and_seed(mercer: Mercer, tmp_path: Path, shops: pd.DataFrame) -> None:
    shops.rename(columns={"price": "price, net"}).to_csv(tmp_path / "shops.csv", index=False)
    options = ["--target", "sales", "--inputs", 'shop,"price, net"', "--kernel", 'LIN("price, net") + CAT(shop)']
    first = mercer("discover", "shops.csv", *options, "--seed", "5", "--json")
    assert first.code == 0, first.out
    explanation = first.document["explanation"]
    assert explanation["table_columns"] == ["shop", "price, net"]
    assert explanation["components"][0]["sentence"].startswith("A linear function of price, net, falling by ")
    second = mercer("discover", "shops.csv", *options, "--seed", "5", "--json")
    assert second.document["explanation"] == explanation


def test_a_table_of_the_target_alone_uses_the_row_number(mercer: Mercer, tmp_path: Path) -> None:
    text = "\n".join(line.split(",")[1] for line in wave_text(20).splitlines())
    result = mercer("discover", table(tmp_path / "one.csv", text), "--target", "y", "--kernel", "SE")
    assert result.code == 0
    assert not (tmp_path / "mercer-out" / "candidates.json").exists()
    assert "y explained by row" in result.out
    assert "the row number (from 0) is the input" in " ".join(result.out.split())


# ------------------------------------------------------------------------------------------------ how commands end


def test_ctrl_c_during_the_fit_keeps_the_best_so_far(
    mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mercer.inference.exact import Exact

    original, calls = Exact.evidence, []

    def interrupted(self: Exact, program: object, values: object, noise: float, data: object, gradient: bool = True):
        calls.append(gradient)
        if gradient and calls.count(True) == 30:
            raise KeyboardInterrupt
        return original(self, program, values, noise, data, gradient)

    monkeypatch.setattr(Exact, "evidence", interrupted)
    name = table(tmp_path / "data.csv", wave_text(24))
    result = mercer("discover", name, "--target", "y", "--kernel", "SE + SE*PER + LIN")
    assert result.code == 0, result.err
    assert "stopped at your request" in result.err
    assert "The fit was interrupted" in " ".join(result.out.split())
    assert (tmp_path / "mercer-out" / "model.mercer").exists()


class InterruptedTerminal(Terminal):
    """The user presses Ctrl-C when the first step of a search begins."""

    @contextmanager
    def fitting(self, target: object, names: Sequence[str] | None) -> Iterator[Callable[[Progress], None]]:
        def press(state: Progress) -> None:
            if state.depth == 1:
                raise KeyboardInterrupt

        yield press


def test_ctrl_c_during_the_search_keeps_the_best_so_far(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "data.csv", wave_text(24))
    result = mercer("discover", name, "--target", "y", "--jobs", "1", terminal=InterruptedTerminal(as_json=False))
    assert result.code == 0, result.err
    assert "stopped at your request" in result.err
    assert "the search was stopped on request" in " ".join(result.out.split())
    assert (tmp_path / "mercer-out" / "report.html").exists()


def test_ctrl_c_during_the_explanation_keeps_the_model(
    mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.explain.explain", interrupted)
    name = table(tmp_path / "data.csv", wave_text(24))
    result = mercer("discover", name, "--target", "y", "--kernel", "SE")
    assert result.code == 130
    assert "the model is kept: mercer explain mercer-out/model.mercer" in " ".join(result.err.split())
    assert library.load(tmp_path / "mercer-out" / "model.mercer").kernel_ is not None


def test_ctrl_c_before_any_kernel_is_finished_ends_with_a_word(
    mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(library.Exact, "evidence", interrupted)
    result = mercer("discover", table(tmp_path / "data.csv", wave_text(24)), "--target", "y", "--jobs", "1")
    assert (result.code, result.out) == (130, "")
    assert "nothing was written" in result.err


@pytest.mark.usefixtures("no_pictures")
def test_a_checkpoint_is_gone_on_with(mercer: Mercer, tmp_path: Path) -> None:
    options = ["--target", "y", "--jobs", "1", "--depth", "0", "--checkpoint", "kept", "--json"]
    name = table(tmp_path / "data.csv", wave_text(24))
    first = mercer("discover", name, *options)
    assert first.code == 0, first.out
    written = (tmp_path / "kept" / "journal.jsonl").read_bytes()
    second = mercer("discover", name, *options)
    assert (tmp_path / "kept" / "journal.jsonl").read_bytes() == written
    assert second.document["explanation"]["kernel_exact"] == first.document["explanation"]["kernel_exact"]


def test_ctrl_c_elsewhere_ends_with_a_word(mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.tables.read", interrupted)
    name = table(tmp_path / "data.csv", wave_text(24))
    result = mercer("discover", name, "--target", "y")
    assert (result.code, result.out) == (130, "")
    assert "nothing was written" in result.err
    assert mercer("discover", name, "--target", "y", "--json").document["kind"] == "Interrupted"


def test_a_bug_is_told_apart_and_keeps_its_traceback_in_a_file(
    mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("something nobody thought of")

    monkeypatch.setattr("mercer.tables.read", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    name = table(tmp_path / "data.csv", wave_text(24))
    result = mercer("discover", name, "--target", "y")
    assert result.code == 1
    assert "bug in Mercer (RuntimeError: something nobody thought of)" in result.err
    (crash,) = tmp_path.glob("mercer-crash-*.txt")
    assert str(crash) in result.err
    assert "Traceback" in crash.read_text()
    assert mercer("discover", name, "--target", "y", "--json").document["kind"] == "Bug"


def test_a_numerical_breakdown_is_the_users_with_advice(
    mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise library.NumericalError("the covariance matrix is not positive definite")

    monkeypatch.setattr("mercer.estimators.GPRegressor.fit", broken)
    result = mercer("discover", table(tmp_path / "data.csv", wave_text(24)), "--target", "y", "--kernel", "SE")
    assert result.code == 2
    assert "try another kernel" in result.err


def test_the_first_compilation_is_announced_beside_the_result(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "data.csv", wave_text(10))
    cold = Terminal(as_json=True, cache=tmp_path / "nothing-compiled")
    result = mercer("discover", name, "--target", "y", "--kernel", "LIN", "--json", terminal=cold)
    assert "compiling the numerical core for this machine, once" in result.err
    assert result.document["explanation"]["rows"] == 10


def test_a_cold_cache_is_noticed(tmp_path: Path) -> None:
    from mercer.compute.compiling import SOURCES

    assert not core_is_compiled(tmp_path)
    for name in SWEEPS:
        (tmp_path / f"fused_sweep.{name}-1.py311.nbi").write_bytes(b"of another version")
    assert not core_is_compiled(tmp_path)
    for name in SWEEPS:
        assert not core_is_compiled(tmp_path)
        (tmp_path / f"fused_sweep.{name}-1.py311.nbi").write_bytes(b"... " + SOURCES.encode() + b" ...")
    assert core_is_compiled(tmp_path)


def test_no_sweep_is_left_to_be_compiled_in_the_time_of_a_search() -> None:
    code = (
        "from mercer.compute import fused, fused_sweep\n"
        "from mercer.inference.core import compile_core\n"
        "compile_core()\n"
        "called = {name for name in dir(fused_sweep) if f'sweep.{name}(' in open(fused.__file__).read()}\n"
        "print(len(called), *(name for name in called if not getattr(fused_sweep, name).signatures))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8"], done.stdout


def on_stream(on_terminal: bool) -> tuple[Terminal, io.StringIO]:
    stream = io.StringIO()
    return Terminal(as_json=False, console=Console(file=stream, force_terminal=on_terminal, width=80)), stream


@pytest.mark.parametrize("on_terminal", [True, False])
def test_progress_only_on_a_terminal(on_terminal: bool) -> None:
    terminal, stream = on_stream(on_terminal)
    with terminal.fitting(np.arange(5.0), None) as progress:
        progress(Progress(1, 4, "starts", score=6.0))
    assert ("fitting: 1 of 4 starts" in stream.getvalue()) is on_terminal
    terminal, stream = on_stream(on_terminal)
    with terminal.working("reading"):
        pass
    assert ("reading" in stream.getvalue()) is on_terminal


@pytest.mark.parametrize("on_terminal", [True, False])
def test_progress_of_a_search(on_terminal: bool) -> None:
    terminal, stream = on_stream(on_terminal)
    target = np.array([0.0, 20.0])  # standard deviation 10
    with terminal.fitting(target, ("heat", "rain")) as progress:
        progress(Progress(7, 23, "kernels", library.parse("SE(0, lengthscale=2) + LIN(1)"), 5.0, 3.0, 41.8, 2, 1))
    told = stream.getvalue()
    assert ("step 2, rung 2: 7 of 23 kernels, 42 s left" in told) is on_terminal
    assert (f"best so far SE(heat) + LIN(rain), score {5 + 4 * np.log(10):.1f}" in told) is on_terminal


def test_progress_of_a_network_counts_starts() -> None:
    terminal, stream = on_stream(True)
    with terminal.fitting(np.array([0.0, 20.0]), None) as progress:
        progress(Progress(2, 4, "starts", library.parse("NKN(SE(0) + LIN(0), Linear1)"), 5.0, 3.0, rung=1))
    assert "rung 2: 2 of 4 starts" in stream.getvalue()


def test_discover_learns_where_it_changes(mercer: Mercer, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{1950 + i},{(5.0 if i < 20 else 1.0) + 0.4 * rng.normal():.3f}" for i in range(40)]
    (tmp_path / "load.csv").write_text("\n".join(["year,load", *rows]) + "\n")
    found = mercer("discover", "load.csv", "--target", "load", "--kernel", "surface", "--regimes", "2", "--json")
    assert found.code == 0
    change = found.document["explanation"]["change"]
    assert abs(change["crossings"][0]["at"] - 19.5) <= 1  # years since 1950
    assert "at about 1969" in " ".join(change["sentences"])
    assert change["preferred"] == 2
    told = mercer("explain", found.document["files"]["model"])
    assert "gives way to regime 2" in " ".join(told.out.split())


def test_a_table_that_does_not_fit_into_memory_is_read_in_parts(
    mercer: Mercer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.uniform(0, 6, 300), "b": rng.normal(size=300)})
    rows.assign(y=np.sin(rows["a"]) + rows["b"]).to_parquet(tmp_path / "big.parquet", index=False)
    request = Request("discover", "y", tmp_path / "mercer-out", kernel="SE(a) + LIN(b)")
    terminal = Terminal(as_json=True)
    big = tmp_path / "big.parquet"
    learn_and_write(request, lambda: read_rows(big, "y", ReadOptions(), free_memory=1000), terminal)
    notes = json.loads(capsys.readouterr().out)["explanation"]["notes"]
    assert any("its 300 rows are read in parts" in note for note in notes)
    answers = mercer("predict", "mercer-out/model.mercer", "big.parquet", "--out", "p.csv")
    assert answers.code == 0, answers.err
    assert mercer("discover", "big.parquet", "--target", "z").code == 2


@pytest.mark.parametrize(("given", "seconds"), [(None, 600.0), (5.0, 5.0), (float("inf"), None)])
def test_a_search_from_the_command_line_has_an_end(given: float | None, seconds: float | None, tmp_path: Path) -> None:
    assert choose_kernel(Request("discover", "y", tmp_path, kernel="search", time_budget=given)).time_budget == seconds


def test_what_is_not_said_is_chosen_by_the_data(tmp_path: Path) -> None:
    request = Request("discover", "y", tmp_path)
    assert type(choose_kernel(request)).__name__ == "AutoKernel"
    assert choose_kernel(replace(request, time_budget=7.0)).time_budget == 7.0
    assert type(choose_kernel(replace(request, depth=1))).__name__ == "GrammarSearch"
    assert type(choose_kernel(replace(request, classes=True))).__name__ == "AutoKernel"


def test_the_choice_and_its_time_are_said_before_the_work(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "data.csv", wave_text(12))
    found = mercer("discover", name, "--target", "y", "--time-budget", "4", "--json")
    assert "It may take at most 4 seconds." in found.err
    assert found.document["explanation"]["chosen"]["seconds"] == 4.0
    assert found.document["explanation"]["chosen"]["took"] < 4.0


@pytest.mark.parametrize(("seconds", "worked", "busy"), [(2.0, 2.0, 1.0), (6.0, 2.0, 3.0), (90.0, 2.0, 4.0)])
def test_a_search_leaves_time_for_words_and_pictures(seconds: float, worked: float, busy: float) -> None:
    from mercer.cli.learn import EVALUATIONS_AFTER, SECONDS_AFTER, leave_time
    from mercer.estimators import GPRegressor
    from mercer.learners.grammar import SearchPolicy

    policy = leave_time(GPRegressor, seconds, worked).policies[-1]
    assert isinstance(policy, SearchPolicy)
    assert policy.seconds_after == pytest.approx(seconds + busy * SECONDS_AFTER)
    assert policy.evaluations_after == EVALUATIONS_AFTER
