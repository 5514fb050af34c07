"""A call as an entry, and as it was: its request and its outcome.

What one side of a comparison is made of, `CallOutcome`, is all that a recording keeps of a call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages.images import owned
from lucky_transport.messages.methods import BY_NAME
from lucky_transport.registry import load
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.outcome import CallOptions, CallOutcome
from lucky_transport_migration.evidence.programs import SECRET_WORDS
from lucky_transport_migration.recording.entries import FLATBUFFERS, MASKED, RecordedCall

__all__ = ["KEPT_BYTES", "KEPT_ITEMS", "call_entry", "encoded", "masked", "outcome_of", "request_of"]

#: What is kept of one call for a recording, and for a comparison of bytes.
KEPT_ITEMS = 256
KEPT_BYTES = 16 << 20

_SECRET = re.compile(f"{SECRET_WORDS}|auth|cookie|session", re.IGNORECASE)


def call_entry(
    method: str,
    requests: Sequence[Any],
    outcome: CallOutcome,
    form: str,
    *,
    left: bool = False,
    moved: bool = False,
    unfinished: bool = False,
    described: bytes = b"",
    options: CallOptions | None = None,
) -> RecordedCall:
    """Return the entry of a call whose messages are bytes of `form` already, or can become FlatBuffers.

    Raises TypeError or ValueError for a message that no wire could carry.
    """
    options = options or CallOptions()
    return RecordedCall(
        method,
        form,
        outcome.transport,
        tuple(map(encoded, requests)),
        tuple(map(encoded, outcome.items)),
        outcome.code,
        outcome.details,
        tuple(outcome.headers),
        tuple(outcome.trailing),
        round(outcome.took_us, 1),
        outcome.dropped,
        left,
        outcome.more,
        moved,
        unfinished,
        described,
        options.arity,
        masked(options.metadata),
        options.timeout_s and round(options.timeout_s, 6),
        outcome.rest,
        outcome.is_local,
        options.channel,
    )


def masked(metadata: Metadata) -> Metadata:
    """Return a request's metadata without the values of those whose name speaks of a secret."""
    return tuple((key, MASKED if _SECRET.search(key) else value) for key, value in metadata)


def encoded(message: Any) -> bytes:
    """Return a message as bytes of its own; raises TypeError or ValueError for what no wire could carry."""
    return message if isinstance(message, bytes) else encode(owned(message))


def outcome_of(call: RecordedCall, method: ServiceMethod, transport: str = "") -> CallOutcome:
    """Return what came of a call, over `transport` where its entry does not say; items as `evidence` compares them.

    Raises RemoteProtocolError for a message that is none.
    """
    items: Sequence[Any] = call.items
    if call.form == FLATBUFFERS:
        items = [decode(method.response, item) for item in items]
    end = call.code, call.details, call.headers, call.trailing
    name = call.transport or transport
    return CallOutcome(name, items, *end, call.us, call.dropped, call.more, call.rest, call.local)


def request_of(call: RecordedCall, method: ServiceMethod) -> Any:
    """Return the message that a call was made with.

    Raises ValueError where there is not just one, or it is none of the method's, RemoteProtocolError for a broken one,
    MissingExtra where a program's own bytes cannot be read.
    """
    if len(call.requests) != 1:
        raise ValueError(f"{len(call.requests)} requests, and calls of ours have one")
    if call.form == FLATBUFFERS:
        return decode(method.request, call.requests[0])
    request_in = load("lucky_transport_grpc.codec:request_in", owner="replay", extra="grpc")
    return request_in(BY_NAME[method.name], call.requests[0])
