"""A fitted model as an ONNX graph: rows in, mean and standard deviation out, in float64.

The graph is written from the program of the kernel (`mercer.compute.program`), leaf by leaf from the table `LEAVES`: a
kind of leaf without an entry is refused. Rows of X are the left sides of pairs, (n, 1) for each column, and the rows
learned from the right sides, (1, N); what is the same for both sides stays as narrow as it is. The factor of the
covariance is kept as its inverse, so that a variance takes one product: |L^-1 k*|^2.

Inputs   X                  (n, columns)
Outputs  mean               (n,)
         std                (n,)  of a new observation
         std_of_function    (n,)  without the noise
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mercer.compute.fused import centred_constants
from mercer.compute.program import Affine, LeafNode, Program, Term, compile_program
from mercer.errors import InputError
from mercer.interop.exporting import Alone, Ends, Exported
from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array
from mercer.kernels.parameters import values_of
from mercer.linalg.factor import Factor
from mercer.writing import whole_file

OPSET = 17  # of 2022: every runtime since then reads it
VERSION = 8  # of the file format, for the same runtimes
MOST_BYTES = 2_000_000_000  # of one file, which is one message of protocol buffers
TWO_PI = 2.0 * math.pi


@dataclass
class Graph:
    """Nodes and constants as they are added; everything has a name."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    known: dict[float, str] = field(default_factory=dict)

    def constant(self, value: Any) -> str:
        """Return the name of a number or an array."""
        array = np.asarray(value, dtype=np.float64)
        if array.ndim == 0 and float(array) in self.known:
            return self.known[float(array)]
        name = self._keep(array)
        if array.ndim == 0:
            self.known[float(array)] = name
        return name

    def whole(self, values: Sequence[int]) -> str:
        """Return the name of some whole numbers."""
        return self._keep(np.array(values, dtype=np.int64))

    def _keep(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name))
        return name

    def do(self, operator: str, *inputs: str | float | Array, **attributes: Any) -> str:
        """Add a node and return the name of its result; numbers and arrays become constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        result = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [result], **attributes))
        return result

    def add(self, parts: Sequence[str]) -> str:
        """Return the sum of some parts; there is at least one."""
        total = parts[0]
        for part in parts[1:]:
            total = self.do("Add", total, part)
        return total

    def multiply(self, parts: Sequence[str]) -> str:
        """Return the product of some parts, one where there are none."""
        if not parts:
            return self.constant([[1.0]])
        total = parts[0]
        for part in parts[1:]:
            total = self.do("Mul", total, part)
        return total

    def log1p(self, z: str) -> str:
        """log(1 + z) to full precision: z log(u) / (u - 1), u = 1 + z rounded (Higham 2002, 1.14.1)."""
        u = self.do("Add", z, 1.0)
        step = self.do("Sub", u, 1.0)
        same = self.do("Equal", step, 0.0)
        ratio = self.do("Div", self.do("Log", u), self.do("Where", same, 1.0, step))
        return self.do("Where", same, z, self.do("Mul", z, ratio))

    def expm1(self, z: str) -> str:
        """exp(z) - 1 to full precision: z (u - 1) / log(u), u = exp(z) rounded; plainly where z is below -1."""
        u = self.do("Exp", z)
        step = self.do("Sub", u, 1.0)
        plain = self.do("Or", self.do("Less", z, -1.0), self.do("Equal", step, 0.0))
        log = self.do("Where", plain, 1.0, self.do("Log", u))
        close = self.do("Mul", step, self.do("Div", z, log))
        near = self.do("Where", self.do("Equal", step, 0.0), z, step)
        return self.do("Where", plain, near, close)


@dataclass(eq=False)
class RowPairs:
    """Pairs of rows: for each column the names of the left and right sides."""

    graph: Graph
    left: list[str]
    right: list[str]
    differences: dict[int, str] = field(default_factory=dict)

    def difference(self, column: int) -> str:
        """x - x' on a column."""
        if column not in self.differences:
            self.differences[column] = self.graph.do("Sub", self.left[column], self.right[column])
        return self.differences[column]

    def squares(self, columns: Sequence[int], factors: Sequence[float] | Array) -> str:
        """Sum of f^2 (x - x')^2 over the columns."""
        graph, parts = self.graph, []
        for column, factor in zip(columns, factors, strict=True):
            scaled = graph.do("Mul", self.difference(column), float(factor))
            parts.append(graph.do("Mul", scaled, scaled))
        return graph.add(parts)

    def angle(self, columns: Sequence[int], frequency: Sequence[float] | Array) -> str:
        """2 pi f.(x - x')."""
        waves = [(self.difference(c), f) for c, f in zip(columns, frequency, strict=True)]
        return self.graph.add([self.graph.do("Mul", x, TWO_PI * float(f)) for x, f in waves])


