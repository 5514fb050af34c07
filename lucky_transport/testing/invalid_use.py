"""Invalid calls: each must raise the same class with the same text on every transport, before it reaches the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lucky_transport.messages.methods import method
from lucky_transport.testing.suite import zeros
from lucky_transport.transport import Transport

__all__ = ["AFTER_CLOSE", "INVALID_CALLS"]

Call = Callable[[Transport], object]


def _with(transport: Transport, value: Any, at: int) -> Any:
    actions = zeros(transport)
    actions.flat[at] = value
    return actions


def _wider(transport: Transport, envs: int, values: int) -> Any:
    n, *shape = transport.spec.action_shape
    return np.zeros((n + envs, *(extent + values for extent in shape)))


def _control(transport: Transport, extra: int, dtype: Any) -> Any:
    return np.zeros(transport.spec.num_envs + extra, dtype)


def _get_model_info(transport: Transport) -> object:
    row = method("/hazel.rpc.MujocoSceneService/GetModelInfo")
    return transport.call(row, row.request())


#: Wrong calls of a transport whose engine has real-valued actions.
INVALID_CALLS: Mapping[str, Call] = {
    "recv without send": lambda t: t.recv(),
    "one env too many": lambda t: t.step(_wider(t, 1, 0)),
    "one value too many": lambda t: t.step(_wider(t, 0, 1)),
    "one axis too many": lambda t: t.step(zeros(t)[None]),
    "no axis at all": lambda t: t.step(np.float32(0)),  # pyright: ignore[reportArgumentType]
    "text": lambda t: t.step(np.full(t.spec.action_shape, "left")),
    "complex numbers": lambda t: t.step(np.zeros(t.spec.action_shape, np.complex64)),
    "objects": lambda t: t.step(np.full(t.spec.action_shape, None)),
    "nothing": lambda t: t.step(None),  # pyright: ignore[reportArgumentType]
    "NaN in the first place": lambda t: t.step(_with(t, np.nan, 0)),
    "NaN in the last place": lambda t: t.step(_with(t, np.nan, -1)),
    "infinity": lambda t: t.step(_with(t, np.inf, -1)),
    "minus infinity": lambda t: t.step(_with(t, -np.inf, 0)),
    "NaN as float64": lambda t: t.step(_with(t, np.nan, 0).astype(np.float64)),
    "a float64 too large for float32": lambda t: t.step(np.full(t.spec.action_shape, 1e300)),
    "a control byte too many": lambda t: t.step(zeros(t), _control(t, 1, np.uint8)),
    "a control byte too few": lambda t: t.step(zeros(t), _control(t, -1, np.uint8)),
    "control of another type": lambda t: t.step(zeros(t), _control(t, 0, np.int64)),
    "control as a list": lambda t: t.step(zeros(t), [0] * t.spec.num_envs),  # pyright: ignore[reportArgumentType]
    "a method the engine lacks": _get_model_info,
}

#: What a closed transport is asked for.
AFTER_CLOSE: Mapping[str, Call] = {
    "send": lambda t: t.send(zeros(t)),
    "recv": lambda t: t.recv(),
    "step": lambda t: t.step(zeros(t)),
    "call": _get_model_info,
}
