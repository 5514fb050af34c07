"""A drop-in `grpc.Channel` to an engine or server in shared memory.

    channel = lucky_transport_stubs.channel("shm://name")       # where grpc.insecure_channel("host:port") was

It connects at the first call, and again after the connection broke. Channels of threads with the same target and
arguments share a connection, as gRPC's do.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError
from lucky_transport.fork import on_child
from lucky_transport.uninterrupted import start_thread
from lucky_transport_grpc.address import target_of
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.client.link import Link
from lucky_transport_stubs.client.methods import BY_ARITY, ConfiguredUnaryUnary
from lucky_transport_stubs.client.prepared import CallSettings
from lucky_transport_stubs.client.subchannel import pool_key
from lucky_transport_stubs.greenlets import why_no_threads
from lucky_transport_stubs.grpc_inside import ChannelBase, appears_as
from lucky_transport_stubs.words.arities import ArityChannel
from lucky_transport_stubs.words.options import check_default_compression, user_agent

Options = Iterable[tuple[str, Any]] | None
_log = logging.getLogger("grpc._channel")

Callback = Callable[[Any], Any]


class _Subscriber:
    """A callback; state: the last one that it was given or will be."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.state: Any = None


class Connectivity:
    """The subscribers to one channel's connectivity state.

    Each gets the present state first, then each change, in order and one call at a time.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.RLock()  # reentrant: a channel may be dropped in the middle of anything
        self._subscribers: list[_Subscriber] = []
        self._pending: deque[tuple[_Subscriber, Any]] = deque()
        self._thread: threading.Thread | None = None
        on_child(self.forget_after_fork)

    def subscribe(self, callback: Callback, try_to_connect: bool) -> None:
        """Call `callback` from now on; with `try_to_connect`, also connect as soon as there is an engine."""
        with self._lock:
            if not self._subscribers:
                self._link.standing.listeners.append(self._changed)
            self._subscribers.append(_Subscriber(callback))
            self._notify(self._subscribers[-1], self._link.standing.state)
        if try_to_connect:
            self._link.connect_soon(self._is_wanted)

    def unsubscribe(self, callback: Callback) -> None:
        """Call it no more; no effect for one that is not subscribed."""
        with self._lock:
            found = [one for one in self._subscribers if one.callback == callback][:1]
            self._keep([one for one in self._subscribers if one not in found])

    def close(self) -> None:
        """Forget all subscribers."""
        self._keep([])

    def forget_after_fork(self) -> None:
        """In a forked child: the subscribers are the parent's, and so is what lost threads hold."""
        self._lock, self._thread = threading.RLock(), None
        self._subscribers = []
        self._pending.clear()

    def _keep(self, subscribers: list[_Subscriber]) -> None:
        with self._lock:
            if self._subscribers and not subscribers:
                self._link.standing.listeners.remove(self._changed)
            self._subscribers = subscribers

    def _is_wanted(self) -> bool:
        return bool(self._subscribers)

    def _changed(self, state: Any) -> None:
        with self._lock:
            for subscriber in self._subscribers:
                self._notify(subscriber, state)

    def _notify(self, subscriber: _Subscriber, state: Any) -> None:
        """Have it called with a state that it does not know. The lock is held."""
        if state is subscriber.state:
            return
        subscriber.state = state
        self._pending.append((subscriber, state))
        if self._thread is None:
            # It exists while there are notifications, and holds no lock while it calls.
            thread = threading.Thread(target=self._notify_all, name="grpc connectivity", daemon=True)
            start_thread(thread)
            self._thread = thread  # not before: a signal handler may strike first

    def _notify_all(self) -> None:
        while (found := self._next()) is not None:
            callback, state = found
            try:
                callback(state)
            except Exception:  # a program's callback; the others are still called
                _log.exception("Exception calling channel subscription callback!")

    def _next(self) -> tuple[Callback, Any] | None:
        """Return a callback and its next state; None, and the thread ends, when there is nothing."""
        with self._lock:
            while self._pending:
                subscriber, state = self._pending.popleft()
                if subscriber in self._subscribers:
                    return subscriber.callback, state
            self._thread = None
            return None


