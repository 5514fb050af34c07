"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.core_shm import base, connect, ends, join, listener, no_descriptor_left, pipes, start
