"""A figure as inline SVG: colours that follow the page (light, dark, paper), text that is text, a text alternative.

Matplotlib draws with the palette of `view.py`; here each of its colours becomes a CSS variable with that colour as the
fallback. Names inside the drawing get a prefix, because names must be unique in a page.
"""

from __future__ import annotations

import io
import re
from html import escape

from matplotlib import rc_context
from matplotlib.figure import Figure

from mercer.report.view import BLUE, GREY, GROUND, INK, ORANGE, PALE, STYLE, YELLOW

VARIABLES = {
    BLUE: "--blue", ORANGE: "--orange", YELLOW: "--yellow", GREY: "--grey", INK: "--ink", PALE: "--pale",
    GROUND: "--ground",
}  # fmt: skip
SVG_STYLE = STYLE | {"svg.fonttype": "none", "svg.hashsalt": "mercer", "path.simplify_threshold": 0.2}
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
TAG = re.compile(r"<[^>]+>")
NUMBER = re.compile(r"-?\d+\.\d{3,}")


def inline_svg(figure: Figure, name: str, title: str, description: str, css_class: str = "") -> str:
    """Return the drawing as an element of a page; `name` must be unique in it."""
    buffer = io.StringIO()
    figure.set_layout_engine("none")  # laid out already, and that takes most of the time
    with rc_context(SVG_STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata=NO_METADATA)
    text = buffer.getvalue()
    body = text[text.index("<svg") :]
    start, end = body.index(">") + 1, body.rindex("</svg>")
    box = re.search(r'viewBox="([^"]+)"', body[:start])
    assert box is not None
    inside = _short_numbers(_with_prefix(_with_variables(_without_extras(body[start:end])), name))
    return (
        f'<svg class="{css_class}" viewBox="{box[1]}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
        f"{inside}</svg>"
    )


def _without_extras(text: str) -> str:
    """Drop metadata, comments, and the fonts that Matplotlib measured with: the page has its own."""
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    return re.sub(r"\s*\n\s*", "\n", text)


def _with_variables(text: str) -> str:
    for colour, variable in VARIABLES.items():
        text = re.sub(colour, f"var({variable}, {colour.lower()})", text, flags=re.IGNORECASE)
    return text


def _with_prefix(text: str, name: str) -> str:
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)


def _short_numbers(text: str) -> str:
    """Keep two decimals inside tags: a hundredth of a point cannot be seen. Labels stay as they are."""

    def short(number: re.Match[str]) -> str:
        return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")

    return TAG.sub(lambda tag: NUMBER.sub(short, tag[0]), text)
