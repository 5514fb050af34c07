"""Every error this project raises.

    TransportError                       root; `backend` names the transport or engine, `hint` the remedy
    ├── ConfigError (ValueError)         a setting, argument or environment variable is wrong
    ├── UnknownName (LookupError)        no transport, engine, scheme or method of that name
    ├── MissingExtra (ImportError)       the plugin is known, its dependencies are not installed
    ├── BrokenPlugin (ImportError)       the plugin is installed and its import fails
    ├── NotReachable (ConnectionError)   no engine answers at the endpoint, or a limit of a process is reached
    ├── PeerDied (ConnectionError)       the other process ended while we depended on it
    ├── PeerTimeout (TimeoutError)       the other process lives and did not answer in time
    ├── Busy (RuntimeError)              another client drives the engine, or a limit is reached: try again later
    ├── ClosedError (RuntimeError)       used after close(), by us or by the engine, or in a forked child
    ├── LocalProtocolError (RuntimeError)    the caller broke the order of calls
    ├── RemoteProtocolError (ConnectionError) the peer sent what it may not send
    ├── SegmentError (ValueError)        a shared-memory segment is foreign, damaged or of another version
    ├── NoSpace (OSError)                shared memory is too small for the segment
    ├── SpecError (ValueError)           sizes, dtypes or spaces do not fit
    ├── Cancelled (RuntimeError)         the call was cancelled, by us or by the engine's end
    ├── EngineFailed (RuntimeError)      the engine raised while it stepped or answered
    ├── Unimplemented (NotImplementedError)  the engine or transport cannot do this
    ├── UnknownSession (LookupError)     no session of that id: never created, destroyed, or idle for too long
    ├── SessionEnded (RuntimeError)      the session was destroyed, or its world failed or will not go on
    ├── DeviceError (RuntimeError)       a GPU, its driver or memory on it cannot be used
    └── StatusError (RuntimeError)       a handler of foreign messages ended its call with a status of its own

Catch `TransportError` for all of them, or the builtin in brackets. The text carries the values and ends with the
remedy; `hint` is the remedy alone. An error crosses a wire as (`wire_code`, text) and arrives as the same class with
the same text. The attributes `wire_code` and `grpc_status` of the classes are the one table of codes: over every
transport a gRPC program sees `grpc_status`, which follows gRPC's definitions of its status codes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable
from enum import IntEnum
from opcode import opmap
from typing import NoReturn

__all__ = [
    "MAX_TEXT_BYTES",
    "BrokenPlugin",
    "Busy",
    "Cancelled",
    "ClosedError",
    "ConfigError",
    "DeviceError",
    "EngineFailed",
    "LocalProtocolError",
    "MissingExtra",
    "NoSpace",
    "NotReachable",
    "PeerDied",
    "PeerTimeout",
    "RemoteProtocolError",
    "SegmentError",
    "SessionEnded",
    "SpecError",
    "SpecTypeError",
    "Status",
    "StatusError",
    "TransportError",
    "Unimplemented",
    "UnknownName",
    "UnknownSession",
    "did_you_mean",
    "engine_failed",
    "from_wire",
    "is_interruption",
    "plural",
    "printable",
    "raise_wire_error",
    "status_of",
    "to_wire_error",
]


class Status(IntEnum):
    """gRPC's status codes, with its names and numbers."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class TransportError(Exception):
    """Root of all errors of this project.

    `backend` is the name of the transport or engine concerned ("" when none is), `hint` the remedy ("" when the
    message needs none).
    """

    wire_code = 1
    grpc_status: Status = Status.UNKNOWN

    def __init__(self, message: str, *, backend: str = "", hint: str = "") -> None:
        has_hint = not hint or message.endswith(hint)  # an error that names the cause of another has it already
        super().__init__(message if has_hint else f"{message}; {hint}")
        self.backend = backend
        self.hint = hint


class ConfigError(TransportError, ValueError):
    """A setting is wrong; the text names its source, key, value and the remedy."""

    wire_code = 2
    grpc_status = Status.INVALID_ARGUMENT


class UnknownName(TransportError, LookupError):
    """No transport, engine, scheme or method has that name."""

    wire_code = 3
    grpc_status = Status.NOT_FOUND


class MissingExtra(TransportError, ImportError):
    """The plugin is known but what it needs is not installed; the hint is the pip command."""

    wire_code = 4
    grpc_status = Status.FAILED_PRECONDITION


