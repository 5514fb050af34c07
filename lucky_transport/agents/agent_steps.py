"""The Step of typed calls: one agent per call.

Rule 1: a call steps its agent alone, in one exchange with all other envs held. Several Steps that belong together
        become one exchange; if one of them is refused, none of them steps.
Rule 2: the Step after a ResetAgent shows what the reset led to and does not step, when it is marked for that (a client
        of ours), or when it is the real client's zero action on an engine whose reset has ticked already.
Rule 3: what one agent did wrong is said in its response (success = false); what concerns the engine is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.agents.seat import STEP, Driver, Seat
from lucky_transport.agents.step_reply import Pictures, StepReplies
from lucky_transport.agents.step_request import env_of, read_actions
from lucky_transport.agents.terms import Terms
from lucky_transport.engine import HOLD, TICK
from lucky_transport.errors import LocalProtocolError
from lucky_transport.messages import GetCameraFrameRequest
from lucky_transport.spec.actions import check_control

__all__ = ["AgentStep", "AgentSteps", "StepOptions"]


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One agent's Step: flat `actions` for env `env`, or why there are none (`refusal`).

    `ticks`: it brought no actions, so the engine's own policies drive. `shows`: on an env that was reset and not
    stepped since, it only asks for the observation. `cameras`: the pictures to be taken with it.
    """

    env: int
    actions: NDArray[Any] | None
    refusal: str = ""
    ticks: bool = False
    shows: bool = False
    cameras: tuple[GetCameraFrameRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What a client says beside its Steps. `seq` numbers its exchanges: one that is repeated is answered again and not
    done again (0: not numbered). `marked`: the Step only shows what the ResetAgent just before it led to.
    """

    seq: int = 0
    marked: bool = False


class AgentSteps:
    """The Steps of one seat."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._engine = seat.host.engine
        self._actions = seat.buffers.actions.reshape(seat.spec.num_envs, -1)

    def read(self, request: Any, cameras: Sequence[GetCameraFrameRequest] = (), *, marked: bool = False) -> AgentStep:
        """Return what a StepRequest, in any form, asks for; never raises for what is wrong with it."""
        spec = self._seat.spec
        try:
            env = env_of(spec, request.agent_name)
            if cameras:
                self._engine.check_camera_requests(env, cameras)
            actions = read_actions(spec, env, request)
        except (ValueError, TypeError) as error:
            return AgentStep(0, None, str(error))
        grouped = len(request.action_groups) > 0
        ticks = not grouped and len(request.actions) == 0
        tick_of_reset = spec.reset_ticks == 1 and not grouped and not actions.any()
        return AgentStep(env, actions, "", ticks, marked or tick_of_reset, tuple(cameras))

    def run(
        self,
        steps: Sequence[AgentStep],
        driver: Driver,
        timeout_s: float,
        replies: StepReplies,
        terms: Terms,
        options: StepOptions,
    ) -> list[Any]:
        """Do all steps in one exchange and return their responses, as `replies` makes them.

        Raises Busy, PeerTimeout, LocalProtocolError (an agent named twice, a mark without a reset, no hold) and what
        the engine's step raises.
        """
        refused = next((step for step in steps if step.refusal), None)
        if refused is not None:
            none = f"no agent of this batch stepped, because one was refused: {refused.refusal}"
            return [replies.refusal(step.refusal or none) for step in steps]
        envs = [step.env for step in steps]
        if len(set(envs)) < len(envs):
            raise LocalProtocolError(f"a batch of Steps names an agent twice: {sorted(envs)}")
        with self._seat.driven_by(driver, timeout_s):
            took_us = 0
            if not self._only_shows(steps, options):
                took_us = self._exchange(steps, envs, options)
            return replies.show(envs, terms, took_us, self._pictures(steps))

    def _only_shows(self, steps: Sequence[AgentStep], options: StepOptions) -> bool:
        """True when the frame already shows what is asked for; it can be asked for once."""
        env = steps[0].env
        if len(steps) == 1 and steps[0].shows and self._seat.fresh[env]:
            self._seat.fresh[env] = False
            return True
        if options.marked:
            raise LocalProtocolError(
                f"agent_{env} was not reset by this client just before a Step marked as the one after a reset"
            )
        return False

    def _exchange(self, steps: Sequence[AgentStep], envs: list[int], options: StepOptions) -> int:
        took_us = 0

        def step() -> None:
            nonlocal took_us
            self._actions[envs] = [step.actions for step in steps]
            took_us = self._seat.exchange(self._control(steps))

        if options.seq:
            self._seat.once(("Step", *envs), options.seq, step)
        else:
            step()
        return took_us

    def _control(self, steps: Sequence[AgentStep]) -> NDArray[np.uint8] | None:
        """Return the control bytes by which these agents step and all others hold."""
        spec = self._seat.spec
        if len(steps) == spec.num_envs and not any(step.ticks for step in steps):
            return None
        control = np.full(spec.num_envs, HOLD, np.uint8)
        for step in steps:
            control[step.env] = TICK if step.ticks else STEP
        return check_control(spec, control)

    def _pictures(self, steps: Sequence[AgentStep]) -> list[Pictures]:
        """Return each step's camera frames; an empty list when nobody asked for any."""
        if not any(step.cameras for step in steps):
            return []
        return [self._engine.camera_frames(step.env, step.cameras) if step.cameras else () for step in steps]
