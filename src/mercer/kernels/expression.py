"""Kernels as immutable data: base kernels, sums and products, to any depth.

An expression holds structure and, where known, parameter values. A parameter without a value is drawn from the data
when the kernel is fitted; one with a value starts there; a `fixed` one stays there.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Integral
from numbers import Real as RealNumber
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from mercer.errors import KernelError
from mercer.kernels.domains import Array, ParameterSpec, Positive, Simplex
from mercer.kernels.leaf import LEAVES, Leaf

if TYPE_CHECKING:
    from mercer.kernels.parameters import Units

MOST_COMPONENTS = 1000  # of a mixture; a slip such as SM40000000 is an error and not a memory of gigabytes
DEEPEST = 200  # nested sums and products: enough for any kernel, and far from Python's limit on recursion
NETWORK = -1  # the carrier of a scale that lies in many weights, of which none can be held
SAME = 1e-12  # relative: scales of columns that differ by less are one

Self = TypeVar("Self", bound="Owner")
Node = TypeVar("Node", bound="Expression")


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


Given = float | Sequence[float] | Array | Fixed | None


def fixed(value: float | Sequence[float]) -> Fixed:
    """Mark a parameter value as not to be fitted."""
    return Fixed(as_tuple(value))


@dataclass(frozen=True)
class Style:
    """How kernels are written: exactly or rounded, columns by number or by name, with or without values."""

    digits: int | None = None
    names: Sequence[str] | None = None
    values: bool = True
    variances: bool = True  # of base kernels

    def numbers(self, values: Sequence[float]) -> str:
        """Return one number, or a list."""
        shown = [repr(v) if self.digits is None else f"{v:.{self.digits}g}" for v in values]
        return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"

    def parameter(self, parameter: Parameter) -> str:
        """Return the values of a parameter."""
        value = self.numbers(parameter.values or ())
        return f"fixed({value})" if parameter.fixed else value

    def column(self, dim: int | str) -> str:
        """Return a column: its number, or its name, in double quotes where it is odd."""
        if isinstance(dim, int):
            if self.names is None:
                return str(dim)
            dim = self.names[dim]
        return dim if re.fullmatch(r"[A-Za-z_]\w*", dim) and dim != "fixed" else json.dumps(dim, ensure_ascii=False)


class Owner:
    """What has parameters: base kernels, layers of networks, change surfaces.

    symbol : its name in paths of parameters. specs : what its parameters are, in order. dims : its dimensions (None:
    all of them); columns : their numbers once it is bound. components : of a mixture, or what takes their place.
    """

    __slots__ = ()
    parameters: tuple[Parameter, ...]

    if TYPE_CHECKING:  # fields of the dataclasses below, or properties

        @property
        def symbol(self) -> str: ...
        @property
        def specs(self) -> tuple[ParameterSpec, ...]: ...
        @property
        def dims(self) -> tuple[int | str, ...] | None: ...
        @property
        def components(self) -> int: ...
        @property
        def columns(self) -> tuple[int, ...]: ...
        def text(self, digits: int | None = None) -> str: ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each parameter of a bound one has."""
        if self.dims is None and not (isinstance(self, Base) and not LEAVES[self.symbol].uses_inputs):
            raise KernelError(f"{self.text(digits=4)} acts on columns not known yet: bind it to the data first")
        dimensions, components, sizes = len(self.dims or ()), self.components, []
        for spec in self.specs:
            sizes.append(spec.size(dimensions, components))
        return tuple(sizes)

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of that name."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        known = ", ".join(p.name for p in self.parameters)
        raise KernelError(f"{self.symbol} has no parameter '{name}'; it has {known}")

    def with_parameter(self: Self, parameter: Parameter) -> Self:
        """Return it with the parameter of that name replaced."""
        parameters = list(self.parameters)
        for place, old in enumerate(self.parameters):
            if old.name == parameter.name:
                parameters[place] = parameter
        return replace(self, parameters=tuple(parameters))  # type: ignore[type-var]

    def to_given(self) -> dict[str, Any]:
        """Return the values that are set, as JSON data."""
        return {p.name: {"values": list(p.values), "fixed": p.fixed} for p in self.parameters if p.values is not None}

    def in_units(self, units: Units) -> tuple[Parameter, ...]:
        """Return the parameters in other units, each by its own."""
        shift, scale = units.of(self.columns)
        result = []
        for parameter, spec in zip(self.parameters, self.specs, strict=True):
            if parameter.values is not None and spec.unit not in ("none", "variance") and "dimension" in spec.shape:
                table = np.array(parameter.values).reshape(-1, len(scale))
                table = table / scale if spec.unit == "frequency" else table * scale
                table = table + shift if spec.unit == "position" else table
                parameter = replace(parameter, values=tuple(table.ravel().tolist()))
            result.append(parameter)
        return tuple(result)


