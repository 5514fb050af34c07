"""Envs stepped on their own over shared memory: sides that die, words that lie, engines of before."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from lucky_transport import api, native
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, RemoteProtocolError, Unimplemented
from lucky_transport.messages import GetSceneInfoRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.env_words import ClientEnvWords
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.segment import open_segment
from lucky_transport.testing.async_envs_contract import GatedEngine
from lucky_transport.transport import Transport

pytestmark = pytest.mark.usefixtures("forked_engines")

ENVS = 4
WAIT_S = 60.0


def zeros(rows: int = ENVS) -> Any:
    return np.zeros((rows, 2), np.float32)


@pytest.fixture
def gated() -> Generator[tuple[str, GatedEngine]]:
    engine = GatedEngine(ENVS, 2)
    with api.serve(engine, f"shm://{unique_name()}") as serving:
        yield str(serving.endpoints[0]), engine
        engine.open()


def test_the_first_send_of_a_client_that_never_stepped_takes_the_engine(gated: tuple[str, GatedEngine]) -> None:
    endpoint, engine = gated
    engine.open()
    with api.open_transport(endpoint) as client:
        client.send_envs(zeros(1), np.array([2]), np.array([1], np.uint8))
        ids, frame = client.recv_envs(1, Deadline(WAIT_S))
        assert ids.tolist() == [2]
        assert frame.observations[2].any()
        assert not frame.observations[0].any()


def test_a_call_that_runs_between_steps_is_let_in_while_envs_go_on(gated: tuple[str, GatedEngine]) -> None:
    endpoint, engine = gated
    engine.open()
    row = method("/hazel.rpc.SceneService/GetSceneInfo")
    answers: list[Any] = []
    with api.open_transport(endpoint) as client, api.open_transport(endpoint) as other:
        asking = threading.Thread(target=lambda: answers.append(other.call(row, GetSceneInfoRequest())))
        client.send_envs(zeros())
        asking.start()
        while not answers:
            ids, _ = client.recv_envs(1, Deadline(WAIT_S))
            client.send_envs(zeros(len(ids)), ids)
        asking.join()
        client.recv_envs(ENVS, Deadline(WAIT_S))


def test_a_count_that_the_engine_cannot_have_written_loses_the_connection(gated: tuple[str, GatedEngine]) -> None:
    endpoint, engine = gated
    with api.open_transport(endpoint) as client:
        client.send_envs(zeros())
        segment = open_segment(endpoint.removeprefix("shm://"), Deadline(WAIT_S))
        words = ClientEnvWords(segment, 1, np.ones(ENVS, np.bool_))
        native.store32(segment.mapping, words._word(1, 3), 77)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(RemoteProtocolError, match="the engine's count of env 3 is 77, the client has sent 1"):
            client.recv_envs(1, Deadline(WAIT_S))
        with pytest.raises(PeerDied):
            client.send_envs(zeros(1), np.array([0]))
        engine.open()


def test_an_env_that_a_client_sends_twice_is_stepped_once_at_a_time(gated: tuple[str, GatedEngine]) -> None:
    endpoint, engine = gated
    with api.open_transport(endpoint) as client:
        client.send_envs(zeros(1), np.array([1]))
        while engine.order != [1]:
            threading.Event().wait(0.001)
        segment = open_segment(endpoint.removeprefix("shm://"), Deadline(WAIT_S))
        words = ClientEnvWords(segment, 1, np.zeros(ENVS, np.bool_))
        words.send(np.array([1], np.int32), np.zeros(1, np.uint8))  # behind the client's back
        client.send_envs(zeros(1), np.array([2]))
        while engine.order != [1, 2]:
            threading.Event().wait(0.001)
        engine.open()


def test_an_engine_of_before_is_stepped_as_ever_and_says_what_it_cannot(gated: tuple[str, GatedEngine]) -> None:
    endpoint, engine = gated
    segment = open_segment(endpoint.removeprefix("shm://"), Deadline(WAIT_S))
    features = header.get(segment.mapping, "engine_features")
    assert features & Feature.ENVS
    header.put(segment.mapping, "engine_features", features & ~Feature.ENVS)
    header.put(segment.mapping, "envs_offset", 0)
    client: Transport
    with api.open_transport(endpoint) as client:
        assert not client.capabilities.async_envs
        client.step(zeros())
        with pytest.raises(Unimplemented, match="steps its envs together"):
            client.send_envs(zeros())
    engine.open()
