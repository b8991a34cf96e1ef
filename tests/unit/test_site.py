"""The site before it is built: pages and links, the scripts of the gallery, docstrings, what is checked after a build.

`make docs` builds it, runs every script of the gallery and checks the result; here is what takes no time.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

import mercer

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.rglob("*.py"))
USERS = ("1-analysts", "2-scientists", "3-engineers", "4-researchers")


@pytest.fixture(autouse=True)
def _modules_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


# --------------------------------------------------------------------------------------------------- pages and links


def test_every_link_of_the_gathered_pages_has_a_target(tmp_path: Path) -> None:
    stage = module("stage")
    shown = {f"source/{name}.html" for name in stage.list_sources()}
    shown |= {f"gallery/{script.parent.name}/{script.stem}.html" for script in SCRIPTS} | {"gallery/index.html"}
    count = 0
    for page in stage.stage(tmp_path):
        if page.suffix != ".md":
            continue
        for _, link, _ in stage.LINK.findall(stage.FENCED.sub("", page.read_text(encoding="utf-8"))):
            file = link.removeprefix("site:").partition("#")[0]
            if not file or "://" in file:
                continue
            count += 1
            target = (page.parent / file).resolve()
            made = target.relative_to(tmp_path.resolve()).as_posix() in shown
            assert made if link.startswith("site:") else target.exists(), f"{page.name} links to {link}"
    assert count > 300


def test_sources_that_are_shown_exist() -> None:
    sources = module("stage").list_sources()
    assert "src/mercer/kernels/leaf.py" in sources
    folders = [ROOT / name for name in sources if (ROOT / name).is_dir()]
    assert folders
    listed = {path.relative_to(ROOT).as_posix() for folder in folders for path in folder.glob("*.py")}
    assert sorted(listed - set(sources)) == []
    assert [name for name in sources if not (ROOT / name).exists()] == []


def test_pages_that_have_not_changed_are_not_written_again(tmp_path: Path) -> None:
    stage = module("stage")
    first = {page: page.stat().st_mtime_ns for page in stage.stage(tmp_path)}
    (tmp_path / "old.md").write_text("# A page that is no more", encoding="utf-8")
    assert first == {page: page.stat().st_mtime_ns for page in stage.stage(tmp_path)}
    assert not (tmp_path / "old.md").exists()


def test_every_page_is_in_a_table_of_contents(tmp_path: Path) -> None:
    stage = module("stage")
    contents = "\n".join(path.read_text(encoding="utf-8") for path in stage.stage(tmp_path))
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    listed = set(re.findall(r"^(?:[\w ]+ <)?([\w-]+)>?$", contents, re.MULTILINE))
    assert len(pages) > 20
    assert sorted(pages - listed) == []


def test_a_section_of_the_readme_that_is_gone_is_an_error() -> None:
    stage = module("stage")
    section = stage.readme_section("The kernel language")
    assert section.startswith("## The kernel language\n")
    assert "\n## " not in section
    with pytest.raises(ValueError, match="no section"):
        stage.readme_section("Nothing of the kind")


# ------------------------------------------------------------------------------------------------------- the gallery


def test_the_gallery_has_examples_for_everybody() -> None:
    assert len(SCRIPTS) >= 12
    assert {script.parent.name for script in SCRIPTS} == set(USERS)
    for user in USERS:
        assert len(list((GALLERY / user).glob("*.py"))) >= 3, user
        assert (GALLERY / user / "GALLERY_HEADER.rst").exists()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_of_the_gallery_has_a_title_a_picture_and_names_that_exist(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    tree = ast.parse(text)
    title, line, *rest = (ast.get_docstring(tree) or "").splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert len("".join(rest)) > 100
    assert "plt.subplots(" in text
    assert "shared" not in text
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "mercer":
            assert hasattr(mercer, node.attr), f"there is no mercer.{node.attr}"


# --------------------------------------------------------------------------------------------------------- docstrings


def test_everything_public_is_on_a_page_of_the_api() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "site" / "api").glob("*.rst"))
    shown = set(re.findall(r"^\.\. auto\w+:: mercer\.(\w+)$", pages, re.MULTILINE)) | set(vars(mercer.errors))
    assert sorted(set(mercer.__all__) - shown) == []


def test_docstrings_keep_their_stars_and_underscores() -> None:
    (line, _) = module("docstrings").translate(["`SE*PER` and SE*PER, kernel_ and `kernel_`, |x| by `GPRegressor`s."])
    assert line == r"``SE*PER`` and SE\*PER, kernel\_ and ``kernel_``, \|x\| by :py:obj:`~mercer.GPRegressor`\ s."


def test_lists_of_names_become_definitions() -> None:
    lines = ["Do it.", "", "Parameters", "----------", "noise : float or None", "    A variance.", "steps : how many,"]
    assert module("docstrings").translate([*lines, "    at least one."]) == [
        "Do it.", "", ".. rubric:: Parameters", "",
        "**noise** : float or None", "    A variance.", "", "**steps**", "    how many, at least one.", "", "",
    ]  # fmt: skip


def test_indented_blocks_are_shown_as_they_are() -> None:
    translate = module("docstrings").translate
    assert translate(["As", "", "    a * b"])[2:] == ["::", "", "    a * b", ""]
    assert translate(["As", "", "    math: a b"])[2:] == [".. math::", "", "    a b", ""]


# ------------------------------------------------------------------------------------------------- after it was built


def test_what_is_wrong_with_a_built_page_is_found(tmp_path: Path) -> None:
    check, page = module("check"), tmp_path / "page.html"
    (tmp_path / "there.html").write_text('<h1 id="top">There</h1>', encoding="utf-8")
    body = '<a href="there.html#top">a</a><a href="there.html#no">b</a><a href="gone.html">c</a><img src="no.png">'
    body += '<script src="https://example.org/x.js"></script><a href="https://example.org">d</a>'
    page.write_text(body, encoding="utf-8")
    pages = {path: check.Elements(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.html")}
    found = check.check_page(page, pages[page], pages, tmp_path)
    assert sorted(fault.split(" ", 1)[1] for fault in found) == [
        "links to gone.html, which is not there",
        "links to there.html#no: no such place",
        "loads https://example.org/x.js from outside",
        "shows no.png, which is not there",
    ]
    assert check.check_search(tmp_path) == ["there is no index to search in"]
