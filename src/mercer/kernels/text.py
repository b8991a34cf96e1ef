"""Kernels as text and as JSON.

    SE(0) * PER(0, period=fixed(12)) + 2.5 * LIN(year) + SM3

A symbol may be followed by dimensions (column numbers or names; odd names in double quotes) and by parameter values,
in parentheses. SM takes the number of its components as a digit. A number is a constant kernel of that variance.
Networks, change surfaces and functionals are written as their own files say. Every node writes itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from mercer.errors import KernelError, KernelSyntaxError
from mercer.kernels.blend import WORDS, Blend, blend_from_node, parse_blend
from mercer.kernels.expression import (
    DEEPEST,
    Expression,
    Fixed,
    as_expression,
    build_base,
    contains,
    fixed,
    product_of,
    read_given,
    sum_of,
)
from mercer.kernels.functional import Functional, functional_from_node, parse_functional
from mercer.kernels.layers import LAYERS
from mercer.kernels.leaf import LEAVES
from mercer.kernels.network import MOST_COPIES, Network, network, network_from_node, with_given

JSON_VERSION = 4
BLEND_VERSION = 3  # of a kernel with change surfaces and without isotropic base kernels
NETWORK_VERSION = 2  # of a kernel with networks or functionals and without either
PLAIN_VERSION = 1  # of one without any of them: older versions of Mercer read it
MOST_PARENTHESES = 100  # nested: enough for any kernel, and far from Python's limit on recursion

T = TypeVar("T")


def to_text(expression: Expression, digits: int | None = None, names: Sequence[str] | None = None) -> str:
    """Return the kernel as text that `parse` reads back; exact unless `digits` asks for rounding."""
    return expression.text(digits, names)


# ----------------------------------------------------------------------------------------------------------- parsing

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
        |(?P<name>[A-Za-z_]\w*)|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<mark>[-+*(),=\[\]]))""",
    re.VERBOSE,
)


def parse(text: str) -> Expression:
    """Read a kernel from text; a `KernelSyntaxError` points at the character that does not fit."""
    if not isinstance(text, str):
        raise KernelError(f"a kernel text is a string such as 'SE*PER + LIN', not {type(text).__name__}")
    parser = Parser(text)
    return parser.expect_end(parser.sum())


def parse_primitives(text: str) -> list[Expression]:
    """Read the primitives of a network: "2*SE + PER(0)" is two SE and one PER."""
    parser = Parser(text)
    return parser.expect_end(parser.primitives())


