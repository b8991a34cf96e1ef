"""A full disk: every command and every `save` with less and less room, as any user, by a limit on the size of files.

The kernel ends a write beyond the limit as it ends one on a full disk, with an error half way. What was there before
must be there after, and no half of a new file.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import mercer
from mercer import GPRegressor, GrammarSearch
from tests.fuzz.judging import FindingError, Record
from tests.fuzz.tables import run_command

Rng = np.random.Generator
OLD = b"what was there before"


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def run(record: Record, count: int, rng: Rng, folder: Path) -> None:
    """Judge so many writings, each with room for so many bytes."""
    prepare(folder)
    ways = list(COMMANDS)
    for number in range(count):
        way, size = ways[number % len(ways)], int(10 ** rng.uniform(0, 5.5)) if rng.random() < 0.9 else 0
        record.judge(number, f"{way} in {size} bytes", lambda way=way, size=size: write_little(way, size, folder))


def write_little(way: str, size: int, folder: Path) -> str:
    """Write by one way with little room: it works, or says why it does not, and older files are whole."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    kept = [
        out / name for name in ("model.mercer", "report.html", "new.csv", "new.png", "new.npy", "new.nc", "new.parquet")
    ]
    for file in kept:
        file.write_bytes(OLD)
    with limited_files(size):
        outcome = COMMANDS[way](folder, out)
    for file in out.iterdir():
        if ".part" in file.name:
            raise FindingError(f"{file.name} was left")
        if file.name != "journal.jsonl" and file.stat().st_size == 0:
            raise FindingError(f"{file.name} is empty")
        if file.stat().st_size > size and file.read_bytes() != OLD:
            raise FindingError(f"{file.name} is larger than it can be")
    return outcome


def prepare(folder: Path) -> None:
    """Write what the commands read."""
    x = np.linspace(0.0, 10.0, 15)
    table = pd.DataFrame({"x": x, "y": np.sin(x)})
    table.to_csv(folder / "in.csv", index=False)
    GPRegressor("SE", restarts=1, random_state=0).fit(table[["x"]], table["y"]).save(folder / "in.mercer")
    grid = np.add.outer(x, np.sin(x))
    grid[3:5, 4:6] = np.nan
    np.save(folder / "in.npy", grid)
    pixels = np.zeros((10, 10, 4), dtype=np.uint8)
    pixels[..., :3], pixels[..., 3] = np.arange(100).reshape(10, 10, 1) * 2, 255
    pixels[4:6, 4:6, 3] = 0
    Image.fromarray(pixels).save(folder / "in.png")


def command(*arguments: str) -> Callable[[Path, Path], str]:
    """Return a command whose arguments may name IN (the folder of what is read) and OUT."""

    def do(folder: Path, out: Path) -> str:
        filled = [argument.replace("IN", str(folder)).replace("OUT", str(out)) for argument in arguments]
        code, said, problem = run_command(filled)
        if code not in (0, 2) or "bug" in problem:
            raise FindingError(f"exit code {code}: {problem or said:.300}")
        return f"exit code {code}"

    return do


def search_with_checkpoint(folder: Path, out: Path) -> str:
    """Search with a checkpoint that cannot grow: the search ends all the same, and says so."""
    x = np.linspace(0.0, 10.0, 15)
    search = GrammarSearch(
        bases=("SE", "LIN"), max_depth=1, restarts=1, max_iterations=10, checkpoint=out, average=False
    )
    model = GPRegressor(search, random_state=0).fit(x[:, None], np.sin(x))
    said = any("checkpoint" in note for note in model.notes_)
    return "found, and said" if said else "found"


def minimise_with_checkpoint(folder: Path, out: Path) -> str:
    """Minimise with a checkpoint that cannot grow."""
    done = []

    def square(x: dict[str, float]) -> float:
        done.append(x)
        return x["x"] ** 2

    result = mercer.minimize(square, {"x": (-1.0, 2.0)}, calls=6, random_state=0, checkpoint=out / "study")
    if len(result.x_iters) != len(done):
        raise FindingError(f"{len(done)} evaluations, of which {len(result.x_iters)} are known")
    return "minimised"


COMMANDS: dict[str, Callable[[Path, Path], str]] = {
    "discover": command("discover", "IN/in.csv", "--target", "y", "--kernel", "SE", "--out", "OUT"),
    "predict csv": command("predict", "IN/in.mercer", "IN/in.csv", "--out", "OUT/new.csv"),
    "predict parquet": command("predict", "IN/in.mercer", "IN/in.csv", "--out", "OUT/new.parquet"),
    "fill npy": command("fill", "IN/in.npy", "--kernel", "SE", "--out", "OUT/new.npy", "--model", "OUT/model.mercer"),
    "fill png": command("fill", "IN/in.png", "--kernel", "SE", "--out", "OUT/new.png"),
    "suggest": command("suggest", "IN/in.csv", "--target", "y", "--out", "OUT/new.csv"),
    "checkpoint": search_with_checkpoint,
    "minimise": minimise_with_checkpoint,
}
