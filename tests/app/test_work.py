"""From a file to a report, and all that can go wrong on the way: the server goes on, and what was finished stays."""

from __future__ import annotations

import csv
import http.client
import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mercer
from mercer.app.forms import label_options
from mercer.app.pages import write_count, write_percent
from mercer.app.serving import bind
from mercer.app.store import Store
from tests.app.conftest import AIRLINE, SMALL, Answer, Site, serving

SERIES = "day,shop,sales\n" + "".join(
    f"2024-{1 + i // 28:02d}-{1 + i % 28:02d},{shop},{10 + i + 5 * (i % 7)}\n"
    for shop in ("=cmd|' /C calc'!A0", "north") for i in range(56)
)  # fmt: skip


def test_how_a_table_was_read_is_said_and_can_be_corrected(site: Site) -> None:
    rows = "".join(f"{1 + i % 9:02d}/{1 + i % 12:02d}/2019;{i},5;text {i % 3}\n" for i in range(36))
    path = site.read("shop.csv", f"when;price;kind\n{rows}")
    page = site.get(path).text
    assert "Fields are separated by semicolons" in page or "could not be read" in page
    assert site.post(f"{path}/read", {"day_first": "day", "decimal": ",", "kind kind": "text"}).status == 303
    assert site.wait(path, "reading")["status"] == "read"
    page = site.get(path).text
    assert "2019-02-01" in page or "2019-01-01" in page
    assert '<option value="day" selected>' in page
    site.post(f"{path}/delete")
    assert site.get(path).status == 404


def test_a_wrong_field_is_said_beside_it(site: Site, table: str) -> None:
    answer = site.post(f"{table}/read", {"header": "first"})
    assert answer.status == 422
    field = answer.text.partition('id="field-header"')[2]
    assert 'aria-invalid="true"' in field[:200]
    assert "whole number" in field[:500]
    answer = site.post(f"{table}/search", {"target": "passengers", "inputs": ["passengers"], "seconds": 2})
    assert answer.status == 422
    assert "at least one other column" in answer.text.partition("<legend>Explain it by")[2]


def test_what_cannot_be_learned_is_said_before_the_search(site: Site) -> None:
    path = site.read("flat.csv", "x,y\n" + "".join(f"{i},7\n" for i in range(20)))
    answer = site.post(f"{path}/search", {"target": "y", "inputs": ["x"], "seconds": 2})
    assert answer.status == 422
    beside = answer.text.partition('id="field-target"')[2].partition("</div>")[0]
    assert "the same (7) in all 20 rows" in beside
    assert "--target" not in answer.text
    assert "“What to explain”" in beside
    site.post(f"{path}/delete")


def reread(site: Site, path: str, **options: str) -> tuple[str, str]:
    """Read a table otherwise; return how that ended, and the page."""
    assert site.post(f"{path}/read", options).status == 303
    return site.wait(path, "reading")["status"], site.get(path).text


def test_what_is_said_of_a_column_is_done_or_refused_beside_it(site: Site) -> None:
    path = site.read("months.csv", AIRLINE)
    status, page = reread(site, path, **{"kind month": "number"})
    assert status == "refused"
    beside = page.partition('id="kinds"')[2].partition("</fieldset>")[0]
    assert "Column &#39;month&#39; holds dates such as 1949-01-01, which are no numbers" in beside
    assert 'aria-invalid="true"' in beside[:100]
    assert "--" not in beside.partition('class="problem"')[2]
    status, page = reread(site, path, **{"kind month": "out"})
    assert status == "read"
    assert "48 rows and 1 column were read" in page
    assert "Column &#39;month&#39;: left out" in page
    assert '<option value="out" selected>' in page
    assert "1 column." in site.get("/").text
    assert reread(site, path, **{"kind month": "text"})[0] == "read"
    site.post(f"{path}/delete")


def test_a_column_that_cannot_be_read_can_be_left_out(site: Site) -> None:
    rows = "".join(f"{i},{'?!' if i == 7 else i * i}\n" for i in range(20))
    path = site.read("slips.csv", f"x,y\n{rows}")
    page = site.get(path).text
    beside = page.partition('id="kinds"')[2].partition("</fieldset>")[0]
    assert "is not a number" in beside
    assert 'name="kind y"' in beside
    assert reread(site, path, **{"kind y": "out"})[0] == "read"
    site.post(f"{path}/delete")


def test_a_sentence_without_a_field_of_its_own_is_shown_all_the_same(site: Site) -> None:
    path = site.read("sales.csv", AIRLINE)
    status, page = reread(site, path, sheet="Sheet1")
    assert status == "refused"
    beside = page.partition('class="problem"')[2].partition("</p>")[0]
    assert "“Sheet”: of no use for &#39;sales.csv&#39;" in beside  # by the name that its user knows
    assert "data.csv" not in page
    site.post(f"{path}/delete")


