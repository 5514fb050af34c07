"""Endpoints as gRPC targets, and the socket file of a unix endpoint. A wrong endpoint is a ConfigError before gRPC sees
it, and not a long wait.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, one_of, read_options
from lucky_transport.errors import ConfigError, NotReachable
from lucky_transport.found_file import remove_unused_socket
from lucky_transport.limits import limit_reached

#: The name of an option with which grpc does nothing: by it `lucky-transport run` knows channels of our own transport.
OF_A_TRANSPORT = "lucky_transport.of_a_transport"

#: What the endpoint option `service` may say.
SERVICES = ("auto", "batch", "agent")


def target_of(endpoint: Endpoint) -> str:
    """Return gRPC's name for the endpoint: "host:port" or "unix:path".

    Raises ConfigError when the address is not of that form.
    """
    if endpoint.scheme == "grpc+unix":
        if not endpoint.address:
            raise ConfigError(
                f"endpoint {str(endpoint)!r}: it has no path",
                backend="grpc",
                hint="write for instance grpc+unix:///run/engine.sock",
            )
        return f"unix:{endpoint.address}"
    host, port = endpoint.host_and_port("grpc://127.0.0.1:50051")
    return f"{host}:{port}"


def service_of(endpoint: Endpoint) -> str:
    """Return the endpoint's option `service`; raises ConfigError for an option or a value there is not."""
    option = EndpointOption(one_of(*SERVICES), f"one of {', '.join(SERVICES)}")
    return read_options(endpoint, {"service": option}, backend="grpc").get("service", "auto")


def bind_failure(target: str) -> str:
    """Return why no server can listen at "host:port", "" when one can now."""
    host, _, port = target.rpartition(":")
    failure = ""
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return f"{host} is no known host ({error.strerror or error})"
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(address)
            return ""  # one of a host's addresses is enough for gRPC
        except OSError as error:
            if limit_reached(error)[0]:  # that says nothing about the address
                raise
            failure = (error.strerror or str(error)).lower()
    return failure


class SocketFile:
    """The socket file of a server: `prepare` before binding, `protect` after it, `remove` when the server is gone."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._path = Path(endpoint.address)
        self._inode = 0

    def prepare(self) -> None:
        """Delete a stale socket; raises NotReachable when a live one or another kind of file has the path.

        gRPC itself deletes whatever socket lies at a path that it binds, live or not.
        """
        try:
            is_free = remove_unused_socket(str(self._path))
        except OSError as error:
            if limit_reached(error)[0]:  # that says nothing about the path
                raise
            raise self._taken(error.strerror or str(error)) from error
        if not is_free:
            raise self._taken("another server listens there")

    def _taken(self, why: str) -> NotReachable:
        return NotReachable(f"cannot serve at {self._endpoint}: {why}", backend="grpc", hint="use another path")

    def protect(self) -> None:
        """Keep other users out and remember which file is ours."""
        self._inode = self._path.stat().st_ino
        os.chmod(self._path, 0o600)

    def remove(self) -> None:
        """Delete the file if it is still the one of this server."""
        try:
            if self._inode and self._path.stat().st_ino == self._inode:
                self._path.unlink()
        except FileNotFoundError:
            pass  # gRPC deletes it too
