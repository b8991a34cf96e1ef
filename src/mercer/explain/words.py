"""All sentences, from claims. Each kind of claim has one function that puts it into words; `say` finds it.

Nothing here computes anything. The noun phrases of components are in `phrases.py`, numbers and lists in `wording.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mercer.errors import InputError
from mercer.explain.categories import say_interaction, say_levels
from mercer.explain.claims import Claim, InputChance
from mercer.explain.phrases import after, continuation, phrase, slope_phrase
from mercer.explain.wording import (
    LISTED,
    Vocabulary,
    capital,
    first_few,
    list_names,
    number,
    p_value,
    percent,
    probability,
    resolve,
    write_count,
)
from mercer.kernels.network import Network

NOTHING_LEFT = "Nothing is left over that the checks could find: what the model does not explain looks like pure noise."
TOO_FEW_TO_CHECK = "There are too few rows to tell whether anything is left over."
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
FARTHEST = 10  # times the range of the data: no farther is looked
HINT = "a prediction is little more than a hint"
CONSTANT = "no structure: the value does not vary"
ABSENCES = {"effect": "No effect of", "trend": "No linear trend", "period": "No period"}
NAMED_TERMS, WORTH_NAMING = 3, 0.005  # of a network: how many are named, and from which share of the fitted curve on
SHARP = 0.01  # of the range of the data: a change over less is sharp
BARELY, CLEARLY = 2.0, 10.0  # differences of BIC
SHARES = "(shares of the variance; components can overlap or cancel)"  # the numbers in front of components
FLOW_CAPTION = (
    "Each unit adds (+, with weights) or multiplies (×) the units before it. The thicker a line, the more of the "
    "variance of the whole passes along it; all factors of a product pass on the whole of it."
)

Sentence = Callable[[Claim, Vocabulary], str]


class Sentences(dict[str, Sentence]):
    """The function that puts a kind of claim into words, by kind."""

    def __missing__(self, kind: str) -> Sentence:
        raise InputError(f"there are no words for claims of the kind '{kind}': enter some with `words_for`")


SENTENCES = Sentences()
SENTENCES |= {  # those of one sentence without any choice
    "noise alone": lambda claim, _: (
        f"No structure found: {claim.subject} looks like pure noise around {number(claim.value.level)}, with a "
        f"standard deviation of {number(claim.value.std)}. What is listed below explains it no better than noise alone "
        "would."
    ),
    "too few rows": lambda claim, _: (
        f"No structure can be learned from {write_count(claim.value.rows, 'row')}: "
        f"{write_count(claim.value.parameters, 'number')} were fitted to them. What is listed below is a guess."
    ),
    "continuation": lambda claim, names: continuation(claim.value.kernel, names.columns, claim.value.horizon),
    "noise": lambda claim, _: f"Noise of standard deviation {number(claim.value)}.",
    "held-out error": lambda claim, _: (
        f"Each row was predicted from the others ({claim.value.folds} folds): the mean error is "
        f"{number(claim.value.error)}, against {number(claim.value.error_of_average)} for the average alone. "
        "Components are listed by how much of that error they remove."
    ),
    "interaction": say_interaction,
    "no interaction": lambda *_: "Every input acts by itself: their effects add up.",
    "random walk": lambda *_: (
        "The largest component drifts like a random walk: a forecast starts from the last value, not from the average, "
        "and its band grows about like the square root of the distance."
    ),
    "given structure": lambda claim, _: (
        f"The structure {claim.subject} was given; its parameters were fitted from {write_count(claim.value, 'start')}."
    ),
    "meaning of intervals": lambda claim, _: (
        f"Sparse inference on {claim.evidence.rows:,} rows does not compute the {claim.subject} of a kernel exactly. "
        f"Each kernel has an interval instead, worked out from all rows: its exact {claim.subject}, with the numbers "
        "it was given, is certain to lie in it (smaller is better). If the whole of one interval is better than "
        "another, so is the kernel; if they overlap, either may be better."
    ),
    "network": lambda claim, _: (
        "A network adds and multiplies simple kernels with weights that are learned, in layers: every unit of it is a "
        f"kernel itself. This is {network_phrase(claim.value)}."
    ),
    "surface": lambda claim, _: (
        f"A surface over {claim.subject} parts the rows into {len(claim.value)} regimes, of "
        f"{list_names([f'{many:,}' for many in claim.value])} rows."
    ),
}


def words_for(*kinds: str) -> Callable[[Sentence], Sentence]:
    """Enter a function as the words of some kinds of claims."""

    def enter(function: Sentence) -> Sentence:
        SENTENCES.update(dict.fromkeys(kinds, function))
        return function

    return enter


def say(claim: Claim, vocabulary: Vocabulary) -> str:
    """Put a claim into words."""
    return SENTENCES[claim.kind](claim, vocabulary)


class Narrator:
    """Puts claims into words one by one, and keeps them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.claims: list[Claim] = []

    def say(self, claim: Claim) -> str:
        """Keep a claim and return its sentence."""
        self.claims.append(claim)
        return SENTENCES[claim.kind](claim, self.vocabulary)

    def complete(self, claim: Claim) -> Any:
        """Keep a claim whose value is a record, and return that record with its sentence."""
        return replace(claim.value, sentence=self.say(claim))


