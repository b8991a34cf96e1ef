"""What other series have taught a search: what the numbers of each kind of part are like, and which parts occur.

    p(numbers)    Gaussians on free numbers: logarithms, and the place of a line's zero; by kind of base kernel, alone
                  or in a product, and by what the step is. Lengths are counted in steps of the series, which is what
                  they have in common (a month is a month in a series of four years and in one of forty); the target
                  has variance one.
    p(structure)  how many parts a kernel has, how often each kind is a summand or a factor, how often two parts are
                  multiplied, and how often a product has the same kind twice: the logarithms of these add up.

Both are frequencies in a small file, `experience.json` in this folder; benchmarks/search_learn.py makes it. A period is
known beforehand where the step is: most of them are the season, and then it is no number that was found by looking.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import stats

from mercer.errors import InputError
from mercer.fitting.periods import shortest_period, typical_gap
from mercer.fitting.problem import Problem
from mercer.fitting.starts import Frame, GaussianPrior, LearnedPrior
from mercer.fitting.uncertainty import average_evidence
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product, Sum
from mercer.kernels.parameters import Slot, layout
from mercer.kernels.text import parse

FORMAT = "mercer search experience"
VERSION = 1
SEASONS = {"quarter": 4, "day": 7, "month": 12, "hour": 24, "week": 52}  # steps in a season
NO_SEASON = "none"
CYCLES = 3  # of a season that a series must show
UNEVEN = 0.25  # of a step: by how much gaps may differ, as months do
CHANCE = 0.01  # of a series without a season that has one by the test
ALIKE = 0.1  # of the variance: patterns that explain it alike
SMALLEST = 1e-12  # share of the squares of a series below which rounding begins
AT_SEASON = 0.1  # log of a period: one no further from the season is the season
SEASON_SPREAD = 0.03  # around it: what a few cycles leave open
FURTHER = 0.5  # of the frequency, for each part more than any kernel had that was learned from


@dataclass(frozen=True)
class StepExperience:
    """What was learned for one kind of step, by keys such as "SE.lengthscale" (alone) and "SE*.lengthscale" (a factor).

    numbers : centre and spread of a free number; "noise" is one. parts : log frequency of a kind of part at its place.
    sizes : log frequency of kernels of 1, 2, 3, ... parts. multiplied, added : log frequency of two parts being so.
    again : log frequency of a factor being of a kind that its product has already. at_season : share of periods.
    """

    numbers: Mapping[str, tuple[float, float]]
    parts: Mapping[str, float]
    sizes: tuple[float, ...]
    multiplied: float
    added: float
    again: float
    at_season: float
    series: int

    def log_frequency(self, kernel: Expression) -> float:
        """Return the logarithm of how often kernels of this structure occur, up to a constant."""
        found = list(parts_of(kernel))
        last = len(self.sizes)
        size = self.sizes[min(len(found), last) - 1] + max(0, len(found) - last) * math.log(FURTHER)
        rarest = min(self.parts.values())
        kinds = sum(self.parts.get(key, rarest) for key in found)
        products, sums, again = count_joins(kernel)
        return size + kinds + products * self.multiplied + sums * self.added + again * self.again

    def number(self, key: str) -> tuple[float, float] | None:
        """Return centre and spread of a free number; what is known of it alone serves for a factor; None: nothing."""
        return self.numbers.get(key) or self.numbers.get(key.replace("*", ""))


def parts_of(kernel: Expression, factor: bool = False) -> Iterator[str]:
    """Yield the kind of every part with its place: "SE" as a summand, "SE*" within a product."""
    if isinstance(kernel, Base):
        yield f"{kernel.symbol}*" if factor else kernel.symbol
    for child in kernel.children:
        yield from parts_of(child, factor or isinstance(kernel, Product))


def count_joins(kernel: Expression) -> tuple[int, int, int]:
    """Return how many parts are multiplied, how many added, and how many factors are of a kind that was there."""
    products = sums = again = 0
    for child in kernel.children:
        more = count_joins(child)
        products, sums, again = products + more[0], sums + more[1], again + more[2]
    if isinstance(kernel, Product):
        products += len(kernel.children) - 1
        kinds = Counter(child.symbol for child in kernel.children if isinstance(child, Base))
        again += sum(kinds.values()) - len(kinds)
    elif isinstance(kernel, Sum):
        sums += len(kernel.children) - 1
    return products, sums, again


def is_one_number(slot: Slot) -> bool:
    """Tell whether a parameter is one number that is fitted."""
    return slot.fitted and slot.size == 1 and slot.spec.domain.free_size(1) == 1


# ------------------------------------------------------------------------------------------------- for one series


@dataclass(frozen=True)
class StepSeason:
    """What the step of a series is by its season ("month": twelve steps repeat), and the period."""

    kind: str
    period: float


def is_series(column: Array) -> bool:
    """Tell whether places are steps, some of which may be missing: no place twice, and gaps that are whole steps."""
    gap = typical_gap(column)
    return gap > 0 and len(np.unique(column)) == len(column) and shortest_period(column) < 3.5 * gap


def find_season(column: Array, y: Array) -> StepSeason | None:
    """Return the season of an evenly spaced series, or None: what is left beside a moving average over it repeats.

    Of the seasons that there are (4, 7, 12, 24, 52 steps) it is the shortest whose mean pattern explains about as much
    as that of any, for as many numbers as it has, where that is clear by an F-test: a pattern of 12 steps repeats after
    24 as well.
    """
    order = np.argsort(column, kind="stable")
    gap, values = typical_gap(column), y[order]
    if gap <= 0 or np.any(np.abs(np.diff(column[order]) / gap - 1.0) > UNEVEN):
        return None  # a lag is a number of rows
    gap = float(np.ptp(column)) / (len(y) - 1)  # of all, months having more days and less
    clear: dict[str, float] = {}
    for kind, steps in SEASONS.items():
        if len(y) >= CYCLES * steps:
            explained, chance = _explain_by_season(values, steps)
            if chance < CHANCE:
                clear[kind] = explained
    shortest = (kind for kind, explained in clear.items() if explained > max(clear.values()) - ALIKE)
    return next((StepSeason(kind, gap * SEASONS[kind]) for kind in shortest), None)


def _explain_by_season(values: Array, steps: int) -> tuple[float, float]:
    """Return the share of variance that a repeating pattern explains, adjusted for its numbers, and its p-value."""
    window = np.full(steps + 1 - steps % 2, 1.0 / steps)
    if steps % 2 == 0:  # as many weights as make a season, centred
        window[[0, -1]] *= 0.5
    half = len(window) // 2
    beside = values[half : len(values) - half] - np.convolve(values, window, "valid")
    beside = beside - beside.mean()
    total = float(beside @ beside)
    if total <= SMALLEST * float(values @ values):
        return 0.0, 1.0
    place = np.arange(len(beside)) % steps
    pattern = np.bincount(place, beside) / np.bincount(place)
    left = float(np.sum((beside - pattern[place]) ** 2))
    free = len(beside) - steps
    ratio = (total - left) / (steps - 1) / max(left / free, SMALLEST * total)
    return 1.0 - (left / free) / (total / (len(beside) - 1)), float(stats.f.sf(ratio, steps - 1, free))


@dataclass(frozen=True)
class Known:
    """Experience for the series at hand."""

    step: StepExperience
    season: StepSeason | None
    gap: float
    low: float
    span: float

    def prior_of(self, kernel: Expression) -> LearnedPrior:
        """Return centre and spread of the numbers of a kernel of which something is known."""
        keys = list(parts_of(kernel))
        bases = [number for number, owner in enumerate(kernel.owners()) if isinstance(owner, Base)]
        entries: list[tuple[str, float, float]] = []
        for slot in layout(kernel).slots:
            if not is_one_number(slot) or slot.leaf not in bases:
                continue
            found = self.step.number(f"{keys[bases.index(slot.leaf)]}.{slot.spec.name}")
            if found is None or slot.spec.name == "period":
                continue
            centre, spread = found
            if slot.spec.unit == "length":
                centre += math.log(self.gap)
            elif slot.spec.unit == "position":
                centre, spread = self.low + centre * self.span, spread * self.span
            entries.append((slot.path, centre, spread))
        noise = self.step.number("noise")
        return LearnedPrior((*entries, *([("noise", *noise)] if noise is not None else [])))

    def log_evidence(self, problem: Problem, point: Array) -> float:
        """Return the log evidence averaged over the prior (Laplace), a period at the season being known beforehand."""
        assert problem.prior is not None
        if self.season is None:
            return average_evidence(problem, point)
        centre, spread, mass = problem.prior.centre.copy(), problem.prior.spread.copy(), 0.0
        away = math.log(self.season.period)
        for place, path in enumerate(problem.layout.free_paths()):
            if path.endswith(".period"):
                at = abs(point[place] - away) < AT_SEASON
                mass += math.log(self.step.at_season if at else 1.0 - self.step.at_season)
                if at:
                    centre[place], spread[place] = away, SEASON_SPREAD
        return mass + average_evidence(replace(problem, prior=GaussianPrior(centre, spread)), point)


@dataclass(frozen=True)
class SearchPriors:
    """What `GrammarSearch(priors=...)` takes: experience by kind of step ("month", "quarter", ..., "none")."""

    steps: Mapping[str, StepExperience]
    sources: tuple[str, ...] = ()

    def for_series(self, column: Array, y: Array) -> Known | None:
        """Return what is known of a series; None where the places are no steps of one."""
        if not is_series(column):
            return None
        season, frame = find_season(column, y), Frame.of(column[:, None])
        names = [NO_SEASON] if season is None else [season.kind, "month", "quarter"]
        step = next(self.steps[name] for name in [*names, *self.steps] if name in self.steps)
        return Known(step, season, frame.gap[0], frame.low[0], frame.span[0])

    def save(self, path: str | Path) -> None:
        """Write the priors to a JSON file."""
        Path(path).write_text(to_json(self), encoding="utf-8")


# --------------------------------------------------------------------------------------------------------- learning


@dataclass(frozen=True)
class Example:
    """A kernel found in a series of one kind of step, by places and values of variance one."""

    kernel: Expression
    noise: float
    gap: float
    low: float
    span: float
    season: float  # in places; 0: none


@dataclass(frozen=True)
class FrequencyPolicy:
    """How frequencies become priors."""

    least: int = 4  # values of a number: of fewer there is no spread to speak of, and the weak prior stands
    least_spread: float = 0.7  # no number is known better than to a factor of two
    most_spread: float = 2.0  # that of the weak priors: beyond it nothing is known
    smoothing: float = 0.5  # added to every count: what was never seen may occur
    most_parts: int = 8
    # A kind twice in a product is a polynomial, or waves that beat: seldom meant, and wild beyond the data. Searches by
    # BIC have it more often than that, which is what experience is to mend: a judgement, and not learned.
    most_again: float = 0.01


NORMAL = 1.4826  # standard deviations in a median distance from the median, of a Gaussian
KINDS = ("SE", "PER", "LIN", "RQ", "M12", "C")


def learn_step(examples: Sequence[Example], policy: FrequencyPolicy | None = None) -> StepExperience:
    """Learn from kernels that searches found in series with the same kind of step."""
    policy = policy or FrequencyPolicy()
    values: dict[str, list[float]] = {"noise": [math.log(each.noise) for each in examples]}
    parts, sizes, joins, periods = Counter[str](), Counter[int](), np.zeros(3), list[bool]()
    for each in examples:
        keys = list(parts_of(each.kernel))
        parts.update(keys)
        sizes[min(len(keys), policy.most_parts)] += 1
        joins += count_joins(each.kernel)
        for key, value in _numbers_of(each, keys):
            values.setdefault(key, []).append(value)
            if key.endswith(".period") and each.season > 0:
                periods.append(abs(value + math.log(each.gap / each.season)) < AT_SEASON)
    numbers = {key: _describe(many, policy) for key, many in values.items() if len(many) >= policy.least}
    places = [kind + place for place in ("", "*") for kind in KINDS]
    more = policy.smoothing
    total = {place: sum(parts[k] + more for k in places if k.endswith("*") == bool(place)) for place in ("", "*")}
    by_size = [sizes[n] + more for n in range(1, policy.most_parts + 1)]
    products, sums, again = (float(count) for count in joins)
    joined = products + sums + 2.0 * more
    return StepExperience(
        {key: found for key, found in numbers.items() if not key.endswith(".period")},
        {k: math.log((parts[k] + more) / total["*" if k.endswith("*") else ""]) for k in places},
        tuple(math.log(count / sum(by_size)) for count in by_size),
        math.log((products + more) / joined), math.log((sums + more) / joined),
        math.log(min((again + more) / (products + 2.0 * more), policy.most_again)),
        (sum(periods) + more) / (len(periods) + 2.0 * more),
        len(examples),
    )  # fmt: skip


def _numbers_of(example: Example, keys: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the fitted numbers of a kernel as they are learned: lengths in steps, places of zeros in ranges."""
    bases = [number for number, owner in enumerate(example.kernel.owners()) if isinstance(owner, Base)]
    owners = list(example.kernel.owners())
    for slot in layout(example.kernel).slots:
        if not is_one_number(slot) or slot.leaf not in bases:
            continue
        value = float((owners[slot.leaf].parameter(slot.spec.name).values or (math.nan,))[0])
        key = f"{keys[bases.index(slot.leaf)]}.{slot.spec.name}"
        if slot.spec.unit == "position":
            yield key, (value - example.low) / example.span
        elif value > 0:
            yield key, math.log(value / example.gap if slot.spec.unit == "length" else value)


