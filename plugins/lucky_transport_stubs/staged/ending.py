"""How a call ended, read from the objects that grpc gives its callers.

Metadata are those that programs sent, without what the transports add.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport.routing import LEFT, Ending, ReadEnding, RoutedCall
from lucky_transport_grpc.errors import code_of as status_code_of
from lucky_transport_grpc.errors import details_of
from lucky_transport_stubs.client.call_state import CallState
from lucky_transport_stubs.client.calls import Rpc
from lucky_transport_stubs.words.status import GONE, LATE, Code, code_of

#: Keys that belong to HTTP/2 and gRPC, with which the transports talk to each other.
_OF_TRANSPORTS = frozenset(
    {"accept-encoding", "content-type", "grpc-accept-encoding", "grpc-encoding", "grpc-timeout", "te", "user-agent"}
    | {"grpc-internal-encoding-request"}
)
#: The texts of gRPC and of ours for a call that the caller's own side ended.
_LEFT = frozenset({"Locally cancelled by application!", "Cancelled upon garbage collection!", "Channel closed!"})
#: What newer versions of gRPC write around the reason for which they have ended a call themselves.
_WRAPPED = re.compile(r"Stream removed \((.*)\)", re.DOTALL)


def ending(call: Any) -> Ending:
    """Return how a call of `grpc`, or its error, ended; waits for its end. Whether its deadline had passed, the clock
    has to say: a handler may use gRPC's words for that.

    What an interceptor of the program raises in gRPC's class need not have anything that a call has.
    """
    headers, trailing = (getattr(call, name, tuple)() for name in ("initial_metadata", "trailing_metadata"))
    return _ending(status_code_of(call), details_of(call), headers, trailing)


def is_hidden(call: Any) -> bool:
    """True for a stream whose call an interceptor of the program hides behind a plain iterator: how it ends cannot be
    asked, and it cannot be cancelled.
    """
    return not hasattr(call, "add_callback")


def falls_back(routed: RoutedCall, found: Ending) -> bool:
    """True for a call that is to be made again, now over gRPC: its engine was not there, or died before the first
    response, and it may be made twice.
    """
    return found.code == "UNAVAILABLE" and found.is_local and routed.falls_back(found)


def later_ending(call: Any) -> ReadEnding:
    """Return a function that reads how a call of `grpc` ended. It does not hold the call: dropping that ends it."""
    if isinstance(call, Rpc):
        return partial(_ending_of_ours, call.state)
    state = getattr(call, "_state", None)  # there is no public name for it
    if state is not None:
        return partial(_ending_of_grpc, state)
    found = weakref.ref(call)  # an interceptor's own kind of call
    return lambda _: LEFT if (kept := found()) is None else None if _is_active(kept) else ending(kept)


def _is_active(call: Any) -> bool:
    return hasattr(call, "is_active") and call.is_active()


def _ending_of_ours(state: CallState, _: float) -> Ending | None:
    if not state.advance() or state.status is None:
        return None
    return _ending(state.status.code, state.status.details, state.headers(), state.status.trailing)


def _ending_of_grpc(state: Any, within_s: float) -> Ending | None:
    with state.condition:
        # gRPC may read the headers after the status: without time to wait for them the call is not over.
        if state.code is None or (state.initial_metadata is None and not within_s):
            return None
        knows_headers = state.condition.wait_for(lambda: state.initial_metadata is not None, within_s)
        found = _ending(state.code, state.details, state.initial_metadata, state.trailing_metadata)
        return replace(found, knows_headers=knows_headers)


def _ending(code: Any, details: str | bytes | None, headers: Any, trailing: Any) -> Ending:
    said = details.decode(errors="replace") if isinstance(details, bytes) else details or ""
    text = found[1] if (found := _WRAPPED.fullmatch(said)) else said
    is_early = code is Code.CANCELLED and text in _LEFT
    is_gone = code is Code.UNAVAILABLE and not trailing and GONE.match(said) is not None  # a handler may quote them
    is_local = is_early or is_gone or (code is Code.DEADLINE_EXCEEDED and text == LATE.details)
    return Ending(code.name, text, sent(headers), sent(trailing), is_early, is_local=is_local)


def aio_ending(call: Any) -> Ending:
    """Return how a compiled call of `grpc.aio` ended, or one of ours; it has ended."""
    if call.is_locally_cancelled():
        return LEFT
    status = call._status
    code = code_of(status.code()) or Code.UNKNOWN
    found = _ending(code, status.details(), call._initial_metadata, status.trailing_metadata())
    # grpc.aio drops headers that it reads after the status of a call that failed; which comes first is a race in it.
    return replace(found, knows_headers=bool(found.headers) or code is Code.OK)


def sent(metadata: Iterable[Any] | None) -> Metadata:
    """Return what a program sent of these metadata."""
    return tuple((key, value) for key, value in metadata or () if key not in _OF_TRANSPORTS)
