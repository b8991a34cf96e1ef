"""What is said about the model as a whole: structure, inputs, forecast, residuals, search, change, networks, scores.

The words of single components are in `phrases.py`. Nothing here computes anything.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mercer.explain.phrases import after, phrase
from mercer.explain.wording import (
    LISTED,
    Column,
    capital,
    counted,
    first_few,
    listed,
    named,
    number,
    p_value,
    percent,
    resolved,
)
from mercer.kernels.algebra import components
from mercer.kernels.blend import Surface
from mercer.kernels.expression import Expression
from mercer.kernels.network import Network

if TYPE_CHECKING:
    from mercer.explain.changes import Crossing, Regime, RegimeEvidence
    from mercer.explain.checks import Check
    from mercer.explain.components import Effect, Horizon, Outlook
    from mercer.explain.networks import NetworkTerm, TermKind
    from mercer.explain.search import Absence, Story
    from mercer.learners.contract import Candidate

LONGEST_KERNEL = 600  # characters
NOTHING_LEFT = "Nothing is left over that the checks could find: what the model does not explain looks like pure noise."
TOO_FEW_TO_CHECK = "There are too few rows to tell whether anything is left over."
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
FARTHEST = 10  # times the range of the data: no farther is looked
HINT = "a prediction is little more than a hint"
CONSTANT = "no structure: the value does not vary"


def headline(target: str, inputs: Sequence[str], rows: int) -> str:
    """Say what was modelled."""
    return f"{target} explained by {named([Column(name) for name in inputs])}, from {counted(rows, 'row')}"


# --------------------------------------------------------------------------------------------- structure and components


def structure_sentence(target: str, components: int, noise_share: float) -> str:
    """Say in one sentence what was found."""
    count = COUNTS.get(components, str(components))
    what = "One component makes" if components == 1 else f"{capital(count)} components make"
    return f"{what} up {target}; {percent(min(noise_share, 1.0))} of its variance is noise."


def no_structure_sentence(target: str, level: float, std: float) -> str:
    """Say that there is nothing but noise."""
    return (
        f"No structure found: {target} looks like pure noise around {number(level)}, with a standard deviation of "
        f"{number(std)}. What is listed below explains it no better than noise alone would."
    )


def too_few_rows_sentence(rows: int, parameters: int) -> str:
    """Say that the model has too many parameters for the data to speak."""
    return (
        f"No structure can be told from {counted(rows, 'row')}: {counted(parameters, 'number')} were fitted to them. "
        "What is listed below is a guess."
    )


def noise_sentence(deviation: float) -> str:
    """Say what no component explains."""
    return f"Noise of standard deviation {number(deviation)}."


def shares_sentence() -> str:
    """Say what the numbers in front of the components are."""
    return "(shares of the variance; components can overlap or cancel)"


def removed_sentence(removed: float | None) -> str:
    """Say how much held-out error a component takes away."""
    if removed is None:
        return ""
    if removed < 0.0005:
        return "It removes no error on rows that were left out."
    return f"It removes {percent(removed)} of the error on rows that were left out."


def held_out_sentence(folds: int, before: float, after_all: float) -> str:
    """Say how well the components predict rows they have not seen."""
    return (
        f"Each row was predicted from the others ({folds} folds): the mean error is {number(after_all)}, against "
        f"{number(before)} for the average alone. Components are listed by how much of that error they remove."
    )


def averaging_sentence(kernels: int, weight: float, beyond: float | None) -> str:
    """Say that predictions come from several kernels, while the words are about one."""
    told = percent(weight) if beyond is None else f"{percent(weight)} within the data, {percent(beyond)} beyond"
    return (
        f"Predictions average {kernels} of the kernels tried. The words and components are those of the winner, "
        f"whose weight is {told}."
    )


# ------------------------------------------------------------------------------------------------------- several inputs


def effect_sentence(effect: Effect, target: str, cut_short: bool = False) -> str:
    """Say what one input does, the others held; of an input that does nothing, whether there was time to find out."""
    size = number(effect.size)
    if effect.direction == "hardly matters":
        told = f"The input {effect.column} hardly matters"
        return f"{told} in this kernel. The search for it was cut short." if cut_short else f"{told}."
    if effect.direction == "differs":
        return (
            f"Between the values of {effect.column}, {target} differs by up to {size}: it is lowest for "
            f"{effect.lowest_at} and highest for {effect.highest_at}."
        )
    if effect.direction == "goes up and down":
        return (
            f"Along {effect.column}, {target} goes up and down by {size}: it is lowest near {effect.lowest_at} and "
            f"highest near {effect.highest_at}."
        )
    ends = (effect.lowest_at, effect.highest_at)
    low, high = ends if effect.direction == "rises" else ends[::-1]
    return f"Along {effect.column}, {target} {effect.direction} by {size} from {low} to {high}."


def minor_sentence(titles: Sequence[str]) -> str:
    """Say in one line which components are too small to matter."""
    told = first_few([title[:1].lower() + title[1:] for title in titles])
    return f"And {counted(len(titles), 'component')} too small to matter within the data: {told}."


def interaction_sentences(joined: Sequence[Sequence[str]], inputs: int) -> list[str]:
    """Say which inputs act together; nothing where there is only one."""
    if inputs < 2:
        return []
    if not joined:
        return ["Every input acts by itself: their effects add up."]
    return [f"The effects of {_some(names)} depend on each other." for names in joined]


def _some(names: Sequence[str]) -> str:
    return listed(list(names)) if len(names) <= LISTED + 1 else f"{len(names)} inputs"


# ------------------------------------------------------------------------------------------------------ beyond the data


def trust_sentence(column: Column, horizon: Horizon) -> str:
    """Say how far a forecast can be trusted."""
    end = _beyond_end(column, horizon)
    if horizon.distance is None:
        return (
            f"Even {FARTHEST} times the range of the data {end} the band stays narrower than the spread of the "
            "data: the model takes for granted that the pattern goes on, which no data can promise."
        )
    if horizon.distance == 0:
        hardly = "of a single new value a prediction says hardly more than their average would"
        told = hardly if horizon.returns else HINT
        return f"Right {end} the band is already as wide as the spread of the data themselves: {told}."
    far = f"more than {column.length(horizon.distance)} {end}"
    start = capital(after(horizon.distance, column) if column.unit else far)
    told = "a prediction says no more than their average would" if horizon.returns else HINT
    return f"{start} the band is as wide as the spread of the data themselves: from there on {told}."


def _beyond_end(column: Column, horizon: Horizon) -> str:
    if column.high is None or column.low is None or (horizon.distance is None and not column.unit):
        return f"beyond the ends of {column.name}"
    if column.unit:
        return f"after {column.at(column.high)}"
    side, end = ("below", column.low) if horizon.below else ("above", column.high)
    return f"{side} {column.name} {column.at(end)}"


def walk_sentence() -> str:
    """Say what a random walk means for a forecast."""
    return (
        "The largest component drifts like a random walk: a forecast starts from the last value, not from the average, "
        "and its band grows about like the square root of the distance."
    )


def outlook_sentence(outlook: Outlook, column: Column, target: str) -> str:
    """Say what is predicted at one place beyond the data."""
    width = outlook.high - outlook.low
    mean, low, high = (resolved(value, width) for value in (outlook.mean, outlook.low, outlook.high))
    where = f"The forecast of {target} for {column.at(outlook.at)}"
    return f"{where} is {mean}, with 95 % probability between {low} and {high}."


# ------------------------------------------------------------------------------------------------------------ residuals


def check_sentence(check: Check, rows: int, column: Column | None, step: float | None, worst: str | None) -> str:
    """Say what a check found; `step` is the even distance between rows, `worst` the place of the largest error."""
    p = p_value(check.p_value)
    if check.name == "autocorrelation":
        if check.clear:
            return f"Neighbouring errors look independent ({p})."
        lag = int(check.place or 1)
        if column is not None and step is not None:
            apart = f"{column.length(lag * step)} apart"
        else:
            apart = "next to each other" if lag == 1 else f"{lag} rows apart"
        alike = "alike" if check.statistic > 0 else "opposite"
        return (
            f"Errors {apart} are {alike}: their correlation is {check.statistic:.2f} ({p}), so something is left over."
        )
    if check.name == "period":
        if check.clear or check.place is None:
            return f"No rhythm is left in the errors ({p})."
        length = column.length(check.place) if column is not None else number(check.place)
        return (
            f"A rhythm with period {length} is left in the errors, {percent(check.statistic)} of their variance ({p})."
        )
    if check.name == "shape":
        return _shape_sentence(check, p, worst)
    if check.name == "spread":
        if check.clear:
            return f"The errors look equally large everywhere ({p})."
        along = "the fitted value" if column is None else column.name
        trend = "grow" if check.statistic > 0 else "shrink"
        return f"The errors {trend} with {along} ({p}): the band is right on average only."
    inside = f"{int(check.place or 0):,} of {rows:,} rows ({percent(check.statistic)})"
    told = f"{inside} lie inside the 95 % band around what the rows before them predict ({p})"
    if check.clear:
        return f"{told}."
    return f"{told}: the band is too {'narrow' if check.statistic < 0.95 else 'wide'}."


def _shape_sentence(check: Check, p: str, worst: str | None) -> str:
    if check.clear:
        return f"The errors look like a bell curve ({p})."
    where = f"; the largest is at {worst}" if worst is not None else ""
    if check.statistic > 0.5:
        return f"Large errors are more frequent than a bell curve allows ({p}){where}."
    return f"The errors do not follow a bell curve ({p}){where}."


def residual_sentence(checks: Sequence[Check], sentences: Sequence[str]) -> str:
    """Say whether anything is left over."""
    if not checks:
        return TOO_FEW_TO_CHECK
    found = [sentence for check, sentence in zip(checks, sentences, strict=True) if not check.clear]
    return " ".join(found) if found else NOTHING_LEFT


# --------------------------------------------------------------------------------------------------------------- search


def absence_sentences(missing: Sequence[Absence], inputs: int) -> list[str]:
    """Say what was looked for and not found, the columns of one kind in one sentence."""
    told = []
    for what, words in (("effect", "no effect of"), ("trend", "no linear trend"), ("period", "no period")):
        found = [absence for absence in missing if absence.what == what]
        if not found:
            continue
        which = "" if inputs == 1 else f" {first_few([absence.column for absence in found])}"
        which = which if what == "effect" or not which else f" in{which}"
        least = min(absence.behind for absence in found)
        told.append(f"{capital(words)}{which}: kernels with one lost by at least {least:.1f} in BIC.")
    return told


def found_sentence(structure: str, starts: int) -> str:
    """Say that the structure of the kernel was given."""
    return f"The structure {structure} was given; its parameters were fitted from {counted(starts, 'start')}."


def searched_sentence(story: Story | None, bases: Sequence[str]) -> str:
    """Say that the structure of the kernel was searched for, or, where it is not made of bases, trained."""
    if not bases:
        return trained_sentence(story)
    built = f"A search over sums and products of {listed(list(bases))} found the structure"
    if story is None:
        return f"{built}."
    steps = f"in {counted(len(story.path) - 1, 'step')}" if len(story.path) > 1 else "at once, a single base kernel"
    told = f"{counted(story.tried, 'kernel')} {'was' if story.tried == 1 else 'were'} tried"
    ended = f", {story.finished} of them to the end" if story.finished < story.tried else ""
    failed = f", {story.failed} failed" if story.failed else ""
    return f"{built} {steps}: {told}{ended}{failed}."


def functional_sentence(story: Story | None) -> str:
    """Say that a kernel without a formula was sought."""
    found = "A kernel without a formula was sought by Bayesian optimisation in a space of kernels"
    if story is None:
        return f"{found}."
    failed = f", {story.failed} of which failed" if story.failed else ""
    return f"{found}: {counted(story.tried, 'kernel')} {'was' if story.tried == 1 else 'were'} tried{failed}."


def trained_sentence(story: Story | None) -> str:
    """Say that a network was trained."""
    if story is None:
        return "A neural kernel network was trained."
    ended = f", {story.finished} of them to the end" if story.finished < story.tried else ""
    failed = f", {story.failed} failed" if story.failed else ""
    return f"A neural kernel network was trained from {counted(story.tried, 'start')}{ended}{failed}."


# ------------------------------------------------------------------------------------------------------- scores and fit


def kernel_phrase(kernel: str) -> str:
    """Return the kernel's text, cut where it would fill the screen."""
    return textwrap.shorten(kernel, LONGEST_KERNEL, placeholder=" ... (cut here; --json shows all of it)")


