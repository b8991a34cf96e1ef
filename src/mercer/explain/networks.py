"""What a network in the kernel comes to: the terms of its polynomial with their shares, and what each unit is like.

The share of a term. A network multiplied out is a sum of kernels, so its posterior mean m is the sum of those of its
terms, m_j = c_j K_j a. The share of term j is cov(m_j, m) / var(m) over the rows: shares of all terms add up to one.
(Coefficients cannot be compared: that of LIN depends on the unit of its column.)

A product is not always an interaction. With lengthscales beyond the range of the rows, SE(0)*SE(1) is little else than
SE(0) + SE(1): (a + u)(b + v) with u and v small beside a and b. `anova_terms` takes products apart for that reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mercer.compute.evaluate import unit_patterns
from mercer.compute.fused import cross
from mercer.compute.program import compile_program
from mercer.errors import KernelError
from mercer.explain.claims import Claim, ClaimEvidence
from mercer.explain.network_words import NAMED_TERMS
from mercer.explain.phrases import phrase, title
from mercer.explain.subject import KernelPart, Subject
from mercer.explain.wording import Column
from mercer.explain.words import Narrator
from mercer.kernels.algebra import components, described_components
from mercer.kernels.blend import Blend, under, within
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product, build_base, contains, product_of
from mercer.kernels.layers import Layer, Linear, Multiply, Polynomial
from mercer.kernels.network import Network
from mercer.kernels.parameters import bind, values_of
from mercer.kernels.polynomial import Powers, centre, degree

SHOWN = 20  # terms
KINDS = 8  # of terms
WEIGHED = 300  # terms whose share is worked out: those with the largest variance
TAKEN_APART = 2000  # terms: those with the largest variance, in about a second
ROWS = 200  # that shares and flows are worked out at
LONGEST_WORDS = 140  # characters about a term
LONGEST_NAME = 24  # characters of a primitive's name
FINE, COARSE = 241, 49  # places along the only column, along one of several


@dataclass(frozen=True)
class NetworkTerm:
    """One product of primitives: `coefficient` as in `Network.polynomial`, `share` of the fitted curve."""

    name: str
    words: str
    coefficient: float
    share: float


@dataclass(frozen=True)
class MultipliedOut:
    """A network as a polynomial: its largest terms, how many there are in all, or the problem with it."""

    terms: tuple[NetworkTerm, ...]
    count: int
    problem: str = ""

    @property
    def rest(self) -> float:
        """The share of the terms that are not listed."""
        return 1.0 - sum(term.share for term in self.terms)


@dataclass(frozen=True)
class TermKind:
    """Terms that differ in nothing but which copies of a primitive they take, such as SE·LIN²."""

    name: str
    count: int
    share: float


@dataclass(frozen=True)
class AnovaTerm:
    """What the columns of some primitives do together, beyond what fewer of them do: `share` of the variance."""

    name: str
    powers: Powers
    share: float


@dataclass(frozen=True)
class NetworkLayer:
    """One layer for a picture: its units, by how much each counts, and the lines that lead to them.

    A line is (from, to, flow): flow is the share of the variance of the network that passes along it. All factors of a
    product pass on the whole of it.
    """

    symbol: str
    kind: str  # "linear", "product" or "activation"
    units: tuple[float, ...]
    lines: tuple[tuple[int, int, float], ...] = field(repr=False)


@dataclass(frozen=True)
class NetworkExplanation:
    """A network in the kernel; `position` is that of its component.

    `terms` are the largest of its polynomial, of `count` in all (none where it is no polynomial); `rest` is the share
    of the others. `kinds` are the largest kinds of terms; `anova` are the largest parts of the terms taken apart.
    """

    position: int
    architecture: str
    primitives: tuple[str, ...]
    primitive_words: tuple[str, ...]
    primitive_flows: tuple[float, ...]
    layers: tuple[NetworkLayer, ...]
    terms: tuple[NetworkTerm, ...]
    kinds: tuple[TermKind, ...]
    anova: tuple[AnovaTerm, ...]
    count: int
    rest: float
    sentence: str
    polynomial_sentence: str
    largest: str


@dataclass(frozen=True, eq=False)
class Found:
    """A network of a component, in scaled units and in the user's, with what it is multiplied by (scaled)."""

    part: KernelPart
    position: int
    scaled: Network
    shown: Network
    beside: Expression | None  # the other factors, and the change surfaces that the network stands under


