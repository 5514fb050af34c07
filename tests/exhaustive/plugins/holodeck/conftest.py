"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.plugins_holodeck import bench, holoocean_python, peer_python
