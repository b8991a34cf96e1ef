"""The page of the base kernels: the formula, the numbers and the words of each record, and draws from each."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from drawing import COLOURS, set_style
from mercer import parse
from mercer.kernels import REGISTRY, Leaf
from stage import write_if_new

# Values for the pictures, over inputs from 0 to 10; other parameters are one.
SHOWN = {
    "SE": "SE(0, variance=1, lengthscale=1.2)",
    "RQ": "RQ(0, variance=1, lengthscale=1.2, alpha=0.3)",
    "M12": "M12(0, variance=1, lengthscale=2)",
    "M32": "M32(0, variance=1, lengthscale=1.5)",
    "M52": "M52(0, variance=1, lengthscale=1.5)",
    "PER": "PER(0, variance=1, period=3, lengthscale=0.8)",
    "CPER": "CPER(0, variance=1, period=3, lengthscale=0.8)",
    "COS": "COS(0, variance=1, frequency=0.3)",
    "SM": "SM2(0, variance=1, weights=[0.6, 0.4], frequency=[0.2, 0.9], bandwidth=[0.06, 0.1])",
    "LIN": "LIN(0, variance=0.1, offset=4)",
    "RW": "RW(0, variance=0.3, origin=0)",
    "IRW": "IRW(0, variance=0.02, origin=0)",
    "IOU": "IOU(0, variance=0.3, lengthscale=1.5, origin=0)",
    "C": "C(variance=1)",
    "WN": "WN(0, variance=1)",
    "CAT": "CAT(0, variance=1, correlation=0.3)",
}
HEADER = """\
Base kernels
============

A kernel :math:`k(x, x')` is the covariance of the unknown function at two places. Every base kernel is a variance
:math:`\\sigma^2` times a function that is one, or of the order of one; below :math:`d = x - x'` along one column and
:math:`r^2 = \\sum_j (x_j - x'_j)^2 / l_j^2` over the columns that it acts on, with one lengthscale :math:`l_j` for
each. Sums and products of kernels are kernels: :math:`(k_1 + k_2)(x, x') = k_1(x, x') + k_2(x, x')`, and likewise the
product.

Each picture shows on the left how alike the function is at :math:`x` and at a fixed place (dotted), on the right three
functions drawn from it. This page is written from the records that parser, fits, words and reports read, too
(``mercer.kernels.REGISTRY``); :doc:`/language` has them in words, :doc:`/add-base-kernel` says how to add one.
"""


def write_base_kernels(folder: Path) -> None:
    """Write the page and its pictures to the folder `kernels`."""
    set_style()
    for symbol, kernel in SHOWN.items():
        write_if_new(folder / "kernels" / f"{symbol}.png", draw(kernel))
    text = "\n".join([HEADER, *map(describe, REGISTRY.values())])
    write_if_new(folder / "kernels" / "index.rst", text.encode())


def describe(leaf: Leaf) -> str:
    """Return the section of one base kernel."""
    title = f"{leaf.symbol}: {leaf.name}"
    numbers = ", ".join(f"``{parameter.name}``" for parameter in leaf.parameters)
    lines = [f".. _kernel-{leaf.symbol}:", "", title, "-" * len(title), "", f".. math:: k(x, x') = {leaf.tex}", ""]
    lines += [f"{leaf.words.summary.capitalize()}. In plain text: ``{leaf.formula}``.", "", f"Numbers: {numbers}.", ""]
    if leaf.symbol in SHOWN:
        lines += [f".. image:: {leaf.symbol}.png", f"   :alt: {leaf.symbol} and three functions drawn from it", ""]
        lines += [f"The picture: ``{SHOWN[leaf.symbol]}``.", ""]
    return "\n".join(lines)


def draw(text: str) -> bytes:
    """Return a picture of a kernel and of three draws."""
    kernel, categories = parse(text), "CAT" in text
    x = np.arange(8.0) if categories else np.linspace(0, 10, 301)
    rows, place = x[:, None], np.array([[4.0]])
    covariance = kernel(rows)
    values, vectors = np.linalg.eigh(covariance)
    normal = np.random.default_rng(2).normal(size=(len(x), 3))
    draws = vectors @ (np.sqrt(np.clip(values, 0, None))[:, None] * normal)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 2.1), width_ratios=(1, 1.5))
    alike = covariance[:, np.argmin(np.abs(x - place[0, 0]))]
    style = {"marker": "o", "linestyle": "none"} if categories or "WN" in text else {}
    left.plot(x, alike, color=COLOURS[0], **(style if categories else {}))
    left.axvline(place[0, 0], color="0.5", linestyle=":", linewidth=1)
    left.set(title="k(x, 4)", xlabel="x", ylim=(min(0.0, 1.1 * alike.min()), None))
    right.plot(x, draws, **(style | {"markersize": 2 if "WN" in text else 5} if style else {}))
    right.set(title="three draws", xlabel="x")
    file = BytesIO()
    figure.savefig(file, format="png", dpi=150, metadata={"Software": None})
    plt.close(figure)
    return file.getvalue()
