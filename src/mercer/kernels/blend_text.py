"""Change surfaces as text and as JSON; `mercer.kernels.text` calls these.

    CP(SE, LIN + PER, on=year, location=1898, width=2)
    CW(C, SE, start=1645, duration=70)                     outside, inside
    BLEND(rks8, SE, PER, on=[0, 1], amplitude=[...], frequency=[...], phase=[...])

First the kernels of the regimes (0: nothing varies there), then the columns that the surface looks at (`on`; without
it all of them) and its values. BLEND names the surface before the kernels: linear, rks or gp, the latter two with their
number of features.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mercer.kernels.blend import FEATURES, KINDS, ONE_COLUMN, Blend, blend, surface
from mercer.kernels.expression import Expression, Fixed, Parameter, fixed

if TYPE_CHECKING:
    from mercer.kernels.text import Parser

WORDS = (*ONE_COLUMN, "BLEND")
_SURFACE = re.compile(r"(?P<kind>linear|rks|gp)(?P<features>\d{0,4})")


def blend_text(
    node: Blend,
    write: Callable[[Expression], str],
    values: Callable[[Parameter], str],
    dim: Callable[[int | str], str],
) -> str:
    """Return the text of a change surface; `write` prints a kernel, `values` a parameter, `dim` a column."""
    own = node.surface
    arguments = ["0" if part is None else write(part) for part in node.parts]
    if own.kind not in ONE_COLUMN:
        arguments.insert(0, own.kind + (str(own.features) if own.kind in FEATURES else ""))
    if own.dims is not None:
        columns = [dim(d) for d in own.dims]
        arguments.append(f"on={columns[0] if len(columns) == 1 else '[' + ', '.join(columns) + ']'}")
    arguments += [f"{p.name}={values(p)}" for p in own.parameters if p.values is not None]
    return f"{own.kind if own.kind in ONE_COLUMN else 'BLEND'}({', '.join(arguments)})"


def parse_blend(parser: Parser, word: str, start: int) -> Expression:
    """Read what follows CP, CW or BLEND."""
    parser.expect("(", f"after {word}, then the kernels: {word}(" + ("rks8, " * (word == "BLEND")) + "SE, LIN)")
    parser.deeper()
    kind, features = word, None
    if word == "BLEND":
        kind, features = _surface_name(parser)
    parts: list[Expression | None] = []
    columns: list[int | str] = []
    values: dict[str, Fixed | tuple[float, ...]] = {}
    while True:
        name = _keyword(parser)
        if name is not None:
            _argument(parser, kind, name, columns, values)
        elif values or columns:
            raise parser.fail("kernels come before columns and values")
        else:
            parts.append(_part(parser))
        if not parser.accept(","):
            break
    parser.expect(")", f"to close {word}(")
    parser.depth -= 1
    return parser.checked(partial(blend, parts, kind, features=features, on=columns, **values), start)


def _surface_name(parser: Parser) -> tuple[str, int | None]:
    kind, found, end = parser.peek()
    match = _SURFACE.fullmatch(found) if kind == "name" else None
    if match is None or (match["features"] and match["kind"] not in FEATURES):
        raise parser.fail("expected the surface, linear, rks or gp (rks8: with 8 features), before the kernels")
    parser.position = end
    parser.expect(",", f"and the kernels after {found}")
    return match["kind"], int(match["features"]) if match["features"] else None


def _keyword(parser: Parser) -> str | None:
    """Read `name=` if that is what comes next."""
    kind, found, end = parser.peek()
    before, parser.position = parser.position, end
    if kind == "name" and parser.accept("="):
        return found
    parser.position = before
    return None


def _part(parser: Parser) -> Expression | None:
    """Read a kernel; a zero on its own is a regime in which nothing varies."""
    kind, found, end = parser.peek()
    if kind == "number" and float(found) == 0:
        before, parser.position = parser.position, end
        following = parser.peek()[1]
        if following in (",", ")"):
            return None
        parser.position = before
    return parser.sum()


def _argument(
    parser: Parser, kind: str, name: str, columns: list[int | str], values: dict[str, Fixed | tuple[float, ...]]
) -> None:
    known = [p.name for p in KINDS[kind]]
    if name in values or (name == "on" and columns):
        raise parser.fail(f"'{name}' is given twice")
    if name == "on":
        several = parser.accept("[")
        columns.append(_column(parser, kind))
        while several and parser.accept(","):
            columns.append(_column(parser, kind))
        if several:
            parser.expect("]", "to close the list of columns")
    elif name in known:
        values[name] = parser.value()
    else:
        raise parser.fail(f"'{name}' is not a parameter of {kind}; it has on, {', '.join(known)}")


def _column(parser: Parser, kind: str) -> int | str:
    token, found, end = parser.peek()
    before, parser.position = parser.position, end
    return parser.dimension(kind, token, found, before)


def dim_text(dim: int | str, names: Sequence[str] | None) -> str:
    """Return a column as text: its number, or its name, in double quotes where it is odd."""
    if isinstance(dim, int):
        if names is None:
            return str(dim)
        dim = names[dim]
    return dim if re.fullmatch(r"[A-Za-z_]\w*", dim) and dim != "fixed" else json.dumps(dim, ensure_ascii=False)


# -------------------------------------------------------------------------------------------------------------- JSON


def blend_node(node: Blend, write: Callable[[Expression], dict[str, Any]]) -> dict[str, Any]:
    """Return a change surface as JSON data."""
    own = node.surface
    given = {p.name: {"values": list(p.values), "fixed": p.fixed} for p in own.parameters if p.values is not None}
    data: dict[str, Any] = {
        "surface": own.kind,
        "features": own.features,
        "parameters": given,
        "parts": [None if part is None else write(part) for part in node.parts],
    }
    if own.dims is not None:
        data["dims"] = list(own.dims)
    return {"blend": data}


def blend_from_node(data: Any, read: Callable[[Any], Expression]) -> Blend:
    """Read a change surface from JSON data; the caller translates Python's errors."""
    parts = data["parts"]
    if not isinstance(parts, list) or not isinstance(data.get("dims", []), list):
        raise TypeError(f"expected lists of parts and columns, found {data!r:.80}")
    values: dict[str, Any] = {}
    for name, entry in data["parameters"].items():
        if not isinstance(entry["fixed"], bool) or not isinstance(entry["values"], list):
            raise TypeError(f"expected values and whether they are fixed, found {entry!r:.80}")
        values[name] = fixed(tuple(entry["values"])) if entry["fixed"] else tuple(entry["values"])
    kernels = tuple(None if part is None else read(part) for part in parts)
    dims = data.get("dims", [])
    return Blend(kernels, surface(data["surface"], len(kernels), features=data["features"], on=dims, **values))
