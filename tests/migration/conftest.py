"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.migration import (
    bench_result,
    bench_text,
    calls,
    engines_are_forks,
    few_items,
    made_up_result,
    seen,
    tree,
    twin,
    without_charts,
)
from tests.support.fixtures.migration_evidence import both, project, taken_port, unused_port
from tests.support.fixtures.migration_recording import changed, recording, serve_toy
from tests.support.fixtures.migration_routing import new_policy, open_staged, serve, stage
