"""The ready-made suite for a team's own engine: subclass it in a test file, and run `pytest --lucky-between grpc,shm`.

    from lucky_transport_migration.side_by_side.suite import SideBySideSuite

    class TestArm(SideBySideSuite):
        engine = "my_team.engines:make_arm"

The moves hang on the seed, the shape of the batch and which envs ended; so a team's failure can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar

import pytest

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import SpecError, TransportError
from lucky_transport.messages.methods import METHODS, Effect
from lucky_transport_migration.parity import invalid_use
from lucky_transport_migration.parity.rollout import RolloutPlan
from lucky_transport_migration.parity.step_answers import make_move

__all__ = ["SideBySideSuite"]

_Open = Callable[..., AbstractContextManager[VectorEnv]]


class SideBySideSuite:
    """`engine`: as for the fixture `lucky_side_by_side`, "" = the configuration's; `options` go to it."""

    engine: ClassVar[Any] = ""
    num_envs: ClassVar[int] = 4
    seed: ClassVar[int] = 0
    steps: ClassVar[int] = 200
    options: ClassVar[Mapping[str, Any]] = {}

    def _open(self, lucky_side_by_side: _Open, **env: Any) -> AbstractContextManager[VectorEnv]:
        named = {"num_envs": self.num_envs, "seed": self.seed, "options": self.options}
        return lucky_side_by_side(self.engine or None, **named, **env)

    @pytest.mark.parametrize("mode", ["next_step", "same_step"])
    def test_steps_and_resets_are_equal(self, lucky_side_by_side: _Open, mode: str) -> None:
        try:
            with self._open(lucky_side_by_side, autoreset_mode=mode) as env:
                takes_options = invalid_use.outcome(env, invalid_use.reset_randomized) == "no error"
                policy = RolloutPlan(
                    env.batch_spec, self.seed, self.steps, resets=env.batch_spec.hold, options=takes_options
                )
                for _ in range(self.steps):
                    make_move(env, policy.next())
        except SpecError as refusal:
            pytest.skip(str(refusal))

    def test_what_the_engine_tells_of_itself_is_equal(self, lucky_side_by_side: _Open) -> None:
        with self._open(lucky_side_by_side) as env:
            env.reset(seed=self.seed)
            for method in METHODS:
                if method.effect is Effect.READ and method.stream is None:
                    with suppress(TransportError):  # compared as well: the same on every transport
                        env.transport.call(method, method.request())
