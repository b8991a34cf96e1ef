"""Change surfaces (Herlands et al. 2016) as one node of a kernel expression: other kernels in other places.

    k(x, x') = sum_i s_i(x) k_i(x, x') s_i(x'),    s_1(x) + ... + s_r(x) = 1,  s_i > 0

y is then sum_i s_i(x) f_i(x) with independent f_i ~ GP(0, k_i): regime i holds where s_i is near one. With the logistic
function S(t) = 1 / (1 + exp(-t)), the surfaces are:

    CP       S_k = S((x - location_k) / width_k) on one column; regime 1 has 1 - S_1, regime 2 S_1 (1 - S_2), ..., the
             last S_1 S_2 ...: one regime after the other, with a change point between each two
    CW       a window: regime 2 (inside) S((x - start) / width) S((start + duration - x) / width), regime 1 the rest
    linear   softmax(0, w_2, ..., w_r), w_i = slope_i . x + bias_i
    rks      the same with random kitchen sinks, w_i = sum_j amplitude_ij cos(2 pi frequency_ij . x + phase_ij)
    gp       the same with w_i = sum_j weights_ij exp(-sum_d (x_d - centres_ijd)^2 / 2 lengthscale_d^2). With
             independent Gaussian weights this is a Gaussian process (a process convolution), with an SE kernel that is
             sqrt2 times as long where the centres lie closely.

A regime may hold nothing (written 0): then nothing varies there. As text:

    CP(SE, LIN + PER, on=year, location=1898, width=2)
    CW(C, SE, start=1645, duration=70)                     outside, inside
    BLEND(rks8, SE, PER, on=[0, 1], amplitude=[...], frequency=[...], phase=[...])

First the kernels of the regimes, then the columns that the surface looks at (`on`; without it all of them) and its
values. BLEND names the surface before the kernels: linear, rks or gp, the latter two with their number of features.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.errors import KernelError
from mercer.kernels.domains import ParameterSpec, Positive, Real, Shape
from mercer.kernels.expression import (
    Base,
    Expression,
    Given,
    Owner,
    Parameter,
    Style,
    as_expression,
    carriers_of,
    check_depth,
    check_dims,
    check_names,
    check_parameter,
    common_carrier,
    is_whole,
    read_given,
    spread_values,
)

if TYPE_CHECKING:
    from mercer.kernels.parameters import Units
    from mercer.kernels.text import Parser

MOST_REGIMES = 20
MOST_FEATURES = 1000
FEATURES = {"rks": 10, "gp": 16}  # of each function w_i, unless given

_EACH: Shape = "per component and dimension"
LOCATION = ParameterSpec("location", Real(), _EACH, "position")
WIDTH = ParameterSpec("width", Positive(), _EACH, "length")
START = ParameterSpec("start", Real(), _EACH, "position")
DURATION = ParameterSpec("duration", Positive(), _EACH, "length")
SLOPE = ParameterSpec("slope", Real(), _EACH, "frequency")
BIAS = ParameterSpec("bias", Real(), "per component", "none")
AMPLITUDE = ParameterSpec("amplitude", Real(), "per component", "none")
FREQUENCY = ParameterSpec("frequency", Real(), _EACH, "frequency")
PHASE = ParameterSpec("phase", Real(), "per component", "none")
WEIGHTS = ParameterSpec("weights", Real(), "per component", "none")
CENTRES = ParameterSpec("centres", Real(), _EACH, "position")
LENGTHSCALE = ParameterSpec("lengthscale", Positive(), "per dimension", "length")

KINDS: dict[str, tuple[ParameterSpec, ...]] = {
    "CP": (LOCATION, WIDTH),
    "CW": (START, DURATION, WIDTH),
    "linear": (SLOPE, BIAS),
    "rks": (AMPLITUDE, FREQUENCY, PHASE),
    "gp": (WEIGHTS, CENTRES, LENGTHSCALE),
}
ONE_COLUMN = ("CP", "CW")
# What is counted from where x = 0, by what it moves with the origin, and the turn of that.
TURNS = {"linear": ("bias", "slope", 1.0), "rks": ("phase", "frequency", 2.0 * np.pi)}
WORDS = (*ONE_COLUMN, "BLEND")
_NAMED = re.compile(r"(?P<kind>linear|rks|gp)(?P<features>\d{0,4})")


@dataclass(frozen=True, slots=True)
class Surface(Owner):
    """What says how much each regime holds at x; `dims` None: all columns."""

    kind: str
    regimes: int
    features: int  # of each function w_i of rks and gp; 1 for the others
    dims: tuple[int | str, ...] | None
    parameters: tuple[Parameter, ...]

    @property
    def symbol(self) -> str:
        return self.kind

    @property
    def specs(self) -> tuple[ParameterSpec, ...]:
        return KINDS[self.kind]

    @property
    def components(self) -> int:
        """What takes the place of a mixture's components: change points, functions or features."""
        return 1 if self.kind == "CW" else (self.regimes - 1) * self.features

    @property
    def columns(self) -> tuple[int, ...]:
        columns = tuple(d for d in self.dims or () if isinstance(d, int))
        if not columns or self.dims != columns:
            raise KernelError(f"the columns of the surface {self.kind} are not known yet: bind it to the data first")
        return columns

    def text(self, digits: int | None = None) -> str:
        return f"{self.kind}(on={list(self.dims)})" if self.dims else self.kind

    def bind(self, dims: tuple[int, ...]) -> Surface:
        """Return the surface on these columns, one value given for several of them repeated."""
        if self.kind in ONE_COLUMN and len(dims) != 1:
            raise KernelError(f"{self.kind} changes along one column, not along {len(dims)}: name it, as in on=0")
        bare = replace(self, dims=dims)
        return replace(bare, parameters=spread_values(bare, self.parameters))

    def without_values(self) -> Surface:
        """Return the surface with its parameters still to be found."""
        return replace(self, parameters=tuple(Parameter(p.name) for p in self.parameters))

    def convert(self, units: Units) -> Surface:
        """Return it in other units: f . z + b = (f / scale) . x + (b - f . shift / scale)."""
        changed = replace(self, parameters=self.in_units(units))
        if self.kind not in TURNS:
            return changed
        name, by, turn = TURNS[self.kind]
        origin, slope = self.parameter(name), self.parameter(by)
        if origin.values is None or slope.values is None:
            return changed
        shift, scale = units.of(self.columns)
        moved = np.array(slope.values).reshape(-1, len(scale)) @ (shift / scale)
        values = tuple((np.array(origin.values) - turn * moved).tolist())
        return changed.with_parameter(replace(origin, values=values))


