"""Kernels as immutable data: base kernels, sums and products, to any depth.

An expression holds structure and, where known, parameter values. A parameter without a value is drawn from the data
when the kernel is fitted; one with a value starts there; a `fixed` one stays there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Integral
from numbers import Real as RealNumber
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mercer.errors import KernelError
from mercer.kernels.domains import Array, Positive, Simplex
from mercer.kernels.leaf import LEAVES, Leaf, ParameterSpec, leaf_of

if TYPE_CHECKING:
    from mercer.kernels.blend import Surface
    from mercer.kernels.layers import Linear

Owner: TypeAlias = "Base | Linear | Surface"  # what has parameters: base kernels, layers of networks, change surfaces

MOST_COMPONENTS = 1000  # of a mixture; a slip such as SM40000000 is an error and not a memory of gigabytes


DEEPEST = 200  # nested sums and products: enough for any kernel, and far from Python's limit on recursion


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named parameter: its values (None: to be found from the data) and whether they are fixed."""

    name: str
    values: tuple[float, ...] | None = None
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that fitting leaves alone, as in `PER(0, period=fixed(12))`."""

    values: tuple[float, ...]


def fixed(value: float | Sequence[float]) -> Fixed:
    """Mark a parameter value as not to be fitted."""
    return Fixed(as_tuple(value))


class Expression(ABC):
    """A kernel. `+` and `*` combine kernels; a plain number stands for a constant kernel of that variance."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's numbers leave + and * to the kernel, and arrays are rejected as a whole

    @property
    @abstractmethod
    def children(self) -> tuple[Expression, ...]:
        """The direct parts; empty for a base kernel."""

    @abstractmethod
    def with_children(self, children: Sequence[Expression]) -> Expression:
        """Return the same kind of node over other parts."""

    def leaves(self) -> Iterator[Base]:
        """Yield the base kernels from left to right."""
        for child in self.children:
            yield from child.leaves()

    def map_leaves(self, change: Callable[[Base], Expression]) -> Expression:
        """Return the expression with every base kernel replaced by `change(base)`."""
        return self.with_children([child.map_leaves(change) for child in self.children])

    def owners(self) -> Iterator[Owner]:
        """Yield everything that has parameters, in the order of the values vector."""
        for child in self.children:
            yield from child.owners()

    def map_owners(self, change: Callable[[Owner], Owner]) -> Expression:
        """Return the expression with every owner of parameters replaced by one of its kind, `change(owner)`."""
        return self.with_children([child.map_owners(change) for child in self.children])

    def __add__(self, other: Expression | float) -> Expression:
        return sum_of([self, as_expression(other)])

    def __radd__(self, other: float) -> Expression:
        if other == 0:  # so that Python's sum() works, which begins with 0
            return self
        return sum_of([as_expression(other), self])

    def __mul__(self, other: Expression | float) -> Expression:
        return product_of([self, as_expression(other)])

    def __rmul__(self, other: float) -> Expression:
        return product_of([as_expression(other), self])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """Return k(X, Z), or k(X, X); rows of numbers, or a table where the kernel names columns.

        Every parameter must have a value. White noise is zero between two different arguments.
        """
        from mercer.compute.evaluate import gram  # a shortcut for users to the room above, when it is called

        return gram(self, X, Z)

    def diagonal(self, X: Any) -> Array:
        """Return k(x, x) for every row."""
        from mercer.compute.evaluate import diagonal

        return diagonal(self, X)

    def text(self, digits: int | None = None, names: Sequence[str] | None = None) -> str:
        """Return the kernel as text: exact by default, or rounded to `digits`; `names` stand in for dimensions."""
        from mercer.kernels.text import to_text  # text.py imports this file: the printer is needed only here

        return to_text(self, digits=digits, names=names)


