"""`mercer app`: find the address, start the server, open the browser, and clean up at the end."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from mercer.app.policy import AppPolicy
from mercer.app.server import make_app
from mercer.app.store import Store, default_folder
from mercer.errors import InputError

HOST = "127.0.0.1"


class Uvicorn(uvicorn.Server):
    """Remembers what ended it, and says when it is ready."""

    ended_by: int | None = None

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready = ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal."""
        self.ended_by = sig
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        self.ready()


def serve(
    folder: Path | None = None, port: int | None = None, browser: bool = True, keep: bool = False,
    say: Callable[[str], None] = print, policy: AppPolicy | None = None,
) -> None:  # fmt: skip
    """Serve until Ctrl-C; the files are deleted then, unless they are to be kept."""
    store = Store(folder or default_folder())
    listening = bind(store, port)
    if listening is None:
        address = f"http://{HOST}:{store.port}/{store.token}/"
        say(f"Mercer is being served already: {address}")
        if browser:
            webbrowser.open(address)
        return
    store.remember(listening.getsockname()[1])
    address = f"http://{HOST}:{store.port}/{store.token}/"

    def ready() -> None:
        end = "Ctrl-C ends it." if keep else "Ctrl-C ends it and deletes its files: save what you need."
        say(f"Mercer is at {address}\n(for you on this machine alone; the address is a secret). {end}")
        if browser:
            webbrowser.open(address)

    config = uvicorn.Config(
        make_app(store, policy or AppPolicy(), store.port), log_level="error", access_log=False, server_header=False,
        ws="none", lifespan="on", timeout_graceful_shutdown=2,
    )  # fmt: skip
    server = Uvicorn(config, ready)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises what it had caught again when all is closed
        pass
    finally:
        listening.close()
    if server.ended_by == signal.SIGINT and not keep:
        store.remove()


def bind(store: Store, port: int | None) -> socket.socket | None:
    """Listen where the last server did, or on a free port; None where a server of this folder answers there."""
    if store.port and answers(store):  # at whatever port: two servers would delete each other's work
        return None
    wanted = store.port if port is None else port
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere it would let two servers listen to one port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, wanted))
    except OSError as error:
        if port is not None:
            raise InputError(f"Port {port} cannot be used ({error.strerror}). Choose another with --port.") from None
        listening.bind((HOST, 0))  # somebody else took it meanwhile
    return listening


def answers(store: Store) -> bool:
    """Tell whether a server with our token answers at our port."""
    connection = http.client.HTTPConnection(HOST, store.port, timeout=2)
    try:
        connection.request("GET", f"/{store.token}/static/app.css")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
