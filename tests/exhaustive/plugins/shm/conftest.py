"""The fixtures of the quick tests."""

from __future__ import annotations

from tests.plugins.shm.conftest import *  # noqa: F403
