"""What must not be possible: another origin, no token, other folders, files without end, files that are others."""

from __future__ import annotations

import http.client
import io
import pickle
import re
import socket
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from mercer.app.guard import PAGES
from mercer.app.serving import bind
from mercer.app.store import KINDS, Store
from mercer.app.tasks import neutralise
from tests.app.conftest import AIRLINE, SMALL, Site

MARKUP = "<img src=x onerror=alert(1)>"
OUTSIDE = re.compile(r"""(?:https?:)?//(?!127\.0\.0\.1)[a-z0-9.-]+\.[a-z]{2,}""", re.IGNORECASE)


def test_without_the_token_there_is_nothing(site: Site) -> None:
    origin = {"Origin": f"http://127.0.0.1:{site.port}"}
    wrong = site.store.token[:-1] + ("A" if site.store.token[-1] != "A" else "B")
    for path in ("/", "/static/app.css", f"/{wrong}/", "/upload", f"/{wrong}/upload?name=a.csv", "//", f"//{wrong}/"):
        assert site.send("GET", path).status == 403
        assert site.send("POST", path, b"a,b\n1,2\n", origin).status == 403
    assert site.get().status == 200
    assert len(site.store.token) >= 24


def test_another_origin_is_refused(site: Site) -> None:
    path = f"/{site.store.token}/example"
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{site.port}", f"http://localhost:{site.port}",
                   f"http://127.0.0.1:{site.port + 1}", f"http://127.0.0.1:{site.port}.evil.example"):  # fmt: skip
        assert site.send("POST", path, b"", {"Origin": origin}).status == 403
        assert site.send("GET", f"/{site.store.token}/", None, {"Origin": origin}).status == 403
    assert site.send("POST", path, b"").status == 403  # a browser always says where a form is from


def test_another_host_is_refused(site: Site) -> None:
    for host in ("evil.example", f"evil.example:{site.port}", f"localhost:{site.port}", "127.0.0.1", ""):
        assert site.send("GET", f"/{site.store.token}/", None, {"Host": host}).status == 403


