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
    # The page has its own fonts: those that Matplotlib measured with go, and so do metadata and comments.
    inside = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body[start:end], flags=re.DOTALL)
    inside = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", inside)
    inside = re.sub(r"\s*\n\s*", "\n", inside)
    for colour, variable in VARIABLES.items():
        inside = re.sub(colour, f"var({variable}, {colour.lower()})", inside, flags=re.IGNORECASE)
    inside = re.sub(r'\b(id="|href="#)([^"]+)"', rf'\1{name}-\2"', inside)
    inside = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", inside)
    # Two decimals inside tags: a hundredth of a point cannot be seen. Labels stay as they are.
    inside = TAG.sub(lambda tag: NUMBER.sub(lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), tag[0]), inside)
    return (
        f'<svg class="{css_class}" viewBox="{box[1]}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
        f"{inside}</svg>"
    )
