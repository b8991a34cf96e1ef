"""What other series have taught: for each kind of step some compositions with priors, how often each holds, and bands.

A *member* is a kernel on a scale of the target, with a Gaussian prior on each of its free numbers (METHODS 11). Inputs
are counted in seasons (in steps where there is no season), the target has mean zero and variance one on its scale. What
was learned is a JSON file of numbers: `experience.json` in this folder, made by benchmarks/forecast_learn.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from mercer.errors import InputError
from mercer.fitting.starts import LearnedPrior
from mercer.forecast.scales import scale_called
from mercer.kernels.domains import Array

FORMAT = "mercer experience"
VERSION = 1
FARTHEST_RELATIVE = 2.0  # log of how far from the typical a relative deviation counts: most series are nearer
FEW_ROWS = 8  # of a series: so few leave as much uncertainty in the parameters as there is in the values to come
NO_SEASON = "year"  # serves where nothing was learned for series without a season


@dataclass(frozen=True)
class Member:
    """A kernel on a scale, the prior on its parameters, and how much weight it has before the data are seen."""

    scale: str
    kernel: str
    prior: LearnedPrior
    weight: float = 1.0


@dataclass(frozen=True)
class Experience:
    """What was learned for one kind of step.

    widening, growth, settling : deviations are multiplied by widening * horizon^growth * (1 + 8 / rows)^settling,
        the horizon counted in steps: what a few rows say of the parameters is less certain. Numbers estimated from
        rows make the variance of what comes larger by 1 + numbers / rows, so about 0.5 is expected of settling.
    shrinkage, typical : of series above zero, deviations are multiplied by (typical / relative)^shrinkage as well,
        relative being the deviation over the mean of the series: what a series says of its own uncertainty is
        uncertain; one that seems unusually regular is less so than it seems, and one that seems erratic too.
    lean : middles of series above zero are moved up by so many deviations (as fitted, not widened): what grows or fades
        by per cent bends upwards, and a line through it is too low at its end.
    freedom : of Student's t. series : how many were learned from.
    """

    members: tuple[Member, ...]
    widening: float = 1.0
    growth: float = 0.0
    freedom: float = 30.0
    series: int = 0
    settling: float = 0.0
    lean: float = 0.0
    shrinkage: float = 0.0
    typical: float = 0.1

    def widen(self, steps: Array, rows: int, relative: Array | None = None) -> Array:
        """Return what standard deviations are multiplied by at each step ahead of a series with that many rows.

        relative : the deviations over the mean of the series, at each step; None where values are not all above zero.
        """
        wider = np.asarray(self.widening * steps**self.growth * (1 + FEW_ROWS / rows) ** self.settling)
        if relative is None:
            return wider
        unusual = np.clip(np.log(relative / self.typical), -FARTHEST_RELATIVE, FARTHEST_RELATIVE)
        return np.asarray(wider * np.exp(-self.shrinkage * unusual))


@dataclass(frozen=True)
class Priors:
    """What `Forecaster(priors=...)` takes: experience by kind of step and whether there is a season."""

    steps: Mapping[str, Experience]
    sources: tuple[str, ...] = ()

    def of(self, step: str, seasonal: bool) -> Experience:
        """Return the experience for a kind of step ("month", "quarter", "year", "week", "day", "hour", "none").

        Where it is that of another kind, it does not lean: the growth of a year is not that of a month.
        """
        for name in _candidates(step, seasonal):
            if name in self.steps:
                return self.steps[name] if name.split()[0] == step else replace(self.steps[name], lean=0.0)
        there = ", ".join(self.steps)
        raise InputError(f"these priors know nothing of steps of kind {step!r}; they were learned for {there}")

    def save(self, path: str | Path) -> None:
        """Write the priors to a JSON file."""
        Path(path).write_text(to_json(self), encoding="utf-8")


def _candidates(step: str, seasonal: bool) -> list[str]:
    """Return the names of what may serve, the best first."""
    if not seasonal:
        return [f"{step} without season", NO_SEASON]
    other = ["quarter", "month"] if step != "month" else ["month", "quarter"]
    return [step, *other] if step in ("month", "quarter") else [step, "month", "quarter"]


# --------------------------------------------------------------------------------------------------------------- files


def to_json(priors: Priors) -> str:
    """Return priors as JSON text, numbers rounded to four digits."""
    steps = {
        name: {
            "series": each.series,
            "widening": round(each.widening, 4),
            "growth": round(each.growth, 4),
            "settling": round(each.settling, 4),
            "lean": round(each.lean, 4),
            "shrinkage": round(each.shrinkage, 4),
            "typical": round(each.typical, 4),
            "freedom": round(each.freedom, 2),
            "members": [
                {
                    "scale": member.scale,
                    "kernel": member.kernel,
                    "weight": round(member.weight, 4),
                    "priors": {path: [round(c, 3), round(s, 3)] for path, c, s in member.prior.entries},
                }
                for member in each.members
            ],
        }
        for name, each in priors.steps.items()
    }
    plain = {"format": FORMAT, "version": VERSION, "sources": list(priors.sources), "steps": steps}
    return json.dumps(plain, indent=1) + "\n"


def from_json(text: str) -> Priors:
    """Read what `to_json` wrote; anything else is an error in a sentence."""
    try:
        plain = json.loads(text)
        if plain["format"] != FORMAT or plain["version"] != VERSION:
            raise ValueError(f"format {plain['format']!r}, version {plain['version']!r}")
        steps = {str(name): _read_experience(each) for name, each in plain["steps"].items()}
        return Priors(steps, tuple(map(str, plain["sources"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"this is no file of priors that mercer.learn_priors(...).save wrote: {error}") from None


def _read_experience(plain: Any) -> Experience:
    members = []
    for each in plain["members"]:
        entries = tuple((str(path), float(c), float(s)) for path, (c, s) in each["priors"].items())
        scale = scale_called(each["scale"]).name
        members.append(Member(scale, str(each["kernel"]), LearnedPrior(entries), float(each["weight"])))
    widening, growth, freedom = float(plain["widening"]), float(plain["growth"]), float(plain["freedom"])
    if not members or widening <= 0 or freedom <= 2:
        raise ValueError("no members, a widening not above zero, or tails too heavy for a variance")
    settling, lean, shrinkage = (float(plain.get(name, 0.0)) for name in ("settling", "lean", "shrinkage"))
    typical = float(plain.get("typical", 0.1))  # earlier versions had none of these
    if not typical > 0:
        raise ValueError("a typical relative deviation not above zero")
    series = int(plain["series"])
    return Experience(tuple(members), widening, growth, freedom, series, settling, lean, shrinkage, typical)


@lru_cache(maxsize=1)
def packaged_priors() -> Priors:
    """Return what was learned and comes with the package."""
    return from_json(resources.files("mercer.forecast").joinpath("experience.json").read_text(encoding="utf-8"))


def read_priors(given: Any) -> Priors:
    """Read the setting `priors`: "experience", what `learn_priors` returned, or the path of a file of it."""
    if isinstance(given, Priors):
        return given
    if given == "experience":
        return packaged_priors()
    if isinstance(given, str | Path) and Path(given).is_file():
        return from_json(Path(given).read_text(encoding="utf-8"))
    raise InputError(
        f"priors must be 'experience', what mercer.learn_priors returned or a file of it, not {given!r:.80}"
    )
