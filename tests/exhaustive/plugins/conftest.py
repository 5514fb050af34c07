"""The fixtures of the quick tests."""

from tests.plugins.conftest import *  # noqa: F403