def channel(
    endpoint: str | Endpoint | None = None,
    options: Options = None,
    compression: Any = None,
    credentials: grpc.ChannelCredentials | None = None,
) -> grpc.Channel:
    """Return a channel to `endpoint` (default: `LUCKY_ENDPOINT`): shm://name, or a real one for grpc and grpc+unix.

    No server needs to be there. options, compression: as for `grpc.insecure_channel`. credentials: as for
    `grpc.secure_channel`; what they come to is in the README. Raises ConfigError for other endpoints and for
    credentials of a network's peer; TypeError, ValueError for what are no options; AttributeError, TypeError for what
    are no credentials.
    """
    found = endpoint_of(endpoint)
    if found.scheme == "shm":
        return Channel(found, options, credentials, compression)
    given = {"options": tuple(options or ()), "compression": compression}
    if credentials is None:
        return grpc.insecure_channel(target_of(found), **given)
    return grpc.secure_channel(target_of(found), credentials, **given)


def endpoint_of(endpoint: str | Endpoint | None) -> Endpoint:
    """Return where a channel leads: the endpoint given, or else the configured one. Raises ConfigError."""
    if endpoint is None:
        settings = load_settings()
        endpoint = settings.endpoint or (f"shm://{settings.shm_name}" if settings.shm_name else "")
        if not endpoint:
            raise ConfigError("no endpoint for a channel", hint="pass channel('shm://name') or set LUCKY_ENDPOINT")
    found = Endpoint.parse(endpoint)
    is_name = found.scheme == "shm" and found.address and "/" not in found.address
    if not is_name and found.scheme not in ("grpc", "grpc+unix"):
        raise ConfigError(f"endpoint {str(found)!r} of a channel", hint="write shm://name or grpc://127.0.0.1:50051")
    if is_name and (why := why_no_threads()):
        raise ConfigError(f"endpoint {str(found)!r} of a channel: {why}", hint="use gRPC in this process")
    return found


@appears_as(ChannelBase)
class Channel(ArityChannel):
    """Everything of `grpc.Channel`, including the undocumented parts that generated code uses.

    It keeps its connection as long as the channel, a stub or a call of it lives, or until `close`.
    """

    def __init__(
        self, endpoint: Endpoint, options: Options = None, credentials: Any = None, compression: Any = None
    ) -> None:
        given = tuple(options or ())
        check_default_compression(compression)
        self._settings = CallSettings(endpoint, given, credentials, user_agent(given))
        # `_channel`, `_target`: the names by which programs know where a channel of grpc leads.
        self._link = self._channel = Link(
            endpoint, self._settings, pool_key(None, endpoint, given, credentials, compression)
        )
        self._target = self._settings.target.removeprefix("dns:///")
        self._connectivity = Connectivity(self._link)

    @property
    def _connectivity_state(self) -> Any:
        """What programs read in gRPC's own channel: how it stands; it knows that before it is subscribed to."""
        return SimpleNamespace(channel=self._link, connectivity=self._link.standing.state)

    def subscribe(self, callback: Callable[[Any], Any], try_to_connect: bool | None = False) -> None:
        """Tell `callback` how the channel stands, now and whenever that changes. Raises ValueError when closed."""
        if self._link.is_closed:
            raise ValueError("Cannot subscribe: Channel closed!")
        self._connectivity.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Callable[[Any], Any]) -> None:
        """Tell it no more; no effect for one that is not subscribed."""
        self._connectivity.unsubscribe(callback)

    def close(self) -> None:
        """End every call of the channel that is under way as CANCELLED, and let go of the connection; idempotent."""
        self._connectivity.close()
        self._link.close()

    def __del__(self) -> None:
        # Not made when making the channel failed. At the end of the process threads are gone, with locks they hold.
        if "_connectivity" in vars(self) and not sys.is_finalizing():
            self._connectivity.close()

    def make_callable(self, arity: str, method: str, serialize: Any, deserialize: Any) -> Any:
        path = method or "/"  # without a name no server knows it either
        is_configured = arity == "unary_unary" and self._settings.has_config(path)
        kind = ConfiguredUnaryUnary if is_configured else BY_ARITY[arity]
        return kind(self._link, path, self._settings.messages(serialize, deserialize))
