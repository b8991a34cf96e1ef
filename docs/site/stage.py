"""Gathers the pages of the site in one folder: those of docs/, the README's neighbours, figures of benchmarks.

Pages are written for readers of the repository, with links to files. Here a link to a page becomes one to its place on
the site, a link to a script of the gallery one to its page there, and a link to any other file one to the page that
shows its source. Needs nothing but the standard library, so that tests can look at the result without Sphinx.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath, relpath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
GALLERY = ROOT / "examples" / "gallery"
RESULTS = ROOT / "benchmarks" / "results"

# Where files that are not in docs/ have their page; the rest of docs/ stays where it is.
ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
# On the site its parts are pages of their own.
README = {
    "": "index.md",
    "the-kernel-language": "language.md",
    "bad-input-and-exit-codes": "language.md#bad-input-and-exit-codes",
}
PICTURES = {"docs/images": "images", "benchmarks/results": "results"}
FENCED = re.compile(r"^```.*\n(?:.*\n)*?^```$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


class Page(NamedTuple):
    """A page: the file it is written in, and its place on the site, both with slashes."""

    file: str
    place: str


def list_pages() -> list[Page]:
    """Return all pages that are gathered, those of the gallery and of base kernels apart."""
    docs = [Page(name_of(path), path.name) for path in sorted((ROOT / "docs").glob("*.md"))]
    site = [Page(name_of(path), path.relative_to(SITE).as_posix()) for path in sorted(find_texts(SITE))]
    figures = [Page(name_of(path), f"results/{path.name}") for path in list_results()]
    return [*docs, *site, *(Page(*entry) for entry in ELSEWHERE.items()), *figures]


def list_results() -> list[Path]:
    """Return the figures of benchmarks; remarks are parts of them."""
    return [path for path in sorted(RESULTS.glob("*.md")) if not path.stem.endswith("-remarks")]


def find_texts(folder: Path) -> Iterator[Path]:
    """Yield the Markdown and reStructuredText files of a folder."""
    return (path for path in folder.rglob("*") if path.suffix in {".md", ".rst"})


def name_of(path: Path) -> str:
    """Return a path below the root of the project, with slashes."""
    return path.relative_to(ROOT).as_posix()


def readme_section(heading: str) -> str:
    """Return a section of the README, its heading included."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(?:(?!^## ).*\n?)*", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"the README has no section '{heading}'")
    return found[0]


# ------------------------------------------------------------------------------------------------------------- links


def redirect(link: str, page: Page, places: dict[str, str]) -> str:
    """Return where a link of a page leads on the site; addresses and links within the page stay as they are."""
    file, _, heading = link.partition("#")
    if not file or ":" in file:
        return link
    target = normpath(f"{Path(page.file).parent.as_posix()}/{file}")
    here = str(Path(page.place).parent.as_posix())
    if target == "README.md":
        return relpath(README.get(heading, README[""]), here)
    if target == "benchmarks/results":
        return relpath("results/index.md", here)
    if target in places:
        return relpath(places[target], here) + (f"#{heading}" if heading else "")
    if Path(target).suffix in {".png", ".svg"}:
        return relpath(f"{PICTURES[Path(target).parent.as_posix()]}/{Path(target).name}", here)
    if target == "examples/gallery":
        return f"site:{relpath('gallery/index.html', here)}"
    if target.startswith("examples/gallery/"):
        return f"site:{relpath(f'gallery/{Path(target).parent.name}/{Path(target).stem}.html', here)}"
    return f"site:{relpath(f'source/{target}.html', here)}"


def redirect_all(text: str, page: Page, places: dict[str, str]) -> str:
    """Return a page with all its links redirected, but not what looks like a link in its code."""
    parts, end = [], 0
    for block in FENCED.finditer(text):
        parts += [redirect_prose(text[end : block.start()], page, places), block[0]]
        end = block.end()
    return "".join([*parts, redirect_prose(text[end:], page, places)])


def redirect_prose(text: str, page: Page, places: dict[str, str]) -> str:
    """Return text without code with its links redirected."""
    return LINK.sub(lambda found: found[1] + redirect(found[2], page, places) + found[3], text)


def list_sources() -> list[str]:
    """Return the files and folders that a link of a page shows the source of, and all of the package."""
    places = {page.file: page.place for page in list_pages()}
    found = {name_of(path) for path in (ROOT / "src").rglob("*.py")}
    found |= {name_of(path) for path in (ROOT / "examples").glob("*.py")}
    for page in list_pages():
        if page.file.endswith(".md"):
            for link in LINK.findall(FENCED.sub("", read(page))):
                led = normpath(f"{Path(page.place).parent.as_posix()}/{redirect(link[1], page, places)[5:]}")
                if redirect(link[1], page, places).startswith("site:") and led.startswith("source/"):
                    found.add(led.removeprefix("source/").removesuffix(".html").partition("#")[0])
    listed = {name_of(path) for name in found for path in (ROOT / name).glob("*.py")}  # of folders
    return sorted(found | listed)


# ------------------------------------------------------------------------------------------------------------ stage


def read(page: Page) -> str:
    """Return the text of a page.

    `{{readme: Heading}}` stands for that section of the README, `{{other pages}}` for the pages of docs/ that no table
    of contents names, `{{results}}` for the figures of benchmarks.
    """
    text = (ROOT / page.file).read_text(encoding="utf-8")
    text = re.sub(r"^\{\{readme: (.+)\}\}$", lambda found: readme_section(found[1]), text, flags=re.MULTILINE)
    text = text.replace("{{other pages}}", "\n".join(other_pages()))
    return text.replace("{{results}}", "\n".join(path.stem for path in list_results()))


def other_pages() -> list[str]:
    """Return the pages of docs/ that no table of contents names: new ones are found without being listed."""
    named = "\n".join(path.read_text(encoding="utf-8") for path in find_texts(SITE))
    pages = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
    return [page for page in pages if not re.search(rf"^(?:.+ <)?{re.escape(page)}>?$", named, re.MULTILINE)]


def write_if_new(path: Path, content: bytes) -> None:
    """Write a file unless it is there and the same: Sphinx reads again what is newer."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def stage(folder: Path) -> list[Path]:
    """Write all pages and pictures to a folder, and return the pages."""
    pages = list_pages()
    places = {page.file: page.place for page in pages}
    for page in pages:
        write_if_new(folder / page.place, redirect_all(read(page), page, places).encode())
    for origin, place in PICTURES.items():
        for path in (ROOT / origin).iterdir():
            if path.suffix in {".png", ".svg"}:
                write_if_new(folder / place / path.name, path.read_bytes())
    kept = {folder / page.place for page in pages}
    for path in find_texts(folder):
        made = path.relative_to(folder).parts[0] in {"gallery", "kernels"}
        if path not in kept and not made:
            path.unlink()
    return sorted(kept)
