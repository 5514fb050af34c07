"""Counts in sentences: "1 call", "2 calls", "1,024 calls"."""

from __future__ import annotations

__all__ = ["plural"]


def plural(count: int, noun: str, many: str = "") -> str:
    """Return the count with its noun; many: the noun for other counts than one where that is not `noun` + "s"."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"
