"""A running digest of items that are too many to be kept, in the form in which the rules compare them.

Fields that rules leave out are left out, maps are ordered, every NaN is the same one. Two digests are compared only
where they were made in the same form; where a rule has a tolerance, none can be made.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from lucky_transport.messages.fields import Field
from lucky_transport.messages.methods import Method
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import error_text
from lucky_transport_migration.compare.message_fields import name_of, unknown_fields, value_of
from lucky_transport_migration.compare.messages import as_message
from lucky_transport_migration.compare.rules import ComparisonRules


class ItemDigest:
    """Of the items of a stream of `method`, None for one whose messages are not known. why: why there is none, "" = it
    is made.
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