@dataclass(frozen=True, slots=True, repr=False)
class Base(Expression):
    """A base kernel on some dimensions (None: all of them), with its parameters in the order of its record.

    isotropic : one lengthscale l for all dimensions; ratios : that of dimension d is l times ratios[d] (none: l).
        A kernel that is isotropic in one set of units is so in others only with such ratios: see `units.py`.
    """

    symbol: str
    dims: tuple[int | str, ...] | None
    parameters: tuple[Parameter, ...]
    components: int = 1
    isotropic: bool = False
    ratios: tuple[float, ...] = ()

    @property
    def spec(self) -> Leaf:
        """The record of this kernel."""
        return leaf_of(self.symbol)

    @property
    def specs(self) -> tuple[ParameterSpec, ...]:
        """What its parameters are, in order."""
        return self.spec.isotropic_parameters() if self.isotropic else self.spec.parameters

    @property
    def columns(self) -> tuple[int, ...]:
        """The column numbers of a bound kernel; none for one that does not look at the inputs."""
        if not self.spec.uses_inputs:
            return ()
        columns = tuple(d for d in self.dims or () if isinstance(d, int))
        if not columns or self.dims != columns:
            raise KernelError(f"the columns of {self.text(digits=4)} are not known yet: bind it to the data first")
        return columns

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    def with_children(self, children: Sequence[Expression]) -> Expression:
        return self

    def leaves(self) -> Iterator[Base]:
        yield self

    def map_leaves(self, change: Callable[[Base], Expression]) -> Expression:
        return change(self)

    def owners(self) -> Iterator[Owner]:
        yield self

    def map_owners(self, change: Callable[[Owner], Owner]) -> Expression:
        changed = change(self)
        assert isinstance(changed, Base)
        return changed

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.symbol, self.dims, self.parameters, self.components, self.isotropic, self.ratios)
        return _restore, (self.spec.module, *fields)

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of that name."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KernelError(f"{self.symbol} has no parameter '{name}'; it has {_listed(p.name for p in self.parameters)}")

    def value(self, name: str) -> float | tuple[float, ...] | None:
        """Return a parameter's value: a number, a tuple if it has several, None if unset."""
        values = self.parameter(name).values
        return values[0] if values is not None and len(values) == 1 else values

    def lengthscales(self) -> tuple[float, ...] | None:
        """Return the lengthscale of each dimension, also where there is one for all; None where it is unset."""
        values = self.parameter("lengthscale").values
        if values is None or not self.isotropic:
            return values
        return tuple(values[0] * ratio for ratio in self.ratios or (1.0,) * max(1, len(self.dims or ())))

    def with_parameter(self, parameter: Parameter) -> Base:
        """Return the kernel with the parameter of that name replaced."""
        return replace(self, parameters=tuple(parameter if p.name == parameter.name else p for p in self.parameters))


def _restore(module: str, symbol: str, *fields: Any) -> Base:
    """Unpickle a base kernel; one from outside is registered by importing the module that does so."""
    if module and symbol not in LEAVES:
        import_module(module)
    return Base(symbol, *fields)


@dataclass(frozen=True, slots=True, repr=False)
class Sum(Expression):
    """A sum of at least two kernels, none of them itself a sum."""

    terms: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_parts(self.terms, Sum, "+")

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.terms

    def with_children(self, children: Sequence[Expression]) -> Expression:
        return sum_of(children)


@dataclass(frozen=True, slots=True, repr=False)
class Product(Expression):
    """A product of at least two kernels, none of them itself a product."""

    factors: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_parts(self.factors, Product, "*")

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.factors

    def with_children(self, children: Sequence[Expression]) -> Expression:
        return product_of(children)


def _check_parts(parts: tuple[Expression, ...], kind: type[Expression], sign: str) -> None:
    fits = all(isinstance(part, Expression) and not isinstance(part, kind) for part in parts)
    if len(parts) < 2 or not fits or not isinstance(parts, tuple):
        raise KernelError(
            f"a {kind.__name__} holds a tuple of at least two kernels, none itself a {kind.__name__}, not {parts!r}: "
            f"combine kernels with '{sign}'"
        )
    if 1 + max(map(nesting, parts)) > DEEPEST:
        raise KernelError(f"a kernel may nest at most {DEEPEST} sums and products in each other; multiply it out")


def nesting(expression: Expression) -> int:
    """Return how many sums and products are nested in each other; 0 for a base kernel."""
    return 1 + max(map(nesting, expression.children)) if expression.children else 0


def sum_of(parts: Sequence[Expression]) -> Expression:
    """Add kernels; sums inside are spliced in (addition is associative), a single part is returned as it is."""
    terms = tuple(t for part in parts for t in (part.terms if isinstance(part, Sum) else (part,)))
    return terms[0] if len(terms) == 1 else Sum(terms)


def product_of(parts: Sequence[Expression]) -> Expression:
    """Multiply kernels; products inside are spliced in, a single part is returned as it is."""
    factors = tuple(f for part in parts for f in (part.factors if isinstance(part, Product) else (part,)))
    return factors[0] if len(factors) == 1 else Product(factors)


