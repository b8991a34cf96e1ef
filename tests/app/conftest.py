"""A server as people have it, in a thread of the test, with processes of its own; and how to speak to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import uvicorn

from mercer.app.policy import AppPolicy
from mercer.app.server import make_app
from mercer.app.serving import bind
from mercer.app.store import Store

# Processes begin when they are needed; files are small, and a search has one process, and time until it is stopped.
SMALL = AppPolicy(
    warm=False, most_bytes=2**20, free_bytes=0, quick_jobs=1000, seconds_choices=(2, 600), usual_seconds=2, jobs=1
)
AIRLINE = "month,passengers\n" + "".join(
    f"{1949 + i // 12}-{1 + i % 12:02d}-01,{100 + 2 * i + 30 * (i % 12 in (5, 6, 7)) + i % 5}\n" for i in range(48)
)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Site:
    """A running server."""

    store: Store
    port: int
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.store.token}"

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """Send what is given as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str = "/") -> Answer:
        """Look at a page of ours."""
        path = path.removeprefix(self.base).removeprefix(f"/{self.store.token}")
        return self.send("GET", f"/{self.store.token}{path}")

    def post(self, path: str, fields: Any = (), body: Any = None, **headers: str) -> Answer:
        """Fill in a form of ours."""
        sent, origin = urlencode(fields, doseq=True) if body is None else body, f"http://127.0.0.1:{self.port}"
        return self.send("POST", f"/{self.store.token}{path}", sent, {"Origin": origin, **headers})

    def upload(self, name: str, content: bytes | str) -> Answer:
        """Drop a file."""
        sent = content if isinstance(content, bytes) else content.encode()
        return self.post(f"/upload?name={quote(name)}", body=sent)

    def read(self, name: str, content: bytes | str) -> str:
        """Drop a file and wait until it is read, or refused; return the path of its page."""
        answer = self.upload(name, content)
        assert answer.status == 201, answer.text
        path = answer.json["place"].removeprefix(f"/{self.store.token}")
        self.wait(path, "reading")
        return path

    def wait(self, path: str, *statuses: str, seconds: float = 120.0) -> dict[str, Any]:
        """Wait while a table or model has one of these states; return the next one."""
        deadline = time.monotonic() + seconds
        while (state := self.get(f"{path}/state").json)["status"] in statuses:
            assert time.monotonic() < deadline, state
            time.sleep(0.05)
        return state

    def await_kernel(self, path: str, seconds: float = 120.0) -> dict[str, Any]:
        """Wait until a search has a best kernel; return what it told."""
        deadline = time.monotonic() + seconds
        while not (told := self.get(f"{path}/state").json["progress"] or {}).get("kernel"):
            assert time.monotonic() < deadline, told
            time.sleep(0.05)
        return told

    def search(self, table: str, target: str = "passengers", inputs: Any = ("month",), seconds: int = 600) -> str:
        """Begin a search; return the path of its page."""
        answer = self.post(f"{table}/search", {"target": target, "inputs": inputs, "seconds": seconds})
        assert answer.status == 303, answer.text
        return answer.headers["location"].removeprefix(f"/{self.store.token}")


@contextlib.contextmanager
def serving(folder: Path, policy: AppPolicy = SMALL) -> Iterator[Site]:
    """Serve a folder for a while; nothing of it is deleted at the end."""
    store = Store(folder)
    listening = bind(store, None)
    assert listening is not None
    store.remember(listening.getsockname()[1])
    app = make_app(store, policy, store.port)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Site(store, store.port)
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for many tests: a process is not started for each, and the next is ready when it is needed."""
    with serving(tmp_path_factory.mktemp("app"), replace(SMALL, warm=True)) as running:
        yield running


@pytest.fixture(scope="session")
def table(site: Site) -> str:
    """The page of a table that was read."""
    return site.read("airline.csv", AIRLINE)


@pytest.fixture(scope="session")
def model(site: Site, table: str) -> str:
    """The page of a model whose search was stopped when it had found something."""
    path = site.search(table)
    told = site.await_kernel(path)
    assert told["picture"]["line"]["mean"]
    while site.get(f"{path}/state").json["status"] == "searching":  # impatiently, also while the report is written
        assert site.post(f"{path}/stop").status == 303
        time.sleep(0.2)
    assert site.get(f"{path}/state").json["status"] == "done"
    return path
