"""The neural kernel network (NKN, Sun et al. 2018) as one node of a kernel expression.

Primitive kernels -> Linear (weights and biases not below zero) -> Product (groups of neighbours) -> ... -> Linear1.
Every unit of every layer is a kernel (NKN lemma 2), so the network is one, and can be added, multiplied and nested as
any other. With complex primitives (EXPI) each unit has a real and an imaginary part; the real part is taken at the end.

As text it is NKN(2*SE + PER(0, period=12), Linear4-Product2-Linear1, variances, weights1=[...], bias1=[...], ...):
first the primitives, where 2* means two copies; then the layers; then `complex` and `variances` where they hold, and
the weights (row by row) and biases of each Linear layer, counted from 1.

How many parameters? The paper counts (its table 4, d columns) the variance and one lengthscale for each column of RBF,
d + 1; variance, periods and lengthscales of PER, 2d + 1; the variance of LIN, 1; d + 1 for RQ. "We trained both the
variance and d-dimensional lengthscales for all kernels" (5.2.1): so LIN has no offset and no relevance, and RQ no alpha
of its own. That makes 16 numbers of primitives and 95 weights and biases, 111 in all, for `time_series_network`, and
4d + 6 and 79, 4d + 85 in all, for `regression_network`.

But a primitive's variance and the weights of the first layer on it say the same thing. So `variances` is off by default
and they are held at one; with offsets of LIN and alphas of RQ fitted instead, the network of `time_series_network` then
has 107 parameters, all of which matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer.errors import KernelError
from mercer.kernels.expression import (
    NETWORK,
    Base,
    Expression,
    Fixed,
    Given,
    Owner,
    Parameter,
    Product,
    Style,
    Sum,
    build_base,
    carriers_of,
    check_depth,
    fixed,
)
from mercer.kernels.layers import Exponential, Layer, Linear, check_layers, layer_from_node, layers_from

if TYPE_CHECKING:
    from mercer.kernels.parameters import Units
    from mercer.kernels.polynomial import PolynomialTerm

MOST_PRIMITIVES = 1000
MOST_COPIES = 100  # of one primitive
PAPER_LAYERS = "Linear8-Product4-Linear4-Product2-Linear1"


@dataclass(frozen=True, slots=True, repr=False)
class Network(Expression):
    """Layers over primitive kernels; `layers` carry their weights. Build it with `NKN` or `network`.

    complex : carry real and imaginary parts of the units; the kernel is the real part of the last.
    variances : fit the variances of the primitives too, as the paper does, though the first weights do their work.
    """

    primitives: tuple[Expression, ...]
    layers: tuple[Layer, ...]
    complex: bool = False
    variances: bool = False
    scale_in_weights: ClassVar[bool] = True

    def __post_init__(self) -> None:
        fits = isinstance(self.primitives, tuple) and all(isinstance(p, Expression) for p in self.primitives)
        if not fits or not 1 <= len(self.primitives) <= MOST_PRIMITIVES:
            raise KernelError(f"a network has 1 to {MOST_PRIMITIVES} primitive kernels, not {self.primitives!r:.80}")
        check_depth(self.primitives, "sums, products and networks")
        for primitive in self.primitives:
            if not any(leaf.spec.form == "complex" for leaf in primitive.leaves()):
                continue
            if not isinstance(primitive, Base):
                text = primitive.text(digits=4)
                raise KernelError(f"{text}: EXPI must be a primitive of its own; the layers multiply it with others")
            if not self.complex:
                raise KernelError("EXPI is complex: give complex=True, or use COS, its real part")
        check_layers(self.layers)
        width = len(self.primitives)
        for layer in self.layers:
            if layer.inputs != width:
                raise KernelError(f"{layer.symbol} takes {layer.inputs} units, but there are {width} before it")
            width = layer.width
        if self.complex and any(isinstance(layer, Exponential) for layer in self.layers):
            raise KernelError("Exp is not offered for complex units: use Poly(c0, c1, ...), or COS in place of EXPI")

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.primitives

    def with_children(self, children: Sequence[Expression]) -> Expression:
        return replace(self, primitives=tuple(children))

    def owners(self) -> Iterator[Owner]:
        for primitive in self.primitives:
            yield from primitive.owners()
        yield from self.linears

    def map_owners(self, change: Callable[[Any], Any]) -> Network:
        primitives = tuple(primitive.map_owners(change) for primitive in self.primitives)
        return replace(self, primitives=primitives).with_linears([change(each) for each in self.linears])

    @property
    def linears(self) -> tuple[Linear, ...]:
        """The Linear layers, from the primitives up."""
        return tuple(layer for layer in self.layers if isinstance(layer, Linear))

    def with_linears(self, linears: Sequence[Linear]) -> Network:
        """Return the network with its Linear layers replaced, in order."""
        new = iter(linears)
        return replace(self, layers=tuple(next(new) if isinstance(layer, Linear) else layer for layer in self.layers))

    def with_weights(self, weights: Sequence[Given] | None = None, bias: Sequence[Given] | None = None) -> Network:
        """Return the network with the weights (row by row) and biases of each Linear layer set by hand.

        One entry for each Linear layer: all its numbers, one number for all of them, or None.
        """
        count = len(self.linears)
        listed = all(values is None or isinstance(values, Sequence | np.ndarray) for values in (weights, bias))
        given = [[None] * count if values is None else list(values) for values in (weights, bias)] if listed else []
        if not listed or any(len(values) != count for values in given):
            raise KernelError(f"the network has {count} Linear layers: give weights and biases for each, or None")
        return self.with_linears([one.with_values(w, b) for one, w, b in zip(self.linears, *given, strict=True)])

    @property
    def has_fixed_scale(self) -> bool:
        """Whether fixed weights leave the network no scale to fit."""
        return all(p.fixed for p in self.linears[-1].parameters)

    @property
    def architecture(self) -> str:
        """The layers as text."""
        return "-".join(layer.symbol for layer in self.layers)

    def multiply_by(self, factor: float) -> Network:
        """Return factor times the network: the last layer carries the scale."""
        return self.with_linears([*self.linears[:-1], self.linears[-1].multiply_by(factor)])

    def convert(self, units: Units) -> Network:
        """Convert the primitives; unless their variances are fitted, the weights of the first layer take them."""
        result = replace(self, primitives=tuple(primitive.convert(units) for primitive in self.primitives))
        if self.variances:
            return result
        parts = [_without_scale(primitive) for primitive in result.primitives]
        first, *others = self.linears
        weights = first.parameter("weights")
        if weights.values is not None:
            columns = np.array(weights.values).reshape(first.width, first.inputs) * [factor for _, factor in parts]
            first = first.with_parameter(replace(weights, values=tuple(columns.ravel().tolist())))
        return replace(result, primitives=tuple(part for part, _ in parts)).with_linears([first, *others])

    def find_carrier(self, start: int, held: set[int]) -> tuple[int, int | None]:
        start, carriers = carriers_of(self.primitives, start, held)
        if not self.variances:
            held.update(c for c in carriers if c is not None and c != NETWORK)
        return start + len(self.linears), None if self.has_fixed_scale else NETWORK

    def write(self, style: Style) -> str:
        parts = [f"({p.write(style)})" if isinstance(p, Sum) else p.write(style) for p in self.primitives]
        arguments = [" + ".join(parts), self.architecture]
        arguments += ["complex"] * self.complex + ["variances"] * self.variances
        for number, linear in enumerate(self.linears, 1):
            given = [p for p in linear.parameters if p.values is not None and style.values]
            arguments += [f"{p.name}{number}={style.parameter(p)}" for p in given]
        return f"NKN({', '.join(arguments)})"

    def to_node(self) -> dict[str, Any]:
        return {
            "network": {
                "primitives": [primitive.to_node() for primitive in self.primitives],
                "layers": [layer.to_node() for layer in self.layers],
                "complex": self.complex,
                "variances": self.variances,
            }
        }

    def unit(self, layer: int, place: int) -> Network:
        """Return one unit as a kernel of its own: layers and units are counted from 0; the primitives are no layer."""
        if not (0 <= layer < len(self.layers) and 0 <= place < self.layers[layer].width):
            widths = ", ".join(str(each.width) for each in self.layers)
            raise KernelError(f"there is no unit {place} in layer {layer}: the layers 0, 1, ... have {widths} units")
        below = self.layers[: layer + 1]
        chosen = fixed([float(unit == place) for unit in range(below[-1].width)])
        top = Linear(1, below[-1].width).with_values(chosen, fixed(0.0))
        return replace(self, layers=(*below, top))

    def polynomial(self, top: int | None = 20) -> tuple[PolynomialTerm, ...]:
        """Multiply the network out: the terms with the largest coefficients, each a product of primitives."""
        from mercer.kernels.polynomial import polynomial  # polynomial.py imports this file

        return polynomial(self, top)

    def primitive_names(self) -> tuple[str, ...]:
        """Name the primitives: by symbol and columns, with a number where there are copies (SE, PER[1], PER[2])."""
        from mercer.kernels.algebra import structure  # algebra.py imports this file

        texts = [structure(primitive).text() for primitive in self.primitives]
        bare = [t if isinstance(p, Base) else f"({t})" for p, t in zip(self.primitives, texts, strict=True)]
        count, seen, names = Counter(bare), Counter[str](), []
        for name in bare:
            seen[name] += 1
            names.append(name if count[name] == 1 else f"{name}[{seen[name]}]")
        return tuple(names)


def network(
    primitives: str | Sequence[Expression | str],
    layers: str | Sequence[Layer],
    *,
    complex: bool | None = None,
    variances: bool = False,
) -> Network:
    """Build a network without weights.

    primitives : a text such as "2*SE + 2*PER + LIN(0)*SE(1)", where 2* means two copies, or a list of kernels or texts.
    layers : as in the paper, such as "Linear8-Product4-Linear4-Product2-Linear1".
    complex : None: where a primitive is (EXPI).
    """
    from mercer.kernels.text import parse_primitives  # text.py imports this file: the parser is needed only here

    if isinstance(primitives, Expression) or not isinstance(primitives, str | Iterable):
        raise KernelError(f'primitives are a text such as "2*SE + LIN", or a list of kernels, not {primitives!r:.80}')
    listed = [primitives] if isinstance(primitives, str) else list(primitives)
    parts = tuple(kernel for one in listed for kernel in (parse_primitives(one) if isinstance(one, str) else [one]))
    if complex is None:
        complex = any(isinstance(part, Base) and part.spec.form == "complex" for part in parts)
    if isinstance(layers, Sequence) and not isinstance(layers, str) and all(isinstance(each, Layer) for each in layers):
        return Network(parts, tuple(layers), complex, variances)
    return Network(parts, layers_from(layers, len(parts)), complex, variances)


def time_series_network() -> Network:
    """Return the paper's 1-D network (J.1): two RBF, PER, LIN and RQ each, 111 parameters. Centre the column first."""
    lin, rq = build_base("LIN", offset=fixed(0.0)), build_base("RQ", alpha=fixed(1.0))
    parts = [kernel for kernel in (build_base("SE"), build_base("PER"), lin, rq) for _ in range(2)]
    return network(parts, PAPER_LAYERS, variances=True)


