"""Values and errors as JSON can carry them and a line can show them."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

_LONGEST, _KEPT = 300, 260  # with what is said of the rest, a text that was cut is no longer than one that was not
_BEFORE = 60


def shown(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both values as JSON values: of long ones the part that differs, code points of texts that print alike."""
    x, y = _plain(left), _plain(right)
    if isinstance(x, str) and isinstance(y, str):
        same = next((at for at, (a, b) in enumerate(zip(x, y, strict=False)) if a != b), min(len(x), len(y)))
        start = max(same - _BEFORE, 0) if max(len(x), len(y)) > _LONGEST else 0
        lead = f"... from character {start:,}: " if start else ""
        ends = (_spelt(x[same:]), _spelt(y[same:])) if _printed(x) == _printed(y) else (x[same:], y[same:])
        x, y = (f"{lead}{text[start:same]}{end}" for text, end in zip((x, y), ends, strict=True))
    x, y = (short(one) if isinstance(one, str) else one for one in (x, y))
    return x, y


def error_text(error: BaseException) -> str:
    """Return an error as the text that is compared and reported: its class and what it says."""
    return f"{type(error).__name__}: {error}"


def short(text: str) -> str:
    """Return the text, of a long one its beginning and how long it is."""
    return text if len(text) <= _LONGEST else f"{text[:_KEPT]} ... ({len(text):,} characters)"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN and no infinity
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _printed(text: str) -> str:
    """Return what a reader sees of a text: not how an accent is composed, which space it is, nor what has no width."""
    return "".join(one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) != "Cf")


def _spelt(text: str) -> str:
    return "".join(one if one.isascii() else f"<U+{ord(one):04X}>" for one in text)
