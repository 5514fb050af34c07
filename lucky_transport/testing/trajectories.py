"""Trajectories as arrays, and where two of them first differ.

    moves = random_moves(transport.spec, steps=200, seed=0)
    assert first_difference(record_frames(a, moves), record_frames(b, moves)) is None

Bits are compared, not numbers: 0.0 and -0.0 differ, a NaN equals the same NaN, dtype and shape count. Where
observations have parts, each is a field of its own: `observation["camera"]["left"]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET
from lucky_transport.env.composite import observation_fields
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import arrays, flat, unpack
from lucky_transport.transport import Transport

if TYPE_CHECKING:
    from lucky_transport.env.vector_env import VectorEnv


#: One exchange's input: actions (num_envs, *action shape), packed where they have parts, and control bytes (None: every
#: env steps).
Move = tuple[NDArray[Any], NDArray[np.uint8] | None]

#: Field name -> array (steps, num_envs, ...).
Trajectory = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class TrajectoryDifference:
    """The first element in which two trajectories differ; `index` is its place inside the env's row."""

    step: int
    env: int
    field: str
    index: tuple[int, ...]
    left: Any
    right: Any

    def __str__(self) -> str:
        index = list(self.index) if self.index else ""
        part = self.field.endswith("]")  # spelled as its element would be reached
        name = f"{self.field}{index}" if part else self.field
        place = f" at {index}" if index and not part else ""
        return f"{name} of env {self.env}{place} in step {self.step}: {self.left!r} against {self.right!r}"


def random_actions(spec: BatchSpec, generator: np.random.Generator) -> NDArray[Any]:
    """Return actions (num_envs, *action shape) of the spec's dtype, within its bounds ([-1, 1] where it has none);
    packed where they have parts.
    """
    actions = np.zeros(spec.action_shape, spec.action.dtype)
    for _, array, values in arrays(actions, spec.action, spec.action_parts):
        low = np.asarray(-1 if array.low is None else array.low)
        high = np.asarray(1 if array.high is None else array.high)
        if values.dtype.kind == "f":
            values[...] = generator.uniform(low, high, values.shape)
        else:
            values[...] = generator.integers(low, high, values.shape, endpoint=True)
    return actions


def random_moves(spec: BatchSpec, steps: int, seed: int, *, hold: bool = True) -> list[Move]:
    """Return `steps` moves, the first of which resets every env; later some reset, some hold, most step.

    `hold=False` leaves HOLD out, for peers that have none.
    """
    generator = np.random.default_rng(seed)
    n = spec.num_envs
    moves: list[Move] = [(random_actions(spec, generator), np.full(n, RESET, np.uint8))]
    codes = (0, RESET, HOLD) if hold else (0, RESET)
    odds = (0.7, 0.1, 0.2) if hold else (0.9, 0.1)
    while len(moves) < steps:
        control = generator.choice(codes, n, p=odds).astype(np.uint8)
        moves.append((random_actions(spec, generator), control if generator.random() < 0.7 else None))
    return moves[:steps]


def record_frames(transport: Transport, moves: Sequence[Move], *, reset_ended: bool = False) -> dict[str, NDArray[Any]]:
    """Return what `transport` answered: observations (as `observation_fields` names them), rewards, terminated,
    truncated (bool), signals and seq, stacked.

    signals are (steps, num_envs, terms) here, so that the env's axis is the second one in every field; seq counts from
    the first frame. With `reset_ended`, a move that would step an ended env resets it.
    """
    steps: list[dict[str, NDArray[Any]]] = []
    ended = np.zeros(transport.spec.num_envs, np.bool_)
    first = -1
    for actions, control in moves:
        if reset_ended and ended.any():
            control = _resetting(control, ended)
        frame = transport.step(actions, control)
        first = frame.seq if first < 0 else first
        row: dict[str, NDArray[Any]] = {
            **observation_fields(transport.spec, frame.observations.copy()),
            "rewards": frame.rewards.copy(),
            "terminated": frame.terminated != 0,
            "truncated": frame.truncated != 0,
            "signals": frame.signals.T.copy(),
            "seq": np.full(transport.spec.num_envs, frame.seq - first),
        }
        ended = row["terminated"] | row["truncated"]
        steps.append(row)
    return _stack(steps)


