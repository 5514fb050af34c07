"""Several observation slots: the last frame stays as it is while the next is written, and every frame is the same."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, EngineFailed, SegmentError
from lucky_transport.process import unique_name
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.testing.composite_contract import CompositeContract
from lucky_transport.testing.failure_contract import FailureContract
from lucky_transport.testing.stepping_contract import DialEngine, SteppingContract
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames
from lucky_transport.transport import Capabilities, Transport
from lucky_transport_shm import attachment
from tests.support.scripted_engine import ScriptedEngine


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
def test_a_policy_looks_at_the_last_step_while_the_engine_is_at_the_next() -> None:
    # an engine process of its own: that is where the setting has to arrive
    with lucky_transport.make("toy", 3, transport="shm", copy=False, observation_slots=2) as env:
        view, _ = env.reset(seed=1)
        for _ in range(6):
            before = view.copy()
            env.step_async(np.full((3, 2), 0.4, np.float32))
            np.testing.assert_array_equal(view, before)
            following = env.step_wait()[0]
            np.testing.assert_array_equal(view, before)
            view = following


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
