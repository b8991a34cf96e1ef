"""The shape of the code in numbers: size, how far a call travels, and habits that the design rules out.

    python -m benchmarks.shape                 everything but mypy
    python -m benchmarks.shape --types         with `mypy --strict` too
    python -m benchmarks.shape --trace fit     which files a fit passes, deepest stack last

A call is followed by `sys.setprofile`: the files of Mercer that it enters, and how many frames of Mercer lie on top of
each other at most. It is the second of two equal calls, so that imports and compiling do not count.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import mercer

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(mercer.__file__).resolve().parent
ENGINES = ("Exact", "VFE", "FixedVFE", "Grid", "RandomFeatures", "DeviceExact")
COMPILED = re.compile(r"compute/(numba/|compiling|fused_|vector_math)")


@dataclass
class Travel:
    """The files that a call enters, and its deepest stack of frames."""

    files: Counter[str] = field(default_factory=Counter)
    stack: list[str] = field(default_factory=list)
    deepest: list[str] = field(default_factory=list)
    first: dict[str, list[str]] = field(default_factory=dict)  # the first stack that reaches a function

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        # Numba reports a call of a compiled function as one of the Python function it was made from, by a frame made up
        # for the report, which has no caller: no Python runs there.
        compiled = frame.f_back is None
        if event not in ("call", "return") or compiled or not file.startswith(str(SOURCE)):
            return
        if event == "return":
            if self.stack:
                self.stack.pop()
            return
        place = str(Path(file).relative_to(SOURCE))
        self.files[place] += 1
        name = f"{place}:{frame.f_code.co_name}"
        self.stack.append(name)
        self.first.setdefault(name, list(self.stack))
        if len(self.stack) > len(self.deepest):
            self.deepest = list(self.stack)


def follow(call: Callable[[], Any]) -> Travel:
    """Make a call twice and follow the second."""
    call()
    travel = Travel()
    sys.setprofile(travel)
    try:
        call()
    finally:
        sys.setprofile(None)
    return travel


def travels() -> dict[str, Travel]:
    """Follow a search of 60 rows to depth 1, its explanation in words, and a prediction."""
    rng = np.random.default_rng(0)
    X = np.arange(60.0)[:, None]
    y = np.sin(X[:, 0] / 4.0) + 0.1 * X[:, 0] + 0.1 * rng.standard_normal(60)
    search = mercer.GrammarSearch(max_depth=1, n_jobs=1)
    model = mercer.GPRegressor(search, random_state=0)
    found = {"fit": follow(lambda: model.fit(X, y))}
    found["explain"] = follow(lambda: str(model.explain()))
    found["predict"] = follow(lambda: model.predict(X, return_std=True))
    return found


def sources(root: Path = SOURCE) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every Python file."""
    for file in sorted(root.rglob("*.py")):
        yield str(file.relative_to(root)), file.read_text()


def matches(pattern: str, leave_out: str = r"$^", root: Path = SOURCE) -> list[str]:
    """Return the lines that match, as file:line."""
    return [
        f"{place}:{number}"
        for place, text in sources(root)
        if not re.search(leave_out, place)
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]


def engine_checks() -> list[str]:
    """Return where it is asked outside `inference/choose.py` which engine one is."""
    return matches(rf"isinstance\([^)]*\b({'|'.join(ENGINES)})\b", leave_out=r"inference/choose\.py")


def penalties() -> list[str]:
    """Return where a number of parameters is multiplied by a logarithm: the penalty of BIC."""
    found = []
    for place, text in sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                sides = [ast.unparse(node.left), ast.unparse(node.right)]
                counts = any(re.search(r"parameters|_own_|price|penalty|n_free", side) for side in sides)
                if counts and any(re.search(r"\blog\(|price|per_parameter", side) for side in sides):
                    found.append(f"{place}:{node.lineno}")
    return found


def patches() -> list[str]:
    """Return where tests replace a constant or a private name of the package."""
    return matches(r"(setattr|patch(\.object)?)\([^)]*[\"'.](_[a-z]\w*|[A-Z][A-Z_0-9]+)[\"']", root=ROOT / "tests")


def repeated_classes() -> list[str]:
    """Return class names that stand for two things."""
    homes: dict[str, list[str]] = {}
    for place, text in sources():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(place)
    return [f"{name} ({', '.join(places)})" for name, places in homes.items() if len(places) > 1]


def participles() -> list[str]:
    """Return functions whose name is one word ending in -ed: a verb was meant."""
    return matches(r"^\s*def _?[a-z]+ed\(")


def ruff(rule: str) -> list[str]:
    """Return what a rule of ruff finds outside compiled code."""
    command = ["ruff", "check", "--isolated", "--select", rule, "--config", "lint.pylint.max-args=8"]
    command += ["--output-format", "concise", str(SOURCE)]
    lines = subprocess.run(
        [str(Path(sys.executable).parent / command[0]), *command[1:]], capture_output=True, text=True
    ).stdout.splitlines()
    return [line.split(" ")[0] for line in lines if rule in line and not COMPILED.search(line)]


def strict_types() -> list[str]:
    """Return what `mypy --strict` finds."""
    lines = subprocess.run(
        [str(Path(sys.executable).parent / "mypy"), "--strict"], capture_output=True, text=True, cwd=ROOT
    ).stdout.splitlines()
    return [line for line in lines if " error: " in line]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", action="store_true", help="run mypy --strict too")
    parser.add_argument("--trace", choices=["fit", "explain", "predict"], help="list the files of one call")
    parser.add_argument("--where", action="store_true", help="list the places, not only their number")
    options = parser.parse_args()
    found = travels()
    if options.trace:
        travel = found[options.trace]
        print("\n".join(f"{count:8d} {place}" for place, count in sorted(travel.files.items())))
        print("\n".join(f"{'  ' * depth}{frame}" for depth, frame in enumerate(travel.deepest)))
        return
    files = list(sources())
    print(f"lines and files of src: {sum(text.count(chr(10)) for _, text in files):,} in {len(files)}")
    for name, travel in found.items():
        print(f"{name}: {len(travel.files)} files, {len(travel.deepest)} frames deep")
    habits = {
        "SLF001, another object's private state": ruff("SLF001"),
        "PLR0913, more than 8 parameters": ruff("PLR0913"),
        "forks on a device": matches(r"device(\.type)? (==|!=) ", leave_out=r"compute/backend\.py"),
        "isinstance of an engine outside choose": engine_checks(),
        "expressions of a BIC penalty": penalties(),
        "tests that patch a constant or a private name": patches(),
        "class names used twice": repeated_classes(),
        "functions that are participles": participles(),
    }
    if options.types:
        habits["mypy --strict"] = strict_types()
    for name, places in habits.items():
        print(f"{name}: {len(places)}")
        if options.where:
            print("\n".join(f"    {place}" for place in places))


if __name__ == "__main__":
    main()
