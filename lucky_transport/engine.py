"""The contract of an engine: anything that can be stepped.

An engine owns no transport and no thread of the host. The order of calls is

    engine.bind(buffers)            # before the first step; again whenever the driver changes
    while running:
        ...                         # buffers.actions hold this step's actions
        engine.step(control)        # buffers.observations, rewards, ... hold the frame afterwards
    engine.close()

An engine that steps its envs independently has `parallel_envs` and `step_env` besides.

The host calls `bind`, `step` and the handlers of methods that run between steps (`Runs.ENGINE`) under one lock, never
two at a time; other handlers and streams run beside them. The control bytes say what each env does; None means that
every env steps:

    0      step
    RESET  reset this env and do not step it
    HOLD   leave this env and its rows exactly as they are
    TICK   step without new actions (the row of actions is zeros): a policy in the engine, if there is one, drives

An engine writes frames in place, and keeps no reference into buffers that it was unbound from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.cuda.memory import DeviceActions, DeviceObservations
from lucky_transport.spec.batch_spec import BatchSpec

if TYPE_CHECKING:
    from lucky_transport.messages import GetCameraFrameRequest, NamedImageFrame
    from lucky_transport.world import Worlds

__all__ = ["HOLD", "RESET", "TICK", "Buffers", "CallHandler", "Engine", "Handler", "StreamHandler"]

RESET = 1
HOLD = 2
TICK = 4

#: Answers one typed method: takes the request message, returns the response message.
Handler = Callable[[Any], Any]

#: Answers one typed method: takes the request message and its call, returns the response message.
CallHandler = Callable[[Any, Call], Any]

#: Serves one stream: takes the request message and the call, yields the items until the call is over. It runs on a
#: thread of its own and is asked for an item only when the client can take one, so it never outruns its reader; it
#: touches the world only inside `call.between_steps()`.
StreamHandler = Callable[[Any, Call], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Buffers:
    """The arrays through which a driver and an engine meet; all C-contiguous, owned by the driver's transport.

    actions: spec dtype (num_envs, *action shape), read by the engine.
    observations: spec dtype (num_envs, *observation shape). rewards: float32 (num_envs,). terminated, truncated:
    uint8 (num_envs,), 0 or 1. signals: float32 (terms, num_envs). All written by the engine; valid until the next step.
    """

    actions: NDArray[Any]
    observations: NDArray[Any]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.uint8]
    truncated: NDArray[np.uint8]
    signals: NDArray[np.float32]

    @classmethod
    def allocate(cls, spec: BatchSpec) -> Buffers:
        """Return zeroed buffers in this process's own memory."""
        n = spec.num_envs
        return cls(
            np.zeros(spec.action_shape, spec.action.dtype),
            np.zeros(spec.observation_shape, spec.observation.dtype),
            np.zeros(n, np.float32),
            np.zeros(n, np.uint8),
            np.zeros(n, np.uint8),
            np.zeros((spec.num_terms, n), np.float32),
        )

    def copy_frame_to(self, other: Buffers) -> None:
        """Make `other` show the same frame; its actions are left alone."""
        for item in fields(self):
            if item.name != "actions":
                np.copyto(getattr(other, item.name), getattr(self, item.name))


class Engine(ABC):
    """A batch of envs that step together. Subclasses set `spec` in their constructor."""

    spec: BatchSpec
    #: Where the observations lie on a GPU as well, for an engine that computes them there. What it publishes shows the
    #: frame when `step` returns; the bound buffers show it too, unless it was made with a `to_host`.
    device_observations: DeviceObservations | None = None
    #: Where the engine reads its actions on a GPU, instead of in the bound buffers.
    device_actions: DeviceActions | None = None
    #: The CUDA stream of the work of a step, as a number (`torch.cuda.Stream.cuda_stream`, 0 for the default one), on
    #: the device of the published memory. `step` may then return before that work is done. None: it is done.
    device_stream: int | None = None
    #: In how many envs `step_env` may be at the same time; 0 where envs step together only.
    parallel_envs: int = 0

    @property
    def services(self) -> Mapping[str, Handler]:
        """Handlers of the typed methods this engine answers, by full method name."""
        return {}

    @property
    def call_handlers(self) -> Mapping[str, CallHandler]:
        """Handlers of the typed methods whose answers this engine waits for elsewhere, by full method name.

        Wherever the method's table says that a handler runs, these run in the pool, beside the steps.
        """
        return {}

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        """Handlers of the server streams this engine serves, by full method name."""
        return {}

    @property
    def worlds(self) -> Worlds | None:
        """The worlds that clients may hold sessions in, None for an engine that is only stepped as a batch."""
        return None

    @abstractmethod
    def bind(self, buffers: Buffers) -> None:
        """From now on actions are read from, and frames written to, `buffers`.

        The host has already copied the last frame into them; env state is not touched.
        """

    def bind_slot(self, buffers: Buffers) -> bool:
        """Write the next frame into `buffers`, the bound ones but for other observations; False: this engine cannot.

        A host asks this before each step of a driver with several observation slots. The observations show an older
        frame, only the rows of envs that are held next show the last one, so an engine returns True only if a step
        writes the whole row of every other env and reads none. It changes nothing else and takes next to no time.
        Where it returns False, at once after `bind`, the host copies observations instead; so it does for a subclass
        that has a `bind` or `step` of its own and no `bind_slot`.
        """
        return False

    @abstractmethod
    def step(self, control: NDArray[np.uint8] | None) -> None:
        """Advance by one exchange: afterwards the bound buffers hold the new frame.

        control: uint8 (num_envs,) of RESET / HOLD / TICK bits, None when every env steps; valid during the call only.
        The rewards must equal `total_reward(signals)`. For reset envs the host zeroes reward, flags and signals.
        """

    def step_env(self, env: int, control: int) -> None:
        """Step one env (control 0) or reset it (RESET); read and write its rows of the bound buffers alone.

        For engines with `parallel_envs`. The host calls it on threads of its own, for several envs at the same time,
        for one env never twice at a time, and never beside `bind`, `step` or a handler that runs between steps. An env
        takes the same course as in `step`. For a reset the host zeroes reward, flags and signals.
        """
        raise NotImplementedError(f"engine {self.spec.engine!r} steps its envs together only")

    def check_camera_requests(self, env: int, requests: Sequence[GetCameraFrameRequest]) -> None:
        """Raise ValueError, with the camera and the remedy, when `camera_frames` could not answer; before the step."""
        if type(self).camera_frames is Engine.camera_frames:
            raise ValueError(
                f"in-step cameras are not served yet ({len(requests)} requested); send the Step without camera_requests"
            )

    def camera_frames(self, env: int, requests: Sequence[GetCameraFrameRequest]) -> list[NamedImageFrame]:
        """Return the images a Step of `env` asked for, in the order of `requests`; called right after the step.

        Engines with cameras override this and `check_camera_requests`.
        """
        raise NotImplementedError(f"engine {self.spec.engine!r} has no cameras")

    def leave(self, caller: str) -> None:  # noqa: B027 - most engines hold nothing for a client
        """Release what the calls of a client that has gone left behind; any thread, also for clients never seen."""

    def close(self) -> None:  # noqa: B027 - most engines hold nothing
        """Release what the engine holds; called once, after the last step."""
