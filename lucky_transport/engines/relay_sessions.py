"""Which client of a relay owns which session: to the engine behind it they all belong to the relay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from lucky_transport.call import Call
from lucky_transport.deadline import Deadline
from lucky_transport.engine import CallHandler
from lucky_transport.errors import TransportError
from lucky_transport.messages import CreateSessionRequest, CreateSessionResponse, SessionRequest
from lucky_transport.messages.methods import Method, method

_CREATE = method("/lucky_transport.v1.SessionService/CreateSession")
_DESTROY = method("/lucky_transport.v1.SessionService/DestroySession")
#: How long a client that goes may keep its server busy with the end of one of its sessions.
_DESTROY_S = 1.0


class RelaySessions:
    """The owned sessions of a relay's clients; `call` makes a call to the engine. `leave` ends those of a client."""

    def __init__(self, call: Callable[[Method, Any, Call], Any]) -> None:
        self._call = call
        self._owned: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    @property
    def call_handlers(self) -> Mapping[str, CallHandler]:
        """Handlers of the methods that make and end sessions, by full name."""
        return {_CREATE.name: self._create, _DESTROY.name: self._destroy}

    def _create(self, request: CreateSessionRequest, call: Call) -> CreateSessionResponse:
        response: CreateSessionResponse = self._call(_CREATE, request, call)
        if request.owned:
            with self._lock:
                self._owned.setdefault(call.caller, set()).add(response.session_id)
        return response

    def _destroy(self, request: SessionRequest, call: Call) -> Any:
        response = self._call(_DESTROY, request, call)
        with self._lock:
            for sessions in self._owned.values():
                sessions.discard(request.session_id)
        return response

    def leave(self, caller: str) -> None:
        """End the sessions that a client owned which has gone; those that are over already are left alone."""
        with self._lock:
            sessions = self._owned.pop(caller, set())
        for session in sessions:
            with suppress(TransportError):
                self._call(_DESTROY, SessionRequest(session), Call(caller, Deadline(_DESTROY_S)))