class BrokenPlugin(TransportError, ImportError):
    """The plugin is installed and its import fails for another reason than a missing extra."""

    wire_code = 5
    grpc_status = Status.FAILED_PRECONDITION


class NotReachable(TransportError, ConnectionError):
    """No engine answers at the endpoint."""

    wire_code = 6
    grpc_status = Status.UNAVAILABLE


class PeerDied(TransportError, ConnectionError):
    """The other process ended while we depended on it."""

    wire_code = 7
    grpc_status = Status.UNAVAILABLE


class PeerTimeout(TransportError, TimeoutError):
    """The other process lives but did not answer within the deadline."""

    wire_code = 8
    grpc_status = Status.DEADLINE_EXCEEDED


class Busy(TransportError, RuntimeError):
    """Another client drives the engine, or a limit is reached; the text names which. It may be free later."""

    wire_code = 9
    # One engine has one driver, a queue has so many places: a limit is reached and nothing has begun. ABORTED tells the
    # caller that a sequence of its own was interrupted and starts over.
    grpc_status = Status.RESOURCE_EXHAUSTED


class ClosedError(TransportError, RuntimeError):
    """The object was closed, the engine closed in order, or the object belongs to the parent of this forked process."""

    wire_code = 10
    grpc_status = Status.UNAVAILABLE


class LocalProtocolError(TransportError, RuntimeError):
    """The caller broke the order of calls (for instance `recv` without `send`)."""

    wire_code = 11
    grpc_status = Status.FAILED_PRECONDITION


class RemoteProtocolError(TransportError, ConnectionError):
    """The peer sent something the protocol does not allow."""

    wire_code = 12
    # gRPC's own status for a violation of the protocol; DATA_LOSS is for data that were damaged where they are kept
    grpc_status = Status.INTERNAL


class SegmentError(TransportError, ValueError):
    """A shared-memory segment is foreign, damaged, truncated or of another version."""

    wire_code = 13
    grpc_status = Status.DATA_LOSS


class NoSpace(TransportError, OSError):
    """Shared memory is too small for the segment; nothing was written."""

    wire_code = 14
    grpc_status = Status.RESOURCE_EXHAUSTED


class SpecError(TransportError, ValueError):
    """Sizes, dtypes or spaces do not fit what the engine offers."""

    wire_code = 15
    grpc_status = Status.INVALID_ARGUMENT


class SpecTypeError(SpecError, TypeError):
    """A value is of a type that does not fit; on the other side of a wire it is a SpecError."""


class EngineFailed(TransportError, RuntimeError):
    """The engine raised while it stepped or answered a command; the text carries its class and message."""

    wire_code = 16
    grpc_status = Status.INTERNAL


class Unimplemented(TransportError, NotImplementedError):
    """The engine or the transport cannot do this."""

    wire_code = 17
    grpc_status = Status.UNIMPLEMENTED


class Cancelled(TransportError, RuntimeError):
    """The call was cancelled before it ended by itself."""

    wire_code = 18
    grpc_status = Status.CANCELLED


class StatusError(TransportError, RuntimeError):
    """A handler that speaks another protocol over our calls (gRPC) ended one with a status of that protocol.

    code: the status, as that protocol counts them; never 0. details: its text, nothing added. trailing: (key, value)
    pairs that came with it.
    """

    wire_code = 19

    def __init__(
        self, code: int, details: str, trailing: tuple[tuple[str, str | bytes], ...] = (), *, backend: str = ""
    ) -> None:
        super().__init__(details, backend=backend)
        self.code = code
        self.details = details
        self.trailing = trailing


class UnknownSession(TransportError, LookupError):
    """The engine has no session of that id: it was never created, was destroyed, or was idle for too long."""

    wire_code = 20
    grpc_status = Status.NOT_FOUND


class SessionEnded(TransportError, RuntimeError):
    """The session was destroyed while the call ran, its world failed, or it is over and has nothing newer to show."""

    wire_code = 21
    grpc_status = Status.ABORTED


class DeviceError(TransportError, RuntimeError):
    """A GPU, its driver or memory on it cannot be used; the text names what was tried and what the driver said."""

    wire_code = 22
    grpc_status = Status.FAILED_PRECONDITION


_BY_NUMBER: dict[int, Status] = {int(status): status for status in Status}


