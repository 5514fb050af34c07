"""The fixtures of the quick tests."""

from tests.plugins.pipe.conftest import *  # noqa: F403