def test_other_pages_may_link_but_not_fetch_or_embed(site: Site) -> None:
    path = f"/{site.store.token}/"
    for place in ("cross-site", "same-site"):
        followed = {"Sec-Fetch-Site": place, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert site.send("GET", path, None, followed).status == 200
        for mode, target in (("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
            fetched = {"Sec-Fetch-Site": place, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": target}
            assert site.send("GET", path, None, fetched).status == 403


def test_only_this_machine_can_connect(tmp_path: Path) -> None:
    listening = bind(Store(tmp_path / "app"), None)
    assert listening is not None
    assert listening.getsockname()[0] == "127.0.0.1"
    listening.close()


def test_every_answer_is_closed_to_the_outside(site: Site, table: str, model: str) -> None:
    for path in ("/", table, model, f"{model}/state", "/static/app.js", "/nothing", f"{model}/file/report"):
        headers = site.get(path).headers
        policy = headers["content-security-policy"]
        assert policy == PAGES or policy.startswith("sandbox allow-scripts; default-src 'none'"), path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"


def test_no_page_names_an_outside_address(site: Site, table: str, model: str) -> None:
    static = [f"/static/{name}" for name in ("report.css", "app.css", "app.js", "chart.js")]
    for path in ("/", table, model, f"{model}/file/report", *static):
        text = re.sub(r'xmlns(:xlink)?="http://www\.w3\.org/[^"]+"', "", site.get(path).text)
        assert not OUTSIDE.search(text), (path, OUTSIDE.search(text))


@pytest.mark.parametrize(
    "name", ["..", "../..", "%2e%2e", "..%2f..", "0123456789abcdef/../..", "a" * 16 + "%00", "x" * 999]
)
def test_names_lead_nowhere_else(site: Site, model: str, name: str) -> None:
    before = (site.store.folder / "server.json").read_text()
    for path in (f"/table/{name}", f"/model/{name}", f"/model/{name}/file/report", f"{model}/file/{name}",
                 f"/static/{name}", f"/static/../{name}/server.json"):  # fmt: skip
        answer = site.get(path)
        assert answer.status in (200, 404)
        assert site.store.token not in answer.text.replace(f"/{site.store.token}/", "")
        assert b"mercer-app" not in answer.body
    for path in (f"/table/{name}/delete", f"/model/{name}/delete", f"/model/{name}/stop"):
        assert site.post(path).status in (404, 405)
    assert (site.store.folder / "server.json").read_text() == before


def test_addresses_that_are_none_lead_back(site: Site, table: str) -> None:
    """A page of ours and no bare text; that of a form, typed or reloaded, leads to the page of the form."""
    answer = site.get("/nothing/at/all")
    assert answer.status == 404
    assert "There is no such page" in answer.text
    assert "<main" in answer.text
    answer = site.get(f"{table}/search")
    assert (answer.status, answer.headers["location"]) == (303, f"/{site.store.token}{table}")
    assert site.get("/example").headers["location"] == f"/{site.store.token}/"


def test_the_name_of_a_file_is_only_text(site: Site) -> None:
    path = site.read("..\\../../etc/<script>alert(1)</script>.csv", AIRLINE)
    page = site.get(path).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in site.get("/").text or "script&gt;.csv" in page
    name = path.rpartition("/")[2]
    assert {file.name for file in site.store.place("tables", name).iterdir()} >= {"data.csv", "document.json"}
    site.post(f"{path}/delete")


def count_tables(site: Site) -> int:
    return len(list((site.store.folder / "tables").iterdir()))


def test_a_file_that_says_it_is_too_large_is_refused_unread(site: Site) -> None:
    before = count_tables(site)
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    connection.putrequest("POST", f"/{site.store.token}/upload?name=big.csv")
    connection.putheader("Origin", f"http://127.0.0.1:{site.port}")
    connection.putheader("Content-Length", str(5 * 2**30))
    connection.endheaders(b"a,b\n")
    answer = connection.getresponse()
    assert answer.status == 413
    assert "1 MB" in answer.read().decode()
    connection.close()
    assert count_tables(site) == before
    assert site.get().status == 200


def test_a_file_that_does_not_end_is_cut_off(site: Site) -> None:
    """Sent in pieces, without a length; at most a little more than what is allowed is taken."""
    before, sent = count_tables(site), 0
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as line:
        head = (
            f"POST /{site.store.token}/upload?name=endless.csv HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n"
            f"Origin: http://127.0.0.1:{site.port}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        line.sendall(head.encode())
        piece = b"10000\r\n" + b"1,2,3,4\n" * 8192 + b"\r\n"
        try:
            while sent < 64 * SMALL.most_bytes:
                line.sendall(piece)
                sent += 65536
        except OSError:
            pass  # it was closed, as it should be
        else:
            pytest.fail("all of it was taken")
    assert sent < 32 * SMALL.most_bytes  # what lies in buffers of the system is counted too
    assert count_tables(site) == before
    assert site.get().status == 200


def test_a_form_is_bounded(site: Site, table: str) -> None:
    assert site.post(f"{table}/search", body=b"a=" + b"x" * (SMALL.most_form_bytes + 1)).status == 413
    assert site.post(f"{table}/search", body=b"&".join(b"a=1" for _ in range(20 * SMALL.most_columns))).status == 413


class Trap:
    """Would leave a file behind if anybody unpickled it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.file), "w")


@pytest.mark.parametrize("ending", [".csv", ".xlsx", ".parquet"])
def test_a_pickle_is_never_opened(site: Site, tmp_path: Path, ending: str) -> None:
    for protocol in (0, 4):
        path = site.read(f"innocent{ending}", pickle.dumps(Trap(tmp_path / "trapped"), protocol=protocol))
        page = site.get(path)
        assert page.status == 200
        assert protocol == 0 or "could not be read" in page.text
        site.post(f"{path}/delete")
    assert not (tmp_path / "trapped").exists()


def test_an_archive_called_csv_is_refused_with_a_sentence(site: Site) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("data.csv", AIRLINE)
    path = site.read("table.csv", packed.getvalue())
    page = site.get(path).text
    assert "zip archive" in page
    assert 'class="problem"' in page
    site.post(f"{path}/delete")


def test_cells_and_names_with_markup_stay_text(site: Site) -> None:
    rows = "".join(f"{i},{MARKUP} {i % 2},{i * i}\n" for i in range(30))
    path = site.read("markup.csv", f'x,"{MARKUP}",</script><script>alert(1)</script>\n{rows}')
    page = site.get(path)
    assert page.status == 200
    for bad in (MARKUP, "<script>alert"):
        assert bad not in page.text
    assert "&lt;img src=x" in page.text
    site.post(f"{path}/delete")


def test_no_cell_of_a_forecast_is_run_by_a_spreadsheet() -> None:
    texts = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "plain", "=HYPERLINK(1)"]
    table = pd.DataFrame({"=name": texts, "mean": [-1.5] * 7})
    calm = neutralise(table)
    cells = [line.split(",")[0].strip('"') for line in calm.to_csv(index=False).splitlines()]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in cells)
    assert calm["mean"].tolist() == [-1.5] * 7
    assert calm.iloc[5, 0] == "plain"


def test_nothing_but_our_files_can_be_had(site: Site, model: str) -> None:
    for kind in ("document.json", "data.csv", "progress.json", "checkpoint", "server.json", ""):
        assert site.get(f"{model}/file/{kind}").status == 404


def test_the_folder_is_for_this_user_alone(site: Site) -> None:
    assert site.store.folder.stat().st_mode & 0o077 == 0
    assert (site.store.folder / "server.json").stat().st_mode & 0o077 == 0
    assert {path.name for path in site.store.folder.iterdir()} == {"server.json", *KINDS}
