"""What the sessions of one engine may take."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """sessions: how many there may be. builders: worlds built at once. slots: sessions advanced at once on demand.
    patience_s: how long a call waits for a slot before it gets Busy. idle_s: after how long without any call a session
    is destroyed. sweep_s: how often that is looked after.
    """

    sessions: int = 1024
    builders: int = 4
    slots: int = 8
    patience_s: float = 5.0
    idle_s: float = 300.0
    sweep_s: float = 30.0