def status_of(error: TransportError) -> Status:
    """Return the gRPC status of `error`: a StatusError's own, UNKNOWN where gRPC has no such number."""
    if isinstance(error, StatusError):
        return _BY_NUMBER.get(error.code, Status.UNKNOWN)
    return error.grpc_status


_BY_CODE: dict[int, type[TransportError]] = {
    cls.wire_code: cls for cls in (TransportError, *TransportError.__subclasses__())
}


def did_you_mean(name: object, known: Iterable[str], *, prefix: str = "") -> str:
    """Return "did you mean 'x'? " with the name of `known` that is nearest to `name`, "" when none is near.

    prefix: what all these names begin with where they are written; it is shown and not compared.
    """
    import difflib  # only an error needs it

    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {prefix + near[0]!r}? " if near else ""


def printable(text: object) -> str:
    """Return a text of one line, names of files and engines in it, as a terminal may get it.

    What moves a cursor, ends a line, changes colours or the direction of writing is spelt as Python spells it.
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(text))


def plural(count: int, noun: str, many: str = "") -> str:
    """Return the count with its noun; many: the noun for other counts than one where that is not `noun` + "s"."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def from_wire(
    code: int,
    message: str,
    *,
    backend: str = "",
    status: int = 0,
    trailing: tuple[tuple[str, str | bytes], ...] = (),
) -> TransportError:
    """Return the error that `code` stands for, with `message` as its whole text; `status` and `trailing` are those of a
    StatusError.

    A code this version does not know gives the root class, so that a newer peer's error is never lost.
    """
    if code == StatusError.wire_code:
        return StatusError(status, message, trailing, backend=backend)
    return _BY_CODE.get(code, TransportError)(message, backend=backend)


#: The longest text of an error that reaches a client, in UTF-8: gRPC's trailing metadata hold no more.
MAX_TEXT_BYTES = 3000
_CUT = " ..."


def engine_failed(engine: str, what: str, error: BaseException) -> EngineFailed:
    """Return the error that a client gets when foreign code of `engine` raised `error` in `what`."""
    return EngineFailed(f"engine {engine!r} failed in {what}: {type(error).__name__}: {error}", backend=engine)


def to_wire_error(engine: str, what: str, error: BaseException) -> TransportError:
    """Return the error that a client gets when `what` raised `error`: `error` itself where that can travel as it is.

    A foreign error becomes EngineFailed. Its text is the same over every transport, so it is cut to what each of them
    can carry.
    """
    raised = error if isinstance(error, TransportError) else engine_failed(engine, what, error)
    text = str(raised)
    if len(text) * 4 <= MAX_TEXT_BYTES:
        return raised
    encoded = text.encode(errors="replace")
    if len(encoded) <= MAX_TEXT_BYTES:
        return raised
    short = encoded[: MAX_TEXT_BYTES - len(_CUT)].decode(errors="ignore") + _CUT
    return from_wire(type(raised).wire_code, short, backend=raised.backend)


def is_interruption(error: BaseException) -> bool:
    """True when `error` was thrown into the code that it came through: a signal handler of this program raised it, or
    a generator is being closed. What that code raises itself is its own failure, also a KeyboardInterrupt.
    """
    if isinstance(error, TransportError):
        return False
    if not isinstance(error, GeneratorExit) and threading.current_thread() is not threading.main_thread():
        return False  # signal handlers run there
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    of_handlers = [getattr(one, "__code__", getattr(type(one).__call__, "__code__", None)) for one in handlers]
    code, at, trace = None, 0, error.__traceback__
    while trace is not None:
        code, at, trace = trace.tb_frame.f_code, trace.tb_lasti, trace.tb_next
        if code in of_handlers:
            return True
    raised = code is not None and code.co_code[at : at + 1] == bytes([opmap["RAISE_VARARGS"]])  # a `raise` statement
    return isinstance(error, (GeneratorExit, KeyboardInterrupt)) and not raised


def raise_wire_error(engine: str, what: str, error: BaseException) -> NoReturn:
    """Raise what `to_wire_error` returns, an interruption as it is. Once that is handled, nothing of it is left to the
    collector of cycles.
    """
    known = error if is_interruption(error) else to_wire_error(engine, what, error)
    try:
        if known is error:
            raise error
        raise known from error
    finally:
        del known, error  # their tracebacks hold this frame, and all that the handler held
