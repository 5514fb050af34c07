"""Where the responses of two transports to one call first differ: in an item, in their order, or in their count.

    left     a b c d      the right lacks c: its d stands where the left has c. With `dropped` (0, 1) they are equal,
    right    a b d        as one item of the left may be passed over; else c is named as missing.

Equal bytes are equal answers; else bytes are compared as messages where their method is known, field by field. Of a
stream that was left early only what both sent is compared, not how many. One that skips what its reader is too slow for
may lack as many items as were dropped; where that is not known it is compared as one that was left. A difference is
named by the least that explains it: one item missing is no series of wrong items, one wrong item is none that is
missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from lucky_transport.messages import ImageFrame
from lucky_transport.messages.fields import Field
from lucky_transport.messages.methods import Flow, Method
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import Difference, error_text
from lucky_transport_migration.compare.message_fields import name_of, unknown_fields, value_of
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
        left, right = 0, 0  # the places of the pair that is compared
        left_lacks, right_lacks = self._may_lack  # how many more items each side may lack of the other's
        while left < len(self._left) and right < len(self._right):
            unequal = self._unequal(self._left[left], self._right[right])
            if unequal is not None:
                gap = self._gap(left, right, left_lacks, right_lacks)
                if gap is None:
                    is_rest = len(self._left) - left <= right_lacks or len(self._right) - right <= left_lacks
                    return None if self._is_open and is_rest else self._named(left, right, unequal)
                left, right_lacks = left + gap[0], right_lacks - gap[0]  # what only the left has, the right lacks
                right, left_lacks = right + gap[1], left_lacks - gap[1]
            left, right = left + 1, right + 1
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

    def _gap(self, left: int, right: int, left_lacks: int, right_lacks: int) -> tuple[int, int] | None:
        """Return the fewest items to pass over on the left and on the right, so that the next ones are equal."""
        for total in range(1, min(left_lacks + right_lacks, _AHEAD) + 1):
            for skipped in range(max(0, total - left_lacks), min(total, right_lacks) + 1):
                if self._is_pair(left + skipped, right + total - skipped):
                    return skipped, total - skipped
        return None

    def _is_pair(self, left: int, right: int) -> bool:
        """True where both sides have an item there, and these are equal."""
        is_there = left < len(self._left) and right < len(self._right)
        return is_there and self._unequal(self._left[left], self._right[right]) is None

    def _named(self, left: int, right: int, unequal: Difference) -> Difference:
        """Return what is wrong from the first place on where items differ."""
        longer = len(self._left) - len(self._right)
        in_left = in_right = 0
        if not self._is_pair(left + 1, right + 1):  # else it is one wrong item
            ahead = range(1, _AHEAD + 1)
            in_left = next((left + far for far in ahead if self._is_pair(left + far, right)), 0)
            in_right = next((right + far for far in ahead if self._is_pair(left, right + far)), 0)
        if in_left and in_right:
            return Difference("order", f"items[{left}]", f"item {left}", f"item {in_right}")
        if in_left and (longer > 0 or self._is_open):
            return self._missing(left, in_left, lacking=1)
        if in_right and (longer < 0 or self._is_open):
            return self._missing(left, in_right, lacking=0)
        is_one_of_many = self._streamed or max(len(self._left), len(self._right)) > 1
        path = ".".join(filter(None, [f"items[{left}]" * is_one_of_many, unequal.where])) or "response"
        return replace(unequal, where=path)

    def _missing(self, start: int, end: int, *, lacking: int) -> Difference:
        """Return that one side (0: left, 1: right) lacks the other's items from `start` to before `end`."""
        texts = [f"{len(self._left)} items", f"{len(self._right)} items"]
        gap = f"item {start}" if end == start + 1 else f"items {start} to {end - 1}"
        texts[lacking] += f", without {gap} of the other"
        return Difference("count", f"items[{start}]", texts[0], texts[1])


class ItemDigest:
    """A running digest of items that are too many to be kept, in the form in which the rules compare them.

    Fields that rules leave out are left out, maps are ordered, every NaN is the same one. Two digests are compared only
    where they were made in the same form; where a rule has a tolerance, none can be made. method: whose stream they
    are, None for one whose messages are not known. why: why there is none, "" = it is made.
    """

    def __init__(self, method: Method | ServiceMethod | None, rules: ComparisonRules) -> None:
        self._method = method
        self._rules = rules
        self._found = blake2b(digest_size=8)
        self._form, self.why = "bytes", ""
        message: Any = None if method is None else method.response
        if message is not None:
            tolerant = next(self._tolerant(message, name_of(message), ()), "")
            self.why = f"{tolerant} has a tolerance, and of them only a digest is kept" if tolerant else ""
            skipped = ",".join(sorted(rules.left_out(message, streamed=True)))
            self._form = blake2b(f"message {skipped}".encode(), digest_size=4).hexdigest()

    def add(self, item: Any) -> None:
        """Add the next item."""
        if self.why:
            return
        message = as_message(self._method, item)
        try:
            form = item if message is item else repr(self._of_message(message, name_of(type(message)))).encode()
        except Exception as error:  # of a foreign class; a caller waits for its item
            self.why = f"they have no digest: {error_text(error)}"
        else:
            self._found.update(len(form).to_bytes(8, "little") + form)

    @property
    def value(self) -> str:
        """The digest so far, led by its form; "" where none can be made."""
        return "" if self.why else f"{self._form}:{self._found.hexdigest()}"

    def _tolerant(self, message: type, place: str, above: tuple[type, ...]) -> Iterator[str]:
        for field, inner, rule in self._rules.fields(message, place):
            if not rule.skips(True) and (rule.tolerant or rule.nan == "different"):
                yield inner
            elif field.message is not None and field.message not in above:
                yield from self._tolerant(field.message, inner, (*above, message))

    def _of_message(self, message: Any, place: str) -> list[Any]:
        rows = self._rules.fields(type(message), place)
        compared = [
            self._of_field(field, value_of(message, field), at) for field, at, rule in rows if not rule.skips(True)
        ]
        return [compared, unknown_fields(message)]

    def _of_field(self, field: Field, value: Any, place: str) -> Any:
        if field.shape == "map":
            return [(key, self._of_one(field, value[key], place)) for key in sorted(value)]
        return [self._of_one(field, one, place) for one in (value if field.shape == "list" else [value])]

    def _of_one(self, field: Field, value: Any, place: str) -> Any:
        return value if field.message is None or value is None else self._of_message(value, place)