def scores_phrase(log_evidence: float, bic: float, leave_one_out: float, parameters: int, bound: bool) -> str:
    """List the scores; those of a sparse engine are bounds."""
    shown = [f"{score:.2f}" if math.isfinite(score) else "unknown" for score in (log_evidence, bic, leave_one_out)]
    least, most = ("at least ", "at most ") if bound else ("", "")
    return (
        f"log evidence {least}{shown[0]}, BIC {most}{shown[1]} ({counted(parameters, 'parameter')}), "
        f"leave-one-out {shown[2]}"
    )


def status_sentence(status: str, message: str, kernel: Expression, names: Sequence[str]) -> str:
    """Say how the fit ended, naming parameters by kernel and column instead of by their place in a vector."""
    if status == "converged":
        return "The fit converged."
    if status == "at a bound":
        bounds = (message.partition(": ")[2] or message).split(", ")
        named = dict.fromkeys(_with_parameter_names(bound, kernel, names) for bound in bounds)  # copies read alike
        told = first_few(list(named))
        return f"The fit converged at the edge of the search, with {told}: a simpler kernel may say as much."
    if status == "interrupted":
        return f"The fit was interrupted: {message}."
    return f"The fit {status}: {_with_parameter_names(message, kernel, names)}."


def _with_parameter_names(message: str, kernel: Expression, names: Sequence[str]) -> str:
    """Turn "2:PER.lengthscale" into "the lengthscale of PER(month)"."""
    leaves = list(kernel.owners())

    def named(match: re.Match[str]) -> str:
        place = int(match["leaf"])
        if place >= len(leaves) or leaves[place].symbol != match["symbol"]:
            return match[0]
        on, index = leaves[place].columns, int(match["index"] or 0)
        own = match["index"] and match["name"] != "weights" and index < len(on)
        which = f" for {names[on[index]]}" if own else ""
        of = ", ".join(names[d] for d in on) if len(on) <= LISTED else f"{len(on)} inputs"
        return f"the {match['name']} of {match['symbol']}({of}){which}"

    return re.sub(r"\b(?P<leaf>\d+):(?P<symbol>[A-Z0-9]+)\.(?P<name>\w+)(?:\[(?P<index>\d+)\])?", named, message)


