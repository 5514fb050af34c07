"""Values and errors as JSON can carry them and a line can show them."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["error_text", "short", "shown"]

_LONGEST = 300
_BEFORE = 60


def shown(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both values as JSON values; of long texts the part around the first difference."""
    if not (isinstance(left, str) and isinstance(right, str)) or max(len(left), len(right)) <= _LONGEST:
        return _plain(left), _plain(right)
    same = next((at for at, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    start = max(same - _BEFORE, 0)
    lead = f"... from character {start:,}: " if start else ""
    return short(lead + left[start:]), short(lead + right[start:])


def error_text(error: BaseException) -> str:
    """Return an error as the text that is compared and reported: its class and what it says."""
    return f"{type(error).__name__}: {error}"


def short(text: str) -> str:
    """Return the text, of a long one its beginning and how long it is."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text):,} characters)"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN and no infinity
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return short(value if isinstance(value, str) else repr(value))
