"""Calls of any service, made from the descriptors of its messages: those of the table of cases, then random ones.

First all fields of a request have a case at once, then each large value stands alone, then the fields have their cases
in a few groups, so that a server which refuses one value hides no other. Fields that no client knows, metadata,
deadlines and the number of requests of a stream go through cases as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.request_table import WELL_KNOWN, RequestTable
from lucky_transport_migration.parity.service_call import ServiceCall

#: What no run draws, with the reasons.
NOT_DRAWN: Mapping[str, str] = {
    "requests above 1 MiB, most sizes below it, messages nested more than three deep, other numbers of closed enums": (
        "none is drawn"
    ),
    "calls of different methods at once, more than two clients, pauses between calls": "none are made",
    "values that fit each other, as a list and its length; metadata under a server's own keys": (
        "they are drawn apart and not known: record a program, pass --metadata"
    ),
}

#: Of the fields of a random request so many have what programs get wrong.
_UNUSUAL = 0.4
#: How many requests a stream has, the last two alike.
_STREAMS = (0, 1, 3, 5, 1000)
_METADATA: tuple[Metadata, ...] = (
    (("lucky-parity", "a"),),
    tuple(("lucky-parity-bin", value) for value in (b"\x00\xff,", b"\x01", b"\x02\x03", b"")),
    (("lucky-parity", "b"), ("lucky-other", "c"), ("lucky-parity", "a"), ("lucky-parity", "b")),
    (("lucky-parity", ""),),
    (("lucky-parity", "0123456789abcdef" * 200), *((f"lucky-{at}", f"a, b; {at}") for at in range(24))),
)
#: Coprime in number with the metadata, so that each meets each.
_DEADLINES = ("", "none", "", "short", "", "long", "")


class DrawnCalls:
    """Calls of a method without end, the same ones each time. is_random: the last one was not of the table."""

    def __init__(self, method: ServiceMethod, values: FieldValues, seed: int) -> None:
        self.is_random = False
        self._method = method
        self._table = RequestTable(values.named)
        self._seed = f"{seed} {method.name}"

    def __iter__(self) -> Iterator[ServiceCall]:
        random = Random(self._seed)
        self.is_random = False
        for number, messages in enumerate(self._requests(random)):
            metadata = _METADATA[number // 2 % len(_METADATA)] if number % 2 else ()
            leaves = self._method.stream and random.random() < (0.4 if self.is_random else 0.1)
            cancel_after = random.randint(1, 3) if leaves else None
            yield ServiceCall(messages, metadata, cancel_after, deadline=_DEADLINES[number % len(_DEADLINES)])

    def _requests(self, random: Random) -> Iterator[tuple[Any, ...]]:
        """Yield the requests of each call."""
        kind, table, is_stream = self._method.request, self._table, self._method.requests_stream
        if is_stream:
            yield from (tuple(table.plain(kind, max(at, 2)) for at in range(most, 0, -1)) for most in _STREAMS)
        seen: set[int] = set()
        for message in self._cases():
            content = hash(message.SerializeToString(deterministic=True))
            if content not in seen:
                seen.add(content)
                yield (message,)
        self.is_random = True
        while True:
            most = random.randrange(6) if is_stream else 1
            yield tuple(table.random(kind, random, _UNUSUAL) for _ in range(most))

    def _cases(self) -> Iterator[Any]:
        """Yield the requests of the table; several may be equal."""
        kind, table = self._method.request, self._table
        yield table.empty(kind)
        yield from table.together(kind)
        if kind.DESCRIPTOR.full_name in WELL_KNOWN:
            return
        for number in range(4):
            message = table.plain(kind, number + 1)
            message.MergeFromString(_unknown(kind.DESCRIPTOR, number))
            yield message
        yield from table.large(kind)
        yield from table.in_groups(kind)


def _unknown(descriptor: Any, number: int) -> bytes:
    """Return a field that a newer client has, of the wire type that comes next: a number, 64 bits, bytes, 32 bits."""
    taken = max((one.number for one in descriptor.fields), default=0)
    tag = min(taken + 1000, 2**29 - 1) << 3 | (0, 1, 2, 5)[number]
    head = bytearray()
    while tag > 127:
        head.append(tag & 127 | 128)
        tag >>= 7
    return bytes([*head, tag]) + (b"\x07", bytes(range(8)), b"\x03new", b"\x01\x02\x03\x04")[number]
