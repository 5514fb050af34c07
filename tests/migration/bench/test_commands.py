"""The suite of commands, and the engine that it measures: what it answers, so that a wrong answer is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError, RemoteProtocolError, SpecError, UnknownName
from lucky_transport.messages import ImageFrame, PolicySlotSummary, SetStateRequest, SetStateResponse
from lucky_transport.messages.methods import method
from lucky_transport_migration.bench.echo_engine import EchoEngine, shade
from lucky_transport_migration.bench.flow import measure_images, measure_messages
from lucky_transport_migration.bench.measuring import QUICK
from lucky_transport_migration.bench.suite import Cell
from lucky_transport_migration.bench.suites.commands import cases_of, measure, measure_commands, plan_of_commands


def test_calls_are_measured_inline_and_in_the_pool_flat_out_and_at_fifty_a_second() -> None:
    plan = plan_of_commands(("grpc", "shm"), None, rounds=5, quick=False)
    cells, sizes = [case.cells for case in cases_of(plan) if case.wait == "adaptive"]
    unary = {(cell.what, cell.rate_hz) for cell in cells if cell.kind == "unary"}
    assert unary == {("inline", None), ("inline", 50), ("pool", None), ("pool", 50)}
    assert [(cell.kind, cell.what) for cell in cells if cell.kind != "unary"] == [
        ("stream", ""),
        ("images", "view"),
        ("images", "copy"),
    ]
    assert [cell.size for cell in sizes] == [1_000, 100_000, 200_000, 1_000_000, 8_000_000, 64_000_000]


def test_every_cell_is_measured_over_a_transport_without_processes() -> None:
    plan = plan_of_commands(("inproc",), None, rounds=1, quick=True)
    for case in cases_of(plan):
        assert tuple(measure_commands(case, plan)) == case.cells


class Forger(EchoEngine):
    """An echo engine that gets one thing wrong; `wrong` says what."""

    def __init__(self, wrong: str) -> None:
        super().__init__(width=8, height=4)
        self._wrong = wrong

    @property
    def services(self) -> dict[str, Any]:
        found = dict(super().services)
        if self._wrong == "short":
            found["/lucky_transport.v1.StateService/SetState"] = lambda request, call=None: SetStateResponse(b"short")
        return found

    @property
    def streams(self) -> dict[str, Any]:
        def items(request: Any, call: Any) -> Any:
            for number in (0, 1, 3) if self._wrong == "lost" else (0, 1, 1):
                yield PolicySlotSummary(slot_id=number, name="x" * 1000)

        def images(request: Any, call: Any) -> Any:
            pixels = bytearray(bytes([shade(1)]) * 128)
            if self._wrong == "torn":
                pixels[-1] = shade(2)
            while True:
                yield ImageFrame(bytes(pixels), 8, 4, 4, "raw", 0, 1)

        return {"/hazel.rpc.AgentService/StreamPolicySlotState": items, "/hazel.rpc.CameraService/StreamCamera": images}


def messages(client: Any) -> Any:
    return measure_messages(client, 1000, QUICK, None)


def answers(client: Any) -> Any:
    plan = plan_of_commands(("inproc",), None, rounds=1, quick=True)
    return measure(client, Cell("bytes", "inproc", size=1000), plan, None)


def views(client: Any) -> Any:
    return measure_images(client, "view", QUICK, None)


def copies(client: Any) -> Any:
    return measure_images(client, "copy", QUICK, None)


@pytest.mark.parametrize(
    ("measured", "wrong", "complaint"),
    [
        (messages, "lost", "item 3 of 1000 bytes where item 2"),
        (messages, "doubled", "item 1 of 1000 bytes where item 2"),
        (answers, "short", "an answer of 5 bytes to a request of 1000"),
        (views, "torn", "is torn"),
        (copies, "torn", "is torn"),
        (views, "stale", "image 1 came after image 1"),
        (copies, "stale", "image 1 came after image 1"),
    ],
)
def test_a_wrong_answer_ends_the_measurement(measured: Callable[[Any], Any], wrong: str, complaint: str) -> None:
    with (
        api.serve(Forger(wrong), "inproc://forger"),
        api.connect("inproc://forger") as client,
        pytest.raises(RemoteProtocolError, match=complaint),
    ):
        measured(client)


SET_STATE = method("/lucky_transport.v1.StateService/SetState")


def test_the_engine_answers_with_what_it_was_asked() -> None:
    with api.serve("echo", "inproc://echo"), api.connect("inproc://echo") as client:
        assert client.lidar.get_beam_count(7).beams == 7
        assert client.lidar.get_beam_angles(8).beams == 8
        assert client.transport.call(SET_STATE, SetStateRequest(0, b"state")).observation == b"state"
        items = list(client.agent.stream_policy_slot_state(slot_id=3))
        assert [(item.slot_id, len(item.name)) for item in items] == [(0, 1000), (1, 1000), (2, 1000)]


def test_every_byte_of_a_image_tells_its_number() -> None:
    with (
        api.serve(EchoEngine(width=8, height=4), "inproc://echo"),
        api.connect("inproc://echo") as client,
        client.camera.stream("any") as stream,
    ):
        for number in range(1, 10):
            frame = next(stream)
            assert (frame.frame_number, frame.width, frame.height, frame.channels) == (number, 8, 4, 4)
            assert bytes(frame.data) == bytes([shade(number)]) * (8 * 4 * 4)


@pytest.mark.parametrize("options", [{"width": 0}, {"item_bytes": -1}])
def test_the_engine_refuses_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="echo engine"):
        api.make_engine("echo", **options)
    with pytest.raises(ConfigError, match=r"engine 'echo' has no option 'hieght'; did you mean 'height'\? options: "):
        api.make_engine("echo", hieght=5)
    with pytest.raises(UnknownName, match="engine 'echo' has no variant 'loud'; use echo"):
        api.make_engine("echo:loud")


def test_a_step_takes_as_long_as_it_was_told_and_changes_nothing() -> None:
    with api.serve("echo", "inproc://echo", options={"step_s": 0.002}), api.connect("inproc://echo") as client:
        start = time.perf_counter()
        frame = client.transport.step(np.zeros(client.spec.action_shape, np.float32))
        assert time.perf_counter() - start >= 0.002
        assert not frame.observations.any()
        assert client.spec.engine == "echo"
