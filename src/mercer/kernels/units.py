"""Carry a kernel through a change of units of the inputs and the target, and back.

With z = (x - shift) / scale and t = y / y_scale, the kernel of y over x is  k(x, x') = y_scale^2 k_scaled(z, z').
Every parameter follows from its unit in its record; only LIN mixes units (its variance is y^2 / x^2), and a change
surface, whose biases and phases are counted from where x = 0.

One lengthscale for all columns is one in the units of the user, in which `isotropic=True` is written. Columns that are
scaled differently then have lengthscales l r_d in other units: still one free number l, with ratios r_d that follow
from the scales (their geometric mean is one) and go away on the way back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mercer.kernels.blend import Blend, Surface
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Parameter, Product, Sum
from mercer.kernels.leaf import ParameterSpec
from mercer.kernels.network import Network
from mercer.kernels.parameters import fill_held

SAME = 1e-12  # relative: scales that differ by less are one


@dataclass(frozen=True)
class Units:
    """Shift and scale of each input column, and the scale of the target."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]
    y_scale: float = 1.0

    def inverse(self) -> Units:
        """Return the units that undo these."""
        shift = tuple(-m / s for m, s in zip(self.shift, self.scale, strict=True))
        return Units(shift, tuple(1.0 / s for s in self.scale), 1.0 / self.y_scale)


def to_data_units(expression: Expression, units: Units) -> Expression:
    """Return the kernel over the data for a bound kernel over scaled inputs and target."""
    return multiplied(_convert(fill_held(expression), units), units.y_scale**2)


def to_scaled_units(expression: Expression, units: Units) -> Expression:
    """Return the kernel over scaled inputs and target for a bound kernel over the data."""
    return to_data_units(expression, units.inverse())


def multiplied(expression: Expression, factor: float) -> Expression:
    """Return factor * expression without a new node: the factor goes into the variances that carry the scale."""
    if isinstance(expression, Base):
        variance = expression.parameter("variance")
        if variance.values is None:
            return expression
        return expression.with_parameter(replace(variance, values=(float(variance.values[0] * factor),)))
    if isinstance(expression, Sum | Blend):
        return expression.with_children([multiplied(term, factor) for term in expression.children])
    if isinstance(expression, Network):
        return expression.scaled(factor)
    factors = list(expression.children)
    carrier = min(range(len(factors)), key=lambda i: (pinned(factors[i]), not isinstance(factors[i], Network)))
    factors[carrier] = multiplied(factors[carrier], factor)
    return expression.with_children(factors)


def pinned(expression: Expression) -> bool:
    """Tell whether fixed variances leave the expression no scale to fit."""
    if isinstance(expression, Base):
        return expression.parameter("variance").fixed
    if isinstance(expression, Network):
        return expression.pinned
    each = [pinned(child) for child in expression.children]
    return any(each) if isinstance(expression, Sum | Blend) else all(each)


def _convert(expression: Expression, units: Units) -> Expression:
    if isinstance(expression, Base):
        converted, factor = _convert_base(expression, units)
        return multiplied(converted, factor)
    result = expression.with_children([_convert(child, units) for child in expression.children])
    if isinstance(result, Network):
        return result if result.variances else _gather_weights(result)
    if isinstance(result, Blend):
        return replace(result, surface=_convert_surface(result.surface, units))
    return _gather(result) if isinstance(expression, Product) else result


def _gather_weights(network: Network) -> Network:
    """Keep the variances of a network's primitives at one: the weights of its first layer carry them."""
    factors, primitives = [], []
    for primitive in network.primitives:
        bare, factor = _without_scale(primitive)
        primitives.append(bare)
        factors.append(factor)
    first, *others = network.linears
    weights = first.parameter("weights")
    if weights.values is not None:
        columns = np.array(weights.values).reshape(first.width, first.inputs) * factors
        first = first.with_parameter(replace(weights, values=tuple(map(float, columns.ravel()))))
    return replace(network, primitives=tuple(primitives)).with_linears([first, *others])


def _without_scale(expression: Expression) -> tuple[Expression, float]:
    """Return a base kernel, or a product led by one, with variance one, and what its variance was."""
    if isinstance(expression, Base):
        variance = expression.parameter("variance")
        if variance.fixed or variance.values is None:
            return expression, 1.0
        return expression.with_parameter(Parameter("variance", (1.0,))), variance.values[0]
    if not isinstance(expression, Product):
        return expression, 1.0
    parts = [_without_scale(factor) for factor in expression.factors]
    return expression.with_children([part for part, _ in parts]), float(np.prod([factor for _, factor in parts]))


