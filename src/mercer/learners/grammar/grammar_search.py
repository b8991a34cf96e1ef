"""`GrammarSearch`: the settings of a compositional kernel search, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

from mercer.compute.backend import Backend
from mercer.errors import InputError, NumericalError
from mercer.learners.contract import Context, Learned, Learner, checked_jobs
from mercer.learners.criteria import criterion
from mercer.learners.grammar.finalists import conclude
from mercer.learners.grammar.journal import Journal, fingerprint
from mercer.learners.grammar.operators import Grammar, checked_operators
from mercer.learners.grammar.plan import Plan
from mercer.learners.grammar.search import Search

ANY_TIME = ("n_jobs", "time_budget", "backend")  # may change when a search goes on from its checkpoint


@dataclass(frozen=True)
class GrammarSearch(Learner):
    """Compositional kernel search (Automatic Statistician, CKS).

    Parameters
    ----------
    bases : symbols of the base kernels to build from.
    operators : "+" adds, "*" multiplies, "r" replaces a base kernel; "|" (on request) changes: CP, CW.
    grammar : "full" applies them to every subexpression, "cks" to the whole kernel only (replacement everywhere).
    score : "bic" (default), "aic", "loo" (leave one out), or "heldout": a fifth of the rows, drawn at random, judges
        kernels fitted to the others by -2 N times its mean log density; the chosen are then fitted to all N rows.
    max_depth : how many steps from a base kernel; None: until the score no longer improves.
    time_budget : seconds after which the best so far is returned.
    restarts : starting points for each candidate.
    race : leave candidates that cannot win behind (much faster).
    n_jobs : candidates fitted at the same time, through joblib. The result does not depend on it.
    checkpoint : a folder; the same call with the same folder goes on where an earlier one was cut off.
    average : predict with the finalists, not with the winner alone: weighted by exp(-score / 2) within the data, and
        beyond it, where there is one input column, by how well they forecast from earlier origins. Components and
        words stay the winner's.
    finalists : how the winner is chosen among the best by score. "score": the best score. "forward": the best forecast
        from earlier origins (rolling origin on the one input column), for those who want to extrapolate.
    buffer : with too many rows for exact inference each kernel has an interval instead of a score. Besides the best,
        the search then grows so many kernels whose intervals say that they may be better.
    """

    bases: Sequence[str] = ("SE", "PER", "LIN", "RQ", "M12")
    operators: str = "+*r"
    grammar: Grammar = "full"
    score: str = "bic"
    max_depth: int | None = None
    time_budget: float | None = None
    restarts: int = 4
    race: bool = True
    n_jobs: int | None = None
    checkpoint: str | Path | None = None
    average: bool = True
    finalists: Literal["score", "forward"] = "score"
    max_iterations: int = 200
    buffer: int = 1

    def learn(self, context: Context) -> Learned:
        """Search on scaled data, with intervals on all rows in place of scores where these are too many."""
        whole, seed = context.whole, context.seed
        plan = self._plan(seed, self.n_jobs if self.n_jobs is not None else context.jobs, context.backend)
        settings = {name: value for name, value in vars(plan).items() if name not in ANY_TIME}
        settings["criterion"] = self.score
        if whole is not None:
            settings["inducing"] = whole.engine.inducing
        journal = Journal(self.checkpoint, fingerprint(context.data if whole is None else whole.data, settings, seed))
        learned_from, held_out = plan.criterion.divide(context.data, seed)
        search = Search(plan, learned_from, context.engine, context.columns, journal, context.report, held_out, whole)
        search.run()
        if search.best is None:
            if search.stopped == "request":  # there is no best so far to return
                raise KeyboardInterrupt
            reasons = "; ".join(sorted({c.message for c in search.candidates})) or "nothing was finished in time"
            raise NumericalError(f"the search found no kernel: {reasons}")
        return conclude(search, context.data, self.average, self.finalists)

    @property
    def by_intervals(self) -> bool:
        """A score has bounds where the evidence has."""
        return criterion(self.score).by_evidence

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        settings["bases"] = list(self.bases)
        settings["checkpoint"] = None if self.checkpoint is None else str(self.checkpoint)
        return settings

    def _check_numbers(self) -> None:
        """Refuse what is not a number or not a list before anything is fitted."""
        if isinstance(self.bases, str) or not isinstance(self.bases, Sequence):
            raise InputError(f"bases must be a list of base kernels such as ['SE', 'PER'], not {self.bases!r}")
        budget = self.time_budget
        if budget is not None and (isinstance(budget, str) or not budget > 0):
            raise InputError(f"time_budget must be a number of seconds greater than zero, not {budget!r}")
        counts = {
            "restarts": (self.restarts, 1),
            "max_iterations": (self.max_iterations, 1),
            "buffer": (self.buffer, 0),
        }
        if self.max_depth is not None:
            counts["max_depth"] = (self.max_depth, 0)
        for name, (value, least) in counts.items():
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
        for name in ("race", "average"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | Path):
            raise InputError(f"checkpoint must be the path of a folder, not {self.checkpoint!r}")

    def _plan(self, seed: int, jobs: int | None, backend: Backend) -> Plan:
        chosen = criterion(self.score)
        if self.grammar not in ("full", "cks"):
            raise InputError(f"grammar must be 'full' or 'cks', not {self.grammar!r}")
        if self.finalists not in ("score", "forward"):
            raise InputError(f"finalists must be 'score' or 'forward', not {self.finalists!r}")
        self._check_numbers()
        return Plan(
            bases=tuple(self.bases),
            operators=checked_operators(self.operators),
            grammar=self.grammar,
            criterion=chosen,
            max_depth=self.max_depth,
            time_budget=self.time_budget,
            restarts=self.restarts,
            race=self.race,
            n_jobs=checked_jobs(jobs) or 1,
            max_iterations=self.max_iterations,
            seed=seed,
            backend=backend,
            buffer=self.buffer,
        )
