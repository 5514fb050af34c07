"""Telling the engine the seeds and options of a reset, before the exchange that resets.

Rule 1: an engine that lacks a method is asked once; the warning says what that means for the episodes.
"""

from __future__ import annotations

import warnings

from lucky_transport.env.resetting import ResetRequest
from lucky_transport.errors import SpecError, Unimplemented
from lucky_transport.messages.methods import Method, method
from lucky_transport.transport import Transport

__all__ = ["Announcer"]

_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_SET_RESET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")

#: What an engine without the method does not take.
_LOSSES = {
    _SET_SEEDS.name: "seeds: episodes are not reproducible",
    _SET_RESET_OPTIONS.name: "reset options: they have no effect",
}


class Announcer:
    """Announces resets over one transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._unanswered: set[str] = set()  # methods the engine lacks

    def tell(self, request: ResetRequest) -> None:
        """Send what `request` has to say; raises SpecError when the engine refuses it, and what a call raises."""
        for message, row in ((request.options, _SET_RESET_OPTIONS), (request.seeds, _SET_SEEDS)):
            if message is None or row.name in self._unanswered:
                continue
            try:
                answer = self._transport.call(row, message)
            except Unimplemented:
                self._warn_without(row)
                continue
            if not answer.success:
                raise SpecError(f"engine {self._transport.spec.engine!r} refused {row.python_name}: {answer.message}")

    def _warn_without(self, row: Method) -> None:
        self._unanswered.add(row.name)
        text = f"engine {self._transport.spec.engine!r} takes no {_LOSSES[row.name]}"
        warnings.warn(text, UserWarning, stacklevel=4)
