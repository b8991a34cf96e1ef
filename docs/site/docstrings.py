"""Docstrings, which are plain text with `code` and lists of names, as reStructuredText.

    names : what they are, which may go on
        on lines that are indented.

Anything else that reStructuredText would take for its own (`SE*PER`, `kernel_`) is meant as it stands. A block that is
indented after an empty line is shown as it is; one that begins with `math:` is TeX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import mercer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ITEM = re.compile(r"^([\w*, ]+?) : (.*)$")
CODE = re.compile(r"`([^`]+)`")
TYPE_LENGTH = 60  # characters of a first line that can be a type, where the text then begins with a capital


def translate(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText."""
    return [line for block in split_blocks(lines) for line in (*translate_block(block), "")]


def split_blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield what stands between empty lines; a heading with dashes below is a block of its own."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip() and set(line.strip()) == {"-"} and block:
            yield [f"{block.pop()}:"]
            block = []
        elif line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def translate_block(block: list[str]) -> list[str]:
    """Return one block: a heading, a list of names, something indented, or a paragraph."""
    if len(block) == 1 and re.fullmatch(r"[A-Z][a-z]+:", block[0]):
        return [f".. rubric:: {block[0][:-1]}"]
    if all(line.startswith("    ") for line in block):
        return show_indented([line[4:] for line in block])
    if ITEM.match(block[0]) and not block[0].startswith(" "):
        return list(list_names(block))
    return [" ".join(escape(line.strip()) for line in block)]


def show_indented(lines: list[str]) -> list[str]:
    """Return an indented block: mathematics, or as it is."""
    mathematics = lines[0].startswith("math:")
    inside = [lines[0].removeprefix("math:").strip(), *lines[1:]] if mathematics else lines
    return [".. math::" if mathematics else "::", "", *(f"    {line}" for line in inside)]


def list_names(block: list[str]) -> Iterator[str]:
    """Yield a definition list; a first line that is a type stands beside the name."""
    items: list[tuple[str, list[str]]] = []
    for line in block:
        found = ITEM.match(line)
        if found and not line.startswith(" "):
            items.append((found[1], [found[2].strip()]))
        else:
            items[-1][1].append(line.strip())
    for names, texts in items:
        first, rest = texts[0], " ".join(map(escape, texts[1:]))
        kind = len(first) < TYPE_LENGTH and first[-1:] not in ".,;" and re.match(r"[A-Z\"`]", " ".join(texts[1:]))
        yield f"**{escape(names)}**" + (f" : {escape(first)}" if kind else "")
        yield f"    {rest if kind else (escape(first) + ' ' + rest).strip()}"
        yield ""


def escape(text: str) -> str:
    """Return plain text with `code`: everything else that has a meaning loses it."""
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [escape_plain(text[end : code.start()]), show_code(code[1])]
        if text[code.end() : code.end() + 1].isalnum():
            parts.append("\\ ")
        end = code.end()
    return "".join([*parts, escape_plain(text[end:])])


def escape_plain(text: str) -> str:
    """Return text without code with backslashes before what has a meaning."""
    return re.sub(r"([\\*_|`<>])", r"\\\1", text)


def show_code(code: str) -> str:
    """Return code; a public name of Mercer leads to its place."""
    name = code.removeprefix("mercer.")
    return f":py:obj:`~mercer.{name}`" if name in mercer.__all__ else f"``{code}``"


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Translate a docstring in place, as autodoc asks."""
    lines[:] = translate(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of it."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