class Parser:
    """Recursive descent over sum, product, atom; each method consumes what it recognises."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0

    def fail(self, problem: str, position: int | None = None) -> KernelSyntaxError:
        at = self.position if position is None else position
        while at < len(self.text) and self.text[at].isspace():
            at += 1
        return KernelSyntaxError(problem, self.text, at)

    def peek(self, *, signed: bool = False) -> tuple[str, str, int]:
        """Return (kind, text, end) of the next token; a sign belongs to a number only where `signed`."""
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            rest = self.text[self.position :].strip()
            if rest:
                raise self.fail(
                    "the quotation mark is not closed" if rest[0] == '"' else f"'{rest[0]}' does not belong in a kernel"
                )
            return "end", "", len(self.text)
        kind = str(match.lastgroup)
        if kind == "number" and match["number"][0] in "+-" and not signed:
            return "mark", match["number"][0], match.start("number") + 1
        return kind, match[kind], match.end()

    def accept(self, mark: str) -> bool:
        kind, found, end = self.peek()
        if kind == "mark" and found == mark:
            self.position = end
            return True
        return False

    def expect(self, mark: str, after: str) -> None:
        if not self.accept(mark):
            raise self.fail(f"expected '{mark}' {after}")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MOST_PARENTHESES:
            raise self.fail(f"parentheses nest more than {MOST_PARENTHESES} deep")

    def expect_end(self, result: T) -> T:
        kind, found, _ = self.peek()
        if kind != "end":
            raise self.fail(f"expected '+', '*' or the end, found '{found}'")
        return result

    def sum(self) -> Expression:
        terms = [self.product()]
        while self.accept("+"):
            terms.append(self.product())
        return sum_of(terms)

    def product(self) -> Expression:
        factors = [self.atom()]
        while self.accept("*"):
            factors.append(self.atom())
        return product_of(factors)

    def atom(self) -> Expression:
        if self.accept("("):
            self.deeper()
            inside = self.sum()
            self.depth -= 1
            self.expect(")", "to close the parenthesis")
            return inside
        start = self.position
        kind, found, end = self.peek()
        if kind == "number":
            self.position = end
            return self.check(lambda: as_expression(float(found)), start)
        if kind == "name":
            self.position = end
            if found == "KF":
                return parse_functional(self, start)
            if found in (*WORDS, "NKN"):
                return self.network(start) if found == "NKN" else parse_blend(self, found, start)
            return self.base(found, start)
        raise self.fail("expected a kernel such as SE, PER(0) or (SE + LIN)" + (f", found '{found}'" if found else ""))

    def base(self, word: str, start: int) -> Expression:
        symbol, components = word, None
        mixture = re.fullmatch(r"(.*?)(\d{1,9})", word)
        if mixture and mixture[1] in LEAVES and LEAVES[mixture[1]].mixture:
            symbol, components = mixture[1], int(mixture[2])
        self.check(lambda: LEAVES[symbol], start)
        dims: list[int | str] = []
        values: dict[str, Any] = {}
        if self.accept("(") and not self.accept(")"):
            self.arguments(symbol, dims, values)
            self.expect(")", f"to close {symbol}(")
        return self.check(lambda: build_base(symbol, *dims, components=components, **values), start)

    def network(self, start: int) -> Expression:
        """NKN(primitives, layers, complex, variances, weights1=[...], bias1=[...], ...)."""
        self.expect("(", "after NKN, then primitives and layers: NKN(2*SE + LIN, Linear4-Product2-Linear1)")
        self.deeper()
        primitives = self.primitives()
        self.expect(",", "and the layers after the primitives, such as Linear4-Product2-Linear1")
        at = self.position
        if (match := LAYERS.match(self.text, at)) is None:
            raise self.fail("expected the layers, such as Linear4-Product2-Linear1")
        self.position = match.end()
        flags: set[str] = set()
        values: dict[str, Fixed | tuple[float, ...]] = {}
        while self.accept(","):
            before, name = self.position, self.keyword()
            if name in values:
                raise self.fail(f"'{name}' is given twice", before)
            if name is not None:
                values[name] = self.value()
                continue
            kind, found, self.position = self.peek()
            if kind != "name" or found not in ("complex", "variances"):
                raise self.fail("expected complex, variances, or values such as weights1=[...]", before)
            flags.add(found)
        self.expect(")", "to close NKN(")
        self.depth -= 1
        is_complex = True if "complex" in flags else None
        build = partial(network, primitives, match[0], complex=is_complex, variances="variances" in flags)
        bare = self.check(build, at)
        return self.check(lambda: with_given(bare, values), start)

    def primitives(self) -> list[Expression]:
        """Terms of a sum, of which a whole number times something means copies."""
        primitives: list[Expression] = []
        while True:
            kind, found, end = self.peek()
            start = self.position
            copies = 1
            if kind == "number":
                self.position = end
                self.expect("*", f"after {found}: the number of copies of a primitive, as in 2*SE")
                if not found.isdigit() or not 1 <= int(found[:9]) <= MOST_COPIES:
                    meaning = f"the number of copies of a primitive, a whole number from 1 to {MOST_COPIES}"
                    factor = f"a constant factor is written C(variance={found})*..."
                    raise self.fail(f"{found}* means {meaning}; {factor}", start)
                copies = int(found)
            primitives += [self.product()] * copies
            if not self.accept("+"):
                return primitives

    def arguments(self, symbol: str, dims: list[int | str], values: dict[str, Any]) -> None:
        spec = LEAVES[symbol]
        known = [p.name for p in spec.parameters] + ["isotropic"] * spec.radial
        allowed = [*known, "isotropic"]  # of another kernel the builder says which ones can be
        while True:
            before, name = self.position, self.keyword()
            if name is None:
                dims.append(self.dimension(symbol))
                if values:
                    raise self.fail("dimensions come before parameters", before)
            elif name in values or name not in allowed:
                problem = "is given twice" if name in values else f"is not a parameter of {symbol}"
                raise self.fail(f"'{name}' {problem}; it has {', '.join(known)}", before)
            else:
                values[name] = self.isotropic() if name == "isotropic" else self.value()
            if not self.accept(","):
                return

    def keyword(self) -> str | None:
        """Read `name=` if that is what comes next."""
        kind, found, end = self.peek()
        before, self.position = self.position, end
        if kind == "name" and self.accept("="):
            return found
        self.position = before
        return None

    def dimension(self, symbol: str) -> int | str:
        start = self.position
        kind, found, self.position = self.peek()
        if kind == "name":
            return found
        if kind == "number" and found.isdigit() and len(found) < 10:
            return int(found)
        if kind == "quoted":
            try:
                return str(json.loads(found))
            except ValueError:
                raise self.fail(f"{found} is not a column name: write it as in JSON", start) from None
        given = f", found '{found}'" if found else ""
        raise self.fail(f"expected a dimension or a parameter of {symbol}{given}", start)

    def isotropic(self) -> bool | tuple[float, ...]:
        kind, found, end = self.peek()
        if kind == "name" and found in ("True", "False"):
            self.position = end
            return found == "True"
        return self.numbers()

    def value(self) -> Fixed | tuple[float, ...]:
        kind, found, end = self.peek(signed=True)
        if kind == "name" and found == "fixed":
            self.position = end
            self.expect("(", "after 'fixed'")
            inside = self.numbers()
            self.expect(")", "to close fixed(")
            return fixed(inside)
        return self.numbers()

    def numbers(self) -> tuple[float, ...]:
        if self.accept("["):
            numbers = [self.number()]
            while self.accept(","):
                numbers.append(self.number())
            self.expect("]", "to close the list")
            return tuple(numbers)
        return (self.number(),)

    def number(self) -> float:
        kind, found, end = self.peek(signed=True)
        if kind != "number":
            raise self.fail("expected a number")
        self.position = end
        return float(found)

    def check(self, build: Callable[[], T], start: int) -> T:
        """Build a node; what the builder rejects is reported at the place in the text."""
        try:
            return build()
        except KernelError as error:
            raise self.fail(str(error), start) from None


# -------------------------------------------------------------------------------------------------------------- JSON


def to_json(expression: Expression) -> dict[str, Any]:
    """Return the kernel as plain JSON data with a version."""
    version = NETWORK_VERSION if contains(expression, Network) or contains(expression, Functional) else PLAIN_VERSION
    version = BLEND_VERSION if contains(expression, Blend) else version
    if any(leaf.isotropic for leaf in expression.leaves()):
        version = JSON_VERSION
    return {"format": "mercer-kernel", "version": version, "kernel": expression.to_node()}


def from_json(data: Any) -> Expression:
    """Read a kernel from JSON data, checking everything; a newer version gives a clear error."""
    if not isinstance(data, dict) or data.get("format") != "mercer-kernel":
        raise KernelError("this is not a Mercer kernel: the 'format' entry is missing")
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise KernelError(f"this kernel is damaged: its version is {version!r}, not a whole number")
    if version > JSON_VERSION:
        raise KernelError(f"this kernel has version {version}, this Mercer reads up to {JSON_VERSION}: update Mercer")
    return _from_node(data.get("kernel"))


def _from_node(node: Any, depth: int = 0) -> Expression:
    try:
        if depth > 2 * DEEPEST:  # a sum within a product within a sum: two nodes for each pair of parentheses
            raise KernelError(f"this kernel is damaged: it nests more than {2 * DEEPEST} deep")
        read = partial(_from_node, depth=depth + 1)
        if "sum" in node:
            return sum_of(list(map(read, _list(node["sum"]))))
        if "product" in node:
            return product_of(list(map(read, _list(node["product"]))))
        for kind, read_whole in READERS.items():
            if kind in node:
                return read_whole(node[kind], read)
        values = {name: read_given(entry) for name, entry in node["parameters"].items()}
        isotropic = node.get("isotropic", False)
        if not isinstance(isotropic, bool | list):
            raise TypeError(f"'isotropic' is true, false or a list of ratios, not {isotropic!r:.80}")
        dims = _list(node.get("dims", []))
        return build_base(node["base"], *dims, components=node.get("components"), isotropic=isotropic, **values)
    except KernelError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise KernelError(f"this kernel is damaged: {type(error).__name__}: {error}") from None


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, found {data!r:.80}")
    return data


READERS: dict[str, Callable[[Any, Callable[[Any], Expression]], Expression]] = {
    "network": network_from_node,
    "blend": blend_from_node,
    "functional": functional_from_node,
}