def networks_of(subject: Subject) -> list[Found]:
    """Return the networks that are components or factors of one, also under a change surface, but not in a network."""
    found = []
    terms = described_components(subject.kernel)
    for position, (part, term) in enumerate(zip(subject.parts, terms, strict=True)):
        inside, shown = ((t.factors if isinstance(t, Product) else (t,)) for t in (within(term), within(part.kernel)))
        for factor, twin in zip(inside, shown, strict=True):  # units change no order
            if isinstance(factor, Network) and isinstance(twin, Network):
                others = [each for each in inside if each is not factor]
                beside = None
                if others or isinstance(term, Blend):
                    beside = under(term, product_of(others) if others else build_base("C", variance=1.0))
                found.append(Found(part, position, factor, twin, beside))
    return found


def explain_networks(subject: Subject, narrator: Narrator, shown: int = SHOWN) -> tuple[NetworkExplanation, ...]:
    """Explain every network of the kernel, with at most `shown` terms each."""
    at = subject.data.X[np.linspace(0, subject.data.count - 1, min(subject.data.count, ROWS)).astype(int)]
    explanations = []
    for found in networks_of(subject):
        network, about = found.shown, ClaimEvidence(components=(found.position,))
        flows, layers = _flows(found.scaled, at)
        names = primitive_names(network, subject.columns)
        polynomial, kinds = _multiply_out(subject, found, at, names, shown)
        copies = len(set(kind_names(network, subject.columns))) < len(names)
        largest = ("largest kinds of terms", kinds) if copies else ("largest terms", polynomial.terms)
        says = [("network", network), ("polynomial", polynomial), largest]
        claims = [Claim(kind, network.architecture, value, evidence=about) for kind, value in says]
        sentences = [narrator.say(claim) for claim in claims]
        explanations.append(
            NetworkExplanation(
                position=found.position,
                architecture=network.architecture,
                primitives=names,
                primitive_words=tuple(primitive_phrase(p, subject.columns) for p in network.primitives),
                primitive_flows=flows,
                layers=layers,
                terms=polynomial.terms,
                kinds=kinds,
                anova=anova_terms(found.scaled, at, shown, names) if polynomial.terms and not network.complex else (),
                count=polynomial.count,
                rest=polynomial.rest,
                sentence=sentences[0],
                polynomial_sentence=sentences[1],
                largest=sentences[2],
            )
        )
    return tuple(explanations)


# ------------------------------------------------------------------------------------------------------- the polynomial