# --------------------------------------------------------------------------------------------------------------- leaves
# Each returns the unit function of a leaf, or its logarithm where the record says so (METHODS 1).


def _se(x: RowPairs, dims: Sequence[int], lengthscale: Array) -> str:
    return x.graph.do("Mul", x.squares(dims, 1.0 / lengthscale), -0.5)


def _rq(x: RowPairs, dims: Sequence[int], lengthscale: Array, alpha: Array) -> str:
    half = x.graph.do("Mul", x.squares(dims, 1.0 / lengthscale), 0.5 / float(alpha[0]))
    return x.graph.do("Mul", x.graph.log1p(half), -float(alpha[0]))


def _radius(x: RowPairs, dims: Sequence[int], lengthscale: Array, factor: float) -> str:
    return x.graph.do("Sqrt", x.graph.do("Mul", x.squares(dims, 1.0 / lengthscale), factor))


def _m12(x: RowPairs, dims: Sequence[int], lengthscale: Array) -> str:
    return x.graph.do("Neg", _radius(x, dims, lengthscale, 1.0))


def _m32(x: RowPairs, dims: Sequence[int], lengthscale: Array) -> str:
    u = _radius(x, dims, lengthscale, 3.0)
    return x.graph.do("Sub", x.graph.log1p(u), u)


def _m52(x: RowPairs, dims: Sequence[int], lengthscale: Array) -> str:
    u = _radius(x, dims, lengthscale, 5.0)
    third = x.graph.do("Mul", x.graph.do("Mul", u, u), 1.0 / 3.0)
    return x.graph.do("Sub", x.graph.log1p(x.graph.do("Add", u, third)), u)


def _envelope(x: RowPairs, dims: Sequence[int], bandwidth: Array) -> str:
    return x.graph.do("Mul", x.squares(dims, TWO_PI * bandwidth), -0.5)


def _per(x: RowPairs, dims: Sequence[int], period: Array, lengthscale: Array) -> str:
    parts = []
    for d, p, length in zip(dims, period, lengthscale, strict=True):
        sine = x.graph.do("Sin", x.graph.do("Mul", x.difference(d), math.pi / float(p)))
        parts.append(x.graph.do("Mul", x.graph.do("Mul", sine, sine), -2.0 / float(length) ** 2))
    return x.graph.add(parts)


def _cper(x: RowPairs, dims: Sequence[int], period: Array, lengthscale: Array) -> str:
    """1 + (e - 1) / h, e = PER, h = 1 - exp(-q) I0(q), q = 1 / l^2."""
    _, room, _ = centred_constants(float(lengthscale[0]))
    less = x.graph.expm1(_per(x, dims, period, lengthscale))
    return x.graph.do("Add", x.graph.do("Div", less, room), 1.0)


def _lin(x: RowPairs, dims: Sequence[int], offset: Array, weights: Array) -> str:
    parts = []
    for d, c, w in zip(dims, offset, weights, strict=True):
        left, right = (x.graph.do("Sub", side[d], float(c)) for side in (x.left, x.right))
        parts.append(x.graph.do("Mul", x.graph.do("Mul", left, right), float(w)))
    return x.graph.add(parts)


def _cos(x: RowPairs, dims: Sequence[int], frequency: Array) -> str:
    return x.graph.do("Cos", x.angle(dims, frequency))


def _sin(x: RowPairs, dims: Sequence[int], frequency: Array) -> str:
    return x.graph.do("Sin", x.angle(dims, frequency))


