"""The suite of images, ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lucky_transport.client import Client
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.images import IMAGES, ImageSetup, plan_of_images, setups_of
from lucky_transport_migration.bench.workloads.flow import measure_images
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["measure_setup", "prepare"]

_NOTES = (
    "a row's time is that of one image in a stream that runs as fast as it is taken; every image's number, size "
    "and first, middle and last byte are looked at",
)


def prepare(paths: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line. A quick one has one round of short loops and small images.

    Running it raises what starting the engines raises, and RemoteProtocolError when an image is torn or stale.
    """
    plan = plan_of_images(paths, waits, rounds=rounds, quick=quick)
    return PreparedSuite(
        IMAGES, plan, list(setups_of(plan)), lambda setup: measure_setup(setup, plan.effort), notes=_NOTES
    )


def measure_setup(setup: ImageSetup, effort: Effort) -> Mapping[CallCell, Measured]:
    """Return the measurements of a setup's cells; its processes have ended when this returns."""
    with ConnectedEngine(find_path(setup.path), IMAGES.engine, 1, options=setup.options(), wait=setup.wait) as link:
        client = Client(link.transport)
        return {cell: measure_images(client, cell.kind, effort, link.pid) for cell in setup.cells()}
