"""The fixtures of the quick tests."""

from __future__ import annotations

from tests.cli.conftest import *  # noqa: F403
