"""How one call is answered: what its handler has said so far, and the end that it comes to.

The texts of failures are gRPC's own; a code and details that the handler has set go before them. Only `send` waits.
What is sent to a caller that has left, or after the end, is dropped. How many messages go out is the caller's business
(`ServerCall.shape`); a handler of another arity may send what the caller takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from lucky_transport.errors import Cancelled, LocalProtocolError, StatusError, TransportError
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_stubs.metadata import InvalidMetadata, checked
from lucky_transport_stubs.options import sent_too_long
from lucky_transport_stubs.status import Code, error_of

__all__ = ["ResponseWriter", "number_of"]

#: The bit in a call's shape that says that its caller takes any number of messages; a flag's `&` takes a microsecond.
_TAKES_MANY = int(Shape.SERVER_STREAM)


def number_of(code: Any) -> int:
    """Return the number of a status that a handler gave; what is none of grpc's counts as UNKNOWN, as in gRPC."""
    return int((code if isinstance(code, Code) else Code.UNKNOWN).value[0])


class ResponseWriter:
    """The answer to `call`. code, details, trailing: as the handler set them, None until it does.

    is_aborted: the handler has called `abort`. has_started: initial metadata or a message has left. is_given: a status
    has left. max_send_bytes: of a message, None for any number.
    """

    def __init__(self, call: ServerCall, max_send_bytes: int | None = None) -> None:
        self.call = call
        self.code: Any = None
        self.details: bytes | None = None
        self.trailing: Iterable[tuple[str, str | bytes]] | None = None
        self.is_aborted = False
        self.has_started = False
        self.is_given = False
        self._max_send_bytes = max_send_bytes
        self._kept: bytes | None = None

    @property
    def is_active(self) -> bool:
        """True while a thread waits for an answer that has not come."""
        return not self.call.is_over

    def start(self, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """Send the initial metadata; with some that may not be sent the call fails.

        Raises TypeError, ValueError for what is no metadata.
        """
        try:
            headers = checked(metadata)
        except InvalidMetadata as error:
            self._end_with(error)
        else:
            self.has_started = True
            with contextlib.suppress(LocalProtocolError):  # ended already
                self.call.send_headers(headers)

    def send(self, payload: bytes) -> None:
        """Send one message; waits while the caller takes no more. For a caller who takes one it is kept until `end`."""
        limit = self._max_send_bytes
        if limit is not None and len(payload) > limit:
            self._end_with(sent_too_long("SERVER", len(payload), limit))
        elif self.call.shape & _TAKES_MANY:
            self.has_started = True
            try:
                self.call.send(payload)
            except TransportError:  # the caller has left
                return
        elif self._kept is None:
            self._kept = payload
        else:
            self.fail(Code.INTERNAL, "Too many messages for a caller who takes one.")

    def end(self) -> None:
        """End the call with the status so far, which is OK unless the handler said otherwise."""
        if self.code is not None and self.code is not Code.OK:
            self.fail(self.code, "")
        elif self._kept is None and not self.call.shape & _TAKES_MANY:
            self.fail(Code.INTERNAL, "No message for a caller who takes one.")
        else:
            self._finish(self._kept or b"")

    def _finish(self, payload: bytes) -> None:
        try:
            self.call.finish(payload, trailing=checked(self.trailing) if self.trailing else ())
            self.is_given = True
        except LocalProtocolError:  # ended already
            return
        except (InvalidMetadata, TypeError, ValueError):
            self._end_with(InvalidMetadata())

    def fail(self, code: Any, details: str) -> None:
        """End the call with this status, or with what the handler has set."""
        number = number_of(code if self.code in (None, Code.OK) else self.code)
        text = details if self.details is None else self.details.decode(errors="replace")
        try:
            error = StatusError(number, text, checked(self.trailing) if self.trailing else ())
        except (InvalidMetadata, TypeError, ValueError):
            error = InvalidMetadata()
        self._end_with(error)

    def cancel(self) -> None:
        """End the call at once, from any thread, as cancelled by us."""
        self.call.abort(error_of(Code.CANCELLED, "CANCELLED"))

    def drop(self) -> None:
        """End a call whose caller has left or waits no longer; nothing is told."""
        self.call.lose(Cancelled(f"{self.call.path}: its caller waits no longer"))

    def _end_with(self, error: StatusError) -> None:
        with contextlib.suppress(LocalProtocolError):  # ended already
            self.call.fail(error)
            self.is_given = True
