"""The server: which address shows or does what."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mercer.app.forms import (
    Form,
    Problems,
    first,
    parse_form,
    read_reading_form,
    read_search_form,
    read_steps_form,
)  # fmt: skip
from mercer.app.guard import REPORTS, Guard
from mercer.app.pages import Pages, write_count
from mercer.app.policy import AppPolicy
from mercer.app.service import RefusedError, Service, explain_answer
from mercer.app.store import Kind, Store
from mercer.datasets import AIRLINE_PASSENGERS

STATIC = {  # file: (package, folder, type)
    "report.css": ("mercer.report", "text/css"),
    "app.css": ("mercer.app", "text/css"),
    "chart.js": ("mercer.report", "text/javascript"),
    "app.js": ("mercer.app", "text/javascript"),
}
# What can be had of a model: (file, type, whether it is saved rather than shown).
FILES = {
    "report": ("report.html", "text/html", False),
    "report-file": ("report.html", "text/html", True),
    "model": ("model.mercer", "application/octet-stream", True),
    "explanation": ("explanation.json", "application/json", True),
    "candidates": ("candidates.json", "application/json", True),
    "fit": ("fit.png", "image/png", False),
    "fit-narrow": ("fit-narrow.png", "image/png", False),
    "components": ("components.png", "image/png", False),
    "forecast": ("forecast/forecast.csv", "text/csv", True),
    "forecast-page": ("forecast/report.html", "text/html", False),
    "forecast-picture": ("forecast/forecast.png", "image/png", False),
}
Handler = Callable[[Request], Awaitable[Response]]
LOG = logging.getLogger("uvicorn.error")
BUG = "This is a bug in Mercer; nothing that was finished is lost. The terminal in which it runs shows more."
NOWHERE = "There is no such page. Go on from the first one."
GONE = "There is nothing here any more. Files are deleted after a day; begin again with the table."


def make_app(store: Store, policy: AppPolicy, port: int) -> Guard:
    """Return the server as an application."""
    service = Service(store, policy)
    server = Server(service, Pages(f"/{store.token}", policy))

    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        await service.open()
        try:
            yield
        finally:
            await service.close()

    unknown: dict[Any, Any] = {404: server.miss, 405: server.miss}
    return Guard(Starlette(routes=server.routes(), lifespan=live, exception_handlers=unknown), store.token, port)


class Server:
    """Requests in, pages out."""

    def __init__(self, service: Service, pages: Pages) -> None:
        self.service, self.pages, self.policy = service, pages, service.policy

    def routes(self) -> list[Route]:
        """Return what is served."""
        shown: dict[str, Handler] = {
            "/": self.home, "/static/{name}": self.static, "/table/{name}": self.table, "/compare": self.compare,
            "/table/{name}/state": self.table_state, "/model/{name}": self.model,
            "/model/{name}/state": self.model_state, "/model/{name}/file/{kind}": self.file,
        }  # fmt: skip
        done: dict[str, Handler] = {
            "/upload": self.upload, "/example": self.example, "/table/{name}/read": self.read,
            "/table/{name}/search": self.search, "/table/{name}/delete": self.delete_table,
            "/model/{name}/delete": self.delete_model, "/model/{name}/stop": self.stop,
            "/model/{name}/again": self.again, "/model/{name}/forecast": self.forecast,
            "/model/{name}/predict": self.predict,
        }  # fmt: skip
        routes = [Route(path, self._answer(handler), methods=["GET"]) for path, handler in shown.items()]
        return routes + [Route(path, self._answer(handler), methods=["POST"]) for path, handler in done.items()]

    def _answer(self, handler: Handler) -> Handler:
        """Answer what is not there, or cannot be, with a page that says so."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except KeyError:
                return self.pages.message(GONE, 404)
            except RefusedError as refused:
                return self.pages.message(str(refused), refused.status)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody reads it
            except Exception:
                LOG.exception("a bug in Mercer")
                return self.pages.message(BUG, 500)

        return answer

    async def miss(self, request: Request, error: Exception) -> Response:
        """Answer an address that is none of ours; that of a form, typed or reloaded, leads to the page of the form."""
        path = request.url.path.removeprefix(self.pages.base).strip("/").split("/")
        if getattr(error, "status_code", 404) == 405 and request.method == "GET":
            return self._go(*path[:-1])
        return self.pages.message(NOWHERE, 404)

    async def _form(self, request: Request) -> Form:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > self.policy.most_form_bytes:
                raise RefusedError("The form is too large.", 413)
        try:
            return parse_form(body, 10 * self.policy.most_columns)
        except ValueError:
            raise RefusedError("The form has too many fields.", 413) from None

    def _go(self, *path: str, part: str = "") -> Response:
        place = "/".join(map(quote, path))
        return RedirectResponse(f"{self.pages.base}/{place}{part}", status_code=303)

    # --------------------------------------------------------------------------------------------------------- pages

    async def home(self, request: Request) -> Response:
        """Show where a file is dropped, and earlier work."""
        return self._show_home()

    def _show_home(self, **more: Any) -> Response:
        store = self.service.store
        models = [self.service.state(each["name"]) for each in store.list("models")]
        return self.pages.home(store.list("tables"), models, **more)

    async def static(self, request: Request) -> Response:
        """Return a style or script."""
        name = request.path_params["name"]
        package, kind = STATIC[name]
        content = files(package).joinpath("templates", name).read_bytes()
        return Response(content, media_type=kind)

    async def table(self, request: Request) -> Response:
        """Show how a table was read, and ask what is to be explained."""
        return self._show_table(request.path_params["name"])

    def _show_table(self, name: str, form: Form | None = None, problems: Problems | None = None) -> Response:
        document = self.service.store.read("tables", name)
        reading = self.service.reading(name) if document["status"] == "read" else None
        return self.pages.table(document, reading, form or {}, problems or {})

    async def table_state(self, request: Request) -> Response:
        """Tell whether a table was read."""
        name = request.path_params["name"]
        document = self.service.store.read("tables", name)
        quick = self.service.quick
        return JSONResponse({"status": document["status"], "position": quick.position(name), "ready": quick.ready})

    async def model(self, request: Request) -> Response:
        """Show a search that goes on, or what it found."""
        return self._show_model(request.path_params["name"])

    def _show_model(self, name: str, **more: Any) -> Response:
        finished = [each for each in self.service.store.list("models") if each["status"] == "done"]
        return self.pages.model(self.service.state(name), [each for each in finished if each["name"] != name], **more)

    async def model_state(self, request: Request) -> Response:
        """Tell how far a search is."""
        state = self.service.state(request.path_params["name"])
        return JSONResponse({name: state[name] for name in ("status", "position", "progress")})

    async def file(self, request: Request) -> Response:
        """Return a file of a model, shown or to be saved."""
        name, kind = request.path_params["name"], request.path_params["kind"]
        document = self.service.store.read("models", name)
        file, media, saved = FILES[kind]
        place = self.service.store.place("models", name) / file
        if not place.is_file():
            raise KeyError(kind)
        headers = {"content-security-policy": REPORTS} if media == "text/html" else {}
        title = f"{document['target']} {place.name}" if saved else None
        return FileResponse(place, media_type=media, filename=title, headers=headers)

    async def compare(self, request: Request) -> Response:
        """Show two models side by side."""
        names = request.query_params.getlist("model")
        found = [self.service.store.read("models", name) for name in dict.fromkeys(names)]
        if len(found) == 2 and all(each["status"] == "done" for each in found):
            return self.pages.compare(found)
        given = "a model and itself" if len(names) == 2 and len(found) == 1 else write_count(len(found), "model")
        if any(each["status"] != "done" for each in found):
            given = "one whose search has not ended"
        problem = f"Choose two different models that are finished; {given} cannot be compared."
        return self._show_home(problems={"compare": problem}, chosen=names)

    # --------------------------------------------------------------------------------------------------------- tables

    async def upload(self, request: Request) -> Response:
        """Take a file in; answer where to go on, or what is wrong."""
        declared = request.headers.get("content-length", "")
        name = request.query_params.get("name", "")
        try:
            table = await self.service.receive(name, request.stream(), int(declared) if declared.isdigit() else None)
        except RefusedError as refused:
            return JSONResponse({"problem": str(refused)}, status_code=refused.status, headers={"connection": "close"})
        return JSONResponse({"place": f"{self.pages.base}/table/{table}"}, status_code=201)

    async def example(self, request: Request) -> Response:
        """Take the airline passengers in."""

        async def parts() -> AsyncIterator[bytes]:
            totals = [total for year in AIRLINE_PASSENGERS for total in year]
            rows = [f"{1949 + place // 12}-{1 + place % 12:02d}-01,{total}" for place, total in enumerate(totals)]
            yield "\n".join(["month,passengers", *rows, ""]).encode()

        return self._go("table", await self.service.receive("airline.csv", parts(), None))

    async def read(self, request: Request) -> Response:
        """Read a table otherwise."""
        name, form = request.path_params["name"], await self._form(request)
        options, problems = read_reading_form(form)
        if problems:
            return self._show_table(name, form, problems)
        self.service.read_again(name, options)
        return self._go("table", name)

    async def search(self, request: Request) -> Response:
        """Begin a search."""
        name, form = request.path_params["name"], await self._form(request)
        reading = self.service.reading(name)
        if reading is None:
            raise KeyError(name)
        asked, problems = read_search_form(form, reading["columns"], self.policy)
        if not problems:
            answer = await self.service.check(name, asked)
            if answer:
                field, sentence = explain_answer(answer, "target", "The rows could not be looked at")
                problems = {field: sentence}
        if problems:
            return self._show_table(name, form, problems)
        return self._go("model", self.service.begin_search(name, asked))

    async def delete_table(self, request: Request) -> Response:
        """Delete a table."""
        return await self._delete("tables", request)

    async def delete_model(self, request: Request) -> Response:
        """Delete a model."""
        return await self._delete("models", request)

    async def _delete(self, kind: Kind, request: Request) -> Response:
        await self.service.delete(kind, request.path_params["name"])
        return self._go(part="#earlier")

    # --------------------------------------------------------------------------------------------------------- models

    async def stop(self, request: Request) -> Response:
        """Stop a search with the best so far."""
        name = request.path_params["name"]
        self.service.store.read("models", name)
        self.service.searches.stop(name)
        return self._go("model", name)

    async def again(self, request: Request) -> Response:
        """Go on with a search that did not end well."""
        name = request.path_params["name"]
        if self.service.store.read("models", name)["status"] in ("failed", "stopped"):
            self.service.search_again(name)
        return self._go("model", name)

    async def forecast(self, request: Request) -> Response:
        """Forecast the next steps."""
        name, form = request.path_params["name"], await self._form(request)
        self._read_finished(name)
        asked, problems = read_steps_form(form, self.policy)
        if not problems:
            answer = await self.service.forecast(name, asked)
            if "forecast" in answer:
                return self._go("model", name, part="#forecast")
            field, sentence = explain_answer(answer, "steps", "The forecast did not end well")
            problems = {field if field in ("steps", "series") else "steps": sentence}
        return self._show_model(name, form=form, problems=problems)

    async def predict(self, request: Request) -> Response:
        """Predict at typed values."""
        name, form = request.path_params["name"], await self._form(request)
        document = self._read_finished(name)
        wanted = [each["name"] for each in document["result"]["fields"]]
        values = {field: first(form, f"value {field}") for field in wanted}
        answer = await self.service.predict(name, values)
        if "prediction" in answer:
            return self._show_model(name, form=form, prediction=answer["prediction"])
        problems = {f"value {field}": sentence for field, sentence in answer.get("problems", {}).items()}
        if not problems:
            problems = {"predict": explain_answer(answer, "", "The prediction did not end well")[1]}
        return self._show_model(name, form=form, problems=problems)

    def _read_finished(self, name: str) -> dict[str, Any]:
        document = self.service.store.read("models", name)
        if document["status"] != "done":
            raise RefusedError("The search has not ended yet.", 409)
        return document
