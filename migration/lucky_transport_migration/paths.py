"""The ways to an engine that can be compared, by name, and a running engine at the end of one.

    shm          shared memory
    grpc         legacy gRPC as it is: one unary Step per agent (what a training stack migrates from)
    grpc-batch   the packed batch service over gRPC
    inproc       the engine in this very process: no wire at all
    <name>       any other transport the registry knows, with its own defaults
    <name>#2     the same path to a second engine: what differs between both is noise

This package sees transports only through the registry; a path is a transport's name and endpoint options. A
`ConnectedEngine` owns its engine process and its client's end; `close` leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from lucky_transport import api
from lucky_transport.closing import Closing
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import BrokenPlugin, ConfigError, TransportError
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.registry import load, registry
from lucky_transport.serving import Serving
from lucky_transport.transport import Transport
from lucky_transport_migration.compare.difference import error_text

#: Paths that are more than a transport with its defaults: name -> (transport, endpoint options of the client).
NAMED: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "grpc": ("grpc", (("service", "agent"),)),
    "grpc-batch": ("grpc", (("service", "batch"),)),
}

_LABELS = {
    "shm": "shared memory",
    "grpc": "legacy gRPC",
    "grpc-batch": "gRPC batch service",
    "grpc-tcp": "gRPC over loopback TCP",
    "grpc-unix": "gRPC over a unix socket",
    "openra": "OpenRA's bridge over gRPC",
    "kit-python": "an engine in Python",
    "kit-c": "an engine in C",
    "kit-cpp": "an engine in C++",
    "kit-csharp": "an engine in C#",
    "inproc": "same process",
    "limit": "native limit",
    "pipes": "two pipes",
}


@dataclass(frozen=True, slots=True)
class Path:
    """A way to an engine: a transport, and the options its client's endpoint gets."""

    name: str
    transport: str
    options: tuple[tuple[str, str], ...] = ()


def label(name: str) -> str:
    """Return what a report calls the path `name`."""
    base, _, number = name.partition("#")
    return _LABELS.get(base, base) + (f", engine {number}" if number else "")


def find_path(name: str) -> Path:
    """Return the path called `name`, ready to be opened.

    Raises UnknownName, ConfigError (the transport cannot start an engine), MissingExtra, BrokenPlugin.
    """
    base = name.partition("#")[0]
    transport, options = NAMED.get(base, (base, ()))
    info = registry().transport(transport)
    if not info.local_endpoint:
        raise ConfigError(f"transport {transport!r} cannot start an engine by itself", hint="compare another one")
    load(info.client, owner=f"transport {transport!r}", extra=info.extra)
    return Path(name, transport, options)


def find_paths(names: Sequence[str]) -> list[Path]:
    """Return the paths to be compared, as `find_path`; raises ConfigError for fewer than two different ones."""
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError(f"--between {','.join(names)}", hint="name at least two different paths, e.g. grpc,shm")
    return [find_path(name) for name in names]


class ConnectedEngine(Closing):
    """An engine started for one client, and that client's end; for inproc the engine lives in this process.

    `pid` is the engine's process, None when it is this one. interceptors: names of those of the engine, beside the
    configured ones. Raises what starting and connecting raise.
    """

    def __init__(
        self,
        path: Path,
        engine: str,
        num_envs: int,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        wait: str | None = None,
        max_message_bytes: int | None = None,
        interceptors: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.engine = engine
        self.wait = wait
        self._interceptors = tuple(interceptors)
        registry().engine(engine.partition(":")[0])  # an unknown name fails here, not in the child
        self._settings = load_settings({"wait": wait, "max_message_bytes": max_message_bytes})
        with ExitStack() as stack:
            self._owner = self._serve(engine, num_envs, seed, options)
            stack.callback(self._owner.stop)
            self.transport = stack.enter_context(self.connect())
            self._stack = stack.pop_all()
        self.pid = self._owner.pid if isinstance(self._owner, EngineProcess) else None

    def _serve(
        self, engine: str, num_envs: int, seed: int | None, options: Mapping[str, Any] | None
    ) -> EngineProcess | Serving:
        endpoint = registry().transport(self.path.transport).local_endpoint.format(name=unique_name())
        interceptors = (*self._settings.interceptors, *self._interceptors)
        if self.path.transport == "inproc":
            given = {"num_envs": num_envs, "seed": seed, "options": options, "interceptors": interceptors}
            return api.serve(engine, endpoint, **given)
        return EngineProcess(
            engine,
            [endpoint],
            num_envs=num_envs,
            seed=seed,
            options=options,
            wait=self._settings.wait,
            max_message_bytes=self._settings.max_message_bytes,
            interceptors=[name for name in interceptors if isinstance(name, str)] if self._interceptors else (),
        )

    @property
    def endpoint(self) -> str:
        """Where a further client connects."""
        return str(_client_endpoint(self._owner, self.path))

    def connect(self) -> Transport:
        """Return a new client's end; the link itself uses one, made at construction."""
        return api.open_transport(self.endpoint, self._settings)

    def close(self) -> None:
        """End the connection, then the engine; idempotent."""
        self._stack.close()


def _client_endpoint(owner: EngineProcess | Serving, path: Path) -> Endpoint:
    served = owner.endpoints[0]
    return Endpoint(served.scheme, served.address, served.options + path.options)


def open_links(
    stack: ExitStack, paths: Sequence[Path], start: Callable[[Path], ConnectedEngine]
) -> list[ConnectedEngine]:
    """Return one link per path, started side by side; `stack` closes those that started, whatever happens."""
    with ThreadPoolExecutor(len(paths)) as pool:
        futures = [pool.submit(start, path) for path in paths]
    links: list[ConnectedEngine] = []
    for future in futures:
        if future.exception() is None:
            links.append(stack.enter_context(future.result()))
    for path, future in zip(paths, futures, strict=True):
        try:
            future.result()  # raises what its start raised
        except TransportError:
            raise
        except Exception as error:  # a plugin's own
            raise BrokenPlugin(f"path {path.name!r} cannot be opened: {error_text(error)}") from error
    return links
