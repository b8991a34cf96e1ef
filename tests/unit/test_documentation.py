"""The documentation runs: every example, every Python block, every command with its output, every link."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mercer
from mercer import kernels
from mercer.cli.main import execute

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SITE = ROOT / "docs" / "site"
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(SITE.rglob("*.md"))]
OWN_TEST = ("dask_search.py",)  # runs where Dask is installed, in test_dask.py
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name not in OWN_TEST)

FENCED = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
LANGUAGES = {"", "console", "python", "sh", "text"}  # sh is for reading only
TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\s\d]")
CLOSE = 0.05  # printed numbers may differ by so much: another processor rounds otherwise, and a fit stops elsewhere


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ------------------------------------------------------------------------------------------------- blocks and outputs


class Block(NamedTuple):
    language: str
    code: str
    line: int
    follows: bool  # nothing but white space between the block before and this one


def blocks(page: Path) -> Iterator[Block]:
    text, end = page.read_text(encoding="utf-8"), 0
    for found in FENCED.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(found[1].strip(), found[2], line, not text[end : found.start()].strip())
        end = found.end()


def same_output(told: str, seen: str) -> bool:
    """Words equal, numbers close; a last line "..." stands for the rest, and times are not compared."""
    lines = told.splitlines()
    cut = bool(lines) and lines[-1] == "..."
    expected, actual = _tokens(lines[:-1] if cut else lines), _tokens(seen.splitlines())
    if len(actual) < len(expected) or (len(actual) > len(expected) and not cut):
        return False
    return all(map(_same, expected, actual))


def _tokens(lines: list[str]) -> list[str]:
    return TOKEN.findall("\n".join(line for line in lines if not line.startswith("done in")))


def _same(told: str, seen: str) -> bool:
    if not (told[0].isdigit() and seen[0].isdigit()):
        return told == seen
    last_digit = 10.0 ** -len(told.partition(".")[2])
    return abs(float(told) - float(seen)) <= max(CLOSE * float(told), 1.01 * last_digit)


def test_outputs_are_compared() -> None:
    assert same_output("noise 5.71\ndone in 2.3 s", "noise  5.72\ndone in 11 s")
    assert same_output("first line\n...", "first line\nsecond line")
    assert not same_output("first line", "first line\nsecond line")
    assert not same_output("period 12.0 months", "period 12.0 years")
    assert not same_output("period 12.0", "period 24.0")
    assert not same_output("-1.5", "1.5")


class Reader:
    """Does what a reader does: runs the blocks of a page in order, in one folder and one namespace."""

    def __init__(self, page: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.page, self.capsys = page, capsys
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""

    def read(self) -> None:
        for block in blocks(self.page):
            place = f"{name_of(self.page)}, line {block.line}"
            assert block.language in LANGUAGES, f"{place}: unknown kind of block '{block.language}'"
            if block.language == "python":
                self.run(block.code, place)
            elif block.language == "text" and block.follows:
                self.compare(block.code, self.printed, place)
            elif block.language == "console":
                self.type_commands(block.code, place)

    def run(self, code: str, place: str) -> None:
        self.capsys.readouterr()
        exec(compile(code, f"<{place}>", "exec"), self.names)
        self.printed = self.capsys.readouterr().out

    def type_commands(self, text: str, place: str) -> None:
        for entry in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, told = entry.partition("\n")
            self.compare(told, self.answer(shlex.split(command)), f"{place}: {command}")

    def answer(self, words: list[str]) -> str:
        if words[0] != "mercer":
            return subprocess.run(words, capture_output=True, text=True, check=True).stdout
        self.capsys.readouterr()
        code = execute(words[1:])
        out, err = self.capsys.readouterr()
        assert code in (0, 2), err
        return err if code else out

    def compare(self, told: str, seen: str, place: str) -> None:
        assert same_output(told, seen), f"{place}: the output is now\n{seen}"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_a_page_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Reader(page, capsys).read()


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_every_example_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 3


# ------------------------------------------------------------------------------------------- what the pages must have


def test_readme_begins_with_what_a_newcomer_needs() -> None:
    start = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:60])
    assert "make demo" in start
    assert "make test" in start
    assert re.search(r"^!\[.+\]\(docs/images/\S+\.png\)$", start, re.MULTILINE)
    whole = [found for found in FENCED.finditer(start) if found[1] == "python"]
    assert whole, "a Python block must lie within the first 60 lines"
    assert len([line for line in whole[0][2].splitlines() if line.strip()]) <= 12


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        place = page.parent / file if file else page
        assert place.exists(), f"{name_of(page)} links to {target}, which is not there"
        if heading:
            assert heading in headings(place), f"{name_of(page)} links to {target}: no such heading"


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and others make them."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs" / "images").iterdir())
    assert pictures
    assert all(picture.stat().st_size < 150_000 for picture in pictures)


def test_readme_tells_of_every_base_kernel() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [symbol for symbol in kernels.REGISTRY if f"| `{symbol}` |" not in text] == []


def test_reference_names_everything_public() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    public = {*mercer.__all__, *kernels.__all__, *mercer.datasets.__all__}
    parameters = set(mercer.GPRegressor().get_params())
    assert sorted(name for name in public | parameters if f"`{name}" not in text) == []


def test_version_is_written_once_and_cited() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf'^version: "?{re.escape(mercer.__version__)}"?$', citation, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "mercer.__version__"}
    assert mercer.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------- names in the design page

DESIGN = ROOT / "docs" / "design.md"
PLACE = re.compile(r"((?:`[\w.]+`(?:, | and )?)+) in \[[^\]]*\]\(\.\./(src/\S+?\.py)\)")


def where_cells() -> Iterator[str]:
    """The cells of the design page that say where something is: those below a heading "where"."""
    columns: list[int] = []
    for line in DESIGN.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            columns = []
        elif not columns:
            columns = [i for i, cell in enumerate(cells) if cell.startswith("where")] or [-1]
        else:
            yield from (cells[i] for i in columns if 0 <= i < len(cells))


def defines(text: str, name: str) -> bool:
    """Whether a source has a definition of each part of a dotted name."""
    return all(re.search(rf"^\s*(?:def|class) {part}\b|^\s*{part}\b *[:=]", text, re.M) for part in name.split("."))


def test_design_names_what_exists() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
    everything, cells = "\n".join(sources.values()), list(where_cells())
    assert len(cells) > 100
    named = {name for cell in cells for name in re.findall(r"`([A-Za-z_][\w.]*)[`(]", cell)}
    assert sorted(name for name in named if not defines(everything, name)) == []
    places = [place for cell in cells for place in PLACE.findall(cell)]
    placed = [(name, file) for names, file in places for name in re.findall(r"`([\w.]+)`", names)]
    assert len(placed) > 80
    assert [f"{name} is not in {file}" for name, file in placed if not defines(sources[ROOT / file], name)] == []


def test_design_lists_every_policy() -> None:
    policies = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"^class (\w+Policy)\b", path.read_text(encoding="utf-8"), re.M)
    }
    text = DESIGN.read_text(encoding="utf-8")
    assert sorted(name for name in policies if f"| `{name}` |" not in text) == []


def test_glossary_is_short() -> None:
    glossary = DESIGN.read_text(encoding="utf-8").partition("## Glossary")[2].partition("\n## ")[0]
    words = [line for line in glossary.splitlines() if line.startswith("| ")]
    assert 5 < len(words) - 1 <= 20
