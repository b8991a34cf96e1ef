"""The text alternatives of pictures: what a reader who cannot see them would want to know."""

from __future__ import annotations

from mercer.explain import ComponentExplanation, Explanation
from mercer.explain.networks import NetworkExplanation
from mercer.explain.wording import listed, number, percent


def fit_caption(explanation: Explanation) -> str:
    """Describe the picture of the fit."""
    target = explanation.target
    if explanation.extrapolation is None:
        effects = " ".join(effect.sentence for effect in explanation.effects)
        return f"Observed {target} against its prediction from the other rows, and {target} along each input. {effects}"
    column = explanation.extrapolation.column
    ends = next((each for each in explanation.inputs if each.name == column), None)
    range_text = f" from {ends.low} to {ends.high}" if ends is not None else ""
    told = " ".join(forecast.sentence for forecast in explanation.extrapolation.forecasts[-1:])
    return (
        f"{explanation.rows} rows of {target} along {column}{range_text} as dots, the fitted mean as a line with its "
        f"95 % band, and the same beyond the data on a shaded ground. {told}"
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
        f"The primitives {listed(list(network.primitives))}, then the layers {network.architecture}. Most of the "
        f"variance comes from {listed([name for _, name in strongest])}. {network.largest}"
    ).strip()


def residuals_caption(explanation: Explanation) -> str:
    """Describe the picture of the residuals."""
    return " ".join(check.sentence for check in explanation.checks) or explanation.residual_sentence


def search_caption(explanation: Explanation) -> str:
    """Describe the picture of the search."""
    if explanation.search is None:
        return ""
    steps = [f"{step.kernel} ({explanation.search.score} {step.score:.1f})" for step in explanation.search.path]
    told = f"{explanation.search.tried} kernels by depth and score. The way to the winner: {listed(steps)}."
    return told if explanation.search.intervals is None else f"{told} {explanation.search.intervals.sentence}"
