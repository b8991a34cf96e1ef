"""The report: an explanation and its pictures on one self-contained HTML page."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from mercer.explain import Explanation, explain, network_words
from mercer.explain.functionals import FunctionalExplanation
from mercer.explain.networks import NetworkExplanation
from mercer.explain.search import PathStep, RunnerUp
from mercer.explain.wording import brief, list_names, number, percent, probability, resolve
from mercer.explain.words import STARTS
from mercer.fitting.periods import typical_gap
from mercer.kernels.leaf import LEAVES
from mercer.report.changes import change_figure
from mercer.report.diagnostics import residuals_figure, search_figure
from mercer.report.moving import gather_numbers
from mercer.report.networks import network_figure, shape_figure, units_figure
from mercer.report.partitions import partition_figure
from mercer.report.plots import component_figure, fit_figure
from mercer.report.svg import inline_svg
from mercer.report.view import View
from mercer.tables.columns import Categories, DateColumn
from mercer.writing import json_for_script

if TYPE_CHECKING:
    from mercer.model.fitted import Fitted


# The page shows one of two drawings of each picture: (class, width in pixels, pixels for an inch).
SIZES = (("wide", 760, 104), ("narrow", 358, 96))
QUESTIONS = {
    "trend": "Does it rise or fall?", "change": "Does it jump?", "season": "Is there a season?",
    "inputs": "What matters most?",
    "next": "What comes next?", "certain": "How certain is that?", "unusual": "What is unusual?",
}  # fmt: skip
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch")
Draw = Callable[..., Figure | None]


class NextStepsTable(Protocol):
    """What comes next, as the page shows it: a row for each step, and where they come from."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """For each step `when`, `mean` and `bands`."""

    @property
    def origin(self) -> str:
        """Where they come from."""


def report_html(
    fitted: Fitted | View, explanation: Explanation | None = None, steps: NextStepsTable | None = None
) -> str:
    """Return the page."""
    view = View.of(fitted)
    fitted = view.fitted
    explanation = explain(fitted) if explanation is None else explanation
    used = {leaf.symbol for leaf in fitted.kernel.leaves()}
    tried = used.union(leaf.symbol for c in fitted.candidates if c.depth == 0 for leaf in c.expression.leaves())
    symbols = [
        {"symbol": s, "name": leaf.name, "formula": leaf.formula, "words": leaf.words.summary, "used": s in used}
        for s, leaf in LEAVES.items()
        if s in tried
    ]
    return render(
        "report.html",
        explanation=explanation,
        steps=steps,
        pictures=_draw_pictures(view, explanation),
        symbols=symbols,
        questions=QUESTIONS,
        summands=[part.text for part in view.subject.parts],
        level=view.subject.fitted_level,
        noise=math.sqrt(view.subject.noise) * view.subject.units.y_scale,
        usage=usage(fitted),
        protocol=protocol(fitted),
        moving=None if (numbers := gather_numbers(view, explanation)) is None else Markup(json_for_script(numbers)),
    )


def render(template: str, **content: Any) -> str:
    """Fill in a page."""
    environment = Environment(
        loader=PackageLoader("mercer.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_unbroken,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "resolved": resolve, "percent": percent, "probability": probability}
    environment.filters |= {"brief": partial(brief, most=80), "code": escape, "in_cell": _in_cell, "ends": _ends}
    css = Markup(environment.get_template("report.css").render())
    script = Markup("\n".join(environment.get_template(name).render() for name in ("chart.js", "moving.js")))
    return environment.get_template(template).render(css=css, script=script, starts=STARTS, **content)


def _unbroken(value: Any) -> Any:
    """Keep a number and its sign on one line; code (already escaped) stays as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    for part in (" %", "p = ", "p < ", "± "):
        value = value.replace(part, part.replace(" ", "\u00a0"))
    return value


