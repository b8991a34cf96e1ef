"""Kernels read from their text, as an explanation writes them; nothing of Mercer's parser is used.

    CPER(0, variance=2.5, period=fixed(7.0), lengthscale=0.5) * (SE(x, lengthscale=[1.0, inf]) + 3.0)

What cannot be read stops the benchmark (`UnknownKind`): a kernel that is passed over in silence is judged as if it
were empty.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import numpy as np

ROLES = {
    "SE": "fading", "RQ": "fading", "M12": "fading", "M32": "fading", "M52": "fading", "PER": "wave", "CPER": "wave",
    "COS": "wave", "SM": "mixture", "LIN": "line", "WN": "noise", "C": "constant", "CAT": "category",
    "ECAT": "category", "RW": "walk", "IRW": "walk",
}  # fmt: skip


class UnknownKind(ValueError):
    """A kind of claim, a base kernel, or a text of a kernel, for which there is no rule."""


@dataclass(frozen=True)
class Leaf:
    """A base kernel as its text has it: the names of its columns, and numbers."""

    symbol: str
    columns: tuple[str, ...]
    numbers: dict[str, tuple[float, ...]] = field(hash=False)

    @property
    def role(self) -> str:
        symbol = self.symbol if self.symbol in ROLES else self.symbol.rstrip("0123456789")  # SM2: of two components
        if symbol not in ROLES:
            raise UnknownKind(f"there is no role for the base kernel '{self.symbol}': enter one in ROLES")
        return ROLES[symbol]

    def number(self, name: str) -> float | None:
        values = self.numbers.get(name)
        return values[0] if values else None


TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf\b|nan\b))
        |(?P<name>[A-Za-z_]\w*(?:-[A-Za-z]\w*)*)|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<mark>[+*(),=\[\]]))""",
    re.VERBOSE,
)
Argument = float | str | tuple[str, tuple[float, ...]] | None  # a column by number or name, a setting, a kernel within


def read_leaves(text: str, names: tuple[str, ...]) -> list[Leaf]:
    """Return the base kernels in a text, with columns by name (a number counts columns from 0)."""
    reader = Reader(text, names)
    reader.read_sum()
    if reader.tokens:
        raise reader.fail(f"'{reader.tokens[0][1]}' is too much")
    if not reader.found:
        raise reader.fail("there is no base kernel in it")
    return reader.found


class Reader:
    """Recursive descent: each method takes off the tokens that it reads; `found` are the base kernels so far."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self.text, self.names, self.found = text, names, list[Leaf]()
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            match = TOKEN.match(text, place)
            if match is None:
                raise self.fail(f"at '{text[place:].strip()[:20]}'")
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            place = match.end()

    def fail(self, problem: str) -> UnknownKind:
        return UnknownKind(f"a kernel cannot be read: {problem}, in {self.text[:200]}")

    def take(self, *marks: str) -> bool:
        """Take the next token off if it is one of these marks."""
        if self.tokens and self.tokens[0][0] != "quoted" and self.tokens[0][1] in marks:
            del self.tokens[0]
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self.fail(f"'{mark}' is missing")

    def next(self) -> tuple[str, str]:
        if not self.tokens:
            raise self.fail("it ends early")
        return self.tokens.pop(0)

    def read_sum(self) -> None:
        """Read sums and products of base kernels and numbers: which of the two does not matter for what is in them."""
        while True:
            if self.take("("):
                self.read_sum()
                self.expect(")")
            else:
                kind, word = self.next()
                if kind == "name":
                    self.read_call(word)
                elif kind != "number":
                    raise self.fail(f"'{word}' is no kernel")
            if not self.take("*", "+"):
                return

    def read_call(self, symbol: str) -> None:
        """Read a base kernel; one around others (a change, a network) counts by what is inside it."""
        before, columns, numbers = len(self.found), list[str](), dict[str, tuple[float, ...]]()
        if self.take("("):
            while not self.take(")"):
                argument = self.read_argument()
                if isinstance(argument, tuple):
                    numbers[argument[0]] = argument[1]
                elif argument is not None:
                    columns.append(self.names[int(argument)] if isinstance(argument, float) else argument)
                if not self.take(","):
                    self.expect(")")
                    break
        if len(self.found) == before:
            self.found.append(Leaf(symbol, tuple(columns), numbers))

    def read_argument(self) -> Argument:
        """Read `name=values`, a column, or a kernel (then nothing is returned)."""
        (kind, word), after = self.tokens[0] if self.tokens else ("", ""), self.tokens[1][1] if self.tokens[1:] else ""
        if kind == "name" and after == "=":
            del self.tokens[:2]
            return word, self.read_values()
        if kind in ("number", "name", "quoted") and after in (",", ")") and word not in ROLES:
            del self.tokens[0]
            if kind == "number":
                return float(word)
            return str(json.loads(word)) if kind == "quoted" else word
        self.read_sum()
        return None

    def read_values(self) -> tuple[float, ...]:
        """Read a number, a list, a word or column (no number), or one of these as `fixed(...)`."""
        if self.take("fixed"):
            self.expect("(")
            found = self.read_values()
            self.expect(")")
            return found
        if not self.take("["):
            kind, word = self.next()
            if kind == "mark":
                raise self.fail(f"'{word}' is no value")
            return (float(word),) if kind == "number" else ()
        values = list[float]()
        while not self.take("]"):
            values += self.read_values()
            if not self.take(","):
                self.expect("]")
                break
        return tuple(values)


def wave_period(leaf: Leaf) -> float | None:
    """Return the period of a leaf that repeats."""
    frequency = leaf.number("frequency")
    return leaf.number("period") if frequency is None else (1.0 / abs(frequency) if frequency else np.inf)