def _sumi(x: RowPairs, dims: Sequence[int], frequency: Array, offset: Array) -> str:
    """cos(2 pi f.(x - c)) cos(2 pi f.(x' - c))."""
    waves = []
    for side in (x.left, x.right):
        middle = [x.graph.constant(0.0)] * len(side)
        for d, c in zip(dims, offset, strict=True):
            middle[d] = x.graph.constant(float(c))
        waves.append(_cos(RowPairs(x.graph, side, middle), dims, frequency))
    return x.graph.do("Mul", *waves)


def _equal(graph: Graph, left: str, right: str) -> str:
    return graph.do("Cast", graph.do("Equal", left, right), to=TensorProto.DOUBLE)


def _same(x: RowPairs, column: int) -> str:
    """1 where x = x' on a column, else 0."""
    return _equal(x.graph, x.left[column], x.right[column])


def _wn(x: RowPairs, dims: Sequence[int]) -> str:
    return x.graph.multiply([_same(x, d) for d in dims])


def _cat(x: RowPairs, dims: Sequence[int], correlation: Array) -> str:
    """1 where x = x', else the correlation."""
    rest = float(correlation[0])
    return x.graph.do("Add", x.graph.do("Mul", _same(x, dims[0]), 1.0 - rest), rest)


def _ecat(x: RowPairs, dims: Sequence[int], places: Array) -> str:
    """-(u - u')^2 / 2, u the places of the categories; one that is not known lies at a distance of one from all."""
    graph, (column,) = x.graph, dims
    sides, unknown = [], []
    for side in (x.left[column], x.right[column]):
        is_code = [_equal(graph, side, graph.constant(float(k))) for k in range(len(places) + 1)]
        sides.append(graph.add([graph.do("Mul", one, float(u)) for one, u in zip(is_code[1:], places, strict=True)]))
        unknown.append(graph.do("Sub", 1.0, graph.add(is_code)))
    apart = graph.do("Sub", *sides)
    total = graph.add([graph.do("Mul", apart, apart), *unknown])
    return graph.do("Mul", graph.do("Mul", total, -0.5), graph.do("Sub", 1.0, _same(x, column)))


def _from_origin(x: RowPairs, dims: Sequence[int], origin: Array) -> tuple[str, str, str]:
    """Whether both are on one side of the origin, and the smaller and the larger distance from it."""
    graph, start = x.graph, float(origin[0])
    a, b = (graph.do("Sub", side[dims[0]], start) for side in (x.left, x.right))
    sizes = [graph.do("Abs", each) for each in (a, b)]
    same = graph.do("Greater", graph.do("Mul", a, b), 0.0)
    return same, graph.do("Min", *sizes), graph.do("Max", *sizes)


def _rw(x: RowPairs, dims: Sequence[int], origin: Array) -> str:
    """The smaller distance from the origin on one side of it, else 0."""
    same, near, _ = _from_origin(x, dims, origin)
    return x.graph.do("Where", same, near, 0.0)


def _irw(x: RowPairs, dims: Sequence[int], origin: Array) -> str:
    """m^2 (3 M - m) / 6 on one side of the origin, else 0."""
    same, near, far = _from_origin(x, dims, origin)
    height = x.graph.do("Sub", x.graph.do("Mul", far, 3.0), near)
    whole = x.graph.multiply([near, near, x.graph.do("Mul", height, 1.0 / 6.0)])
    return x.graph.do("Where", same, whole, 0.0)


def _iou(x: RowPairs, dims: Sequence[int], lengthscale: Array, origin: Array) -> str:
    """l^2 (2 h(m) + E(m) E(M - m)) on one side, else -l^2 E(m) E(M); m, M over l, E(u) = 1 - exp(-u)."""
    graph, length = x.graph, float(lengthscale[0])
    same, *sizes = _from_origin(x, dims, origin)
    near, far = (graph.do("Mul", size, 1.0 / length) for size in sizes)
    falling = graph.expm1(graph.do("Neg", near))
    rest = graph.do("Mul", falling, graph.expm1(graph.do("Sub", near, far)))
    together = graph.do("Add", graph.do("Mul", _damp(graph, near), 2.0), rest)
    apart = graph.do("Neg", graph.do("Mul", falling, graph.expm1(graph.do("Neg", far))))
    return graph.do("Mul", graph.do("Where", same, together, apart), length**2)


