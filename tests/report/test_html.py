"""The report: one file that needs nothing else, is sound HTML, and says everything it should."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.errors import InputError
from mercer.estimators import GPRegressor
from mercer.explain.subject import subject_of
from mercer.kernels.leaf import LEAVES
from mercer.report.html import _in_cell, report_html, usage
from mercer.report.view import BLUE, GREY, INK, ORANGE, PALE, YELLOW

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")

# Those without an end tag, as Matplotlib writes them.
EMPTY = {"meta", "path", "use", "rect", "br", "line", "circle", "input"}


class Reader(HTMLParser):
    """Collects what a browser would see, and complains where it would have to guess."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: Counter[str] = Counter()
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        self.ids.update(value for name, value in attrs if name == "id" and value)
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        self.ids.update(value for name, value in attrs if name == "id" and value)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "svg", "script"}.intersection(self.open):
            self.words += data

    @property
    def text(self) -> str:
        return " ".join(self.words.split())


@pytest.fixture(scope="module")
def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_one_file_that_needs_nothing_else(text: str) -> None:
    reader = Reader(text)
    assert not {"link", "img", "iframe", "object"}.intersection(tag for tag, _ in reader.attributes)
    assert not any(tag == "script" and "src" in attributes for tag, attributes in reader.attributes)
    script = text.partition("<script>")[2].partition("</script>")[0]
    assert "mercerChart" in script
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import)\b", script)
    for _, attributes in reader.attributes:
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href"):
                assert (value or "").startswith("#")
    assert not re.search(r"@import|url\((?!#)", text)
    assert len(text) < 1_500_000


def test_names_are_unique_and_links_lead_somewhere(text: str) -> None:
    reader = Reader(text)
    assert [name for name, count in reader.ids.items() if count > 1] == []
    linked = re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
    assert linked
    assert set(linked) <= set(reader.ids)


def test_every_picture_has_a_text_alternative_in_both_sizes(found: GPRegressor, text: str) -> None:
    pictures = [attributes for tag, attributes in Reader(text).attributes if tag == "svg"]
    pictures = [attributes for attributes in pictures if attributes["class"] != "moving"]  # drawn by the script
    assert len(pictures) == 2 * (3 + len(found.explain().main_components))
    for attributes in pictures:
        assert attributes["role"] == "img"
        for name in (attributes["aria-labelledby"] or "").split():
            said = re.search(rf'id="{name}">([^<]+)<', text)
            assert said is not None
            assert len(said[1]) > 5


def test_colours_follow_the_page(text: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        for colour in (BLUE, ORANGE, YELLOW, GREY, INK, PALE):
            assert not re.search(rf"(?<!, ){colour}", svg, flags=re.IGNORECASE)
        others = set(re.findall(r"(?<!, )#[0-9a-fA-F]{6}\b", svg))
        assert others <= {"#ffffff"}, others  # a white that is fully transparent
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_it_says_what_the_explanation_says(found: GPRegressor, text: str) -> None:
    explanation, said = found.explain(), Reader(text).text.replace("\u00a0", " ")
    told = [
        explanation.headline, explanation.structure.sentence, explanation.residual_sentence,
        explanation.extrapolation.sentence, explanation.outcome.found_by, explanation.held_out.sentence,
        explanation.expression, *explanation.not_found_sentences,
        *(check.sentence for check in explanation.checks),
        *(forecast.at for forecast in explanation.extrapolation.forecasts),
    ]  # fmt: skip
    told += [each for c in explanation.main_components for each in (c.title, c.sentence, c.continuation)]
    told += [part.text for part in subject_of(found.fitted_).parts] + list(explanation.averaging.kernels)
    told += [answer.sentence for answer in explanation.answers]
    told += [step.kernel for step in explanation.search.path] + [each.kernel for each in explanation.search.runners_up]
    told += ["Seed", "Versions", f"mercer {mercer.__version__}", "max_depth=2", "In mathematics"]
    for words in told:
        assert words in said, words


def test_plain_words_come_before_mathematics(text: str) -> None:
    order = ["id=\"summary\"", "id=\"fit\"", "id=\"components\"", "id=\"residuals\"", "id=\"search\"", "id=\"use\"",
             "id=\"mathematics\"", "id=\"protocol\""]  # fmt: skip
    places = [text.index(mark) for mark in order]
    assert places == sorted(places)


@pytest.mark.parametrize("which", ["found", "mixed", "numbers"])
def test_the_five_lines_of_python_run(
    which: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if which == "numbers":
        rows = np.random.default_rng(1).normal(size=(15, 2))
        model = GPRegressor("LIN", random_state=0, restarts=1).fit(rows, rows[:, 0])
    else:
        model = request.getfixturevalue(which)
    monkeypatch.chdir(tmp_path)
    model.save("model.mercer")
    code = usage(model.fitted_)
    assert len(code.splitlines()) == 5
    names: dict = {}
    exec(code, names)
    assert np.isfinite(names["mean"]).all()
    assert names["mean"].shape == (1,)


def test_forecasts_show_what_their_bands_allow() -> None:
    """A level far above the band: three digits would make all of them alike."""
    x = pd.DataFrame({"year": np.arange(1950.0, 1990.0)})
    y = pd.Series(1361 + 0.1 * np.sin(x["year"] / 2), name="irradiance")
    model = GPRegressor("SE", random_state=0, restarts=1).fit(x, y)
    said = Reader(report_html(model.fitted_)).text
    assert "1,361." in said
    assert "1,360 1,360" not in said
    assert "1,990" not in said


def test_lines_of_a_kernel_begin_with_its_signs() -> None:
    assert _in_cell('SE * LIN("a<b")') == "SE <span>* LIN(&#34;a&lt;b&#34;)</span>"


def test_names_are_escaped(mixed: GPRegressor) -> None:
    text = report_html(mixed.fitted_)
    reader = Reader(text)
    assert 'What explains energy "use" <kWh>?' in reader.text
    assert "<kWh>" not in text
    assert "<light>" not in text
    assert "<b>place" not in text
    assert "What each input does" in reader.text
    assert "Every input acts by itself" in reader.text  # CAT(region)*LIN(day), but the day does nothing
    assert "Which kernel beat which" not in reader.text  # the structure was given


def test_odd_models_have_a_report(tmp_path: Path) -> None:
    shops = pd.DataFrame({"shop": list("aabbcc" * 3), "site": 7.0})
    model = GPRegressor("CAT(shop) + WN + C", random_state=0, restarts=1).fit(shops, np.arange(18.0) % 6)
    assert "Noise at each value" in Reader(report_html(model.fitted_)).text
    two = GPRegressor("SE", random_state=0, restarts=1).fit(np.array([[1.0], [2.0]]), np.array([1.0, 3.0]))
    said = Reader(report_html(two.fitted_)).text
    assert "No structure can be learned from 2 rows" in said
    assert "column 0" in said


def test_a_place_that_cannot_be_written(found: GPRegressor, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        found.report(tmp_path / "absent" / "report.html")
    with pytest.raises(InputError, match="it is a folder"):
        found.report(tmp_path)


def test_every_base_kernel_has_a_formula() -> None:
    assert all(leaf.formula and leaf.tex for leaf in LEAVES.values())
