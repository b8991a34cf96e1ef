"""Functionals as text, `KF(M32(0), powers=[1, 3], weights=[0.4, 0.6])`, and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mercer.kernels.expression import Expression
from mercer.kernels.functional import Functional, functional

if TYPE_CHECKING:
    from mercer.kernels.text import Parser


def functional_text(node: Functional, part: Callable[[Expression], str], digits: int | None) -> str:
    """Return the functional as text that the parser reads back."""
    weights = ", ".join(repr(w) if digits is None else f"{w:.{digits}g}" for w in node.weights)
    return f"KF({part(node.inside)}, powers=[{', '.join(map(str, node.powers))}], weights=[{weights}])"


def parsed_functional(parser: Parser, start: int) -> Expression:
    """Read what follows the word KF."""
    parser.expect("(", "after KF, then a kernel, powers and weights: KF(M32(0), powers=[1, 3], weights=[0.4, 0.6])")
    inside = parser.product()
    given: dict[str, tuple[float, ...]] = {}
    while parser.accept(","):
        kind, found, end = parser.peek()
        before, parser.position = parser.position, end
        if kind != "name" or found not in ("powers", "weights") or found in given or not parser.accept("="):
            raise parser.fail("expected powers=[...] and weights=[...], once each", before)
        given[found] = parser.numbers()
    parser.expect(")", "to close KF(")
    if len(given) != 2:
        raise parser.fail("KF needs powers=[...] and weights=[...]", start)
    return parser.checked(lambda: functional(inside, given["powers"], given["weights"]), start)  # type: ignore[arg-type]


def functional_node(node: Functional, part: Callable[[Expression], Any]) -> dict[str, Any]:
    """Return the functional as JSON data."""
    return {"functional": {"inside": part(node.inside), "powers": list(node.powers), "weights": list(node.weights)}}


def functional_from_node(data: Any, read: Callable[[Any], Expression]) -> Functional:
    """Read it back; where it does not fit, also with Python's errors, which the caller translates."""
    if not isinstance(data["powers"], list) or not isinstance(data["weights"], list):
        raise TypeError("powers and weights are lists")
    return functional(read(data["inside"]), data["powers"], data["weights"])
