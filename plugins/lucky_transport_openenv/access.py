"""Who may talk to the HTTP server: the Host, Origin, token and length of a request are checked before it is answered.

A web page can have a browser send requests to this machine, under a name of its own that leads here. It cannot choose
the Host and the Origin that the browser says.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection
from contextvars import ContextVar
from typing import Any

from lucky_transport.config import Settings, environment
from lucky_transport.errors import ConfigError, Status
from lucky_transport_openenv.errors import EpisodeError
from lucky_transport_openenv.runtime import fastapi

#: Where the state of a request has its connection's own name.
CONNECTION = "lucky_connection"
#: Who sent the request under way, and so owns what it opens: its Authorization header, or else its connection.
OWNER: ContextVar[bytes | str] = ContextVar("owner", default="")

#: HTTP's statuses of what is refused here.
_HTTP = {Status.PERMISSION_DENIED: 403, Status.UNAUTHENTICATED: 401, Status.RESOURCE_EXHAUSTED: 413}
_AUTHORITY = re.compile(r"(?:\[([\da-f:.]+)\]|([^\s/@:\[\]]+))(?::\d*)?")


class AccessControl:
    """An ASGI application that passes on to `app` what it does not refuse.

    host: at which it is served, which is allowed beside the loopback's names. max_bytes: of a request's body. Raises
    ConfigError for a token that is blank.
    """

    def __init__(self, app: Any, host: str, settings: Settings, max_bytes: int) -> None:
        token = environment().get("LUCKY_OPENENV_TOKEN")
        if token is not None and not token.strip():
            raise ConfigError("LUCKY_OPENENV_TOKEN is blank", backend="openenv", hint="unset it, or set it to a token")
        self._app = app
        self._hosts = {name.lower().strip("[]") for name in (host, *settings.allow_host)} - {"0.0.0.0", "::"}
        self._origins = {origin.lower().rstrip("/") for origin in settings.allow_origin}
        self._token = (token or "").strip().encode()
        self._max_bytes = max_bytes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection or request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            authorization = _header(scope, b"authorization")
            self._check(_header(scope, b"host"), _header(scope, b"origin"), authorization)
            if scope["type"] == "http":
                receive = await self._read(receive)
        except EpisodeError as error:
            await _response(error)(scope, receive, send)
            return
        OWNER.set(authorization or scope["state"][CONNECTION])
        await self._app(scope, receive, send)

    def _check(self, host: bytes, origin: bytes, authorization: bytes) -> None:
        said = host.decode("latin-1").lower()
        if not _is_local(said, self._hosts):
            raise EpisodeError(Status.PERMISSION_DENIED, f"Host {said!r} is not allowed; serve with --allow-host NAME")
        page = origin.decode("latin-1").lower()
        scheme, _, authority = page.partition("://")
        is_own = scheme in ("http", "https") and (authority == said or _is_local(authority))
        if page and not is_own and page not in self._origins:
            text = f"Origin {page!r} is not allowed; serve with --allow-origin ORIGIN"
            raise EpisodeError(Status.PERMISSION_DENIED, text)
        kind, _, token = authorization.partition(b" ")
        if self._token and not (hmac.compare_digest(token.strip(), self._token) and kind.lower() == b"bearer"):
            raise EpisodeError(Status.UNAUTHENTICATED, "send the server's token as Authorization: Bearer TOKEN")

    async def _read(self, receive: Any) -> Any:
        """Read the request's body and return what receives it again, and then what follows."""
        body, message = bytearray(), {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                text = f"the request is longer than {self._max_bytes} bytes; serve with ?max_bytes=N"
                raise EpisodeError(Status.RESOURCE_EXHAUSTED, text)
        first = [{**message, "body": bytes(body)}]

        async def again() -> Any:
            return first.pop() if first else await receive()

        return again


def _response(error: EpisodeError) -> Any:
    headers = {"WWW-Authenticate": "Bearer"} if error.status is Status.UNAUTHENTICATED else None
    content = {"detail": str(error), "status": error.status.name}
    return fastapi.responses.JSONResponse(content, status_code=_HTTP[error.status], headers=headers)


def _header(scope: Any, name: bytes) -> bytes:
    """Return a header's value; several are one that nothing matches."""
    return b", ".join(value for key, value in scope["headers"] if key == name)


def _is_local(authority: str, others: Collection[str] = ()) -> bool:
    """True for host[:port] of this machine's loopback, or of the `others`."""
    found = _AUTHORITY.fullmatch(authority)
    name = (found[1] or found[2]).rstrip(".") if found else ""
    try:
        return name == "localhost" or name in others or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
