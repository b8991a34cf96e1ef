"""From an expression to one flat vector and back.

Three views of the same numbers:
  expression   values inside the tree (what users see)
  values       one flat vector of every parameter value, leaf by leaf, in registry order (what back ends take); those
               of a network's Linear layers follow the leaves of its primitives, those of a change surface its parts
  free         unconstrained numbers for the parameters that are fitted (what optimisers take)

Products carry one variance only: the variances of the factors of a product are not separately identifiable (METHODS 1),
so all but one of them are *held* at their value (1 where none was given) and do not count as parameters. A network has
its scale in its last layer, and that of its primitives in the weights of its first: their variances are held too.

Nor is the correlation of categories in a summand of their own: v rho is a constant there, and the level of the target
is free. It is held too, at zero where none was given: then v is the variance of the categories' effects.

At the end: the same numbers where the inputs and the target have other units.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.errors import InputError, KernelError
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.categories import refuse_distances, spread_over_categories, takes_categories
from mercer.kernels.domains import Array, Domain, ParameterSpec, Simplex
from mercer.kernels.expression import Base, Expression, Owner, Parameter, Sum, sum_of

Indices = NDArray[np.intp]
SMALLEST = 1e-305  # scale of a column; it and its inverse are numbers of full precision
SMALLEST_SQUARE = 1e-140  # scale whose square is such a number
EXTREME = "the numbers are too large or too small to be scaled: change their unit (by a factor of 1000, say)"


def bind(
    expression: Expression,
    dimensions: int,
    names: Sequence[str] | None = None,
    default: Sequence[int] | None = None,
    categories: Collection[int] = (),
) -> Expression:
    """Return the expression with every base kernel on explicit column numbers of a table with `dimensions` columns.

    Base kernels and change surfaces without a dimension act on the `default` columns (all where it is not given), those
    of `categories` by CAT: see `mercer.kernels.categories`.
    """
    everywhere = tuple(range(dimensions)) if default is None else tuple(default)
    numbers = tuple(c for c in everywhere if c not in categories)
    labels = tuple(c for c in everywhere if c in categories)
    expression = spread_over_categories(expression, numbers, labels)
    if dimensions < 1:
        raise KernelError(f"a kernel needs data with at least one column, not {dimensions}")

    def bind_one(owner: Owner) -> Any:
        if not isinstance(owner, Base | Surface):
            return owner
        blind = isinstance(owner, Base) and takes_categories(owner)
        if owner.dims is None:
            return owner.bind(everywhere if not labels or owner.symbol == "WN" else labels if blind else numbers)
        dims = tuple(c for d in owner.dims for c in _columns(owner, d, dimensions, names))
        if len(set(dims)) != len(dims):
            raise KernelError(f"{owner.text()} names the same column twice")
        wrong = [] if blind else [c for c in dims if c in categories]
        if wrong:
            raise refuse_distances(owner.text(digits=4), str(wrong[0]) if names is None else names[wrong[0]])
        return owner.bind(dims)

    return expression.map_owners(bind_one)


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
    if not places and dim.partition("=")[0] in known:
        column = dim.partition("=")[0]
        raise KernelError(
            f"{owner.text(digits=4)} acts on '{dim}', one category of a column, but a column of categories is one "
            f"input: use CAT({column})"
        )
    if not places:
        there = "no column names (give the data as a table)" if names is None else ", ".join(known)
        raise KernelError(f"{owner.text(digits=4)} acts on column '{dim}', but the data has {there}")
    return places


def held_variances(expression: Expression) -> frozenset[int]:
    """Return the owners (by number) whose variance is redundant in a product or network and therefore held."""
    held: set[int] = set()
    expression.find_carrier(0, held)
    return frozenset(held)


def held_correlations(expression: Expression) -> frozenset[int]:
    """Return the owners (by number) whose correlation is redundant: categories on one column, alone as a summand."""
    held: set[int] = set()
    number = 0
    for term in expression.terms if isinstance(expression, Sum) else (expression,):
        owners = list(term.owners())
        if isinstance(term, Base) and term.spec.has("correlation") and len(term.dims or ()) == 1:
            held.add(number)
        number += len(owners)
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
    held: bool = False  # a variance that another one of its product stands for, a correlation that is a constant

    @property
    def path(self) -> str:
        """The parameter's public name, such as `0:SE.lengthscale`."""
        return f"{self.leaf}:{self.symbol}.{self.spec.name}"

    @property
    def where(self) -> slice:
        """The slice of the values vector."""
        return slice(self.offset, self.offset + self.size)


