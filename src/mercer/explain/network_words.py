"""The sentences about networks in a kernel: what they are made of, multiplied out, and under their pictures."""

from __future__ import annotations

from collections import Counter

from mercer.explain.claims import Claim
from mercer.explain.wording import Vocabulary, list_names, percent, write_count
from mercer.explain.words import words_for
from mercer.kernels.network import Network

NAMED_TERMS, WORTH_NAMING = 3, 0.005  # of a network: how many are named, and from which share of the fitted curve on
FLOW_CAPTION = (
    "Each unit adds (+, with weights) or multiplies (×) the units before it. The thicker a line, the more of the "
    "variance of the whole passes along it; all factors of a product pass on the whole of it."
)


def network_phrase(network: Network) -> str:
    """Say what a network is made of, as a noun phrase."""
    count = Counter(leaf.symbol for leaf in network.leaves())
    made = list_names([f"{many} {symbol}" for symbol, many in count.items()])
    return f"a network of {made} with the layers {network.architecture}"


@words_for("network")
def _say_network(claim: Claim, _: Vocabulary) -> str:
    return (
        "A network adds and multiplies simple kernels with weights that are learned, in layers: every unit of it is a "
        f"kernel itself. This is {network_phrase(claim.value)}."
    )


@words_for("polynomial")
def _say_polynomial(claim: Claim, _: Vocabulary) -> str:
    """Say what a network is, multiplied out."""
    terms, count = claim.value.terms, claim.value.count
    if claim.value.problem:
        return f"It cannot be multiplied out here: {claim.value.problem}."
    if not terms:
        return "Multiplied out, it is a constant."
    text = f"Multiplied out, it is a sum of {write_count(count, 'product')} of them"
    if count <= len(terms):
        return f"{text}."
    return f"{text}; the largest {len(terms)} make up {percent(1.0 - claim.value.rest)} of its fitted curve."


@words_for("largest kinds of terms")
def _say_largest_kinds(claim: Claim, _: Vocabulary) -> str:
    names = [f"{kind.name} ({percent(kind.share)})" for kind in claim.value[:NAMED_TERMS]]
    return f"Copies of a kernel taken together, the largest are {list_names(names)}." if len(claim.value) > 1 else ""


@words_for("largest terms")
def _say_largest_terms(claim: Claim, _: Vocabulary) -> str:
    """Name the largest terms, the first also in words."""
    if not claim.value:
        return ""
    first, *others = claim.value[:NAMED_TERMS]
    names = [f"{term.name} ({percent(term.share)})" for term in others if term.share >= WORTH_NAMING]
    text = f"The largest is {first.name} ({percent(first.share)}){f', {first.words}' if first.words else ''}."
    return f"{text} Then {'come' if len(names) > 1 else 'comes'} {list_names(names)}." if names else text


def patterns_caption(several: bool) -> str:
    """Say what the small pictures of the units show."""
    along = "along the input that it varies most with (named above it), the others typical" if several else "from there"
    return (
        f"What each unit is like: its covariance with the upper end of the data (at the right), {along}, as a share of "
        "what it is at that end, the constant part left out. A slow fall is a smooth function, waves are a rhythm, a "
        "straight line is a trend; a unit that is flat at zero is a constant."
    )


def distilled_note(seconds: float, network: tuple[float, float, int], expression: tuple[float, float, int]) -> str:
    """Compare an expression with the network it comes from: (log evidence, leave-one-out, parameters) each."""
    texts = []
    for evidence, left_out, count in (network, expression):
        texts.append(f"log evidence {evidence:.2f}, leave-one-out {left_out:.2f}, {write_count(count, 'parameter')}")
    return f"distilled from a network in {seconds:.1f} s; the network has {texts[0]}, this expression {texts[1]}"
