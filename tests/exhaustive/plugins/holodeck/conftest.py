"""The fixtures of the quick tests."""

from tests.plugins.holodeck.conftest import *  # noqa: F403