def read_given(entry: Any) -> Fixed | tuple[float, ...]:
    """Read what `to_given` wrote of one parameter."""
    if not isinstance(entry["values"], list):
        raise TypeError(f"expected a list, found {entry['values']!r:.80}")
    if not isinstance(entry["fixed"], bool):
        raise TypeError(f"'fixed' is true or false, not {entry['fixed']!r:.80}")
    marked = fixed(tuple(entry["values"]))
    return marked if entry["fixed"] else marked.values


class Expression(ABC):
    """A kernel. `+` and `*` combine kernels; a plain number stands for a constant kernel of that variance."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's numbers leave + and * to the kernel, and arrays are rejected as a whole
    scale_in_weights: ClassVar[bool] = False  # of a network: its scale lies in many weights

    @property
    @abstractmethod
    def children(self) -> tuple[Expression, ...]:
        """The direct parts; empty for a base kernel."""

    @abstractmethod
    def with_children(self, children: Sequence[Expression]) -> Expression:
        """Return the same kind of node over other parts."""

    @abstractmethod
    def write(self, style: Style) -> str:
        """Return the kernel as text that `parse` reads back."""

    @abstractmethod
    def to_node(self) -> dict[str, Any]:
        """Return the kernel as JSON data."""

    @abstractmethod
    def find_carrier(self, start: int, held: set[int]) -> tuple[int, int | None]:
        """Return the number of the next owner, and the one that carries the overall scale (None: it is fixed).

        start : the number of its own first owner. held : gathers the owners whose variance is redundant.
        """

    @property
    def has_fixed_scale(self) -> bool:
        """Whether fixed variances leave the kernel no scale to fit."""
        return any(child.has_fixed_scale for child in self.children)

    def multiply_by(self, factor: float) -> Expression:
        """Return factor times the kernel without a new node: variances that carry the scale take the factor."""
        return self.with_children([child.multiply_by(factor) for child in self.children])

    def convert(self, units: Units) -> Expression:
        """Return the kernel over inputs in other units; the scale of the target is left as it is."""
        return self.with_children([child.convert(units) for child in self.children])

    def leaves(self) -> Iterator[Base]:
        """Yield the base kernels from left to right."""
        for child in self.children:
            yield from child.leaves()

    def map_leaves(self, change: Callable[[Base], Expression]) -> Expression:
        """Return the expression with every base kernel replaced by `change(base)`."""
        return self.with_children(list(map(methodcaller("map_leaves", change), self.children)))

    def owners(self) -> Iterator[Owner]:
        """Yield everything that has parameters, in the order of the values vector."""
        for child in self.children:
            yield from child.owners()

    def map_owners(self, change: Callable[[Any], Any]) -> Expression:
        """Return the expression with every owner of parameters replaced by one of its kind, `change(owner)`."""
        return self.with_children(list(map(methodcaller("map_owners", change), self.children)))

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

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """Return the kernel as mathematics, for a notebook."""
        from mercer.kernels.mathml import kernel_to_html

        return kernel_to_html(self)

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
        return self.write(Style(digits, names))


@dataclass(frozen=True, slots=True, repr=False)
class Base(Expression, Owner):
    """A base kernel on some dimensions (None: all of them), with its parameters in the order of its record.

    isotropic : one lengthscale l for all dimensions; ratios : that of dimension d is l times ratios[d] (none: l).
        A kernel that is isotropic in one set of units is so in others only with such ratios: see `parameters.py`.
    """

    symbol: str
    dims: tuple[int | str, ...] | None
    parameters: tuple[Parameter, ...]
    components: int = 1
    isotropic: bool = False
    ratios: tuple[float, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.symbol, self.dims, self.parameters, self.components, self.isotropic, self.ratios)
        return _restore, (self.spec.module, *fields)

    @property
    def spec(self) -> Leaf:
        """The record of this kernel."""
        return LEAVES[self.symbol]

    @property
    def specs(self) -> tuple[ParameterSpec, ...]:
        leaf = LEAVES[self.symbol]
        return leaf.isotropic_parameters() if self.isotropic else leaf.parameters

    @property
    def columns(self) -> tuple[int, ...]:
        """The column numbers of a bound kernel; none for one that does not look at the inputs."""
        if not LEAVES[self.symbol].uses_inputs:
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

    def map_owners(self, change: Callable[[Any], Any]) -> Base:
        changed = change(self)
        assert isinstance(changed, Base)
        return changed

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

    def bind(self, dims: tuple[int, ...]) -> Base:
        """Return the kernel on column numbers, one value given for several of them repeated."""
        if not self.spec.uses_inputs:
            return self
        if self.ratios and len(self.ratios) != len(dims):
            raise KernelError(f"{self.text(digits=4)} has {len(self.ratios)} ratios for {len(dims)} columns")
        _check_coded(self.spec, dims)
        isotropic = self.isotropic and (len(dims) > 1 or bool(self.ratios))  # of one column every kernel is
        bare = replace(self, dims=dims, isotropic=isotropic)
        return replace(bare, parameters=spread_values(bare, self.parameters))

    def write(self, style: Style) -> str:
        arguments = [style.column(d) for d in self.dims or ()]
        if self.isotropic:
            arguments.append(f"isotropic={style.numbers(self.ratios) if self.ratios else True}")
        mixture = LEAVES[self.symbol].mixture
        known = self.dims is not None or mixture  # then a single weight is one by definition
        shown = zip(self.parameters, self.specs, strict=True) if style.values else ()
        for parameter, spec in shown:
            if parameter.name == "variance" and not style.variances:
                continue
            only = known and isinstance(spec.domain, Simplex) and parameter.values == (1.0,) and not parameter.fixed
            if parameter.values is not None and not only:
                arguments.append(f"{parameter.name}={style.parameter(parameter)}")
        symbol = self.symbol + (str(self.components) if mixture else "")
        return f"{symbol}({', '.join(arguments)})" if arguments else symbol

    def without_values(self) -> Base:
        """Return the kernel with its parameters still to be found; a single weight is one, and stays."""
        parameters = []
        for parameter, spec in zip(self.parameters, self.specs, strict=True):
            of_columns = spec.shape == "per dimension"
            count = len(self.dims or ()) if of_columns else self.components
            only = count == 1 and isinstance(spec.domain, Simplex)
            parameters.append(Parameter(parameter.name, (1.0,) if only else None))
        return replace(self, parameters=tuple(parameters))

    def to_node(self) -> dict[str, Any]:
        node: dict[str, Any] = {"base": self.symbol, "parameters": self.to_given()}
        if self.dims is not None:
            node["dims"] = list(self.dims)
        if self.spec.mixture:
            node["components"] = self.components
        if self.isotropic:
            node["isotropic"] = list(self.ratios) or True
        return node

    def find_carrier(self, start: int, held: set[int]) -> tuple[int, int | None]:
        return start + 1, None if self.parameters[0].fixed else start  # the first is the variance

    @property
    def has_fixed_scale(self) -> bool:
        return self.parameters[0].fixed

    def multiply_by(self, factor: float) -> Base:
        variance = self.parameter("variance")
        if variance.values is None:
            return self
        return self.with_parameter(replace(variance, values=(float(variance.values[0] * factor),)))

    def convert(self, units: Units) -> Base:
        if not self.spec.uses_inputs:
            return self
        _, scale = units.of(self.columns)
        changed = replace(self, parameters=self.in_units(units))
        if self.isotropic:  # l times the mean scale, and new ratios unless all are one
            factor = float(scale[0] if np.all(scale == scale[0]) else np.exp(np.mean(np.log(scale))))
            ratios = np.array(self.ratios or (1.0,) * len(scale)) * (scale / factor)
            ratios = np.empty(0) if np.all(np.abs(ratios - 1.0) <= SAME) else ratios
            length = self.parameter("lengthscale")
            values = None if length.values is None else (float(length.values[0] * factor),)
            changed = changed.with_parameter(replace(length, values=values))
            changed = replace(changed, ratios=tuple(ratios.tolist()))
        if self.spec.unit_rule is None:
            return changed
        given = {p.name: None if p.values is None else np.array(p.values) for p in self.parameters}
        replaced, multiple = self.spec.unit_rule(given, scale)
        for name, new in replaced.items():
            changed = changed.with_parameter(replace(self.parameter(name), values=tuple(new.tolist())))
        return changed.multiply_by(multiple)


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

    def map_owners(self, change: Callable[[Any], Any]) -> Expression:
        return _same_shape(Sum, "terms", self.terms, change)

    def write(self, style: Style) -> str:
        return " + ".join(map(methodcaller("write", style), self.terms))

    def to_node(self) -> dict[str, Any]:
        return {"sum": [term.to_node() for term in self.terms]}

    def find_carrier(self, start: int, held: set[int]) -> tuple[int, int | None]:
        """It scales only if every term does; holding one term then pins the whole."""
        start, carriers = carriers_of(self.terms, start, held)
        return start, common_carrier(carriers)


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

    def map_owners(self, change: Callable[[Any], Any]) -> Expression:
        return _same_shape(Product, "factors", self.factors, change)

    def write(self, style: Style) -> str:
        parts = [f"({f.write(style)})" if isinstance(f, Sum) else f.write(style) for f in self.factors]
        return " * ".join(parts)

    def to_node(self) -> dict[str, Any]:
        return {"product": [factor.to_node() for factor in self.factors]}

    def find_carrier(self, start: int, held: set[int]) -> tuple[int, int | None]:
        start, carriers = carriers_of(self.factors, start, held)
        free = sorted((c for c in carriers if c is not None), key=lambda c: c != NETWORK)
        held.update(c for c in free[1:] if c != NETWORK)
        return start, free[0] if free else None

    @property
    def has_fixed_scale(self) -> bool:
        return all(factor.has_fixed_scale for factor in self.factors)

    def multiply_by(self, factor: float) -> Expression:
        factors = list(self.factors)
        carrier = min(range(len(factors)), key=lambda i: (factors[i].has_fixed_scale, not factors[i].scale_in_weights))
        factors[carrier] = factors[carrier].multiply_by(factor)
        return self.with_children(factors)

    def convert(self, units: Units) -> Expression:
        """Convert the factors, and keep one variance: that of the first free one, or in the weights of a network."""
        factors, total = [factor.convert(units) for factor in self.factors], 1.0
        carriers = [i for i, f in enumerate(factors) if f.scale_in_weights and not f.has_fixed_scale][:1]
        for i, base in enumerate(factors):
            variance = base.parameter("variance") if isinstance(base, Base) else None
            if variance is None or variance.fixed or variance.values is None:
                continue
            if carriers:
                total *= variance.values[0]
                factors[i] = base.with_parameter(Parameter("variance", (1.0,)))  # type: ignore[attr-defined]
            else:
                carriers = [i]
        if total != 1.0:
            factors[carriers[0]] = factors[carriers[0]].multiply_by(total)
        return self.with_children(factors)


def carriers_of(parts: Sequence[Expression], start: int, held: set[int]) -> tuple[int, list[int | None]]:
    """Return the number of the next owner, and the carrier of each part's scale."""
    carriers: list[int | None] = []
    for part in parts:
        start, carrier = part.find_carrier(start, held)
        carriers.append(carrier)
    return start, carriers