def _damp(graph: Graph, u: str) -> str:
    """h(u) = exp(-u) - 1 + u, u >= 0; near zero by its series, which loses no digits."""
    small = graph.do("Min", u, 0.5)
    series = graph.constant([[1.0]])
    for k in range(16, 2, -1):
        series = graph.do("Sub", 1.0, graph.do("Mul", graph.do("Mul", small, 1.0 / k), series))
    near = graph.multiply([small, graph.do("Mul", small, 0.5), series])
    plain = graph.do("Add", graph.do("Sub", graph.do("Exp", graph.do("Neg", u)), 1.0), u)
    return graph.do("Where", graph.do("Greater", u, 0.5), plain, near)


LEAVES: dict[str, Callable[..., str]] = {
    "SE": _se, "RQ": _rq, "M12": _m12, "M32": _m32, "M52": _m52, "ENVELOPE": _envelope, "PER": _per, "CPER": _cper,
    "LIN": _lin, "COS": _cos, "SIN": _sin, "SUMI": _sumi, "WN": _wn,
    "CAT": _cat, "ECAT": _ecat, "RW": _rw, "IRW": _irw, "IOU": _iou,
}  # fmt: skip


# -------------------------------------------------------------------------------------------------- change surfaces


def _gate(x: RowPairs, node: LeafNode, parameters: Sequence[Array]) -> str:
    """s_i(x) s_i(x')."""
    assert node.surface is not None
    sides = ([side[d] for d in node.dims] for side in (x.left, x.right))
    return x.graph.multiply([_share(x.graph, node.surface, node.regime, side, parameters) for side in sides])


def _sigmoid(graph: Graph, x: str) -> str:
    return graph.do("Div", 1.0, graph.do("Add", graph.do("Exp", graph.do("Neg", x)), 1.0))


def _share(graph: Graph, surface: Surface, regime: int, x: Sequence[str], parameters: Sequence[Array]) -> str:
    """s of one regime (mercer.kernels.blend)."""
    if surface.kind not in SHARES:
        raise InputError(f"the change surface {surface.kind} cannot be exported to ONNX yet; these can: {list(SHARES)}")
    return SHARES[surface.kind](graph, surface, regime, x, parameters)


def _change_points(graph: Graph, surface: Surface, regime: int, x: Sequence[str], parameters: Sequence[Array]) -> str:
    location, width = parameters
    parts = []
    for k in range(min(regime + 1, surface.regimes - 1)):
        sign = -1.0 if k == regime else 1.0
        step = graph.do("Mul", graph.do("Sub", x[0], float(location[k])), sign / float(width[k]))
        parts.append(_sigmoid(graph, step))
    return graph.multiply(parts)


def _window(graph: Graph, surface: Surface, regime: int, x: Sequence[str], parameters: Sequence[Array]) -> str:
    start, duration, width = (float(values[0]) for values in parameters)
    after = _sigmoid(graph, graph.do("Mul", graph.do("Sub", x[0], start), 1.0 / width))
    before = _sigmoid(graph, graph.do("Mul", graph.do("Sub", x[0], start + duration), -1.0 / width))
    inside = graph.do("Mul", after, before)
    return inside if regime == 1 else graph.do("Sub", 1.0, inside)


def _softmax(graph: Graph, surface: Surface, regime: int, x: Sequence[str], parameters: Sequence[Array]) -> str:
    """exp(w_i) / sum exp(w), all less their maximum; w_1 = 0."""
    heights = [graph.constant([[0.0]]), *FUNCTIONS[surface.kind](graph, surface, x, parameters)]
    highest = graph.do("Max", *heights)
    raised = [graph.do("Exp", graph.do("Sub", height, highest)) for height in heights]
    return graph.do("Div", raised[regime], graph.add(raised))


def _linear(graph: Graph, surface: Surface, x: Sequence[str], parameters: Sequence[Array]) -> list[str]:
    slope, bias = parameters[0].reshape(-1, len(x)), parameters[1]
    return [_line(graph, x, row, float(start)) for row, start in zip(slope, bias, strict=True)]


def _line(graph: Graph, x: Sequence[str], slopes: Sequence[float] | Array, start: float) -> str:
    return graph.do("Add", graph.add([graph.do("Mul", s, float(f)) for s, f in zip(x, slopes, strict=True)]), start)


