"""When every method is at `complete`, nothing asks gRPC any more: its endpoint leaves lucky_transport.toml."""

from __future__ import annotations

from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

__all__ = ["rewrite_stages"]

_COMPLETE = "complete"


def rewrite_stages(name: str, content: bytes) -> bytes:
    """Return the content of the file of that name without gRPC's endpoint; unchanged while a method needs it."""
    if name.rpartition("/")[2] != "lucky_transport.toml":
        return content
    try:
        document = tomlkit.parse(content)
    except (TOMLKitError, UnicodeDecodeError, RecursionError):
        return content
    stages: Any = document.get("stages")
    if not isinstance(stages, dict) or not _are_complete(stages) or "control" not in stages:
        return content
    del stages["control"]
    return document.as_string().encode()


def _are_complete(stages: dict[str, Any]) -> bool:
    methods = stages.get("methods", {})
    return stages.get("default") == _COMPLETE and all(stage == _COMPLETE for stage in methods.values())
