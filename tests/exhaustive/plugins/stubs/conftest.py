"""The fixtures of the quick tests."""

from tests.plugins.stubs.conftest import *  # noqa: F403
