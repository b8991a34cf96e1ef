"""The folder of the server: its address, and the tables and models in it as documents that are whole or not there."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from mercer.errors import InputError
from mercer.writing import write_text

FORMAT, VERSION = "mercer-app", 1
NAME = re.compile(r"[0-9a-f]{16}")
Kind = Literal["tables", "models"]
KINDS: tuple[Kind, ...] = ("tables", "models")
DOCUMENT = "document.json"
AT_WORK = ("reading", "waiting", "searching")
Document = dict[str, Any]


def default_folder() -> Path:
    """Return where the server keeps its files, by default: a folder for state, of this user alone."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "mercer" / "app"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "mercer" / "app"


class Store:
    """Tables and models by their names; only the server writes their documents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().resolve()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            known = read_json(self.folder / "server.json") or {}
            if known.get("format") != FORMAT and self._holds_anything():
                raise InputError(
                    f"The folder '{folder}' holds other files, and what is in it will be deleted. "
                    "Give an empty one with --folder."
                )
            self.folder.chmod(0o700)
            for kind in KINDS:
                (self.folder / kind).mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(
                f"The folder '{folder}' cannot be used ({error.strerror or error}). Choose another with --folder."
            ) from None
        fits = known.get("format") == FORMAT and known.get("version") == VERSION
        self.token: str = known["token"] if fits else secrets.token_urlsafe(24)
        self.port: int = known["port"] if fits else 0

    def _holds_anything(self) -> bool:
        """Tell whether something is in it; empty folders of ours, of a start that was cut short, are nothing."""
        found = list(self.folder.iterdir())
        return any(path.name not in KINDS or not path.is_dir() or any(path.iterdir()) for path in found)

    def remember(self, port: int) -> None:
        """Keep the address for the next start."""
        self.port = port
        document = {"format": FORMAT, "version": VERSION, "token": self.token, "port": port}
        write_text(json.dumps(document), self.folder / "server.json")
        (self.folder / "server.json").chmod(0o600)

    def create(self, kind: Kind) -> str:
        """Make an empty folder for a new table or model and return its name."""
        name = secrets.token_hex(8)
        (self.folder / kind / name).mkdir(parents=True)
        return name

    def place(self, kind: Kind, name: str) -> Path:
        """Return the folder of a table or model; a name of another form has none."""
        if not NAME.fullmatch(name):
            raise KeyError(name)
        return self.folder / kind / name

    def write(self, kind: Kind, name: str, document: Document) -> None:
        """Write the document of a table or model."""
        write_text(json.dumps(document), self.place(kind, name) / DOCUMENT)

    def change(self, kind: Kind, name: str, **fields: Any) -> None:
        """Change some fields of a document; one that was deleted meanwhile stays deleted."""
        document = read_json(self.place(kind, name) / DOCUMENT)
        if document is not None:
            self.write(kind, name, document | fields)

    def read(self, kind: Kind, name: str) -> Document:
        """Return the document of a table or model; KeyError where there is none."""
        document = read_json(self.place(kind, name) / DOCUMENT)
        if document is None:
            raise KeyError(name)
        return document | {"name": name}

    def has(self, kind: Kind, name: str) -> bool:
        """Tell whether there is a table or model of this name."""
        return (self.place(kind, name) / DOCUMENT).is_file()

    def list(self, kind: Kind) -> list[Document]:
        """Return all documents, the newest first."""
        found = []
        for path in (self.folder / kind).iterdir():
            document = read_json(path / DOCUMENT) if NAME.fullmatch(path.name) else None
            if document is not None:
                found.append(document | {"name": path.name})
        return sorted(found, key=lambda each: (-float(each["created"]), each["name"]))

    def delete(self, kind: Kind, name: str) -> None:
        """Delete a table or model with its files."""
        shutil.rmtree(self.place(kind, name), ignore_errors=True)

    def tidy(self, seconds: float, most: int) -> None:
        """Delete what is older, what is too much, and what a kill left without a document."""
        now = time.time()
        for kind in KINDS:
            idle = [each for each in self.list(kind) if each["status"] not in AT_WORK]
            old = [each["name"] for each in idle if now - float(each["created"]) > seconds]
            for name in {*old, *(each["name"] for each in idle[most:])}:
                self.delete(kind, name)
            for path in self._find_unfinished(kind):
                if now - path.stat().st_mtime > seconds:
                    shutil.rmtree(path, ignore_errors=True)

    def _find_unfinished(self, kind: Kind) -> Iterator[Path]:
        return (path for path in (self.folder / kind).iterdir() if not (path / DOCUMENT).exists())

    def free(self) -> int:
        """Return how many bytes are free on the disk."""
        return shutil.disk_usage(self.folder).free

    def remove(self) -> None:
        """Delete everything that is ours, and the folder where nothing else is in it."""
        for kind in KINDS:
            for path in (self.folder / kind).glob("*"):
                if NAME.fullmatch(path.name):
                    shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):
                (self.folder / kind).rmdir()
        (self.folder / "server.json").unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def read_json(file: Path) -> Document | None:
    """Return a document, or None where there is none that can be read."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