def test_sentences_of_the_command_line_name_fields_of_the_page() -> None:
    assert label_options("'b' was read (otherwise: --sheet)") == "'b' was read (otherwise: “Sheet”)"
    assert label_options("see --json, or 3--4") == "see --json, or 3--4"
    assert [write_percent(share) for share in (0.0, 1e-4, 0.146)] == ["0.0\xa0%", "< 0.1\xa0%", "14.6\xa0%"]
    assert [write_count(count, "row") for count in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]


def test_a_table_of_one_column_is_a_series(site: Site) -> None:
    path = site.read("one.csv", "sales\n" + "".join(f"{i % 7}\n" for i in range(30)))
    assert "30 rows and 1 column were read" in site.get(path).text
    answer = site.post(f"{path}/search", {"target": "sales", "seconds": 600})
    assert answer.status == 303
    site.post(answer.headers["location"].removeprefix(f"/{site.store.token}") + "/delete")
    site.post(f"{path}/delete")


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.csv", ""), ("broken.xlsx", b"PK\x03\x04 broken"), ("broken.parquet", b"PAR1 broken"), ("a.pdf", b"%PDF"),
     ("zeros.csv", b"a,b\n\0\0\0"), ("open.csv", 'a,b\n"1,2\n')],
)  # fmt: skip
def test_a_broken_file_is_a_sentence(site: Site, name: str, content: bytes | str) -> None:
    answer = site.upload(name, content)
    if answer.status == 201:
        path = answer.json["place"].removeprefix(f"/{site.store.token}")
        assert site.wait(path, "reading")["status"] == "refused"
        page = site.get(path).text
        assert 'class="problem"' in page
        assert "Traceback" not in page
        site.post(f"{path}/delete")
    else:
        assert answer.status == 422
        assert len(answer.json["problem"]) > 20


def test_from_a_file_to_a_report(site: Site, model: str) -> None:
    page = site.get(model).text
    assert "What explains passengers?" in page
    report = site.get(f"{model}/file/report")
    assert "What explains passengers?" in report.text
    assert "moving-numbers" in report.text
    saved = site.get(f"{model}/file/model")
    assert "attachment" in saved.headers["content-disposition"]
    place = site.store.place("models", model.rpartition("/")[2])
    assert mercer.load(place / "model.mercer").target_name_ == "passengers"
    assert site.get(f"{model}/file/fit").body.startswith(b"\x89PNG")
    assert not (place / "checkpoint").exists()


def test_what_comes_next(site: Site, model: str) -> None:
    assert site.post(f"{model}/forecast", {"steps": "many"}).status == 422
    answer = site.post(f"{model}/forecast", {"steps": "12"})
    assert answer.status == 303, answer.text
    page = site.get(model).text
    assert "January 1953" in page
    rows = list(csv.DictReader(io.StringIO(site.get(f"{model}/file/forecast").text)))
    assert len(rows) == 12
    assert float(rows[0]["lower_95"]) < float(rows[0]["mean"]) < float(rows[0]["upper_95"])
    assert "What comes next" in site.get(f"{model}/file/forecast-page").text


def test_predictions_at_typed_values(site: Site, model: str) -> None:
    answer = site.post(f"{model}/predict", {"value month": "1953-03"})
    assert answer.status == 200
    assert "is expected to be" in answer.text
    answer = site.post(f"{model}/predict", {"value month": "soon"})
    assert answer.status == 422
    beside = answer.text.partition('name="value month"')[2].partition("</div>")[0]
    assert "“soon” is not a date. Write dates as 1949-01-31" in beside
    assert 'value="soon"' in beside
    for nothing in ("", "na"):
        answer = site.post(f"{model}/predict", {"value month": nothing})
        assert answer.status == 422
        assert "row" not in answer.text.partition('name="value month"')[2].partition("</div>")[0]


def test_a_series_called_like_a_formula_runs_nothing(site: Site, model: str) -> None:
    """The search is passed over: the forecast needs only the table of the model."""
    path = site.read("series.csv", SERIES)
    name = model.rpartition("/")[2]
    document = site.store.read("models", name)
    copy = site.store.create("models")
    place = site.store.place("models", copy)
    (place / "data.csv").write_text(SERIES)
    fields = [
        {"name": "day", "kind": "date", "example": "2024-02-28"},
        {"name": "shop", "kind": "text", "example": "north", "levels": ["north"]},
    ]
    site.store.write("models", copy, document | {"target": "sales", "result": document["result"] | {"fields": fields}})
    answer = site.post(f"/model/{copy}/forecast", {"steps": "3"})
    assert answer.status == 422  # two series: which is which has to be said
    answer = site.post(f"/model/{copy}/forecast", {"steps": "3", "series": "shop"})
    assert answer.status == 303, answer.text
    rows = list(csv.reader(io.StringIO(site.get(f"/model/{copy}/file/forecast").text)))
    assert {row[0] for row in rows[1:]} == {"'=cmd|' /C calc'!A0", "north"}
    assert not any(cell[:1] in "=+@" for row in rows for cell in row if cell)
    for gone in (f"/model/{copy}", path):
        site.post(f"{gone}/delete")


