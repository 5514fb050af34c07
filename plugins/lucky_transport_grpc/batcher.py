"""Calls that belong together wait here until their group is complete, and are then answered by one run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lucky_transport.errors import LocalProtocolError, PeerTimeout, TransportError, from_wire
from lucky_transport_grpc.caller import Caller

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class _Group(Generic[_Item, _Answer]):
    size: int
    items: list[_Item] = field(default_factory=list)
    answers: Sequence[_Answer] = ()
    error: TransportError | None = None
    ended: threading.Event = field(default_factory=threading.Event)


class Batcher(Generic[_Item, _Answer]):
    """One group at a time per key; `what` names the calls in error texts."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._groups: dict[Hashable, _Group[_Item, _Answer]] = {}

    def __len__(self) -> int:
        """Return how many groups are waiting to become complete."""
        return len(self._groups)

    def join(self, item: _Item, caller: Caller, run: Callable[[Sequence[_Item]], Sequence[_Answer]]) -> _Answer:
        """Return this item's answer once `caller.batch` items of that caller were run together.

        Raises what `run` raised, LocalProtocolError when the calls of one batch disagree about its size, PeerTimeout
        when the batch did not become complete in time.
        """
        group, place, complete = self._enter(item, caller)
        # The last call to come runs for all; the others wait in their own threads, because gRPC's Python server cannot
        # answer later. A group that one of its calls leaves can never become complete, so it ends at once for all.
        if complete:
            self._run(group, run)
        else:
            caller.on_end(lambda: self._give_up(caller.key, group, "one of its calls ended before"))
            if not group.ended.wait(caller.timeout_s):
                self._give_up(caller.key, group, f"one of its calls waited {caller.timeout_s:.3g} s")
                if not group.ended.is_set():
                    raise PeerTimeout(
                        f"the engine did not finish a batch of {group.size} {self._what}s in {caller.timeout_s:.3g} s",
                        backend="grpc",
                    )
        if group.error is not None:
            raise from_wire(group.error.wire_code, str(group.error), backend=group.error.backend)
        return group.answers[place]

    def _enter(self, item: _Item, caller: Caller) -> tuple[_Group[_Item, _Answer], int, bool]:
        with self._lock:
            group = self._groups.get(caller.key)
            if group is None:
                group = self._groups[caller.key] = _Group(caller.batch)
            if group.size != caller.batch:
                raise LocalProtocolError(
                    f"a batch of {caller.batch} {self._what}s was begun before the one of {group.size} was complete",
                    backend="grpc",
                    hint="send one batch after the other",
                )
            group.items.append(item)
            complete = len(group.items) == group.size
            if complete:
                del self._groups[caller.key]
            return group, len(group.items) - 1, complete

    def _run(self, group: _Group[_Item, _Answer], run: Callable[[Sequence[_Item]], Sequence[_Answer]]) -> None:
        try:
            group.answers = run(group.items)
        except TransportError as error:
            group.error = error
        except BaseException as error:
            group.error = TransportError(f"{type(error).__name__}: {error}", backend="grpc")
            raise
        finally:
            group.ended.set()

    def _give_up(self, key: Hashable, group: _Group[_Item, _Answer], why: str) -> None:
        with self._lock:
            if self._groups.get(key) is not group:
                return  # complete: it runs or has run
            del self._groups[key]
            group.error = PeerTimeout(
                f"a batch of {group.size} {self._what}s got only {len(group.items)}: {why}",
                backend="grpc",
                hint="send all of them at once, or leave out the batch metadata",
            )
        group.ended.set()
