"""One StepResponse per agent, from the frame in the buffers.

Rule 1: numbers are packed from Python lists (`tolist`): protobuf takes those five times faster than an array.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lucky_transport.specs import BatchSpec
from lucky_transport_grpc import _pb
from lucky_transport_grpc.seat import Seat

__all__ = ["StepReplies", "Terms"]


@dataclass(frozen=True, slots=True)
class Terms:
    """The reward and termination terms that a client's Steps carry: (name, row of the signals)."""

    rewards: tuple[tuple[str, int], ...]
    terminations: tuple[tuple[str, int], ...]

    @classmethod
    def every(cls, spec: BatchSpec) -> Terms:
        """Return all terms of the spec."""
        return cls.of(spec, spec.reward_terms, spec.termination_terms)

    @classmethod
    def of(cls, spec: BatchSpec, rewards: Sequence[str], terminations: Sequence[str]) -> Terms:
        """Return the named terms; a name that the spec does not have is left out."""
        first = len(spec.reward_terms)
        reward_rows = {name: row for row, name in enumerate(spec.reward_terms)}
        termination_rows = {name: row for row, name in enumerate(spec.termination_terms, first)}
        return cls(
            tuple((name, reward_rows[name]) for name in rewards if name in reward_rows),
            tuple((name, termination_rows[name]) for name in terminations if name in termination_rows),
        )


class StepReplies:
    """Makes responses; only while the seat is held, as the buffers belong to whoever drives."""

    def __init__(self, seat: Seat) -> None:
        n = seat.spec.num_envs
        self._seat = seat
        self._response: Any = _pb.message_class("hazel.rpc.StepResponse")
        self._frame: Any = _pb.message_class("hazel.rpc.AgentFrame")
        self._observations = seat.buffers.observations.reshape(n, -1)
        self._actions = seat.buffers.actions.reshape(n, -1)
        self._names = [f"agent_{env}" for env in range(n)]

    def refusal(self, message: str) -> Any:
        """Return the response of a Step that did not happen."""
        return self._response(success=False, message=message)

    def show(self, envs: Sequence[int], terms: Terms, took_us: int) -> list[Any]:
        """Return one response per env of `envs`, showing the present frame; all fields are copies."""
        buffers = self._seat.buffers
        at = list(envs)
        timestamp_ms = time.time_ns() // 1_000_000
        observations = self._observations[at].tolist()
        actions = self._actions[at].tolist()
        numbers = self._seat.frame_numbers[at].tolist()
        signals = buffers.signals[:, at].T.tolist()
        replies: list[Any] = []
        for place, env in enumerate(at):
            row = signals[place]
            frame = self._frame(
                timestamp_ms=timestamp_ms,
                frame_number=numbers[place],
                observations=observations[place],
                actions=actions[place],
                agent_name=self._names[env],
            )
            replies.append(
                self._response(
                    success=True,
                    observation=frame,
                    physics_step_duration_us=took_us,
                    reward_signals={name: row[term] for name, term in terms.rewards},
                    terminated=bool(buffers.terminated[env]),
                    truncated=bool(buffers.truncated[env]),
                    termination_flags={name: bool(row[term]) for name, term in terms.terminations},
                )
            )
        return replies
