"""The fixtures of the quick tests."""

from tests.plugins.openenv.conftest import *  # noqa: F403
