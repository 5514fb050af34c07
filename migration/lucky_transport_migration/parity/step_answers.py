"""One move of the policy, made on an env or on a bare transport, and everything that came back as named arrays.

What a user can see is in the answer; a field left out here is a field that parity does not prove.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.messages.methods import method
from lucky_transport.spec.composite import flat, unpack
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.compare.arrays import flatten
from lucky_transport_migration.parity.rollout import RolloutStep

#: What every engine answers alike at every moment.
_SCHEMA = method("AgentService/GetAgentSchema")
_WIDTH = 2000
#: What so many moves returned is looked at again after each further one.
_KEPT = 4


def make_move(env: VectorEnv, move: RolloutStep) -> tuple[Any, ...]:
    """Return what `step` or `reset` of `env` returned, untouched."""
    if move.kind == "step":
        parts = env.batch_spec.action_parts
        return env.step(unpack(move.actions, parts) if parts else move.actions)
    options = dict(move.options) if move.mask.all() else {"reset_mask": move.mask, **move.options}
    return env.reset(seed=move.seed, options=options or None)


def ask_beside(transport: Transport) -> NDArray[Any]:
    """Return the answer to a typed call beside the steps, as text of one width."""
    return np.array(repr(transport.call(_SCHEMA, _SCHEMA.request())), f"<U{_WIDTH}")


class StepUser:
    """Makes moves on `env`, each step in the way of its move, and looks at what a caller holds before and after it.

    "async" is `step_async` and `step_wait`, "beside" has a typed call between them, "call" one before a step. Actions
    are written "in place", into the transport's array, or passed as "float64", not contiguous ("strided"), in the other
    byte order ("foreign order"), as "whole numbers" of 64 bits, or as a "list". "thread" is a step by another thread.
    """

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self._held = deque[list[tuple[NDArray[Any], bytes]]](maxlen=_KEPT)
        self._seen: dict[str, Any] = {}

    def make(self, move: RolloutStep) -> tuple[Any, ...]:
        """Return what `step`, `step_wait` or `reset` returned, untouched."""
        env, self._seen = self._env, {}
        if move.kind != "step" or env.batch_spec.action_parts:
            return make_move(env, move)
        if move.way == "in place":
            env.transport.actions[...] = move.actions
            return env.step(env.transport.actions)
        actions = np.repeat(move.actions, 2, axis=0)[::2] if move.way == "strided" else move.actions.copy()
        if move.way == "foreign order":
            actions = actions.astype(actions.dtype.newbyteorder())
        if move.way == "whole numbers":
            actions = np.rint(actions).astype(np.int64)
        if move.way == "list":
            actions = actions.tolist()
        if move.way == "call":
            self._seen["typed_call"] = ask_beside(env.transport)
        if move.way == "thread":
            with ThreadPoolExecutor(1) as pool:
                returned = pool.submit(env.step, actions).result()
        elif move.way not in ("async", "beside"):
            returned = env.step(actions)
        else:
            env.step_async(actions)
            if move.way == "beside":
                self._seen["typed_call"] = ask_beside(env.transport)
            returned = env.step_wait()
        self._seen["actions_passed"] = actions
        return returned

    def answer(self, returned: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
        """Return what `make` returned as named arrays, which of them can be written to, the actions as they are now,
        what a typed call was answered, and whether what each of the last four moves returned is as it was.
        """
        table = env_answer(returned, self._env.out_of_bounds) | {k: np.array(v) for k, v in self._seen.items()}
        shown = list(_arrays(returned))
        table["writeable"] = np.array([one.flags.writeable for one in shown])
        table["earlier_kept"] = np.array([all(one.tobytes() == was for one, was in held) for held in self._held])
        self._held.append([(one, one.tobytes()) for one in shown])
        return table


def _arrays(value: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a value themselves, those of a dict by their names."""
    if isinstance(value, Mapping):
        value = tuple(value[name] for name in sorted(value))
    if isinstance(value, tuple):
        for one in value:
            yield from _arrays(one)
    else:
        yield np.asarray(value)


def env_answer(returned: tuple[Any, ...], out_of_bounds: int) -> dict[str, NDArray[Any]]:
    """Return the named arrays of what `make_move` returned (five values of a step, two of a reset), as copies, and the
    env's count of action values out of bounds.
    """
    names = ("reward", "terminated", "truncated") if len(returned) == 5 else ()
    table = flat("observation", returned[0]) | dict(zip(names, returned[1:], strict=False))
    table |= {"out_of_bounds": out_of_bounds, **flatten(returned[-1])}
    return {name: np.array(array) for name, array in table.items()}


def frame_of(transport: Transport, move: RolloutStep) -> Frame:
    """Return the frame of one bare exchange that makes this move."""
    others = HOLD if transport.spec.hold else 0
    control = None if move.kind == "step" else np.where(move.mask, np.uint8(RESET), np.uint8(others))
    return transport.step(move.actions, control)
