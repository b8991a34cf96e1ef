"""Sentences, from claims. Each kind of claim has one function that puts it into words; `say` finds it.

Nothing here computes anything. The noun phrases of components are in `phrases.py`, numbers and lists in `wording.py`;
networks, change surfaces, functionals and partitions have files of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mercer.errors import InputError
from mercer.explain.categories import say_interaction, say_levels
from mercer.explain.claims import Claim
from mercer.explain.phrases import Jump, after, continuation, phrase, slope_phrase
from mercer.explain.wording import (
    LISTED,
    Column,
    Vocabulary,
    capital,
    duration,
    first_few,
    list_names,
    number,
    p_value,
    percent,
    probability,
    resolve,
    write_count,
)
from mercer.kernels.expression import Expression

NOTHING_LEFT = "Nothing is left over that the checks could find: what the model does not explain looks like pure noise."
NOTHING_SEEN = "The checks find nothing left over, but there are too few rows for them to see what is small."
TOO_FEW_TO_CHECK = "There are too few rows to tell whether anything is left over."
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
FARTHEST = 10  # times the range of the data: no farther is looked
DOUBTS = {
    "cut short": "the search was cut short", "pattern": "the errors may show a pattern",
    "few rows": "there are too few rows to see what is small", "not settled": "the rows do not settle it",
}  # fmt: skip
HINT = "a prediction is little more than a hint"
CONSTANT = "no structure: the value does not vary"
ABSENCES = {"effect": "No effect of", "trend": "No linear trend", "period": "No period"}
CHANCE = 0.01  # the p-value from which a season may be chance
KNOWN_SIZE = 0.25  # of an effect: where it is known less well, its interval is said
LIKELY, SURE = 0.5, 0.99  # what is less probable is not described as being there; what is more so needs no number
SHARES = "(shares of the variance; with the noise they add up to 100 %)"  # the numbers in front of components

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
    "nothing found yet": lambda claim, _: (
        f"No structure found so far: noise around {number(claim.value.level)} with a standard deviation of "
        f"{number(claim.value.std)} explains {claim.subject} about as well as what is listed below. That is not to say "
        f"that there is none: {list_names([DOUBTS[doubt] for doubt in claim.value.doubts])}."
    ),
    "too few rows": lambda claim, _: (
        f"No structure can be learned from {write_count(claim.value.rows, 'row')}: "
        f"{write_count(claim.value.parameters, 'number')} were fitted to them. What is listed below is a guess."
    ),
    "continuation": lambda claim, names: continuation(
        claim.value.kernel, names.columns, claim.value.horizon, claim.value.rest
    ),
    "noise": lambda claim, _: f"Noise of standard deviation {number(claim.value)}.",
    "noise not known": lambda *_: (
        "How much of this is noise cannot be told: noise and what changes from one row to the next explain these rows "
        "about equally well."
    ),
    "unexplained": lambda claim, _: (
        f"Noise or what the model has not found, of standard deviation {number(claim.value)}."
    ),
    "held-out error": lambda claim, _: (
        f"Each row was predicted from the others ({claim.value.folds} folds): the mean error is "
        f"{number(claim.value.error)}, against {number(claim.value.error_of_average)} for the average alone."
    ),
    "interaction": lambda claim, names: say_interaction(claim, names, _say_sure(claim.certainty)),
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
    "surface": lambda claim, _: (
        f"A surface over {claim.subject} parts the rows into {len(claim.value)} regimes, of "
        f"{list_names([f'{many:,}' for many in claim.value])} rows."
    ),
}


def _say_sure(certainty: float | None) -> str:
    return "" if certainty is None or certainty > SURE else f", with a probability of {probability(certainty)}"


def _say_there(certainty: float) -> str:
    """Say how sure it is that a component is there: of few of the kernels only that they have it."""
    if certainty > SURE:
        return ""
    if certainty < LIKELY:
        return f" Kernels with {probability(certainty)} of the weight have it."
    return f" It is there with a probability of {probability(certainty)}."


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

    @property
    def target(self) -> str:
        """What is explained."""
        return self.vocabulary.target

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
    share = percent(min(claim.value.noise_share, 1.0))
    if not claim.value.known:
        return f"{what} up {claim.subject}; how much of its variance is noise cannot be told."
    if not claim.value.pure:
        return f"{what} up {claim.subject}; {share} of its variance is noise or what the model has not found."
    return f"{what} up {claim.subject}; {share} of its variance is noise."


@words_for("component")
def _say_component(claim: Claim, vocabulary: Vocabulary) -> str:
    """A kernel alone does not know the slope of a line."""
    term, columns, slope = claim.value.kernel, vocabulary.columns, claim.value.slope
    steep = "" if slope is None else f", {slope_phrase(slope, columns[next(term.leaves()).columns[0]])}"
    seen = claim.value.seen
    if seen is not None and seen.jump is not None:
        return _say_jump(seen.jump, column_of(term, columns))
    if seen is not None and seen.noise:
        return f"Noise from row to row of {column_of(term, columns).name}: what one row has of it, no other has."
    if seen is not None and seen.idle_period is not None:
        column = column_of(term, columns)
        period = column.length(seen.idle_period)
        return f"A curve along {column.name}. Its kernel has a period of {period}, with which it does not repeat."
    text = f"{capital(phrase(term, columns, claim.value.joint, seen))}{steep}.{_say_chance(claim.value.p_value)}"
    return text if claim.value.between is None else text + _say_between(claim.value.between, column_of(term, columns))


def _say_chance(p: float | None) -> str:
    return "" if p is None or p < CHANCE else f" It may be chance ({p_value(p)})."


def column_of(term: Expression, columns: Sequence[Column]) -> Column:
    """Return the column of a kernel on one."""
    return columns[next(owner.columns[0] for owner in term.owners() if owner.columns)]


def _say_between(between: tuple[float, float], column: Column) -> str:
    """Say that seasons of near periods may be one."""
    low, high = (column.length(period) for period in between)
    return f" Patterns with periods of {low} to {high} cannot be told from one in between that changes as it goes."


def _say_jump(jump: Jump, column: Column) -> str:
    return f"A jump {'up' if jump.size > 0 else 'down'} by {number(abs(jump.size))} near {column.at(jump.at)}."


KINDS = {  # of gathered components: a title, and what it is in a sentence
    "trend": ("Straight trend", "a straight trend"),
    "slow change": ("Slow change", "a slow change"),
    "variation": ("Variation", "variation"),
    "short-lived variation": ("Short-lived variation", "short-lived variation"),
    "random walk": ("Random walk", "a drift like a random walk"),
    "jump": ("Jump", "a jump of the level"),
    "noise": ("Noise at each value", "noise, drawn anew for every value"),
    "constant": ("Constant", "a constant"),
    "network": ("Function learned by a network", "a function learned by a network"),
    "learned function": ("Function with a learned kernel", "a function whose kernel was learned without a formula"),
}


def gathered_title(facts: Any, vocabulary: Vocabulary) -> str:
    """Name a component of an average in a few words."""
    if facts.jump is not None:
        column = next(c for c in vocabulary.columns if c.table_name == facts.kind.columns[0])
        return f"Jump near {column.at(facts.jump.at)}"
    return _name_kind(facts, vocabulary, 0)


def _name_kind(facts: Any, vocabulary: Vocabulary, form: int) -> str:
    kind, inputs = facts.kind, {column.table_name for column in vocabulary.columns}
    names = list_names(kind.columns) if 0 < len(kind.columns) <= LISTED else f"{len(kind.columns)} inputs"
    if kind.name == "effect":
        return f"{'the effect' if form else 'Effect'} of {names}"
    if kind.name in ("effects", "interaction"):
        together = "by themselves" if kind.name == "effects" else "together"
        return f"what {names} do {together}" if form else capital(f"what {names} do {together}")
    along = f" along {names}" if kind.columns and (form or len(inputs) > 1) else ""
    if kind.name == "season":
        column = next(c for c in vocabulary.columns if c.table_name == kind.columns[0])
        rhythm, growing = column.rhythm(kind.period), "growing " if facts.growing else ""
        if form == 0:
            period = "" if rhythm else f" with period {column.length(kind.period)}"
            return capital(f"{growing}{rhythm or ''} pattern".strip()) + along + period
        what = f"a {growing}{rhythm or 'repeating'} pattern{along}"
        return f"{what}, with a period of {column.length(kind.period)}"
    return f"{KINDS.get(kind.name, (capital(kind.name), kind.name))[form]}{along}"


@words_for("gathered component")
def _say_gathered(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say what kernels that are averaged have in common, and how sure it is that it is there."""
    facts, text = claim.value, _name_kind(claim.value, vocabulary, 1)
    if facts.lengths is not None and facts.kind.name in ("variation", "short-lived variation"):
        column = next(c for c in vocabulary.columns if c.table_name == facts.kind.columns[0])
        low, high = (column.length(length) for length in facts.lengths)
        text += f", over about {low}" if low == high else f", over {low} to {high}"
    if facts.jump is not None:
        column = next(c for c in vocabulary.columns if c.table_name == facts.kind.columns[0])
        return _say_jump(facts.jump, column) + _say_there(facts.certainty)
    if facts.likely is not None and facts.likely.name != facts.kind.name:
        text += _say_likely(facts.likely)
    regimes = [f"regime {regime + 1}" for _, regime in facts.kind.where]
    text += f", in {list_names(regimes)} of a change" if regimes else ""
    text = f"{capital(text)}.{_say_there(facts.certainty)}{_say_chance(facts.p_value)}"
    if facts.between is None:
        return text
    return text + _say_between(
        facts.between, next(c for c in vocabulary.columns if c.table_name == facts.kind.columns[0])
    )


