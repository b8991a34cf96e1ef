"""How a search judges its kernels: by a criterion, and where priors hold their numbers by these and by experience."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.fitting.problem import Fit, FitOptions, prepare
from mercer.fitting.starts import LearnedPrior
from mercer.fitting.uncertainty import average_evidence
from mercer.inference.contract import Data, Engine
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import layout
from mercer.learners.contract import Context
from mercer.learners.criteria import BIC, EVIDENCE, Criterion, criterion
from mercer.learners.experience import Known, read_priors
from mercer.learners.trials import Attempt
from mercer.linalg.threads import one_thread

AUTO = "auto"  # the score that is chosen by the data


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores kernels, smaller is better: finished ones, and those that are still racing."""

    criterion: Criterion
    engine: Engine
    data: Data  # the rows to learn from
    held_out: Data | None  # those that judge instead
    rows: int  # all of them: the score is that of this many
    known: Known | None = None  # from other series, where the rows are one

    @property
    def by_priors(self) -> bool:
        """Whether priors hold the numbers of a kernel, and judge it."""
        return self.criterion is EVIDENCE

    @property
    def share(self) -> float:
        """Of all rows, those that the score is measured on: scaled up to all, it says no more than they do."""
        return 1.0 if self.held_out is None else self.held_out.count / self.rows

    def criterion_to_tell(self, asked: str) -> str:
        """Return the name of the criterion where the score that was asked for does not say it; "auto" is mostly BIC."""
        return self.criterion.name if asked == AUTO and self.criterion is not BIC else ""

    def priors_of(self, kernel: Expression) -> bool | LearnedPrior:
        """Return what holds the numbers of a kernel while it is fitted; without experience, weak priors."""
        if not self.by_priors:
            return False
        return True if self.known is None else self.known.prior_of(kernel)

    def price(self, kernel: Expression) -> float:
        """Return what a rare structure costs: -2 log frequency; nothing where priors do not judge."""
        return -2.0 * self.known.step.log_frequency(kernel) if self.by_priors and self.known is not None else 0.0

    def score(self, fit: Fit) -> float:
        """Return the score of a fit that has come to its end; infinite where it failed."""
        if self.held_out is not None:
            return self.criterion.score_held_out(fit, self.data, self.held_out, self.engine)
        if not self.by_priors or fit.status == "failed":
            return self.criterion.score_fit(fit, self.rows)
        with one_thread():
            problem = prepare(fit.expression, self.data, self.engine, FitOptions(priors=self.priors_of(fit.expression)))
            point = problem.point(fit.values, fit.likelihood)
            found = average_evidence(problem, point) if self.known is None else self.known.log_evidence(problem, point)
        return self.criterion.score(found, fit.parameters, self.rows) + self.price(fit.expression)

    def score_so_far(self, kernel: Expression, attempt: Attempt | None) -> float:
        """Return the score that a candidate would have if it ended here."""
        if attempt is None:
            return 0.0
        count = layout(kernel).n_free + 1
        return self.criterion.while_racing.score(self.expect(attempt), count, self.rows) + self.price(kernel)

    def expect(self, attempt: Attempt) -> float:
        """Return the log evidence of an attempt; of a sample of the rows, what it would come to for all of them.

        Of one that has not ended, where there are priors, it has the log prior in it.
        """
        if attempt.interval is not None:
            return attempt.interval.lower
        if self.by_priors and attempt.fit is not None and attempt.fit.status != "failed":
            return attempt.fit.log_evidence
        return attempt.log_evidence * self.rows / attempt.runs[0].rows


def appoint(context: Context, score: str, priors: object, most_rows: int) -> Judge:
    """Return the judge for a search: "auto" is by evidence where experience holds and rows are few, else by BIC."""
    given, known = read_priors(priors), None
    if given is not None and len(context.columns) == 1 and not context.categories and context.whole is None:
        known = given.for_series(context.data.X[:, context.columns[0]], context.data.y)
    usual = EVIDENCE if known is not None and context.data.count <= most_rows else BIC
    chosen = usual if score == AUTO else criterion(score)
    data, held_out = chosen.divide(context.data, context.seed)
    rows = context.data.count if context.whole is None else context.whole.data.count
    return Judge(chosen, context.engine, data, held_out, rows, known)