def _multiply_out(
    subject: Subject, found: Found, at: Array, names: tuple[str, ...], most: int
) -> tuple[MultipliedOut, tuple[TermKind, ...]]:
    """Return the network as a polynomial with its largest terms, and the largest kinds of terms."""
    try:
        degree(found.shown)
        shown = found.shown.polynomial(None)
    except KernelError as error:
        return MultipliedOut((), 0, str(error)), ()
    scaled = {term.powers: term.coefficient for term in found.scaled.polynomial(None)}
    # The mean variance of every term over the rows is cheap: it shows which could have a share.
    diagonals = np.abs(np.array([np.diagonal(values) for values in unit_patterns(found.scaled, at)[0].values]))
    sizes = np.array([scaled[term.powers] * float(np.mean(_product(diagonals, term.powers))) for term in shown])
    chosen = [shown[i] for i in np.argsort(-sizes, kind="stable")[:WEIGHED]]
    shares = _shares(subject, found, at, [(term.powers, scaled[term.powers]) for term in chosen])
    order = np.argsort(-shares, kind="stable")[:most]
    constant = found.beside is not None  # else a constant alone is no part of a curve
    terms = []
    for i in order:
        powers = chosen[i].powers
        if any(powers) or constant:
            words = term_words(found.shown, powers, subject.columns)
            terms.append(NetworkTerm(term_name(powers, names), words, chosen[i].coefficient, float(shares[i])))
    by_kind: dict[tuple[int, ...], tuple[int, float]] = {}  # how many terms, and their share
    bare = kind_names(found.shown, subject.columns)
    kinds = list(dict.fromkeys(bare))
    for term, share in zip(chosen, shares, strict=True):
        key = tuple(sum(p for p, name in zip(term.powers, bare, strict=True) if name == kind) for kind in kinds)
        if any(key) or constant:
            count, total = by_kind.get(key, (0, 0.0))
            by_kind[key] = (count + 1, total + float(share))
    largest = sorted(by_kind.items(), key=lambda item: -item[1][1])[:KINDS]
    found_kinds = tuple(TermKind(term_name(key, kinds), count, share) for key, (count, share) in largest)
    return MultipliedOut(tuple(terms), len(shown)), found_kinds


def _shares(subject: Subject, found: Found, at: Array, terms: list[tuple[tuple[int, ...], float]]) -> Array:
    X, beside = subject.data.X, found.beside
    primitives = unit_patterns(found.scaled, at, X)[0].values
    others = 1.0 if beside is None else cross(compile_program(beside), values_of(beside), at, X)
    # A^-1 (y - level), from the predictions of rows left out: y_i - mean_i = a_i / [A^-1]_ii, var_i = 1 / [A^-1]_ii.
    left = subject.posterior.leave_one_out()
    solved = (subject.data.y - left.mean) / left.variance
    whole = subject.posterior.predict_part(found.part.program, found.part.values, at).mean
    whole = whole - whole.mean()
    variance = float(whole @ whole) or 1.0
    means = (coefficient * np.real(_product(primitives, powers) * others) @ solved for powers, coefficient in terms)
    return np.array([float((mean - mean.mean()) @ whole) / variance for mean in means])


def anova_terms(
    network: Network, X: Array, top: int | None = SHOWN, names: Sequence[str] | None = None
) -> tuple[AnovaTerm, ...]:
    """Take the products of the polynomial apart by the analysis of variance; return the largest parts, largest first.

    A product of kernels on different columns varies with each column by itself and with both together. Each is a part,
    and parts of different products in the same powers are one. The share is how much of the variance over the rows a
    function of the network is expected to have there, as if columns were independent. Primitives on the same columns
    are one factor.
    """
    if network.complex:
        raise KernelError("a complex network cannot be taken apart: its terms are no kernels of their own")
    X = np.asarray(X, dtype=np.float64)
    bound = bind(network, X.shape[1])
    assert isinstance(bound, Network)
    terms = bound.polynomial(None)
    values = unit_patterns(bound, X[np.linspace(0, len(X) - 1, min(len(X), ROWS)).astype(int)])[0].values
    diagonals = np.diagonal(values, axis1=1, axis2=2)
    sizes = np.array([term.coefficient * float(np.mean(_product(diagonals, term.powers))) for term in terms])
    known: dict[Powers, tuple[float, float]] = {}

    def moments(powers: Powers) -> tuple[float, float]:
        if powers not in known:
            product = _product(values, powers)
            mean = float(np.mean(product))
            known[powers] = mean, float(np.mean(np.diagonal(product))) - mean
        return known[powers]

    parts = centre([terms[i] for i in np.argsort(-sizes, kind="stable")[:TAKEN_APART]], _blocks(bound), moments)
    varying = sorted(((p, v) for p, v in parts.items() if any(p)), key=lambda part: (-part[1], sum(part[0]), part[0]))
    total, names = sum(v for _, v in varying), bound.primitive_names() if names is None else names
    return tuple(AnovaTerm(term_name(powers, names), powers, v / total) for powers, v in varying[:top])


