"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.plugins_stubs_run import (
    command_line,
    environ,
    forked_line,
    grpc_port,
    launch,
    notices,
    python,
    run_switched,
    start,
    start_switched,
)
