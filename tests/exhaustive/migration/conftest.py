"""The fixtures of the quick tests."""

from tests.migration.conftest import *  # noqa: F403
