"""The fixtures of the quick tests."""

from tests.plugins.libenv.conftest import *  # noqa: F403
