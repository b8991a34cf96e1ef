"""`ChangeSurface`: regimes with kernels of their own, learned by Algorithm 2 of Herlands et al. 2016 (supplement).

    for i = 1 ... g:  draw the surface w(x) from its prior
                      draw h sets of parameters of RBF kernels, keep the one with the largest evidence
                      optimise surface and kernels a little
    take the best, and optimise it to the end

One regime is fitted, then two, and so on. First with RBF kernels (or constants) in all regimes; where others were asked
for, these then take their places, and the surface found is where they start. The last step runs on all rows, what comes
before on some where there are many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np

from mercer.compute.surfaces import nearest_weights
from mercer.errors import InputError
from mercer.fitting.minimise import ONE_THREAD_BELOW, Clock, fit, minimise, minimise_scaled, run_parallel, screen
from mercer.fitting.periods import group_levels
from mercer.fitting.problem import Fit, FitOptions, Problem, Run, prepare
from mercer.fitting.uncertainty import average_evidence, measure_spread
from mercer.inference.contract import Data
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import structure
from mercer.kernels.blend import FEATURES, MOST_REGIMES, Blend, Surface, surface
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, Parameter
from mercer.kernels.parameters import Indices, Units, bind, layout, to_scaled_units, values_of, with_values
from mercer.kernels.text import parse
from mercer.learners import regimes
from mercer.learners.contract import Candidate, Context, Learned, Learner, Step, change_settings, draw_some
from mercer.learners.criteria import BIC, EVIDENCE
from mercer.learners.regimes import RegimeForm
from mercer.learners.trials import Trials
from mercer.linalg.threads import one_thread

REGIME_ROWS = 10  # for each regime: with fewer nothing can be said about what holds there
AUTO = "auto"
KINDS = (AUTO, "linear", "rks", "gp")

Kernel = str | Expression | Learner


@dataclass(frozen=True)
class SurfacePolicy:
    """How many rows and steps the learning of a surface takes, and which kernels are tried where none is given."""

    some_rows: int | None = 400  # that surfaces are drawn on (None: all): there are a hundred evaluations for each draw
    few_steps: int = 20  # of the partial optimisation of each drawn surface
    trial_steps: int = 60  # where one kernel is tried in place of another
    last_steps: int = 40  # with all rows, of a kernel that was fitted to some of them
    finalists: int = 3  # surfaces that are optimised to the end
    typical_first: bool = True  # the first surface is the same for every seed; otherwise it is drawn as the others are
    linear_starts: int = 3  # surfaces of many features that start from a linear one: a few draws may all miss it
    level_starts: int = 3  # and that start from rows grouped by the level of the target
    parts: bool = True  # begin three regimes and more by parting one of the best fit with one fewer
    cut_off: float = 4.0  # of w(x) of those, where a share is near 0 or 1
    least_rows: int = 3  # where a regime holds: with fewer it has died
    few_rows: int = 10  # where a regime holds: with fewer, a note says so
    priors: bool = True  # weak ones on surfaces of many features, which could bend at every row
    known_noise: bool = True  # every second draw begins with the noise of one regime, which a poor fit hides
    quickens: bool = True  # look for what varies fast in one regime and was taken for noise
    passes: int = 2  # over the regimes, trying other kernels in each
    alone: tuple[str, ...] = ("C", "LIN", "SE", "M52", "M32", "M12", "PER", "SE + PER", "SE * PER", "SE + LIN")
    # for one regime as well, but no change is added to them: a line that fades slowly into nothing has two regimes and
    # is a smooth curve, so one regime must have such curves too
    curves: tuple[str, ...] = ("SE * LIN", "LIN * LIN", "LIN * LIN * LIN")
    tried: tuple[str, ...] = ("C", "LIN", "SE", "PER")  # in each of several regimes


@dataclass(frozen=True)
class ChangeSurface(Learner):
    """Regimes with kernels of their own, and a surface that says where each holds (Herlands et al. 2016).

    Parameters
    ----------
    regimes : how many. All smaller numbers are fitted too, and the evidence for each is kept (`model.change_`).
    kernel : of every regime: a text such as "SE" or "SM4", an expression, or a learner such as `GrammarSearch()`, which
        then searches a kernel for the rows of each regime. A list gives each regime its own. "auto": SE; where there is
        one column, also constants, straight lines and waves are tried in each regime, and changes of the level of what
        holds everywhere.
    shared : a kernel that is the same everywhere, added to the change surface: a season that stays, say.
    surface : "linear": along one column a change point between each two regimes (`CP`), along several a direction;
        "rks": random kitchen sinks; "gp": a Gaussian process. "auto": "linear" for one column, "rks" for several.
    features : of "rks" (10) and "gp" (16), for each regime but the first.
    columns : numbers of the columns (from 0) that the surface depends on, or one such number; None: all.
    draws, kernel_draws : g and h of Algorithm 2: surfaces drawn from the prior, and sets of kernel parameters drawn for
        each, the best of which is optimised a little; the best of the surfaces is then optimised to the end.
    restarts : starts of the last optimisation where the kernel is not SE.
    max_iterations : of the last optimisation.
    policy : rows, steps and starts; None: those of the estimator, or the defaults.
    """

    regimes: int = 2
    kernel: Kernel | Sequence[Kernel] = "auto"
    shared: str | Expression | None = None
    surface: Literal["auto", "linear", "rks", "gp"] = "auto"
    features: int | None = None
    columns: int | Sequence[int] | None = None
    draws: int = 10
    kernel_draws: int = 10
    restarts: int = 3
    max_iterations: int = 200
    policy: SurfacePolicy | None = None

    policy_kinds = (("policy", SurfacePolicy),)
    letters = (("r", "regimes"), ("g", "draws"), ("h", "kernel_draws"), ("m", "features"))

    @classmethod
    def paper(cls, **changes: Any) -> ChangeSurface:
        """Return Algorithm 2 as printed (change surfaces, supplement), with your changes.

        Two regimes with RBF kernels joined by random kitchen sinks; g draws of a, omega and b from the printed priors
        (Lambda = (range / 2)^2, sigma_0 = std y, sigma_n = mean |y| / 10), h draws of the kernels for each, the best
        of which is optimised a little; the best of the g is optimised to convergence, on all rows, by the marginal
        likelihood alone. `paper(kernel="SM4")`: spectral mixtures take the place of the RBF kernels afterwards.

        Different from the paper on purpose: columns and target are standardised, and the level of the target is fitted
        with the kernel; one regime is fitted too, to compare with, a regime that holds at fewer than 3 rows is taken
        out, and of the g draws those with such a regime come last. Of more rows than exact inference takes (3,000
        without a GPU) the surface is learned from a sample, and fitted to all.

        Read so: omega of (2) is in cycles, w(x) = sum a cos(2 pi omega x + b), as the 4 pi^2 in its variance suggests.
        As an angular frequency, w(x) = sum a cos(omega x + b), it would hardly let w change over the data. sigma_0 / m
        of (1) is a variance, and sigma_0 is 1, the spread of the standardised target. sigma_n is a standard deviation,
        of the standardised target too, and 0.01 at least. Not printed: g, h and m, 10 each; the draws of the kernels'
        parameters; how long an optimisation is, 20 steps for each of the g, and 200 at most to convergence.
        """
        policy = SurfacePolicy(
            some_rows=None, finalists=1, typical_first=False, linear_starts=0, level_starts=0, parts=False,
            priors=False, known_noise=False, quickens=False,
        )  # fmt: skip
        return change_settings(cls(kernel="SE", surface="rks", policy=policy), changes)

    def learn(self, context: Context) -> Learned:
        """Learn from scaled data."""
        self.check()
        rows, enough = context.data.count, context.data.count // REGIME_ROWS
        if enough < self.regimes:
            advice = f"ask for at most {enough}, or give more rows" if enough > 1 else "give more rows, or 'SE' alone"
            raise InputError(f"{rows} rows are too few for {self.regimes} regimes, {REGIME_ROWS} for each: {advice}")
        return SurfaceSearch(self, context).run()

    def scale_kernels(
        self, columns: list[int], names: list[str], units: Units, categories: Collection[int] = ()
    ) -> Learner:
        """Return the settings with kernels on column numbers and their values in scaled units."""
        self.check()

        def scale(kernel: Any) -> Any:
            if isinstance(kernel, Learner):
                return kernel.scale_kernels(columns, names, units)
            given = parse(kernel) if isinstance(kernel, str) and kernel != AUTO else kernel
            if not isinstance(given, Expression):
                return given
            return to_scaled_units(bind(given, len(units.scale), names, default=columns), units)

        return replace(self, kernel=tuple(map(scale, self._kernels())), shared=scale(self.shared))

    def foresee(self, columns: list[int], dimensions: int) -> Expression | None:
        """Return the change surface that will be fitted; None where kernels of regimes are to be found."""
        self.check()
        form = self.form(columns, dimensions)
        return None if form.open or any(form.learners) else form.expressions(self.regimes, None)[0]

    def form(self, columns: Sequence[int], dimensions: int) -> RegimeForm:
        on = tuple(columns) if self.columns is None else _numbers(self.columns)
        kernels = [parse(k) if isinstance(k, str) and k != AUTO else k for k in self._kernels()]
        if kernels == [AUTO] * self.regimes:
            kernels = [] if len(columns) == 1 else [parse("SE")] * self.regimes
        kind = self.surface
        if kind == "auto":
            kind = "linear" if len(on) == 1 else "rks"
        shared = parse(self.shared) if isinstance(self.shared, str) else self.shared
        return RegimeForm(tuple(kernels), shared, kind, self.features, on, tuple(columns), dimensions)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        # of a learner the name: its settings are not kept
        kernels = [str(k) if isinstance(k, str | Expression) else type(k).__name__ for k in self._kernels()]
        return {
            **super().describe(),
            "kernel": kernels[0] if len(set(kernels)) == 1 else kernels,
            "shared": None if self.shared is None else str(self.shared),
            "columns": None if self.columns is None else list(_numbers(self.columns)),
        }

    def _kernels(self) -> list[Any]:
        """The kernel of each regime."""
        given = self.kernel
        if isinstance(given, str | Expression) or not isinstance(given, Sequence):
            return [given] * max(1, self.regimes)
        return list(given)

    def check(self) -> None:
        """Refuse settings that mean nothing."""
        self.check_policies()
        self.check_counts(draws=1, kernel_draws=1, restarts=1, max_iterations=1, regimes=2)
        if self.regimes > MOST_REGIMES:
            raise InputError(f"regimes must be at most {MOST_REGIMES}, not {self.regimes}")
        if self.surface not in KINDS:
            raise InputError(f"surface must be one of {', '.join(map(repr, KINDS))}, not {self.surface!r}")
        if self.columns is not None:
            _numbers(self.columns)
        if not (self.shared is None or isinstance(self.shared, str | Expression)):
            raise InputError(f"shared is a kernel that holds everywhere, such as 'PER', not {self.shared!r:.80}")
        kernels = self._kernels()
        if len(kernels) != self.regimes:
            raise InputError(f"there are {self.regimes} regimes and {len(kernels)} kernels: give one, or one for each")
        if AUTO in kernels and kernels != [AUTO] * self.regimes:
            raise InputError("kernel='auto' is for all regimes at once: name a kernel for each regime, or none")
        for kernel in kernels:
            if not isinstance(kernel, str | Expression | Learner):
                raise InputError(f"the kernel of a regime is a text, an expression or a learner, not {kernel!r:.80}")


def _numbers(columns: Any) -> tuple[int, ...]:
    """Return numbers of columns as a tuple, or say what they must be."""
    given = (columns,) if isinstance(columns, Integral) else columns
    fits = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    if not fits or not all(isinstance(c, Integral) and not isinstance(c, bool) and int(c) >= 0 for c in given):
        raise InputError(f"columns are numbers of columns, counted from 0, such as [0, 2], not {columns!r:.80}")
    return tuple(int(c) for c in given)


class SurfaceSearch:
    """Fits one regime, two, and so on to the number asked for."""

    def __init__(self, settings: ChangeSurface, context: Context) -> None:
        self.settings, self.context = settings, context
        self.policy = settings.policy or context.policy(SurfacePolicy)
        self.form = settings.form(context.columns, context.data.X.shape[1])
        self.trials = Trials(context.report, jobs=context.count_jobs())
        self.data = context.data
        if self.form.open:  # many kernels are fitted: to some rows, if there are many, and the best then to all
            self.data = self._some_rows()
        self.best: dict[int, Candidate] = {}  # by the number of regimes
        self.choices: dict[int, int] = {}  # how many kernels are within reach; none: the kernel is given
        # one of many features could bend at every row: weak priors keep the surface smooth
        self.options = FitOptions(
            restarts=max(2, settings.restarts), max_iterations=settings.max_iterations, seed=context.seed,
            priors=self.policy.priors and self.form.kind in FEATURES, n_jobs=self.trials.jobs,
        )  # fmt: skip
        # BIC would count every number of such a surface, although the priors hold most of them
        self.criterion = EVIDENCE if self.options.priors else BIC

    def run(self) -> Learned:
        """Return the fit with as many regimes as were asked for (less those that died), and all smaller numbers."""
        trials, asked = self.trials, self.settings.regimes
        with trials.stopping(), one_thread(when=self.data.count < ONE_THREAD_BELOW):
            for count in range(1, asked + 1):
                self._fit_regimes(count)
            if self.data is not self.context.data:
                self._fit_to_all()
        if trials.stopped:
            for candidate in sorted(trials.candidates, key=_score):
                if candidate.fit is not None:
                    self.best.setdefault(candidate.depth + 1, candidate)
        if not self.best:
            raise trials.failure("no change surface could be fitted")
        most = max(self.best)
        best = self.best[most].full_fit
        if trials.stopped:
            best = replace(best, status="interrupted", message="stopped before all regimes were fitted")
            fitted = f"{most} of {asked} regimes" if most < asked else f"the {asked} regimes asked for"
            trials.notes.append(f"the search was stopped on request: this is the best kernel until then, with {fitted}")
        trials.notes += self._notes(best)
        return trials.conclude(best)

    def _fit_regimes(self, count: int) -> None:
        """Fit one number of regimes, in all forms; where a regime dies, the fit without it is another candidate."""
        found: list[Candidate] = []
        expressions = self.form.expressions(count, self._alone(), (*self.policy.alone, *self.policy.curves))
        if self.form.open:  # for several regimes the first two are one form: kernels take each other's places in it
            several = (len(expressions) - 1) * len(self.policy.tried) ** count
            self.choices[count] = len(expressions) if count == 1 else several
        for expression in expressions:
            found += self._try(count, self._fit, expression)
        if self.form.open and count > 1 and found:
            found += self._refine(min(found, key=_score), count)
        alive = [c for c in found if c.fit is not None and not self._dead(c.fit.expression, self.data.X)]
        if not alive and found:
            self._merge(min(found, key=_score), count)
        elif alive:
            self.best[count] = min(alive, key=_score)

    def _alone(self) -> Expression | None:
        """Return the best kernel of one regime that a change may be added to."""
        curves = self.form.expressions(1, None, self.policy.curves) if self.form.open else []
        found = [c for c in self.trials.candidates if c.depth == 0 and structure(c.expression) not in curves]
        fitted = [c for c in found if c.fit is not None]
        return min(fitted, key=_score).full_fit.expression if fitted else None

    def _fit_to_all(self) -> None:
        """Fit the best of each number of regimes further, to all rows."""
        tried, rows = self.trials.candidates, self.data.count
        tried[:] = [replace(c, step=replace(c.step, rows=rows)) for c in tried]
        self.data = self.context.data
        for count, candidate in list(self.best.items()):
            kept = self._try(count, self._resume, candidate.full_fit.expression, candidate.full_fit.noise)
            if kept:
                self.best[count] = kept[0]
            else:
                del self.best[count]

    def _refine(self, best: Candidate, count: int) -> list[Candidate]:
        """Try other kernels in one regime after the other, as long as the score improves."""
        found: list[Candidate] = []
        for_a_while = replace(self.options, max_iterations=self.policy.trial_steps)
        tried = {structure(c.expression) for c in self.trials.candidates}
        for _ in range(self.policy.passes):
            before = best
            for regime in range(count):
                kernel, columns = best.full_fit.expression, self.context.columns
                for expression in regimes.replace_regime(kernel, regime, columns, self.policy.tried):
                    if structure(expression) not in tried:
                        tried.add(structure(expression))
                        found += self._try(count, fit, expression, self.data, self.context.engine, for_a_while)
                best = min([best, *found], key=_score)
            if best is before:
                break
        if best in found:
            found += self._try(count, self._resume, best.full_fit.expression, best.full_fit.noise)
        return found

    def _merge(self, candidate: Candidate, count: int) -> None:
        """Take regimes out that hold nowhere, until none is left."""
        while candidate.fit is not None and (dead := self._dead(candidate.fit.expression, self.data.X)):
            expression, count = regimes.remove_regime(candidate.fit.expression, dead[0]), count - 1
            self.trials.notes.append(
                f"of {count + 1} regimes one held at fewer than {self.policy.least_rows} rows "
                "and was merged with its neighbour"
            )
            kept = self._try(count, self._resume, expression, candidate.fit.noise, note="merged")
            if not kept:
                return
            candidate = kept[0]
            if count not in self.best or candidate.score < self.best[count].score:
                self.best[count] = candidate

    def _try(self, count: int, how: Callable[..., Fit], *arguments: Any, note: str = "") -> list[Candidate]:
        """Fit an expression in some way and add it to the candidates; returns nothing where that failed."""
        clock, trials = Clock(), self.trials
        fitted = how(*arguments)
        failed, score, dead = fitted.status == "failed", math.inf, 0
        if not failed:
            expression = regimes.order_regimes(fitted.expression, self.data.X)
            if expression is not fitted.expression:
                fitted = replace(fitted, expression=expression, values=values_of(expression))
            score, dead = self._judge(fitted, count), len(self._dead(expression, self.data.X))
        if dead:  # it says nothing for this many regimes
            note = f"{dead} of them at next to no row"
        words = f"{count} regime{'s' if count > 1 else ''}" + (f", {note}" if note else "")
        candidate = Candidate(
            fitted.expression, count - 1, Step("regimes", number=count - dead, words=words), None, fitted.log_evidence,
            fitted.parameters, score, fitted.status, fitted.message, clock.seconds, None if failed else fitted,
            criterion=self.criterion.name,
        )  # fmt: skip
        trials.add(candidate)
        trials.tell(count, self.settings.regimes, depth=count - 1)
        if fitted.status == "interrupted":
            raise KeyboardInterrupt  # a fit returns its best so far; the search around it stops too
        return [] if failed else [candidate]

    def _judge(self, fitted: Fit, count: int) -> float:
        """Return the score of a fit with some number of regimes: smaller is better."""
        if self.criterion is EVIDENCE:
            problem = self._prepare(fitted.expression, self.data)
            point = problem.point(fitted.values, fitted.likelihood)
            return EVIDENCE.score(average_evidence(problem, point), fitted.parameters, self.data.count)
        # A place of change counts as two numbers (Zhang and Siegmund 2007): the evidence as a function of that
        # place is no parabola but a staircase, of which the best step is taken. The width of a sharp change counts
        # as none: there is no row in the transition, and the evidence does not depend on it. That a kernel is one of
        # many that could have been chosen has its price too, and with more regimes there are more.
        own = regimes.find_blend(fitted.expression)
        places = own.surface.components if own is not None and own.surface.kind == "CP" else 0
        counted = fitted.parameters + places - regimes.sharp_changes(own, self.data.X)
        choice = 2.0 * math.log(self.choices.get(count, 1))
        return BIC.score(fitted.log_evidence, counted, self.data.count) + choice

    # ------------------------------------------------------------------------------------------------------ fitting

    def _prepare(self, expression: Expression, data: Data) -> Problem:
        return prepare(expression, data, self.context.engine, self.options)

    def _minimise(self, problem: Problem, sets: Sequence[Sequence[Array]], iterations: int) -> list[Run]:
        """Minimise from the best point of each set, several at the same time where there are jobs."""
        work = {i: (problem, points, iterations) for i, points in enumerate(sets)}
        return [run for _, run in run_parallel(descend, work, self.trials.jobs, ordered=True)]

    def _fit(self, expression: Expression) -> Fit:
        own, learners = regimes.find_blend(expression), self.form.learners
        if own is None:
            if learners[0] is not None:
                return self._learn(learners[0], self.data)
            return self._fit_from_starts(expression)
        own = regimes.hold_centres(own, self.data.X)
        expression = regimes.with_blend(expression, own)
        simple = regimes.simplify_regimes(expression)
        found = self._finish(simple, self._draw_surfaces(simple, self._some_rows()))
        if found.status == "failed" or (simple == expression and not any(learners)):
            return found
        started = regimes.with_blend(expression, replace(own, surface=regimes.blend_in(found.expression).surface))
        if any(learners):  # each on the rows where its regime holds
            own = regimes.blend_in(started)
            holds, parts = np.argmax(regimes.regime_shares(own, self.data.X), axis=0), list(own.parts)
            for regime, learner in enumerate(learners[: len(parts)]):
                rows = np.flatnonzero(holds == regime)
                if learner is not None and len(rows) >= self.policy.few_rows:
                    parts[regime] = self._learn(learner, self.data.take(rows)).expression
            started = regimes.with_blend(started, replace(own, parts=tuple(parts)))
        return self._fit_from_starts(started)

    def _fit_from_starts(self, expression: Expression) -> Fit:
        """Fit from several starts, or from the best of them with something varying fast; of many rows to some first."""
        rows = self._some_rows()
        found = fit(expression, rows, self.context.engine, self.options)
        if found.status in ("failed", "interrupted"):
            return found
        problem = self._prepare(found.expression, rows)
        fast = self._quicken(problem, problem.point(found.values, found.likelihood))
        if fast is not None:
            run = descend(problem, [fast], self.settings.max_iterations)
            other = problem.conclude([run], fast, found.evaluations)
            if other.status != "failed" and other.log_evidence > found.log_evidence:
                found = other
        return self._fit_on(found, rows)

    def _fit_on(self, found: Fit, rows: Data) -> Fit:
        """Return a fit to some rows after a few steps with all of them."""
        if rows is self.data or found.status == "failed":
            return found
        return self._resume(found.expression, found.noise, self.policy.last_steps)

    def _some_rows(self) -> Data:
        """Return the rows to choose by."""
        return draw_some(self.data, self.policy.some_rows, self.context.seed)

    def _draw_surfaces(self, expression: Expression, data: Data) -> list[tuple[Array, Gaussian]]:
        """Steps 1 to 5: g surfaces with simple kernels, each partly optimised; values and noise, the best first.

        Few random surfaces of many features come near a border. Some start from a linear one, some from the level of
        the target, some part a regime of the best fit with one fewer; the best of each kind comes before the others.
        """
        settings, policy, rng = self.settings, self.policy, np.random.default_rng(self.context.seed)
        problem = prepare(expression, data, self.context.engine, FitOptions(priors=self.options.priors))
        starts, own = problem.starts, regimes.blend_in(expression)
        slots = [s for s in problem.layout.slots if starts.leaves[s.leaf] is own.surface]
        place = np.concatenate([np.arange(s.offset, s.offset + s.size) for s in slots])
        noises = [max(1e-4, float(np.abs(data.y).mean() / 10.0) ** 2)]  # s_n = mean|y| / 10
        if 1 in self.best and policy.known_noise:
            noises.append(self.best[1].full_fit.noise)
        kinds, borders, parted = ["drawn"] * settings.draws, dict[str, Array](), list[Array]()
        if own.surface.kind in FEATURES:
            line = surface("linear", own.surface.regimes, on=own.surface.columns)
            if policy.linear_starts:
                borders["linear"] = self._log_shares(self._sketch(expression, line, data), data.X)
            if policy.level_starts:
                borders["level"] = self._log_levels(own.surface, data)
            if policy.parts:
                parted = self._part_regimes(expression, data, place)
            kinds = ["linear"] * policy.linear_starts + ["level"] * policy.level_starts + kinds
            kinds = kinds[: settings.draws] + ["parted"] * len(parted)
        drawn: list[list[Array]] = []
        for number, kind in enumerate(kinds):
            first = starts.typical() if number == 0 and policy.typical_first else starts.draw(rng)
            if kind == "parted":
                first[place] = parted[number - settings.draws][place]
            elif kind in borders:
                first[place] = nearest_weights(own.surface, first[place], data.X, borders[kind])
            drawn.append([])
            for draw in range(settings.kernel_draws):
                values = starts.draw(rng)
                values[place] = first[place]
                drawn[-1].append(problem.point(values, Gaussian(noises[draw % len(noises)])))
            if kind == "parted" and not np.isnan(parted[number - settings.draws]).any():
                noise = self.best[own.surface.regimes - 1].full_fit.noise
                drawn[-1].append(problem.point(parted[number - settings.draws], Gaussian(noise)))
        runs = self._minimise(problem, drawn, policy.few_steps)
        order = sorted(range(len(runs)), key=lambda i: (self._has_died(problem, runs[i]), runs[i].value))
        leads = {kinds[i]: i for i in reversed(order)}
        order.sort(key=lambda i: leads[kinds[i]] != i)
        return [problem.split(runs[i].point) for i in order]

    def _sketch(self, expression: Expression, other: Surface, data: Data) -> Blend:
        """Return the best drawn change surface of another kind or number of regimes."""
        own = regimes.blend_in(expression)
        simple = regimes.with_blend(expression, Blend(own.parts[: other.regimes], other))
        values, _ = self._draw_surfaces(simple, data)[0]
        return regimes.blend_in(with_values(simple, values))

    def _log_shares(self, own: Blend, X: Array) -> Array:
        """Return w(x) of all regimes but the first, cut off where a share is near 0 or 1."""
        s, most = np.maximum(regimes.regime_shares(own, X), 1e-12), self.policy.cut_off
        return np.asarray(np.clip(np.log(s[1:]) - np.log(s[:1]), -most, most))

    def _log_levels(self, own: Surface, data: Data) -> Array:
        """Return w(x) of regimes that hold where the target has one level and another."""
        groups, most = group_levels(data.X[:, list(own.columns)], data.y, own.regimes), self.policy.cut_off
        return np.array([np.where(groups == i, most, np.where(groups == 0, -most, 0.0)) for i in range(1, own.regimes)])

    def _part_regimes(self, expression: Expression, data: Data, place: Indices) -> list[Array]:
        """Return values with which one regime of the best fit with one fewer is parted in two.

        place : where those of the surface are. Those of the kernels are NaN where the fit has other kernels.
        """
        own = regimes.blend_in(expression).surface
        if own.regimes < 3 or own.regimes - 1 not in self.best:
            return []
        fitted = self.best[own.regimes - 1].full_fit.expression
        two, most = surface(own.kind, 2, features=own.features, on=own.columns), self.policy.cut_off
        if own.kind == "gp":  # its centres are held
            rows = own.parameter("centres").values or ()
            two = two.with_parameter(Parameter("centres", rows[: own.features * len(own.columns)], fixed=True))
        found = []
        for number in range(own.regimes - 1):
            before, regime = regimes.blend_in(fitted), number
            if own.regimes == 3 and number:  # the one to be parted comes first: nothing is added to its w(x), zero
                before, regime = regimes.reverse_regimes(before), 0
            inside = np.argmax(regimes.regime_shares(before, data.X), axis=0) == regime
            if inside.sum() < 2 * REGIME_ROWS:
                continue
            added = self._sketch(expression, two, data.take(np.flatnonzero(inside)))
            functions = np.vstack([np.zeros(data.count), self._log_shares(before, data.X)])
            wanted = functions[regime] + np.where(inside, self._log_shares(added, data.X)[0], -most)
            joined = regimes.join_surfaces(before.surface, added.surface)
            values = nearest_weights(own, joined, data.X, np.vstack([functions[1:], wanted]))
            kept = (own.regimes - 2) * own.features
            values[:kept] = joined[:kept]
            parts = [*before.parts, added.parts[1]]
            parts[regime] = added.parts[0]
            kernel = regimes.with_blend(fitted, Blend(tuple(parts), own))
            alike = structure(kernel) == structure(expression)
            found.append(values_of(kernel) if alike else np.full(layout(expression).n_values, np.nan))
            found[-1][place] = values
        return found

    def _has_died(self, problem: Problem, run: Run) -> bool:
        values, _ = problem.split(run.point)
        return bool(self._dead(with_values(problem.expression, values), problem.data.X))

    def _finish(self, expression: Expression, surfaces: Sequence[tuple[Array, Gaussian]]) -> Fit:
        """Steps 6 and 7: the best surfaces, optimised to the end; of many rows first to some, the best then to all."""
        settings, rows = self.settings, self._some_rows()
        problem = self._prepare(expression, rows)
        own = regimes.blend_in(expression).surface
        most = self.policy.finalists + (own.kind in FEATURES and own.regimes > 2)  # a kind of starts more
        points = [problem.point(*each) for each in surfaces[:most]]
        runs = self._minimise(problem, [[point] for point in points], settings.max_iterations)
        if (fast := self._quicken(problem, min(runs, key=lambda run: run.value).point)) is not None:
            runs.append(descend(problem, [fast], settings.max_iterations))
        runs = [run for run in runs if not self._has_died(problem, run)] or runs
        if self.criterion is EVIDENCE:  # the highest optimum may be so narrow that there is little evidence for it
            runs = [max(runs, key=lambda run: average_evidence(problem, run.point))]
        return self._fit_on(problem.conclude(runs, points[0], settings.draws * settings.kernel_draws), rows)

    def _quicken(self, problem: Problem, point: Array) -> Array | None:
        return quicken(problem, point) if self.policy.quickens else None

    def _resume(self, expression: Expression, noise: float, steps: int | None = None) -> Fit:
        """Fit a kernel that has all its values from there on."""
        problem, most = self._prepare(expression, self.data), self.settings.max_iterations
        point = problem.point(problem.starts.typical(), Gaussian(noise))
        run = descend(problem, [point], min(steps or most, most))
        # a few steps with more rows: that there are few of them is no failure to converge
        return problem.conclude([replace(run, converged=True) if steps else run], point, 0)

    def _learn(self, learner: Learner, data: Data) -> Fit:
        found = learner.learn(replace(self.context, data=data, report=None, whole=None))
        if found.stopped == "request":
            raise KeyboardInterrupt
        return found.fit

    # ------------------------------------------------------------------------------------------------------- regimes

    def _dead(self, expression: Expression, X: Array) -> list[int]:
        """Return the regimes that hold at next to no row, the weakest first."""
        own = regimes.find_blend(expression)
        if own is None:
            return []
        s = regimes.regime_shares(own, X)
        rows, least = np.bincount(np.argmax(s, axis=0), minlength=len(s)), self.policy.least_rows
        return sorted((i for i in range(len(s)) if rows[i] < least), key=lambda i: (rows[i], s[i].sum()))

    def _notes(self, best: Fit) -> list[str]:
        notes = []
        own = regimes.find_blend(best.expression)
        if own is not None:
            s = regimes.regime_shares(own, self.data.X)
            for regime, rows in enumerate(np.bincount(np.argmax(s, axis=0), minlength=len(s)), start=1):
                if rows < self.policy.few_rows:
                    notes.append(f"regime {regime} rests on {rows} rows only: what is said about it is uncertain")
        scores = regimes.weigh_regimes(self.trials.candidates)
        asked = max(self.best)
        enough = min(self.best, key=lambda count: scores[count])
        if enough != asked:
            gain = scores[asked] - scores[enough]
            better = f"the BIC is smaller by {gain:.1f}"
            if self.criterion is EVIDENCE:
                better = f"the log evidence under the priors is larger by {0.5 * gain:.1f}"
            notes.append(
                f"the data do not support {asked} regimes: with {enough} {better}; "
                + ("there may be no change at all" if enough == 1 else f"ask for {enough}")
            )
        return notes


def _score(candidate: Candidate) -> float:
    return candidate.score


def descend(problem: Problem, points: Sequence[Array], iterations: int) -> Run:
    """Minimise from the point with the largest evidence, here or in a worker."""
    with one_thread(when=problem.data.count < ONE_THREAD_BELOW):
        best = points[int(np.argmax(screen(problem, points)))] if len(points) > 1 else points[0]
        if problem.prior is None:
            return minimise(problem, [best], iterations)[0]
        # weights of features are of order four and their frequencies of order a tenth: a third of the steps are enough
        return minimise_scaled(problem, best, measure_spread(problem), iterations)


# ---------------------------------------------------------------------------------------------------- fast variation
# What varies fast in one regime only is easily taken for noise. On several columns a fit begins with lengthscales that
# suit rows far apart. Where one regime varies over the distance of neighbours, every such start ends with that regime
# flat and its variation in the noise, and no small step leads away.

NEIGHBOURS = (1.0, 2.0, 4.0)  # distances between neighbours that lengthscales are set to
LESS_NOISE = 0.1  # of what it was


def quicken(problem: Problem, point: Array) -> Array | None:
    """Return the best point with one leaf of several columns made fast, as variable as the noise was; None without."""
    starts, (values, likelihood) = problem.starts, problem.split(point)
    noise, points = likelihood.noise, []
    if problem.noise is not None:
        return None
    for number, leaf in enumerate(starts.leaves):
        own = {slot.spec.name: slot for slot in problem.layout.slots if slot.leaf == number and slot.fitted}
        if isinstance(leaf, Surface) or len(leaf.columns) < 2 or not {"lengthscale", "variance"} <= set(own):
            continue
        span = np.array(starts.frame.span)[list(leaf.columns)]
        near = span * problem.data.count ** (-1.0 / len(leaf.columns))
        for distances in NEIGHBOURS:
            changed = values.copy()
            changed[own["lengthscale"].where] = distances * near
            changed[own["variance"].where] = np.maximum(values[own["variance"].where], noise)
            points.append(problem.point(changed, Gaussian(LESS_NOISE * noise)))
    return points[int(np.argmax(screen(problem, points)))] if points else None
