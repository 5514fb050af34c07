"""Compression: what programs ask for is checked as gRPC checks it, and nothing is compressed: there is no wire.

A call says which algorithm it would be compressed with, so that a server that has it disabled can refuse it.
"""

from __future__ import annotations

from typing import Any

from lucky_transport.errors import StatusError
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.words.metadata import ENCODING
from lucky_transport_stubs.words.options import Options, compression_algorithm, enabled_algorithms
from lucky_transport_stubs.words.status import Code, error_of

#: By the number of a `grpc.Compression`, the name of its algorithm.
_ALGORITHMS = {0: "identity", 1: "deflate", 2: "gzip"}
_NUMBERS = {name: number for number, name in _ALGORITHMS.items()}
_COMPRESSIONS = {name: grpc.Compression(number) for number, name in _ALGORITHMS.items() if number}
_ALL = sum(1 << number for number in _ALGORITHMS)


def check_compression(compression: Any) -> None:
    """Raise KeyError, as gRPC does, for what is neither a `grpc.Compression` nor false."""
    if compression:
        _ALGORITHMS[compression]


def checked_default(compression: Any) -> int:
    """Return the number of a channel's or a server's algorithm. Raises TypeError, ValueError for what is none."""
    return int(compression) if compression else 0


class ChannelCompression:
    """What the calls of a channel would be compressed with, by its options or else its argument.

    Raises TypeError, ValueError for what is no number of an algorithm.
    """

    def __init__(self, options: Options, compression: Any) -> None:
        argument, given = checked_default(compression), compression_algorithm(options)
        number = argument if given is None else _NUMBERS.get(given, 0) if isinstance(given, str) else given
        enabled = number in _ALGORITHMS and enabled_algorithms(options, _ALL) >> number & 1
        self._default = _entries(number) if enabled else ()

    def entries(self, compression: Any = None) -> Metadata:
        """Return what a call says that asks for this, () for nothing. Raises KeyError for no `grpc.Compression`."""
        if not compression:
            return self._default
        return self.named(_ALGORITHMS[compression])

    def named(self, algorithm: str) -> Metadata:
        """As `entries`, for an algorithm by its name, "" for none; a call may ask for one that its channel disables."""
        return _entries(_NUMBERS.get(algorithm, 0)) if algorithm else self._default


def _entries(number: int) -> Metadata:
    return ((ENCODING, _ALGORITHMS[number]),) if number else ()


def refusal_of(metadata: Metadata, options: Options) -> StatusError | None:
    """Return the error of a call with these metadata at a server with these options, None for one that is accepted."""
    algorithm = _algorithm_of(metadata)
    if algorithm is None:
        return None
    number = _NUMBERS.get(algorithm, 0)
    if enabled_algorithms(options, _ALL) >> number & 1:
        return None
    return error_of(Code.UNIMPLEMENTED, f"Compression algorithm '{algorithm}' is disabled.")


def compression_of(metadata: Metadata) -> Any:
    """Return the `grpc.Compression` that a call with these metadata asks for, None for none."""
    return _COMPRESSIONS.get(_algorithm_of(metadata) or "")


def _algorithm_of(metadata: Metadata) -> str | None:
    return str(metadata[0][1]) if metadata and metadata[0][0] == ENCODING else None
