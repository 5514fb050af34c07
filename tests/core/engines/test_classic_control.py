"""Cart-poles and pendulums keep the contract, and move as Gymnasium's."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorld
from lucky_transport.engines.pendulum import PendulumEngine, make_engine, sine
from lucky_transport.errors import ConfigError, SpecError, UnknownName
from lucky_transport.messages import GetJointStateRequest, SetSeedsRequest
from lucky_transport.testing.contract import EngineContract


def state_of(world: CartPoleWorld) -> list[float]:
    """Return position, velocity, angle and angular velocity."""
    seen = world.observe()
    return [seen.cart_position, seen.cart_velocity, seen.pole_angle, seen.pole_angular_velocity]


@pytest.mark.parametrize("seed", range(5))
def test_it_moves_as_gymnasiums_cart(seed: int) -> None:
    world = CartPoleWorld(seed)
    reference: Any = gymnasium.make("CartPole-v1").unwrapped
    reference.reset()
    reference.state = tuple(state_of(world))
    for push in np.random.default_rng(seed).integers(0, 2, 200):
        world.act([CartPoleCommand(bool(push))])
        world.tick()
        _, _, terminated, _, _ = reference.step(int(push))
        np.testing.assert_allclose(state_of(world), [float(value) for value in reference.state], rtol=1e-12)
        assert world.is_over is terminated
        if terminated:
            break
    assert world.is_over


def test_the_same_wind_blows_whatever_is_commanded() -> None:
    """A gust and a push add up: the first tick's speeds of a pushed and an idle cart differ by the push alone."""

    def speed_gained(wind: float, *commands: CartPoleCommand) -> float:
        world = CartPoleWorld(1, initial_angle=0.0, wind=wind)
        world.act(commands)
        world.tick()
        return world.observe().cart_velocity

    push = CartPoleCommand(True)
    assert speed_gained(5.0) != 0
    assert speed_gained(5.0, push) - speed_gained(5.0) == pytest.approx(speed_gained(0.0, push))


def test_the_score_counts_the_ticks_that_the_pole_was_up() -> None:
    world = CartPoleWorld(0, initial_angle=0.2)
    events: list[str] = []
    while not world.is_over:
        events += world.tick()
    assert events == ["fell", "game_over"]
    assert world.score == world.ticks - 1 > 0


class TestPendulumEngine(EngineContract):
    def make_engine(self, num_envs: int) -> PendulumEngine:
        return PendulumEngine(num_envs, max_ticks=10)


def bound(num_envs: int, **options: Any) -> tuple[PendulumEngine, Buffers]:
    engine = PendulumEngine(num_envs, **options)
    buffers = Buffers.allocate(engine.spec)
    engine.bind(buffers)
    engine.step(np.full(num_envs, RESET, np.uint8))
    return engine, buffers


def joint_state(engine: PendulumEngine, name: str = "") -> Any:
    return engine.services["/hazel.rpc.MujocoService/GetJointState"](GetJointStateRequest(name))


@pytest.mark.parametrize("seed", range(3))
def test_one_tick_moves_as_gymnasiums_pendulum_does(seed: int) -> None:
    engine, buffers = bound(1, seed=seed)
    reference: Any = gymnasium.make("Pendulum-v1").unwrapped
    reference.reset()
    for torque in np.random.default_rng(seed).uniform(-3, 3, 300).astype(np.float32):
        state = joint_state(engine).state
        reference.state = np.array([state.positions[0], state.velocities[0]])
        buffers.actions[:] = torque
        engine.step(None)
        observation, reward, _, _, _ = reference.step(np.array([torque]))
        np.testing.assert_allclose(buffers.observations[0], observation, atol=2e-6)
        np.testing.assert_allclose(buffers.rewards[0], reward, rtol=1e-6, atol=1e-6)


def test_the_sine_is_off_by_at_most_a_millionth() -> None:
    angles = np.linspace(-np.float32(3.1415927), np.float32(3.1415927), 10_001, dtype=np.float32)
    assert sine(angles).dtype == np.float32
    np.testing.assert_allclose(sine(angles), np.sin(angles.astype(np.float64)), atol=1e-6)


def test_equal_seeds_start_equal_episodes_whatever_the_other_envs_do() -> None:
    engine, buffers = bound(3)
    engine.services["/lucky_transport.v1.BatchService/SetSeeds"](SetSeedsRequest([7, 7, 8]))
    engine.step(np.array([RESET, HOLD, RESET], np.uint8))
    engine.step(np.array([0, RESET, RESET], np.uint8))
    first = buffers.observations[1].copy()
    engine.services["/lucky_transport.v1.BatchService/SetSeeds"](SetSeedsRequest([7, 0, 0], b"\1\0\0"))
    engine.step(np.array([RESET, HOLD, HOLD], np.uint8))
    np.testing.assert_array_equal(buffers.observations[0], first)
    assert not (buffers.observations[2] == first).all()


def test_an_episode_is_truncated_after_its_ticks() -> None:
    engine, buffers = bound(2, max_ticks=2)
    engine.step(None)
    assert buffers.truncated.tolist() == [0, 0]
    engine.step(np.array([0, HOLD], np.uint8))
    assert (buffers.truncated.tolist(), buffers.signals[3].tolist()) == ([1, 0], [1.0, 0.0])


def test_wrong_arguments_are_refused() -> None:
    engine, _ = bound(2)
    assert not engine.services["/lucky_transport.v1.BatchService/SetSeeds"](SetSeedsRequest([1])).success
    assert not joint_state(engine, "agent_2").success
    with pytest.raises(SpecError, match="max_ticks 0"):
        PendulumEngine(max_ticks=0)
    with pytest.raises(ConfigError, match="gravity"):
        make_engine(gravity=9.81)
    with pytest.raises(UnknownName):
        make_engine("double")
