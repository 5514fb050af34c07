"""Metadata as gRPC programs give and get them, and as they travel.

Invalid metadata are refused before they are sent, with gRPC's status and text or the exception that grpc raises.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import starmap
from typing import Any

from lucky_transport.errors import StatusError
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import Metadatum
from lucky_transport_stubs.words.status import MOST_BYTES, Code, error_of, too_large

_KEY = re.compile(r"[a-z0-9_.-]+")
_VALUE = re.compile(rb"[\x20-\x7e]*")
#: What gRPC counts for an entry beside key and value.
_ENTRY_BYTES = 32
#: What tells a server how many attempts of a call there were.
PREVIOUS_ATTEMPTS = "grpc-previous-rpc-attempts"
#: Tells a relay that the call waits until the server behind it is there; no other server is sent it.
WAITS = ("lucky-wait-for-ready", "1")
#: Keys of HTTP/2 and gRPC itself: dropped without a word, from both sides, and from callers.
_RESERVED = frozenset({"te", "content-type"})
_RESERVED_FOR_CALLERS = frozenset(
    {
        *("user-agent", "grpc-timeout", "grpc-message", "grpc-encoding", "grpc-internal-encoding-request"),
        *(PREVIOUS_ATTEMPTS, WAITS[0]),
    }
)
USER_AGENT = f"grpc-python/{grpc.__version__} lucky-transport ({sys.platform}; shm)"
_OWN_AGENT = Metadatum("user-agent", USER_AGENT)


class InvalidMetadata(StatusError):
    """Some key or value may not be in a header; the call fails with this status."""

    def __init__(self) -> None:
        super().__init__(Code.INTERNAL.value[0], "Invalid metadata")


def checked(metadata: Iterable[Any]) -> Metadata:
    """Return the metadata as they travel.

    Raises InvalidMetadata; TypeError and ValueError, as grpc does, for what are no pairs of texts.
    """
    entries = [_encoded_entry(key, value) for key, value in metadata]  # first of all what are no texts, as grpc does
    return tuple(entry for entry in starmap(_entry, entries) if entry[0] not in _RESERVED)


def outgoing(metadata: Iterable[Any] | None, user_agent: str = "") -> Metadata:
    """Return a caller's metadata as they travel, with the user agent if there is a special one.

    Raises the errors of `checked` and `check_size`: a server has the same limit.
    """
    entries: Metadata = ()
    if metadata:
        entries = tuple(entry for entry in checked(metadata) if entry[0] not in _RESERVED_FOR_CALLERS)
        check_size(entries)
    return (("user-agent", user_agent), *entries) if user_agent else entries


def check_size(*several: Metadata) -> None:
    """Raise StatusError (RESOURCE_EXHAUSTED) when any of them is more than a header holds."""
    for metadata in several:
        if metadata and (size := _size(metadata)) > MOST_BYTES:
            longest = max(len(value) for _, value in metadata)
            what = f"value length {longest}" if longest >= MOST_BYTES else size
            raise error_of(Code.RESOURCE_EXHAUSTED, too_large(what))


def within_limit(metadata: Metadata) -> Metadata:
    """Return the metadata, none when they are more than a header holds."""
    return metadata if not metadata or _size(metadata) <= MOST_BYTES else ()


def metadata_of(metadata: Metadata) -> tuple[Any, ...]:
    """Return metadata that came, as programs get them."""
    return tuple(Metadatum(key, value) for key, value in metadata) if metadata else ()


def invocation_metadata(metadata: Metadata) -> tuple[Any, ...]:
    """Return a caller's metadata as a server's programs get them: the first entry is the user agent."""
    own = () if metadata and metadata[0][0] == "user-agent" else (_OWN_AGENT,)  # of clients whose options make one
    return (*own, *metadata_of(metadata))


def _encoded_entry(key: Any, value: Any) -> tuple[str, bytes]:
    name = _encoded(key).decode(errors="replace")
    if not name.endswith("-bin"):
        return name, _encoded(value)
    if not isinstance(value, bytes):
        raise TypeError(f'Binary metadata key="{name}" expected bytes, got {type(value)}')
    return name, value


def _entry(name: str, value: bytes) -> tuple[str, str | bytes]:
    if not _KEY.fullmatch(name) or not (name.endswith("-bin") or _VALUE.fullmatch(value)):
        raise InvalidMetadata
    return name, value if name.endswith("-bin") else value.decode()


def _size(metadata: Metadata) -> int:
    return sum(len(key) + len(value) + _ENTRY_BYTES for key, value in metadata)


def _encoded(text: Any) -> bytes:
    """Return text as bytes, as grpc does: None is empty."""
    if text is None or isinstance(text, bytes):
        return text or b""
    if not isinstance(text, str):
        raise TypeError(f"Expected str, not {type(text)}")
    return text.encode()
