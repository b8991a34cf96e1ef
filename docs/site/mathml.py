"""Mathematics as MathML: browsers draw it themselves, without scripts, fonts or a network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

# The name of a function needs a little room before its argument, unless that is in brackets.
FUNCTION = re.compile(r"(\\(?:log|det|sin|cos|exp))(?![a-z])(?!\s*(?:\(|\\left|[\^_]))")
# A minus at the beginning, or after a bracket or a relation, belongs to what follows.
SIGN = re.compile(r"((?:<mrow>|<mo[^>]*>(?:\(|=|,|&#x00028;|&#x0003D;)</mo>))<mo>(?=(?:-|−|&#x02212;)</mo>)")
SLASH = re.compile(r"<mo>(/|&#x0002F;)</mo>")


def to_mathml(tex: str, display: str) -> str:
    """Return TeX as MathML, with the spaces that a printer would set."""
    found = convert(FUNCTION.sub(r"\1\\,", tex), display=display)
    found = SIGN.sub(r'\1<mo form="prefix">', found)
    return SLASH.sub(r'<mo lspace="0.05em" rspace="0.05em">\1</mo>', found)


def write_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write mathematics within a line."""
    writer.body.append(f'<span class="math">{to_mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def write_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write mathematics on lines of its own."""
    writer.body.append(f'<div class="math">{to_mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of it."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
