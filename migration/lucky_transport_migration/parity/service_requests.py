"""Calls of any service, made from the descriptors of its messages: those of the table of cases, then random ones.

First all fields of a request have a case at once, then each large value stands alone, then the fields have their cases
in a few groups, so that a server which refuses one value hides no other. Fields that no client knows, metadata,
deadlines and the number of requests of a stream go through cases as well.

Or calls as they were recorded, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport.errors import ConfigError, plural
from lucky_transport_migration.catalogue.descriptors import class_of
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.request_table import WELL_KNOWN, RequestTable
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.service_parity import ServiceParity

#: What no run draws, with the reasons.
NOT_DRAWN: Mapping[str, str] = {
    "requests above 1 MiB, and most sizes below it; messages nested more than three deep": "none are drawn",
    "other numbers of closed enums; an Any of a type within another one, of more than 12 types, or large": "none are",
    "extensions (proto2) of messages within a request, and all cases of those of a request": "each has a plain value",
    "more than eight calls at once, many of several methods, or beside a stream; more than two clients": "none are",
    "pauses of more than 3 s between calls, any in a stream; readers slower than a stream; waits for items or headers"
    " before the first request; deadlines below 2 s; clients in other processes": "none are made",
    "gRPC's own services, such as health": "no .proto of yours describes them",
    "clients of grpc.aio (asyncio); unary calls that block, with or without with_call()": "each is made by .future()",
    "other wire forms, as lists of numbers that are not packed, and bytes that are no message": "none are written",
    "calls that are under way when the server ends": "it ends when all have ended",
    "what shows after more calls, more items or a longer time": "none has more",
    "what a server does beside its answers, as to files, logs, memory or threads": "no answer tells",
    "compression, wait_for_ready and credentials of calls; options and interceptors of channels": "they are defaults",
    "values that fit each other, as a list and its length": "they are drawn apart: record a program",
    "metadata under a server's own keys": "they are not known: pass --metadata",
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
#: An Any holds messages of so many types at most.
_HELD = 12
#: Coprime in number with the metadata, so that each meets each.
_DEADLINES = ("", "none", "", "short", "", "long", "")


class DrawnCalls:
    """Calls of a method without end, the same ones each time. is_random: the last one was not of the table."""

    def __init__(self, method: ServiceMethod, values: FieldValues, seed: int) -> None:
        self.is_random = False
        self._method = method
        table = RequestTable(values.named)
        self._table = RequestTable(values.named, held=[table.plain(kind, 1) for kind in _held(method)])
        self._seed = f"{seed} {method.name}"

    def __iter__(self) -> Iterator[ServiceCall]:
        self.is_random = False
        for number, messages in enumerate(self._requests(Random(self._seed))):
            metadata = _METADATA[number // 2 % len(_METADATA)] if number % 2 else ()
            yield ServiceCall(messages, metadata, deadline=_DEADLINES[number % len(_DEADLINES)])

    def _requests(self, random: Random) -> Iterator[tuple[Any, ...]]:
        """Yield the requests of each call."""
        kind, table, is_stream = self._method.request, self._table, self._method.requests_stream
        if is_stream:
            yield from (tuple(table.plain(kind, max(at, 1)) for at in range(most - 1, -1, -1)) for most in _STREAMS)
        yield from [(table.plain(kind, 1),)] * 2  # a server may take a call for the one before it
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
        yield from table.extended(kind)
        yield from table.large(kind)
        yield from table.in_groups(kind)


def _held(method: ServiceMethod) -> list[Any]:
    """Return the messages that an Any of the method may hold: those of its files, what no method has itself last."""
    assert method.descriptor is not None
    file = method.descriptor.containing_service.file
    own = [one for one in (file, *file.dependencies) if not one.name.startswith("google/protobuf/")]
    rows = [row for service in file.services_by_name.values() for row in service.methods]
    taken = {one.full_name for row in rows for one in (row.input_type, row.output_type)}
    found = [one for each in own for one in each.message_types_by_name.values()]
    return [class_of(one) for one in sorted(found, key=lambda one: one.full_name in taken)[_HELD - 1 :: -1]]


def _unknown(descriptor: Any, number: int) -> bytes:
    """Return a field that a newer client has, of the wire type that comes next: a number, 64 bits, bytes, 32 bits."""
    taken = max((one.number for one in descriptor.fields), default=0)
    tag = min(taken + 1000, 2**29 - 1) << 3 | (0, 1, 2, 5)[number]
    head = bytearray()
    while tag > 127:
        head.append(tag & 127 | 128)
        tag >>= 7
    return bytes([*head, tag]) + (b"\x07", bytes(range(8)), b"\x03new", b"\x01\x02\x03\x04")[number]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One call, whose messages are still bytes: the method's full name, its requests and the rest."""

    method: str
    requests: tuple[bytes, ...]
    call: ServiceCall


@dataclass(slots=True)
class RecordedRequests:
    """All calls of a recording. source: its file. described: FileDescriptorSets of their services. left: what of it
    cannot be made again, with the reasons.
    """

    source: str
    entries: Sequence[RecordedRequest]
    described: Sequence[bytes] = ()
    left: Mapping[str, str] = field(default_factory=dict[str, str])

    def choose(self, methods: Sequence[ServiceMethod], parity: ServiceParity) -> list[ServiceMethod]:
        """Return those of `methods` that were called; what else was called is said in `parity`.

        Raises ConfigError where none was.
        """
        names = {row.name for row in methods}
        calls = Counter(one.method for one in self.entries)
        parity.left |= self.left
        for name, count in calls.items():
            if name not in names:
                parity.left[f"{plural(count, 'recorded call')} of {name}"] = "it is none of the chosen methods"
        if not names & calls.keys():
            hint = f"it has {', '.join(calls) or 'no call of a service of your own'}"
            raise ConfigError(f"{self.source} has no call of a chosen method", hint=hint)
        return [row for row in methods if row.name in calls]

    def calls(self, rows: Mapping[str, ServiceMethod]) -> Iterator[tuple[ServiceMethod, ServiceCall]]:
        """Yield the calls of the methods `rows`. Raises ConfigError for a request that is none of its method's."""
        from google.protobuf.message import DecodeError

        for number, one in enumerate(self.entries, 1):
            row = rows.get(one.method)
            if row is None:
                continue
            if not row.requests_stream and len(one.requests) != 1:
                raise ConfigError(f"{self.source}: call {number}: {len(one.requests)} requests, and it takes one")
            try:
                messages = tuple(row.request.FromString(request) for request in one.requests)
            except DecodeError as error:
                raise ConfigError(f"{self.source}: call {number}: a request that is none: {error}") from error
            yield row, replace(one.call, messages=messages)
