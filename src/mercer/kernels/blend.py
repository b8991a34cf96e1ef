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

A regime may hold nothing (written 0): then nothing varies there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from mercer.errors import KernelError
from mercer.kernels.domains import Array, Positive, Real
from mercer.kernels.expression import (
    DEEPEST,
    Expression,
    Fixed,
    Owner,
    Parameter,
    as_expression,
    as_tuple,
    broadcast,
    checked_dims,
    nesting,
)
from mercer.kernels.leaf import ParameterSpec, Shape

MOST_REGIMES = 20
MOST_FEATURES = 1000
FEATURES = {"rks": 10, "gp": 16}  # of each function w_i, unless told

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

Values = float | Sequence[float] | Array | Fixed | None


@dataclass(frozen=True, slots=True)
class Surface:
    """What says how much each regime holds at x. It owns parameters as a base kernel does; `dims` None: all columns."""

    kind: str
    regimes: int
    features: int  # of each function w_i of rks and gp; 1 for the others
    dims: tuple[int | str, ...] | None
    parameters: tuple[Parameter, ...]

    @property
    def symbol(self) -> str:
        """The name of the surface in paths of parameters."""
        return self.kind

    @property
    def specs(self) -> tuple[ParameterSpec, ...]:
        """What its parameters are, in order."""
        return KINDS[self.kind]

    @property
    def components(self) -> int:
        """What takes the place of a mixture's components: change points, functions or features."""
        return 1 if self.kind == "CW" else (self.regimes - 1) * self.features

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each parameter of a bound surface has."""
        return tuple(spec.size(len(self.columns), self.components) for spec in self.specs)

    @property
    def columns(self) -> tuple[int, ...]:
        """The column numbers of a bound surface."""
        columns = tuple(d for d in self.dims or () if isinstance(d, int))
        if not columns or self.dims != columns:
            raise KernelError(f"the columns of the surface {self.kind} are not known yet: bind it to the data first")
        return columns

    def text(self, digits: int | None = None) -> str:
        """Name the surface and its columns, for messages."""
        return f"{self.kind}(on={list(self.dims)})" if self.dims else self.kind

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of that name."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        known = ", ".join(p.name for p in self.parameters)
        raise KernelError(f"{self.kind} has no parameter '{name}'; it has {known}")

    def with_parameter(self, parameter: Parameter) -> Surface:
        """Return the surface with the parameter of that name replaced."""
        return replace(self, parameters=tuple(parameter if p.name == parameter.name else p for p in self.parameters))

    def bound(self, dims: Sequence[int]) -> Surface:
        """Return the surface on these columns, one value given for several repeated."""
        if self.kind in ONE_COLUMN and len(dims) != 1:
            raise KernelError(f"{self.kind} changes along one column, not along {len(dims)}: name it, as in on=0")
        parameters = []
        for parameter, spec in zip(self.parameters, self.specs, strict=True):
            values = parameter.values
            if values is not None:
                values = broadcast(self.kind, spec, values, spec.size(len(dims), self.components))
            parameters.append(replace(parameter, values=values))
        return replace(self, dims=tuple(dims), parameters=tuple(parameters))

    def without_values(self) -> Surface:
        """Return the surface with its parameters still to be found."""
        return replace(self, parameters=tuple(Parameter(p.name) for p in self.parameters))


def surface(
    kind: str, regimes: int, *, features: int | None = None, on: Sequence[int | str] = (), **values: Values
) -> Surface:
    """Build a surface, checking names, sizes and domains."""
    if kind not in KINDS:
        raise KernelError(f"there is no surface {kind!r}; there are {', '.join(KINDS)}")
    most = 2 if kind == "CW" else MOST_REGIMES
    if not _is_whole(regimes) or not 2 <= regimes <= most:
        allowed = "two regimes, outside and inside" if kind == "CW" else f"2 to {most} regimes"
        raise KernelError(f"{kind} has {allowed}, not {regimes!r}")
    count = (FEATURES.get(kind, 1)) if features is None else features
    if kind not in FEATURES and count != 1:
        raise KernelError(f"{kind} has no features; only {' and '.join(FEATURES)} have")
    if not _is_whole(count) or not 1 <= count <= MOST_FEATURES:
        raise KernelError(f"a surface has 1 to {MOST_FEATURES} features, not {count!r}")
    specs = KINDS[kind]
    dims = checked_dims(kind, tuple(on))
    if kind in ONE_COLUMN and dims is not None and len(dims) != 1:
        raise KernelError(f"{kind} changes along one column, not along {len(dims)}")
    known = [p.name for p in specs]
    for name in values:
        if name not in known:
            raise KernelError(f"{kind} has no parameter '{name}'; it has {', '.join(known)}")
    bare = Surface(kind, int(regimes), int(count), dims, tuple(Parameter(name) for name in known))
    return replace(bare, parameters=tuple(_checked(bare, p, values.get(p.name)) for p in specs))


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _checked(bare: Surface, spec: ParameterSpec, given: Values) -> Parameter:
    if given is None:
        return Parameter(spec.name)
    values = as_tuple(given.values if isinstance(given, Fixed) else given)
    if bare.dims is not None or "dimension" not in spec.shape or bare.kind in ONE_COLUMN:
        values = broadcast(bare.kind, spec, values, spec.size(len(bare.dims or (0,)), bare.components))
    if not spec.domain.contains(np.asarray(values)):
        raise KernelError(f"{bare.kind}: '{spec.name}' must be {spec.domain.describe()}")
    return Parameter(spec.name, values, isinstance(given, Fixed))


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
        if 1 + max(map(nesting, self.children)) > DEEPEST:
            raise KernelError(f"a kernel may nest at most {DEEPEST} sums, products and changes in each other")

    @property
    def children(self) -> tuple[Expression, ...]:
        return tuple(part for part in self.parts if part is not None)

    def with_children(self, children: Sequence[Expression]) -> Expression:
        new = iter(children)
        return replace(self, parts=tuple(None if part is None else next(new) for part in self.parts))

    def owners(self) -> Iterator[Owner]:
        for child in self.children:
            yield from child.owners()
        yield self.surface

    def map_owners(self, change: Callable[[Owner], Owner]) -> Expression:
        parts = tuple(None if part is None else part.map_owners(change) for part in self.parts)
        changed = change(self.surface)
        assert isinstance(changed, Surface)
        return Blend(parts, changed)

    def only(self, regime: int, part: Expression) -> Blend:
        """Return one regime's share alone, with the kernel given: s_i(x) part(x, x') s_i(x')."""
        return Blend(tuple(part if i == regime else None for i in range(len(self.parts))), self.surface)


def blend(
    parts: Sequence[Expression | float | None],
    kind: str = "CP",
    *,
    features: int | None = None,
    on: int | str | Sequence[int | str] = (),
    **values: Values,
) -> Blend:
    """Build a change surface over the kernels of the regimes; 0 or None: nothing varies in that regime."""
    columns = (on,) if isinstance(on, int | str) else tuple(on)
    nothing = [part is None or (not isinstance(part, Expression) and part == 0) for part in parts]
    kernels = tuple(None if no or p is None else as_expression(p) for no, p in zip(nothing, parts, strict=True))
    return Blend(kernels, surface(kind, len(kernels), features=features, on=columns, **values))


def blends_in(expression: Expression) -> Iterator[Blend]:
    """Yield every change surface of a kernel, those inside others too, from outside in."""
    if isinstance(expression, Blend):
        yield expression
    for child in expression.children:
        yield from blends_in(child)


def has_blend(expression: Expression) -> bool:
    """Tell whether there is a change surface anywhere in a kernel."""
    return next(blends_in(expression), None) is not None


def within(part: Expression) -> Expression:
    """Return what stands under the change surfaces of a component, which has one regime of each."""
    return within(part.children[0]) if isinstance(part, Blend) else part


def under(part: Expression, inside: Expression) -> Expression:
    """Return another kernel under the change surfaces of a component."""
    return part.with_children([under(part.children[0], inside)]) if isinstance(part, Blend) else inside
