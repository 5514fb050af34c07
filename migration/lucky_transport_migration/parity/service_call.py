"""One call of any service, whether it was drawn or recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport.routing import ChannelOptions
from lucky_transport_migration.compare.shown import short


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """One call. messages: its requests. cancel_after: so many responses, None = it is read to its end. is_late: its
    deadline is over when it is made. timeout_s: seconds that it has, None = as all have. without, answered, channel: as
    in `CallOptions`. deadline: "none", "long" or "short" in place of seconds, of which a short one leaves enough time
    for what the server has answered so far. ahead: as in `ServiceCaller.ask`.
    """

    messages: tuple[Any, ...]
    metadata: Metadata = ()
    cancel_after: int | None = None
    is_late: bool = False
    timeout_s: float | None = None
    without: tuple[str, ...] = ()
    answered: str = ""
    deadline: str = ""
    ahead: int = 0
    channel: ChannelOptions = ()

    @property
    def requests(self) -> list[bytes]:
        """The requests as bytes, the same ones for the same call."""
        return [one.SerializeToString(deterministic=True) for one in self.messages]

    @property
    def text(self) -> str:
        """The call as one line for people."""
        from google.protobuf.text_format import MessageToString

        shown = ", ".join(f"{{{MessageToString(one, as_one_line=True)}}}" for one in self.messages)
        parts = [f"requests [{shown}]" if len(self.messages) != 1 else f"request {shown}"]
        pairs = dict(self.metadata) if len(dict(self.metadata)) == len(self.metadata) else list(self.metadata)
        parts += [f"metadata {pairs}"] if pairs else []
        parts += [] if self.cancel_after is None else [f"cancelled after {self.cancel_after} responses"]
        parts += [f"each request {self.ahead} ahead of the items"] if self.ahead else []
        parts += ["a deadline that is over"] * self.is_late
        parts += [] if self.timeout_s is None else [f"a deadline of {self.timeout_s:g} s"]
        parts += [f"{'no' if self.deadline == 'none' else f'a {self.deadline}'} deadline"] if self.deadline else []
        return short(", ".join(parts))
