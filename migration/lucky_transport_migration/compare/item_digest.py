"""A running digest of items that are too many to be kept, in the form in which the rules compare them.

Fields that rules leave out are left out, maps are ordered, every NaN is the same one. Two digests are compared only
where they were made in the same form; where a rule has a tolerance, none can be made.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from lucky_transport.messages.methods import Method
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.message_fields import name_of
from lucky_transport_migration.compare.payloads import as_message
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.compare.shown import error_text

__all__ = ["ItemDigest"]


class ItemDigest:
    """Of the items of a stream of `method`, None for one whose messages are not known. why: why there is none, "" = it
    is made.
    """

    def __init__(self, method: Method | ServiceMethod | None, rules: ComparisonRules) -> None:
        self._method = method
        self._message = None if method is None else method.response
        self._rules = rules
        self._found = blake2b(digest_size=8)
        self._form = "bytes"
        self.why = ""
        if self._message is None:
            return
        if not hasattr(self._message, "DESCRIPTOR"):
            self.why = "of a stream of LuckyEngine's only those are compared that are kept"
            return
        tolerant = next(self._tolerant(self._message, name_of(self._message), ()), "")
        if tolerant:
            self.why = f"{tolerant} has a tolerance, and only the digest of the others is known"
        skipped = ",".join(sorted(rules.left_out(self._message, streamed=True)))
        self._form = blake2b(f"message {skipped}".encode(), digest_size=4).hexdigest()

    def add(self, item: Any) -> None:
        """Add the next item."""
        if self.why:
            return
        message, payload = as_message(self._method, item), item
        try:
            if message is not item:
                self._reduce(message, name_of(type(message)))
                payload = message.SerializePartialToString(deterministic=True)
        except Exception as error:  # of a foreign class; a caller waits for its item
            self.why = f"they have no digest: {error_text(error)}"
        else:
            self._found.update(len(payload).to_bytes(8, "little") + payload)

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

    def _reduce(self, message: Any, place: str) -> None:
        """Clear what is not compared, and make every NaN the same."""
        held = {one.name for one, _ in message.ListFields()}
        for field, inner, rule in self._rules.fields(type(message), place):
            if field.name not in held:
                continue
            value = getattr(message, field.name)
            if rule.skips(True):
                message.ClearField(field.name)
            elif field.message is not None:
                for one in {"one": lambda x: [x], "list": list, "map": lambda x: x.values()}[field.shape](value):
                    self._reduce(one, inner)
            elif field.kind not in ("f32", "f64"):
                continue
            elif field.shape == "one":
                if value != value:
                    setattr(message, field.name, float("nan"))
            else:
                for at, one in list(value.items() if field.shape == "map" else enumerate(value)):
                    if one != one:
                        value[at] = float("nan")
