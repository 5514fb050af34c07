"""What a servicer's method is given besides its request: `grpc.ServicerContext` over a `ServerCallState`.

It makes nothing before it is asked: most methods never ask. Exceptions are those of grpc.server, so that servicers and
their tests need not know where they run. Compression may be asked for and changes nothing: there is no wire to save
bytes on.
"""

from __future__ import annotations

import contextvars
import logging
import re
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, NoReturn

from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import ServicerContextBase, appears_as
from lucky_transport_stubs.server.call_state import ServerCallState
from lucky_transport_stubs.words.credentials import PortSecurity
from lucky_transport_stubs.words.metadata import invocation_metadata
from lucky_transport_stubs.words.options import check_compression

_log = logging.getLogger("grpc._server")
_FOREVER_S = 9.2e18  # what grpc.server answers where there is no deadline, but for the present date
#: The number of the connection in a caller's name ("shm client of pid 7 (3)"), and the ports that clients have.
_NUMBER = re.compile(r"\d+")
_FIRST_PORT, _PORTS = 1024, 64512

Metadata = Iterable[tuple[str, str | bytes]]


class CallerContext:
    """What every context, of threads and of asyncio, says of its caller."""

    _call: ServerCall
    _security: PortSecurity

    def peer(self) -> str:
        """Who calls, as gRPC spells callers of this host: `ipv4:127.0.0.1:1027`, where 1027 is the third connection."""
        number = int(_NUMBER.findall(self._call.peer)[-1])
        return f"ipv4:127.0.0.1:{_FIRST_PORT + number % _PORTS}"

    def peer_identities(self) -> list[bytes] | None:
        """What gRPC's local credentials say of a caller, at a port with credentials; None at one without."""
        return self._security.identities

    def peer_identity_key(self) -> str | None:
        """Where the authentication context has these identities, None where there are none."""
        return self._security.identity_key

    def auth_context(self) -> Any:
        """What gRPC says of a local connection, at a port with credentials; of an insecure one, at one without.

        Either way the caller is a process of our user.
        """
        return dict(self._security.auth_context)

    def invocation_metadata(self) -> Any:
        """The caller's metadata, as tuples of key and value; the first is the user agent."""
        return invocation_metadata(self._call.metadata)


@appears_as(ServicerContextBase)
class ServicerContext(CallerContext, ServicerContextBase):
    """The context of one call. watch(call): sees to it that the call ends at its deadline, for `add_callback`."""

    def __init__(self, state: ServerCallState, watch: Callable[[ServerCall], None] | None = None) -> None:
        self._state = state
        self._call = state.call
        self._security = state.security
        self._watch = watch

    @property
    def _rpc_event(self) -> Any:
        """What gRPC's own context keeps of the call here: programs read the method from it, as bytes."""
        path, until = self._call.path.encode(), time.time() + self.time_remaining()
        details = SimpleNamespace(method=path, host=b"localhost:1", deadline=until)  # 1: see `Server.add_insecure_port`
        call = SimpleNamespace(peer=lambda: self.peer().encode(), cancel=self.cancel)
        return SimpleNamespace(call=call, call_details=details, invocation_metadata=self.invocation_metadata())

    # -- the call -----------------------------------------------------------------------------------------------------

    def is_active(self) -> bool:
        """True until the call was answered, cancelled, or is past its deadline."""
        return self._state.is_active

    def time_remaining(self) -> float:
        """Seconds until the caller's deadline; very many where there is none."""
        deadline = self._call.deadline
        return _FOREVER_S if deadline is None else deadline.remaining_s

    def cancel(self) -> Any:
        """End the call as CANCELLED."""
        self._state.cancel()

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Have `callback` called when the call is over, however it ends; False, and no call, when it is already."""
        if not self._state.is_active:
            return False
        self._call.call.on_end(lambda: contextvars.Context().run(_guarded, callback))
        if self._watch is not None:
            self._watch(self._call)
        return True

    # -- metadata -----------------------------------------------------------------------------------------------------

    def send_initial_metadata(self, initial_metadata: Metadata) -> None:
        """Send metadata ahead of the first message; after the end nothing happens.

        Raises RpcError when the caller has left, ValueError after the first message and the second time.
        """
        if not self._state.is_active and not self._state.is_finished:
            raise grpc.RpcError()
        if self._state.has_started:
            raise ValueError("Initial metadata no longer allowed!")
        self._state.send_headers(initial_metadata)

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """Set the metadata that comes with the end."""
        self._state.trailing_metadata = trailing_metadata

    def trailing_metadata(self) -> Any:
        """What was set, None before."""
        return self._state.trailing_metadata

    # -- the status ---------------------------------------------------------------------------------------------------

    def set_code(self, code: Any) -> None:
        """Set the status that the call ends with, whatever the method returns or raises."""
        self._state.code = code

    def code(self) -> Any:
        """What was set, None before."""
        return self._state.code

    def set_details(self, details: str) -> None:
        """Set the text of the status."""
        self._state.details = _encoded(details)

    def details(self) -> Any:
        """What was set, as bytes; None before."""
        return self._state.details

    def abort(self, code: Any, details: str) -> NoReturn:
        """End the call with this status: always raises, and the method is to let it pass."""
        if code == grpc.StatusCode.OK:
            _log.error("abort() called with StatusCode.OK; returning UNKNOWN")
            code, details = grpc.StatusCode.UNKNOWN, ""
        self._state.code = code
        self._state.details = _encoded(details)
        self._state.aborted = True
        raise Exception()  # as gRPC does, without a text

    def abort_with_status(self, status: Any) -> NoReturn:
        """As `abort`, with what a `grpc.Status` says."""
        self._state.trailing_metadata = status.trailing_metadata
        self.abort(status.code, status.details)

    def set_compression(self, compression: grpc.Compression) -> None:
        """Changes nothing. Raises KeyError for what is none."""
        check_compression(compression)

    def disable_next_message_compression(self) -> None:
        """Changes nothing."""


def call_of(context: ServicerContext) -> ServerCall:
    """Return the call that a context of ours is about."""
    return context._call  # pyright: ignore[reportPrivateUsage]


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _guarded(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # foreign code; it must cost neither the answer nor the other callbacks
        _log.exception("Exception calling callback!")