@dataclass(frozen=True)
class Layout:
    """The map between the values of a bound expression and its free vector."""

    slots: tuple[Slot, ...]

    @cached_property
    def held(self) -> frozenset[int]:
        """The owners (by number) whose variance is held."""
        return frozenset(slot.leaf for slot in self.slots if slot.held and slot.spec.name == "variance")

    @cached_property
    def n_values(self) -> int:
        return sum(slot.size for slot in self.slots)

    @cached_property
    def n_free(self) -> int:
        """Number of fitted parameters (p in BIC, the noise not counted)."""
        return sum(slot.spec.domain.free_size(slot.size) for slot in self.slots if slot.fitted)

    @cached_property
    def _blocks(self) -> tuple[tuple[Domain, Indices, Indices], ...]:
        """Fitted values that share a domain, transformed together: the domain, and places in the values and free."""
        grouped: dict[tuple[Domain, int], tuple[list[int], list[int]]] = {}
        position = 0
        for number, slot in enumerate(self.slots):
            if slot.fitted:
                domain = slot.spec.domain
                alone = number if isinstance(domain, Simplex) else -1  # its values depend on each other
                values, free = grouped.setdefault((domain, alone), ([], []))
                values += range(slot.offset, slot.offset + slot.size)
                free += range(position, position + domain.free_size(slot.size))
                position += domain.free_size(slot.size)
        return tuple(
            (domain, np.array(values, dtype=np.intp), np.array(free, dtype=np.intp))
            for (domain, _), (values, free) in grouped.items()
        )

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
        for domain, places, entries in self._blocks:
            free[entries] = domain.to_free(values[places])
        return free

    def from_free(self, free: Array, values: Array) -> Array:
        """Map a free vector to values; what is not fitted is taken from `values`."""
        result = values.copy()
        for domain, places, entries in self._blocks:
            result[places] = domain.from_free(free[entries])
        return result

    def pullback(self, values: Array, gradient: Array) -> Array:
        """Turn a gradient by values into a gradient by the free vector."""
        result = np.empty(self.n_free)
        for domain, places, entries in self._blocks:
            result[entries] = domain.pullback(values[places], gradient[places])
        return result


def layout(expression: Expression) -> Layout:
    """Lay out the parameters of a bound expression."""
    held, alone = held_variances(expression), held_correlations(expression)
    slots: list[Slot] = []
    offset = 0
    for number, leaf in enumerate(expression.owners()):
        for parameter, spec, size in zip(leaf.parameters, leaf.specs, leaf.sizes, strict=True):
            redundant = number in {"variance": held, "correlation": alone}.get(spec.name, ())
            fitted = not (parameter.fixed or redundant or spec.anchored)
            slots.append(Slot(number, leaf.symbol, spec, offset, size, fitted, redundant))
            offset += size
    return Layout(tuple(slots))


def values_of(expression: Expression, held: frozenset[int] | None = None) -> Array:
    """Return the flat vector of a bound expression's values; NaN where unset (1 for a held variance, 0 correlation).

    held : `held_variances` of the expression, where it is known already.
    """
    held = held_variances(expression) if held is None else held
    alone = held_correlations(expression)
    parts: list[Array] = []
    for number, leaf in enumerate(expression.owners()):
        for parameter, size in zip(leaf.parameters, leaf.sizes, strict=True):
            if parameter.values is not None:
                parts.append(np.array(parameter.values))
            else:
                given = 1.0 if parameter.name == "variance" and number in held else np.nan
                given = 0.0 if parameter.name == "correlation" and number in alone else given
                parts.append(np.full(size, given))
    return np.concatenate(parts) if parts else np.empty(0)


