"""Model files and studies: bytes flipped, cut off, fields of the document changed, arrays exchanged, sizes blown up."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mercer
from mercer import ChangeSurface, GPRegressor, GrammarSearch, GridRegressor, KernelSVC, Optimizer
from tests.fuzz.judging import Record, require_json, require_numbers

Rng = np.random.Generator
ENDS: tuple[Any, ...] = (
    10**400, -(10**30), 1e308, 1e-308, 1e200, 1e-200, float("inf"), float("-inf"), float("nan"), 0, -1, 1, 2, 10**9,
    0.5, None, True, False, "", "a", "SE", "LIN + PER", "SE(7)", "cuda", "weak", "auto", "\0", "SE(" * 50,
    [], {}, [[]], [1], ["a"], {"a": 1}, "search", "nkn", -0.0, 5e-324, "2001-01-01", "separated",
)  # fmt: skip
HUGE = 3 * 10**9


def make_files(folder: Path, rng: Rng) -> dict[str, tuple[Path, Any]]:
    """Write one file of each kind; return it with what its model predicts from."""
    x = np.linspace(0.0, 10.0, 24)
    y = np.sin(x) + 0.1 * rng.normal(size=24)
    X, table = x[:, None], pd.DataFrame({"day": pd.date_range("2001-01-01", periods=24), "kind": ["a", "b", "c"] * 8})
    grid = np.where(rng.random((4, 6)) < 0.2, np.nan, np.outer(x[:4], y[:6]))
    wide = np.column_stack([x, np.cos(7 * x)])
    search = GrammarSearch(bases=("SE", "LIN"), max_depth=1, restarts=1, max_iterations=20)
    surface = ChangeSurface(draws=1, kernel_draws=1, restarts=1, max_iterations=10)
    quick: dict[str, Any] = {"restarts": 1, "max_iterations": 20, "random_state": 0}
    models: dict[str, tuple[Any, Any]] = {
        "given": (GPRegressor("SE(0) + LIN(1)", **quick).fit(wide, y), wide[:3]),
        "search": (GPRegressor(search, random_state=0).fit(X, y), X[:3]),
        "table": (GPRegressor("SE", **quick).fit(table, y), table.iloc[:3]),
        "surface": (GPRegressor(surface, random_state=0).fit(X, y), X[:3]),
        "sparse": (GPRegressor("SE", inference=mercer.VFE(5), **quick).fit(X, y), X[:3]),
        "classes": (KernelSVC("rbf", random_state=0).fit(X, np.where(y > 0, "up", "down")), X[:3]),
        "grid": (GridRegressor("SE", **quick).fit(grid), None),
    }  # fmt: skip
    files: dict[str, tuple[Path, Any]] = {}
    for name, (model, new) in models.items():
        model.save(folder / name)
        files[name] = folder / name, new
    study = Optimizer({"x": (0.0, 1.0), "n": mercer.Integer(1, 5), "k": ["a", "b"]}, random_state=0)
    for value in range(5):
        study.tell(study.ask(), float(value))
    study.save(folder / "study")
    files["study"] = folder / "study", None
    return files


def run(record: Record, count: int, rng: Rng, folder: Path) -> None:
    """Judge this many files."""
    files = make_files(folder, rng)
    for number in range(count):
        name = str(rng.choice(list(files)))
        file, new = files[name]
        action, content = damage(file.read_bytes(), name == "study", number, rng)
        changed = folder / "changed"
        changed.write_bytes(content)
        deep = number % 4 == 0 or "options" in action
        record.judge(number, f"{name}: {action}", lambda file=changed, new=new, deep=deep: use_file(file, new, deep))


def use_file(file: Path, new: Any, deep: bool) -> str:
    """Load a file and use what it holds: predict, and explain where that is asked."""
    model: Any = mercer.load(file)
    if isinstance(model, Optimizer):
        model.ask()
        return "used"
    if isinstance(model, GridRegressor):
        require_numbers("the filled grid", model.fill())
        return "used"
    if isinstance(model, KernelSVC):
        require_numbers("the probabilities", model.predict_proba(new))
    else:
        require_numbers("the prediction", *model.predict(new, return_std=True))
    if deep:
        explanation = model.explain()
        explanation.to_text(80)
        require_json("the explanation", explanation.to_json())
        return "explained"
    return "used"


def damage(content: bytes, text: bool, number: int, rng: Rng) -> tuple[str, bytes]:
    """Return what was done to a file, and the file."""
    chance = rng.random()
    if chance < 0.25:
        changed = bytearray(content)
        for place in rng.integers(0, len(content), rng.integers(1, 9)):
            changed[int(place)] = int(rng.integers(0, 256))
        return "bytes", bytes(changed)
    if chance < 0.35:
        return "cut off", content[: int(rng.integers(0, len(content)))]
    if text:
        document = json.loads(content)
        return change_document(document, rng), json.dumps(document).encode()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    if chance < 0.85:
        document = json.loads(parts["model.json"])
        action = change_document(document, rng)
        return action, pack(parts | {"model.json": json.dumps(document).encode()})
    if chance < 0.97:
        name = str(rng.choice([name for name in parts if name.endswith(".npy")]))
        return f"array {name}", pack(parts | {name: make_array(parts[name], rng)})
    if number % 25:
        return "forged sizes", forge_sizes(content, rng)
    return "blown up", pack(parts | {"X.npy": npy_header((HUGE // 8, 1)) + bytes(int(rng.choice([10**6, 6 * 10**8])))})


def change_document(document: Any, rng: Rng) -> str:
    """Change one place of a document: another value, none, or twice; return where."""
    node, way = document, []
    while isinstance(node, dict | list) and node and (not way or rng.random() < 0.8):
        parent = node
        key = rng.choice(list(node)) if isinstance(node, dict) else int(rng.integers(0, len(node)))
        way.append(key if isinstance(key, int) else str(key))
        node = parent[way[-1]]
    last = way[-1]
    if rng.random() < 0.15:
        del parent[last]
    elif rng.random() < 0.1 and isinstance(parent, list):
        parent.append(node)
    else:
        parent[last] = ENDS[int(rng.integers(0, len(ENDS)))]
    return ".".join(map(str, way))


def pack(parts: dict[str, bytes]) -> bytes:
    """Return an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def make_array(old: bytes, rng: Rng) -> bytes:
    """Return another array in place of one: another shape, kind, or values; or a header that promises too much."""
    array = np.load(io.BytesIO(old))
    kind = int(rng.integers(0, 9))
    odd = (np.nan, np.inf, 1e308, -1e308, 5e-324, 1e200)
    if kind == 0:
        array = array.astype(rng.choice(["f4", "i8", "c16", "U3", "bool", ">f8", "M8[s]"]))
    elif kind == 1:
        array = array[: int(rng.integers(0, len(array) + 1))]
    elif kind == 2:
        array = array.reshape(array.shape[::-1])
    elif kind == 3:
        array = np.zeros(tuple(rng.integers(0, 4, rng.integers(0, 4))))
    elif kind == 4:
        return npy_header(tuple(int(n) for n in 10 ** rng.integers(0, 9, 2))) + array.tobytes()
    elif kind == 5:
        array = np.asfortranarray(array)
    else:
        array = array.copy()
        array.flat[int(rng.integers(0, array.size))] = odd[int(rng.integers(0, len(odd)))]
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy_header(shape: tuple[int, ...]) -> bytes:
    """Return the header of an array of this shape."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def forge_sizes(content: bytes, rng: Rng) -> bytes:
    """Return an archive whose directory says other sizes than its parts have."""
    changed, place = bytearray(content), content.find(b"PK\x01\x02")
    while place >= 0:
        if rng.random() < 0.5:
            sizes = [int(n) for n in rng.choice([0, 1, 1000, HUGE, 2**32 - 2], 2)]
            changed[place + 20 : place + 28] = struct.pack("<II", *sizes)
        place = content.find(b"PK\x01\x02", place + 4)
    return bytes(changed)
