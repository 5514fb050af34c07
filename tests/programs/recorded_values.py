"""What the fields of recorded requests have, as `parity --value` takes it: names that exist at the server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

__all__ = ["field_values"]

_MOST_VALUES = 5
_LONGEST = 200


def field_values(messages: Iterable[Any]) -> list[str]:
    """Return "package.Message.field=[...]" of each text, whole number and enum that is set in the messages."""
    found: dict[str, dict[Any, None]] = {}
    for message in messages:
        _add(message, found)
    return [f"{field}={json.dumps(list(values)[:_MOST_VALUES])}" for field, values in found.items()]


def _add(message: Any, found: dict[str, dict[Any, None]]) -> None:
    if message.DESCRIPTOR.full_name.startswith("google.protobuf."):  # drawn within what protobuf allows
        return
    for field, value in message.ListFields():
        kind = field.message_type
        if field.is_extension or (kind is not None and kind.GetOptions().map_entry):
            continue
        for one in [value] if isinstance(value, (str, bytes)) or not hasattr(value, "append") else value:
            if kind is not None:
                _add(one, found)
            elif type(one) in (str, int) and len(str(one)) <= _LONGEST:
                found.setdefault(f"{field.containing_type.full_name}.{field.name}", {})[one] = None