def surface(
    kind: str, regimes: int, *, features: int | None = None, on: Sequence[int | str] = (), **values: Given
) -> Surface:
    """Build a surface, checking names, sizes and domains."""
    if kind not in KINDS:
        raise KernelError(f"there is no surface {kind!r}; there are {', '.join(KINDS)}")
    most = 2 if kind == "CW" else MOST_REGIMES
    if not is_whole(regimes) or not 2 <= regimes <= most:
        allowed = "two regimes, outside and inside" if kind == "CW" else f"2 to {most} regimes"
        raise KernelError(f"{kind} has {allowed}, not {regimes!r}")
    count = (FEATURES.get(kind, 1)) if features is None else features
    if kind not in FEATURES and count != 1:
        raise KernelError(f"{kind} has no features; only {' and '.join(FEATURES)} have")
    if not is_whole(count) or not 1 <= count <= MOST_FEATURES:
        raise KernelError(f"a surface has 1 to {MOST_FEATURES} features, not {count!r}")
    dims = check_dims(kind, tuple(on))
    if kind in ONE_COLUMN and dims is not None and len(dims) != 1:
        raise KernelError(f"{kind} changes along one column, not along {len(dims)}")
    check_names(kind, KINDS[kind], values)
    bare = Surface(kind, int(regimes), int(count), dims, ())
    sized = replace(bare, dims=(0,)) if kind in ONE_COLUMN else bare  # on one column, whichever it is
    return replace(bare, parameters=tuple(check_parameter(sized, p, values.get(p.name)) for p in bare.specs))


@dataclass(frozen=True, slots=True, repr=False)
class Blend(Expression):
    """Kernels of the regimes (None: nothing varies there) and the surface that says where each holds."""

    parts: tuple[Expression | None, ...]
    surface: Surface

    def __post_init__(self) -> None:
        fits = isinstance(self.parts, tuple) and all(p is None or isinstance(p, Expression) for p in self.parts)
        if not fits or len(self.parts) != self.surface.regimes or not self.children:
            raise KernelError(
                f"a {self.surface.kind} of {self.surface.regimes} regimes holds a kernel for each, or 0 for nothing "
                f"(but not in all), not {self.parts!r:.80}"
            )
        check_depth(self.children, "sums, products and changes")

    @property
    def children(self) -> tuple[Expression, ...]:
        return tuple(part for part in self.parts if part is not None)

    def with_children(self, children: Sequence[Expression]) -> Blend:
        new = iter(children)
        return replace(self, parts=tuple(None if part is None else next(new) for part in self.parts))

    def owners(self) -> Iterator[Owner]:
        for child in self.children:
            yield from child.owners()
        yield self.surface

    def map_owners(self, change: Callable[[Any], Any]) -> Blend:
        inside = self.with_children([part.map_owners(change) for part in self.children])
        return replace(inside, surface=change(self.surface))

    def only(self, regime: int, part: Expression) -> Blend:
        """Return one regime's share alone, with the kernel given: s_i(x) part(x, x') s_i(x')."""
        return Blend(tuple(part if i == regime else None for i in range(len(self.parts))), self.surface)

    def convert(self, units: Units) -> Blend:
        inside = self.with_children([part.convert(units) for part in self.children])
        return replace(inside, surface=self.surface.convert(units))

    def find_carrier(self, start: int, held: set[int]) -> tuple[int, int | None]:
        start, carriers = carriers_of(self.children, start, held)
        return start + 1, common_carrier(carriers)  # its surface has no scale

    def write(self, style: Style) -> str:
        own = self.surface
        arguments = ["0" if part is None else part.write(style) for part in self.parts]
        if own.kind not in ONE_COLUMN:
            arguments.insert(0, own.kind + (str(own.features) if own.kind in FEATURES else ""))
        if own.dims is not None:
            columns = [style.column(d) for d in own.dims]
            arguments.append(f"on={columns[0] if len(columns) == 1 else '[' + ', '.join(columns) + ']'}")
        arguments += [f"{p.name}={style.parameter(p)}" for p in own.parameters if style.values and p.values is not None]
        return f"{own.kind if own.kind in ONE_COLUMN else 'BLEND'}({', '.join(arguments)})"

    def to_node(self) -> dict[str, Any]:
        own = self.surface
        data: dict[str, Any] = {
            "surface": own.kind,
            "features": own.features,
            "parameters": own.to_given(),
            "parts": [None if part is None else part.to_node() for part in self.parts],
        }
        if own.dims is not None:
            data["dims"] = list(own.dims)
        return {"blend": data}


