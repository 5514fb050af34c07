"""The fixtures of the quick tests."""

from tests.cli.conftest import *  # noqa: F403