def regression_network(dimensions: int) -> Network:
    """Return the paper's regression network (J.2): two RQ, RBF and LIN each with ARD, 4d + 85 parameters."""
    columns = range(dimensions)
    lin = build_base("LIN", *columns, offset=fixed(0.0), weights=fixed([1.0 / dimensions] * dimensions))
    rq, se = build_base("RQ", *columns, alpha=fixed(1.0)), build_base("SE", *columns)
    return network([kernel for kernel in (rq, se, lin) for _ in range(2)], PAPER_LAYERS, variances=True)


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


def with_given(network: Network, given: dict[str, Fixed | tuple[float, ...]]) -> Network:
    """Return the network with the values of a text, `weights1`, `bias1` and so on."""
    numbers = range(1, 1 + len(network.linears))
    known = [f"{name}{number}" for number in numbers for name in ("weights", "bias")]
    for name in given:
        if name not in known:
            raise KernelError(f"'{name}' is not a parameter of this network; it has {', '.join(known)}")
    return network.with_weights([given.get(f"weights{n}") for n in numbers], [given.get(f"bias{n}") for n in numbers])


def network_from_node(data: Any, read: Callable[[Any], Expression]) -> Network:
    """Read a network from JSON data; where it does not fit, also with Python's errors, which the caller translates."""
    if not isinstance(data["primitives"], list) or not isinstance(data["layers"], list):
        raise TypeError("primitives and layers are lists")
    primitives = [read(part) for part in data["primitives"][: MOST_PRIMITIVES + 1]]
    flags = [data["complex"], data["variances"]]
    if not all(isinstance(flag, bool) for flag in flags):
        raise TypeError(f"'complex' and 'variances' are true or false, not {flags!r:.80}")
    layers: list[Layer] = []
    inputs = len(primitives)
    for entry in data["layers"]:
        layers.append(layer_from_node(entry, inputs))
        inputs = layers[-1].width
    return Network(tuple(primitives), tuple(layers), *flags)
