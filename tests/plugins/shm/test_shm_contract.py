"""The contract with each wait strategy and number of slots; the hot path: zero copies, few functions; single envs."""

import ctypes
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lucky_transport
from lucky_transport import api, native
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, EngineFailed, PeerDied, RemoteProtocolError, SegmentError, Unimplemented
from lucky_transport.messages import GetSceneInfoRequest, SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.env_words import ClientEnvWords
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.segment import open_segment
from lucky_transport.testing.async_envs_contract import GatedEngine
from lucky_transport.testing.composite_contract import CompositeContract
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.failure_contract import FailureContract
from lucky_transport.testing.stepping_contract import DialEngine, SteppingContract
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames
from lucky_transport.transport import Capabilities, Transport
from lucky_transport_shm import attachment
from tests.support.function_count import counted_here, counted_on_new_threads
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import at_once, beside

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

            at_once(ask)
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
        client.send_envs(zeros())
        with beside(lambda: answers.append(other.call(row, GetSceneInfoRequest()))):
            while not answers:
                ids, _ = client.recv_envs(1, Deadline(WAIT_S))
                client.send_envs(zeros(len(ids)), ids)
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


# --- several observation slots: the last frame stays as it is while the next is written ---


@pytest.mark.exhaustive
class TestTwoSlots(SteppingContract, CompositeContract, FailureContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True)
    endpoint = "shm://{name}"
    settings = {"observation_slots": 2}  # noqa: RUF012 - read only


@pytest.mark.exhaustive
class TestThreeSlots(SteppingContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, images=True)
    endpoint = "shm://{name}"
    settings = {"observation_slots": 3}  # noqa: RUF012 - read only


class CopiedPendulum(PendulumEngine):
    """An engine that cannot write into a slot: the host copies."""

    def bind_slot(self, buffers: Buffers) -> bool:
        return False


@contextmanager
def served(engine: Engine, slots: int) -> Generator[Transport]:
    settings: dict[str, Any] = {"observation_slots": slots}
    with (
        api.serve(engine, f"shm://{unique_name()}", **settings) as serving,
        api.open_transport(serving.endpoints[0], load_settings(settings)) as client,
    ):
        yield client


def segment_of(serving: Any) -> Any:
    return serving._servers[0]._end.segment


def control_of(*codes: int) -> NDArray[np.uint8]:
    return np.array(codes, np.uint8)


# -- the frames


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize(
    "make", [ScriptedEngine, PendulumEngine, CopiedPendulum, DialEngine], ids=lambda make: make.__name__
)
def test_every_frame_has_the_bits_that_it_has_in_one_slot(make: Any, slots: int) -> None:
    with served(make(5), 1) as one, served(make(5), slots) as several:
        assert (one.observation_slots, several.observation_slots) == (1, slots)
        moves = random_moves(one.spec, 80, 7, hold=True)
        assert first_difference(record_frames(one, moves), record_frames(several, moves)) is None


@pytest.mark.parametrize("make", [PendulumEngine, CopiedPendulum], ids=["in place", "copied"])
def test_a_frame_stays_as_it_is_for_as_many_exchanges_as_there_are_other_slots(make: Any) -> None:
    with served(make(2), 3) as client:
        kept: list[tuple[NDArray[Any], bytes]] = []
        for number in range(9):
            client.send(client.actions, control_of(RESET, RESET) if number == 0 else None)
            frame = client.recv()
            for view, before in kept[-2:]:
                assert view.tobytes() == before
            kept.append((frame.observations, frame.observations.tobytes()))
        assert len({view.ctypes.data for view, _ in kept}) == 3


class Refusing(PendulumEngine):
    """Refuses the exchanges whose action of env 0 is 1.5, before it writes anything."""

    def bind_slot(self, buffers: Buffers) -> bool:
        return super().bind_slot(buffers)

    def step(self, control: NDArray[np.uint8] | None) -> None:
        if self._buffers.actions[0, 0] == 1.5:
            raise ArithmeticError("refused")
        super().step(control)


@pytest.mark.parametrize("base", ["in place", "copied"])
def test_after_exchanges_without_a_frame_held_rows_show_the_last_frame(base: str) -> None:
    copied = type("Copied", (Refusing,), {"bind_slot": CopiedPendulum.bind_slot})
    with served((Refusing if base == "in place" else copied)(2), 2) as client:
        client.step(client.actions, control_of(RESET, RESET))
        client.actions[:] = 1.0
        for refusals in (1, 2, 3):
            last = client.step(client.actions).observations.copy()
            client.actions[:] = 1.5
            for _ in range(refusals):
                with pytest.raises(EngineFailed, match="refused"):
                    client.step(client.actions)
            client.actions[:] = 1.0
            np.testing.assert_array_equal(client.step(client.actions, control_of(HOLD, HOLD)).observations, last)


class KeepsItsBuffers(PendulumEngine):
    """A subclass from before there were slots: it writes where `bind` said."""

    def bind(self, buffers: Buffers) -> None:
        super().bind(buffers)
        self.kept = buffers

    def step(self, control: NDArray[np.uint8] | None) -> None:
        super().step(control)
        self.kept.observations[:] = self.kept.actions


