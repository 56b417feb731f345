"""Stands before the page: lets in those who know the token, keeps other sites out, and adds headers of safety.

The token is traded at /login for a cookie, which is another secret, made at each start. A request that changes
something comes from the page's own origin or is refused; no address runs a query.
"""

from __future__ import annotations

import hmac
import secrets
from html import escape
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "elf-dashboard"
FORM_BYTES_MAX = 8192
SAFE_METHODS = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Nothing from elsewhere. The toolkit compiles its templates in the browser, so scripts in the page must be allowed."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LOGIN = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>ELF dashboard: sign in</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body {{ font: 1rem sans-serif; max-width: 26rem; margin: 3rem auto; padding: 0 1rem }}
input, button {{ font: inherit; padding: .5rem; width: 100%; box-sizing: border-box; margin: .5rem 0 }}</style></head>
<body><main><h1>ELF dashboard</h1><form method="post" action="/login"><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Sign in</button></form><p role="alert">{fault}</p>
<p>elf dashboard printed a link with the token when it was started, or it is in the file of --token-file.</p>
</main></body></html>"""


class PageAdmission:
    """An ASGI application around another one. `token`: None where the TLS layer has let the browser in."""

    def __init__(self, app: ASGIApp, token: str | None, *, is_https: bool) -> None:
        self.app = app
        self._token = None if token is None else token.encode()
        self._cookie = secrets.token_urlsafe(32)
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        answer = await self._refusal(scope, receive)
        if answer is None:
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "sign in first"})
        else:
            await answer(scope, receive, _with_headers(send))

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        """The answer to a request that does not reach the page; None for one that does."""
        headers = Headers(scope=scope)
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if changes and not _is_own_origin(headers):
            return PlainTextResponse("this request comes from another site", 403)
        if self._token is None:
            return None
        if scope["path"] == "/login" and scope["type"] == "http":
            return await self._login(scope, receive)
        if _is_same(_cookie(headers), self._cookie.encode()):
            return None
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/":
            return RedirectResponse("/login", 303)
        return PlainTextResponse("sign in first, at /login", 401)

    async def _login(self, scope: Scope, receive: Receive) -> Response:
        given = _token(await _body(receive)) if scope["method"] == "POST" else _token(scope["query_string"])
        assert self._token is not None
        if not _is_same(given.strip(), self._token):
            fault = "This is not the token." if given else ""
            return HTMLResponse(_LOGIN.format(fault=escape(fault)), 401 if given else 200)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self._cookie, httponly=True, samesite="strict", secure=self._is_https)
        return answer


def _token(fields: bytes) -> bytes:
    """The token among a form's fields, byte for byte; b"" without one."""
    found = parse_qs(fields.decode("latin-1"), encoding="latin-1").get("token", [""])
    return found[0].encode("latin-1", "replace")


def _is_same(given: bytes, secret: bytes) -> bool:
    return hmac.compare_digest(given, secret)


def _cookie(headers: Headers) -> bytes:
    """The page's cookie, read by hand: others may be there that no parser likes."""
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value.encode("latin-1", "replace")
    return b""


def _is_own_origin(headers: Headers) -> bool:
    """Whether a request comes from this page, or from a program, which names no origin."""
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


async def _body(receive: Receive) -> bytes:
    """A form's bytes; none of one that is too long."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > FORM_BYTES_MAX or message["type"] == "http.disconnect":
            return b""
        if not message.get("more_body"):
            return bytes(body)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if "cache-control" not in headers:
                headers["Cache-Control"] = "no-store"
        await send(message)

    return sending