def _describe(many: Sequence[float], policy: FrequencyPolicy) -> tuple[float, float]:
    middle = float(np.median(many))
    spread = NORMAL * float(np.median(np.abs(np.array(many) - middle)))
    return middle, float(np.clip(spread, policy.least_spread, policy.most_spread))


# ------------------------------------------------------------------------------------------------------------ files


def to_plain(priors: SearchPriors) -> dict[str, Any]:
    """Return priors as plain data, numbers rounded to three digits."""
    steps = {
        name: {
            "series": each.series,
            "numbers": {key: [round(c, 3), round(s, 3)] for key, (c, s) in sorted(each.numbers.items())},
            "parts": {key: round(value, 3) for key, value in sorted(each.parts.items())},
            "sizes": [round(value, 3) for value in each.sizes],
            **{key: round(getattr(each, key), 3) for key in ("multiplied", "added", "again", "at_season")},
        }
        for name, each in priors.steps.items()
    }
    return {"format": FORMAT, "version": VERSION, "sources": list(priors.sources), "steps": steps}


def to_json(priors: SearchPriors) -> str:
    """Return priors as JSON text."""
    return json.dumps(to_plain(priors), indent=1) + "\n"


def from_plain(plain: Any) -> SearchPriors:
    """Read what `to_plain` made; anything else is an error in a sentence."""
    try:
        if plain["format"] != FORMAT or plain["version"] != VERSION:
            raise ValueError(f"format {plain['format']!r}, version {plain['version']!r}")
        steps = {str(name): _read_step(each) for name, each in plain["steps"].items()}
        if not steps:
            raise ValueError("no steps")
        return SearchPriors(steps, tuple(map(str, plain["sources"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"this is no file of priors for a search: {error}") from None


def _read_step(plain: Any) -> StepExperience:
    numbers = {str(key): (float(c), float(s)) for key, (c, s) in plain["numbers"].items()}
    if not all(spread > 0 for _, spread in numbers.values()):
        raise ValueError("a spread that is not above zero")
    parts = {str(key): float(value) for key, value in plain["parts"].items()}
    sizes, again, at_season = tuple(map(float, plain["sizes"])), float(plain["again"]), float(plain["at_season"])
    if not (parts and sizes and 0 < at_season < 1):
        raise ValueError("no parts, no sizes, or a share of periods at the season that is none")
    joins = float(plain["multiplied"]), float(plain["added"])
    return StepExperience(numbers, parts, sizes, *joins, again, at_season, int(plain["series"]))


@lru_cache(maxsize=1)
def packaged_priors() -> SearchPriors:
    """Return what was learned and comes with the package."""
    text = resources.files("mercer.learners").joinpath("experience.json").read_text(encoding="utf-8")
    return from_plain(json.loads(text))


@runtime_checkable
class ForecastPriors(Protocol):
    """What `mercer.learn_priors` returns: for each kind of step, members with a kernel, a scale and a prior."""

    @property
    def steps(self) -> Mapping[str, Any]: ...
    @property
    def sources(self) -> tuple[str, ...]: ...


def read_priors(given: Any) -> SearchPriors | None:
    """Read the setting `priors`: None, "experience", what `mercer.learn_priors` returned, or a file of either."""
    if given is None or isinstance(given, SearchPriors):
        return given
    if isinstance(given, str) and given == "experience":
        return packaged_priors()
    if isinstance(given, Mapping):
        return from_plain(given)
    if isinstance(given, ForecastPriors):
        return from_forecasts(given)
    raise InputError(
        f"priors must be 'experience', None, or what mercer.learn_priors returned, not {given!r:.80}; "
        "priors='weak' is for kernels that are given"
    )


def from_forecasts(given: ForecastPriors) -> SearchPriors:
    """Return what priors for forecasts say of the parts of a search; of all else, what comes with the package.

    Their lengths are in seasons, here in steps. Their members are compositions with walks, which a search does not
    have: its structures are those of the package.
    """
    usual, steps = packaged_priors(), dict[str, StepExperience]()
    for name, found in given.steps.items():
        kind = name if name in SEASONS else NO_SEASON
        base = usual.steps.get(kind) or next(iter(usual.steps.values()))
        numbers = dict(base.numbers)
        for member in found.members:
            if member.scale == "level":
                numbers |= numbers_of_member(parse(member.kernel), member.prior, SEASONS.get(name, 1))
        steps[kind] = replace(base, numbers=numbers, series=int(found.series))
    return SearchPriors({**usual.steps, **steps}, tuple(given.sources))


def numbers_of_member(kernel: Expression, prior: LearnedPrior, season: int) -> dict[str, tuple[float, float]]:
    """Return the numbers of a composition for forecasts of which a search has the parts too, lengths in steps."""
    keys, found = list(parts_of(kernel)), dict[str, tuple[float, float]]()
    for path, centre, spread in prior.entries:
        if path == "noise":
            found[path] = centre, spread
            continue
        number, name = int(path.split(":")[0]), path.split(".")[-1]
        key = keys[number]
        if key.rstrip("*") not in ("PER", "SE"):  # lines begin elsewhere there, and beside a walk M12 is what is left
            continue
        is_length = name == "lengthscale" and not key.startswith("PER")
        found[f"{key}.{name}"] = centre + (math.log(season) if is_length else 0.0), spread
    return found
