"""An engine's gRPC services at its shared-memory name: what generated stubs and the luckyrobots package call.

They are the protobuf services of `lucky_transport_grpc`, reflection and health included, without a gRPC server.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from lucky_transport.host.foreign import RawHandler
from lucky_transport.host.host import Host
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_grpc.caller import ServerContext
from lucky_transport_grpc.services import HostServices
from lucky_transport_stubs.server.answering import answer_call, behaviour_of
from lucky_transport_stubs.server.call_state import ServerCallState
from lucky_transport_stubs.server.context import ServicerContext
from lucky_transport_stubs.server.handlers import Handlers


class EngineServices:
    """The services of one host; a `lucky_transport.host.foreign.ForeignServices`.

    A client is a process, because over gRPC the channels of a process share one connection. When the last of its
    channels ends, the agents that it steps are free and its streams end.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._services = HostServices(host, ServerContext(kind=""))
        self._handlers = Handlers()
        self._services.add_to(self._handlers)
        self._known: dict[str, RawHandler] = {}
        self._channels: defaultdict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def handler(self, path: str) -> RawHandler | None:
        known = self._known.get(path)
        if known is None and (found := self._handlers.find(path)) is not None:
            known = self._known[path] = lambda call: self._answer(found, call)
        return known

    def leave(self, caller: str) -> None:
        process = _process_of(caller)
        with self._lock:
            channels = self._channels.get(process, set())
            channels.discard(caller)
            if channels:
                return
            self._channels.pop(process, None)
        self._services.leave(process)
        self._host.leave(process)

    def close(self) -> None:
        self._services.close()

    def _answer(self, handler: Any, call: ServerCall) -> bool:
        process, state = _process_of(call.peer), ServerCallState(call)
        if call.peer not in self._channels.get(process, ()):
            with self._lock:
                self._channels[process].add(call.peer)
            if call.is_ended:  # perhaps its channel ended before we knew it
                self.leave(call.peer)
        return answer_call(handler, behaviour_of(handler), state, _Context(state, process))


class _Context(ServicerContext):
    """The context of a call, whose peer is the process that makes it."""

    def __init__(self, state: ServerCallState, process: str) -> None:
        super().__init__(state)
        self._process = process

    def peer(self) -> str:
        return self._process


def _process_of(caller: str) -> str:
    """Return a caller's name without the number that its connection has in it ("shm client of pid 7 (3)")."""
    return caller.rpartition(" (")[0] or caller