def common_carrier(carriers: list[int | None]) -> int | None:
    """Return one of the carriers of summands, if all have one: a base kernel rather than a network."""
    known = [c for c in carriers if c is not None]
    return max(known, key=lambda c: c != NETWORK) if len(known) == len(carriers) else None


def _same_shape(kind: type[Node], name: str, parts: tuple[Expression, ...], change: Callable[[Any], Any]) -> Node:
    """Change the owners in the parts of a sum or product: it need not be checked again."""
    result = object.__new__(kind)
    object.__setattr__(result, name, tuple(map(methodcaller("map_owners", change), parts)))
    return result


def _check_parts(parts: tuple[Expression, ...], kind: type[Expression], sign: str) -> None:
    fits = all(isinstance(part, Expression) and not isinstance(part, kind) for part in parts)
    if len(parts) < 2 or not fits or not isinstance(parts, tuple):
        raise KernelError(
            f"a {kind.__name__} holds a tuple of at least two kernels, none itself a {kind.__name__}, not {parts!r}: "
            f"combine kernels with '{sign}'"
        )
    check_depth(parts, "sums and products")


def check_depth(parts: Iterable[Expression], what: str) -> None:
    """Refuse a node over parts that are nested too deep."""
    level, depth = list(parts), 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise KernelError(f"a kernel may nest at most {DEEPEST} {what} in each other; multiply it out")
        above, level = level, []
        for part in above:
            level += part.children


