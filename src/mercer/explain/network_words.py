"""The words about a network in the kernel, its polynomial and its distillation. Nothing here computes anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mercer.explain.phrases import NOUNS, phrase
from mercer.explain.story import Story
from mercer.explain.titles import title
from mercer.explain.wording import Column, counted, listed, percent
from mercer.kernels.algebra import components
from mercer.kernels.expression import Base, Expression, product_of
from mercer.kernels.layers import Layer, Polynomial
from mercer.kernels.network import Network, has_network

if TYPE_CHECKING:
    from mercer.explain.networks import NetworkTerm, TermKind

TOLD = 3  # terms that are named
WORTH_NAMING = 0.005  # of the fitted curve
LONGEST_WORDS = 140  # characters about a term
LONGEST_NAME = 24  # characters of a primitive's name
WHAT_A_NETWORK_IS = (
    "A network adds and multiplies simple kernels with weights that are learned, in layers: every unit of it is a "
    "kernel itself."
)
FLOW_CAPTION = (
    "Each unit adds (+, with weights) or multiplies (×) the units before it. The thicker a line, the more of the "
    "variance of the whole passes along it; all factors of a product pass on the whole of it."
)


def primitive_names(network: Network, columns: Sequence[Column]) -> tuple[str, ...]:
    """Name the primitives shortly: with columns where they differ, numbered where there are copies."""
    bare = kind_names(network, columns)
    count, seen, names = Counter(bare), Counter[str](), []
    for name in bare:
        seen[name] += 1
        names.append(name if count[name] == 1 else f"{name} {seen[name]}")
    return tuple(names)


def kind_names(network: Network, columns: Sequence[Column]) -> tuple[str, ...]:
    """Name the primitives by what they are, copies alike."""
    alike = len({leaf.columns for leaf in network.leaves() if leaf.columns}) < 2
    return tuple(_primitive_name(primitive, columns, alike) for primitive in network.primitives)


def _primitive_name(primitive: Expression, columns: Sequence[Column], alike: bool) -> str:
    if not isinstance(primitive, Base):
        symbols = [leaf.symbol for leaf in primitive.leaves()]
        return f"({' '.join(symbols)})"[:LONGEST_NAME]
    if alike or not primitive.columns:
        return primitive.symbol
    on = [columns[d].name for d in primitive.columns]
    name = f"{primitive.symbol} of {on[0] if len(on) == 1 else f'{len(on)} inputs'}"
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def primitive_phrase(primitive: Expression, columns: Sequence[Column]) -> str:
    """Say what a primitive is by itself, without its size, which the weights have."""
    if not _can_be_told(primitive):
        return primitive.text(4, [column.name for column in columns])
    if isinstance(primitive, Base) and primitive.symbol == "C":
        return "a constant"
    return ", plus ".join(phrase(part, columns) for part in components(primitive))


def layer_name(layer: Layer) -> str:
    """The name of a layer as in the paper, with few digits."""
    if isinstance(layer, Polynomial):
        return f"Poly({', '.join(f'{c:.3g}' for c in layer.coefficients)})"
    return layer.symbol


def term_name(powers: Sequence[int], names: Sequence[str]) -> str:
    """Write a term of the polynomial: "SE 1 · PER²"."""
    shown = [name + ("" if power == 1 else _raised(power)) for name, power in zip(names, powers, strict=True) if power]
    return " · ".join(shown) or "1"


def _raised(power: int) -> str:
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))


def term_words(network: Network, powers: Sequence[int], columns: Sequence[Column]) -> str:
    """Say what a term is, as a noun phrase; nothing where no words are known."""
    factors = [p for p, power in zip(network.primitives, powers, strict=True) for _ in range(power)]
    if not factors:
        return "a constant"
    if not all(_can_be_told(factor) for factor in factors):
        return ""
    summands = components(product_of(factors))
    if len(summands) > TOLD:
        return ""
    told = ", plus ".join(phrase(summand, columns) for summand in summands)
    if len(told) <= LONGEST_WORDS:
        return told
    short = ", plus ".join(title(summand, columns, alone=False) for summand in summands)
    return short[:1].lower() + short[1:]


def _can_be_told(primitive: Expression) -> bool:
    return not has_network(primitive) and all(leaf.symbol in NOUNS for leaf in primitive.leaves())


def network_sentence(network: Network) -> str:
    """Say what the network is made of."""
    return f"{WHAT_A_NETWORK_IS} This is {network_phrase(network)}."


def network_phrase(network: Network) -> str:
    """Say what the network is made of, as a noun phrase."""
    count = Counter(leaf.symbol for leaf in network.leaves())
    made = listed([f"{number} {symbol}" for symbol, number in count.items()])
    return f"a network of {made} with the layers {network.architecture}"


def polynomial_sentence(terms: Sequence[NetworkTerm], count: int, rest: float) -> str:
    """Say what the network is, multiplied out."""
    if not terms:
        return "Multiplied out, it is a constant."
    others = count - len(terms)
    told = f"Multiplied out, it is a sum of {counted(count, 'product')} of them"
    if others <= 0:
        return f"{told}."
    return f"{told}; the largest {len(terms)} make up {percent(1.0 - rest)} of its fitted curve."


def largest_kinds_sentence(kinds: Sequence[TermKind]) -> str:
    """Name the largest kinds of terms."""
    told = [f"{kind.name} ({percent(kind.share)})" for kind in kinds]
    return f"Copies of a kernel not told apart, the largest are {listed(told[:TOLD])}." if len(told) > 1 else ""


def largest_terms_sentence(terms: Sequence[NetworkTerm]) -> str:
    """Name the largest terms, the first also in words."""
    if not terms:
        return ""
    first = terms[0]
    others = [f"{term.name} ({percent(term.share)})" for term in terms[1:TOLD] if term.share >= WORTH_NAMING]
    told = f"The largest is {first.name} ({percent(first.share)}){f', {first.words}' if first.words else ''}."
    return f"{told} Then {'come' if len(others) > 1 else 'comes'} {listed(others)}." if others else told


def no_polynomial_sentence(reason: str) -> str:
    """Say why there is no polynomial to show."""
    return f"It cannot be multiplied out here: {reason}."


def patterns_caption(several: bool) -> str:
    """Say what the small pictures of the units show."""
    along = "along the input that it varies most with (named above it), the others typical" if several else "from there"
    return (
        f"What each unit is like: its covariance with the upper end of the data (at the right), {along}, as a share of "
        "what it is at that end, the constant part left out. A slow fall is a smooth function, waves are a rhythm, a "
        "straight line is a trend; a unit that is flat at zero is a constant."
    )


# ------------------------------------------------------------------------------------------------- how it came about


def trained_sentence(story: Story | None, score: str) -> str:
    """Say that a network was trained."""
    if story is None:
        return "The network was trained."
    ended = f"; {story.finished} of them came to the end" if story.finished < story.tried else ""
    chosen = f", and the one with the best {score.removeprefix('-2 ')} was kept" if story.tried > 1 else ""
    return f"The network was trained from {counted(story.tried, 'start')}{ended}{chosen}."


def distilled_sentence(story: Story | None, source: str) -> str:
    """Say that the structure was distilled from a network."""
    told = f"The structure was distilled from {source}: its polynomial was reduced to the terms that matter"
    if story is None:
        return f"{told}, and simplified as long as that cost little."
    tried = max(0, story.tried - 1)
    return (
        f"{told}, and these were simplified step by step. Of {counted(tried, 'expression')} tried, this is the "
        "smallest whose BIC is within 2 of the best."
    )


def distilled_note(seconds: float, network: tuple[float, float, int], expression: tuple[float, float, int]) -> str:
    """Compare an expression with the network it comes from: (log evidence, leave-one-out, parameters) each."""
    told = [
        f"log evidence {scores[0]:.2f}, leave-one-out {scores[1]:.2f}, {counted(scores[2], 'parameter')}"
        for scores in (network, expression)
    ]
    return f"distilled from a network in {seconds:.1f} s; the network has {told[0]}, this expression {told[1]}"