@words_for("components")
def _say_components(claim: Claim, _: Vocabulary) -> str:
    count = claim.value.components
    what = "One component makes" if count == 1 else f"{capital(COUNTS.get(count, str(count)))} components make"
    return f"{what} up {claim.subject}; {percent(min(claim.value.noise_share, 1.0))} of its variance is noise."


@words_for("component")
def _say_component(claim: Claim, vocabulary: Vocabulary) -> str:
    """A kernel alone does not know the slope of a line."""
    term, columns, slope = claim.value.kernel, vocabulary.columns, claim.value.slope
    steep = "" if slope is None else f", {slope_phrase(slope, columns[next(term.leaves()).columns[0]])}"
    return f"{capital(phrase(term, columns, claim.value.joint))}{steep}."


@words_for("removed error")
def _say_removed_error(claim: Claim, _: Vocabulary) -> str:
    if claim.value < 0.0005:
        return "It removes no error on rows that were left out."
    return f"It removes {percent(claim.value)} of the error on rows that were left out."


@words_for("averaging")
def _say_averaging(claim: Claim, _: Vocabulary) -> str:
    within, beyond = claim.value.weights[0], claim.value.weights_beyond[0]
    same = claim.value.weights == claim.value.weights_beyond
    weight = percent(within) if same else f"{percent(within)} within the data, {percent(beyond)} beyond"
    text = f"Predictions average {len(claim.value.weights)} of the kernels tried."
    return f"{text} The words and components are those of the winner, whose weight is {weight}."


@words_for("effect")
def _say_effect(claim: Claim, vocabulary: Vocabulary) -> str:
    """Of an input that does nothing, say whether there was time to find out."""
    effect, target = claim.value, vocabulary.target
    size = number(effect.size)
    if effect.direction == "hardly matters":
        cut_short = " in this kernel. The search for it was cut short." if claim.evidence.all_finished is False else "."
        return f"The input {effect.column} hardly matters{cut_short}"
    if effect.direction == "depends on others":
        return f"What {effect.column} does depends on the other inputs: where these are typical, hardly anything."
    if effect.direction == "differs" and effect.levels:
        return say_levels(effect, target)
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


@words_for("partition")
def _say_partition(claim: Claim, _: Vocabulary) -> str:
    found, rows = claim.value, write_count(claim.evidence.rows or 0, "row")
    if not found.informative:
        return f"Which inputs act together is not settled: {rows} tell too little of it."
    most = _say_groups(found.groups)
    if found.probability < 0.5:
        return (
            f"Which inputs act together is not settled by {rows}: the most probable answer ({most}) has a probability "
            f"of {probability(found.probability)}."
        )
    return f"Most probable is: {most} (probability {probability(found.probability)})."


