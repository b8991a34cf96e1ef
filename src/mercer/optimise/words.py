"""All sentences about a study: facts in, words out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mercer.explain.wording import list_names, number, percent, resolve, wrap, write_count

if TYPE_CHECKING:
    from mercer.optimise.effects import VarianceShare
    from mercer.optimise.explanation import GainFact, PartFact, StudyExplanation
    from mercer.optimise.trials import Best, Suggestion

REASONS = {
    "one of the first": "at random: one of the first trials",
    "all values are equal": "at random: all values so far are equal",
    "bounds by group": "the best bound of each group of inputs that act together",
    "samples by group": "the minimum of a function drawn for each group of inputs that act together",
    "bound": "the best bound over all inputs",
    "sample": "the minimum of a function drawn from the model, over all inputs",
    "expected improvement": "the largest expected improvement over all inputs",
    "chosen elsewhere": "chosen by somebody else",
    "random": "the best of random points, because better ones have been or are being tried",
}
WHYS = {
    "groups are small": "because the function is taken as a sum over groups of at most three inputs",
    "a group is large": "because more than three inputs act together",
    "constraints tie groups": "because constraints tie inputs together",
    "nothing is uncertain": "because the bounds of the groups lead to nothing new",
    "not separable": "because an improvement is one of the whole, whatever the groups",
    "the structure is doubted": "away from the best, because the structure is doubted: it expects nothing more",
}
PURPOSES = {
    "first": "to begin with, at random",
    "improve": "to improve on the best",
    "explore": "to explore: probably no better, but it teaches",
    "waiting": "being tried already",
}
ONLY_NOISE = (
    "No effect of any input can be told from noise so far: the inputs explain the values no better than chance."
)
MOST_NOTES = 5
CERTAIN = 0.99


def give_reason(way: str, why: str | None = None) -> str:
    """Say how a point was chosen, and why so."""
    reason = REASONS.get(way, way)
    return reason if why is None else f"{reason}, {WHYS.get(why, why)}"


def note_of_trial(place: int, note: str) -> str:
    """Say something about one trial."""
    return f"Trial {place + 1}: {note}."


def show_score(value: float) -> str:
    """Write a value of the function with five digits: the last steps towards an optimum are small."""
    text = resolve(value, 0.01 * abs(value)) if value else "0"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def show_expected(mean: float, spread: float) -> str:
    """Write what is expected as finely as it is known: "66.16 ± 0.05"."""
    short = f"{spread:.2g}"
    return f"{resolve(mean, 10.0 * spread)} ± {number(spread) if 'e' in short else short}"


def show_probability(value: float) -> str:
    """Write a probability; none that was computed among a few structures is certain."""
    if value > CERTAIN:
        return "over 99 %"
    return "under 1 %" if value < 1.0 - CERTAIN else f"{100 * value:.0f} %"


def show_value(value: Any, span: float | None) -> str:
    """Write the value of an input: a number as finely as its range asks for."""
    return resolve(float(value), span) if isinstance(value, float) else str(value)


def show_point(x: Any, spans: dict[str, float | None]) -> str:
    """Write a point: "temperature = 55.1, solvent = b"."""
    values = x.values() if isinstance(x, dict) else [float(value) for value in x]
    cells = zip(spans.items(), values, strict=True)
    return ", ".join(f"{name} = {show_value(value, span)}" for (name, span), value in cells)


def show_partition(groups: Sequence[Sequence[str]]) -> str:
    """Write which inputs act together: "(a, b) + (c)"."""
    return " + ".join(f"({', '.join(group)})" for group in groups)


# ------------------------------------------------------------------------------------------------------- the paragraphs


def tell_all(found: StudyExplanation) -> list[str]:
    """Return all paragraphs."""
    structure = " ".join([*tell_structure(found), *tell_inputs(found)])
    parts = [tell_best(found), structure, tell_gain(found.gain), *tell_suggestions(found), tell_model(found)]
    return [part for part in [*parts, *tell_notes(found)] if part]


def wrap_all(paragraphs: Sequence[str], width: int) -> str:
    """Return paragraphs as lines."""
    return "\n".join(line for paragraph in paragraphs for line in wrap(paragraph, "", width))


def count_trials(found: StudyExplanation) -> str:
    """Say how many trials there are: "30 trials, 2 of them failed"."""
    trials = write_count(found.trials, "trial")
    return f"{trials}, {found.failed} of them failed" if found.failed else trials


def tell_best(found: StudyExplanation) -> str:
    """Say what the best point is."""
    if found.best is None:
        return f"There is no value yet ({count_trials(found)})." if found.trials else "There is no trial yet."
    best, kind = found.best, "lowest" if found.minimize else "highest"
    if best.better is not None and best.mean is not None:
        return (
            f"The best by the model is trial {best.number + 1}: {number(best.mean)} is expected there without noise "
            f"({show_score(best.y)} was seen). It is at {show_point(best.x, found.spans)}.{_tell_allowed(best)} "
            f"The {kind} {found.target} so far, {show_score(best.better)}, is put down to noise."
        )
    text = f"The {kind} {found.target} so far is {show_score(best.y)} (trial {best.number + 1})"
    noise = found.model.noise if found.model is not None and best.noisy else math.inf
    lucky = best.mean is not None and abs(best.mean - best.y) > 0.5 * noise
    if lucky and best.mean is not None and number(best.mean) != number(best.y):
        text += f"; {number(best.mean)} is expected there without noise"
    return f"{text}. It was found at {show_point(best.x, found.spans)}.{_tell_allowed(best)}"


def _tell_allowed(best: Best) -> str:
    return "" if best.allowed else " It is not allowed: no trial so far is within the bounds and the constraints."


def tell_structure(found: StudyExplanation) -> list[str]:
    """Say which inputs act together and which alone, as far as that is known."""
    if not found.beyond_noise:
        return [ONLY_NOISE]
    if len(found.spans) < 2:
        return []
    if not found.partitions:
        return ["It is too early to say which inputs act together."]
    first = found.partitions[0]
    if found.model is not None and found.model.origin == "given":
        return [f"By the kernel that was given, the function is {show_partition(first.groups)}."]
    if found.model is not None and found.model.origin == "learned":
        return [f"By the kernel that was learned, the function is {show_partition(first.groups)}."]
    if not found.settled:
        early = f": that takes {found.needed} trials" if found.trials - found.failed < found.needed else ""
        if found.searching and not early:
            early = ": the search goes on with the next trials"
        text = (
            f"Which inputs act together is not settled yet{early}. Of the structures looked at, the likeliest is "
            f"{show_partition(first.groups)} (probability {show_probability(first.probability)})"
        )
        if len(found.partitions) > 1:
            second = found.partitions[1]
            text += f", then {show_partition(second.groups)} ({show_probability(second.probability)})"
        return [f"{text}."]
    return _tell_groups(found)


def _tell_groups(found: StudyExplanation) -> list[str]:
    sentences = []
    together = [group for group in found.groups if len(group.inputs) > 1]
    alone = [group for group in found.groups if len(group.inputs) == 1]
    for group in together:
        who = "All inputs" if len(group.inputs) == len(found.spans) else list_names(group.inputs)
        sentences.append(f"{who} act together (probability {show_probability(group.probability)}).")
    if alone:
        least = min(group.probability for group in alone)
        who = list_names([group.inputs[0] for group in alone])
        chance = f"probability {'' if len(alone) == 1 else 'of each '}{show_probability(least)}"
        if len(alone) > 1 and least <= CERTAIN:
            chance = chance.replace("of each ", "of each at least ")
        sentences.append(f"{who} {'acts' if len(alone) == 1 else 'each act'} alone ({chance}).")
    return sentences


def tell_inputs(found: StudyExplanation) -> list[str]:
    """Say which inputs matter most, and which hardly."""
    if not found.inputs or len(found.spans) < 2 or not found.beyond_noise:
        return []
    sentences = []
    main = [each for each in found.inputs if not each.hardly_matters][:3]
    if main:
        shown = list_names([f"{each.name} ({percent(each.share.mean)})" for each in main])
        sentences.append(f"What counts most, by the variance that goes with it: {shown}.")
    hardly = [each for each in found.inputs if each.hardly_matters]
    if hardly:
        most = percent(max(each.share.high for each in hardly))
        verb = "matters" if len(hardly) == 1 else "matter"
        least = "under 0.1 %" if most.startswith("<") else f"at most {most}"
        sentences.append(f"{list_names([each.name for each in hardly])} hardly {verb} ({least} of it, with 95 %).")
    return sentences


def tell_share(part: PartFact) -> str:
    """Say how much a part makes up."""
    share, interval = part.share, show_interval(part.share)
    if percent(share.high).startswith("<"):
        return "under 0.1 % of the variance"
    return f"{percent(share.mean)} of the variance" + (f" ({interval} with 95 %)" if interval else "")


def show_interval(share: VarianceShare) -> str:
    """Write the interval of a share: "80 % to 86 %"; nothing where its ends look the same."""
    if percent(share.high).startswith("<"):
        return "under 0.1 %"
    low, high = percent(share.low), percent(share.high)
    return "" if low == high else f"{low} to {high}"


def tell_gain(gain: GainFact) -> str:
    """Say whether to go on, and why."""
    if gain.expected is None or gain.spread is None:
        why = {
            "equal values": "all values are equal",
            "no model": "a model needs ten trials with values that differ",
            "noise alone": "what the inputs do cannot be told from noise",
        }[gain.reason]
        return f"It is too early to say what is left to gain: {why}."
    expected = f"about {number(gain.expected)} more is expected from the next 100 trials"
    against = f"{percent(gain.expected / gain.spread if gain.spread else 0.0)} of the spread of the values so far"
    against += f" ({number(gain.spread)})"
    if gain.verdict == "worth going on":
        return f"It is worth going on: {expected}, {against}."
    if gain.verdict == "too early":
        but = "there are few trials to tell from" if gain.reason == "few trials" else "the model is a first guess"
        return f"It is too early to stop: {expected}, {against}, but {but}."
    if gain.verdict == "nothing to be expected":
        return f"Hardly anything is left to gain: {expected}, {against}. You can stop."
    if gain.reason == "against the noise" and gain.noise is not None:
        return f"There is little left to gain: {expected}, less than the noise of one trial ({number(gain.noise)})."
    return f"There is little left to gain: {expected}, {against}."


def tell_suggestions(found: StudyExplanation) -> list[str]:
    """Say what each pending suggestion is for; those that are being tried already have no number, and come last."""
    new = [each for each in found.suggestions if each.purpose != "waiting"]
    waiting = [each for each in found.suggestions if each.purpose == "waiting"]
    return [
        *(f"Next {place}: {show_point(x.x, found.spans)}, {tell_purpose(x)}." for place, x in enumerate(new, start=1)),
        *(f"{PURPOSES['waiting'].capitalize()}: {show_point(each.x, found.spans)}." for each in waiting),
    ]


def tell_purpose(suggestion: Suggestion) -> str:
    """Say what a suggestion is for and what is expected of it."""
    text = PURPOSES[suggestion.purpose]
    if suggestion.mean is None or suggestion.spread is None:
        return text
    return f"{text} ({show_expected(suggestion.mean, suggestion.spread)} expected)"


def tell_model(found: StudyExplanation) -> str:
    """Say what predicts."""
    if found.model is None:
        return ""
    scale = "the values as they are"
    if found.model.scale == "log":
        scale = "the logarithm of the distance to the best, which was nearer to the last trials"
    ways = dict.fromkeys(each.reason for each in found.suggestions if each.purpose != "waiting")
    asked = "" if found.acquisition == "auto" else f" (acquisition {found.acquisition!r})"
    why = f" How the suggestions were chosen{asked}: {'; '.join(ways)}." if ways else ""
    if not found.beyond_noise:
        return f"The model predicts {scale}.{why}"
    noise = f"; the noise has a standard deviation of {number(found.model.noise)}"
    if found.best is not None and not found.best.noisy:
        noise = f", and leaves a standard deviation of {number(found.model.noise)} unexplained"
    return f"The model predicts {scale}{noise}.{why}"


def tell_notes(found: StudyExplanation) -> list[str]:
    """Say what was unusual about the trials."""
    sentences = []
    if found.failed:
        like = "it" if found.failed == 1 else "them"
        sentences.append(f"{write_count(found.failed, 'trial')} failed; places like {like} are avoided.")
    rest = len(found.notes) - MOST_NOTES
    return [*sentences, *found.notes[:MOST_NOTES], *([f"There are {rest} more notes."] if rest > 0 else [])]


def tell_progress(done: int, total: int, best: Best | None, gain: float | None) -> str:
    """Say how far an optimisation is, in one line."""
    text = f"{done} of {total}"
    text += "; no value yet" if best is None else f"; best {show_score(best.y)}"
    return text if gain is None else f"{text}; {number(gain)} more to be expected"


# ------------------------------------------------------------------------------------------------------------ the page


def tell_headline(found: StudyExplanation) -> str:
    """Say what was done, under the title of the page."""
    inputs = write_count(len(found.spans), "input")
    goal = f"{'lowest' if found.minimize else 'highest'} {found.target}"
    return f"{count_trials(found)}, {inputs}; the goal is the {goal}."


def name_part(part: PartFact) -> str:
    """Name an additive part: "temperature", "time and dose"."""
    return list_names(part.inputs)


def describe_progress(found: StudyExplanation) -> str:
    """Describe the picture of the best so far."""
    kind = "lowest" if found.minimize else "highest"
    return f"{count_trials(found)} by number, and the {kind} so far as a line. {tell_best(found)}"


def describe_effects(found: StudyExplanation) -> str:
    """Say how to read the pictures of the parts."""
    if found.model is None:
        return ""
    if len(found.parts) == 1:
        return "The effect is shown around its average; dots are the trials."
    text = "The function is taken as a sum of these parts. Each is shown around its own average; dots are the trials "
    return f"{text}less the other parts, on a map the trials themselves."


def tell_left_out(parts: Sequence[PartFact], most: int) -> str:
    """Say which parts are not drawn, and why."""
    large = [part for part in parts[:most] if len(part.inputs) > 2]
    sentences = [
        f"{name_part(part)} act together in the model: an effect of {len(part.inputs)} inputs is not drawn "
        f"({tell_share(part)})."
        for part in large
    ]
    if len(parts) > most:
        sentences.append(f"{write_count(len(parts) - most, 'smaller part')} not drawn.")
    return " ".join(sentences)
