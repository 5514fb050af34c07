"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.migration_evidence import both, project, stages_as_the_file_says, taken_port, unused_port
