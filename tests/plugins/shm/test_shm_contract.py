"""The contract with each wait strategy; the hot path: zero copies, few functions; and envs stepped on their own."""

import ctypes
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api, native
from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET, Buffers
from lucky_transport.errors import PeerDied, RemoteProtocolError, Unimplemented
from lucky_transport.messages import GetSceneInfoRequest, SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.env_words import ClientEnvWords
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.segment import open_segment
from lucky_transport.testing.async_envs_contract import GatedEngine
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.failure_contract import FailureContract
from lucky_transport.testing.stepping_contract import SteppingContract
from lucky_transport.transport import Capabilities, Transport
from tests.support.function_count import counted_here, counted_on_new_threads
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("forked_engines")


class TestShm(TransportContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True, async_envs=True)
    endpoint = "shm://{name}"


@pytest.mark.exhaustive
class TestShmBlocking(SteppingContract, FailureContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True, async_envs=True)
    endpoint = "shm://{name}"
    settings = {"wait": "block"}  # noqa: RUF012 - read only


# --- the hot path ---


def test_observations_lie_at_segment_base_plus_offset() -> None:
    with lucky_transport.make("toy", num_envs=4, transport="shm", copy=False) as env:
        observations, _ = env.reset(seed=1)
        transport: Any = env.unwrapped.transport
        base = ctypes.addressof(ctypes.c_char.from_buffer(transport._segment.mapping))
        assert observations.ctypes.data == base + transport._segment.layout["observations"].offset
        again = env.step(env.action_space.sample())[0]
        assert again.ctypes.data == observations.ctypes.data


def test_the_engine_writes_into_the_segment_itself() -> None:
    engine = ScriptedEngine(3)
    bound: list[Buffers] = []
    bind = engine.bind
    engine.bind = lambda buffers: (bound.append(buffers), bind(buffers))[1]  # type: ignore[method-assign]
    name = unique_name()
    with api.serve(engine, f"shm://{name}") as serving, api.open_transport(serving.endpoints[0]) as client:
        client.step(client.actions, np.full(3, RESET, np.uint8))
        segment = serving._servers[0]._end.segment  # type: ignore[attr-defined]
        base = ctypes.addressof(ctypes.c_char.from_buffer(segment.mapping))
        assert bound[-1].observations.ctypes.data == base + segment.layout["observations"].offset
        assert bound[-1].actions.ctypes.data == base + segment.layout["actions"].offset


_STEP_FLAT_OUT = """
import sys
from lucky_transport import api
with api.open_transport(sys.argv[1]) as transport:
    transport.step(transport.actions)
    print("stepping", flush=True)
    while True:
        transport.step(transport.actions)
"""


@pytest.mark.exhaustive
def test_a_client_that_steps_flat_out_keeps_no_other_thread_from_the_engine() -> None:
    """The serving loop keeps the host's lock from one step to the next, and takes it again at once when it gave it."""
    set_seeds = method("/lucky_transport.v1.BatchService/SetSeeds")
    with api.serve(ScriptedEngine(1, idle=True), f"shm://{unique_name()}") as serving:
        command = [sys.executable, "-c", _STEP_FLAT_OUT, str(serving.endpoints[0])]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"stepping\n"
            answers: list[Any] = []

            def ask() -> None:
                for _ in range(20):
                    answers.append(serving.host.call(set_seeds, SetSeedsRequest([0])))

            asker = threading.Thread(target=ask, daemon=True)
            asker.start()
            asker.join(PATIENCE_S)
            assert len(answers) == 20
            assert child.poll() is None
        finally:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


# --- how many of our functions a warm call enters ---


#: Functions entered in sequence, and the deepest nesting, that one call may take at each end.
CLIENT_CALLS, CLIENT_DEPTH = 17, 8
ENGINE_CALLS, ENGINE_DEPTH = 9, 7

WARM = 300


def test_a_warm_typed_call_enters_few_functions() -> None:
    endpoint = f"shm://{unique_name()}"
    with (
        counted_on_new_threads() as engine,
        api.serve("echo", endpoint),
        api.connect(endpoint) as client,
    ):
        ask = client.lidar.get_beam_count
        for _ in range(WARM):
            ask(5)
        with counted_here() as mine:
            engine.profiled(lambda: mine.profiled(lambda: ask(5)))
    assert len(mine.entered) <= CLIENT_CALLS, mine.entered
    assert mine.deepest <= CLIENT_DEPTH, mine.entered
    assert len(engine.entered) <= ENGINE_CALLS, engine.entered
    assert 1 < engine.deepest <= ENGINE_DEPTH, engine.entered


def test_a_plain_step_enters_one_function_of_the_client() -> None:
    endpoint = f"shm://{unique_name()}"
    with api.serve("toy", endpoint, num_envs=2), closing(api.make(endpoint=endpoint)) as env:
        env.reset(seed=0)
        actions = np.zeros(env.action_space.shape or (), np.float32)
        env.step(actions)
        with counted_here() as mine:
            mine.profiled(lambda: env.step(actions))
    assert mine.entered == ["vector_env.py:VectorEnv.step"]


# --- envs stepped on their own: words that lie, engines of before ---


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
        with pytest.raises(PeerDied, match="the engine is gone; connect again"):
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
