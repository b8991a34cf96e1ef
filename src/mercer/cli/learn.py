"""The work of `discover` and `demo`: a table in; a model, its explanation and its report out."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.cli.files import prepare_folder, write_json
from mercer.cli.forecast import show
from mercer.cli.terminal import Terminal, interrupt_once
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.estimators import GPRegressor, KernelSVC
    from mercer.forecast.next_steps import NextSteps
    from mercer.model.classes import FittedClasses
    from mercer.model.fitted import Fitted
    from mercer.tables import LoadedTable
    from mercer.tables.parquet_rows import ParquetRows

MODEL = "model.mercer"
AUTO = "auto"
SEARCH = "search"
NETWORK = "nkn"
SURFACE = "surface"
FUNCTIONAL = "kfo"
PARTITION = "partition"
MOST_SECONDS = 600.0  # of a search, where the user does not say: a person waits for it
MOST_CLASSES = 50
SECONDS_AFTER = 5.0  # of a time budget that words, pictures and files take after a search, whatever the rows
MOST_BUSY = 4.0  # times as long on a busy machine, as far as the time before the search can tell
WIDE = 88  # characters of a line in which all bands have room
EVALUATIONS_AFTER = 40.0  # and as many evaluations' worth: predictions of every component at all rows


@dataclass(frozen=True)
class Request:
    """What the user asked for; `inputs` None means all other columns, `jobs` None all cores."""

    command: str
    target: str
    out: Path
    inputs: list[str] | None = None
    exclude: tuple[str, ...] = ()
    missing: str = "drop"  # of rows that lack an input; or "fail"
    kernel: str | None = None  # None: as Mercer chooses, or a search where there are settings of one
    classes: bool = False  # the target is a class, not a number
    bases: list[str] | None = None
    score: str | None = None
    finalists: str | None = None
    time_budget: float | None = None
    depth: int | None = None
    jobs: int | None = None
    checkpoint: Path | None = None
    seed: int = 0
    operators: str | None = None
    regimes: int | None = None

    @property
    def learner(self) -> str:
        """What to learn by: what the user says, a search where there are settings of one, or what the data ask for."""
        if self.kernel is not None:
            return self.kernel
        settings = (self.bases, self.score, self.finalists, self.depth, self.checkpoint, self.operators)
        return SEARCH if not self.classes and any(setting is not None for setting in settings) else AUTO


def learn_and_write(request: Request, read: Callable[[], LoadedTable | ParquetRows], terminal: Terminal) -> None:
    """Learn, explain and write; options and the output folder are tried before the long work."""
    started, worked = terminal.begun, terminal.worked
    with terminal.starting():
        from mercer.estimators import GPRegressor, KernelSVC
        from mercer.explain import explain
        from mercer.explain.classes import explain_classes
        from mercer.forecast.next_steps import foresee
        from mercer.model.archive import save
        from mercer.model.classes import FittedClasses

    kernel = choose_kernel(request)
    folder = prepare_folder(request.out)
    with terminal.working("reading the data"):
        table = read()
        inputs, target, names = prepare_rows(request, table, terminal)
    model: GPRegressor | KernelSVC
    if request.classes:
        classifier = leave_time(KernelSVC, time.perf_counter() - started, time.process_time() - worked)
        model, scored = classifier(kernel=kernel, random_state=request.seed), None  # scores are errors: no units
    else:
        jobs = -1 if request.jobs is None and not isinstance(kernel, str) else request.jobs
        regressor = leave_time(GPRegressor, time.perf_counter() - started, time.process_time() - worked)
        model = regressor(kernel=kernel, random_state=request.seed, n_jobs=jobs)
        scored = None if target is None else target.to_numpy()
    with interrupt_once():
        terminal.prepare_core()
        with terminal.fitting(scored, names if len(names) > 1 else None) as progress:
            fitted: Fitted | FittedClasses = model.fit(inputs, target, progress=progress).fitted_
        if fitted.stopped == "request":
            terminal.aside("stopped at your request; going on with the best so far")
        for note in fitted.notes:
            terminal.note(note)
        fitted = remember_day_order(replace(fitted, notes=tuple(terminal.notes)), table)
        file = folder / MODEL
        save(fitted, file)  # before all else: who stops the explanation keeps what was learned
        again = f"mercer explain {shlex.quote(str(file))}"
        terminal.stopped = f"stopped before all was written; the model is kept: {again}"
        with terminal.working("explaining"):
            explanation = explain_classes(fitted) if isinstance(fitted, FittedClasses) else explain(fitted)
            steps = None if isinstance(fitted, FittedClasses) else foresee(fitted)
            files = write_results(fitted, explanation, folder, steps)
    elapsed = time.perf_counter() - started
    listing = "\n".join(f"wrote     {path}" for path in files.values())
    ahead = "" if steps is None else f"{show_steps(steps, terminal.width)}\n"
    document: dict[str, Any] = {"command": request.command, "explanation": explanation.to_json(), "files": files}
    if steps is not None:
        document["next"] = steps.table.assign(ds=steps.table["ds"].astype(str)).to_dict("records")
    terminal.finish(
        f"{explanation.to_text(terminal.width)}\n{ahead}{listing}\ndone in {elapsed:.1f} s",
        {**document, "elapsed_seconds": elapsed},
    )


def show_steps(steps: NextSteps, width: int) -> str:
    """Return the next steps as text: the outer band alone where lines are short."""
    from mercer.explain.wording import wrap

    indent = " " * 10
    table = steps.table if width >= WIDE else steps.table[["ds", "mean", "lower_95", "upper_95"]]
    rows = [f"{indent}{line}" for line in show(table).splitlines()]
    return "\n".join([*wrap(f"{steps.origin}:", f"{'steps':<10}", width), *rows])


def leave_time(estimator: type[Any], seconds: float, worked: float) -> type[Any]:
    """Return an estimator whose search leaves time in its budget for the seconds before it and for what comes after.

    The user's budget is that of the whole command. On a busy machine, where the seconds so far were more than the
    processor `worked`, what comes after takes longer too.
    """
    from mercer.learners.grammar import SearchPolicy

    busy = min(max(1.0, seconds / worked if worked > 0 else 1.0), MOST_BUSY)

    class Estimator(estimator):  # type: ignore[misc]
        """The same estimator."""

        policies = (
            *estimator.policies,
            SearchPolicy(evaluations_after=EVALUATIONS_AFTER, seconds_after=seconds + busy * SECONDS_AFTER),
        )

    return Estimator


def choose_kernel(request: Request) -> Any:
    """Return the structure that the user gave, or the learner with the user's settings, checked.

    For classes there are some names more.
    """
    from mercer import AutoKernel, ChangeSurface, GrammarSearch, KernelFunctional, NeuralKernelNetwork, PartitionSampler
    from mercer import parse as parse_kernel
    from mercer.kernels import REGISTRY
    from mercer.learners.criteria import CRITERIA
    from mercer.learners.growth import check_operators
    from mercer.learners.judging import AUTO as AUTO_SCORE
    from mercer.model.fitted import CLASS_KERNELS

    kernel, timed = request.learner, (AUTO, NETWORK, FUNCTIONAL, PARTITION)
    settings: dict[str, Any] = {
        "--bases": request.bases, "--time-budget": request.time_budget, "--depth": request.depth,
        "--checkpoint": request.checkpoint, "--score": request.score, "--finalists": request.finalists,
        "--operators": request.operators,
    }  # fmt: skip
    if request.regimes is not None and kernel != SURFACE:
        raise InputError("--regimes: only for --kernel surface, which learns where one regime gives way to another.")
    if kernel != SEARCH:
        kept = ("--time-budget",) if kernel in timed else ()
        useless = [option for option, value in settings.items() if value is not None and option not in kept]
        if useless:
            raise InputError(f"{', '.join(useless)}: only for a search. Leave out --kernel to search for a structure.")
        if kernel == AUTO:
            _check_seconds(request.time_budget)
            return AutoKernel(time_budget=request.time_budget)
        if kernel == NETWORK:
            return NeuralKernelNetwork(time_budget=_check_seconds(request.time_budget))
        if kernel == SURFACE:
            return ChangeSurface() if request.regimes is None else ChangeSurface(regimes=request.regimes)
        if kernel == FUNCTIONAL:
            return KernelFunctional(time_budget=_check_seconds(request.time_budget))
        if kernel == PARTITION:
            return PartitionSampler(time_budget=_check_seconds(request.time_budget))
        if not (request.classes and kernel in CLASS_KERNELS):
            parse_kernel(kernel)
        return kernel
    budget = MOST_SECONDS if request.time_budget is None else _check_seconds(request.time_budget)
    bases = [name.upper() for name in request.bases] if request.bases is not None else None
    unknown = [name for name in bases or () if name not in REGISTRY]
    if unknown or bases == []:
        wrong = f"there is no base kernel {', '.join(map(repr, unknown))}" if unknown else "the list is empty"
        raise InputError(f"--bases: {wrong}. There are {', '.join(REGISTRY)}.")
    score = AUTO_SCORE if request.score is None else request.score.lower()
    if score not in (AUTO_SCORE, *CRITERIA):
        there = ", ".join([AUTO_SCORE, *CRITERIA])
        raise InputError(f"--score: there is no score {request.score!r}. There are {there}.")
    if request.finalists not in (None, "score", "forward"):
        raise InputError(f"--finalists is score or forward, not {request.finalists!r}.")
    if request.operators is not None:
        check_operators(request.operators)
    search = GrammarSearch(score=score, max_depth=request.depth, time_budget=budget, checkpoint=request.checkpoint)
    given: dict[str, Any] = {
        "operators": request.operators,
        "finalists": request.finalists,
        "bases": bases and tuple(bases),
    }
    return replace(search, **{name: value for name, value in given.items() if value is not None})


def _check_seconds(budget: float | None) -> float | None:
    if budget is not None and not budget > 0:
        wrong = f"--time-budget is a number of seconds greater than zero, not {budget:g}."
        raise InputError(wrong, about="time_budget")
    return None if budget == math.inf else budget


def remember_day_order(fitted: Any, table: LoadedTable | ParquetRows) -> Any:
    """Return the model with the columns of dates that were written day first, so that new tables are read alike."""
    from mercer.tables import LoadedTable

    decisions = table.decisions if isinstance(table, LoadedTable) else ()
    names = {name for one in decisions if (one.kind, one.value) == ("day order", "day") for name in one.columns}
    encoding = fitted.columns.learned
    if not names or encoding is None:
        return fitted
    columns = replace(fitted.columns, learned=encoding.read_day_first(names))
    return replace(fitted, training=replace(fitted.training, columns=columns))


def prepare_rows(
    request: Request, table: LoadedTable | ParquetRows, terminal: Terminal
) -> tuple[pd.DataFrame | ParquetRows, pd.Series | None, tuple[str, ...]]:
    """Return inputs, target (a stream knows its own) and the names of the encoded columns; notes are kept.

    All that can be checked before the fit is checked.
    """
    from mercer.model.fitted import LEARNERS
    from mercer.tables import Encoding, describe_gaps, split_classes, split_target
    from mercer.tables.decisions import describe
    from mercer.tables.parquet_rows import ParquetRows
    from mercer.tables.selection import exclude_columns, find_complete_rows, select_columns

    if request.missing not in ("drop", "fail"):
        raise InputError(f"--missing is drop or fail, not '{request.missing}'.")
    if isinstance(table, ParquetRows):
        if request.classes:
            raise InputError(
                "The table does not fit into memory, and classes can only be learned there. Take fewer rows."
            )
        terminal.note(f"the table does not fit into memory: its {table.total:,} rows are read in parts")
        return table, None, table.names
    for decision in table.decisions:
        terminal.note(describe(decision))
    frame, excluded = exclude_columns(table.frame, request.target, request.exclude)
    chosen = request.inputs and [name for name in request.inputs if name not in request.exclude]
    split = (split_classes if request.classes else split_target)(frame, request.target, chosen)
    present = split.target.notna()
    inputs, target = split.inputs[present], split.target[present]
    missing = "class in" if request.classes else "value in the target"
    if len(target) < len(present) and (request.classes or len(target) > 1):
        terminal.note(
            f"{len(present) - len(target)} of {len(present)} rows have no {missing} '{target.name}' and were left out"
        )
    (_check_classes if request.classes else _check_numbers)(target, len(present))
    inputs, unused = select_columns(inputs, request.inputs is not None)
    complete, gaps = find_complete_rows(inputs, refuse=request.missing == "fail")
    inputs, target = inputs[complete], target[complete]
    for decision in (*excluded, *unused, *gaps):
        terminal.note(describe(decision))
    if gaps:
        (_check_classes if request.classes else _check_numbers)(target, len(present))
    learner = LEARNERS.get(request.learner)
    one_hot = request.classes or (learner is not None and not learner.takes_categories)
    encoding = Encoding.learn(inputs, one_hot)
    matrix = encoding.apply(inputs)
    if not (matrix != matrix[0]).any():
        raise InputError(
            f"No input column varies ({', '.join(map(repr, inputs.columns))}), so nothing can be learned from them. "
            "Name other columns with --inputs.",
            about="inputs",
        )
    for note in (*split.notes, *encoding.notes, *describe_gaps(inputs, encoding)):
        terminal.note(note)
    copies = int(inputs.assign(**{"\0target": target}).duplicated().sum())
    if copies:
        what = "1 row is an exact copy of another" if copies == 1 else f"{copies} rows are exact copies of others"
        terminal.note(f"{what}; they are kept and count as repeated measurements")
    return inputs, target, encoding.names


def _check_numbers(target: pd.Series, rows: int) -> None:
    from mercer.explain.words import CONSTANT
    from mercer.tables.names import pluralise

    if len(target) < 2:
        raise InputError(
            f"The target column '{target.name}' has a value in {len(target)} of {pluralise(rows, 'row')}; at least "
            "2 are needed to learn anything. Give more data.",
            about="target",
        )
    if target.min() == target.max():
        raise InputError(
            f"The target column '{target.name}' has {CONSTANT}. It is the same ({target.iloc[0]:g}) in all "
            f"{len(target)} rows: there is nothing to learn, and nothing was written. "
            "Choose another column with --target.",
            about="target",
        )


def _check_classes(target: pd.Series, rows: int) -> None:
    from mercer.tables.names import pluralise

    kinds = target.nunique()
    if kinds < 2:
        raise InputError(
            f"The target column '{target.name}' has only one class in {pluralise(len(target), 'row')}: there is "
            "nothing to tell apart, and nothing was written. Choose another column with --target.",
            about="target",
        )
    if kinds > MOST_CLASSES:
        raise InputError(
            f"The target column '{target.name}' has {kinds} different values, more than {MOST_CLASSES} classes. "
            "If it is a number, leave out --task; otherwise join rare classes.",
            about="target",
        )


def write_results(
    fitted: Fitted | FittedClasses, explanation: Any, folder: Path, steps: NextSteps | None = None
) -> dict[str, str]:
    """Write everything; return the paths by kind, the report first."""
    from mercer.explain.search import winner_of
    from mercer.model.archive import candidates_to_plain, save
    from mercer.model.fitted import Fitted
    from mercer.report import write_report
    from mercer.report.classes import write_class_report
    from mercer.report.plots import components_figure, fit_figure, save_figure
    from mercer.report.view import View

    kinds = {"report": "report.html", "model": MODEL, "explanation": "explanation.json"}
    files = {kind: folder / name for kind, name in kinds.items()}
    save(fitted, files["model"])
    write_json(explanation.to_json(), files["explanation"])
    document: dict[str, Any] = {"format": "mercer-candidates", "version": 1}
    if isinstance(fitted, Fitted):
        files |= {"fit": folder / "fit.png", "components": folder / "components.png"}
        view = View(fitted)
        write_report(view, files["report"], explanation, steps)
        save_figure(fit_figure(view), files["fit"])
        save_figure(components_figure(view, explanation), files["components"])
        document["winner"] = winner_of(fitted.candidates, fitted.kernel)  # `winner` and `parent` count from 0
    else:
        write_class_report(fitted, files["report"], explanation)
    if fitted.candidates:
        files["candidates"] = folder / "candidates.json"
        document["candidates"] = candidates_to_plain(fitted.candidates, fitted.columns.names)
        write_json(document, files["candidates"])
    return {kind: str(path) for kind, path in files.items()}
