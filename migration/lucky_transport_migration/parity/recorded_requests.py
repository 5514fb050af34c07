"""The requests of recorded calls of a team's own service, in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lucky_transport.errors import ConfigError, plural
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.service_parity import ServiceParity


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
