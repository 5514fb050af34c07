"""The fixtures of the quick tests."""

from __future__ import annotations

from tests.planted.conftest import *  # noqa: F403