def _waves(graph: Graph, surface: Surface, x: Sequence[str], parameters: Sequence[Array]) -> list[str]:
    weights, frequency, phase = parameters[0], parameters[1].reshape(-1, len(x)), parameters[2]
    lines = [_line(graph, x, TWO_PI * f, float(start)) for f, start in zip(frequency, phase, strict=True)]
    return _features(graph, surface, weights, [graph.do("Cos", line) for line in lines])


def _bumps(graph: Graph, surface: Surface, x: Sequence[str], parameters: Sequence[Array]) -> list[str]:
    weights, centres, lengthscale = parameters[0], parameters[1].reshape(-1, len(x)), parameters[2]
    bumps = []
    for centre in centres:
        away = RowPairs(graph, list(x), [graph.constant(float(c)) for c in centre])
        bumps.append(graph.do("Exp", _se(away, range(len(x)), lengthscale)))
    return _features(graph, surface, weights, bumps)


def _features(graph: Graph, surface: Surface, weights: Array, features: list[str]) -> list[str]:
    """Each function is a weighted sum of its own features."""
    weighed = [graph.do("Mul", feature, float(w)) for feature, w in zip(features, weights, strict=True)]
    step = surface.features
    return [graph.add(weighed[first : first + step]) for first in range(0, len(weighed), step)]


SHARES: dict[str, Callable[..., str]] = {
    "CP": _change_points, "CW": _window, "linear": _softmax, "rks": _softmax, "gp": _softmax,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., list[str]]] = {"linear": _linear, "rks": _waves, "gp": _bumps}


# -------------------------------------------------------------------------------------------------------- the kernel


def write_program(x: RowPairs, program: Program, values: Array) -> str:
    """Write a program for some pairs; the name of what it comes to."""
    wide, graph = program.widen(values), x.graph
    found: list[str] = []
    for node in program.nodes:
        if isinstance(node, LeafNode):
            found.append(_write_leaf(x, node, wide))
        elif isinstance(node, Term):
            exponential = [graph.do("Exp", graph.add([found[i] for i in node.logs]))] if node.logs else []
            found.append(graph.multiply([*exponential, *(found[i] for i in node.factors)]))
        else:
            assert isinstance(node, Affine)
            weights = [math.prod(float(wide[place]) for place in places) * c for _, places, c in node.edges]
            parts = [graph.do("Mul", found[i], w) for i, w in zip(node.children, weights, strict=True)]
            found.append(graph.add(parts))
    return found[-1]


def _write_leaf(x: RowPairs, node: LeafNode, values: Array) -> str:
    parameters = [values[start : start + size] for start, size in zip(node.offsets, node.sizes, strict=True)]
    if node.surface is not None:
        return _gate(x, node, parameters)
    if node.kind not in LEAVES:
        raise InputError(f"{node.kind} cannot be exported to ONNX yet; these can: {', '.join(LEAVES)}")
    return LEAVES[node.kind](x, node.dims, *parameters)


# --------------------------------------------------------------------------------------------------------- the model


@dataclass(frozen=True)
class Moments:
    """The names of a member's mean, its variance without noise and with it, and its weight: (n, 1) each."""

    mean: str
    function: str
    observation: str
    weight: str


def _write_member(graph: Graph, rows: list[str], alone: Alone, share: str) -> Moments:
    """Mean and variance of one member (exporting.py), its variance widened beyond the data."""
    solved, program, values = alone.solve(), compile_program(alone.kernel), values_of(alone.kernel)
    seen = [graph.constant(column[None, :]) for column in alone.X.T]
    nothing = graph.do("Mul", rows[0], 0.0)
    plane = graph.do("Add", nothing, np.zeros((1, len(alone.y))))  # (n, N), whatever the kernel looks at
    cross = graph.do("Add", write_program(RowPairs(graph, rows, seen), program, values), plane)
    prior = graph.do("Add", write_program(RowPairs(graph, rows, rows), program, values), nothing)
    mean = graph.do("Add", graph.do("MatMul", cross, solved.alpha[:, None]), alone.level)
    half = graph.do("MatMul", cross, _invert(solved.factor).T)
    explained = graph.do("ReduceSum", graph.do("Mul", half, half), graph.whole([1]), keepdims=1)
    left = graph.do("Sub", 1.0, graph.do("MatMul", cross, solved.pull[:, None]))
    known = graph.do("Max", graph.do("Sub", prior, explained), 0.0)
    function = graph.do("Add", known, graph.do("Mul", graph.do("Mul", left, left), solved.level_variance))
    observation = graph.do("Add", function, alone.noise)
    wide = graph.do("Add", graph.do("Mul", share, alone.widening - 1.0), 1.0)
    weight = graph.do("Add", graph.do("Mul", share, alone.beyond - alone.within), alone.within)
    return Moments(mean, graph.do("Mul", function, wide), graph.do("Mul", observation, wide), weight)


