"""The version of this package, and what is said of an engine that runs another one."""

from __future__ import annotations

import logging
from functools import cache, lru_cache
from importlib import metadata

__all__ = ["compare_version", "version"]

_log = logging.getLogger("lucky_transport")


@cache
def version() -> str:
    """Return the version of this package, "" where it is imported without being installed."""
    try:
        return metadata.version("lucky-transport")
    except metadata.PackageNotFoundError:
        return ""


@lru_cache(64)
def compare_version(engine: str, theirs: str) -> None:
    """Log, once, that an engine runs another version; what both speak is for the transports to find out."""
    if theirs != version() and version():
        _log.warning(
            "engine %r runs lucky_transport %.32r, this process %s; what only one of them has is not there",
            engine,
            theirs,
            version(),
        )
