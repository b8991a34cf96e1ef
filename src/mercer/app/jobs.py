"""Work in other processes: lanes of waiting jobs, and the processes that do them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

Answer = dict[str, Any]
LINE = 2**23  # bytes of an answer: what is large goes to files
# POSIX: processes of a worker (joblib has some) are ended with it.
OWN_GROUP: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {}


class WorkerLostError(Exception):
    """The process ended, or was ended, before it had answered."""


@dataclass(frozen=True)
class Job:
    """What is to be done, as plain data; `key` names it, `seconds` is how long it may take."""

    key: str
    task: str
    arguments: dict[str, Any]
    seconds: float | None = None


@dataclass(eq=False)
class Worker:
    """A process that does one job after another. Tasks and answers are lines of JSON."""

    process: asyncio.subprocess.Process
    done: int = 0
    ready: bool = False
    busy: bool = False  # it works on a job
    stopped: bool = False  # before its job was sent

    @staticmethod
    async def start() -> Worker:
        """Begin a process; it becomes ready by itself."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mercer.app.worker", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, limit=LINE, **OWN_GROUP,
        )  # fmt: skip
        return Worker(process)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.returncode is None

    async def do(self, job: Job, ready_seconds: float) -> Answer:
        """Do a job and return what the process answers."""
        try:
            if not self.ready:
                await asyncio.wait_for(self._hear(), ready_seconds)
                self.ready = True
            if self.stopped:
                self.stopped = False
                return {"stopped": True}
            self.busy = True
            self._tell({"task": job.task, "arguments": job.arguments})
            answer = await asyncio.wait_for(self._hear(), job.seconds)
        except TimeoutError:
            await self.end()
            raise WorkerLostError("it took too long") from None
        self.done, self.busy = self.done + 1, False
        return answer

    def stop(self) -> None:
        """Ask for the best so far, as Ctrl-C does."""
        self.stopped = not self.busy
        if self.busy:
            self._tell({"stop": True})

    async def end(self) -> None:
        """End the process and those that it began."""
        with suppress(ProcessLookupError, PermissionError):
            if OWN_GROUP:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        await self.process.wait()

    def _tell(self, message: dict[str, Any]) -> None:
        if self.process.stdin is not None and self.alive:
            with suppress(ConnectionError):
                self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _hear(self) -> Answer:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line.endswith(b"\n"):
            await self.end()
            code = self.process.returncode
            killed = code is not None and code < 0
            raise WorkerLostError(f"it was ended by signal {-(code or 0)}" if killed else "it ended unexpectedly")
        answer: Answer = json.loads(line)
        return answer


@dataclass(eq=False)
class Ticket:
    """A job that waits or is done, and its answer."""

    job: Job
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def give(self, answer: Answer) -> None:
        """Give the answer, unless nobody waits for it any more."""
        if not self.answer.done():
            self.answer.set_result(answer)


class Lane:
    """A queue of jobs, first come first served, with a number of slots; a process ends after a number of jobs."""

    def __init__(self, slots: int, jobs_each: int, ready_seconds: float, warm: bool) -> None:
        self.slots, self.jobs_each, self.ready_seconds, self.warm = slots, jobs_each, ready_seconds, warm
        self.waiting: list[Ticket] = []
        self.running: dict[str, tuple[Ticket, Worker]] = {}
        self.ready = False  # whether a process has done anything yet: the first of all may have to compile
        self._came = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Begin to work."""
        self._tasks = [asyncio.create_task(self._serve()) for _ in range(self.slots)]

    async def close(self) -> None:
        """End all work."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def run(self, job: Job) -> Answer:
        """Wait for the turn of a job, have it done, and return its answer."""
        ticket = Ticket(job)
        async with self._came:
            self.waiting.append(ticket)
            self._came.notify()
        return await ticket.answer

    def position(self, key: str) -> int | None:
        """Return how many jobs are before one that waits; None where it does not wait."""
        place = next((place for place, ticket in enumerate(self.waiting) if ticket.job.key == key), None)
        return None if place is None else place + len(self.running)

    def stop(self, key: str) -> None:
        """Stop a job: one that waits at once, one that runs with the best so far."""
        for ticket in [each for each in self.waiting if each.job.key == key]:
            self.waiting.remove(ticket)
            ticket.give({"stopped": True})
        if key in self.running:
            self.running[key][1].stop()

    async def drop(self, key: str) -> None:
        """End a job whose result nobody wants."""
        self.stop(key)
        if key in self.running:
            await self.running[key][1].end()

    async def _serve(self) -> None:
        worker: Worker | None = None
        try:
            while True:
                if self.warm and (worker is None or not worker.alive):
                    worker = await Worker.start()
                await self._await_job()
                if worker is None or not worker.alive:
                    worker = await Worker.start()
                if not self.waiting:  # it was stopped, or another slot took it
                    continue
                ticket = self.waiting.pop(0)  # and at once it runs: at no moment it could not be found and stopped
                self.running[ticket.job.key] = ticket, worker
                try:
                    ticket.give(await worker.do(ticket.job, self.ready_seconds))
                    self.ready = True
                except WorkerLostError as reason:
                    ticket.give({"lost": str(reason)})
                finally:
                    del self.running[ticket.job.key]
                if worker.done >= self.jobs_each:
                    await worker.end()
        finally:
            if worker is not None:
                await worker.end()

    async def _await_job(self) -> None:
        async with self._came:
            await self._came.wait_for(lambda: bool(self.waiting))