def _say_likely(likely: Any) -> str:
    """Say what a component most probably is, where the kernels that have it differ about that."""
    within, beyond = probability(likely.within), probability(likely.beyond)
    ahead = "" if within == beyond else f", in the forecast {beyond}"
    return f": most likely {KINDS[likely.name][1]} (with a probability of {within}{ahead})"


@words_for("gathered continuation")
def _say_gathered_continuation(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say what a component does beyond the data: of the kernels that make the forecast, weighted as they are."""
    facts = claim.value
    if facts.weight < 0.5:
        return f"The kernels that make the forecast hardly have it: with a weight of {percent(facts.weight)}."
    return continuation(facts.kernel, vocabulary.columns, facts.horizon, facts.rest)


@words_for("removed error")
def _say_removed_error(claim: Claim, _: Vocabulary) -> str:
    if claim.value < 0.0005:
        return "It removes no error on rows that were left out."
    return f"It removes {percent(claim.value)} of the error on rows that were left out."


@words_for("averaging")
def _say_averaging(claim: Claim, _: Vocabulary) -> str:
    """Say that kernels are averaged, and that the words are about their average."""
    text = f"Predictions average {len(claim.value.weights)} of the kernels tried"
    if claim.value.alone:
        return f"{text}; one has nearly all the weight, and the words are about that one."
    return f"{text}, and the words are about the average: a component is what these kernels have of one kind."


SENTENCES |= {
    "left-out error": lambda claim, _: (
        f"Each row was predicted from all the others: the mean error is {number(claim.value.error)}, against "
        f"{number(claim.value.error_of_average)} for the average alone."
    ),
    "no interaction": lambda *_: "Every input acts by itself: their effects add up.",
}


@words_for("rate")
def _say_rate(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say how much the target rises a year, or that it is not clear whether it does."""
    rate, column = claim.value, vocabulary.column(claim.value.column)
    slope, low, high = (each * rate.units for each in (rate.slope, rate.low, rate.high))
    per = f"for every unit of {column.name}" if rate.per is None else f"{article(rate.per)} {rate.per}"
    over = "Over the data, the other inputs aside," if rate.beside_others else "Over the data"
    if not rate.clear:
        between = f"between {number(low)} and {number(high)} {per}"
        return f"{over} {vocabulary.target} neither clearly rises nor falls: on average {between} (95 %)."
    low, high = (low, high) if slope > 0 else (-high, -low)
    verb, between = "rises" if slope > 0 else "falls", f"95 % between {number(low)} and {number(high)}"
    return f"{over} {vocabulary.target} {verb} by {number(abs(slope))} {per} on average ({between})."


def article(noun: str) -> str:
    """Write "a year", "an hour"."""
    return "an" if noun[:1] in "aeiou" or noun == "hour" else "a"


@words_for("season")
def _say_season(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say how high a season is in its last cycle, and when it is highest and lowest."""
    found, column = claim.value, vocabulary.column(claim.value.column)
    what = f"{capital(found.rhythm)} pattern" if found.rhythm else f"Pattern with {_say_period(found, column)}"
    what += ", which changes as it goes" if found.between is not None else ""
    may = f" (it may be chance: {p_value(found.p_value)})" if found.p_value >= CHANCE else ""
    may += _say_sure(claim.certainty)
    grown = "now, its swings growing" if found.growing else "in its last cycle"
    between = f"95 % between {number(found.low)} and {number(found.high)}"
    text = f"{what}{may}: {number(found.swing)} from bottom to top {grown} ({between})"
    if not found.rhythm:
        return f"{text}."
    top, bottom = (_list_either(names, sure) for names, sure in
                   ((found.top, found.top_certainty), (found.bottom, found.bottom_certainty)))  # fmt: skip
    date = "on" if column.unit in ("days", "weeks") else "near"  # as it is in the last cycle
    at = {"daily": "at", "weekly": "on", "yearly": "in"}.get(found.rhythm, date)
    return f"{text}, highest {at} {top}, lowest {at} {bottom}."


@words_for("jump")
def _say_level_jump(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say that the level jumps, and where no kernel jumps how the components follow."""
    found, column = claim.value, vocabulary.column(claim.value.column)
    low, high = sorted((abs(found.low), abs(found.high)))
    follow = " The components follow it by a curve." if found.by_curve else ""
    jumps = f"The level of {vocabulary.target} jumps {'up' if found.size > 0 else 'down'} by {number(abs(found.size))}"
    interval = f"(95 % between {number(low)} and {number(high)})"
    if found.between is not None:
        first, last = (column.at(each) for each in found.between)
        return f"{jumps} {interval}, somewhere between {first} and {last} (95 %).{follow}"
    return f"{jumps} at {column.at(found.at)} {interval}.{follow}"


def _say_period(season: Any, column: Column) -> str:
    if season.between is None:
        return f"a period of {column.length(season.period)}"
    low, high = (column.length(period) for period in season.between)
    return f"a period between {low} and {high}"


@words_for("rhythm")
def _say_rhythm(claim: Claim, vocabulary: Vocabulary) -> str:
    """Say that a rhythm runs through the data that no component has."""
    found, column = claim.value, vocabulary.column(claim.value.column)
    what = f"{article(found.rhythm).capitalize()} {found.rhythm} pattern" if found.rhythm else "A pattern"
    period, chance = column.length(found.period), p_value(found.p_value)
    text = f"{what} with a period of {period} runs through the data ({chance})"
    return f"{text}, though no component of the model repeats so."


def _list_either(names: Sequence[str], sure: float) -> str:
    """Write "July", "July or August", "July or thereabouts" where even several are not sure."""
    if sure < 0.9:
        return f"{names[0]} or thereabouts"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


@words_for("next values")
def _say_next(claim: Claim, _: Vocabulary) -> str:
    """List the next values with their bands."""
    width = min(each.high - each.low for each in claim.value)
    parts = []
    for each in claim.value:
        mean, low, high = (resolve(value, width) for value in (each.mean, each.low, each.high))
        parts.append(f"{each.at}: {mean} ({low} to {high})")
    return f"{', '.join(parts)}; with 95 % probability within the brackets."


@words_for("what matters most")
def _say_what_matters(claim: Claim, vocabulary: Vocabulary) -> str:
    """Name the inputs that matter most; those that act with others have no size of their own (None)."""
    (first, size), *others = claim.value
    sizes = [by for _, by in claim.value if by is not None]
    if sizes != sorted(sizes, reverse=True):  # ranges where the others are typical: the order is that of the variance
        names = [name for name, _ in others]
        return f"Differences in {vocabulary.target} go most with {first}, then with {first_few(names)}."
    then = [f"{name} ({'with others' if by is None else f'by {number(by)}'})" for name, by in others]
    rest = f", then with {first_few(then)}" if then else ""
    how = "in a way that depends on other inputs"
    if size is not None:
        how = f"which changes it by {number(size)} over its range"
    if not then:
        return f"{vocabulary.target} changes with {first} ({how})."
    return f"Differences in {vocabulary.target} go most with {first} ({how}){rest}."


@words_for("unusual rows")
def _say_unusual(claim: Claim, vocabulary: Vocabulary) -> str:
    """Name the rows that stand out, with what was expected of them."""
    found, parts = claim.value, list[str]()
    number_line = found.column is not None and vocabulary.column(found.column).unit is None
    along = f"{found.column} " if number_line else ""
    if not found.rows:
        few = "" if found.enough else ", as far as this model can tell"
        if found.doubtful is None:
            return f"None of the {found.checked:,} rows stands out from what the others predict{few}."
        most = f"{along}{found.doubtful.at} ({_say_unusual_row(found.doubtful)}, {p_value(found.doubtful.p_value)})"
        text = f"None of the {found.checked:,} rows clearly stands out from what the others predict"
        return f"{text}{few}; nearest to it: {most}."
    for each in found.rows:
        parts.append(f"{along}{each.at} ({_say_unusual_row(each)})")
    more = f", and {found.count - len(parts)} others" if found.count > len(parts) else ""
    stands = "stands" if found.count == 1 else "stand"
    return (
        f"{list_names(parts) if not more else ', '.join(parts) + more} {stands} out from what the other rows predict."
    )


def _say_unusual_row(row: Any) -> str:
    span = abs(row.observed - row.expected)
    observed, expected = (resolve(value, span) for value in (row.observed, row.expected))
    return f"{observed}, expected {expected}"


@words_for("effect")
def _say_effect(claim: Claim, vocabulary: Vocabulary) -> str:
    """Of an input that does nothing, say whether there was time to find out."""
    effect, target = claim.value, vocabulary.target
    size = number(effect.size)
    if effect.low is not None and effect.high - effect.low > 2.0 * KNOWN_SIZE * effect.size:
        size += f" (95 % between {number(effect.low)} and {number(effect.high)})"
    if effect.direction == "hardly matters":
        return f"The input {effect.column} hardly matters."
    if effect.direction == "not in the model":
        return f"The model makes no use of {effect.column}; whether it matters cannot be told from so few rows."
    if effect.direction == "left out":
        return f"The model makes hardly any use of {effect.column}, but its errors go with it: it does matter."
    if effect.direction == "depends on others":
        return f"What {effect.column} does depends on the other inputs{_say_sure(claim.certainty)}."
    if effect.direction == "not clear":
        return f"Whether {target} rises or falls along {effect.column} is not clear: it changes by less than its band."
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
    if effect.direction == "changes":
        return (
            f"Along {effect.column}, {target} changes by {size}: it is lowest near {effect.lowest_at} and highest near "
            f"{effect.highest_at}; whether it turns on the way is not clear."
        )
    ends = (effect.lowest_at, effect.highest_at)
    low, high = ends if effect.direction == "rises" else ends[::-1]
    return f"Along {effect.column}, {target} {effect.direction} by {size} from {low} to {high}."


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
    if horizon.mixed:
        return f"The band {end} is narrower than the spread of the data in some places and as wide in others."
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
    early = "" if horizon.first is None else f" In places it is so from {column.length(horizon.first)} on."
    return f"{start} the band is as wide as the spread of the data themselves: from there on {what}.{early}"


@words_for("forecast is made of")
def _say_makers(claim: Claim, _: Vocabulary) -> str:
    """Say which components the kernels have that make a forecast: others than those that fit best within the data."""
    parts = [f"{each.title[:1].lower()}{each.title[1:]} ({percent(min(each.beyond, 1.0))})" for each in claim.value]
    return (
        "The kernels that fit best are not those that forecast best; in the forecast the weights are: "
        f"{list_names(parts)}."
    )


@words_for("forecast")
def _say_forecast(claim: Claim, vocabulary: Vocabulary) -> str:
    found = claim.value
    width = found.high - found.low
    mean, low, high = (resolve(value, width) for value in (found.mean, found.low, found.high))
    where = f"The forecast of {vocabulary.target} for {found.at}"
    return f"{where} is {mean}, with 95 % probability between {low} and {high}."


DOUBTFUL = {  # where something may be
    "autocorrelation of errors": "Neighbouring errors may be alike",
    "period in errors": "A rhythm may be left in the errors",
    "shape of errors": "The errors may not follow a bell curve",
    "spread of errors": "The errors may not be equally large everywhere",
}
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
        doubt = f": the band may be too {side}." if check.doubtful else "."
        return f"{text}{doubt}" if check.clear else f"{text}: the band is too {side}."
    if check.clear or (claim.kind == "period in errors" and check.place is None):
        few = "" if found.enough or check.doubtful else ", as far as so few rows can tell"
        return f"{(DOUBTFUL if check.doubtful else FINE)[claim.kind]}{few} ({p})."
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


SENTENCES |= {
    "nothing left over": lambda *_: NOTHING_LEFT,
    "errors may depend": lambda claim, _: (
        f"The errors may go with {list_names(claim.value.columns)} ({p_value(claim.value.p_value)})."
    ),
    "errors independent": lambda claim, _: f"The errors go with none of the inputs ({p_value(claim.value.p_value)}).",
}


@words_for("errors depend")
def _say_dependence(claim: Claim, _: Vocabulary) -> str:
    """Say which input errors go with, or which two together."""
    found, p = claim.value, p_value(claim.value.p_value)
    if len(found.columns) > 1:
        together = f"{list_names(found.columns)} together"
        return f"The errors still go with {together} ({p}): the model has not all of what they do."
    how = "" if abs(found.linear) < 0.1 else f"correlation {abs(found.linear):.2f}, "
    return f"The errors still go with {found.columns[0]} ({how}{p}): the model has not all of what it does."


def residual_sentence(checks: Sequence[Any], can_see: bool = True) -> str:
    """Say whether anything is left over, from checks with their sentences."""
    if not checks:
        return TOO_FEW_TO_CHECK
    clear = [check for check in checks if not check.clear and not check.doubtful]
    # whether the band is right is told with how certain it is: not twice, beside what is left over
    found = " ".join(check.sentence for check in clear if check.name != "band" or len(clear) == 1)
    doubts = " ".join(check.sentence for check in checks if check.doubtful)
    if found:
        return found
    return f"Nothing clear is left over, but there is a doubt. {doubts}" if doubts else _nothing(can_see)


def _nothing(can_see: bool) -> str:
    return NOTHING_LEFT if can_see else NOTHING_SEEN


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


@words_for("absent")
def _say_absence(claim: Claim, vocabulary: Vocabulary) -> str:
    return absence_sentences([claim], len(vocabulary.columns))[0]


# What a search on several columns may begin with, by the kind of the first step.
STARTS = {
    "every column": "a kernel on every column", "each column": "a sum of kernels on one column each",
    "usual parts": "the usual parts of a series", "jump": "a jump of the level",
}  # fmt: skip


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


# What was chosen by the data, by the name of the learner, and why, by the rule; `{...}` are facts of the table.
CHOSEN = {
    "search": "a search over sums and products of kernels",
    "nkn": "a network of kernels",
    "kfo": "a kernel without a formula for a support vector machine",
    "rbf": "the usual radial kernel for a support vector machine",
}
REASONS = {
    "one column": "with {inputs} and {rows} a search sees trends, rhythms and jumps, and can forecast",
    "categories": "with {inputs} and {rows} a search sees which categories differ, and what they do together",
    "many rows": "with {inputs} and {rows} it comes nearer in that time than a search, which would try few kernels",
    "several columns": "with {inputs} and {rows} a search begins with kernels on all inputs at once and on each alone, "
    "and builds on the best",
    "stream": "{rows} are more than fit into memory: a search learns from a sample, and is then fitted to all of them",
    "classes": "the target is one of {classes}",
}


@words_for("chosen learner")
def _say_chosen(claim: Claim, _: Vocabulary) -> str:
    """Say which learner was chosen by the data, why, and how long it may take, or took."""
    chosen = claim.value
    facts = chosen.facts
    reason = REASONS[chosen.reason].format(
        rows=write_count(facts.rows, "row"),
        inputs=_list_inputs(facts),
        classes=f"{facts.classes} classes",
    )
    limit = "as long as it needs" if chosen.seconds is None else f"at most {duration(chosen.seconds)}"
    took = "" if chosen.took is None else f"; learning took {duration(chosen.took)}"
    may = "It may take" if chosen.took is None else "It was allowed"
    return f"Mercer chose {CHOSEN[chosen.learner]}: {reason}. {may} {limit}{took}."


def _list_inputs(facts: Any) -> str:
    """Say how many inputs a table has, and what they are: "5 inputs (1 of dates, 2 of categories)"."""
    text = "one input" if facts.columns == 1 else write_count(facts.columns, "input")
    kinds = {"dates": facts.dates, "categories": facts.categories}
    some = [f"{count} of {kind}" for kind, count in kinds.items() if 0 < count < facts.columns]
    every = [f" of {kind}" for kind, count in kinds.items() if count and count == facts.columns]
    text += "".join(every[:1]) or (f" ({', '.join(some)})" if some else "")
    return text + (f" on a grid of {' x '.join(f'{side:,}' for side in facts.grid)}" if facts.grid else "")


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
