"""What `VectorEnv.step` returns, made in one call; `StepResults` of results.py is the same in Python."""

from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport.env.results import StepResult
from lucky_transport.transport import Frame

VERSION: int

class PlainResults:
    """Makes the result of a step in which every env stepped and none ended; called with the frame.

    info: class of the info, made from `shared`, the columns that such steps have in common. reward_columns: names of
    the columns that the first signals are. copies: of the observations. reference: called with a frame whose arrays
    are no plain, contiguous ones, or in which a termination term is set.
    """

    def __init__(
        self,
        info: type[dict[str, Any]],
        shared: Mapping[str, Any],
        reward_columns: tuple[str, ...],
        copies: bool,
        reference: Callable[[Frame], StepResult],
        /,
    ) -> None: ...
    def __call__(self, frame: Frame, /) -> StepResult:
        """Return observations, rewards, terminated, truncated and info."""
