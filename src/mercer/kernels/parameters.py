"""From an expression to one flat vector and back.

Three views of the same numbers:
  expression   values inside the tree (what users see)
  values       one flat vector of every parameter value, leaf by leaf, in registry order (what back ends take); those
               of a network's Linear layers follow the leaves of its primitives, those of a change surface its parts
  free         unconstrained numbers for the parameters that are fitted (what optimisers take)

Products carry one variance only: the variances of the factors of a product are not separately identifiable (METHODS 1),
so all but one of them are *held* at their value (1 where none was given) and do not count as parameters. A network has
its scale in its last layer, and that of its primitives in the weights of its first: their variances are held too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from mercer.errors import KernelError
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.domains import Array, Domain, Simplex
from mercer.kernels.expression import Base, Expression, Owner, Parameter, Product, Sum, broadcast, only_value
from mercer.kernels.functional import Functional
from mercer.kernels.leaf import ParameterSpec
from mercer.kernels.network import Network

NETWORK = -1  # the carrier of a scale that lies in many weights, of which none can be held


def bind(
    expression: Expression,
    dimensions: int,
    names: Sequence[str] | None = None,
    default: Sequence[int] | None = None,
) -> Expression:
    """Return the expression with every base kernel on explicit column numbers of a table with `dimensions` columns.

    Base kernels and change surfaces without a dimension act on the `default` columns (all where it is not given).
    """
    everywhere = tuple(range(dimensions)) if default is None else tuple(default)
    if dimensions < 1:
        raise KernelError(f"a kernel needs data with at least one column, not {dimensions}")

    def bound(leaf: Base) -> Expression:
        if not leaf.spec.uses_inputs:
            return leaf
        dims = _all_columns(leaf)
        parameters = []
        for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
            size = _size(leaf, spec, dims)
            given = parameter.values
            values = only_value(spec, size) if given is None else broadcast(leaf.symbol, spec, given, size)
            parameters.append(replace(parameter, values=values))
        if leaf.ratios and len(leaf.ratios) != len(dims):
            raise KernelError(f"{leaf.text(digits=4)} has {len(leaf.ratios)} ratios for {len(dims)} columns")
        isotropic = leaf.isotropic and (len(dims) > 1 or bool(leaf.ratios))  # of one column every kernel is
        return replace(leaf, dims=dims, parameters=tuple(parameters), isotropic=isotropic)

    def _all_columns(leaf: Base | Surface) -> tuple[int, ...]:
        dims = everywhere if leaf.dims is None else tuple(c for d in leaf.dims for c in _columns(leaf, d))
        if len(set(dims)) != len(dims):
            raise KernelError(f"{leaf.text()} names the same column twice")
        return dims

    def _columns(leaf: Base | Surface, dim: int | str) -> list[int]:
        if isinstance(dim, int):
            if dim >= dimensions:
                last = f"0 to {dimensions - 1}" if dimensions > 1 else "only 0"
                raise KernelError(f"{leaf.text(digits=4)} acts on dimension {dim}, but the data has {last}")
            return [dim]
        known_names = [] if names is None else list(names)
        levels = [place for place, name in enumerate(known_names) if str(name).startswith(f"{dim}=")]
        if levels and dim not in known_names:  # a column of categories, one-hot encoded
            return levels
        if names is None or dim not in names:
            known = ", ".join(names) if names is not None else "no column names (give the data as a table)"
            raise KernelError(f"{leaf.text(digits=4)} acts on column '{dim}', but the data has {known}")
        places = [place for place, name in enumerate(names) if name == dim]
        if len(places) > 1:
            raise KernelError(f"{leaf.text(digits=4)}: columns {places} are all called '{dim}': give a column number")
        return places

    def bound_surface(owner: Owner) -> Owner:
        return owner.bound(_all_columns(owner)) if isinstance(owner, Surface) else owner

    return expression.map_leaves(bound).map_owners(bound_surface)


def _size(leaf: Owner, spec: ParameterSpec, dims: Sequence[object] | None) -> int:
    if dims is None and (isinstance(leaf, Surface) or (isinstance(leaf, Base) and leaf.spec.uses_inputs)):
        raise KernelError(f"{leaf.text(digits=4)} acts on columns not known yet: bind it to the data first")
    return spec.size(len(dims or ()), leaf.components)


def held_variances(expression: Expression) -> frozenset[int]:
    """Return the owners (by number) whose variance is redundant in a product or network and therefore held."""
    held: set[int] = set()
    _find_carrier(expression, 0, held)
    return frozenset(held)


def fill_held(expression: Expression) -> Expression:
    """Return the expression with its unset held variances written out as one.

    A summand with an unset variance that does count keeps them unset: its scale is still to be found.
    """
    if isinstance(expression, Sum | Blend):
        return expression.with_children([fill_held(term) for term in expression.children])
    held = held_variances(expression)
    unset = {
        number
        for number, owner in enumerate(expression.owners())
        if isinstance(owner, Base) and owner.parameter("variance").values is None
    }
    if not unset or not unset <= held:
        return expression
    numbers = count()
    one = Parameter("variance", (1.0,))
    return expression.map_owners(lambda owner: owner.with_parameter(one) if next(numbers) in unset else owner)


def _find_carrier(expression: Expression, start: int, held: set[int]) -> tuple[int, int | None]:
    """Return the number of the next owner, and the one that carries the overall scale (None: the scale is pinned)."""
    if isinstance(expression, Base):
        return start + 1, None if expression.parameter("variance").fixed else start
    carriers: list[int | None] = []
    for child in expression.children:
        start, carrier = _find_carrier(child, start, held)
        carriers.append(carrier)
    if isinstance(expression, Sum | Blend):  # it scales only if every term does; holding one term then pins the whole
        start += isinstance(expression, Blend)  # its surface has no scale
        return start, None if None in carriers else max(carriers, key=lambda c: c != NETWORK)
    if isinstance(expression, Product):
        free = sorted((c for c in carriers if c is not None), key=lambda c: c != NETWORK)
        held.update(c for c in free[1:] if c != NETWORK)
        return start, free[0] if free else None
    if isinstance(expression, Functional):
        return start, carriers[0]
    if isinstance(expression, Network):
        if not expression.variances:
            held.update(c for c in carriers if c not in (None, NETWORK))
        return start + len(expression.linears), None if expression.pinned else NETWORK
    raise TypeError(f"unknown kind of kernel {type(expression).__name__}")


@dataclass(frozen=True)
class Slot:
    """Where one parameter of one leaf (or Linear layer) sits in the flat vector of values."""

    leaf: int
    symbol: str
    spec: ParameterSpec
    offset: int
    size: int
    fitted: bool

    @property
    def path(self) -> str:
        """The parameter's public name, such as `0:SE.lengthscale`."""
        return f"{self.leaf}:{self.symbol}.{self.spec.name}"

    @property
    def where(self) -> slice:
        """The slice of the values vector."""
        return slice(self.offset, self.offset + self.size)


