"""The third implementation: servers of gRPC's own behind relays, and channels of ours to these."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any

import lucky_transport_stubs
from lucky_transport.process import unique_name
from lucky_transport_stubs.relay.relay import Relay

from .comparing import compared, flatten, record
from .declared import DIFFERENCES
from .ends import REAL, Implementation
from .records import Record
from .registry import Case

_UNIX = "unix:"
#: A machine that is busy may make a case of short deadlines differ.
_TRIES = 3


@dataclass(frozen=True)
class RelayDifference:
    """What differs where a relay stands between: patterns of cases, the fields in which they may differ, "*" for all.

    endless: those of them that wait for what does not come, and are not run. what, why: the row of the page.
    """

    cases: tuple[str, ...]
    fields: tuple[str, ...]
    what: str
    why: str
    endless: tuple[str, ...] = ()

    def is_about(self, case: Case) -> bool:
        """Return whether it concerns this case."""
        return any(fnmatch(case.name.partition("[")[0].removeprefix("aio_"), pattern) for pattern in self.cases)


RELAY_DIFFERENCES = (
    RelayDifference(
        cases=(
            *("channels.the_ready_future_waits_in_vain", "calls.waiting_for_no_server"),
            *("channels.a_subscriber_sees_that_nobody_is_there", "channels.a_subscriber_sees_the_server_go"),
            "channels.nobody_is_there",
            "credentials.plugin_is_not_asked_without_a_server",
        ),
        fields=("*",),
        what="`channel_ready_future`, `wait_for_connection` and the states of a channel are about the relay",
        why="it is there while its upstream is not: READY says no more than that",
        endless=(
            *("channels.a_subscriber_sees_that_nobody_is_there", "channels.a_subscriber_sees_the_server_go"),
            "channels.nobody_is_there",
            "credentials.plugin_is_not_asked_without_a_server",
        ),
    ),
    RelayDifference(
        cases=("service_config.*", "credentials.each_attempt_has_its_own"),
        fields=("met",),
        what="`grpc-previous-rpc-attempts` does not reach the server",
        why="gRPC writes it itself, and to the relay's channel each attempt is a call",
    ),
    RelayDifference(
        cases=("service_config.initial_metadata_commit", "service_config.a_response_with_a_code_commits"),
        fields=("*",),
        what="empty initial metadata travel with the first message; without one, a client's retries go on",
        why="gRPC's channel does not tell them from none",
    ),
    RelayDifference(
        cases=("metadata.names_the_client_and_the_program",),
        fields=("first", "last"),
        what="the server sees the relay's user agent, address and authority",
        why="they are its own connection's",
    ),
    RelayDifference(
        cases=("credentials.*of_the_connection", "credentials.of_a_port_are_none"),
        fields=("value", "classes", "text"),
        what="`auth_context()` is that of the relay's connection",
        why="call credentials travel as metadata, a client's TLS ends here",
    ),
    RelayDifference(
        cases=("appearances.of_a_channel_and_a_server", "appearances.of_an_asyncio_channel_and_server"),
        fields=("dialled", "target"),
        what="without `run` a channel names the relay's endpoint",
        why="that is what it dialled",
    ),
)


def is_endless(case: Case) -> bool:
    """Return whether the case waits for what does not come behind a relay."""
    name = case.name.partition("[")[0].removeprefix("aio_")
    return any(name in one.endless for one in RELAY_DIFFERENCES)


def undeclared(case: Case) -> dict[str, tuple[Any, Any]]:
    """Return what real gRPC and a client through a relay record, where they differ and are not declared to."""
    declared = {field for one in DIFFERENCES if one.is_about(case) for field in one.fields}
    declared |= {field for one in RELAY_DIFFERENCES if one.is_about(case) for field in one.fields}
    found: dict[str, tuple[Any, Any]] = {}
    for _ in range(_TRIES):
        with Relayed() as relayed:
            ours = relayed.plain(flatten(record(case, relayed.implementation)))
        pairs = compared(flatten(record(case, REAL)), ours)
        found = {one: pair for one, pair in pairs.items() if not declared & {"*", *one.split(".")}}
        if not found:
            break
    return found


class Relayed:
    """As a context; each place that a channel leads to has a relay of its own until the end.

    Ports are insecure: what credentials of calls do is compared, those of a connection are the relay's.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._relays: dict[str, Relay] = {}
        channel, aio_channel = self._of(lucky_transport_stubs.channel), self._of(lucky_transport_stubs.aio_channel)
        self.implementation: Implementation = replace(
            REAL,
            name="relayed",
            server=_insecure(REAL.server),
            aio_server=_insecure(REAL.aio_server),
            channel=channel,
            secure_channel=channel,
            aio_channel=aio_channel,
            aio_secure_channel=aio_channel,
        )

    def __enter__(self) -> Relayed:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _of(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def channel(target: str, *arguments: Any, **named: Any) -> Any:
            if target not in self._relays:
                relay = Relay(f"grpc+unix://{target.removeprefix(_UNIX)}", f"shm://{unique_name()}")
                self._relays[target] = self._stack.enter_context(relay)
            return make(self._relays[target].endpoint, *arguments, **named)

        return channel

    def plain(self, record: Record) -> Record:
        """Return a flat record without the names that relays add: of their endpoints, of an upstream that is gone."""
        return {field: self._plain(value) for field, value in record.items()}

    def _plain(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        for target, relay in self._relays.items():
            value = value.replace(relay.endpoint, "TARGET")
            value = value.replace(f" (upstream grpc+unix://{target.removeprefix(_UNIX)})", "")
        return value


def _insecure(make: Callable[..., Any]) -> Callable[..., Any]:
    def server(*arguments: Any, **named: Any) -> Any:
        made = make(*arguments, **named)
        made.add_secure_port = lambda address, credentials: made.add_insecure_port(address)
        return made

    return server


def table() -> list[str]:
    """Return the rows of the page's table."""
    return [f"| {one.what} | {one.why} |" for one in RELAY_DIFFERENCES]
