"""A candidate that lies, breaks or dawdles on a real connection: its caller notices nothing, its method falls back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.messages import GetMujocoInfoRequest, LidarSensorRequest, StreamPolicySlotStateRequest
from lucky_transport.messages.methods import Method, method
from lucky_transport.process import unique_name
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, FAILED
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from tests.support.fault_injection import Fault, FaultSpec, FaultyTransport
from tests.support.waiting import until

COUNT = method("LidarService/GetLidarBeamCount")
SLOTS = method("AgentService/StreamPolicySlotState")
INFO = method("MujocoService/GetMujocoInfo")

#: A call and what it is answered; in streams the number of items is asked for.
REQUESTS: dict[Method, Any] = {
    COUNT: LidarSensorRequest(7),
    SLOTS: StreamPolicySlotStateRequest(slot_id=5),
    INFO: GetMujocoInfoRequest(),  # which this engine does not implement
}


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Serve an engine that answers at once, in this process."""
    with api.serve("echo", f"inproc://{unique_name()}", options={"width": 8, "height": 8, "item_bytes": 8}) as serving:
        yield str(serving.endpoints[0])


def ask(transport: Any, row: Method, timeout_s: float = 10.0) -> Any:
    """Make one call and return all that came of it."""
    try:
        if row.stream is None:
            return transport.call(row, REQUESTS[row], Deadline(timeout_s))
        return list(transport.stream(row, REQUESTS[row], Deadline(timeout_s)))
    except TransportError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("fault", "row", "verdict", "aspect", "where"),
    [
        (FaultSpec(Fault.BIT, COUNT.name), COUNT, DIFFERENT, "item", "beams"),
        (FaultSpec(Fault.BIT, SLOTS.name, item=2), SLOTS, DIFFERENT, "item", "items[2]"),
        (FaultSpec(Fault.REORDERED, SLOTS.name, item=1), SLOTS, DIFFERENT, "order", "items[1]"),
        (FaultSpec(Fault.MISSING, SLOTS.name, item=3), SLOTS, DIFFERENT, "count", "items[3]"),
        (FaultSpec(Fault.STATUS, COUNT.name), COUNT, DIFFERENT, "code", "code"),
        (FaultSpec(Fault.DETAIL, INFO.name), INFO, DIFFERENT, "details", "details"),
        (FaultSpec(Fault.SLOW, COUNT.name, delay_s=60.0), COUNT, FAILED, "late", "code"),
        (FaultSpec(Fault.CRASH, COUNT.name), COUNT, FAILED, "code", "code"),
    ],
    ids=lambda value: str(value.fault) if isinstance(value, FaultSpec) else "",
)
def test_an_injected_fault_is_found_named_and_demoted_and_callers_see_none_of_it(
    project: Any,
    endpoint: str,
    fault: FaultSpec,
    row: Method,
    verdict: str,
    aspect: str,
    where: str,
) -> None:
    with api.open_transport(endpoint) as plain:
        right = ask(plain, row)
    policy = project.policy()
    sides = (
        RoutedConnection("grpc", lambda: api.open_transport(endpoint)),
        RoutedConnection("shm", lambda: FaultyTransport(api.open_transport(endpoint), fault)),
    )
    with StagedTransport(*sides, ProcessRouter(policy)) as staged:
        assert ask(staged, row, 1.0 if fault.fault is Fault.SLOW else 10.0) == right
        until(lambda: policy.decide(row.name).stage == "grpc")
        assert ask(staged, row) == right
    policy.close()
    # the demotion is in force before its evidence is written
    first, second = sorted((one for one in project.evidence if one.method == row.name), key=lambda one: not one.shadow)
    assert (first.verdict, first.aspect) == (verdict, aspect)
    assert first.where.startswith(where)
    assert first.values["grpc"] != first.values["shm"]
    assert (second.stage, second.shadow) == ("grpc", None)
    assert [(entry.method, str(entry.to)) for entry in project.journal] == [(row.name, "grpc")]


def test_without_a_fault_everything_is_equal(project: Any, endpoint: str) -> None:
    policy = project.policy()
    control, candidate = (RoutedConnection(name, lambda: api.open_transport(endpoint)) for name in ("grpc", "shm"))
    with StagedTransport(control, candidate, ProcessRouter(policy)) as staged:
        for number, row in enumerate((COUNT, SLOTS, INFO) * 5, 1):
            ask(staged, row)
            until(lambda due=number: len(project.evidence) == due)  # a shadow that lags behind is left out
    assert {one.verdict for one in project.evidence} == {EQUAL}
    assert project.journal == []