def _gather(product: Expression) -> Expression:
    """Keep the variances of a product's other factors at one: only its first free base kernel carries a variance."""
    bases = [
        i
        for i, f in enumerate(product.children)
        if isinstance(f, Base) and not f.parameter("variance").fixed and f.parameter("variance").values is not None
    ]
    factors, total = list(product.children), 1.0
    networks = [i for i, f in enumerate(factors) if isinstance(f, Network) and not f.pinned]
    bases = networks[:1] + bases  # a network carries the scale of a product
    for i in bases[1:]:
        base = factors[i]
        assert isinstance(base, Base)
        values = base.parameter("variance").values
        assert values is not None
        total *= values[0]
        factors[i] = base.with_parameter(Parameter("variance", (1.0,)))
    if total != 1.0:
        factors[bases[0]] = multiplied(factors[bases[0]], total)
    return product.with_children(factors)


def _convert_surface(surface: Surface, units: Units) -> Surface:
    """Return a change surface in the other units: f . z + b = (f / scale) . x + (b - f . shift / scale)."""
    shift, scale = _of_columns(surface, units)
    changed = replace(surface, parameters=_converted(surface, shift, scale))
    turns = {"linear": ("bias", "slope", 1.0), "rks": ("phase", "frequency", 2.0 * np.pi)}.get(surface.kind)
    if turns is None:
        return changed
    origin, slope = surface.parameter(turns[0]), surface.parameter(turns[1])
    if origin.values is None or slope.values is None:
        return changed
    moved = np.array(slope.values).reshape(-1, len(scale)) @ (shift / scale)
    values = tuple(float(v) for v in np.array(origin.values) - turns[2] * moved)
    return changed.with_parameter(replace(origin, values=values))


def _of_columns(owner: Base | Surface, units: Units) -> tuple[Array, Array]:
    columns = list(owner.columns)
    return np.array(units.shift)[columns], np.array(units.scale)[columns]


def _converted(owner: Base | Surface, shift: Array, scale: Array) -> tuple[Parameter, ...]:
    """Return the parameters in the other units, each by its own."""
    result = []
    for parameter, spec in zip(owner.parameters, owner.specs, strict=True):
        if parameter.values is not None and spec.unit not in ("none", "variance") and "dimension" in spec.shape:
            values = _convert_values(np.array(parameter.values), spec, shift, scale)
            parameter = replace(parameter, values=tuple(float(v) for v in values))
        result.append(parameter)
    return tuple(result)


def _convert_base(leaf: Base, units: Units) -> tuple[Base, float]:
    """Return the base kernel in the other units and the factor its variance takes."""
    if not leaf.spec.uses_inputs:
        return leaf, 1.0
    shift, scale = _of_columns(leaf, units)
    changed = replace(leaf, parameters=_converted(leaf, shift, scale))
    if leaf.isotropic:
        changed = _convert_isotropic(changed, scale)
    if leaf.spec.unit_rule is None:
        return changed, 1.0
    given = {p.name: None if p.values is None else np.array(p.values) for p in leaf.parameters}
    replaced, factor = leaf.spec.unit_rule(given, scale)
    for name, values in replaced.items():
        changed = changed.with_parameter(replace(leaf.parameter(name), values=tuple(float(v) for v in values)))
    return changed, factor


def _convert_isotropic(leaf: Base, scale: Array) -> Base:
    """l r_d scale_d of all columns d: l times the mean scale, and new ratios unless they are all one."""
    factor = float(scale[0] if np.all(scale == scale[0]) else np.exp(np.mean(np.log(scale))))
    ratios = np.array(leaf.ratios or (1.0,) * len(scale)) * (scale / factor)
    if np.all(np.abs(ratios - 1.0) <= SAME):
        ratios = np.empty(0)
    length = leaf.parameter("lengthscale")
    if length.values is not None:
        leaf = leaf.with_parameter(replace(length, values=(float(length.values[0] * factor),)))
    return replace(leaf, ratios=tuple(float(r) for r in ratios))


def _convert_values(values: Array, spec: ParameterSpec, shift: Array, scale: Array) -> Array:
    per_dimension = values.reshape(-1, len(scale))
    if spec.unit == "length":
        return (per_dimension * scale).ravel()
    if spec.unit == "frequency":
        return (per_dimension / scale).ravel()
    return (per_dimension * scale + shift).ravel()
