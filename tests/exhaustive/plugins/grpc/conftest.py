"""The fixtures of the quick tests."""

from tests.plugins.grpc.conftest import *  # noqa: F403