def test_two_models_beside_each_other(site: Site, model: str) -> None:
    name = model.rpartition("/")[2]
    document = site.store.read("models", name)
    copy = site.store.create("models")
    scores = document["result"]["scores"]
    other = document["result"] | {"scores": scores | {"bic": scores["bic"] - 10}}
    site.store.write("models", copy, document | {"result": other})
    page = site.get(f"/compare?model={name}&model={copy}")
    assert page.status == 200
    assert "The second explains the data clearly better: its BIC is lower by 10.0" in page.text
    site.store.write("models", copy, document | {"result": other, "target": "other"})
    assert "cannot be compared" in site.get(f"/compare?model={name}&model={copy}").text
    for given, why in (([name], "1 model cannot"), ([name, name], "a model and itself"), ([], "0 models cannot")):
        answer = site.get("/compare?" + "&".join(f"model={each}" for each in given))
        assert answer.status == 422
        assert why in answer.text.partition('id="problem-compare"')[2]
    site.post(f"/model/{copy}/delete")


def test_a_model_outlives_its_table(site: Site, model: str) -> None:
    name = model.rpartition("/")[2]
    document = site.store.read("models", name)
    assert f"/table/{document['table']}" in site.get(model).text
    copy = site.store.create("models")
    for status in ("done", "failed"):
        site.store.write("models", copy, document | {"table": "0" * 16, "status": status, "problem": "It ended."})
        page = site.get(f"/model/{copy}")
        assert page.status == 200
        assert "/table/" not in page.text
    site.post(f"/model/{copy}/delete")


def test_stop_keeps_the_best_so_far(site: Site, model: str) -> None:
    page = site.get(model).text
    assert "The search was stopped before it had ended" in page
    assert "What it is made of" in page


def test_the_queue_says_where_one_stands_and_a_killed_search_can_go_on(site: Site, table: str) -> None:
    first, second, third = (site.search(table) for _ in range(3))
    assert [site.get(f"{each}/state").json["position"] for each in (second, third)] == [1, 2]
    assert "2 searches are before this one" in site.get(third).text
    assert site.post(f"{second}/stop").status == 303  # one that waits
    assert site.wait(second, "waiting")["status"] == "stopped"
    assert site.get(f"{third}/state").json["position"] == 1
    assert site.post(f"{third}/delete").status == 303
    site.await_kernel(first)
    assert site.get(f"{first}/state").json["position"] is None
    os.kill(find_youngest_worker(), signal.SIGKILL)  # the one that reads tables began before
    assert site.wait(first, "waiting", "searching")["status"] == "failed"
    page = site.get(first).text
    assert "ended by signal 9" in page
    assert "Go on from where it ended" in page
    journal = site.store.place("models", first.rpartition("/")[2]) / "checkpoint" / "journal.jsonl"
    assert journal.read_bytes().count(b"\n") > 1  # what it had finished
    assert site.post(f"{first}/again").status == 303
    assert site.get(f"{first}/state").json["status"] in ("waiting", "searching")
    assert site.post(f"{first}/stop").status == 303  # while its process gets ready
    assert site.wait(first, "waiting", "searching")["status"] == "stopped"
    for path in (first, second):
        assert site.post(f"{path}/delete").status == 303
        assert site.get(path).status == 404
    assert site.get().status == 200


