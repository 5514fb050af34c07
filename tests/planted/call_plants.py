"""Differences of typed calls, streams, deadlines and errors."""

from __future__ import annotations

from tests.planted.plant import Plant

__all__ = ["CALL_PLANTS"]

CALL_PLANTS: tuple[Plant, ...] = ()
