"""What components are called: a few words each, no two alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mercer.explain.change_words import gate_words, opened
from mercer.explain.drift import drawn_back_over, hardly_changes, slope_walks, walks
from mercer.explain.phrases import (
    POWERS,
    SMOOTHNESS,
    WAVES,
    Joint,
    acting,
    alters,
    bending,
    by_rule,
    growing,
    merged,
    nouns_first,
    period_of,
)
from mercer.explain.wording import DAYS, LISTED, Column, capital, listed, named, percent, roughly
from mercer.kernels.blend import Blend
from mercer.kernels.expression import Base, Expression
from mercer.kernels.functional import has_functional
from mercer.kernels.network import has_network

SHORT = {
    "SE": "Smooth variation", "RQ": "Variation on many scales", "M52": "Fairly smooth variation",
    "M32": "Moderately rough variation", "M12": "Erratic variation",
}  # fmt: skip


def title(term: Expression, columns: Sequence[Column], alone: bool = True, joint: Joint | None = None) -> str:
    """Name one summand in a few words: "Pattern with period 12.0 months". `alone`: there is only one input."""
    if isinstance(term, Blend):
        inside, gates = opened(term)
        return f"{title(inside, columns, alone, joint)}, {gate_words(gates, columns)}"
    if has_network(term):
        return "Function learned by a network"
    if has_functional(term) and not any(leaf.symbol in WAVES for leaf in term.leaves()):
        return "Function with a learned kernel"
    joint = by_rule(term, columns) if joint is None else joint
    groups = acting(term, columns, joint)
    used = sorted({d for dims in groups for d in dims})
    involved = list(dict.fromkeys(columns[d].table_name for d in used))
    if len(groups) > 1 and len(involved) > 1:
        what = "Effects" if joint.add_up else "Interaction"
        return f"{what} of {listed(involved) if len(involved) <= LISTED else f'{len(involved)} inputs'}"
    dims, leaves = next(iter(groups.items()))
    on = [columns[d] for d in dims]
    if len(on) == 1 and on[0].level is not None and leaves[0].symbol != "WN":
        return f"Difference of {on[0].name if len(groups) == 1 else on[0].table_name}"
    return _of_one_group(merged(leaves, on), on, "" if alone or not on else f" in {named(on)}")


def _of_one_group(leaves: list[Base], on: list[Column], of: str) -> str:
    head, *others = leaves
    if head.symbol in WAVES:
        return f"{_kind([*_growth(leaves, on), *_drift(others, on)], 'pattern')}{of}{_title_period(head, on)}"
    if head.symbol == "LIN":
        power = len(bending([leaf for leaf in leaves if leaf.symbol == "LIN"], on))
        shape = f"{POWERS[power]} trend" if power in POWERS else f"trend of degree {power}"
        return f"{_kind(_drift(others, on), shape)}{of}"
    if walks(head, on):
        return f"Random walk{of}"
    if drawn_back_over(head, on) is not None:
        return f"Random walk{of}, drawn back{_title_length(head, on)}"
    if slope_walks(head, on):
        return f"Wandering trend{of}"
    if head.symbol in SMOOTHNESS:
        slow = "Slow change" if hardly_changes(head, on) else SHORT[head.symbol]
        return f"{slow}{of}{_title_length(head, on)}"
    return f"Noise at each value{of}" if head.symbol == "WN" else "Constant"


def _kind(adjectives: list[str], noun: str) -> str:
    return capital(" ".join([*([" and ".join(adjectives)] if adjectives else []), noun]))


def _growth(leaves: list[Base], on: list[Column]) -> list[str]:
    lines = [leaf for leaf in leaves if leaf.symbol == "LIN"]
    words = growing(lines, on) if lines else ""
    return [kind for kind in ("growing", "shrinking") if kind in words]


def _drift(others: list[Base], on: list[Column]) -> list[str]:
    if any(walks(leaf, on) for leaf in others):
        return ["drifting"]
    return ["changing"] if alters(others, on) else []


def _title_period(leaf: Base, on: list[Column]) -> str:
    if len(on) != 1 or leaf.symbol == "SM":
        return ""
    if leaf.symbol == "COS":
        frequencies = leaf.parameter("frequency").values
        return f" {period_of(frequencies[0], on[0])}" if frequencies else ""
    periods = leaf.parameter("period").values
    return f" with period {on[0].length(periods[0])}" if periods else ""


def _title_length(leaf: Base, on: list[Column]) -> str:
    lengths = leaf.parameter("lengthscale").values
    if not lengths or len(on) != 1:
        return ""
    short = roughly(lengths[0], str(on[0].unit)) if on[0].unit in DAYS else f"about {on[0].length(lengths[0])}"
    return f" over {short}"


# ------------------------------------------------------------------------------------------------------ no two alike


def distinct(
    titles: Sequence[str], terms: Sequence[Expression], columns: Sequence[Column], shares: Sequence[float]
) -> list[str]:
    """Add to titles that several components carry what tells them apart: another period, a length, or the share."""
    told = list(titles)
    for same, count in Counter(titles).items():
        if count == 1:
            continue
        places = [place for place, each in enumerate(titles) if each == same]
        ways = [
            [_second_period(terms[place], columns) for place in places],
            [_length(terms[place], columns) for place in places],
            [f" ({percent(shares[place])} of the variance)" for place in places],
        ]
        numbered = [f" ({number})" for number in range(1, count + 1)]
        added = next((way for way in ways if len(set(way)) == count), numbered)
        for place, words in zip(places, added, strict=True):
            told[place] = f"{same}{words}"
    return told


def _second_period(term: Expression, columns: Sequence[Column]) -> str:
    leaves = nouns_first(term)
    waves = [leaf for leaf in leaves if leaf.symbol in ("PER", "CPER") and len(leaf.columns) == 1]
    periods = [(columns[leaf.columns[0]], leaf.parameter("period").values) for leaf in waves]
    lengths = [column.length(values[0]) for column, values in periods if values]
    return f", modulated with period {listed(lengths[1:])}" if len(lengths) > 1 else ""


def _length(term: Expression, columns: Sequence[Column]) -> str:
    fading = [leaf for leaf in term.leaves() if leaf.symbol in SMOOTHNESS and len(leaf.columns) == 1]
    return next((_title_length(leaf, [columns[leaf.columns[0]]]).replace(" over", ", over") for leaf in fading), "")
