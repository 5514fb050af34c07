"""The transport `recorded:`: another one, with everything written to a file.

recorded:?to=shm%3A%2F%2Fdemo&file=run.jsonl.gz         what goes to shm://demo is recorded in that file
recorded:?to=shm%3A%2F%2Fdemo&file=run.jsonl&seed=7     and the header says which seed the engine was started with
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from lucky_transport.api import open_transport
from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError
from lucky_transport_migration.recording.entries import Header
from lucky_transport_migration.recording.recorded_transport import RecordedTransport
from lucky_transport_migration.recording.recorder import recorder_of

__all__ = ["open_recorded", "recorded_endpoint"]


def recorded_endpoint(to: str, file: Path, seed: int | None = None) -> Endpoint:
    """Return the endpoint that leads to `to` and records in `file`."""
    options = (("to", to), ("file", str(file)), *(() if seed is None else (("seed", str(seed)),)))
    return Endpoint("recorded", "", options)


def open_recorded(endpoint: Endpoint, settings: Settings) -> RecordedTransport:
    """Return a transport to the endpoint's `to` that records in its `file`.

    Raises ConfigError for an endpoint without them and for a file that cannot be made, and what connecting raises.
    """
    to, file, seed = (endpoint.option(key) for key in ("to", "file", "seed"))
    if not to or not file:
        example = recorded_endpoint("shm://demo", Path("run.jsonl"))
        raise ConfigError(f"endpoint {endpoint} needs to= and file=", hint=f"write for instance {example}")
    if seed and not seed.isdecimal():
        raise ConfigError(f"endpoint {endpoint}: seed = {seed!r}", hint="write a whole number >= 0")
    inner = open_transport(to, replace(settings, record=""))
    try:
        spec = json.loads(inner.spec.to_json())
        header = Header(inner.name, to, inner.spec.engine, int(seed) if seed else None, spec)
        return RecordedTransport(inner, recorder_of(Path(file), header))
    except BaseException:
        inner.close()
        raise
