"""FlatBuffers for any message class the long way: field by field, whatever the layout, with the words for every fault.

Rule 1: bytes from a peer raise RemoteProtocolError and nothing else; values from our caller TypeError or ValueError.
"""

from __future__ import annotations

from typing import Any, cast

from lucky_transport.codec.derive import table_of
from lucky_transport.codec.place import Misfit
from lucky_transport.codec.verifier import Verifier
from lucky_transport.codec.writer import Writer
from lucky_transport.errors import RemoteProtocolError

__all__ = ["decode_generic", "encode_generic"]


def encode_generic(message: Any, prefix_bytes: int = 0) -> bytes:
    """Return the message as a buffer; see `flatbuffers.encode`."""
    cls = cast("type[Any]", type(message))
    writer = Writer(prefix_bytes)
    try:
        return writer.finish(table_of(cls).write(writer, message))
    except Misfit as misfit:
        raise misfit.kind(f"{misfit.place(cls.__name__)}: {misfit.text}") from misfit.__cause__


def decode_generic(cls: type[Any], data: bytes) -> Any:
    """Return the message that a buffer holds; see `flatbuffers.decode`."""
    verifier = Verifier(data)
    try:
        return table_of(cls).read(verifier, verifier.root())
    except Misfit as misfit:
        raise RemoteProtocolError(
            f"malformed {misfit.place(cls.__name__)} in {verifier.size} bytes: {misfit.text}",
            hint="the peer is broken or speaks another protocol",
        ) from misfit.__cause__