def _in_cell(kernel: str) -> Markup:
    """Escape a kernel for a narrow cell: a line may end before a sign, never behind it."""
    return Markup(re.sub(r"([*+]) (\S+)", r"<span>\1 \2</span>", str(escape(kernel))))


def _ends(row: PathStep | RunnerUp) -> str:
    """Write the score of a kernel, or between what it lies."""
    if row.interval is None:
        return f"{row.score:.1f}" if isinstance(row, PathStep) else ""
    low, high = (f"{end:.1f}" for end in row.interval)
    return low if low == high else f"{low} to {high}"


def draw_picture(name: str, title: str, description: str, draw: Draw) -> Markup:
    """Draw a picture in both sizes; nothing where there is nothing to draw."""
    drawn = [(size, draw(width=width, density=density)) for size, width, density in SIZES]
    texts = [inline_svg(each, f"{name}-{size}", title, description, size) for size, each in drawn if each is not None]
    return Markup("\n").join(map(Markup, texts))


def _draw_pictures(view: View, explanation: Explanation) -> dict[str, Any]:
    """Draw all pictures of a report, each with a text that describes it."""
    target, score = explanation.target, explanation.search.score if explanation.search is not None else ""
    parts = []
    for place, component in enumerate(explanation.main_components):
        swing, share = number(max(component.mean) - min(component.mean)), percent(component.share)
        text = f"{component.sentence} Over the data it changes by {swing}; it makes up {share} of the variance."
        text = f"{text} {component.continuation}".strip()
        draw = partial(component_figure, view, explanation, component)
        parts.append(draw_picture(f"component{place}", component.title, text, draw))
    change = Markup("")
    if explanation.change is not None:
        text = " ".join(explanation.change.sentences)
        change = draw_picture("change", "Where it changes", text, partial(change_figure, view))
    partition = Markup("")
    if explanation.partition is not None:
        text, draw = " ".join(explanation.partition.sentences), partial(partition_figure, explanation.partition)
        partition = draw_picture("partition", "Which inputs act together", text, draw)
    title = f"{target}: data, fit and forecast"
    left = " ".join(check.sentence for check in explanation.checks) or explanation.residual_sentence
    way = ""
    if explanation.search is not None:
        steps = [f"{step.kernel} ({score} {step.score:.1f})" for step in explanation.search.path]
        way = f"{explanation.search.tried} kernels by depth and score. The way to the winner: {list_names(steps)}."
        if explanation.search.intervals is not None:
            way = f"{way} {explanation.search.intervals.sentence}"
    return {
        "fit": draw_picture("fit", title, fit_caption(explanation), partial(fit_figure, view)),
        "components": parts,
        "networks": [_draw_network(view, place, network) for place, network in enumerate(explanation.networks)],
        "change": change,
        "functionals": draw_shapes(explanation.functionals),
        "partition": partition,
        "residuals": draw_picture("residuals", "What is left over", left, partial(residuals_figure, view)),
        "search": draw_picture("search", "The path of the search", way, partial(search_figure, view, score)),
    }


def draw_shapes(functionals: Sequence[FunctionalExplanation]) -> list[Markup]:
    """Draw the shape of each functional of a kernel."""
    return [
        draw_picture(f"shape{place}", "The shape of the kernel", shape.sentence, partial(shape_figure, shape))
        for place, shape in enumerate(functionals)
    ]


def _draw_network(view: View, place: int, network: NetworkExplanation) -> dict[str, Any]:
    strongest = sorted(zip(network.primitive_flows, network.primitives, strict=True), reverse=True)[:3]
    text = f"The primitives {list_names(network.primitives)}, then the layers {network.architecture}."
    text += f" Most of the variance comes from {list_names([name for _, name in strongest])}. {network.largest}"
    name, draw = f"The network {network.architecture}", partial(network_figure, view, network)
    caption = network_words.patterns_caption(several=len(view.subject.table_columns) > 1)
    units = "What each unit is like"
    return {
        "layers": draw_picture(f"network{place}", name, text.strip(), draw),
        "layers_caption": network_words.FLOW_CAPTION,
        "units": draw_picture(f"units{place}", units, caption, partial(units_figure, view, network, place)),
        "units_caption": caption,
    }  # fmt: skip