@dataclass(frozen=True)
class _Block:
    """Fitted values that share a domain, transformed together."""

    domain: Domain
    values: NDArray[np.intp]
    free: NDArray[np.intp]


@dataclass(frozen=True)
class Layout:
    """The map between the values of a bound expression and its free vector."""

    slots: tuple[Slot, ...]

    @cached_property
    def n_values(self) -> int:
        """Length of the values vector."""
        return sum(slot.size for slot in self.slots)

    @cached_property
    def n_free(self) -> int:
        """Number of fitted parameters (p in BIC, the noise not counted)."""
        return sum(slot.spec.domain.free_size(slot.size) for slot in self.slots if slot.fitted)

    @cached_property
    def _blocks(self) -> tuple[_Block, ...]:
        grouped: dict[Domain, tuple[list[int], list[int]]] = {}
        blocks, position = [], 0
        for slot in self.slots:
            if not slot.fitted:
                continue
            count = slot.spec.domain.free_size(slot.size)
            values, free = range(slot.offset, slot.offset + slot.size), range(position, position + count)
            if isinstance(slot.spec.domain, Simplex):  # its values depend on each other: a block of its own
                blocks.append(_Block(slot.spec.domain, np.array(values, dtype=np.intp), np.array(free, dtype=np.intp)))
            else:
                indices = grouped.setdefault(slot.spec.domain, ([], []))
                indices[0].extend(values)
                indices[1].extend(free)
            position += count
        blocks += [
            _Block(domain, np.array(values, dtype=np.intp), np.array(free, dtype=np.intp))
            for domain, (values, free) in grouped.items()
        ]
        return tuple(blocks)

    def free_paths(self) -> tuple[str, ...]:
        """Name each entry of the free vector."""
        names: list[str] = []
        for slot in self.slots:
            if slot.fitted:
                count = slot.spec.domain.free_size(slot.size)
                names += [slot.path if slot.size == 1 else f"{slot.path}[{i}]" for i in range(count)]
        return tuple(names)

    def to_free(self, values: Array) -> Array:
        """Map values to the free vector."""
        free = np.empty(self.n_free)
        for block in self._blocks:
            free[block.free] = block.domain.to_free(values[block.values])
        return free

    def from_free(self, free: Array, values: Array) -> Array:
        """Map a free vector to values; what is not fitted is taken from `values`."""
        result = values.copy()
        for block in self._blocks:
            result[block.values] = block.domain.from_free(free[block.free])
        return result

    def pullback(self, values: Array, gradient: Array) -> Array:
        """Turn a gradient by values into a gradient by the free vector."""
        result = np.empty(self.n_free)
        for block in self._blocks:
            result[block.free] = block.domain.pullback(values[block.values], gradient[block.values])
        return result


def layout(expression: Expression) -> Layout:
    """Lay out the parameters of a bound expression."""
    held = held_variances(expression)
    slots: list[Slot] = []
    offset = 0
    for number, leaf in enumerate(expression.owners()):
        for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
            size = _size(leaf, spec, leaf.dims)
            redundant = spec.name == "variance" and number in held
            fitted = not (parameter.fixed or redundant)
            slots.append(Slot(number, leaf.symbol, spec, offset, size, fitted))
            offset += size
    return Layout(tuple(slots))


def values_of(expression: Expression) -> Array:
    """Return the flat vector of a bound expression's values; NaN where unset (1 for a held variance)."""
    held = held_variances(expression)
    parts: list[Array] = []
    for number, leaf in enumerate(expression.owners()):
        for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
            if parameter.values is not None:
                parts.append(np.array(parameter.values))
            else:
                redundant = spec.name == "variance" and number in held
                parts.append(np.full(_size(leaf, spec, leaf.dims), 1.0 if redundant else np.nan))
    return np.concatenate(parts) if parts else np.empty(0)


def with_values(expression: Expression, values: Array) -> Expression:
    """Return the bound expression holding these values (the inverse of `values_of`: NaN unsets a parameter)."""
    position = 0

    def filled(leaf: Owner) -> Owner:
        nonlocal position
        parameters = []
        for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
            size = _size(leaf, spec, leaf.dims)
            given = tuple(float(v) for v in values[position : position + size])
            known = not any(v != v for v in given)
            parameters.append(Parameter(parameter.name, given if known else None, known and parameter.fixed))
            position += size
        return replace(leaf, parameters=tuple(parameters))

    result = expression.map_owners(filled)
    if position != len(values):
        raise KernelError(f"{expression.text(digits=4)} has {position} values, {len(values)} given")
    return result