# ------------------------------------------------------------------------------------------------------------ intervals


def meaning_sentence(rows: int, score: str) -> str:
    """Say what an interval means."""
    return (
        f"{rows:,} rows are too many to compute the {score} of a kernel exactly. Each kernel has an interval instead, "
        f"worked out from all rows: its exact {score}, with the numbers it was given, is certain to lie in it (smaller "
        "is better). If the whole of one interval is better than another, so is the kernel; if they overlap, either "
        "may be better."
    )


def winner_sentence(score: str, ends: tuple[float, float], undecided: int) -> str:
    """Say where the winner lies, and whether anything could be better."""
    told = f"The winner's {score} {between(ends)}."
    if not undecided:
        return f"{told} No other kernel that was fitted to all rows may have a better {score}."
    others = "One other kernel" if undecided == 1 else f"{undecided} other kernels"
    overlap = "has an interval that overlaps it, and may be as good" if undecided == 1 else (
        "have intervals that overlap it, and may be as good"
    )  # fmt: skip
    return f"{told} {others} {overlap}; the winner is the one that is certain of most."


def left_behind_sentence(separated: int, set_aside: int) -> str:
    """Say how many kernels were given up, and why."""
    told = []
    if separated:
        were = "was" if separated == 1 else "were"
        whole = "its whole interval was worse" if separated == 1 else "their whole intervals were worse"
        told.append(f"{counted(separated, 'kernel')} {were} left behind because {whole} than that of another kernel")
    if set_aside:
        were = "was" if set_aside == 1 else "were"
        start = f"{set_aside} {were}" if separated else f"{counted(set_aside, 'kernel')} {were}"
        told.append(f"{start} set aside undecided, because others were certain of more")
    return "; ".join(told) + "." if told else ""


