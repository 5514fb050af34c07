"""The way to a running engine of this user that is no client's: what it answers, and a change of that.

    with listening(host.switch, host.spec, ["shm://demo"]): ...   # in the engine's process

    engine_at("shm://demo").services               # elsewhere: read from a file, the engine is not asked
    change("shm://demo", off=["CameraService"])    # over a socket that only the engine's user may use

The socket lies in the directory that only this user can enter, with the description beside it; the engine answers no
process of another user, root's included. Each side sends one message of JSON.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lucky_transport.config import runtime_directories
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable, PeerTimeout, TransportError, from_wire, to_wire_error
from lucky_transport.fork import on_child
from lucky_transport.limits import within_limits
from lucky_transport.nesting import json_object
from lucky_transport.shm.files.liveness import peer_of
from lucky_transport.shm.files.server_description import describe, descriptions, forget
from lucky_transport.shm.files.socket_path import claim_socket, private_directory
from lucky_transport.shm.timing import ACCEPT_PAUSE_S
from lucky_transport.uninterrupted import start_thread

if TYPE_CHECKING:
    from lucky_transport.host.service_switch import ServiceSwitch
    from lucky_transport.spec.batch_spec import BatchSpec


_log = logging.getLogger("lucky_transport")

#: No segment can have this name; each engine has a socket of the group.
_NAME = "engines@control"
_LONGEST = 1 << 16
#: How long an engine waits for a command's message, and a command for the engine's.
_HELLO_S = 1.0
_PATIENCE_S = 5.0
#: So many commands are waited for at once; more wait until they are let in.
_CALLERS = 64
_SHUT_DOWN = errno.EINVAL, errno.EBADF


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """A running engine. endpoints: where it is served. services: full name -> whether it is on. streams: full name ->
    items a second at most, 0 for no limit.
    """

    engine: str
    num_envs: int
    pid: int
    endpoints: tuple[str, ...]
    services: dict[str, bool]
    streams: dict[str, float]

    @property
    def off(self) -> list[str]:
        """The services that are off, without their packages."""
        return [name.rpartition(".")[2] for name, is_on in self.services.items() if not is_on]

    @property
    def limited(self) -> dict[str, float]:
        """The streams with a limit, "Service/Method", and the limit."""
        return {name.rpartition(".")[2]: hz for name, hz in self.streams.items() if hz}

    @property
    def summary(self) -> str:
        """What is off and limited in one line: "all on", "off: CameraService; StreamTelemetry at most 10/s"."""
        off = [f"off: {' '.join(self.off)}"] if self.off else []
        return "; ".join([*off, *(f"{name} at most {hz:g}/s" for name, hz in self.limited.items())]) or "all on"


@contextmanager
def listening(switch: ServiceSwitch, spec: BatchSpec, endpoints: Sequence[str]) -> Generator[None]:
    """Let this user's commands see and change what the engine answers, until the end of the block.

    Where there is no place for the socket, the log says so, and only the engine's own process can change it. Raises
    NotReachable when a limit of this process is reached.
    """
    pid = os.getpid()
    with contextlib.ExitStack() as undo:
        try:
            with within_limits(f"engine {spec.engine!r} cannot be served"):
                _listen(switch, spec, endpoints, undo)
        except NotReachable:
            raise
        except (OSError, TransportError) as error:
            undo.close()
            _log.warning("engine %r cannot be changed from outside: %s", spec.engine, error)
        try:
            yield
        finally:
            if os.getpid() != pid:  # a forked child: all of it is its parent's
                undo.pop_all()


def _listen(switch: ServiceSwitch, spec: BatchSpec, endpoints: Sequence[str], undo: contextlib.ExitStack) -> None:
    path, lock = claim_socket(private_directory(runtime_directories()[0]), _NAME, _NAME)
    undo.callback(lock.release, unlink=True)
    path.unlink(missing_ok=True)  # of an engine that was killed
    undo.callback(path.unlink, missing_ok=True)
    listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen()
    on_child(listener.close)  # a child would keep it open

    def tell() -> None:
        here = EngineDescription(
            spec.engine, spec.num_envs, os.getpid(), tuple(endpoints), switch.services, switch.streams
        )
        describe(path, asdict(here))

    undo.callback(forget, path)
    tell()
    switch.command = f"lucky-transport services {endpoints[0]}"
    switch.watch(tell)
    thread = threading.Thread(target=_serve, args=(listener, switch), name="lucky control", daemon=True)
    undo.callback(_join, thread)  # before the start: that may be interrupted once the thread runs
    undo.callback(listener.shutdown, socket.SHUT_RDWR)  # ends its wait
    start_thread(thread)


def _join(thread: threading.Thread) -> None:
    if thread.is_alive():
        thread.join(_PATIENCE_S)


def _serve(listener: socket.socket, switch: ServiceSwitch) -> None:
    silent: dict[socket.socket, Deadline] = {}  # those that have not asked yet, the oldest first
    try:
        while True:
            ready = _readable(listener, silent)
            for connection in [one for one, until in silent.items() if one in ready or until.expired]:
                del silent[connection]
                with connection, contextlib.suppress(OSError):
                    if connection in ready:
                        connection.send(json.dumps(_answer(connection, switch)).encode())
            if listener in ready:
                try:
                    connection, _ = listener.accept()
                except OSError as error:
                    if error.errno in _SHUT_DOWN:
                        return
                    time.sleep(ACCEPT_PAUSE_S)  # no descriptors are left: the command waits
                    continue
                connection.setblocking(False)
                silent[connection] = Deadline(_HELLO_S)
    finally:
        for connection in silent:
            connection.close()


def _readable(listener: socket.socket, silent: Mapping[socket.socket, Deadline]) -> set[Any]:
    """Return which are readable once one is, or the first deadline has passed."""
    with selectors.PollSelector() as ready:
        for one in [*([listener] if len(silent) < _CALLERS else []), *silent]:
            ready.register(one, selectors.EVENT_READ)
        left_s = min((until.remaining_s for until in silent.values()), default=None)
        return {key.fileobj for key, _ in ready.select(left_s)}


def _answer(connection: socket.socket, switch: ServiceSwitch) -> dict[str, Any]:
    """Make the change that the process at the other end asks for, and return {}, or the error's code and text."""
    try:
        message = connection.recv(_LONGEST)  # a connection that is closed before loses the answer
        peer_of(connection).close()  # raises for another user's process
        asked = json_object(message.decode(), "the change")
        switch.change(on=asked["on"], off=asked["off"], fps=asked["fps"])
    except Exception as error:
        known = to_wire_error("control", "the change", error)
        return {"code": known.wire_code, "text": str(known)}
    return {}


