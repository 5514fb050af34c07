"""How a call ended, as gRPC says it: code, details, debug string, trailing metadata.

The status of each error of ours stands in `lucky_transport.errors`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from lucky_transport.errors import NotReachable, PeerDied, PeerTimeout, StatusError, TransportError
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_grpc.errors import code_for
from lucky_transport_grpc.runtime import grpc

Code = grpc.StatusCode


class CallStatus(NamedTuple):
    """The end of a call; code: a `grpc.StatusCode`."""

    code: Any
    details: str = ""
    trailing: Metadata = ()

    @property
    def debug_error_string(self) -> str:
        """What gRPC adds for debugging; empty for a success."""
        return "" if self.code is Code.OK else f"{self.code.name}:{self.details}"


OK = CallStatus(Code.OK)
LATE = CallStatus(Code.DEADLINE_EXCEEDED, "Deadline Exceeded")

#: What gRPC and we say of a server that is not there or has gone; what a server says of itself stays as it is.
GONE = re.compile(
    "failed to connect|connection (reset|refused|timed out)|socket closed|broken pipe|recvmsg|sendmsg|goaway|"
    "stream removed|dns resolution failed|name resolution|keepalive|ping timeout|transport closed|endpoint closing|"
    "handshake|cancelling all calls|the (engine|connection|transport) (is clos|closed)",
    re.IGNORECASE,
)

#: gRPC's hard limit for one side's metadata, which the receiver applies too; details are a part, and these bytes of
#: them are escaped by two more.
MOST_BYTES = 16384
_ESCAPED = re.compile(rb"[^\x20-\x7e]|%")
_BY_NUMBER = {code.value[0]: code for code in Code}
#: gRPC's own words, which programs search for, in front of ours.
_PREFIXES: dict[type[TransportError], str] = {
    NotReachable: "failed to connect to all addresses; last error: Failed to connect to remote host: ",
    PeerDied: "Socket closed: ",
}


def code_of(number: int) -> Any:
    """Return the `grpc.StatusCode` with that number, None where there is none."""
    return _BY_NUMBER.get(number)


def number_of(code: Any) -> int:
    """Return the number of a status that a handler gave; anything but a grpc.StatusCode is UNKNOWN, as in gRPC."""
    return int((code if isinstance(code, Code) else Code.UNKNOWN).value[0])


def status_of(error: TransportError) -> CallStatus:
    """Return the status of a call that ended with this error.

    A status that a handler gave stays as it was given; a number that grpc does not know becomes UNKNOWN, and details
    that are more than a header holds do not reach the program.
    """
    if isinstance(error, StatusError):
        if (size := len(_ESCAPED.sub(b"%..", error.details.encode(errors="replace")))) > MOST_BYTES:
            return CallStatus(Code.RESOURCE_EXHAUSTED, too_large(f"value length {size}"), error.trailing)
        code = code_of(error.code)
        if code is None:
            details = f'Server sent unknown code {error.code} and details "{error.details}"'
            return CallStatus(Code.UNKNOWN, details, error.trailing)
        return CallStatus(code, error.details, error.trailing)
    if type(error) is PeerTimeout:
        return LATE
    return CallStatus(code_for(error), f"{_PREFIXES.get(type(error), '')}{error}")


def too_large(what: object) -> str:
    """Return gRPC's text for metadata that are more than a header holds."""
    return f"received metadata size exceeds hard limit ({what} vs. {MOST_BYTES})"


def error_of(code: Any, details: str, trailing: Metadata = ()) -> StatusError:
    """Return the error that ends a call with this status."""
    return StatusError(code.value[0], details, trailing)
