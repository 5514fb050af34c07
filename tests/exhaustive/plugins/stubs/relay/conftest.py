"""The fixtures of the quick tests."""

from __future__ import annotations

from tests.plugins.stubs.relay.conftest import *  # noqa: F403
