"""How exactly one field is compared.

Without a tolerance bits are compared: 0.0 and -0.0 differ, a NaN equals every NaN. Numbers are equal that any one of
`abs`, `rel` and `ulp` allows; NaN and infinity are close to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lucky_transport.errors import ConfigError
from lucky_transport.table_readers import Readers, number, only, read_table


@dataclass(frozen=True, slots=True)
class Rule:
    """How one field is compared.

    abs, rel: largest distance, absolute and relative to the larger of both numbers. ulp: in representable numbers of
    the width on the wire. nan: whether a NaN is "equal" to a NaN or "different". skip: why it is not compared, "" = it
    is. presence: of a skipped field, whether there is one is compared. streams: the skip counts in streams only.
    """

    abs: float = 0.0
    rel: float = 0.0
    ulp: int = 0
    nan: str = "equal"
    skip: str = ""
    presence: bool = False
    streams: bool = False

    @property
    def tolerant(self) -> bool:
        """True when numbers may differ a little."""
        return bool(self.abs or self.rel or self.ulp)

    def skips(self, streamed: bool) -> bool:
        """True when it leaves the field out, in an item of a stream or elsewhere."""
        return bool(self.skip) and (streamed or not self.streams)


EXACT = Rule()


def read_rule(value: Any, source: str) -> Rule:
    """Return the rule that a row of the table says; raises ConfigError. source: what the error names."""
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"{source} = {value!r}", hint="write a table, e.g. { abs = 1e-6 }")
    read_table(value, source, _READERS)
    if "skip" in value and len(value) > 1:
        others = ", ".join(key for key in value if key != "skip")
        raise ConfigError(f"{source}: skip beside {others}", hint="a field is left out or compared; drop one")
    return Rule(**value)


def _is_policy(value: Any) -> bool:
    return value in ("equal", "different")


def _is_reason(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_DISTANCE = number(lambda value: value >= 0)

_READERS: Readers = {
    "abs": (_DISTANCE, "a number >= 0, e.g. 1e-6"),
    "rel": (_DISTANCE, "a number >= 0, e.g. 1e-5"),
    "ulp": (number(lambda value: value >= 0, int), "a whole number >= 0, e.g. 4"),
    "nan": (only(_is_policy), "'equal' or 'different'"),
    "skip": (only(_is_reason), "the reason, e.g. 'the wall clock'"),
}