def _say_groups(groups: Sequence[Sequence[str]]) -> str:
    """Write "a and b together, c by itself"."""
    parts = [f"{_name_inputs(group)} together" for group in groups if len(group) > 1]
    single = [group[0] for group in groups if len(group) == 1]
    if len(single) == 1:
        parts.append(f"{single[0]} by itself")
    elif single:
        parts.append(f"{'the others' if parts and len(single) > LISTED else _name_inputs(single)} by themselves")
    return ", ".join(parts)


def _name_inputs(names: Sequence[str]) -> str:
    return list_names(names) if len(names) <= 2 * LISTED else f"{len(names)} inputs"


def _list_chances(found: Sequence[InputChance]) -> str:
    parts = [f"{list_names(each.names)} ({probability(each.probability)})" for each in found]
    rest = len(parts) - 2 * LISTED
    return "; ".join(parts if rest <= 1 else [*parts[: 2 * LISTED], f"{rest} others"])


SENTENCES |= {
    "acting together": lambda claim, _: f"Acting together: {_list_chances(claim.value)}.",
    "acting alone": lambda claim, _: (
        f"Acting by themselves: {_list_chances(claim.value)}."
        if len(claim.value) > 1
        else f"Acting by itself: {_list_chances(claim.value)}."
    ),
    "acting together unsettled": lambda claim, _: (
        f"Not settled is whether these act together: {_list_chances(claim.value)}."
    ),
    "acting unknown": lambda claim, _: (
        f"What {first_few(list(claim.value))} act{'s' if len(claim.value) == 1 else ''} together with is not known: "
        f"{'it accounts' if len(claim.value) == 1 else 'each accounts'} for less than 1 % of the variance. Kernels "
        f"that differ only in {'its' if len(claim.value) == 1 else 'their'} place count as one here; where kernels are "
        "averaged, each of them has a weight of its own."
    ),
}


@words_for("partitions tried")
def _say_partitions_tried(claim: Claim, _: Vocabulary) -> str:
    found = claim.value
    among = (
        f"all {found.possible:,} ways to group the inputs"
        if found.tried == found.possible
        else f"the {found.tried:,} of {found.possible:,} ways to group the inputs that were tried"
    )
    stay = f"; the chain spent {probability(found.visits)} of its steps at the most probable" if found.visits else ""
    return f"Probabilities are among {among}{stay}."


@words_for("sampled partitions")
def _say_sampled_partitions(claim: Claim, _: Vocabulary) -> str:
    found = claim.value
    return (
        f"Groups of inputs were sampled, splitting and merging them: {write_count(found.tried, 'grouping')} "
        f"{'was' if found.tried == 1 else 'were'} fitted, with {list_names(found.families)}."
    )


