"""Chromium driven by its DevTools protocol over a pipe: no package is needed, and no port is opened."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
QUIET = [
    "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--force-device-scale-factor=1",
    "--disable-dev-shm-usage",
]  # fmt: skip
# The browser reads from descriptor 3 and writes to descriptor 4.
START = """
import os, sys
read, write = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]))
while read < 5: read = os.dup(read)
while write < 5: write = os.dup(write)
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
KEYS = {
    "Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "ArrowDown": (40, ""), "ArrowRight": (39, ""), "End": (35, ""),
    "Home": (36, ""),
}  # fmt: skip


class BrowserError(Exception):
    """The browser answered with an error, or not at all."""


class Browser:
    """One page of a browser."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
        command = [CHROMIUM, *QUIET, *sandbox, "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(theirs_in), str(theirs_out), *command], start_new_session=True,
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self.session = b"", 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []  # of the console and the policy
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Ask the browser for something and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._hear(60.0)
            if told.get("id") == self._number:
                if "error" in told:
                    raise BrowserError(f"{method}: {told['error']}")
                return told["result"]

    def _hear(self, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BrowserError("no answer in time")
            part = os.read(self._in, 2**20)
            if not part:
                raise BrowserError("the browser has ended")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        told = json.loads(line)
        self._note(told.get("method", ""), told.get("params", {}))
        return told

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def evaluate(self, script: str) -> Any:
        """Run a script in the page and return its value."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise BrowserError(json.dumps(told["exceptionDetails"])[:1000])
        return told["result"].get("value")

    def open(self, address: str) -> None:
        """Go to an address and wait until its page is there."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def wait(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until a condition holds in the page, also while it is replaced by another."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(BrowserError):
                if self.evaluate(f"Boolean({condition})"):
                    return
            time.sleep(0.03)
        shown = self.evaluate("location.href + ' ' + document.body.innerText.slice(0, 800)")
        raise BrowserError(f"waited in vain for {condition} at {shown}")

    def resize(self, width: int, height: int = 1000) -> None:
        """Make the window as wide as a desk or a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def press(self, key: str, shift: bool = False) -> None:
        """Press a key."""
        code, text = KEYS.get(key, (ord(key.upper()[0]), key))
        event = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        event |= {"modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def choose_file(self, selector: str, file: Path) -> None:
        """Choose a file, as the dialogue of the system does."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(file)], nodeId=node)

    def photograph(self, file: Path) -> None:
        """Write a picture of the whole page."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(told["data"]))

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._in)
        os.close(self._out)


@contextlib.contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """Give a browser with an empty profile in a folder."""
    browser = Browser(folder)
    try:
        yield browser
    finally:
        browser.close()
