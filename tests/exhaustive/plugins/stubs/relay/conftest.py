"""The fixtures of the quick tests."""

from tests.plugins.stubs.relay.conftest import *  # noqa: F403
