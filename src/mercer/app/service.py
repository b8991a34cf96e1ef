"""What the pages ask for: tables and models, the jobs that make them, and their state on disk at every moment."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from mercer.app.forms import ENDINGS, FIELDS, label_options
from mercer.app.jobs import Answer, Job, Lane
from mercer.app.policy import AppPolicy
from mercer.app.store import AT_WORK, Document, Kind, Store, read_json

LONGEST_NAME = 120
STOPPED = "It was stopped before there was a result."
STOPPED_AGAIN = "It was stopped before it had a result. What it had tried is kept: go on, and stop it when it has one."
LOOK_AT_DISK = 2**24  # bytes between two looks at how much of it is free


class RefusedError(Exception):
    """A request that cannot be met: a sentence, and the status of the answer."""

    def __init__(self, sentence: str, status: int = 422) -> None:
        self.status = status
        super().__init__(sentence)


class Service:
    """Tables, models and the lanes of their jobs."""

    def __init__(self, store: Store, policy: AppPolicy) -> None:
        self.store, self.policy = store, policy
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin to work; what an earlier server had not finished waits again."""
        policy = self.policy
        self.quick = Lane(policy.quick, policy.quick_jobs, policy.ready_seconds, policy.warm)
        self.searches = Lane(policy.searches, 1, policy.ready_seconds, policy.warm)
        self.store.tidy(self.policy.kept_seconds, self.policy.most_kept)
        for table in reversed(self.store.list("tables")):
            if table["status"] in AT_WORK:
                self._begin(self._read(table["name"]))
        for model in reversed(self.store.list("models")):
            if model["status"] in AT_WORK:
                self.store.change("models", model["name"], status="waiting")
                self._begin(self._search(model["name"]))
        self.quick.open()
        self.searches.open()
        self._begin(self._tidy())

    async def close(self) -> None:
        """End all work; documents stay as they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(self.quick.close(), self.searches.close())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        async def unless_deleted() -> None:
            with suppress(KeyError):  # what it is for may be gone when its turn comes
                await work

        task = asyncio.create_task(unless_deleted())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(self.policy.tidy_seconds)
            self.store.tidy(self.policy.kept_seconds, self.policy.most_kept)

    # -------------------------------------------------------------------------------------------------------- tables

    async def receive(self, name: str, parts: AsyncIterator[bytes], declared: int | None) -> str:
        """Take a file in, part by part, and have it read; return the name of the table."""
        shown = Path(name.replace("\\", "/")).name[-LONGEST_NAME:] or "table"
        ending = Path(shown).suffix.lower()
        if ending not in ENDINGS:
            known = f"Known are {', '.join(ENDINGS)}; a spreadsheet program can save its table as CSV."
            raise RefusedError(f"“{shown}” has an unknown type. {known}")
        if declared is not None and declared > self.policy.most_bytes:
            raise RefusedError(self._too_large(shown), 413)
        if len(self.quick.waiting) >= self.policy.most_waiting:
            raise RefusedError("Too many files wait to be read. Try again in a minute.", 503)
        table = self.store.create("tables")
        file = self.store.place("tables", table) / f"data{ending}"
        try:
            size = await self._write_parts(file, parts, shown)
        except OSError as error:
            self.store.delete("tables", table)
            raise RefusedError(f"“{shown}” could not be written ({error.strerror or error}). Make room.", 507) from None
        except BaseException:  # too large, or the browser went away: nothing is left
            self.store.delete("tables", table)
            raise
        document = {"created": time.time(), "status": "reading", "title": shown, "bytes": size, "file": file.name}
        self.store.write("tables", table, document | {"options": {}})
        self.store.tidy(self.policy.kept_seconds, self.policy.most_kept)
        self._begin(self._read(table))
        return table

    async def _write_parts(self, file: Path, parts: AsyncIterator[bytes], shown: str) -> int:
        size, looked = 0, -LOOK_AT_DISK
        with file.open("wb") as kept:
            async for part in parts:
                if size - looked >= LOOK_AT_DISK:
                    looked = size
                    if self.store.free() < self.policy.free_bytes:
                        raise RefusedError("The disk is almost full. Make room, then try again.", 507)
                size += len(part)
                if size > self.policy.most_bytes:
                    raise RefusedError(self._too_large(shown), 413)
                kept.write(part)
        if not size:
            raise RefusedError(f"“{shown}” is empty. Check that it was saved completely.")
        return size

    def _too_large(self, shown: str) -> str:
        most = self.policy.most_bytes // 2**20
        return f"“{shown}” is larger than {most} MB, the most that is taken here. Use `mercer discover`, or fewer rows."

    def read_again(self, table: str, options: dict[str, Any]) -> None:
        """Read a table otherwise."""
        self.store.change("tables", table, status="reading", options=options, problem=None, field=None)
        self._begin(self._read(table))

    async def _read(self, table: str) -> None:
        document, place = self.store.read("tables", table), self.store.place("tables", table)
        arguments = {"file": str(place / document["file"]), "title": document["title"], "options": document["options"]}
        answer = await self.quick.run(Job(table, "read", arguments, self.policy.quick_seconds))
        if "problem" in answer or "rows" not in answer:
            field, problem = explain_answer(answer, "file", "The file could not be read")
            names = answer.get("names", [])[: self.policy.most_columns]
            found = {"names": names, "sheets": answer.get("sheets", [])}
            self.store.change("tables", table, status="refused", problem=problem, field=field, **found)
        else:
            self.store.change("tables", table, status="read", problem=None, field=None, **answer)

    def reading(self, table: str) -> Document | None:
        """Return how a table was read."""
        return read_json(self.store.place("tables", table) / "reading.json")

    # -------------------------------------------------------------------------------------------------------- models

    async def check(self, table: str, request: dict[str, Any]) -> Answer:
        """See before a search waits whether there is anything to learn; a large table is looked at by the search."""
        document, place = self.store.read("tables", table), self.store.place("tables", table)
        if document["bytes"] > self.policy.checked_bytes:
            return {}
        arguments = request | {"folder": str(place), "file": str(place / document["file"]), "title": document["title"]}
        return await self._quick(f"check {table}", "check", arguments | {"options": document["options"]})

    def begin_search(self, table: str, request: dict[str, Any]) -> str:
        """Put a search into the queue; return the name of its model."""
        if len(self.searches.waiting) >= self.policy.most_waiting:
            raise RefusedError("Too many searches wait already. Stop some, or try again later.", 503)
        document = self.store.read("tables", table)
        model = self.store.create("models")
        source, file = self.store.place("tables", table) / document["file"], self.store.place("models", model)
        try:
            os.link(source, file / document["file"])  # the same bytes: the table may be deleted, the model has them
        except OSError:
            shutil.copyfile(source, file / document["file"])
        kept = {name: document[name] for name in ("title", "file", "options")}
        begun = {"created": time.time(), "status": "waiting", "table": table}
        self.store.write("models", model, begun | kept | request)
        self._begin(self._search(model))
        return model

    async def _search(self, model: str) -> None:
        document = self.store.read("models", model)
        names = ("target", "inputs", "classes", "seconds", "options", "title")
        arguments = {name: document[name] for name in names} | self._places(model, document)
        arguments["jobs"] = 1 if document["seconds"] <= self.policy.alone_seconds else self.policy.jobs
        answer = await self.searches.run(Job(model, "learn", arguments))
        if "result" in answer:
            self.store.change("models", model, status="done", result=answer["result"], problem=None)
            shutil.rmtree(self.store.place("models", model) / "checkpoint", ignore_errors=True)
        elif answer.get("stopped"):
            begun = (self.store.place("models", model) / "checkpoint" / "journal.jsonl").exists()
            self.store.change("models", model, status="stopped", problem=STOPPED_AGAIN if begun else STOPPED)
        else:
            field, problem = explain_answer(answer, "", "The search did not end well")
            self.store.change("models", model, status="failed", problem=problem, field=field)

    def _places(self, model: str, document: Document) -> dict[str, str]:
        folder = self.store.place("models", model)
        return {"folder": str(folder), "file": str(folder / document["file"])}

    def search_again(self, model: str) -> None:
        """Go on with a search that did not end well, from what it had finished."""
        self.store.change("models", model, status="waiting", problem=None)
        self._begin(self._search(model))

    def state(self, model: str) -> Document:
        """Return how far a model is: its document, its place in the queue, and the last report of its search."""
        document = self.store.read("models", model)
        progress = None
        if document["status"] == "waiting" and model in self.searches.running:
            document["status"] = "searching"
        if document["status"] == "searching":
            progress = read_json(self.store.place("models", model) / "progress.json")
        has_table = self.store.has("tables", document["table"])
        position = self.searches.position(model)
        return document | {"position": position, "progress": progress, "has_table": has_table}

    async def forecast(self, model: str, asked: dict[str, Any]) -> Answer:
        """Forecast the next steps of a model's target; what was found is kept with the model."""
        document = self.store.read("models", model)
        times = [each["name"] for each in document["result"]["fields"] if each["kind"] == "date"]
        numbers = [each["name"] for each in document["result"]["fields"] if each["kind"] == "number"]
        along = next(iter(times or numbers), None)
        places = self._places(model, document)
        arguments = {name: document[name] for name in ("target", "title", "options")} | asked | places
        arguments["time"] = along
        arguments["folder"] = str(Path(places["folder"]) / "forecast")
        answer = await self._quick(f"forecast {model}", "forecast", arguments)
        if "forecast" in answer:
            self.store.change("models", model, forecast=answer["forecast"] | {"asked": asked})
        return answer

    async def predict(self, model: str, values: dict[str, str]) -> Answer:
        """Predict at values that were typed."""
        file = self.store.place("models", model) / "model.mercer"
        return await self._quick(f"predict {model}", "predict", {"model": str(file), "values": values})

    async def _quick(self, key: str, task: str, arguments: dict[str, Any]) -> Answer:
        job = Job(f"{key} {time.monotonic_ns()}", task, arguments, self.policy.quick_seconds)
        # It goes on where the browser goes away: what was begun is finished and kept.
        return await asyncio.shield(asyncio.ensure_future(self.quick.run(job)))

    async def delete(self, kind: Kind, name: str) -> None:
        """Delete a table or model; what works for it is ended."""
        self.store.read(kind, name)
        with suppress(KeyError):
            await (self.searches if kind == "models" else self.quick).drop(name)
        self.store.delete(kind, name)


def explain_answer(answer: Answer, field: str, what: str) -> tuple[str, str]:
    """Return the field and the sentence of an answer that is none."""
    if "problem" in answer:
        about = answer.get("about") or field
        return FIELDS.get(about, about), label_options(answer["problem"])
    if answer.get("stopped"):
        return field, STOPPED
    reason = answer.get("lost", "it ended unexpectedly")
    return field, f"{what}: {reason}. Perhaps the memory was not enough: try fewer rows or columns, or try again."
