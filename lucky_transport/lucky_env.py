"""`LuckyEnv` of luckyrobots 0.5.0, over any transport and without luckyrobots and gRPC.

    from lucky_transport import LuckyEnv        # was: from luckyrobots import LuckyEnv

A program that used the original only as a Gymnasium env runs unchanged and gets the same numbers. The endpoint comes
from the configuration (`LUCKY_ENDPOINT`, lucky_transport.toml) or the argument `endpoint`. Failed resets and
dicts of randomisations, which the original ignores, have their effect here. For speed, step a batch of agents with
`lucky_transport.make`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.closing import Closing
from lucky_transport.config import load_settings
from lucky_transport.errors import EngineFailed, SpecError
from lucky_transport.messages import (
    ObservationContract,
    ObservationTermRequest,
    RewardContract,
    RewardTermRequest,
    SimulationContract,
    StepResponse,
    TaskContract,
    TerminationContract,
    TerminationTermRequest,
)
from lucky_transport.messages.values import EncodeError, message_from

__all__ = ["LuckyEnv"]

_log = logging.getLogger("lucky_transport")

#: The termination term that cuts an episode short, and the parameter that says when.
_TIME_OUT, _EPISODE_S = "time_out", "max_episode_length_s"


class LuckyEnv(Closing):
    """One agent of an engine as a Gymnasium env (reset, step, close), without the base class, as the original.

    observation_space: float32 (observation_size,), unbounded. action_space: float32 (action_size,), -1 to 1.
    reward_fn(signals by term) gives the reward, by default their sum. reward_terms, termination_terms,
    observation_terms are negotiated with the engine. `host` and `port` count where no endpoint is configured; `timeout`
    is that of connecting and of every call, in seconds. `robot` and `scene` name the task; `auto_start` starts nothing.

    Raises NotReachable, EngineFailed (no agent is ready, the task was refused), SpecError (unknown randomisation).
    """

    metadata: Mapping[str, Any] = {"render_modes": []}

    def __init__(
        self,
        robot: str = "unitreego2",
        scene: str = "velocity",
        reward_fn: Callable[[dict[str, float]], float] | None = None,
        reward_terms: Sequence[str] | None = None,
        termination_terms: Sequence[str] | None = None,
        observation_terms: Sequence[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 50051,
        timeout: float = 30.0,
        randomization_cfg: Any = None,
        max_episode_length_s: float = 20.0,
        auto_start: bool = False,
        agent_name: str = "",
        *,
        endpoint: str | None = None,
    ) -> None:
        self._reward_fn = reward_fn or _total
        self._agent_name = agent_name
        self._contract = _simulation_contract(randomization_cfg)
        self._timeout_s = timeout
        self._steps = 0
        where = endpoint or load_settings().endpoint or f"grpc://{host}:{port}"
        self._client = api.connect(where, connect_timeout_s=timeout)
        try:
            schema = self._client.agent.get_schema(agent_name, timeout_s=timeout).schema
            if schema is None or not schema.observation_size or not schema.action_size:
                raise EngineFailed(
                    f"the engine at {where} has no agent {agent_name or 'agent_0'!r} ready",
                    hint="load the scene, enter play mode, and give it an external agent",
                )
            self.observation_space = spaces.Box(-np.inf, np.inf, (schema.observation_size,), np.float32)
            self.action_space = spaces.Box(-1.0, 1.0, (schema.action_size,), np.float32)
            if reward_terms or termination_terms:
                self._negotiate(
                    TaskContract(
                        task_id=f"{robot}_{scene}",
                        robot=robot,
                        scene=scene,
                        rewards=_rewards(reward_terms or ()),
                        terminations=_terminations(termination_terms or (), max_episode_length_s),
                        observations=_observations(observation_terms or ()),
                    )
                )
        except BaseException:
            self._client.close()
            raise

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; return its first observation, float32 (observation_size,), and info.

        seed, options: ignored, as the original does; the engine seeds itself. Raises EngineFailed, PeerTimeout,
        PeerDied.
        """
        self._steps = 0
        answer = self._client.agent.reset(
            self._agent_name, simulation_contract=self._contract, timeout_s=self._timeout_s
        )
        if not answer.success:
            raise EngineFailed(f"the engine did not reset its agent: {answer.message}")
        response = self._step([0.0] * self.action_space.shape[0])
        return _observation(response), self._info(response)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Apply an action, (action_size,), for one tick; return observation, reward, terminated, truncated and info.

        Raises EngineFailed (no tick), PeerTimeout, PeerDied, SpecError for values that are no action.
        """
        self._steps += 1
        response = self._step(np.asarray(action, np.float32).ravel().tolist())
        signals = dict(response.reward_signals)
        info = self._info(response) | {"reward_signals": signals}
        return _observation(response), self._reward_fn(signals), response.terminated, response.truncated, info

    def close(self) -> None:
        """End the connection; idempotent."""
        self._client.close()

    def _step(self, actions: list[float]) -> StepResponse:
        response = self._client.agent.step(self._agent_name, actions=actions, timeout_s=self._timeout_s)
        if not response.success:
            raise EngineFailed(f"the engine made no step: {response.message}")
        return response

    def _info(self, response: StepResponse) -> dict[str, Any]:
        info: dict[str, Any] = dict(response.info)
        if response.termination_flags:
            info["termination_flags"] = dict(response.termination_flags)
        frame = response.observation
        return info | {"frame_number": 0 if frame is None else frame.frame_number, "step_count": self._steps}

    def _negotiate(self, contract: TaskContract) -> None:
        answer = self._client.agent.negotiate_task(contract=contract, timeout_s=self._timeout_s)
        if not answer.success:
            raise EngineFailed(f"the engine refused task {contract.task_id!r}: {answer.message}")
        for one in answer.validation.warnings if answer.validation is not None else ():
            _log.warning("task: %s %s: %s; %s", one.component, one.term_name, one.message, one.suggestion)


def _total(signals: dict[str, float]) -> float:
    """Add exactly, so that the sum does not depend on the order in which a transport delivers the terms."""
    return math.fsum(signals.values())


def _observation(response: StepResponse) -> NDArray[np.float32]:
    return np.array([] if response.observation is None else response.observation.observations, np.float32)


def _rewards(terms: Sequence[str]) -> RewardContract | None:
    return RewardContract([RewardTermRequest(name, 1.0) for name in terms]) if terms else None


def _terminations(terms: Sequence[str], episode_s: float) -> TerminationContract | None:
    requests = [
        TerminationTermRequest(name, name == _TIME_OUT, {_EPISODE_S: str(episode_s)} if name == _TIME_OUT else {})
        for name in terms
    ]
    return TerminationContract(requests) if requests else None


def _observations(terms: Sequence[str]) -> ObservationContract | None:
    return ObservationContract([ObservationTermRequest(name, group="policy") for name in terms]) if terms else None


def _simulation_contract(given: Any) -> SimulationContract | None:
    """Return the contract of every reset: as given, or made of a dict, or of an object's attributes of those names."""
    if given is None or isinstance(given, SimulationContract):
        return given
    names = [field.name for field in fields(SimulationContract)]
    if isinstance(given, Mapping):
        values = dict(cast("Mapping[str, Any]", given))
        if unknown := sorted(set(values) - set(names)):
            raise SpecError(f"unknown randomisation {', '.join(unknown)}", hint=f"known are {', '.join(names)}")
    else:
        values = {name: getattr(given, name) for name in names if hasattr(given, name)}
    try:
        return message_from(SimulationContract, {name: value for name, value in values.items() if value is not None})
    except EncodeError as error:
        raise error.within("randomization_cfg") from None
