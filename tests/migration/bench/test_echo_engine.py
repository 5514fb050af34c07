"""The engine of command benchmarks: what it answers, so that a bench can tell a wrong answer."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.errors import ConfigError, SpecError, UnknownName
from lucky_transport.messages import SetStateRequest
from lucky_transport.messages.methods import method
from lucky_transport_migration.bench.echo_engine import EchoEngine, shade

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