def _blocks(network: Network) -> list[set[int]]:
    """Return the primitives that share columns, in the end with any other of them, as sets of their numbers."""
    blocks: list[tuple[set[int], set[int]]] = []  # numbers, columns
    for number, primitive in enumerate(network.primitives):
        numbers, columns = {number}, {d for leaf in primitive.leaves() for d in leaf.columns}
        for other in [block for block in blocks if block[1] & columns]:
            numbers, columns = numbers | other[0], columns | other[1]
            blocks.remove(other)
        blocks.append((numbers, columns))
    return [numbers for numbers, _ in blocks]


def _product(values: Array, powers: tuple[int, ...]) -> Array:
    result: Array = np.ones_like(values[0])
    for one, power in zip(values, powers, strict=True):
        if power:
            result = result * one**power
    return result


# ------------------------------------------------------------------------------------------------------ flows and units


def _flows(network: Network, at: Array) -> tuple[tuple[float, ...], tuple[NetworkLayer, ...]]:
    """Follow the variance of the network back from its end: how much of it each line and unit passes on."""
    patterns = unit_patterns(network, at)
    sizes = [np.array([float(np.mean(np.abs(np.diagonal(unit)))) for unit in layer.values]) for layer in patterns]
    flow = np.ones(1)
    layers: list[NetworkLayer] = []
    for place in reversed(range(len(network.layers))):
        layer = network.layers[place]
        if isinstance(layer, Linear):
            weights = np.array(layer.parameter("weights").values).reshape(layer.width, layer.inputs) * sizes[place]
            whole = weights.sum(axis=1) + np.array(layer.parameter("bias").values)
            through = flow[:, None] * weights / np.where(whole > 0, whole, 1.0)[:, None]  # units x inputs
            kind = "linear"
        elif isinstance(layer, Multiply):
            through, kind = np.kron(np.diag(flow), np.ones(layer.step)), "product"
        else:
            through, kind = np.diag(flow), "activation"
        lines = tuple((int(i), int(u), float(through[u, i])) for u, i in zip(*np.nonzero(through > 0), strict=True))
        layers.append(NetworkLayer(layer_name(layer), kind, tuple(map(float, flow)), lines))
        flow = np.minimum(through.sum(axis=0), 1.0)
    return tuple(map(float, flow)), tuple(reversed(layers))


@dataclass(frozen=True, eq=False)
class UnitCurve:
    """k(x, x0) / k(x0, x0) of one unit along one column, the level left out, with x0 at the upper end of the data.

    `column` is the encoded column along which the unit varies most, the others typical; `at` is x on it. The upper end
    rather than the lower: what grows is large there.
    """

    name: str
    column: int
    at: Array
    values: Array


def unit_curves(subject: Subject, network: Network, names: tuple[str, ...]) -> list[tuple[str, list[UnitCurve]]]:
    """Return the curve of every unit, layer by layer from the primitives (`network` scaled, `names` of those)."""
    along = sorted({d for leaf in network.leaves() for d in leaf.columns})
    along = [d for d in along if np.ptp(subject.data.X[:, d]) > 0] or along[:1]
    places: list[Array] = []  # for every column
    rows: list[list[Array]] = []  # for every column and layer, the last rows of the units there
    for d in along:
        own, codes = subject.in_user_units(d), subject.columns[d].codes
        line = np.linspace(float(own.min()), float(own.max()), FINE if len(along) == 1 else COARSE)
        places.append(np.array(codes) if codes else line)
        rows.append([])
        for layer in unit_patterns(network, subject.rows_along(d, places[-1])):
            values = np.real(layer.values)
            centred = values - values.mean(axis=1, keepdims=True) - values.mean(axis=2, keepdims=True)
            centred = centred + values.mean(axis=(1, 2))[:, None, None]
            spread = np.maximum(np.abs(values).max(axis=(1, 2)), 1e-300)
            centred[np.abs(centred).max(axis=(1, 2)) < 1e-9 * spread] = 0.0  # a constant: what is left is rounding
            rows[-1].append(centred[:, -1, :])
    layers = []
    for place, first in enumerate(rows[0]):
        curves = []
        for unit in range(len(first)):
            best = max(range(len(along)), key=lambda i: float(np.ptp(rows[i][place][unit])))
            values = rows[best][place][unit]
            name = names[unit] if place == 0 else str(unit + 1)
            shown = values / values[-1] if values[-1] > 0 else values
            curves.append(UnitCurve(name, along[best], places[best], shown))
        title = "Primitives" if place == 0 else layer_name(network.layers[place - 1])
        layers.append((title, curves))
    return layers


