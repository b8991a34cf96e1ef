"""A sampler for Optuna: an existing study switches to Mercer by one line.

study = optuna.create_study(sampler=mercer.integrations.optuna.MercerSampler(seed=0))
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InputError
from mercer.kernels.expression import Expression
from mercer.learners.contract import Learner
from mercer.optimise.acquisition import find_acquisition
from mercer.optimise.optimizer import Optimizer
from mercer.optimise.space import Category, Input, Log, Range, Space, Steps

try:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError:
    raise ImportError("mercer.integrations.optuna needs the package Optuna: pip install optuna") from None

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


@dataclass(frozen=True)
class StudyParameter:
    """A parameter of Optuna as an input of Mercer, in Optuna's units; a choice by its label."""

    name: str
    distribution: Any

    @property
    def input(self) -> Input:
        """The input that stands for it."""
        given = self.distribution
        if isinstance(given, CategoricalDistribution):
            return Category(self.labels)
        if given.log:
            return Log(float(given.low), float(given.high))
        if given.step is not None:
            return Steps(given.low, given.high, given.step)
        return Range(given.low, given.high)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The choices where Mercer can name them, their numbers otherwise."""
        choices = tuple(self.distribution.choices)
        try:
            return Category(choices).check(self.name).choices
        except InputError:
            return tuple(f"choice {place}" for place in range(len(choices)))

    def to_input(self, value: Any) -> Any:
        """Return Optuna's value as that of the input."""
        given = self.distribution
        if isinstance(given, CategoricalDistribution):
            return self.labels[int(given.to_internal_repr(value))]
        return float(value) if given.log or given.step is None else value

    def to_value(self, cell: Any) -> Any:
        """Return the value of the input as Optuna's."""
        given = self.distribution
        if isinstance(given, CategoricalDistribution):
            return given.choices[self.labels.index(cell)]
        kind = int if isinstance(given, IntDistribution) else float
        return kind(min(max(round(cell) if kind is int else cell, given.low), given.high))


class MercerSampler(BaseSampler):
    """Samples by a Gaussian process whose kernel is learned; which parameters act together is found out.

    Parameters
    ----------
    kernel : as in `mercer.Optimizer`.
    seed : of the random numbers.
    independent_sampler : for parameters that not every trial has, and in the first trial; at random by default.
    acquisition : as in `mercer.Optimizer`.

    Parameters of all finished trials are sampled together. A trial that failed counts as bad as the worst one; a pruned
    one by the last value it reported, or as failed where that is better than any finished one. `optimizer_` is the
    optimiser behind it: `print(sampler.optimizer_.explain())`.
    """

    def __init__(
        self,
        kernel: str | Expression | Learner = "auto",
        *,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
        acquisition: str = "auto",
    ) -> None:
        find_acquisition(acquisition)  # refuses one that there is not, before any trial
        self.kernel, self.seed, self.acquisition = kernel, seed, acquisition
        self.optimizer_: Optimizer | None = None
        self._independent = independent_sampler or RandomSampler(seed=seed)
        self._spaces = optuna.search_space.IntersectionSearchSpace(include_pruned=True)
        self._key: Any = None  # the study and its parameters that the optimiser is for
        self._told: set[int] = set()  # numbers of trials
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def reseed_rng(self) -> None:
        """Take another seed: called by Optuna in each of several workers."""
        self.seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._key = None
        self._independent.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._independent.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self._independent.after_trial(study, trial, state, values)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that all finished trials have and that can vary."""
        if len(study.directions) > 1:
            raise InputError(
                f"MercerSampler optimises one value, and this study has {len(study.directions)}. "
                "Use another sampler for it, or return one value."
            )
        found = self._spaces.calculate(study)
        return {name: one for name, one in found.items() if not one.single() and isinstance(one, KINDS)}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return values of all these parameters."""
        if not search_space:
            return {}
        parameters = [StudyParameter(name, one) for name, one in search_space.items()]
        with self._lock:
            optimizer = self._take_up(study, parameters)
            self._tell_new(optimizer, study, parameters)
            optimizer.forget_pending()
            for other in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                if other.number != trial.number and all(each.name in other.params for each in parameters):
                    optimizer.wait_for(_read(other.params, parameters))
            point = optimizer.ask()
        return {each.name: each.to_value(point[each.name]) for each in parameters}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the value of a parameter that not every trial has."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _take_up(self, study: Study, parameters: Sequence[StudyParameter]) -> Optimizer:
        """Return the optimiser for these parameters of this study; a new one where they are others than before."""
        key = (study.study_name, tuple(parameters))
        if self.optimizer_ is None or key != self._key:
            space = Space(
                tuple(each.name for each in parameters),
                tuple(each.input.check(each.name) for each in parameters),
                named=True,
            )
            seed = self.seed
            if seed is not None:  # a study that goes on draws other numbers than at its beginning
                seed = int(np.random.SeedSequence([seed, len(study.get_trials(deepcopy=False))]).generate_state(1)[0])
            minimize = study.direction != StudyDirection.MAXIMIZE
            self.optimizer_ = Optimizer(space, self.kernel, minimize, seed, acquisition=self.acquisition)
            self._key = key
            self._told = set()
        return self.optimizer_

    def _tell_new(self, optimizer: Optimizer, study: Study, parameters: Sequence[StudyParameter]) -> None:
        for trial in study.get_trials(deepcopy=False, states=FINISHED):
            if trial.number in self._told:
                continue
            self._told.add(trial.number)
            if all(each.name in trial.params for each in parameters):
                optimizer.tell(_read(trial.params, parameters), _value_of(trial, optimizer))


KINDS = (FloatDistribution, IntDistribution, CategoricalDistribution)


def _read(values: Mapping[str, Any], parameters: Sequence[StudyParameter]) -> dict[str, Any]:
    return {each.name: each.to_input(values[each.name]) for each in parameters}


def _value_of(trial: FrozenTrial, optimizer: Optimizer) -> float | None:
    """Return what a finished trial counts as; None where it failed."""
    if trial.state == TrialState.COMPLETE:
        return float(trial.value)
    if trial.state == TrialState.FAIL or not trial.intermediate_values:
        return None
    last = float(trial.intermediate_values[max(trial.intermediate_values)])
    known = [value for _, value in optimizer.trials_ if value is not None]
    if not known or not math.isfinite(last):
        return None
    worse = last >= min(known) if optimizer.minimize else last <= max(known)
    return last if worse else None