def _resetting(control: NDArray[np.uint8] | None, ended: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return `control` with RESET for the ended envs that it does not hold."""
    changed = np.zeros(len(ended), np.uint8) if control is None else control.copy()
    changed[ended & ((changed & HOLD) == 0)] = RESET
    return changed


def record_env(env: VectorEnv, steps: int, seed: int) -> dict[str, NDArray[Any]]:
    """Return what `env` answered to a seeded reset and `steps` random actions; in DISABLED mode ended envs are reset
    by a mask at once. Row 0 is the reset; terms stand under "reward_terms.<name>" and so on.
    """
    from gymnasium.vector import AutoresetMode

    generator = np.random.default_rng(seed)
    spec, n = env.batch_spec, env.num_envs
    observations, info = env.reset(seed=seed)
    no_flags = np.zeros(n, np.bool_)
    start = flat("observations", observations) | {"rewards": np.zeros(n, np.float32)} | _info_parts(spec, info)
    rows: list[dict[str, NDArray[Any]]] = []
    for _ in range(steps):
        actions = random_actions(spec, generator)
        given = unpack(actions, spec.action_parts) if spec.action_parts else actions
        observations, rewards, terminated, truncated, info = env.step(given)
        row = flat("observations", observations)
        finals = flat("final_obs", info["final_obs"]) if "final_obs" in info else _zeros_like("final_obs", observations)
        row |= {"rewards": rewards, "terminated": terminated, "truncated": truncated}
        row |= finals | _columns(info) | _info_parts(spec, info)
        ended = terminated | truncated
        if env.autoreset_mode is AutoresetMode.DISABLED:
            after = env.reset(options={"reset_mask": ended})[0] if ended.any() else observations
            row |= flat("after_reset", after)
        rows.append(row)
    fields = {name: np.zeros_like(value) for name, value in rows[0].items()} if rows else {}
    return _stack([fields | start | {"terminated": no_flags, "truncated": no_flags}, *rows])


def _zeros_like(name: str, nested: Any) -> dict[str, NDArray[Any]]:
    return {at: np.zeros_like(array) for at, array in flat(name, nested).items()}


def _info_parts(spec: BatchSpec, info: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the info parts of a step or reset with their masks, by their places."""
    names = {name for part in spec.info_parts for name in (part.path[0], f"_{part.path[0]}")}
    return flat("info", {name: info[name] for name in sorted(map(str, names))})


def _columns(info: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    table: dict[str, NDArray[Any]] = {}
    for group in ("reward_terms", "termination_terms"):
        table |= {f"{group}.{name}": column for name, column in info[group].items()}
    return table


def _stack(rows: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.stack([np.array(row[name]) for row in rows]) for name in (rows[0] if rows else ())}


def first_difference(left: Trajectory, right: Trajectory) -> TrajectoryDifference | None:
    """Return where two trajectories first differ, by step, then env, then field; None when they are equal bit for bit.

    Raises ValueError when they cannot be compared: other fields, dtypes or shapes.
    """
    if left.keys() != right.keys():
        raise ValueError(f"trajectories have the fields {sorted(left)} and {sorted(right)}")
    found = [place for name in left if (place := _first_place(name, left[name], right[name])) is not None]
    if not found:
        return None
    step, env, name, index = min(found, key=lambda place: place[:2])
    at = (step, env, *index)
    return TrajectoryDifference(step, env, name, index, left[name][at].item(), right[name][at].item())


def _first_place(name: str, left: NDArray[Any], right: NDArray[Any]) -> tuple[int, int, str, tuple[int, ...]] | None:
    if left.dtype != right.dtype or left.shape != right.shape:
        raise ValueError(f"{name} is {left.dtype} {left.shape} here and {right.dtype} {right.shape} there")
    bytes_left = np.ascontiguousarray(left).reshape(-1).view(np.uint8)
    unequal = bytes_left != np.ascontiguousarray(right).reshape(-1).view(np.uint8)
    if not unequal.any():
        return None
    element = int(np.argmax(unequal)) // left.dtype.itemsize
    step, env, *index = (int(i) for i in np.unravel_index(element, left.shape))
    return step, env, name, tuple(index)
