"""`make` and `connect` over the pipe: the trajectories of `inproc`, bit for bit, from an engine in its own process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import RESET
from lucky_transport.errors import Busy, ConfigError, RemoteProtocolError, SpecError
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.testing.trajectories import first_difference, record_env
from lucky_transport_pipe.address import path_of
from lucky_transport_pipe.frame_layout import FrameLayout, pack_request, unpack_request
from lucky_transport_pipe.rules import SessionRules, rules_of

SPEC = BatchSpec("x", 3, ArraySpec("uint8", (5,)), ArraySpec("float32", (2,)), termination_terms=("over",))


@pytest.mark.parametrize("engine", ["toy", "cartpole"])
def test_make_gives_the_references_trajectory(engine: str) -> None:
    found: list[Any] = []
    for transport in ("pipe", "inproc"):
        with lucky_transport.make(engine, num_envs=3, seed=4, transport=transport) as env:
            found.append(record_env(env, 60, seed=9))
    assert first_difference(*found) is None
    assert found[0]["observations"].any()


def test_one_engine_is_driven_over_one_transport_at_a_time(name: str) -> None:
    with api.serve("toy", [f"pipe://{name}", f"inproc://{name}"]) as serving:
        pipe, inproc = (api.open_transport(each) for each in serving.endpoints)
        with pipe, inproc:
            pipe.step(pipe.actions, np.full(1, RESET, np.uint8))
            with pytest.raises(Busy, match=r"driven by pipe client of pid \d+"):
                inproc.step(inproc.actions)


def test_a_served_pipe_without_a_name_gets_one() -> None:
    with api.serve("toy", "pipe:") as serving, api.open_transport(serving.endpoints[0]) as client:
        assert client.spec.engine == "toy"


# -- names and options ------------------------------------------------------------------------------------------------


def test_a_pipe_is_where_dotnet_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert path_of("train") == "/var/tmp/CoreFxPipe_train"
    assert path_of(r"\\.\pipe\train") == "/var/tmp/CoreFxPipe_train"
    assert path_of("/run/x.sock") == "/run/x.sock"
    monkeypatch.delenv("TMPDIR")
    assert path_of("train") == "/tmp/CoreFxPipe_train"


@pytest.mark.parametrize("wrong", ["", "a/b", "x" * 200, "a\0b"])
def test_a_name_that_makes_no_path_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError):
        path_of(wrong)


def test_connect_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="names no pipe"):
        api.open_transport("pipe:")


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "x"
    place.write_text("precious")
    with pytest.raises(ConfigError, match="no socket is there"):
        api.open_transport(f"pipe://{place}")
    assert place.read_text() == "precious"


def test_a_place_that_somebody_listens_at_is_left_to_him(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path_of(name))
        listener.listen(1)
        with pytest.raises(Busy, match="another program listens"):
            api.open_transport(f"pipe://{name}")
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.connect(path_of(name))
        Path(path_of(name)).unlink()


def test_an_endpoint_says_the_rules() -> None:
    endpoint = Endpoint.parse("pipe://x?slots=3&stepping=barrier&timeout_s=2.5")
    assert rules_of(endpoint, 60.0) == SessionRules(3, True, 2.5)
    assert rules_of(Endpoint.parse("pipe://x"), 7.0) == SessionRules(16, False, 7.0)


@pytest.mark.parametrize("wrong", ["slots=0", "slots=a", "stepping=fast", "timeout_s=0", "timeout_s=nan", "color=red"])
def test_a_wrong_rule_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="write for instance"):
        rules_of(Endpoint.parse(f"pipe://x?{wrong}"), 60.0)


# -- frames as bytes --------------------------------------------------------------------------------------------------


def test_a_request_comes_back_as_it_was() -> None:
    actions = np.arange(6, dtype=np.float32).reshape(3, 2)
    for control in (None, np.array([0, 1, 2], np.uint8)):
        seq, found, told = unpack_request(SPEC, pack_request(7, actions, control))
        assert seq == 7
        assert found.tobytes() == actions.tobytes()
        assert (told is None) == (control is None)
        assert told is None or told.tolist() == [0, 1, 2]


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b[:3], lambda b: b""])
def test_a_request_of_another_size_is_refused(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(SpecError, match="an exchange of"):
        unpack_request(SPEC, change(pack_request(1, np.zeros((3, 2), np.float32), None)))


def test_actions_that_are_not_finite_are_refused_by_the_engine_too() -> None:
    actions = np.full((3, 2), np.nan, np.float32)
    with pytest.raises(SpecError, match="not finite"):
        unpack_request(SPEC, pack_request(1, actions, None))


def test_a_frame_is_a_view_of_the_response_and_another_size_is_refused() -> None:
    layout = FrameLayout(SPEC)
    memory = bytearray(layout.nbytes)
    buffers = layout.buffers(memory)
    buffers.observations[:] = 3
    buffers.rewards[:] = [1, 2, 3]
    buffers.truncated[2] = 1
    frame = layout.frame(bytes(memory))
    assert frame.observations.tolist() == [[3] * 5] * 3
    assert frame.rewards.tolist() == [1, 2, 3]
    assert frame.any_ended
    assert not frame.observations.flags.writeable
    with pytest.raises(RemoteProtocolError, match="a frame of"):
        layout.frame(bytes(memory) + b"\0")
