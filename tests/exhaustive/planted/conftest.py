"""The fixtures of the quick tests."""

from tests.planted.conftest import *  # noqa: F403
