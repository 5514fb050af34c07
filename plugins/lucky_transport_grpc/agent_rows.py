"""One agent's Step response as one row of a frame, and one row of actions as a Step request has it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers
from lucky_transport.errors import EngineFailed, RemoteProtocolError, SpecError
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, total_reward
from lucky_transport.transport import Frame

_EXACT = ("float32", "int8", "int16", "uint8", "uint16", "bool")
_LARGEST_EXACT = 1 << 24
_REMEDY = "use the batch service (endpoint option service=batch; for `parity` the path grpc-batch)"


# The legacy protocol carries float32 only; what float32 cannot carry exactly is refused before the first step.
def check_exact(spec: BatchSpec) -> None:
    """Raise SpecError when observations or actions have parts, or would be rounded on their way through float32."""
    if spec.has_parts:
        raise SpecError(
            f"engine {spec.engine!r} has observations or actions with parts; AgentService.Step carries one row of "
            f"numbers",
            backend="grpc",
            hint=f"{_REMEDY}, which carries every part",
        )
    for what, array in (("observations", spec.observation), ("actions", spec.action)):
        if array.dtype not in _EXACT and not _small_integers(array):
            raise SpecError(
                f"{what} of engine {spec.engine!r} are {array.dtype}; AgentService.Step carries float32 only",
                backend="grpc",
                hint=f"{_REMEDY}, which keeps every dtype",
            )


def _small_integers(array: ArraySpec) -> bool:
    """True for integers whose bounds are known and within what float32 holds exactly (a Discrete space's values)."""
    if np.dtype(array.dtype).kind not in "iu" or array.low is None or array.high is None:
        return False
    return bool(np.min(array.low) >= -_LARGEST_EXACT and np.max(array.high) <= _LARGEST_EXACT)


class AgentRows:
    """The frame that Step responses fill row by row; rows without a response stay as they are."""

    def __init__(self, spec: BatchSpec, buffers: Buffers) -> None:
        self._spec = spec
        self._buffers = buffers
        self._observations = buffers.observations.reshape(spec.num_envs, -1)
        self._reward_rows = list(enumerate(spec.reward_terms))
        self._termination_rows = list(enumerate(spec.termination_terms, len(spec.reward_terms)))

    def to_lists(self, actions: NDArray[Any]) -> list[list[float]]:
        """Return the batch of actions as one flat list of floats per env (what protobuf packs fastest)."""
        return actions.reshape(self._spec.num_envs, -1).astype(np.float32, copy=False).tolist()

    def take_step(self, env: int, response: Any) -> None:
        """Make row `env` show what this Step led to."""
        self._take_observation(env, response)
        buffers = self._buffers
        buffers.terminated[env] = response.terminated
        buffers.truncated[env] = response.truncated
        rewards, flags = dict(response.reward_signals), dict(response.termination_flags)  # a map invents missing keys
        try:
            for row, name in self._reward_rows:
                buffers.signals[row, env] = rewards[name]
            for row, name in self._termination_rows:
                buffers.signals[row, env] = flags[name]
        except KeyError as error:
            raise RemoteProtocolError(
                f"agent_{env}: the Step carries no term {error}; it has rewards {sorted(rewards)} and "
                f"terminations {sorted(flags)}",
                backend="grpc",
                hint="negotiate all terms, or connect again, which does",
            ) from error

    def take_reset(self, env: int, response: Any) -> None:
        """Make row `env` show a reset: the observation, and no reward or flag whatever the engine reports."""
        self._take_observation(env, response)
        buffers = self._buffers
        buffers.terminated[env] = buffers.truncated[env] = 0
        buffers.signals[:, env] = 0

    def _take_observation(self, env: int, response: Any) -> None:
        if not response.success:
            raise EngineFailed(f"agent_{env} did not step: {response.message}", backend="grpc")
        values = response.observation.observations
        expected = self._observations.shape[1]
        if len(values) != expected:
            raise RemoteProtocolError(
                f"agent_{env}: {len(values)} observation values, expected {expected} as in its schema", backend="grpc"
            )
        self._observations[env] = values

    def frame(self) -> Frame:
        """Return a read-only view of all rows, with the total rewards."""
        buffers = self._buffers
        total_reward(buffers.signals, len(self._spec.reward_terms), buffers.rewards)
        frame = Frame.showing(buffers)
        frame.any_ended = bool(buffers.terminated.any() or buffers.truncated.any())
        return frame
