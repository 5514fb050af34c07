"""JSON objects out of lines: several in one line, or one over several."""

from __future__ import annotations

import json
import re
from typing import Any

from lucky_transport.nesting import check_depth

_BETWEEN = re.compile(r"[\s,]*")
_decoder = json.JSONDecoder()
#: A string, or what opens and closes objects; a string that has not ended reaches to the end of the text.
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}]', re.DOTALL)


class ObjectCollector:
    """Collects JSON objects from the lines it is fed; an object may have `longest` characters.

    Braces inside strings are text. After a ValueError it starts afresh.
    """

    def __init__(self, longest: int = 1 << 20) -> None:
        self._longest = longest
        self._rest = ""

    @property
    def is_open(self) -> bool:
        """True while an object has begun and not ended."""
        return bool(self._rest)

    def feed(self, line: str) -> list[dict[str, Any]]:
        """Return the objects that end in this line. Raises ValueError for text that is no sequence of objects."""
        text = f"{self._rest}\n{line}" if self._rest else line
        self._rest = ""
        found: list[dict[str, Any]] = []
        at = _skip_blanks(text, 0)
        while at < len(text):
            if text[at] != "{":
                raise ValueError(f"expected '{{' in front of {text[at : at + 20]!r}")
            try:
                value, end = _decoder.raw_decode(text, at)
            except RecursionError:
                raise ValueError("an object of too many levels") from None
            except ValueError:
                if _is_whole(text, at):
                    raise
                if len(text) - at > self._longest:
                    raise ValueError(f"an object of more than {self._longest} characters") from None
                self._rest = text[at:]
                break
            found.append(check_depth(value))
            at = _skip_blanks(text, end)
        return found


def _skip_blanks(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return at if match is None else match.end()


def _is_whole(text: str, at: int) -> bool:
    """True when the object that begins at `at` ends in this text, sound or not."""
    depth = 0
    for mark in _MARKS.finditer(text, at):
        depth += {"{": 1, "}": -1}.get(mark.group(), 0)
        if not depth and mark.group() == "}":
            return True
    return False
