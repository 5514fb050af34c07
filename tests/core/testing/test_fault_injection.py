"""Injected faults: each hits what it names, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec import flatbuffers
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, PeerTimeout, SpecError, TransportError, Unimplemented, UnknownName
from lucky_transport.messages import EntityInfo, FullState, GetAgentSchemaResponse, StepResponse
from lucky_transport.messages.methods import method
from lucky_transport.testing.suite import open_reference
from lucky_transport.transport import Stream, Transport
from tests.support.bit_flip import flip_array, flip_message
from tests.support.fault_injection import STEPS, Fault, FaultSpec, FaultyTransport
from tests.support.message_strategies import messages

SCHEMA = method("AgentService/GetAgentSchema")
TELEMETRY = method("TelemetryService/StreamTelemetry")
INFO = method("SceneService/GetSceneInfo")
CAMERAS = method("CameraService/ListCameras")  # the toy has none


class Numbers(Stream):
    """Three items, numbered; then it ends, or fails."""

    def __init__(self, error: TransportError | None = None) -> None:
        self._items = iter([TELEMETRY.response(frame_number=number) for number in (10, 20, 30)])
        self._error = error

    def __next__(self) -> Any:
        item = next(self._items, None)
        if item is None:
            raise self._error or StopIteration
        return item

    def cancel(self) -> None:
        pass


@pytest.fixture
def inner() -> Iterator[Transport]:
    with open_reference("toy", 2, seed=0) as transport:
        yield transport


def numbers(transport: Transport, deadline: Deadline | None = None) -> list[int]:
    return [item.frame_number for item in transport.stream(TELEMETRY, TELEMETRY.request(), deadline)]


def faulty(
    inner: Transport, monkeypatch: pytest.MonkeyPatch, *faults: FaultSpec, error: TransportError | None = None
) -> FaultyTransport:
    """Return `inner` with faults, and with a telemetry of three items."""
    monkeypatch.setattr(inner, "stream", lambda *_, **__: Numbers(error))
    return FaultyTransport(inner, *faults)


def test_without_a_plant_everything_passes_as_it_is(inner: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = inner.call(SCHEMA, SCHEMA.request("agent_0"))
    monkeypatch.setattr(inner, "call", lambda *_: answer)
    transport = faulty(inner, monkeypatch)
    assert transport.call(SCHEMA, SCHEMA.request("agent_0")) is answer
    assert numbers(transport) == [10, 20, 30]
    assert transport.step(transport.actions).seq == 1
    assert transport.implements(SCHEMA) == inner.implements(SCHEMA)


def test_a_bit_differs_in_the_response_of_one_call_only(inner: Transport) -> None:
    transport = FaultyTransport(
        inner, FaultSpec(Fault.BIT, "AgentService/GetAgentSchema", at=1, path="schema.action_size")
    )
    sizes = [transport.call(SCHEMA, SCHEMA.request("agent_0")).schema.action_size for _ in range(3)]
    assert sizes[0] == sizes[2] == sizes[1] ^ 1


def test_a_pattern_plants_into_every_method_it_fits(inner: Transport) -> None:
    transport = FaultyTransport(inner, FaultSpec(Fault.STATUS, "*/Get*", at=None))
    for row in (SCHEMA, INFO, INFO):
        with pytest.raises(UnknownName, match=f"{row.name}: an injected status"):
            transport.call(row, row.request())


def test_a_bit_differs_in_one_observation_of_one_exchange(inner: Transport) -> None:
    with open_reference("toy", 2, seed=0) as true:
        faulty_transport = FaultyTransport(inner, FaultSpec(Fault.BIT, STEPS, at=1, env=1))
        for number in range(3):
            left, right = true.step(true.actions), faulty_transport.step(faulty_transport.actions)
            unequal = np.argwhere(left.observations != right.observations).tolist()
            assert unequal == ([[1, 0]] if number == 1 else [])
            assert not right.observations.flags.writeable
            assert (left.seq, left.any_ended) == (right.seq, right.any_ended)


@pytest.mark.parametrize(
    ("fault_spec", "expected"),
    [
        (FaultSpec(Fault.MISSING, TELEMETRY.name), [20, 30]),
        (FaultSpec(Fault.MISSING, TELEMETRY.name, item=2), [10, 20]),
        (FaultSpec(Fault.REORDERED, TELEMETRY.name), [20, 10, 30]),
        (FaultSpec(Fault.REORDERED, TELEMETRY.name, item=1), [10, 30, 20]),
        (FaultSpec(Fault.BIT, TELEMETRY.name, item=1, path="frame_number"), [10, 21, 30]),
        (FaultSpec(Fault.BIT, TELEMETRY.name, item=9, path="frame_number"), [10, 20, 30]),
    ],
)
def test_items_of_a_stream_are_changed(
    inner: Transport, monkeypatch: pytest.MonkeyPatch, fault_spec: FaultSpec, expected: list[int]
) -> None:
    transport = faulty(inner, monkeypatch, fault_spec)
    assert numbers(transport) == expected
    assert numbers(transport) == [10, 20, 30]


def test_a_stream_ends_with_another_status_where_one_is_injected(
    inner: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = faulty(inner, monkeypatch, FaultSpec(Fault.STATUS, TELEMETRY.name, item=1))
    stream = transport.stream(TELEMETRY, TELEMETRY.request())
    assert next(stream).frame_number == 10
    with pytest.raises(UnknownName, match="injected"):
        next(stream)


def test_only_what_fails_by_itself_fails_with_another_text(inner: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    detail = FaultSpec(Fault.DETAIL, "*", at=None)
    transport = faulty(inner, monkeypatch, detail, error=SpecError("too many", hint="ask for fewer"))
    assert transport.call(SCHEMA, SCHEMA.request("agent_0")).schema.action_size
    with pytest.raises(Unimplemented, match=r"ListCameras.* \(an injected detail\)$"):
        transport.call(CAMERAS, CAMERAS.request())
    with pytest.raises(SpecError, match=r"^too many; ask for fewer \(an injected detail\)$"):
        numbers(transport)


@pytest.mark.parametrize("fault", [Fault.REORDERED, Fault.MISSING])
def test_what_has_no_items_is_not_reordered(inner: Transport, fault: Fault) -> None:
    transport = FaultyTransport(inner, FaultSpec(fault, "*"))
    assert transport.call(SCHEMA, SCHEMA.request("agent_0")).schema.action_size


def test_a_slow_call_is_late_but_answers(inner: Transport) -> None:
    transport = FaultyTransport(inner, FaultSpec(Fault.SLOW, "*", delay_s=0.05))
    before = time.monotonic()
    assert transport.call(SCHEMA, SCHEMA.request("agent_0")).schema.action_size
    assert time.monotonic() - before >= 0.05


def test_what_is_slower_than_its_deadline_ends_there(inner: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = (FaultSpec(Fault.SLOW, "*", at=None, delay_s=60.0), FaultSpec(Fault.SLOW, STEPS, delay_s=60.0))
    transport = faulty(inner, monkeypatch, *faults)
    with pytest.raises(PeerTimeout, match=r"GetAgentSchema did not end within 0\.01 s"):
        transport.call(SCHEMA, SCHEMA.request("agent_0"), Deadline(0.01))
    with pytest.raises(PeerTimeout):
        numbers(transport, Deadline(0.01))
    transport.send(transport.actions)
    with pytest.raises(PeerTimeout):
        transport.recv(Deadline(0.01))
    assert transport.recv().seq == 1, "a step that was late can still be received"


def test_after_a_crash_nothing_answers_any_more(inner: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = faulty(inner, monkeypatch, FaultSpec(Fault.CRASH, TELEMETRY.name, item=1))
    stream = transport.stream(TELEMETRY, TELEMETRY.request())
    assert next(stream).frame_number == 10
    for use in (
        lambda: next(stream),
        lambda: transport.call(SCHEMA, SCHEMA.request("agent_0")),
        lambda: transport.step(transport.actions),
        lambda: transport.stream(TELEMETRY, TELEMETRY.request()),
    ):
        with pytest.raises(PeerDied, match="injected crash"):
            use()
    transport.close()


def test_a_fault_that_steps_cannot_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"reordered cannot be injected into steps; expected one of bit, crash"):
        FaultSpec(Fault.REORDERED, STEPS)


@given(message=st.one_of(messages(FullState), messages(StepResponse), messages(EntityInfo)))
def test_a_flipped_bit_survives_the_wire_and_leaves_the_original_alone(message: Any) -> None:
    before = flatbuffers.encode(message)
    try:
        changed = flip_message(message)
    except ValueError:
        return  # a message in which nothing is set
    assert bytes(flatbuffers.encode(message)) == bytes(before)
    assert bytes(flatbuffers.encode(changed)) != bytes(before)


def test_a_path_that_leads_nowhere_is_named() -> None:
    with pytest.raises(ValueError, match=r"GetAgentSchemaResponse holds nothing to change at 'schema\.colour'"):
        flip_message(GetAgentSchemaResponse(), "schema.colour")


@given(row=st.integers(0, 3), dtype=st.sampled_from(["float32", "float64", "uint8", "int64", "bool"]))
def test_a_flipped_array_differs_in_one_element_of_that_row(row: int, dtype: str) -> None:
    array = np.ones((4, 3), dtype)
    unequal = np.argwhere(flip_array(array, row) != array).tolist()
    assert unequal == [[row, 0]]
