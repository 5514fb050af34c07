"""The fixtures of the quick tests."""

from __future__ import annotations

from tests.plugins.stubs.conftest import *  # noqa: F403
