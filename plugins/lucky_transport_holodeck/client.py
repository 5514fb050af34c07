"""The client's end: `connect` finds out what is there, and drives it.

    an engine of ours           whole frames and typed calls: `lucky_transport_holodeck.batch_client`
    any other Holodeck engine   agents, sensors and resets: `lucky_transport_holodeck.world_client`, needs a scenario

An engine of ours has its segment before it has semaphores; one with semaphores alone is foreign.
"""

from __future__ import annotations

import time

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import NotReachable
from lucky_transport.shm.segment_files import DIRECTORY
from lucky_transport.transport import Transport
from lucky_transport_holodeck.batch_client import BatchTransport
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.world_options import WorldOptions
from lucky_transport_holodeck.world_transport import WorldTransport

__all__ = ["connect"]

_SLEEP_S = 0.01


def connect(endpoint: Endpoint, settings: Settings) -> Transport:
    """Return a transport to the engine of `holodeck://UUID`.

    Raises NotReachable, Busy (another client drives it), ConfigError (an engine of the original needs a scenario),
    SpecError (a scenario that is no batch).
    """
    names = Names(endpoint.address)
    options = WorldOptions.of(endpoint)
    deadline = Deadline(settings.connect_timeout_s)
    if options.binary:
        return WorldTransport.start(names, options, settings)
    while True:
        if (DIRECTORY / names.extension).exists():
            return BatchTransport.join(names, settings, deadline)
        if Names.file_of(names.server).exists():
            return WorldTransport.attach(names, options, settings, deadline)
        if deadline.expired:
            raise NotReachable(
                f"no engine at {endpoint} after {deadline.timeout_s} s",
                backend="holodeck",
                hint="start it, check the uuid, and that both run as the same user",
            )
        time.sleep(_SLEEP_S)
