"""Kernels as mathematics for a browser: MathML, which needs no script and no network.

Two small languages are read: the kernel language, whose structure becomes a formula of symbols, and the part of TeX
that the records of base kernels use (`Leaf.tex`). What is not known is shown as it is written; all text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from mercer.kernels.algebra import structure
from mercer.kernels.expression import Base, Expression

MOST_CHARACTERS = 400  # of a structure: a network has thousands, which nobody reads
MOST_PARTS = 12
GREEK = {"sigma": "σ", "alpha": "α", "pi": "π", "rho": "ρ", "sum": "∑"}
NAMES = ("exp", "sin", "cos", "log")
KERNEL_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\W\d]\w*(?:=\w+)?|[\d.]+(?:e[+-]?\d+)?|\S')
TEX_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|[A-Za-z]|\S")
FENCES = "()[]|"


def structure_to_math(text: str) -> str:
    """Return a kernel without values, as the language writes it, as one row of MathML: symbols, `+` and `·`."""
    if len(text) > MOST_CHARACTERS:
        return f"<mtext>{escape(text[: MOST_CHARACTERS - 1])}…</mtext>"
    cells = []
    for token in KERNEL_TOKEN.findall(text):
        if token == "*":
            cells.append("<mo>·</mo>")
        elif token in "+-(),":
            cells.append(f"<mo>{token}</mo>")
        elif token[0] == '"':
            cells.append(f"<mtext>{escape(token[1:-1])}</mtext>")
        elif token[0].isdigit():
            cells.append(f"<mn>{token}</mn>")
        else:
            cells.append(f'<mi mathvariant="normal">{escape(token)}</mi>')
    return "".join(cells)


def tex_to_math(tex: str) -> str:
    """Return a formula in the TeX of the records as one row of MathML."""
    return _Reader(TEX_TOKEN.findall(tex)).read_row()


class _Reader:
    """Reads tokens of TeX from left to right."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = list(tokens)

    def read_row(self) -> str:
        """Read to the end, or to a closing brace."""
        cells: list[str] = []
        while self.tokens and self.tokens[0] != "}":
            cells.append(self.read_scripts(self.read_one()))
        return "".join(cells)

    def read_scripts(self, base: str) -> str:
        """Read what is above and below a part."""
        above, below = "", ""
        while self.tokens and self.tokens[0] in ("^", "_", "'"):
            mark = self.tokens.pop(0)
            if mark == "_":
                below += self.read_one()
            else:
                above += "<mo>′</mo>" if mark == "'" else self.read_one()
        if above and below:
            return f"<msubsup>{base}<mrow>{below}</mrow><mrow>{above}</mrow></msubsup>"
        if above:
            return f"<msup>{base}<mrow>{above}</mrow></msup>"
        return f"<msub>{base}<mrow>{below}</mrow></msub>" if below else base

    def read_one(self) -> str:
        """Read one part: a group, a command, a number, a letter or a sign."""
        token = self.tokens.pop(0) if self.tokens else ""
        if token == "{":
            inside = self.read_row()
            self.tokens[:1] = []  # the closing brace
            return f"<mrow>{inside}</mrow>"
        if token == r"\sqrt":
            return f"<msqrt>{self.read_one()}</msqrt>"
        if token == r"\frac":
            return f"<mfrac>{self.read_one()}{self.read_one()}</mfrac>"
        name = token.removeprefix("\\")
        if name in GREEK:
            return f"<mo>{GREEK[name]}</mo>" if name == "sum" else f"<mi>{GREEK[name]}</mi>"
        if name in NAMES:
            return f"<mi>{name}</mi>"
        if token.startswith("\\"):
            return '<mspace width="0.4em"/>' if token in (r"\;", r"\,") else f"<mtext>{escape(name)}</mtext>"
        if token[:1].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        fence = ' stretchy="false"' if token in FENCES else ""
        return f"<mo{fence}>{escape('−' if token == '-' else token)}</mo>"


def wrap_math(row: str, block: bool = False) -> str:
    """Return a row as an element of a page."""
    display = ' display="block"' if block else ""
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML"{display}><mrow>{row}</mrow></math>'


# What the letters of the records mean, in the order of the list: a token of the formula, what is shown, and words. (A
# bandwidth is b too, and differs from x' - o in that there is no a.)
MEANINGS = (
    (r"\sigma", r"\sigma^2", "the variance"),
    ("l", "l", "the lengthscale"),
    ("p", "p", "the period"),
    (r"\alpha", r"\alpha", "which sets the tails"),
    ("f", "f", "the frequency"),
    ("w", "w", "the weights"),
    ("b", "b", "the bandwidth"),
    ("c", "c", "the offset"),
    (r"\rho", r"\rho", "the correlation"),
    ("u", "u", "the place of a category"),
    ("[", "[x = x']", "one where they are the same"),
    ("I", "I_0", "a Bessel function"),
    ("a", "a = x - o, b = x' - o", "from the origin"),
    ("M", "m, M", "the smaller and the larger distance from the origin"),
    ("d", "d = x - x'", "the distance"),
    ("r", r"r^2 = \sum d^2 / l^2", "over the columns"),
)
IMPLIED = {"r": ("l", "d")}  # by what is in the meaning


def write_legend(leaves: Sequence[Base]) -> str:
    """Return what the letters in the formulas of some base kernels mean."""
    used: set[str] = set()
    for leaf in leaves:
        tokens = set(TEX_TOKEN.findall(leaf.spec.tex))
        used |= tokens - ({"b"} if "a" in tokens else set())
    used |= {implied for token in used for implied in IMPLIED.get(token, ())}
    return ", ".join(f"{wrap_math(tex_to_math(tex))} {words}" for token, tex, words in MEANINGS if token in used)


def kernel_to_html(kernel: Expression, names: Sequence[str] | None = None) -> str:
    """Return a kernel as a formula of its symbols, and a table with the formula and the numbers of each base kernel."""
    prime = "<msup><mi>x</mi><mo>′</mo></msup>"
    head = f"<mi>k</mi><mo>(</mo><mi>x</mi><mo>,</mo>{prime}<mo>)</mo><mo>=</mo>"
    shown = wrap_math(head + structure_to_math(structure(kernel).text(names=names)))
    leaves = list(kernel.leaves())
    listed = leaves[:MOST_PARTS]
    rows = "".join(_row(leaf, names) for leaf in listed)
    more = len(leaves) - MOST_PARTS
    rest = f'<tr><td colspan="3">and {more} more base kernels</td></tr>' if more > 0 else ""
    legend = write_legend(listed)
    return f'<div class="mercer-kernel"><p>{shown}</p><table>{rows}{rest}</table><p><small>{legend}</small></p></div>'


def _row(leaf: Base, names: Sequence[str] | None) -> str:
    symbol = structure(leaf).text(names=names)
    numbers = ", ".join(
        f"{spec.name} {', '.join(f'{value:.4g}' for value in parameter.values)}"
        for spec, parameter in zip(leaf.specs, leaf.parameters, strict=True)
        if parameter.values and (spec.name, parameter.values) != ("weights", (1.0,))  # of a line on one column
    )
    formula = wrap_math(tex_to_math(leaf.spec.tex))
    return f"<tr><td>{wrap_math(structure_to_math(symbol))}</td><td>{formula}</td><td>{escape(numbers)}</td></tr>"