def _invert(factor: Factor) -> Array:
    """L^-1."""
    return np.tril(factor.half_solve(np.eye(len(factor.lower))))


def _write_share(graph: Graph, rows: list[str], ends: Ends) -> str:
    """By how much a row is beyond the data, from 0 to 1."""
    if ends.column is None:
        return graph.constant([[0.0]])
    along = rows[ends.column]
    distance = graph.do("Max", graph.do("Sub", ends.low, along), graph.do("Sub", along, ends.high))
    if ends.fade == 0.0:
        return graph.do("Cast", graph.do("Greater", distance, 0.0), to=TensorProto.DOUBLE)
    return graph.do("Min", graph.do("Max", graph.do("Mul", distance, 1.0 / ends.fade), 0.0), 1.0)


def _mix(graph: Graph, parts: Sequence[Moments]) -> tuple[str, str, str]:
    """Mean sum w m and variances sum w (v + (m - mean)^2)."""
    if len(parts) == 1:
        return parts[0].mean, parts[0].function, parts[0].observation
    mean = graph.add([graph.do("Mul", part.weight, part.mean) for part in parts])
    away = [graph.do("Sub", part.mean, mean) for part in parts]
    spread = [graph.do("Mul", each, each) for each in away]

    def weigh(variances: Sequence[str]) -> str:
        whole = [graph.do("Add", v, s) for v, s in zip(variances, spread, strict=True)]
        return graph.add([graph.do("Mul", part.weight, each) for part, each in zip(parts, whole, strict=True)])

    return mean, weigh([part.function for part in parts]), weigh([part.observation for part in parts])


def make_onnx(exported: Exported) -> Any:
    """Return the model as an ONNX ModelProto."""
    rows_seen, columns = exported.members[0].X.shape
    size = 8 * rows_seen**2 * len(exported.members)
    if size > MOST_BYTES:
        raise InputError(
            f"an ONNX file of this model takes {size / 1e9:,.1f} GB, and one holds {MOST_BYTES / 1e9:g}: fit it to "
            f"fewer than its {rows_seen:,} rows, or leave the average (average=False)"
        )
    graph = Graph()
    rows = [graph.do("Slice", "X", *(graph.whole([n]) for n in (d, d + 1, 1))) for d in range(columns)]
    share = _write_share(graph, rows, exported.ends)
    mean, function, observation = _mix(graph, [_write_member(graph, rows, each, share) for each in exported.members])
    flat = graph.whole([-1])
    results = {"mean": mean, "std": graph.do("Sqrt", observation), "std_of_function": graph.do("Sqrt", function)}
    for name, value in results.items():
        graph.nodes.append(helper.make_node("Reshape", [value, flat], [name]))
    outputs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["rows"]) for name in results]
    given = helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["rows", columns])
    used = {name for node in graph.nodes for name in node.input}
    constants = [each for each in graph.constants if each.name in used]
    body = helper.make_graph(graph.nodes, "mercer", [given], outputs, constants)
    made = helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="mercer")
    made.ir_version = VERSION
    helper.set_model_props(made, {
        "columns": json.dumps(exported.names),
        "encoding": json.dumps([column.to_json() for column in exported.columns.encoding.columns]),
        "kernels": "; ".join(each.kernel.text(digits=6) for each in exported.members),
    })  # fmt: skip
    onnx.checker.check_model(made)
    return made


def write_onnx(exported: Exported, path: str | Path) -> None:
    """Write the model to a file."""
    data = make_onnx(exported).SerializeToString()
    with whole_file(path, "give a file in a folder that exists and can be written to") as place:
        place.write_bytes(data)
