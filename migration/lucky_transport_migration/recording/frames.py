"""A step as an entry, what it sent, and the frame that came."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers
from lucky_transport.errors import ConfigError
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame
from lucky_transport_migration.evidence.outcome import CallOutcome
from lucky_transport_migration.recording.entries import Step

__all__ = ["moves_of", "recorded_frame", "step_entry"]


def step_entry(actions: bytes, control: bytes | None, frame: Frame | None, outcome: CallOutcome) -> Step:
    """Return the entry of an exchange; frame: None where it failed, as the outcome says."""
    us = round(outcome.took_us, 1)
    if frame is None:
        return Step(0, actions, control, code=outcome.code, details=outcome.details, us=us)
    return Step(
        frame.seq,
        actions,
        control,
        frame.observations.tobytes(),
        frame.rewards.tobytes(),
        frame.terminated.tobytes(),
        frame.truncated.tobytes(),
        frame.signals.tobytes(),
        us=us,
    )


def moves_of(step: Step, spec: BatchSpec) -> tuple[NDArray[Any], NDArray[np.uint8] | None]:
    """Return the actions and control bytes of an exchange; raises ConfigError where they do not fit the spec."""
    actions = _array("actions", step.actions, np.dtype(spec.action.dtype), spec.action_shape)
    if step.control is None:
        return actions, None
    return actions, _array("control", step.control, np.dtype(np.uint8), (spec.num_envs,))


def recorded_frame(step: Step, spec: BatchSpec) -> Frame:
    """Return the frame of a recorded exchange; raises ConfigError where its arrays do not fit the spec."""
    frame = Frame.showing(Buffers.allocate(spec))
    frame.seq, frame.any_ended = step.step, True
    for name in ("observations", "rewards", "terminated", "truncated", "signals"):
        array: NDArray[Any] = getattr(frame, name)
        setattr(frame, name, _array(name, getattr(step, name), array.dtype, array.shape))
    return frame


def _array(name: str, data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    wanted = dtype.itemsize * math.prod(shape)
    if len(data) != wanted:
        raise ConfigError(f"recorded {name} of {len(data)} bytes, expected {wanted}", hint="record it anew")
    return np.frombuffer(data, dtype).reshape(shape)
