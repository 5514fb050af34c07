"""A step as an entry, what it sent, and where a new frame differs from the recorded one.

Arrays are compared by the rules of their names ("observations", "rewards", ...), without any bit for bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.composite import observation_fields
from lucky_transport.errors import ConfigError
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame
from lucky_transport_migration.evidence.numbers import first_unequal_number
from lucky_transport_migration.evidence.rules import ComparisonRules
from lucky_transport_migration.recording.entries import Step
from lucky_transport_migration.routing_policy import CallOutcome

__all__ = ["first_unequal_array", "moves_of", "step_entry"]


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


def first_unequal_array(
    step: Step, frame: Frame, spec: BatchSpec, rules: ComparisonRules
) -> tuple[str, Any, Any] | None:
    """Return the place where a frame first differs from the recorded one, and what each has there; None if nowhere.

    Raises ConfigError where the recorded arrays do not fit the frame's.
    """
    for name in ("observations", "rewards", "terminated", "truncated", "signals"):
        found: NDArray[Any] = getattr(frame, name)
        before = _array(name, getattr(step, name), found.dtype, found.shape)
        tables = [observation_fields(spec, one) if name == "observations" else {name: one} for one in (before, found)]
        for place, array in tables[0].items():
            rule = rules.rule(place, place.partition("[")[0])
            at = None if rule.skip else first_unequal_number(array, tables[1][place], rule)
            if at is not None:
                return f"{place}{_place(name, at)}", array[at].item(), tables[1][place][at].item()
    return None


def _array(name: str, data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    wanted = dtype.itemsize * math.prod(shape)
    if len(data) != wanted:
        raise ConfigError(f"recorded {name} of {len(data)} bytes, expected {wanted}", hint="record it anew")
    return np.frombuffer(data, dtype).reshape(shape)


def _place(name: str, at: tuple[int, ...]) -> str:
    env, rest = (at[1], at[:1]) if name == "signals" else (at[0], at[1:])
    return f"[env {env}]{''.join(f'[{index}]' for index in rest)}"
