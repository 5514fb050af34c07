"""The share of a training step that is transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["share"]


def share(one: Mapping[str, Any]) -> float:
    """Return it for one transport's times: the transport alone over env, policy and learning."""
    return one["alone_us"] / (one["env_us"] + one["policy_us"] + one["learning_us"])
