"""The words of a change: when, where, how fast, from what to what, and whether the data ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mercer.explain.wording import Column, capital, listed, named, number
from mercer.kernels.algebra import components
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.expression import Expression

if TYPE_CHECKING:
    from mercer.explain.changes import Crossing, Regime, RegimeEvidence
    from mercer.learners.contract import Candidate

SHARP = 0.01  # of the range of the data: a change over less has no duration worth telling
NOTHING = "nothing that varies"
LITTLE, CLEAR = 2.0, 10.0  # differences of BIC


def opened(term: Expression) -> tuple[Expression, tuple[tuple[Surface, int], ...]]:
    """Return what is inside the gates of a component, and the gates: surfaces with the regime, from outside in."""
    gates: list[tuple[Surface, int]] = []
    while isinstance(term, Blend):
        regime = next(i for i, part in enumerate(term.parts) if part is not None)
        gates.append((term.surface, regime))
        term = term.children[0]
    return term, tuple(gates)


def gate_words(gates: Sequence[tuple[Surface, int]], columns: Sequence[Column]) -> str:
    """Say where a component holds: "until about 1898"."""
    return " and ".join(where_phrase(surface, regime, columns) for surface, regime in gates)


def where_phrase(surface: Surface, regime: int, columns: Sequence[Column]) -> str:
    """Say where a regime holds: "until about 1898", "between about 1645 and 1715"."""
    value = {p.name: p.values for p in surface.parameters}
    on = [columns[c] for c in surface.columns]
    if surface.kind == "CP" and value["location"] is not None:
        places = [on[0].about(place) for place in value["location"]]
        if regime == 0:
            return f"until about {places[0]}"
        if regime == len(places):
            return f"from about {places[-1]} on"
        return f"between about {places[regime - 1]} and {places[regime]}"
    if surface.kind == "CW" and value["start"] is not None and value["duration"] is not None:
        start = value["start"][0]
        ends = f"between about {on[0].about(start)} and {on[0].about(start + value['duration'][0])}"
        return ends if regime == 1 else f"except {ends}"
    return f"where regime {regime + 1} of the change over {named(on)} holds"


def has_ended(surface: Surface, regime: int, columns: Sequence[Column]) -> bool:
    """Tell whether a regime holds no more at the end of the data: another change point, or the window's end, came."""
    value = {p.name: p.values for p in surface.parameters}
    if surface.kind == "CP":
        return regime < surface.regimes - 1
    if surface.kind == "CW" and regime == 1 and value["start"] is not None and value["duration"] is not None:
        end, width = value["start"][0] + value["duration"][0], (value["width"] or (0.0,))[0]
        high = columns[surface.columns[0]].high
        return high is not None and end + width < high
    return False


def learned_sentence(candidates: Sequence[Candidate]) -> str:
    """Say how a change surface was learned."""
    most = max(candidate.depth for candidate in candidates) + 1
    kernels = f"{len(candidates)} kernels" if len(candidates) > 1 else "one kernel"
    return f"A change surface was learned: {kernels} with 1 to {most} regimes were fitted and compared by BIC."


def regime_phrase(part: Expression | None, columns: Sequence[Column]) -> str:
    """Say what one regime is: its components, one after the other."""
    from mercer.explain.phrases import phrase  # phrases.py imports this file

    if part is None:
        return NOTHING
    return ", plus ".join(phrase(term, columns) for term in components(part))


def change_sentences(
    surface: Surface,
    columns: Sequence[Column],
    target: str,
    regimes: Sequence[Regime],
    crossings: Sequence[Crossing],
    evidence: Sequence[RegimeEvidence],
) -> list[str]:
    """Say where the change is, what holds before and after, and whether the data ask for it."""
    on = [columns[c] for c in surface.columns]
    told = []
    for crossing in crossings:
        column = next(c for c in on if c.name == crossing.column)
        sharp = crossing.width <= SHARP * (column.span or crossing.width)
        speed = "sharply" if sharp else f"over about {column.length(crossing.width)}"
        told.append(
            f"Along {crossing.column} regime {crossing.before} gives way to regime {crossing.after} at about "
            f"{crossing.shown} (95 % interval {crossing.shown_low} to {crossing.shown_high}), {speed}."
        )
    if not crossings:
        shares = listed([f"{regime.rows:,}" for regime in regimes])
        told.append(f"A surface over {named(on)} parts the rows into {len(regimes)} regimes, of {shares} rows.")
    for regime in regimes:
        level = "" if regime.average is None else f" (there {target} is {number(regime.average)} on average)"
        told.append(f"Regime {regime.number}, {regime.where}{level}: {regime.words}.")
    return told + evidence_sentences(evidence)


def evidence_sentences(evidence: Sequence[RegimeEvidence]) -> list[str]:
    """Compare each number of regimes with one fewer."""
    told = []
    for fewer, more in pairwise(evidence):
        gain = fewer.bic - more.bic
        one = f"{more.regimes} regimes against {fewer.regimes}"
        if gain > 0:
            how = "clearly " if gain > CLEAR else "barely " if gain < LITTLE else ""
            told.append(f"The evidence {how}prefers {one}: the BIC is smaller by {gain:.1f}.")
        else:
            told.append(f"The evidence does not ask for {one}: the BIC is larger by {-gain:.1f}.")
    return [capital(sentence) for sentence in told]