def as_expression(value: Expression | float) -> Expression:
    """Return a kernel for a kernel or a number (a constant kernel of that variance)."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, RealNumber) and not isinstance(value, bool):
        return build_base("C", variance=value)
    raise KernelError(f"cannot combine a kernel with {value!r}: give a kernel or a number greater than zero")


def build_base(
    symbol: str,
    *dims: int | str,
    components: int | None = None,
    isotropic: bool | Sequence[float] = False,
    **values: float | Sequence[float] | Fixed | None,
) -> Base:
    """Build a base kernel, checking names, sizes and domains; every constructor and the parser come through here.

    isotropic : True: one lengthscale for all dimensions; numbers: one for all, times these.
    """
    spec = leaf_of(symbol)
    known = [p.name for p in spec.parameters]
    for name in values:
        if name not in known:
            raise KernelError(f"{symbol} has no parameter '{name}'; it has {_listed(known)}")
    if components is None:
        components = 4 if spec.mixture else 1
    most = MOST_COMPONENTS if spec.mixture else 1
    if not isinstance(components, Integral) or isinstance(components, bool) or not 1 <= components <= most:
        advice = f"give a whole number from 1 to {most}" if spec.mixture else "only a mixture such as SM has several"
        raise KernelError(f"{symbol} cannot have {components!r} components: {advice}")
    checked = checked_dims(symbol, dims, spec.uses_inputs)
    one, ratios = _isotropy(spec, isotropic, checked)
    specs = spec.isotropic_parameters() if one else spec.parameters
    parameters = tuple(_parameter(symbol, p, values.get(p.name), checked, components) for p in specs)
    return Base(symbol, checked, parameters, int(components), one, ratios)


def _isotropy(
    spec: Leaf, given: bool | Sequence[float], dims: tuple[int | str, ...] | None
) -> tuple[bool, tuple[float, ...]]:
    """Return whether there is one lengthscale for all dimensions, and what multiplies it (nothing: empty)."""
    if given is False:
        return False, ()
    if not spec.radial:
        able = _listed(symbol for symbol, leaf in LEAVES.items() if leaf.radial)
        raise KernelError(f"{spec.symbol} cannot be isotropic: only {able} have a lengthscale for each dimension")
    if given is True:
        return dims is None or len(dims) > 1, ()
    ratios = as_tuple(given)
    if not Positive().contains(np.asarray(ratios)) or (dims is not None and len(ratios) != len(dims)):
        raise KernelError(
            f"{spec.symbol}: 'isotropic' is True, or one number greater than zero for each dimension, not {given!r:.80}"
        )
    return True, () if len(set(ratios)) == 1 and ratios[0] == 1.0 else ratios


def checked_dims(symbol: str, dims: tuple[int | str, ...], uses_inputs: bool = True) -> tuple[int | str, ...] | None:
    """Return the dimensions of a base kernel or a surface (None: all of them), refusing what is none."""
    if not uses_inputs:
        if dims:
            raise KernelError(f"{symbol} does not look at the inputs, so it takes no dimension; {dims} was given")
        return None
    for dim in dims:
        is_index = isinstance(dim, int | np.integer) and not isinstance(dim, bool)
        if not (is_index or isinstance(dim, str)) or (is_index and int(dim) < 0):
            raise KernelError(f"{symbol}: a dimension is a column number from 0 or a column name, not {dim!r}")
    if len(set(dims)) != len(dims):
        raise KernelError(f"{symbol}: the same dimension is given twice in {dims}")
    return tuple(str(d) if isinstance(d, str) else int(d) for d in dims) or None


def _parameter(
    symbol: str,
    spec: ParameterSpec,
    given: float | Sequence[float] | Fixed | None,
    dims: tuple[int | str, ...] | None,
    components: int,
) -> Parameter:
    size = None if dims is None and "dimension" in spec.shape else spec.size(len(dims or ()), components)
    if given is None:
        return Parameter(spec.name, only_value(spec, size))
    values = as_tuple(given.values if isinstance(given, Fixed) else given)
    if size is not None:
        values = broadcast(symbol, spec, values, size)
    if not spec.domain.contains(np.asarray(values)):
        raise KernelError(f"{symbol}: '{spec.name}' must be {spec.domain.describe()}, not {_shown(values)}")
    return Parameter(spec.name, values, isinstance(given, Fixed))


def only_value(spec: ParameterSpec, size: int | None) -> tuple[float, ...] | None:
    """Return the value of a parameter that has no choice (a single weight is one), or None."""
    return (1.0,) if size == 1 and isinstance(spec.domain, Simplex) else None


def broadcast(symbol: str, spec: ParameterSpec, values: tuple[float, ...], size: int) -> tuple[float, ...]:
    """Return `size` values; one value stands for all of them, except where they must add up to one."""
    if len(values) == 1 and not isinstance(spec.domain, Simplex):
        return values * size
    if len(values) != size:
        raise KernelError(f"{symbol}: '{spec.name}' takes {size} value(s), {len(values)} given")
    return values


def as_tuple(value: float | Sequence[float] | Array) -> tuple[float, ...]:
    """Return a number or numbers as a tuple, refusing what is not a number."""
    try:
        array = np.asarray(value)
        if array.size and array.dtype.kind in "iufO":  # not "3", not True; O: whole numbers beyond 64 bits, fractions
            return tuple(float(v) for v in array.ravel())
    except (TypeError, ValueError, OverflowError):
        pass
    raise KernelError(f"a parameter value is a number or a list of numbers, not {value!r:.80}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _shown(values: tuple[float, ...]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else "[" + ", ".join(f"{v:g}" for v in values) + "]"
