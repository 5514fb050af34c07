"""The fixtures of the quick tests."""

from tests.plugins.shm.conftest import *  # noqa: F403
