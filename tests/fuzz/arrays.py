"""Arrays: shapes, kinds of number, missing, infinite, masked, objects, sparse, tensors, huge and tiny values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch

import mercer
from mercer import FeatureMap, GPRegressor, GridRegressor, KernelSVC
from tests.fuzz.judging import Record, require_numbers

Rng = np.random.Generator
ODD: tuple[Any, ...] = (
    np.nan, np.inf, -np.inf, None, "a", "", "1", "nan", 10**400, -(10**40), 1e308, -1e308, 5e-324, 1e-300, 1j, True, {},
    [1], pd.NaT, pd.NA, pd.Timestamp("2001-01-01"), np.datetime64("2001-01-01"), np.ma.masked, object(), b"x", 2**64,
    lambda: 0,
)  # fmt: skip
SIZES = (1e-320, 1e-300, 1e-160, 1e-120, 1e-30, *[1.0] * 14, 1e10, 1e30, 1e120, 1e155, 1e300, 1.7e308)
KERNELS = ("SE", "LIN", "SE + LIN", "RQ", "PER", "SE*LIN + C", "M32", "WN + LIN")


def run(record: Record, count: int, rng: Rng) -> None:
    """Judge this many pairs of inputs and target."""
    for number in range(count):
        rows, columns = int(rng.choice([0, 1, 2, 3, 5, 8, 12, 12, 12])), int(rng.choice([0, *[1] * 6, 2, 3, 6]))
        X, told = make_matrix(rng, rows, columns)
        y, told_y = make_target(rng, rows)
        use = str(rng.choice(["regress", "regress", "regress", "classify", "grid", "call", "features", "evidence"]))
        kernel = str(rng.choice(KERNELS))
        case = f"{use} {kernel}, {rows} x {columns}: {told}; {told_y}"
        record.judge(number, case, lambda use=use, kernel=kernel, X=X, y=y: use_arrays(use, kernel, X, y))


def use_arrays(use: str, kernel: str, X: Any, y: Any) -> str:
    """Learn from arrays and predict, or do something else with them."""
    if use == "regress":
        model = GPRegressor(kernel, restarts=1, max_iterations=15, random_state=0).fit(X, y)
        require_numbers("the prediction", *model.predict(X, return_std=True), model.log_evidence_)
    elif use == "classify":
        classifier = KernelSVC("rbf", random_state=0).fit(X, y)
        require_numbers("the probabilities", classifier.predict_proba(X))
    elif use == "grid":
        model = GridRegressor("SE", restarts=1, max_iterations=10, random_state=0).fit(X)
        require_numbers("the filled grid", *model.fill(return_std=True))
    elif use == "call":
        expression = mercer.parse("SE(variance=2, lengthscale=0.5) + LIN(variance=1, offset=0)")
        require_numbers("the kernel's matrix", expression(X), expression.diagonal(X))
    elif use == "features":
        require_numbers("the features", FeatureMap("SE(variance=1, lengthscale=1)", count=8).fit(X).transform(X))
    else:
        expression = mercer.parse("SE(variance=2, lengthscale=0.5)")
        found = mercer.log_evidence(expression, X, y, noise=0.1)
        require_numbers("the evidence", found if isinstance(found, float) else found[0])
    return f"done: {use}"


def make_matrix(rng: Rng, rows: int, columns: int) -> tuple[Any, str]:
    """Return inputs of any kind, and what they are."""
    size = float(rng.choice(SIZES))
    with np.errstate(over="ignore"):
        plain = rng.normal(size=(rows, columns)) * size
        if rng.random() < 0.2 and columns:
            plain[:, 0] = plain[0, 0] if rows else 0.0
        if rng.random() < 0.15:
            plain = plain + size * 1e12
    kinds: tuple[str, ...] = (
        *["plain"] * 8, *["frame"] * 4, "dtype", "odd", "odd", "objects", "masked", "sparse", "sparse frame", "tensor",
        "shape", "list", "list", "names",
    )  # fmt: skip
    kind = str(rng.choice(kinds))
    return make_container(rng, kind, plain), f"X {kind} of size {size:g}"


def make_container(rng: Rng, kind: str, plain: Any) -> Any:
    """Return a matrix as another kind of thing."""
    rows, columns = plain.shape
    if kind == "dtype":
        with np.errstate(invalid="ignore", over="ignore"):
            return plain.astype(
                rng.choice(["f2", "f4", "i1", "u8", "i8", "c8", "U4", "S3", "bool", "M8[D]", "m8[s]", "f8", "O"])
            )
    if kind == "odd":
        return put_odd(rng, plain.astype(object))
    if kind == "objects":
        return np.array(
            [[ODD[int(rng.integers(0, len(ODD)))] for _ in range(columns)] for _ in range(rows)], dtype=object
        )
    if kind == "masked":
        return np.ma.array(plain, mask=rng.random(plain.shape) < 0.2)
    if kind == "frame":
        frame = pd.DataFrame(plain).rename(columns=lambda name: f"c{name}")
        return pd.DataFrame({name: make_column(rng, frame[name]) for name in frame})
    if kind == "sparse":
        return rng.choice([scipy.sparse.csr_matrix, scipy.sparse.coo_array])(np.nan_to_num(plain))
    if kind == "sparse frame":
        frame = pd.DataFrame({f"c{d}": pd.arrays.SparseArray(plain[:, d]) for d in range(columns)})
        return frame.assign(kind="a") if rng.random() < 0.3 else frame
    if kind == "tensor":
        return torch.tensor(plain, requires_grad=bool(rng.random() < 0.5))
    if kind == "shape":
        options = [
            plain.ravel(),
            plain[:, :, None],
            plain[None],
            plain.T,
            plain[:, :0],
            np.float64(1.0),
            None,
            "abc",
            {},
            3,
        ]
        return options[int(rng.integers(0, len(options)))]
    if kind == "list":
        lists = plain.tolist()
        if lists and rng.random() < 0.4:
            lists[-1] = lists[-1][:-1]
        return lists
    if kind == "names":
        names = ["a", "a", "", 1, "1", None, "$x$", "b" * 300, ("a", 1), 1.5]
        return pd.DataFrame(plain, columns=[names[int(i)] for i in rng.integers(0, len(names), columns)])
    return plain


def make_column(rng: Rng, column: Any) -> Any:
    """Return a column of a table as another kind."""
    rows = len(column)
    kinds: list[Any] = [
        lambda: column,
        lambda: column.astype(object),
        lambda: put_odd(rng, column.astype(object).to_numpy()[:, None])[:, 0],
        lambda: pd.Categorical(rng.choice(["a", "b", "c"], rows)),
        lambda: pd.array(rng.integers(0, 3, rows), dtype="Int64"),
        lambda: pd.date_range("2001-01-01", periods=rows),
        lambda: pd.date_range("2001", periods=rows, freq="YE").to_period("Y"),
        lambda: pd.to_timedelta(np.arange(rows), unit="h"),
        lambda: rng.choice(["1", "2", "x", ""], rows),
        lambda: pd.array(rng.choice(["p", "q"], rows), dtype="string"),
        lambda: pd.interval_range(0, rows, periods=rows),
        lambda: rng.random(rows) < 0.5, lambda: [10**30] * rows, lambda: column.astype("float32"),
        lambda: rng.normal(size=rows) + 1j,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        return kinds[int(rng.integers(0, len(kinds)))]()


def put_odd(rng: Rng, cells: Any) -> Any:
    """Put one to three odd things among cells."""
    cells = cells.copy()
    if cells.size:
        for _ in range(int(rng.integers(1, 4))):
            place = tuple(int(rng.integers(0, n)) for n in cells.shape)
            cells[place] = ODD[int(rng.integers(0, len(ODD)))]
    return cells


def make_target(rng: Rng, rows: int) -> tuple[Any, str]:
    """Return a target of any kind, and what it is."""
    kind = str(rng.choice([*["plain"] * 8, "constant", "classes", "classes", "other", "length", "odd"]))
    size = float(rng.choice(SIZES))
    with np.errstate(over="ignore"):
        plain = rng.normal(size=rows) * size
    if kind == "constant":
        plain = np.full(rows, plain[0] if rows else 0.0)
    elif kind == "classes":
        return rng.choice(["a", "b"], rows) if rng.random() < 0.5 else rng.integers(0, 3, rows), f"y {kind}"
    elif kind == "length":
        return plain[: max(0, rows - 1)], f"y {kind}"
    elif kind == "odd":
        return put_odd(rng, plain.astype(object)[:, None])[:, 0], f"y {kind}"
    elif kind == "other":
        containers = ("dtype", "masked", "sparse", "sparse frame", "tensor", "shape", "list", "frame")
        which = str(rng.choice(containers))
        return make_container(rng, which, plain[:, None]), f"y {which}"
    return plain, f"y {kind} of size {size:g}"
