"""A stand-in server for the tests of drawn plants: it answers with what it saw of a call."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from lucky_transport.call import Metadata
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.evidence.outcome import CANDIDATE, CallOutcome
from lucky_transport_migration.parity.service_parity import ServiceParity
from lucky_transport_migration.parity.service_servers import ServerCommand


@dataclass(frozen=True)
class Seen:
    """A call as a handler sees it. client: 1, or 2 of another connection. is_alone: no other call is under way. before:
    the notes of the call before it.
    """

    notes: list[Any]
    metadata: Metadata
    seconds: float | None
    client: int
    is_alone: bool
    before: list[Any] | None


Plant = Callable[[Seen], Any]
Answer = Callable[[Any, ServiceMethod, list[bytes], CallOutcome], CallOutcome]
#: Proves the desk, see the fixture `prove`.
Prove = Callable[..., ServiceParity]


class Desk(AbstractContextManager["Desk"]):
    """A server that runs; `plant` is what changes a call in shared memory, `answer` what each is answered over both."""

    plant: Plant = staticmethod(lambda seen: None)
    answer: Answer = staticmethod(lambda desk, row, requests, found: found)
    endpoint = "grpc://127.0.0.1:1"
    ends = ""
    left: int | None = None
    cancelled = 0
    connections = 1

    def __init__(self, command: ServerCommand, transport: str, client: int = 1) -> None:
        self.transport = transport
        self.client = client
        self.session: list[Any] = []
        self._last: list[Any] | None = None

    def __exit__(self, *_: object) -> None:
        pass

    @cached_property
    def clients(self) -> list[Self]:
        others = [type(self)(ServerCommand("x {port}"), self.transport, number) for number in (2, 3, 4)]
        for one in others:
            one.session = self.session
        return [self, *others]

    def exit_report(self, within_s: float = 0.0) -> str:
        return ""

    def disconnect(self) -> None:
        self.connections += 1

    def ask(self, row: ServiceMethod, requests: list[bytes], **given: Any) -> CallOutcome:
        if (given["timeout_s"] or 0) < 0:
            return CallOutcome(self.transport, code="DEADLINE_EXCEEDED")
        self.ends, self.left = given.get("ends", ""), given.get("cancel_after")
        self.cancelled += "ends" not in given
        alone = threading.current_thread() is threading.main_thread()
        notes = [row.request.FromString(one) for one in requests]
        seen = Seen(notes, given["metadata"], given["timeout_s"], self.client, alone, self._last)
        self._last = notes
        if self.transport == CANDIDATE:
            seen = self.plant(seen) or seen
        pairs = tuple((f"saw-{key}", value) for key, value in seen.metadata)
        deadline = "none" if seen.seconds is None else "a day" if seen.seconds > 86_400 else f"{seen.seconds:g} s"
        items = [one.SerializeToString(deterministic=True) for one in seen.notes]
        took_us = 150_000.0 if row.name.endswith("Echo") else 100.0
        found = CallOutcome(self.transport, items, trailing=(("deadline", deadline), *pairs), took_us=took_us)
        end = {"held": "DEADLINE_EXCEEDED", "raises": "UNKNOWN"}.get(self.ends, "OK")
        return self.answer(self, row, requests, replace(found, code=end, is_local=self.ends == "held"))
