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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.errors import KernelError
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.domains import Array, Domain, ParameterSpec, Simplex
from mercer.kernels.expression import Base, Expression, Owner, Parameter, Sum, sum_of


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

    def bound(owner: Owner) -> Any:
        if not isinstance(owner, Base | Surface):
            return owner
        if owner.dims is None:
            return owner.bind(everywhere)
        dims = tuple(c for d in owner.dims for c in _columns(owner, d, dimensions, names))
        if len(set(dims)) != len(dims):
            raise KernelError(f"{owner.text()} names the same column twice")
        return owner.bind(dims)

    return expression.map_owners(bound)


def _columns(owner: Owner, dim: int | str, dimensions: int, names: Sequence[str] | None) -> list[int]:
    """Return the column that a dimension is, or those of its categories."""
    if isinstance(dim, int):
        if dim >= dimensions:
            last = f"0 to {dimensions - 1}" if dimensions > 1 else "only 0"
            raise KernelError(f"{owner.text(digits=4)} acts on dimension {dim}, but the data has {last}")
        return [dim]
    known = [] if names is None else [str(name) for name in names]
    places = [place for place, name in enumerate(known) if name == dim]
    if len(places) > 1:
        raise KernelError(f"{owner.text(digits=4)}: columns {places} are all called '{dim}': give a column number")
    places = places or [place for place, name in enumerate(known) if name.startswith(f"{dim}=")]  # one-hot encoded
    if not places:
        there = "no column names (give the data as a table)" if names is None else ", ".join(known)
        raise KernelError(f"{owner.text(digits=4)} acts on column '{dim}', but the data has {there}")
    return places


def held_variances(expression: Expression) -> frozenset[int]:
    """Return the owners (by number) whose variance is redundant in a product or network and therefore held."""
    held: set[int] = set()
    expression.find_carrier(0, held)
    return frozenset(held)


def fill_held(expression: Expression) -> Expression:
    """Return the expression with its unset held variances written out as one.

    A summand with an unset variance that does count keeps them unset: its scale is still to be found.
    """
    if isinstance(expression, Sum):
        return sum_of(list(map(fill_held, expression.terms)))
    if isinstance(expression, Blend):
        return expression.with_children(list(map(fill_held, expression.children)))
    unset = {
        number
        for number, owner in enumerate(expression.owners())
        if isinstance(owner, Base) and owner.parameters[0].values is None
    }
    if not unset or not unset <= held_variances(expression):
        return expression
    numbers, one = count(), Parameter("variance", (1.0,))
    return expression.map_owners(lambda owner: owner.with_parameter(one) if next(numbers) in unset else owner)


@dataclass(frozen=True)
class Slot:
    """Where one parameter of one leaf (or Linear layer) sits in the flat vector of values."""

    leaf: int
    symbol: str
    spec: ParameterSpec
    offset: int
    size: int
    fitted: bool
    held: bool = False  # a variance that another one of its product stands for

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
    def held(self) -> frozenset[int]:
        """The owners (by number) whose variance is held."""
        return frozenset(slot.leaf for slot in self.slots if slot.held)

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
        for parameter, spec, size in zip(leaf.parameters, leaf.specs, leaf.sizes, strict=True):
            redundant = spec.name == "variance" and number in held
            fitted = not (parameter.fixed or redundant)
            slots.append(Slot(number, leaf.symbol, spec, offset, size, fitted, redundant))
            offset += size
    return Layout(tuple(slots))


def values_of(expression: Expression, held: frozenset[int] | None = None) -> Array:
    """Return the flat vector of a bound expression's values; NaN where unset (1 for a held variance).

    held : `held_variances` of the expression, where it is known already.
    """
    held = held_variances(expression) if held is None else held
    parts: list[Array] = []
    for number, leaf in enumerate(expression.owners()):
        for parameter, size in zip(leaf.parameters, leaf.sizes, strict=True):
            if parameter.values is not None:
                parts.append(np.array(parameter.values))
            else:
                redundant = parameter.name == "variance" and number in held
                parts.append(np.full(size, 1.0 if redundant else np.nan))
    return np.concatenate(parts) if parts else np.empty(0)


def with_values(expression: Expression, values: Array) -> Expression:
    """Return the bound expression holding these values (the inverse of `values_of`: NaN unsets a parameter)."""
    position, sizes = 0, iter([owner.sizes for owner in expression.owners()])

    def filled(leaf: Any) -> Any:
        nonlocal position
        parameters = []
        for parameter, size in zip(leaf.parameters, next(sizes), strict=True):
            given = tuple(values[position : position + size].tolist())
            known = not any(v != v for v in given)
            parameters.append(Parameter(parameter.name, given if known else None, known and parameter.fixed))
            position += size
        return replace(leaf, parameters=tuple(parameters))

    result = expression.map_owners(filled)
    if position != len(values):
        raise KernelError(f"{expression.text(digits=4)} has {position} values, {len(values)} given")
    return result