def with_values(expression: Expression, values: Array) -> Expression:
    """Return the bound expression holding these values (the inverse of `values_of`: NaN unsets a parameter)."""
    position, sizes = 0, iter([owner.sizes for owner in expression.owners()])

    def fill(leaf: Any) -> Any:
        nonlocal position
        parameters = []
        for parameter, size in zip(leaf.parameters, next(sizes), strict=True):
            given = tuple(values[position : position + size].tolist())
            known = not any(v != v for v in given)
            parameters.append(Parameter(parameter.name, given if known else None, known and parameter.fixed))
            position += size
        return replace(leaf, parameters=tuple(parameters))

    result = expression.map_owners(fill)
    if position != len(values):
        raise KernelError(f"{expression.text(digits=4)} has {position} values, {len(values)} given")
    return result


# ------------------------------------------------------------------------------------------------------- other units
#
# Every parameter follows from its unit in its record; only LIN mixes units (its variance is y^2 / x^2), and a change
# surface, whose biases and phases are counted from where x = 0.
#
# One lengthscale for all columns is one in the units of the user, in which `isotropic=True` is written. Columns that
# are scaled differently then have lengthscales l r_d in other units: still one free number l, with ratios r_d that
# follow from the scales (their geometric mean is one) and go away on the way back.


@dataclass(frozen=True)
class Units:
    """Shift and scale of each input column, and the scale of the target: z = (x - shift) / scale, t = y / y_scale."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]
    y_scale: float = 1.0

    def __post_init__(self) -> None:
        fits = all(SMALLEST <= scale <= 1.0 / SMALLEST for scale in self.scale)
        if not (fits and np.isfinite(self.shift).all() and SMALLEST_SQUARE <= self.y_scale <= 1.0 / SMALLEST_SQUARE):
            raise InputError(EXTREME)

    def with_squares(self) -> Units:
        """Return these units, refusing scales whose squares are no numbers: variances of LIN are."""
        if not all(SMALLEST_SQUARE <= scale <= 1.0 / SMALLEST_SQUARE for scale in self.scale):
            raise InputError(EXTREME)
        return self

    def of(self, columns: Sequence[int]) -> tuple[Array, Array]:
        """Return shift and scale of some columns."""
        chosen = list(columns)
        return np.array(self.shift)[chosen], np.array(self.scale)[chosen]

    def inverse(self) -> Units:
        """Return the units that undo these."""
        shift = tuple(-m / s for m, s in zip(self.shift, self.scale, strict=True))
        return Units(shift, tuple(1.0 / s for s in self.scale), 1.0 / self.y_scale)


def to_data_units(expression: Expression, units: Units) -> Expression:
    """Return the kernel over the data, y_scale^2 k(z, z'), for a bound kernel over scaled inputs and target.

    Fixed values are rounded to 15 digits: going to other units and back costs the last one, and the user wrote them.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # what comes of it is checked
        converted = fill_held(expression).convert(units).multiply_by(units.y_scale**2)
    known = [p.values for owner in converted.owners() for p in owner.parameters if p.values is not None]
    if not all(np.isfinite(values).all() for values in known):
        raise InputError(EXTREME)
    if not any(p.fixed for owner in converted.owners() for p in owner.parameters):
        return converted

    def round_fixed(owner: Any) -> Any:
        for parameter in owner.parameters:
            if parameter.fixed and parameter.values is not None:
                rounded = tuple(float(f"{value:.15g}") for value in parameter.values)
                owner = owner.with_parameter(replace(parameter, values=rounded))
        return owner

    return converted.map_owners(round_fixed)


def to_scaled_units(expression: Expression, units: Units) -> Expression:
    """Return the kernel over scaled inputs and target for a bound kernel over the data."""
    inverse = units.inverse()
    return fill_held(expression).convert(inverse).multiply_by(inverse.y_scale**2)
