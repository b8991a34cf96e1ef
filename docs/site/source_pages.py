"""A page for every source file that is linked to, with its lines numbered: the site needs no repository on a server."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import mercer
from stage import ROOT, list_sources, name_of

LANGUAGES = {".py": "python", ".toml": "toml"}
LARGEST = 400_000  # characters; of more the beginning is enough to read


def collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the name, the content and the template of every page."""
    for path in (ROOT / name for name in list_sources()):
        if not path.exists():  # the check after the build names the page that links to it
            continue
        name = name_of(path)
        shown = show_folder(path) if path.is_dir() else show_file(app, path)
        body = f'<h1>{escape(name)}</h1><div class="source-file">{shown}</div>'
        yield f"source/{name}", {"title": name, "body": body}, "page.html"


def show_file(app: Sphinx, path: Path) -> str:
    """Return a file as HTML, highlighted, with an anchor L-n for each line."""
    text = path.read_text(encoding="utf-8")[:LARGEST]
    language = LANGUAGES.get(path.suffix, "text")
    return app.builder.highlighter.highlight_block(text, language, linenos=False, lineanchors="L")


def show_folder(path: Path) -> str:
    """Return the files of a folder as a list of links."""
    files = sorted(name_of(file) for file in path.glob("*.py"))
    rows = (f'<li><a href="{path.name}/{Path(name).name}.html">{escape(name)}</a></li>' for name in files)
    return f"<ul>{''.join(rows)}</ul>"


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return where the source of a documented name is, as seen from a page of the API."""
    found: Any = mercer if info["module"] == "mercer" else __import__(info["module"], fromlist=["_"])
    for part in info["fullname"].split("."):
        found = getattr(found, part, None)
    try:
        file, (_, line) = inspect.getsourcefile(inspect.unwrap(found)), inspect.getsourcelines(inspect.unwrap(found))
    except TypeError:
        return None
    inside = file is not None and Path(file).is_relative_to(ROOT / "src")
    return f"../source/{name_of(Path(str(file)))}.html#L-{line}" if inside else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of it."""
    app.connect("html-collect-pages", collect)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
