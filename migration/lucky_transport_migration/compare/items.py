"""Where the responses of two transports to one call first differ: in an item, in their order, or in their count.

Equal bytes are equal answers; else bytes are compared as messages where their method is known, field by field. Of a
stream that was left early only what both sent is compared, not how many. One that skips what its reader is too slow for
may lack as many items as were dropped; where that is not known it is compared as one that was left. A difference is
named by the least that explains it: one item missing is no series of wrong items, one wrong item is none that is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lucky_transport.messages import ImageFrame
from lucky_transport.messages.methods import Flow, Method
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.messages import as_message, first_unequal, first_unequal_byte
from lucky_transport_migration.compare.rules import EXACT, ComparisonRules

#: How far ahead an item is looked for that is not in its place.
_AHEAD = 64


class ItemPairs:
    """The items of both sides of one call. method: None for one whose messages are not known. dropped: how many items
    each stream skipped, None = not known.

    left_out: the fields that rules leave out.
    """

    def __init__(
        self,
        method: Method | ServiceMethod | None,
        left: Sequence[Any],
        right: Sequence[Any],
        rules: ComparisonRules,
        *,
        ended_early: bool,
        dropped: tuple[int, int] | None = None,
    ) -> None:
        self.ended_early = ended_early
        self._method = method
        self._left, self._right = left, right
        self._rules = rules
        self._streamed = method is not None and method.stream is not None
        is_latest = method is not None and method.stream is Flow.LATEST
        self._is_open = ended_early or (is_latest and dropped is None)
        self._may_lack = dropped if is_latest and dropped is not None else (0, 0)
        response: Any = None if method is None else method.response
        self.left_out = rules.left_out(response, streamed=self._streamed) if response and (left or right) else ()

    @property
    def comparable(self) -> bool:
        """False when one side was left before its first item: that says nothing of the other's."""
        return not self._is_open or bool(self._left and self._right) or not (self._left or self._right)

    def differing(self) -> Difference | None:
        """Return the first difference, None when there is none. Images grow in number on both sides or on none."""
        return self._first() or self._misnumbered()

    def _misnumbered(self) -> Difference | None:
        sides = (self._left, self._right)
        numbers = [[item.frame_number for item in side if isinstance(item, ImageFrame)] for side in sides]
        if not self._streamed or len({row == sorted(set(row)) for row in numbers}) == 1:
            return None
        return Difference("order", "frame_number of the items", numbers[0], numbers[1])

    def _first(self) -> Difference | None:
        at, other, (mine, others) = 0, 0, self._may_lack
        while at < len(self._left) and other < len(self._right):
            unequal = self._unequal(self._left[at], self._right[other])
            if unequal is not None:
                gap = self._gap(at, other, mine, others)
                if gap is None:
                    is_rest = len(self._left) - at <= others or len(self._right) - other <= mine
                    return None if self._is_open and is_rest else self._named(at, other, unequal)
                at, other, others, mine = at + gap[0], other + gap[1], others - gap[0], mine - gap[1]
            at, other = at + 1, other + 1
        lengths = len(self._left), len(self._right)
        if self._is_open or abs(lengths[0] - lengths[1]) <= sum(self._may_lack):
            return None
        return self._missing(min(lengths), max(lengths), lacking=lengths.index(min(lengths)))

    def _unequal(self, left: Any, right: Any) -> Difference | None:
        if isinstance(left, bytes) and left == right and not self._rules.doubts_nan:
            return None
        x, y = as_message(self._method, left), as_message(self._method, right)
        if self._method is not None and type(x) is type(y) is self._method.response:
            return first_unequal(self._method.response, x, y, self._rules, streamed=self._streamed)
        if isinstance(left, bytes) and isinstance(right, bytes):
            found, known = first_unequal_byte(left, right, EXACT, "bytes"), self._method is None
            unread = " (a response with fields that this version does not know, or none)"
            return found if known or found is None else replace(found, where=found.where + unread)
        return None if left == right else Difference("item", "", left, right)

    def _gap(self, at: int, other: int, mine: int, others: int) -> tuple[int, int] | None:
        """Return how many items to pass over on each side, where the left may lack `mine` and the right `others`."""
        for total in range(1, min(mine + others, _AHEAD) + 1):
            for skipped in range(max(0, total - mine), min(total, others) + 1):
                pair = self._left[at + skipped :][:1], self._right[other + total - skipped :][:1]
                if all(pair) and self._unequal(pair[0][0], pair[1][0]) is None:
                    return skipped, total - skipped
        return None

    def _named(self, index: int, other: int, unequal: Difference) -> Difference:
        """Return what is wrong from the first place on where items differ."""
        in_left = self._place(self._left, self._right[other], index + 1)
        in_right = self._place(self._right, self._left[index], other + 1)
        longer = len(self._left) - len(self._right)
        following = self._left[index + 1 :][:1], self._right[other + 1 :][:1]
        is_single = all(following) and self._unequal(following[0][0], following[1][0]) is None
        if is_single:
            in_left = in_right = 0
        if in_left and in_right:
            return Difference("order", f"items[{index}]", f"item {index}", f"item {in_right}")
        if in_left and (longer > 0 or self._is_open):
            return self._missing(index, in_left, lacking=1)
        if in_right and (longer < 0 or self._is_open):
            return self._missing(index, in_right, lacking=0)
        is_one_of_many = self._streamed or max(len(self._left), len(self._right)) > 1
        path = ".".join(filter(None, [f"items[{index}]" * is_one_of_many, unequal.where])) or "response"
        return replace(unequal, where=path)

    def _place(self, items: Sequence[Any], item: Any, start: int) -> int:
        """Return where the item stands from `start` on, not far from there; 0 when nowhere."""
        ahead = range(start, min(len(items), start + _AHEAD))
        return next((at for at in ahead if self._unequal(items[at], item) is None), 0)

    def _missing(self, start: int, end: int, *, lacking: int) -> Difference:
        """Return that one side (0: left, 1: right) lacks the other's items from `start` to before `end`."""
        texts = [f"{len(self._left)} items", f"{len(self._right)} items"]
        gap = f"item {start}" if end == start + 1 else f"items {start} to {end - 1}"
        texts[lacking] += f", without {gap} of the other"
        return Difference("count", f"items[{start}]", texts[0], texts[1])