def between(ends: tuple[float, float]) -> str:
    """Write where a score lies."""
    low, high = (f"{end:,.1f}" for end in ends)
    return f"is {low}, to the digit shown" if low == high else f"lies between {low} and {high}"


# ------------------------------------------------------------------------------------------------------------- networks


TOLD = 3  # terms that are named


WORTH_NAMING = 0.005  # of the fitted curve


WHAT_A_NETWORK_IS = (
    "A network adds and multiplies simple kernels with weights that are learned, in layers: every unit of it is a "
    "kernel itself."
)


FLOW_CAPTION = (
    "Each unit adds (+, with weights) or multiplies (×) the units before it. The thicker a line, the more of the "
    "variance of the whole passes along it; all factors of a product pass on the whole of it."
)


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


def network_trained_sentence(story: Story | None, score: str) -> str:
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


# -------------------------------------------------------------------------------------------------------------- changes


SHARP = 0.01  # of the range of the data: a change over less has no duration worth telling


NOTHING = "nothing that varies"


LITTLE, CLEAR = 2.0, 10.0  # differences of BIC


def learned_sentence(candidates: Sequence[Candidate]) -> str:
    """Say how a change surface was learned."""
    most = max(candidate.depth for candidate in candidates) + 1
    kernels = f"{len(candidates)} kernels" if len(candidates) > 1 else "one kernel"
    return f"A change surface was learned: {kernels} with 1 to {most} regimes were fitted and compared by BIC."


def regime_phrase(part: Expression | None, columns: Sequence[Column]) -> str:
    """Say what one regime is: its components, one after the other."""
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
