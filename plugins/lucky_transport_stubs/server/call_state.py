"""The server's side of one call, for threads and for asyncio: what its handler has said, and the end it comes to.

Nothing here waits. What is said to a caller that has left, or after the end, is dropped. How many messages go out is
the caller's business (`ServerCall.shape`); a handler of another arity may send what the caller takes.

    has_started  is_finished
    False        False        nothing has left
    True         False        initial metadata or a message has left: initial metadata is no longer allowed
    either       True         the call has its status; nothing leaves any more
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from lucky_transport.errors import Cancelled, LocalProtocolError, StatusError
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_stubs.words.credentials import INSECURE, PortSecurity
from lucky_transport_stubs.words.metadata import InvalidMetadata, checked
from lucky_transport_stubs.words.options import sent_too_long
from lucky_transport_stubs.words.status import Code, error_of, number_of

#: The bit in a call's shape that says that its caller takes any number of messages; a flag's `&` takes a microsecond.
_TAKES_MANY = int(Shape.SERVER_STREAM)


class ServerCallState:
    """The state of `call`. max_send_bytes: of a message, None for any number. security: of the port it came to.

    name: how texts of gRPC name the method, None for its path: gRPC does not know those of generated code by name.
    code, details, trailing_metadata: as the handler set them, None until it does; number: of the code, 0 for OK and
    None. aborted: the handler has called `abort`. Programs read these names, `client` and `due` in gRPC's own state.
    """

    def __init__(self, call: ServerCall, max_send_bytes: int | None = None, security: PortSecurity = INSECURE) -> None:
        self.call = call
        self.name: bytes | None = None
        self.security = security
        self._code: Any = None
        self.number = 0
        self.details: str | bytes | None = None
        self.trailing_metadata: Iterable[tuple[str, str | bytes]] | None = None
        self.aborted = False
        self.has_started = False
        self.is_finished = False
        self._max_send_bytes = max_send_bytes
        self._kept: bytes | None = None

    @property
    def code(self) -> Any:
        """The status that the call ends with; what is set and none of grpc's counts as UNKNOWN."""
        return self._code

    @code.setter
    def code(self, code: Any) -> None:
        self._code, self.number = code, number_of(code)

    @property
    def client(self) -> str:
        """Whether the caller may send ("open"), has sent all of a stream ("closed"), or has left ("cancelled")."""
        if self.call.is_over and not self.is_finished:
            return "cancelled"
        return "closed" if self.call.shape & Shape.CLIENT_STREAM and self.call.half_closed else "open"

    @property
    def due(self) -> set[str]:
        """What gRPC waits for while the call goes on: its end."""
        return set() if self.call.is_ended else {"receive_close_on_server"}

    @property
    def is_active(self) -> bool:
        """True while a caller waits for an answer that has not come."""
        return not self.call.is_over

    def send_headers(self, metadata: Iterable[tuple[str, Any]]) -> None:
        """Send the initial metadata; with some that may not be sent the call fails.

        Raises TypeError, ValueError for what is no metadata.
        """
        self.has_started = True
        try:
            headers = checked(metadata)
        except InvalidMetadata as error:
            self._finish(error)
        else:
            with contextlib.suppress(LocalProtocolError):  # ended already
                self.call.send_headers(headers)

    def accepts(self, payload: bytes) -> bool:
        """Return True when this message is to be sent now, False when it is kept for the end: its caller takes one.

        Raises StatusError for one that is too long and for a second one that is to be kept; the call has then failed.
        """
        limit = self._max_send_bytes
        if limit is not None and len(payload) > limit:
            raise self._finish(sent_too_long("SERVER", len(payload), limit))
        if self.call.shape & _TAKES_MANY:
            self.has_started = True
            return True
        if self._kept is not None:
            raise self._finish(error_of(Code.INTERNAL, "Too many messages for a caller who takes one."))
        self._kept = payload
        return False

    def end(self) -> None:
        """End the call with the status so far, which is OK unless the handler said otherwise."""
        if self.number:
            if self._kept is not None and not self.has_started:
                self.send_headers(())  # what gRPC sends with the response: the call is not made again
            self.fail(self.code, "")
        elif self._kept is None and not self.call.shape & _TAKES_MANY:
            self.fail(Code.INTERNAL, "No message for a caller who takes one.")
        else:
            try:
                trailing = checked(self.trailing_metadata) if self.trailing_metadata else ()
            except (InvalidMetadata, TypeError, ValueError):
                self._finish(InvalidMetadata())
                return
            self.is_finished = True
            try:
                self.call.finish(self._kept or b"", trailing=trailing)
            except LocalProtocolError:  # ended already
                return

    def fail(self, code: Any, details: str) -> None:
        """End the call with this status, or with what the handler has set."""
        self.end_with(self.number or number_of(code), details if self.details is None else _text(self.details))

    def end_with(self, number: int, details: str) -> None:
        """End the call with the status of this number, whatever the handler has set, and the trailing metadata."""
        try:
            error = StatusError(number, details, checked(self.trailing_metadata) if self.trailing_metadata else ())
        except (InvalidMetadata, TypeError, ValueError):
            error = InvalidMetadata()
        self._finish(error)

    def cancel(self) -> None:
        """End the call at once, from any thread, as cancelled by us."""
        self.call.abort(error_of(Code.CANCELLED, "CANCELLED"))

    def drop(self) -> None:
        """End a call whose caller has left or waits no longer; nothing is told."""
        self.call.lose(Cancelled(f"{self.call.path}: its caller waits no longer"))

    def _finish(self, error: StatusError) -> StatusError:
        self.is_finished = True
        with contextlib.suppress(LocalProtocolError):  # ended already
            self.call.fail(error)
        return error


def _text(details: str | bytes) -> str:
    return details.decode(errors="replace") if isinstance(details, bytes) else details
