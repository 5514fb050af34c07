"""What is done over several transports at once is compared where all of them stand in one state."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import unique_name
from lucky_transport.transport import Frame
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts
from lucky_transport_migration.side_by_side.tee_transport import SideBySideTransport
from tests.planted.plant import PlantedTransport


class EarlyStep(PlantedTransport):
    """An engine that has made each step before anything else is asked of it."""

    _frame: Frame | None = None

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        super().send(actions, control)
        self._frame = super().recv()

    def recv(self, deadline: Deadline | None = None) -> Frame:
        assert self._frame is not None
        return self._frame


class LateStep(PlantedTransport):
    """An engine that begins each step only when its frame is asked for."""

    _waits: tuple[Any, ...] = ()

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._waits = (actions.copy(), control)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        if self._waits:
            super().send(*self._waits)
            self._waits = ()
        return super().recv(deadline)


def test_a_typed_call_beside_a_step_is_compared_in_the_state_after_it() -> None:
    with ExitStack() as stack:
        served = [stack.enter_context(api.serve("toy", f"inproc://{unique_name()}", num_envs=2)) for _ in range(2)]
        one, other = (stack.enter_context(closing(api.open_transport(str(each.endpoints[0])))) for each in served)
        counts = ComparisonCounts()
        env = VectorEnv(
            SideBySideTransport({"early": EarlyStep(one), "late": LateStep(other)}, ComparisonRules(), counts)
        )
        env.reset(seed=1)
        for _ in range(5):
            env.step_async(np.full(env.batch_spec.action_shape, 0.5, np.float32))
            env.client.mujoco.get_joint_state("agent_1")
            env.step_wait()
        assert (counts.exchanges, counts.calls, counts.differences) == (6, 6, [])
