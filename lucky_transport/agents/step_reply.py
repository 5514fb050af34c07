"""One StepResponse per agent, from the frame in the seat's buffers.

Rule 1: numbers are taken out of the arrays by `tolist`, all rows at once: single elements cost five times as much.
Rule 2: a transport that has the same messages in a form of its own passes their classes, and nothing is converted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucky_transport.agents.seat import Seat
from lucky_transport.agents.terms import Terms
from lucky_transport.messages import AgentFrame, NamedImageFrame, StepResponse

__all__ = ["StepReplies"]

Pictures = Sequence[NamedImageFrame]


class StepReplies:
    """Makes responses; only while the seat is held, as the buffers belong to whoever drives.

    `response` and `frame` are the classes of the messages, `picture` makes a NamedImageFrame one of theirs.
    """

    def __init__(
        self,
        seat: Seat,
        response: Callable[..., Any] = StepResponse,
        frame: Callable[..., Any] = AgentFrame,
        picture: Callable[[NamedImageFrame], Any] | None = None,
    ) -> None:
        n = seat.spec.num_envs
        self._seat = seat
        self._response = response
        self._frame = frame
        self._picture = picture
        self._observations = seat.buffers.observations.reshape(n, -1)
        self._actions = seat.buffers.actions.reshape(n, -1)
        self._names = [f"agent_{env}" for env in range(n)]

    def refusal(self, message: str) -> Any:
        """Return the response of a Step that did not happen."""
        return self._response(success=False, message=message)

    def show(self, envs: Sequence[int], terms: Terms, took_us: int, pictures: Sequence[Pictures] = ()) -> list[Any]:
        """Return one response per env of `envs`, showing the present frame; all fields are copies.

        pictures: the camera frames of each env, in the order of `envs`; empty when nobody asked for any.
        """
        buffers = self._seat.buffers
        at = list(envs)
        timestamp_ms = time.time_ns() // 1_000_000
        observations = self._observations[at].astype(np.float32, copy=False).tolist()  # what the message carries
        actions = self._actions[at].astype(np.float32, copy=False).tolist()
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
                    camera_frames=self._pictures(pictures[place] if pictures else ()),
                    reward_signals={name: row[term] for name, term in terms.rewards},
                    terminated=bool(buffers.terminated[env]),
                    truncated=bool(buffers.truncated[env]),
                    termination_flags={name: bool(row[term]) for name, term in terms.terminations},
                )
            )
        return replies

    def _pictures(self, pictures: Pictures) -> list[Any]:
        return list(pictures) if self._picture is None else [self._picture(one) for one in pictures]
