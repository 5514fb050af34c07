"""Connects to an engine, without waiting for one that is not there: threads by `connect`, event loops in steps."""

from __future__ import annotations

import contextlib
import time

from lucky_transport.config import recent_settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable, PeerTimeout, TransportError
from lucky_transport.limits import within_limits
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.shm.listener.connecting import Steps, finish, pipe_steps
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.wait import strategy_code
from lucky_transport_stubs.client.connection_monitor import CONNECTION_MONITOR
from lucky_transport_stubs.words.options import received_too_long

#: An idle engine that listens accepts within this time.
_ACCEPT_S = 0.02
#: Time for another thread to read what the engine wrote last, before the next check.
_SLEEP_S = 0.0005


def connect(endpoint: Endpoint, max_receive_bytes: int, deadline: Deadline | None = None) -> ClientCalls:
    """Return a connection that ends as soon as the engine leaves; raises what `connection_steps` raises."""
    calls, pipe = finish(connection_steps(endpoint, max_receive_bytes, deadline))
    with contextlib.ExitStack() as undo, within_limits(f"{endpoint} cannot be reached", "shm"):
        undo.callback(calls.close)
        CONNECTION_MONITOR.watch(pipe, lambda: _read_to_the_end(calls))
        undo.pop_all()
    return calls


def connection_steps(
    endpoint: Endpoint, max_receive_bytes: int, deadline: Deadline | None = None
) -> Steps[tuple[ClientCalls, MemfdPipe]]:
    """Connect to the engine or server at `shm://name`; how it waits is configured (LUCKY_WAIT). The steps come to the
    connection, which its caller watches, and to its pipe.

    Raises NotReachable when no server listens, PeerTimeout at the deadline, Busy when the engine has too many clients,
    RemoteProtocolError when it is none of ours.
    """
    pipe = yield from _connect_pipe(endpoint, deadline)
    calls = ClientCalls(pipe, backend="shm", max_message_bytes=max_receive_bytes, refusal=received_too_long("CLIENT"))
    calls.is_relay = pipe.is_relay
    return calls, pipe


def _connect_pipe(endpoint: Endpoint, deadline: Deadline | None) -> Steps[MemfdPipe]:
    settings = recent_settings()
    left_s = float("inf") if deadline is None else deadline.remaining_s
    if not left_s:
        raise PeerTimeout(f"no time was left to connect to {endpoint}", backend="shm")
    try:
        pipe = yield from pipe_steps(
            endpoint.address,
            Deadline(min(_ACCEPT_S, left_s)),
            strategy=strategy_code(settings.wait),
            # An engine that accepted and is busy gets its time.
            answer_s=min(settings.connect_timeout_s, left_s),
            or_server=True,
            at_once=True,
        )
    except PeerTimeout as error:
        if deadline is not None and deadline.expired:
            raise
        raise NotReachable(str(error), backend="shm") from error
    return pipe


def _read_to_the_end(calls: ClientCalls) -> None:
    """The engine has left: read what it wrote last, then end the connection."""
    with contextlib.suppress(TransportError):
        while True:
            calls.pump()
            if not calls.arm():  # raises at the end
                return
            time.sleep(_SLEEP_S)
