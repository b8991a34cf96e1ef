"""Kernel texts: valid ones, valid ones with characters changed, pieces in any order, and noise."""

from __future__ import annotations

import numpy as np

from mercer.kernels import REGISTRY, parse
from tests.fuzz.judging import FindingError, Record, require_numbers

Rng = np.random.Generator
NUMBERS = ("0", "1", "2.5", "-1", "1e-300", "1e300", "1e308", "1e999", "nan", "inf", "-0", ".5", "5.", "1_0", "0x1",
           "९", "9" * 400, "fixed(1)", "fixed(", "[1, 2]", "[]", "True", "''", "1e-999")  # fmt: skip
PIECES = (
    *REGISTRY, "(", ")", "*", "+", ",", "=", " ", "[", "]", "|", "-", ";", "\n", "\t", "\0", "é", "\u202e", "😀", "'",
    '"', "\\", "$", "variance", "lengthscale", "period", "isotropic=True", "fixed", "offset", "weights", "alpha", "NKN",
    "CP", "CW", "BLEND", "Linear4", "Product2", "SE(", "((", "))", "SM3", "SM99999", "0", "1", "x", "None", *NUMBERS,
)  # fmt: skip
X = np.array([[0.0, 1.0], [0.5, -1.0], [2.0, 3.0]])


def run(record: Record, count: int, rng: Rng) -> None:
    """Judge this many texts."""
    for number in range(count):
        text = make_text(rng)
        record.judge(number, repr(text), lambda text=text: read_text(text))


def make_text(rng: Rng) -> str:
    """Return a text: mostly one that a person could have written, with a slip."""
    kind = rng.random()
    if kind < 0.15:
        return "".join(rng.choice(PIECES) for _ in range(rng.integers(0, 12)))
    if kind < 0.2:
        return "".join(chr(int(c)) for c in rng.integers(0, 0x3000, rng.integers(0, 20)))
    if kind < 0.22:
        deep = int(rng.choice([10, 100, 1000, 5000]))
        return "(" * deep + "SE" + ")" * int(rng.choice([deep, deep - 1])) + str(rng.choice(["", "*SE", "+ LIN"]))
    if kind < 0.24:
        return str(rng.choice([" * ", " + "])).join([make_leaf(rng)] * int(rng.choice([5, 50, 300])))
    text = make_kernel(rng, int(rng.integers(0, 4)))
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        place = int(rng.integers(0, len(text) + 1))
        piece = str(rng.choice(PIECES)) if rng.random() < 0.6 else ""
        text = text[:place] + piece + text[place + int(rng.integers(0, 3)) :]
    return text


def make_kernel(rng: Rng, depth: int) -> str:
    """Return sums and products of base kernels."""
    if depth == 0:
        return make_leaf(rng)
    parts = [make_kernel(rng, depth - 1) for _ in range(rng.integers(1, 4))]
    whole = str(rng.choice([" + ", "*", " * ", "+"])).join(parts)
    return f"({whole})" if rng.random() < 0.7 else whole


def make_leaf(rng: Rng) -> str:
    """Return a base kernel, often with columns and values."""
    leaf = REGISTRY[str(rng.choice(list(REGISTRY)))]
    inside = [str(column) for column in rng.permutation(2)[: rng.integers(0, 3)]] if leaf.uses_inputs else []
    often = 1.0 if rng.random() < 0.8 else 0.5
    for parameter in leaf.parameters:
        if rng.random() < (0.02 if parameter.name == "weights" else often):  # those add up to one
            value = f"{10.0 ** rng.uniform(-3, 3):.3g}" if rng.random() < 0.98 else str(rng.choice(NUMBERS))
            inside.append(f"{parameter.name}={value}")
    return f"{leaf.symbol}({', '.join(inside)})" if inside or rng.random() < 0.3 else leaf.symbol


def read_text(text: str) -> str:
    """Read a text, write it, read that, and evaluate the kernel where all values are known."""
    kernel = parse(text)
    if parse(kernel.text()) != kernel:
        raise FindingError(f"{kernel.text()!r:.200} is read as another kernel")
    require_numbers("the kernel's matrix", kernel(X), kernel.diagonal(X))
    return "evaluated"