@words_for("horizon")
def _say_horizon(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say how far a forecast can be trusted."""
    column, horizon = vocabulary.column(claim.subject), claim.value
    if column.high is None or column.low is None or (horizon.distance is None and not column.unit):
        end = f"beyond the ends of {column.name}"
    elif column.unit:
        end = f"after {column.at(column.high)}"
    else:
        side, place = ("below", column.low) if horizon.below else ("above", column.high)
        end = f"{side} {column.name} {column.at(place)}"
    if horizon.distance is None:
        return (
            f"Even {FARTHEST} times the range of the data {end} the band stays narrower than the spread of the data: "
            "the model takes for granted that the pattern goes on, which no data can promise."
        )
    if horizon.distance == 0:
        hardly = "of a single new value a prediction says hardly more than their average would"
        what = hardly if horizon.returns else HINT
        return f"Right {end} the band is already as wide as the spread of the data themselves: {what}."
    far = f"more than {column.length(horizon.distance)} {end}"
    start = capital(after(horizon.distance, column) if column.unit else far)
    what = "a prediction says no more than their average would" if horizon.returns else HINT
    return f"{start} the band is as wide as the spread of the data themselves: from there on {what}."


@words_for("forecast")
def _say_forecast(claim: Claim, vocabulary: Vocabulary) -> str:
    found = claim.value
    width = found.high - found.low
    mean, low, high = (resolve(value, width) for value in (found.mean, found.low, found.high))
    where = f"The forecast of {vocabulary.target} for {found.at}"
    return f"{where} is {mean}, with 95 % probability between {low} and {high}."


FINE = {  # where nothing is left over
    "autocorrelation of errors": "Neighbouring errors look independent",
    "period in errors": "No rhythm is left in the errors",
    "shape of errors": "The errors look like a bell curve",
    "spread of errors": "The errors look equally large everywhere",
}


@words_for(*FINE, "band of errors")
def _say_residual(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say what a check of the errors has found."""
    found, check, p = claim.value, claim.value.check, p_value(claim.value.check.p_value)
    column = None if found.column is None else vocabulary.column(found.column)
    if claim.kind == "band of errors":
        inside = f"{int(check.place or 0):,} of {found.rows:,} rows ({percent(check.statistic)})"
        text = f"{inside} lie inside the 95 % band around what the rows before them predict ({p})"
        side = "narrow" if check.statistic < 0.95 else "wide"
        return f"{text}." if check.clear else f"{text}: the band is too {side}."
    if check.clear or (claim.kind == "period in errors" and check.place is None):
        return f"{FINE[claim.kind]} ({p})."
    if claim.kind == "autocorrelation of errors":
        lag = int(check.place or 1)
        apart = "next to each other" if lag == 1 else f"{lag} rows apart"
        if column is not None and found.distance is not None:
            apart = f"{column.length(found.distance)} apart"
        size = f"their correlation is {check.statistic:.2f} ({p})"
        alike = "alike" if check.statistic > 0 else "opposite"
        return f"Errors {apart} are {alike}: {size}, so something is left over."
    if claim.kind == "period in errors":
        length = number(check.place) if column is None else column.length(check.place)
        share = percent(check.statistic)
        return f"A rhythm with period {length} is left in the errors, {share} of their variance ({p})."
    if claim.kind == "spread of errors":
        along = "the fitted value" if column is None else column.name
        trend = "grow" if check.statistic > 0 else "shrink"
        return f"The errors {trend} with {along} ({p}): the band is right on average only."
    what = "The errors do not follow a bell curve"
    if check.statistic > 0.5:
        what = "Large errors are more frequent than a bell curve allows"
    where = ""
    if column is not None and found.at is not None:
        where = f"; the largest is at {column.name} {column.at(found.at)}"
    return f"{what} ({p}){where}."


def residual_sentence(checks: Sequence[Any]) -> str:
    """Say whether anything is left over, from checks with their sentences."""
    if not checks:
        return TOO_FEW_TO_CHECK
    return " ".join(check.sentence for check in checks if not check.clear) or NOTHING_LEFT


def absence_sentences(claims: Sequence[Claim], inputs: int) -> list[str]:
    """Say what was looked for and not found, the columns of one kind in one sentence."""
    sentences = []
    for what, words in ABSENCES.items():
        found = [claim.value for claim in claims if claim.value.what == what]
        if not found:
            continue
        which = "" if inputs == 1 else f" {first_few([absence.column for absence in found])}"
        which = which if what == "effect" or not which else f" in{which}"
        least = min(absence.behind for absence in found)
        sentences.append(f"{words}{which}: kernels with one lost by at least {least:.1f} in BIC.")
    return sentences


@words_for("absent", "not found")
def _say_absence(claim: Claim, vocabulary: Vocabulary) -> str:
    return absence_sentences([claim], len(vocabulary.columns))[0]


# What a search on several columns may begin with, by the kind of the first step.
STARTS = {"every column": "a kernel on every column", "each column": "a sum of kernels on one column each"}


@words_for("searched structure", "kernel functional", "trained network", "distilled network")
def _say_origin(claim: Claim, _: Vocabulary) -> str:
    """Say which search found the kernel, and how many it tried, where that is known."""
    story = claim.value.story if claim.kind == "searched structure" else claim.value
    tried = (
        "" if story is None else f"{write_count(story.tried, 'kernel')} {'was' if story.tried == 1 else 'were'} tried"
    )
    if claim.kind == "kernel functional":
        text = "A kernel without a formula was sought by Bayesian optimisation in a space of kernels"
        failed = f", {story.failed} of which failed" if story is not None and story.failed else ""
        return f"{text}: {tried}{failed}." if tried else f"{text}."
    if claim.kind == "trained network":
        if story is None:
            return "The network was trained."
        finished = f"; {story.finished} of them came to the end" if story.finished < story.tried else ""
        chosen = f", and the one with the best {claim.subject.removeprefix('-2 ')} was kept" if story.tried > 1 else ""
        return f"The network was trained from {write_count(story.tried, 'start')}{finished}{chosen}."
    if claim.kind == "distilled network":
        text = f"The structure was distilled from {claim.subject}: its polynomial was reduced to the terms that matter"
        if story is None:
            return f"{text}, and simplified as long as that cost little."
        expressions = write_count(max(0, story.tried - 1), "expression")
        return (
            f"{text}, and these were simplified step by step. Of {expressions} tried, this is the smallest whose BIC "
            "is within 2 of the best."
        )
    text = f"A search over sums and products of {list_names(claim.value.bases)} found the structure"
    if story is None:
        return f"{text}."
    begun = STARTS.get(story.path[0].start, "a single base kernel")
    steps = f"at once, {begun}"
    if len(story.path) > 1:
        steps = f"in {write_count(len(story.path) - 1, 'step')}"
        steps += f" from {begun}" if story.path[0].start in STARTS else ""
    finished = f", {story.finished} of them to the end" if story.finished < story.tried else ""
    failed = f", {story.failed} failed" if story.failed else ""
    return f"{text} {steps}: {tried}{finished}{failed}."


@words_for("learned regimes")
def _say_learned_regimes(claim: Claim, _: Vocabulary) -> str:
    count, most = claim.value.kernels, claim.value.most
    kernels = f"{count} kernels" if count > 1 else "one kernel"
    compared = f"were fitted and compared by {'their evidence under the priors' if claim.value.under_priors else 'BIC'}"
    if most == 1:
        fitted = compared if count > 1 else "was fitted"
        return f"A change surface was sought and not reached: {kernels} with one regime {fitted}."
    price = ", in which the place of a change counts as two parameters" if claim.value.places else ""
    return f"A change surface was learned: {kernels} with 1 to {most} regimes {compared}{price}."


@words_for("intervals")
def _say_intervals(claim: Claim, _: Vocabulary) -> str:
    """Say where the winner lies, whether anything could be better, and how many kernels were given up, and why."""
    found, (low, high) = claim.value, (f"{end:,.1f}" for end in claim.value.score)
    place = f"is {low}, to the digit shown" if low == high else f"lies between {low} and {high}"
    text = f"The winner's {claim.subject} {place}."
    if not found.undecided:
        text += f" No other kernel that was fitted to all rows may have a better {claim.subject}."
    else:
        others = f"{found.undecided} other kernels have intervals that overlap"
        if found.undecided == 1:
            others = "One other kernel has an interval that overlaps"
        text += f" {others} it, and may be as good; the winner is the one that is certain of most."
    dropped = []
    if found.separated:
        left = "were left behind because their whole intervals were"
        if found.separated == 1:
            left = "was left behind because its whole interval was"
        dropped.append(f"{write_count(found.separated, 'kernel')} {left} worse than that of another kernel")
    if found.set_aside:
        many = f"{found.set_aside}" if found.separated else write_count(found.set_aside, "kernel")
        were = "was" if found.set_aside == 1 else "were"
        dropped.append(f"{many} {were} set aside undecided, because others were certain of more")
    return f"{text} {'; '.join(dropped)}." if dropped else text


def scores_phrase(found: Any) -> str:
    """List the scores of an explanation; those of a sparse engine are bounds."""
    numbers = (found.log_evidence, found.bic, found.leave_one_out)
    evidence, bic, left_out = (f"{score:.2f}" if math.isfinite(score) else "unknown" for score in numbers)
    least, most = ("at least ", "at most ") if found.bound else ("", "")
    count = write_count(found.parameters, "parameter")
    return f"log evidence {least}{evidence}, BIC {most}{bic} ({count}), leave-one-out {left_out}"


@words_for("fit")
def _say_fit(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say how the fit ended: "with the lengthscale of PER(month) at its upper bound", not "1:PER.lengthscale"."""
    if claim.subject == "converged":
        return "The fit converged."
    if claim.subject != "at a bound":
        how = "was interrupted" if claim.subject == "interrupted" else claim.subject
        return f"The fit {how}: {claim.value.message}."
    reached = []
    for bound in claim.value.bounds:
        on = [vocabulary.columns[d].name for d in bound.columns]
        of = ", ".join(on) if len(on) <= LISTED else f"{len(on)} inputs"
        which = "" if bound.place is None else f" for {on[bound.place]}"
        name = bound.parameter if bound.symbol is None else f"the {bound.parameter} of {bound.symbol}({of}){which}"
        reached.append(f"{name} at its {bound.side} bound")
    names = f", with {first_few(list(dict.fromkeys(reached)))}" if reached else ""  # copies read alike
    return f"The fit converged at the edge of the search{names}: a simpler kernel may say as much."


def network_phrase(network: Network) -> str:
    """Say what a network is made of, as a noun phrase."""
    count = Counter(leaf.symbol for leaf in network.leaves())
    made = list_names([f"{many} {symbol}" for symbol, many in count.items()])
    return f"a network of {made} with the layers {network.architecture}"


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


@words_for("shape of a functional")
def _say_shape_of_a_functional(claim: Claim, _: Vocabulary) -> str:
    found = claim.value
    if found.repeats:
        return "The kernel has no formula: it is a learned function that repeats, which no SE or Matern kernel does."
    half = "" if found.half is None else f"It falls to one half at {number(found.half)} ({claim.unit}). "
    nearest = ", ".join(
        f"{near.name} with lengthscale {number(near.lengthscale)} is off by at most {near.off:.2f}"
        for near in found.nearest
    )
    closest = min(found.nearest, key=lambda near: near.off)
    same = f"It is {closest.name} for all practical purposes"
    verdict = same if closest.off < 0.01 else "It is none of the usual kernels"
    return f"The kernel has no formula: it is a learned function of the distance. {half}{verdict}: {nearest}."


@words_for("crossing")
def _say_crossing(claim: Claim, vocabulary: Vocabulary) -> str:
    found, column = claim.value, vocabulary.column(claim.subject)
    sharp = found.width <= SHARP * (column.span or found.width)
    speed = "sharply" if sharp else f"over about {column.length(found.width)}"
    return (
        f"Along {found.column} regime {found.before} gives way to regime {found.after} at about {found.shown} (95 % "
        f"interval {found.shown_low} to {found.shown_high}), {speed}."
    )


@words_for("regime")
def _say_regime(claim: Claim, vocabulary: Vocabulary) -> str:
    found = claim.value
    average = found.average
    level = "" if average is None else f" (there {vocabulary.target} is {number(average)} on average)"
    return f"Regime {found.number}, {found.where}{level}: {found.words}."


@words_for("more regimes")
def _say_more_regimes(claim: Claim, _: Vocabulary) -> str:
    """Compare a number of regimes with one fewer."""
    fewer, more = claim.value
    gain, one = fewer.score - more.score, f"{more.regimes} regimes against {fewer.regimes}"
    by = f"the BIC is {'larger' if gain <= 0 else 'smaller'} by {abs(gain):.1f}"
    if more.log_evidence_under_priors is not None:
        by = f"the log evidence under the priors is {'smaller' if gain <= 0 else 'larger'} by {abs(gain) / 2.0:.1f}"
    if gain <= 0:
        return f"The evidence does not ask for {one}: {by}."
    clearly = "clearly " if gain > CLEARLY else ""
    return f"The evidence {'barely ' if gain < BARELY else clearly}prefers {one}: {by}."