def test_a_subclass_whose_step_knows_of_no_slots_is_copied() -> None:
    with served(KeepsItsBuffers(2), 2) as client:
        for number in range(6):
            client.actions[:] = number
            assert (client.step(client.actions).observations == number).all()


@pytest.mark.parametrize("make", [PendulumEngine, CopiedPendulum], ids=["in place", "copied"])
def test_the_next_driver_finds_the_last_frame_whatever_slot_it_was_in(make: Any) -> None:
    with api.serve(make(2), f"shm://{unique_name()}", observation_slots=2) as serving:
        last: NDArray[Any] | None = None
        for steps in (1, 2, 3):
            with api.open_transport(serving.endpoints[0]) as client:
                control = control_of(RESET, RESET) if last is None else control_of(HOLD, HOLD)
                frame = client.step(client.actions, control)
                if last is not None:
                    np.testing.assert_array_equal(frame.observations, last)
                for _ in range(steps):
                    last = client.step(client.actions).observations.copy()


# -- peers that know of one slot only


def test_a_client_that_knows_of_one_slot_gets_every_frame_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachment, "UNDERSTOOD", header.ENGINE_FEATURES)
    with (
        api.serve(ScriptedEngine(2), f"shm://{unique_name()}", observation_slots=2) as serving,
        api.serve(ScriptedEngine(2), f"shm://{unique_name()}") as plain,
        api.open_transport(plain.endpoints[0]) as expected,
    ):
        segment: Any = segment_of(serving)
        features = header.get(segment.mapping, "engine_features")
        header.put(segment.mapping, "engine_features", features & ~Feature.SLOTS)  # what such a client reads
        with api.open_transport(serving.endpoints[0]) as client:
            moves = random_moves(client.spec, 30, 5, hold=True)
            assert client.observation_slots == 1
            assert first_difference(record_frames(client, moves), record_frames(expected, moves)) is None


def test_an_engine_that_has_one_slot_says_nothing_of_slots() -> None:
    with served(ScriptedEngine(1), 1) as client:
        mapping = client._segment.mapping  # pyright: ignore[reportAttributeAccessIssue]
        assert not header.get(mapping, "engine_features") & Feature.SLOTS
        assert header.get(mapping, "obs_slots") == 1


@pytest.mark.parametrize("slots", [0, 3, 65, 2**32 - 1])
def test_a_number_of_slots_that_does_not_fit_is_refused(slots: int) -> None:
    with api.serve(ScriptedEngine(1), f"shm://{unique_name()}", observation_slots=2) as serving:
        segment: Any = segment_of(serving)
        header.put(segment.mapping, "obs_slots", slots)
        with pytest.raises(SegmentError, match=r"obs_slots|overlaps"):
            api.open_transport(serving.endpoints[0])


# -- the env


@contextmanager
def made(slots: int, served_slots: int, scheme: str = "shm", **arguments: Any) -> Generator[VectorEnv]:
    """Yield an env of three short toys that are served in this process."""
    engine = ScriptedEngine(3, episode_steps=4)
    with (
        api.serve(engine, f"{scheme}://{unique_name()}", observation_slots=served_slots) as serving,
        lucky_transport.make(endpoint=str(serving.endpoints[0]), observation_slots=slots, **arguments) as env,
    ):
        yield env


@pytest.mark.parametrize("scheme", ["shm", "inproc"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_the_last_steps_view_outlives_the_next_step_in_every_mode(mode: str, scheme: str) -> None:
    with made(2, 3 if mode == "SameStep" else 2, scheme, copy=False, autoreset_mode=mode) as env:
        view, _ = env.reset(seed=1)
        for _ in range(12):
            before = view.copy()
            following, _, terminated, truncated, _ = env.step(np.full((3, 2), 0.4, np.float32))
            np.testing.assert_array_equal(view, before)
            view = following
            if mode == "Disabled" and (terminated | truncated).any():
                before = view.copy()
                following, _ = env.reset(options={"reset_mask": terminated | truncated})
                np.testing.assert_array_equal(view, before)
                view = following


@pytest.mark.exhaustive
def test_the_engine_that_make_starts_has_the_slots_that_its_caller_asks_for() -> None:
    with lucky_transport.make("toy", 3, transport="shm", copy=False, observation_slots=2) as env:
        assert env.transport.observation_slots == 2


def test_more_slots_than_there_are_is_an_error_that_says_where_they_come_from() -> None:
    with api.serve(ScriptedEngine(2), f"shm://{unique_name()}", observation_slots=2) as serving:
        endpoint = str(serving.endpoints[0])
        with lucky_transport.make(endpoint=endpoint, observation_slots=2) as env:
            assert env.transport.observation_slots == 2
        with pytest.raises(ConfigError, match=r"3 are needed .*transport 'shm' has 2.*--observation-slots 3"):
            lucky_transport.make(endpoint=endpoint, observation_slots=2, autoreset_mode="SameStep")
        with lucky_transport.make(endpoint=endpoint) as env:  # more than asked for does no harm
            env.reset()
    with pytest.raises(ConfigError, match="a number from 1 to 64"):
        lucky_transport.make("toy", observation_slots=0)
