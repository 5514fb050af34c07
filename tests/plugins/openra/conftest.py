"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.plugins_openra import client, door, no_thread_is_left, serve, sessions, stub
