"""The address of an engine, as a URL.

    grpc://127.0.0.1:50051          legacy gRPC over TCP
    grpc+unix:///run/engine.sock    legacy gRPC over a unix socket
    shm://name                      a shared-memory segment of this host
    inproc:                         the same process, no wire

The registry maps schemes to transports.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from lucky_transport.errors import ConfigError

__all__ = ["Endpoint"]

#: A gRPC target instead of a URL; no scheme has a dot, and no transport is called localhost.
_HOST_AND_PORT = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+|\[[\da-fA-F:.]+\]):\d{1,5}")


class Endpoint(NamedTuple):
    """An engine's address: `scheme`, `address` (what stands behind `://`) and options from the query string."""

    scheme: str
    address: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str | Endpoint) -> Endpoint:
        """Return the endpoint that `text` spells.

        Raises ConfigError when `text` is no URL of the form `scheme://address[?key=value]` (or `scheme:`).
        """
        if isinstance(text, Endpoint):
            return text
        if _HOST_AND_PORT.fullmatch(text):
            raise ConfigError(f"endpoint {text!r} names no transport", hint=f"did you mean grpc://{text}?")
        scheme, colon, rest = text.partition(":")
        if not colon or not scheme or not all(c.isalnum() or c in "+-." for c in scheme):
            raise ConfigError(
                f"endpoint {text!r} is not a URL",
                hint="write for instance shm://name or grpc://127.0.0.1:50051",
            )
        rest, _, query = rest.partition("?")
        address = rest.removeprefix("//")
        try:
            options = tuple(parse_qsl(query, strict_parsing=True)) if query else ()
        except ValueError as error:
            raise ConfigError(
                f"endpoint {text!r}: the part behind '?' is malformed ({error})", hint="write ?key=value&key=value"
            ) from error
        return cls(scheme.lower(), address, options)

    def option(self, key: str, default: str = "") -> str:
        """Return the query option `key`, or `default`."""
        return dict(self.options).get(key, default)

    def host_and_port(self, example: str) -> tuple[str, int]:
        """Return what the address names. Raises ConfigError, with the example, when it is not `host:port`."""
        host, _, port = self.address.rpartition(":")
        if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(
                f"endpoint {str(self)!r}: the address is not host:port",
                backend=self.scheme,
                hint=f"write for instance {example}",
            )
        return host, int(port)

    def with_address(self, address: str) -> Endpoint:
        """Return this endpoint at another address (a server at port 0 returns the real port)."""
        return Endpoint(self.scheme, address, self.options)

    def __str__(self) -> str:
        base = f"{self.scheme}://{self.address}" if self.address else f"{self.scheme}:"
        return f"{base}?{urlencode(self.options)}" if self.options else base