def blend_from_node(data: Any, read: Callable[[Any], Expression]) -> Blend:
    """Read a change surface from JSON data; the caller translates Python's errors."""
    parts, dims = data["parts"], data.get("dims", [])
    if not isinstance(parts, list) or not isinstance(dims, list):
        raise TypeError(f"expected lists of parts and columns, found {data!r:.80}")
    values = {name: read_given(entry) for name, entry in data["parameters"].items()}
    kernels = tuple(None if part is None else read(part) for part in parts)
    return Blend(kernels, surface(data["surface"], len(kernels), features=data["features"], on=dims, **values))


def blend(
    parts: Sequence[Expression | float | None],
    kind: str = "CP",
    *,
    features: int | None = None,
    on: int | str | Sequence[int | str] = (),
    **values: Given,
) -> Blend:
    """Build a change surface over the kernels of the regimes; 0 or None: nothing varies in that regime."""
    columns = (on,) if isinstance(on, int | str) else tuple(on)
    nothing = [part is None or (not isinstance(part, Expression) and part == 0) for part in parts]
    kernels = tuple(None if no or p is None else as_expression(p) for no, p in zip(nothing, parts, strict=True))
    return Blend(kernels, surface(kind, len(kernels), features=features, on=columns, **values))


def is_jump(kernel: Expression) -> bool:
    """Tell whether a kernel is a change point from nothing to a constant: beside a level, the level jumps."""
    jumps = isinstance(kernel, Blend) and kernel.surface.kind == "CP" and kernel.parts[:-1] == (None,)
    return jumps and isinstance(kernel.children[0], Base) and kernel.children[0].symbol == "C"


def within(part: Expression) -> Expression:
    """Return what stands under the change surfaces of a component, which has one regime of each."""
    return within(part.children[0]) if isinstance(part, Blend) else part


def under(part: Expression, inside: Expression) -> Expression:
    """Return another kernel under the change surfaces of a component."""
    return part.with_children([under(part.children[0], inside)]) if isinstance(part, Blend) else inside


# ----------------------------------------------------------------------------------------------------------- parsing


def parse_blend(parser: Parser, word: str, start: int) -> Expression:
    """Read what follows CP, CW or BLEND."""
    parser.expect("(", f"after {word}, then the kernels: {word}(" + ("rks8, " * (word == "BLEND")) + "SE, LIN)")
    parser.deeper()
    kind, features = word, None
    if word == "BLEND":
        token, found, end = parser.peek()
        match = _NAMED.fullmatch(found) if token == "name" else None
        if match is None or (match["features"] and match["kind"] not in FEATURES):
            raise parser.fail("expected the surface, linear, rks or gp (rks8: with 8 features), before the kernels")
        parser.position = end
        parser.expect(",", f"and the kernels after {found}")
        kind, features = match["kind"], int(match["features"]) if match["features"] else None
    parts: list[Expression | None] = []
    columns: list[int | str] = []
    values: dict[str, Any] = {}
    while True:
        name = parser.keyword()
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
    return parser.check(partial(blend, parts, kind, features=features, on=columns, **values), start)


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


def _argument(parser: Parser, kind: str, name: str, columns: list[int | str], values: dict[str, Any]) -> None:
    known = [p.name for p in KINDS[kind]]
    if name in values or (name == "on" and columns):
        raise parser.fail(f"'{name}' is given twice")
    if name == "on":
        several = parser.accept("[")
        columns.append(parser.dimension(kind))
        while several and parser.accept(","):
            columns.append(parser.dimension(kind))
        if several:
            parser.expect("]", "to close the list of columns")
    elif name in known:
        values[name] = parser.value()
    else:
        raise parser.fail(f"'{name}' is not a parameter of {kind}; it has on, {', '.join(known)}")