def usage(fitted: Fitted) -> str:
    """Return five lines of Python that use the model, with a row that it can predict.

    The row has the step after the last date, the last number, or the most common category of each column.
    """
    view, row = View.of(fitted), dict[str, Any]()
    for column in view.columns:
        if isinstance(column, Categories):
            row[column.name] = column.levels[view.most_common(column)]
            continue
        numbers = view.values(column)[:, 0]
        row[column.name] = float(f"{numbers[-1]:.6g}")
        if isinstance(column, DateColumn):
            row[column.name] = write_date(column, numbers.max() + typical_gap(numbers))
    predict = "mean, std = model.predict(new, return_std=True)  # of a new observation"
    return write_usage(row, fitted.columns.has_names, predict)


def write_usage(row: dict[str, Any], named: bool, predict: str) -> str:
    """Return Python that loads a model, predicts a row and explains it."""
    new, imports = json.dumps([list(row.values())]), "import mercer"
    if named:
        new, imports = f"pd.DataFrame([{json.dumps(row, ensure_ascii=False)}])", "import mercer, pandas as pd"
    load = 'model = mercer.load("model.mercer")'
    return "\n".join([imports, load, f"new = {new}", predict, "print(model.explain())"])


def write_date(column: DateColumn, value: float) -> str:
    """Return a date as text that a model reads."""
    return str(column.timeline.moments([value])[0].astype("datetime64[s]")).removesuffix("T00:00:00")


def protocol(fitted: Fitted) -> list[tuple[str, str]]:
    """Return what another person needs to get the same result."""
    origin = fitted.origin
    given = origin.given is not None
    settings = {"kernel": origin.given} if given else origin.learner_settings
    ours = ("noise", "restarts", "priors", "max_iterations", "device", "n_jobs") if given else ("n_jobs",)
    options = {name: origin.options[name] for name in ours}
    shown = []
    for name, value in (options | settings).items():
        if value is not None and name != "checkpoint":  # a folder of this machine: the result does not depend on it
            shown.append(f"{name}={' '.join(map(str, value)) if isinstance(value, list | tuple) else value}")
    rows = list_origin(fitted.seconds, origin.options["random_state"])
    rows += [("Settings", ", ".join(shown)), ("Inference", fitted.choice.reason), ("Versions", list_versions())]
    return rows


def list_origin(seconds: float | None, seed: Any) -> list[tuple[str, str]]:
    """Return when the page was written, how long learning took, and from which seed."""
    written = ("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    learned = [] if seconds is None else [("Time to learn", f"{seconds:.1f} s")]
    return [written, *learned, ("Seed", str(seed))]


def list_versions() -> str:
    """List Mercer, Python and the libraries that results may depend on."""
    versions = [f"{name} {version(name)}" for name in LIBRARIES]
    return ", ".join([f"mercer {version('mercer')}", f"Python {platform.python_version()}", *versions])


def fit_caption(explanation: Explanation) -> str:
    """Describe the picture of the fit."""
    target = explanation.target
    if explanation.extrapolation is None:
        effects = " ".join(effect.sentence for effect in explanation.effects)
        return f"Observed {target} against its prediction from the other rows, and {target} along each input. {effects}"
    column = explanation.extrapolation.column
    ends = next((each for each in explanation.inputs if each.name == column), None)
    range_text = f" from {ends.low} to {ends.high}" if ends is not None else ""
    last = " ".join(forecast.sentence for forecast in explanation.extrapolation.forecasts[-1:])
    return (
        f"{explanation.rows} rows of {target} along {column}{range_text} as dots, the fitted mean as a line with its "
        f"95 % band, and the same beyond the data on a shaded ground. {last}"
    )
