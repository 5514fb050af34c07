"""The fixtures of the quick tests."""

from tests.plugins.stubs.run.conftest import *  # noqa: F403
