"""The legacy Step: one agent per call.

Rule 1: a call steps its agent alone, in one exchange with all other envs held. Calls that say they belong to one batch
(metadata) are gathered and become one exchange together; if one of them is refused, none of them steps.
Rule 2: the Step after a ResetAgent shows what the reset led to and does not step, when it is marked for that (our
client), or when it is the real client's zero action on an engine whose reset has ticked already.
Rule 3: what one agent did wrong is said in its response (success = false); what concerns the engine is a status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from lucky_transport.errors import LocalProtocolError
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.gathering import Gathering
from lucky_transport_grpc.metadata import AFTER_RESET
from lucky_transport_grpc.seat import STEP, Seat, only
from lucky_transport_grpc.step_reply import StepReplies, Terms
from lucky_transport_grpc.step_request import env_of, read_actions

__all__ = ["AgentSteps"]


@dataclass(frozen=True, slots=True)
class _Step:
    """One agent's Step: flat `actions` for env `env`, or why there are none.

    `shows`: on an env that was reset and not stepped since, it only asks for the observation.
    """

    env: int
    actions: NDArray[Any] | None
    refusal: str = ""
    shows: bool = False


class AgentSteps:
    """The Step of one server; `terms_of` tells which terms a caller's Steps carry."""

    def __init__(self, seat: Seat, terms_of: Callable[[Caller], Terms]) -> None:
        self._seat = seat
        self._terms_of = terms_of
        self._replies = StepReplies(seat)
        self._actions = seat.buffers.actions.reshape(seat.spec.num_envs, -1)
        self.gathering: Gathering[_Step, Any] = Gathering("Step")

    def __call__(self, request: Any, caller: Caller) -> Any:
        """Answer one Step."""
        step = self._read(request, caller)
        if caller.batch:
            return self.gathering.join(step, caller, lambda steps: self._run(steps, caller))
        return self._run([step], caller)[0]

    def _read(self, request: Any, caller: Caller) -> _Step:
        spec = self._seat.spec
        try:
            env = env_of(spec, request.agent_name)
            actions = read_actions(spec, env, request)
        except (ValueError, TypeError) as error:
            return _Step(0, None, str(error))
        tick_of_reset = spec.reset_ticks == 1 and not request.action_groups and not actions.any()
        return _Step(env, actions, shows=caller.after_reset or tick_of_reset)

    def _run(self, steps: Sequence[_Step], caller: Caller) -> list[Any]:
        refused = next((step for step in steps if step.refusal), None)
        if refused is not None:
            none = f"no agent of this batch stepped, because one was refused: {refused.refusal}"
            return [self._replies.refusal(step.refusal or none) for step in steps]
        envs = [step.env for step in steps]
        if len(set(envs)) < len(envs):
            raise LocalProtocolError(f"a batch of Steps names an agent twice: {sorted(envs)}", backend="grpc")
        with self._seat.driven_by(caller.key, caller.timeout_s):
            took_us = 0
            if not self._only_shows(steps, caller):
                took_us = self._exchange(steps, envs, caller)
            return self._replies.show(envs, self._terms_of(caller), took_us)

    def _only_shows(self, steps: Sequence[_Step], caller: Caller) -> bool:
        """True when the frame already shows what is asked for; it can be asked for once."""
        env = steps[0].env
        if len(steps) == 1 and steps[0].shows and self._seat.fresh[env]:
            self._seat.fresh[env] = False
            return True
        if caller.after_reset:
            raise LocalProtocolError(
                f"agent_{env} was not reset by this client just before a Step marked with {AFTER_RESET}", backend="grpc"
            )
        return False

    def _exchange(self, steps: Sequence[_Step], envs: list[int], caller: Caller) -> int:
        took_us = 0

        def step() -> None:
            nonlocal took_us
            self._actions[envs] = [step.actions for step in steps]
            took_us = self._seat.exchange(only(self._seat.spec, envs, STEP))

        if caller.seq:
            self._seat.once(("Step", *envs), caller.seq, step)
        else:
            step()
        return took_us
