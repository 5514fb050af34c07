"""The fixtures of the quick tests."""

from tests.plugins.openra.conftest import *  # noqa: F403
