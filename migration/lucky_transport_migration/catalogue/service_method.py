"""One method as commands see it, whoever made its service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lucky_transport.messages.methods import Effect, Flow

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor

#: The source of a method that is known by its name alone.
UNKNOWN = "its name"


@dataclass(frozen=True, slots=True)
class ServiceMethod:
    """One method: its full name ("/package.Service/Method"), what a call changes and the reason for saying so.

    source: where it is known from, for people. stream: how its responses flow, None where there is one. descriptor:
    protobuf's; None for LuckyEngine's own and where only the name is known. request, response: the classes of its
    messages, as `own`'s rows have them or made by protobuf; None where only the name is known.
    """

    name: str
    effect: Effect
    reason: str
    source: str = UNKNOWN
    requests_stream: bool = False
    stream: Flow | None = None
    request: Any = None
    response: Any = None
    descriptor: MethodDescriptor | None = None

    @property
    def is_known(self) -> bool:
        """False where nothing but the name is known."""
        return self.source != UNKNOWN