# ---------------------------------------------------------------------------------------------------------------- names


def primitive_names(network: Network, columns: Sequence[Column]) -> tuple[str, ...]:
    """Name the primitives shortly: with columns where they differ, numbered where there are copies."""
    bare = kind_names(network, columns)
    numbers = [bare[: place + 1].count(name) for place, name in enumerate(bare)]
    return tuple(name if bare.count(name) == 1 else f"{name} {i}" for name, i in zip(bare, numbers, strict=True))


def kind_names(network: Network, columns: Sequence[Column]) -> tuple[str, ...]:
    """Name the primitives by what they are, copies alike."""
    alike, names = len({leaf.columns for leaf in network.leaves() if leaf.columns}) < 2, []
    for primitive in network.primitives:
        if not isinstance(primitive, Base):
            names.append(f"({' '.join(leaf.symbol for leaf in primitive.leaves())})"[:LONGEST_NAME])
        elif alike or not primitive.columns:
            names.append(primitive.symbol)
        else:
            on = [columns[d].name for d in primitive.columns]
            name = f"{primitive.symbol} of {on[0] if len(on) == 1 else f'{len(on)} inputs'}"
            names.append(name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…")
    return tuple(names)


def primitive_phrase(primitive: Expression, columns: Sequence[Column]) -> str:
    """Say what a primitive is by itself, without its size, which the weights have."""
    if not _has_words(primitive):
        return primitive.text(4, [column.name for column in columns])
    if isinstance(primitive, Base) and primitive.spec.form == "constant":
        return "a constant"
    return ", plus ".join(phrase(part, columns) for part in components(primitive))


def layer_name(layer: Layer) -> str:
    """The name of a layer as in the paper, with few digits."""
    if isinstance(layer, Polynomial):
        return f"Poly({', '.join(f'{c:.3g}' for c in layer.coefficients)})"
    return layer.symbol


def term_name(powers: Sequence[int], names: Sequence[str]) -> str:
    """Write a term of the polynomial: "SE 1 · PER²"."""
    shown = []
    for name, power in zip(names, powers, strict=True):
        raised = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power)) if power > 1 else ""
        shown += [name + raised] if power else []
    return " · ".join(shown) or "1"


def term_words(network: Network, powers: Sequence[int], columns: Sequence[Column]) -> str:
    """Say what a term is, as a noun phrase; nothing where no words are known."""
    factors = [p for p, power in zip(network.primitives, powers, strict=True) for _ in range(power)]
    if not factors:
        return "a constant"
    if not all(_has_words(factor) for factor in factors):
        return ""
    summands = components(product_of(factors))
    if len(summands) > NAMED_TERMS:
        return ""
    text = ", plus ".join(phrase(summand, columns) for summand in summands)
    if len(text) <= LONGEST_WORDS:
        return text
    short = ", plus ".join(title(summand, columns, alone=False) for summand in summands)
    return short[:1].lower() + short[1:]


def _has_words(primitive: Expression) -> bool:
    return not contains(primitive, Network) and not any(leaf.spec.outside_networks for leaf in primitive.leaves())
