"""The report: an explanation and its pictures on one self-contained HTML page."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from mercer.explain import ComponentExplanation, Explanation, explain, words
from mercer.explain.functionals import FunctionalExplanation
from mercer.explain.networks import NetworkExplanation
from mercer.explain.search import PathStep, RunnerUp
from mercer.explain.wording import list_names, number, percent, resolve
from mercer.fitting.periods import typical_gap
from mercer.kernels.leaf import LEAVES
from mercer.report.changes import change_figure
from mercer.report.diagnostics import residuals_figure, search_figure
from mercer.report.networks import network_figure, shape_figure, units_figure
from mercer.report.plots import component_figure, fit_figure
from mercer.report.svg import inline_svg
from mercer.report.view import View
from mercer.tables.columns import CategoryColumn, DateColumn

if TYPE_CHECKING:
    from mercer.model.fitted import Fitted
    from mercer.tables.columns import Column

# The page shows one of two drawings of each picture: (class, width in pixels, pixels for an inch).
SIZES = (("wide", 760, 104), ("narrow", 358, 96))
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch")
Draw = Callable[..., Figure | None]


def report_html(fitted: Fitted | View, explanation: Explanation | None = None) -> str:
    """Return the page."""
    view = View.of(fitted)
    fitted = view.fitted
    explanation = explain(fitted) if explanation is None else explanation
    environment = template_environment()
    css = environment.get_template("report.css").render()
    return environment.get_template("report.html").render(
        explanation=explanation,
        css=Markup(css),
        pictures=_pictures(view, explanation),
        symbols=_symbols(fitted),
        usage=usage(fitted),
        protocol=protocol(fitted),
    )


def template_environment() -> Environment:
    """Return what all pages are made with."""
    environment = Environment(
        loader=PackageLoader("mercer.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_unbroken,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "resolved": resolve, "percent": percent}
    environment.filters |= {"code": escape, "in_cell": _in_cell, "ends": _ends}
    return environment


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


# ------------------------------------------------------------------------------------------------------------ pictures


@dataclass(frozen=True)
class Picture:
    """A picture to be drawn in both sizes."""

    name: str
    title: str
    description: str
    draw: Draw

    def html(self) -> Markup:
        drawn = [(size, self.draw(width=width, density=density)) for size, width, density in SIZES]
        return Markup("\n").join(
            Markup(inline_svg(figure, f"{self.name}-{size}", self.title, self.description, size))
            for size, figure in drawn
            if figure is not None
        )


def _pictures(view: View, explanation: Explanation) -> dict[str, Any]:
    target, score = explanation.target, explanation.search.score if explanation.search is not None else ""
    fit = Picture("fit", f"{target}: data, fit and forecast", fit_caption(explanation), partial(fit_figure, view))
    left = " ".join(check.sentence for check in explanation.checks) or explanation.residual_sentence
    way = search_caption(explanation)
    return {
        "fit": fit.html(),
        "components": [
            Picture(
                f"component{place}", component.title, component_caption(component),
                partial(component_figure, view, explanation, component),
            ).html()
            for place, component in enumerate(explanation.main_components)
        ],
        "networks": [_network_pictures(view, place, network) for place, network in enumerate(explanation.networks)],
        "change": Markup("") if explanation.change is None else Picture(
            "change", "Where it changes", " ".join(explanation.change.sentences), partial(change_figure, view)
        ).html(),
        "functionals": draw_shapes(explanation.functionals),
        "residuals": Picture("residuals", "What is left over", left, partial(residuals_figure, view)).html(),
        "search": Picture("search", "The path of the search", way, partial(search_figure, view, score)).html(),
    }  # fmt: skip


def draw_shapes(functionals: Sequence[FunctionalExplanation]) -> list[Markup]:
    """Draw the shape of each functional of a kernel."""
    return [
        Picture(f"shape{place}", "The shape of the kernel", shape.sentence, partial(shape_figure, shape)).html()
        for place, shape in enumerate(functionals)
    ]


def _network_pictures(view: View, place: int, network: NetworkExplanation) -> dict[str, Any]:
    several = len(view.subject.table_columns) > 1
    layers = Picture(
        f"network{place}", f"The network {network.architecture}", network_caption(network),
        partial(network_figure, view, network),
    )  # fmt: skip
    units = Picture(
        f"units{place}", "What each unit is like", words.patterns_caption(several),
        partial(units_figure, view, network, place),
    )  # fmt: skip
    return {
        "layers": layers.html(), "layers_caption": words.FLOW_CAPTION,
        "units": units.html(), "units_caption": words.patterns_caption(several),
    }  # fmt: skip


# --------------------------------------------------------------------------------------------- mathematics and protocol


def _symbols(fitted: Fitted) -> list[dict[str, Any]]:
    """Return the base kernels that were tried, with their formulas; `used` are those of the winner."""
    used = {leaf.symbol for leaf in fitted.kernel.leaves()}
    tried = used.union(leaf.symbol for c in fitted.candidates if c.depth == 0 for leaf in c.expression.leaves())
    return [
        {"symbol": s, "name": leaf.name, "formula": leaf.formula, "words": leaf.words.summary, "used": s in used}
        for s, leaf in LEAVES.items()
        if s in tried
    ]


def usage(fitted: Fitted) -> str:
    """Return five lines of Python that use the model, with a row that it can predict."""
    view = View.of(fitted)
    row = {column.name: _example(view, column) for column in view.columns}
    return write_usage(
        row, fitted.columns.named, "mean, std = model.predict(new, return_std=True)  # of a new observation"
    )


def write_usage(row: dict[str, Any], named: bool, predict: str) -> str:
    """Return Python that loads a model, predicts a row and explains it."""
    new, imports = json.dumps([list(row.values())]), "import mercer"
    if named:
        new, imports = f"pd.DataFrame([{json.dumps(row, ensure_ascii=False)}])", "import mercer, pandas as pd"
    load = 'model = mercer.load("model.mercer")'
    return "\n".join([imports, load, f"new = {new}", predict, "print(model.explain())"])


def _example(view: View, column: Column) -> Any:
    """Return the step after the last date, the last number, or the most common category."""
    if isinstance(column, CategoryColumn):
        return view.typical(column)
    numbers = view.encode(column)
    if isinstance(column, DateColumn):
        return write_date(column, numbers.max() + typical_gap(numbers))
    return float(f"{numbers[-1]:.6g}")


def write_date(column: DateColumn, value: float) -> str:
    """Return a date as text that a model reads."""
    return str(column.timeline.moments([value])[0].astype("datetime64[s]")).removesuffix("T00:00:00")


def protocol(fitted: Fitted) -> list[tuple[str, str]]:
    """Return what another person needs to get the same result."""
    rows = [("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))]
    if fitted.seconds is not None:
        rows.append(("Time to learn", f"{fitted.seconds:.1f} s"))
    origin = fitted.origin
    rows.append(("Seed", str(origin.options["random_state"])))
    given = origin.given is not None
    settings = {"kernel": origin.given} if given else origin.learner_settings
    ours = ("noise", "restarts", "priors", "max_iterations", "device", "n_jobs") if given else ("n_jobs",)
    options = {name: origin.options[name] for name in ours}
    shown = []
    for name, value in (options | settings).items():
        if value is not None:
            shown.append(f"{name}={' '.join(map(str, value)) if isinstance(value, list | tuple) else value}")
    rows += [("Settings", ", ".join(shown)), ("Inference", fitted.choice.reason)]
    rows.append(("Versions", list_versions()))
    return rows


def list_versions() -> str:
    """List Mercer, Python and the libraries that results may depend on."""
    versions = [f"{name} {version(name)}" for name in LIBRARIES]
    return ", ".join([f"mercer {version('mercer')}", f"Python {platform.python_version()}", *versions])


# ---------------------------------------------------------------------------------------- text alternatives of pictures


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


def component_caption(component: ComponentExplanation) -> str:
    """Describe the picture of a component."""
    swing = number(max(component.mean) - min(component.mean))
    return (
        f"{component.sentence} Over the data it changes by {swing}; it makes up {percent(component.share)} of the "
        f"variance. {component.continuation}"
    ).strip()


def network_caption(network: NetworkExplanation) -> str:
    """Describe the picture of a network."""
    strongest = sorted(zip(network.primitive_flows, network.primitives, strict=True), reverse=True)[:3]
    return (
        f"The primitives {list_names(list(network.primitives))}, then the layers {network.architecture}. Most of the "
        f"variance comes from {list_names([name for _, name in strongest])}. {network.largest}"
    ).strip()


def search_caption(explanation: Explanation) -> str:
    """Describe the picture of the search."""
    if explanation.search is None:
        return ""
    steps = [f"{step.kernel} ({explanation.search.score} {step.score:.1f})" for step in explanation.search.path]
    text = f"{explanation.search.tried} kernels by depth and score. The way to the winner: {list_names(steps)}."
    return text if explanation.search.intervals is None else f"{text} {explanation.search.intervals.sentence}"
