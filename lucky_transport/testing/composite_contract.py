"""Tests of `TransportContract`: observations and actions with parts.

An engine, its moves and its bits are the same as over `inproc`, also in the bytes between the parts. A transport that
cannot carry parts sets `carries_parts = False` and refuses such an engine by name.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.engine import RESET
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import SpecError
from lucky_transport.spec.composite import flat, unpack, views
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import TransportSuite, check_equal, every
from lucky_transport.testing.trajectories import random_actions, random_moves
from lucky_transport.transport import Transport

_ENGINE = "toy:composite"


@needs("carries_parts")
class CompositeContract(TransportSuite):
    """The part of `TransportContract` about engines with parts."""

    def open_composite(self, **options: Any) -> AbstractContextManager[tuple[Transport, Transport]]:
        """Return what `open_both` does, of engines with parts."""
        return self.open_both(_ENGINE, 3, **options)

    @needs()
    def test_an_engine_with_parts_is_carried_or_refused_by_that(self) -> None:
        refused = pytest.raises(SpecError, match="parts")
        with nullcontext() if self.carries_parts else refused, self.open_client(_ENGINE, 3) as client:
            assert client.spec.has_parts

    def test_a_spec_with_parts_arrives_unchanged(self) -> None:
        with self.open_composite() as (client, _):
            spec = api.make_engine(_ENGINE, 3).spec
            assert client.spec == spec
            assert client.spec.to_json() == spec.to_json()
            assert client.spec.observation_space() == spec.observation_space()

    def test_rows_of_parts_are_the_same_bytes_as_without_a_wire(self) -> None:
        with self.open_composite(episode_steps=7) as (client, reference):
            ended = 0
            for actions, control in random_moves(client.spec, 60, seed=6, hold=client.capabilities.hold):
                found = client.step(actions, control)
                check_equal(found, reference.step(actions, control))
                ended += np.count_nonzero(found.truncated)
            assert ended

    def test_an_envs_nested_trajectory_is_the_same_as_without_a_wire(self) -> None:
        with self.open_composite(episode_steps=5) as (client, reference):
            found = self.check_same_episodes(client, reference, "NEXT_STEP", 30)
            assert 'observations["camera"]["left"]' in found

    @needs("carries_parts", "hold")
    @pytest.mark.parametrize("mode", ["SAME_STEP", "DISABLED"])
    def test_it_is_the_same_in_modes_that_hold_envs(self, mode: str) -> None:
        with self.open_composite(episode_steps=5) as (client, reference):
            self.check_same_episodes(client, reference, mode, 30)

    def test_action_parts_written_in_place_are_the_actions(self) -> None:
        with self.open_composite() as (client, reference):
            generator = np.random.default_rng(0)
            parts = views(client.actions, client.spec.action_parts)
            for _ in range(5):
                actions = random_actions(client.spec, generator)
                for path, given in views(actions, client.spec.action_parts).items():
                    parts[path][...] = given
                found, expected = client.step(client.actions), reference.step(actions)
                assert found.observations.tobytes() == expected.observations.tobytes()

    def test_a_part_that_is_not_finite_is_refused_by_its_name_and_nothing_is_sent(self) -> None:
        with self.open_composite() as (client, _):
            env = VectorEnv(client)
            env.reset(seed=1)
            before = client.step(np.zeros(client.spec.action_shape, np.uint8)).seq
            actions = unpack(random_actions(client.spec, np.random.default_rng(0)), client.spec.action_parts)
            actions["push"][1, 0] = np.nan
            with pytest.raises(ValueError, match=r'^actions\["push"\] are not finite: nan at \[1, 0\] \(env 1\)'):
                env.step(actions)
            assert client.step(np.zeros(client.spec.action_shape, np.uint8)).seq == before + 1

    def test_views_of_parts_show_the_frame_itself_and_are_read_only(self) -> None:
        with self.open_composite() as (client, _):
            frame = client.step(np.zeros(client.spec.action_shape, np.uint8), every(client, RESET))
            shown = flat("observation", unpack(frame.observations, client.spec.observation_parts))
            assert all(np.shares_memory(array, frame.observations) for array in shown.values())
            assert not [place for place, array in shown.items() if array.flags.writeable]