def engines() -> list[EngineDescription]:
    """Return the running engines of this user that are served to other processes, by endpoint."""
    found = [engine for _, engine in _running()]
    return sorted(found, key=lambda one: one.endpoints)


def _running() -> Iterable[tuple[Path, EngineDescription]]:
    for path, values, holder in descriptions():
        if holder is not None:
            with contextlib.suppress(TypeError, KeyError, ValueError, AttributeError):
                yield path, _engine(values)


def _engine(values: Mapping[str, Any]) -> EngineDescription:
    endpoints = tuple(map(str, cast("list[Any]", values["endpoints"])))
    services = {str(name): bool(is_on) for name, is_on in values["services"].items()}
    streams = {str(name): float(hz) for name, hz in values["streams"].items()}
    return EngineDescription(
        str(values["engine"]), int(values["num_envs"]), int(values["pid"]), endpoints, services, streams
    )


def engine_at(endpoint: str) -> EngineDescription:
    """Return the engine at that endpoint. Raises NotReachable where no running engine of this user is served there."""
    return _find(endpoint)[1]


def _find(endpoint: str) -> tuple[Path, EngineDescription]:
    wanted, running = Endpoint.parse(endpoint), list(_running())
    for path, engine in running:
        for one in map(Endpoint.parse, engine.endpoints):
            if (one.scheme, one.address) == (wanted.scheme, wanted.address):
                return path, engine
    places = ", ".join(sorted(one for _, engine in running for one in engine.endpoints))
    raise NotReachable(
        f"no engine of yours is served at {endpoint} on this host",
        hint=f"yours are at {places}" if places else "only the user who runs an engine can see and change its services",
    )


def change(
    endpoint: str, *, on: Iterable[str] = (), off: Iterable[str] = (), fps: Mapping[str, float] | None = None
) -> EngineDescription:
    """Change what the engine at that endpoint answers, as `ServiceSwitch.change` does, and return what holds then.

    Raises what that raises, NotReachable, PeerTimeout, RemoteProtocolError (another user's process).
    """
    path, engine = _find(endpoint)
    gone = NotReachable(f"the engine at {endpoint} has ended", hint="start it again")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(_PATIENCE_S)
            connection.connect(str(path))
            peer_of(connection).close()
            connection.send(json.dumps({"on": list(on), "off": list(off), "fps": dict(fps or {})}).encode())
            answer = connection.recv(_LONGEST).decode()
    except TimeoutError as error:
        raise PeerTimeout(
            f"the engine at {endpoint} (pid {engine.pid}) did not answer within {_PATIENCE_S:g} s",
            hint=f"try again; one that is stopped goes on after `kill -CONT {engine.pid}`",
        ) from error
    except OSError as error:
        raise gone from error
    if not answer:
        raise gone
    if refusal := json_object(answer, "the engine's answer"):
        raise from_wire(int(refusal["code"]), str(refusal["text"]), backend=engine.engine)
    return _find(endpoint)[1]
