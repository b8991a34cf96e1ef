"""Looks at the built site as a reader without a network would: does every link lead somewhere, is anything loaded
from outside, does every example have its picture, does the search know the pages?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from stage import GALLERY

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
OUTSIDE = re.compile(r"^(?:https?:)?//")
IMPORTED = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')]+)")
FEWEST = 12  # examples of the gallery


class Elements(HTMLParser):
    """What a page names: its anchors, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take one element."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values:
            self.loads.append(values[LOADED[tag]])
        self.loads += [entry.split()[0] for entry in values.get("srcset", "").split(",") if entry.strip()]


def check_site(folder: Path) -> list[str]:
    """Return what is wrong with a built site, as sentences; empty where nothing is."""
    pages = {path: Elements(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    faults = [fault for path, page in pages.items() for fault in check_page(path, page, pages, folder)]
    for path in sorted(folder.rglob("*.css")):
        faults += [f"{path.name} loads {address}" for address in IMPORTED.findall(path.read_text(encoding="utf-8"))]
    return faults + check_gallery(folder) + check_search(folder)


def check_page(path: Path, page: Elements, pages: dict[Path, Elements], folder: Path) -> Iterator[str]:
    """Yield what is wrong with one page."""
    name = path.relative_to(folder)
    for load in page.loads:
        if OUTSIDE.match(load):
            yield f"{name} loads {load} from outside"
        elif not load.startswith(("data:", "#")) and not (path.parent / unquote(load.partition("?")[0])).exists():
            yield f"{name} shows {load}, which is not there"
    for link in page.links:
        if OUTSIDE.match(link) or link.startswith(("mailto:", "javascript:")):
            continue
        file, _, anchor = unquote(link).partition("#")
        target = (path.parent / file.partition("?")[0]).resolve() if file else path
        if not target.exists():
            yield f"{name} links to {link}, which is not there"
        elif anchor and target in pages and anchor not in pages[target].anchors:
            yield f"{name} links to {link}: no such place"


def check_gallery(folder: Path) -> list[str]:
    """Return what is wrong with the gallery: examples without a page, pages without a picture or with warnings."""
    scripts = sorted(GALLERY.rglob("*.py"))
    faults = [f"the gallery has {len(scripts)} examples"] if len(scripts) < FEWEST else []
    for script in scripts:
        page = folder / "gallery" / script.relative_to(GALLERY).with_suffix(".html")
        if not page.exists():
            faults.append(f"{script.name} has no page")
        elif "sphx_glr_" not in page.read_text(encoding="utf-8").replace("sphx_glr_download", ""):
            faults.append(f"the page of {script.name} has no picture")
        elif "Warning: " in page.read_text(encoding="utf-8"):
            faults.append(f"{script.name} warns: its page would show that, with paths of this machine")
    return faults


def check_search(folder: Path) -> list[str]:
    """Return what is wrong with the index of the search."""
    index = folder / "searchindex.js"
    if not index.exists():
        return ["there is no index to search in"]
    text = index.read_text(encoding="utf-8")
    return [f"the search does not know of '{word}'" for word in ("gallery", "forecast", "kernel") if word not in text]
