"""The cart moves as the one of the textbook: beside Gymnasium's own, bit for bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorld


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


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    def run(seed: int) -> list[float]:
        world = CartPoleWorld(seed, wind=5.0)
        for _ in range(5):
            world.tick()
        return state_of(world)

    assert run(4) == run(4) != run(5)


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
