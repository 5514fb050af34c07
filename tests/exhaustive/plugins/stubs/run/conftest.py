"""The fixtures of the quick tests."""

from __future__ import annotations

from tests.plugins.stubs.run.conftest import *  # noqa: F403
