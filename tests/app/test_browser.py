"""The pages in a real browser: from a dropped file to the report, by keyboard alone, on a desk and on a phone.

Skipped where there is no Chromium (scripts/install-chromium installs it on Debian). Every page is looked at for what a
person with a screen reader, a keyboard or weak eyes would stumble over: by a check of our own and, where the variable
AXE names the file axe.min.js of axe-core, by that too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mercer.datasets import airline
from tests.app.browser import CHROMIUM, Browser, browsing
from tests.app.conftest import Site

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: scripts/install-chromium installs it on Debian")

CHECK = Path(__file__).with_name("accessibility.js").read_text(encoding="utf-8")
AXE = os.environ.get("AXE")
SERIOUS = """axe.run({resultTypes: ["violations"]}).then(found => found.violations
  .filter(each => ["serious", "critical"].includes(each.impact))
  .map(each => `${each.id}: ${each.help}: ${each.nodes.map(node => node.target).join("; ").slice(0, 300)}`))"""
DROP = """(() => {
  const given = new DataTransfer();
  given.items.add(new File(["x,y\\n1,2\\n2,3\\n3,5\\n"], "dropped.csv"));
  document.getElementById("drop").dispatchEvent(new DragEvent("drop", {dataTransfer: given, bubbles: true}));
})()"""
FOCUS = "document.activeElement"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as running:
        yield running


def look(browser: Browser, name: str) -> None:
    """Look at a page in both widths, light and dark; a picture of each is left where SHOTS names a folder."""
    for width, scheme in ((1200, "light"), (1200, "dark"), (390, "light")):
        browser.resize(width)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.wait(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
        browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")
        assert browser.evaluate(CHECK) == [], (name, width, scheme)
        if folder := os.environ.get("SHOTS"):
            browser.photograph(Path(folder) / f"{name}-{width}-{scheme}.png")
        if AXE:
            browser.evaluate(Path(AXE).read_text(encoding="utf-8") + "; 0")
            assert browser.evaluate(SERIOUS) == [], (name, width, scheme)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.resize(1200)


def tab_to(browser: Browser, condition: str, most: int = 60) -> None:
    """Press Tab until what has the focus is as wanted; everything on the way must be seen to have it."""
    for _ in range(most):
        browser.press("Tab")
        if browser.evaluate(f"{FOCUS} !== document.body"):
            seen = browser.evaluate(f"getComputedStyle({FOCUS}).outlineStyle !== 'none' || {FOCUS}.matches('main')")
            assert seen, browser.evaluate(f"{FOCUS}.outerHTML.slice(0, 200)")
        if browser.evaluate(f"{FOCUS}.matches({condition!r})"):
            return
    pytest.fail(f"Tab does not lead to {condition}")


def go(browser: Browser, condition: str) -> None:
    """Press Enter and wait for the page that it leads to."""
    browser.press("Enter")
    browser.wait(condition)
    browser.wait("document.readyState === 'complete'")


def test_from_a_file_to_the_report_by_keyboard_alone(browser: Browser, site: Site, tmp_path: Path) -> None:
    file = tmp_path / "airline.csv"
    airline().to_csv(file, index=False)
    browser.resize(1200)
    browser.open(f"{site.base}/")
    look(browser, "home")
    tab_to(browser, ".skip")
    tab_to(browser, "#file")
    browser.choose_file("#file", file)  # the dialogue belongs to the system
    browser.wait("document.querySelector('svg[data-chart] .c-dots')")
    look(browser, "table")
    tab_to(browser, "#field-target")
    assert browser.evaluate(f"{FOCUS}.value") == "passengers"
    tab_to(browser, "input[name=inputs][value=month]")
    browser.press(" ")
    assert browser.evaluate(f"{FOCUS}.checked") is False
    tab_to(browser, "form[action$=search] button")
    go(browser, "document.querySelector('fieldset[aria-invalid=true]')")
    look(browser, "table-problem")
    assert "at least one other column" in browser.evaluate("document.querySelector('fieldset .problem').textContent")
    tab_to(browser, "input[name=inputs][value=month]")
    browser.press(" ")
    tab_to(browser, "#field-seconds")
    browser.press("ArrowDown")
    assert browser.evaluate(f"{FOCUS}.value") == "600"
    tab_to(browser, "form[action$=search] button")
    go(browser, "document.querySelector('[data-is=stage]')")
    browser.wait("document.querySelector('[data-is=picture] .c-mean')")  # the first fit
    assert browser.evaluate("document.querySelector('[data-is=kernel]').textContent.length > 1")
    look(browser, "search")
    tab_to(browser, "form[action$=stop] button")
    go(browser, "document.querySelector('#predict')")
    assert "The search was stopped" in browser.evaluate("document.querySelector('.box').textContent")
    tab_to(browser, "#field-steps")
    go(browser, "document.querySelector('table.steps')")
    tab_to(browser, "#predict input")
    browser.evaluate(f"{FOCUS}.select()")
    browser.type("yesterday")
    go(browser, "document.querySelector('#predict .problem')")
    browser.wait(f"{FOCUS}.matches('#predict input')")  # where it can be mended
    look(browser, "model")
    assert "January 1961" in browser.evaluate("document.querySelector('table.steps').textContent")
    tab_to(browser, "a[href$='file/report']")
    go(browser, "document.querySelector('#moving:not([hidden]) .c-mean')")
    look(browser, "report")
    tab_to(browser, "#moving input[type=checkbox]")
    browser.press(" ")
    assert browser.evaluate("document.querySelectorAll('#moving .c-sum').length") == 1
    assert "switched on add up to" in browser.evaluate("document.querySelector('[data-is=values]').textContent")
    tab_to(browser, "#moving-look")
    before = browser.evaluate("document.querySelector('[data-is=values]').textContent")
    for _ in range(8):
        browser.press("ArrowRight")
    assert browser.evaluate("document.querySelector('[data-is=values]').textContent") != before
    tab_to(browser, "#moving-ahead")
    before = browser.evaluate("document.querySelector('[data-is=horizon]').textContent")
    browser.press("Home")
    assert browser.evaluate("document.querySelector('[data-is=horizon]').textContent") < before
    assert browser.evaluate("document.querySelectorAll('#moving .c-beyond').length") == 0
    assert {each for each in browser.requests if not each.startswith((site.base, "data:,", "about:"))} == set()
    assert [each for each in browser.complaints if "422" not in each] == []


def test_values_under_the_pointer(browser: Browser, site: Site, model: str) -> None:
    browser.open(f"{site.base}{model}/file/report")
    browser.wait("document.querySelector('#moving .c-mean')")
    box = browser.evaluate(
        "(() => { const svg = document.querySelector('#moving svg'); svg.scrollIntoView(); "
        "const box = svg.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()"
    )
    told = []
    for share in (0.3, 0.6):
        x, y = box[0] + share * box[2], box[1] + 0.5 * box[3]
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        told.append(browser.evaluate("document.querySelector('[data-is=values]').textContent"))
    assert told[0] != told[1]
    assert all("expected, with 95 % probability between" in each for each in told)


def test_a_file_that_is_refused_is_said_beside_the_field(browser: Browser, site: Site, tmp_path: Path) -> None:
    file = tmp_path / "paper.pdf"
    file.write_bytes(b"%PDF-1.4")
    browser.open(f"{site.base}/")
    browser.choose_file("#file", file)
    browser.wait("!document.getElementById('problem-file').hidden")
    assert "unknown type" in browser.evaluate("document.getElementById('problem-file').textContent")
    assert browser.evaluate("document.activeElement.id") == "file"
    assert browser.evaluate(CHECK) == []
    large = tmp_path / "large.csv"
    large.write_bytes(b"1,2\n" * 2**19)
    browser.choose_file("#file", large)
    browser.wait("document.getElementById('problem-file').textContent.includes('larger than 1 MB')")


def test_a_dropped_file_is_taken(browser: Browser, site: Site) -> None:
    browser.open(f"{site.base}/")
    browser.evaluate(DROP)
    browser.wait("document.querySelector('h1').textContent === 'dropped.csv'")
    browser.wait("document.querySelector('#field-target')")


def test_two_models_and_earlier_work(browser: Browser, site: Site, model: str) -> None:
    name = model.rpartition("/")[2]
    copy = site.store.create("models")
    place = site.store.place("models", name)
    for file in place.glob("*.png"):
        (site.store.place("models", copy) / file.name).write_bytes(file.read_bytes())
    site.store.write("models", copy, site.store.read("models", name))
    browser.open(f"{site.base}/")
    browser.evaluate("[...document.querySelectorAll('input[name=model]')].slice(0, 2).forEach(each => each.click())")
    look(browser, "earlier")
    browser.evaluate("document.querySelector('button[form=compare]').click()")
    browser.wait("document.querySelectorAll('.pair section').length === 2")
    look(browser, "compare")
    site.post(f"/model/{copy}/delete")