def find_all(expression: Expression, kind: type[Node]) -> Iterator[Node]:
    """Yield every node of one kind, those inside others too, from outside in."""
    if isinstance(expression, kind):
        yield expression
    for child in expression.children:
        yield from find_all(child, kind)


def contains(expression: Expression, kind: type[Expression]) -> bool:
    """Tell whether there is a node of one kind anywhere in a kernel."""
    return next(find_all(expression, kind), None) is not None


def sum_of(parts: Sequence[Expression]) -> Expression:
    """Add kernels; sums inside are spliced in (addition is associative), a single part is returned as it is."""
    terms = tuple([t for part in parts for t in (part.terms if isinstance(part, Sum) else (part,))])
    return terms[0] if len(terms) == 1 else Sum(terms)


def product_of(parts: Sequence[Expression]) -> Expression:
    """Multiply kernels; products inside are spliced in, a single part is returned as it is."""
    factors = tuple([f for part in parts for f in (part.factors if isinstance(part, Product) else (part,))])
    return factors[0] if len(factors) == 1 else Product(factors)


def as_expression(value: Expression | float) -> Expression:
    """Return a kernel for a kernel or a number (a constant kernel of that variance)."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, RealNumber) and not isinstance(value, bool):
        return build_base("C", variance=value)
    raise KernelError(f"cannot combine a kernel with {value!r}: give a kernel or a number greater than zero")


# ------------------------------------------------------------------------------------------- building base kernels


def build_base(
    symbol: str,
    *dims: int | str,
    components: int | None = None,
    isotropic: bool | Sequence[float] | None = None,
    **values: Given,
) -> Base:
    """Build a base kernel, checking names, sizes and domains; every constructor and the parser come through here.

    isotropic : True: one lengthscale for all dimensions; numbers: one for all, times these.
    """
    spec = LEAVES[symbol]
    check_names(symbol, spec.parameters, values)
    if components is None:
        components = 4 if spec.mixture and not spec.coded else 1
    most = MOST_COMPONENTS if spec.mixture else 1
    if not is_whole(components) or not 1 <= components <= most:
        advice = f"give a whole number from 1 to {most}" if spec.mixture else "only a mixture such as SM has several"
        raise KernelError(f"{symbol} cannot have {components!r} components: {advice}")
    checked = check_dims(symbol, dims, spec.uses_inputs)
    _check_coded(spec, checked)
    one, ratios = _isotropy(spec, isotropic, checked)
    bare = Base(symbol, checked, (), int(components), one, ratios)
    return replace(bare, parameters=tuple([check_parameter(bare, p, values.get(p.name)) for p in bare.specs]))


def _check_coded(spec: Leaf, dims: Sequence[int | str] | None) -> None:
    """Refuse several columns for a kernel with a number for each category of one."""
    if spec.coded and dims is not None and len(dims) > 1:
        raise KernelError(f"{spec.symbol} acts on one column of categories, not on {len(dims)}: multiply several")


def _isotropy(
    spec: Leaf, given: bool | Sequence[float] | None, dims: tuple[int | str, ...] | None
) -> tuple[bool, tuple[float, ...]]:
    """Return whether there is one lengthscale for all dimensions, and what multiplies it (nothing: empty)."""
    is_flag = isinstance(given, bool | np.bool_)
    if given is None or (is_flag and not given):
        return False, ()
    if not spec.radial:
        able = ", ".join(symbol for symbol, leaf in LEAVES.items() if leaf.radial)
        raise KernelError(f"{spec.symbol} cannot be isotropic: {able} can have one lengthscale for all dimensions")
    if is_flag:
        return dims is None or len(dims) > 1, ()
    try:
        ratios = as_tuple(given) if isinstance(given, list | tuple | np.ndarray) else ()
    except KernelError:
        ratios = ()
    fits = bool(ratios) and Positive().contains(np.asarray(ratios)) and len(ratios) == len(dims or ratios)
    if not fits:
        raise KernelError(
            f"{spec.symbol}: 'isotropic' is True, or a list of one number greater than zero for each dimension, "
            f"not {given!r:.80}"
        )
    return True, () if set(ratios) == {1.0} else ratios


def check_names(symbol: str, specs: Sequence[ParameterSpec], values: Iterable[str]) -> None:
    """Refuse values of parameters that are not there."""
    known = [p.name for p in specs]
    for name in values:
        if name not in known:
            raise KernelError(f"{symbol} has no parameter '{name}'; it has {', '.join(known)}")


def check_dims(symbol: str, dims: tuple[int | str, ...], uses_inputs: bool = True) -> tuple[int | str, ...] | None:
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


def check_parameter(owner: Owner, spec: ParameterSpec, given: Given) -> Parameter:
    """Return a parameter of an owner with what the user gave for it, checked."""
    is_open = owner.dims is None and "dimension" in spec.shape
    size = None if is_open else spec.size(len(owner.dims or ()), owner.components)
    if given is None:
        return Parameter(spec.name, only_value(spec, size))
    values = as_tuple(given.values if isinstance(given, Fixed) else given)
    if size is not None:
        values = broadcast(owner.symbol, spec, values, size)
    if not spec.domain.contains(np.asarray(values)):
        shown = f"{values[0]:g}" if len(values) == 1 else "[" + ", ".join(f"{v:g}" for v in values) + "]"
        raise KernelError(f"{owner.symbol}: '{spec.name}' must be {spec.domain.describe()}, not {shown:.80}")
    return Parameter(spec.name, values, isinstance(given, Fixed))


def spread_values(owner: Owner, parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return the parameters with as many values as an owner that is now bound needs."""
    result = []
    for parameter, spec, size in zip(parameters, owner.specs, owner.sizes, strict=True):
        given = parameter.values
        values = only_value(spec, size) if given is None else broadcast(owner.symbol, spec, given, size)
        result.append(replace(parameter, values=values))
    return tuple(result)


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


def is_whole(value: object) -> bool:
    """Tell whether a value is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_tuple(value: float | Sequence[float] | Array) -> tuple[float, ...]:
    """Return a number or numbers as a tuple, refusing what is not a number."""
    try:
        array = np.asarray(value)
        if array.size and array.dtype.kind in "iufO":  # not "3", not True; O: whole numbers beyond 64 bits, fractions
            return tuple(float(v) for v in array.ravel())
    except (TypeError, ValueError, OverflowError):
        pass
    raise KernelError(f"a parameter value is a number or a list of numbers, not {value!r:.80}")
