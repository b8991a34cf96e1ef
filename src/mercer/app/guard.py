"""Who is let in: our own host and token, and only our own pages may change anything."""

from __future__ import annotations

import secrets
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS = ("GET", "HEAD")
PAGES = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A report has its style and its script inside. It is shut off from the pages around it all the same: `sandbox` gives it
# an origin of its own, so that it could not send a form even if a cell of a table had found a way into its script.
REPORTS = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": PAGES,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with "no-referrer" forms would come from the origin "null"
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Refuses what does not come from our own pages, and closes the window to everything outside."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.host = f"127.0.0.1:{port}"
        self.origin = f"http://{self.host}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def send_closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self.refuse(scope) if scope["type"] == "http" else "Only pages are served here."
        if refusal:
            await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, send_closed)
            return
        await self.app({**scope, "root_path": f"/{self.token}"}, receive, send_closed)

    def refuse(self, scope: Scope) -> str:
        """Return why a request is refused; nothing where it is welcome."""
        headers = Headers(scope=scope)
        if headers.getlist("host") != [self.host]:
            return f"This page is served at {self.host} alone."
        first = unquote(scope["path"]).lstrip("/").partition("/")[0]
        if not secrets.compare_digest(first.encode(), self.token.encode()):
            return "The address lacks its token. Open the address that `mercer app` printed."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        changes = scope["method"] not in SAFE_METHODS
        if (origin is not None and origin != self.origin) or (changes and origin is None):
            return "Only Mercer's own pages may do this."
        # A link in a chat or a notebook may lead here; another page may not fetch from here or show it inside itself.
        followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if site not in ("same-origin", "none") and (changes or not followed):
            return "Only Mercer's own pages may do this."
        return ""