def find_youngest_worker() -> int:
    """Find the last worker that a server in this process has begun."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            told = (path / "stat").read_text().rpartition(")")[2].split()
            command = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if int(told[1]) == os.getpid() and b"mercer.app.worker" in command:
            found[int(path.name)] = int(told[19])  # when it began
    return max(found, key=lambda process: found[process])


def test_a_closed_tab_loses_nothing(site: Site) -> None:
    """In the middle of an upload: nothing is left of it. While a file is read: it is read all the same."""
    tables = site.store.folder / "tables"
    before = {path.name for path in tables.iterdir()}
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    connection.putrequest("POST", f"/{site.store.token}/upload?name=half.csv")
    connection.putheader("Origin", f"http://127.0.0.1:{site.port}")
    connection.putheader("Content-Length", "100000")
    connection.endheaders(b"a,b\n1,2\n")
    time.sleep(0.2)
    connection.close()
    deadline = time.monotonic() + 10
    while {path.name for path in tables.iterdir()} != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {path.name for path in tables.iterdir()} == before
    answer = site.upload("whole.csv", AIRLINE)  # and nobody asks for it
    path = answer.json["place"].removeprefix(f"/{site.store.token}")
    deadline = time.monotonic() + 60
    while site.store.read("tables", path.rpartition("/")[2])["status"] == "reading" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "48 rows" in site.get("/").text
    site.post(f"{path}/delete")


def test_many_uploads_at_once_are_all_answered(site: Site) -> None:
    with ThreadPoolExecutor(20) as people:
        answers: list[Answer] = list(people.map(lambda i: site.upload(f"table{i}.csv", AIRLINE), range(20)))
    paths = {answer.json["place"].removeprefix(f"/{site.store.token}") for answer in answers}
    assert len(paths) == 20
    for path in paths:
        assert site.wait(path, "reading")["status"] == "read"
        site.post(f"{path}/delete")


def test_what_is_old_or_too_much_goes(tmp_path: Path) -> None:
    store = Store(tmp_path / "app")
    names = []
    for age in (100_000, 300, 200, 100):
        names.append(store.create("tables"))
        status = "reading" if age == 300 else "read"
        store.write("tables", names[-1], {"created": time.time() - age, "status": status, "title": "t"})
    store.tidy(86400, 10)
    assert [each["name"] for each in store.list("tables")] == names[:0:-1]
    store.tidy(86400, 1)  # the one that is being read stays
    assert {each["name"] for each in store.list("tables")} == {names[1], names[3]}


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.docx").write_text("all of it")
    with pytest.raises(mercer.InputError, match="holds other files"):
        Store(tmp_path)


@pytest.mark.parametrize("beside", [{}, {"server.json": '{"listen": 80}'}])
def test_files_of_others_are_never_ours(tmp_path: Path, beside: dict[str, str]) -> None:
    for name, text in {"models/precious.pt": "x", **beside}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(mercer.InputError, match="holds other files"):
        Store(tmp_path)
    assert (tmp_path / "models" / "precious.pt").read_text() == "x"


def test_what_is_deleted_has_names_of_ours(tmp_path: Path) -> None:
    store = Store(tmp_path / "app")
    store.remember(1)
    store.create("models")
    (tmp_path / "app" / "models" / "mine").mkdir()
    store.remove()
    assert [path.name for path in (tmp_path / "app" / "models").iterdir()] == ["mine"]


def test_a_folder_is_served_once_at_whatever_port(tmp_path: Path) -> None:
    with serving(tmp_path / "app"):
        assert bind(Store(tmp_path / "app"), 0) is None


START = """
import sys
from pathlib import Path
from mercer.app.serving import serve
from tests.app.conftest import SMALL
serve(Path(sys.argv[1]), browser=False, policy=SMALL)
"""


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(folder)], text=True, stdout=subprocess.PIPE, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    return process, line.split()[-1]


def test_a_killed_server_comes_back_and_a_clean_exit_deletes_all(tmp_path: Path, site: Site, model: str) -> None:
    folder = tmp_path / "app"
    process, address = start(folder)
    own = Site(Store(folder), int(address.split(":")[2].partition("/")[0]))
    table = own.upload("airline.csv", AIRLINE).json["place"].removeprefix(f"/{own.store.token}")
    process.send_signal(signal.SIGKILL)  # while it is read
    process.wait()
    name = model.rpartition("/")[2]  # a finished model, taken from another server
    there = folder / "models" / name
    there.mkdir()
    for file in site.store.place("models", name).glob("*.*"):
        (there / file.name).write_bytes(file.read_bytes())
    process, again = start(folder)
    try:
        assert again == address
        assert own.wait(table, "reading")["status"] == "read"
        assert "What explains passengers?" in own.get(f"/model/{name}").text
        second, told = start(folder)  # one more: it says where the first is
        assert (told, second.wait(20)) == (address, 0)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, -signal.SIGINT)
    finally:
        process.kill()
    assert not folder.exists()


def test_searches_that_waited_wait_again(tmp_path: Path) -> None:
    with serving(tmp_path / "app") as own:
        store = own.store
        model = store.create("models")
        (store.place("models", model) / "data.csv").write_text(AIRLINE)
        asked = {"target": "passengers", "inputs": ["month"], "classes": False, "seconds": 2, "options": {}}
        document = {"created": time.time(), "status": "searching", "title": "airline.csv", "file": "data.csv"}
        store.write("models", model, document | asked | {"table": "0" * 16})
    with serving(tmp_path / "app") as own:
        assert own.get(f"/model/{model}/state").json["status"] in ("waiting", "searching")
        assert own.post(f"/model/{model}/stop").status == 303


def test_the_documents_are_json(site: Site, model: str) -> None:
    for file in site.store.place("models", model.rpartition("/")[2]).glob("*.json"):
        json.loads(file.read_text())
    assert SMALL.warm is False
