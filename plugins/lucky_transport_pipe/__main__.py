"""An engine of ours in the manner of a Unity build, for programs that start one:

    python -m lucky_transport_pipe cartpole -batchmode -nographics -p NAME

It comes to the pipe NAME, serves the client there, and ends by itself when that one says quit or has gone. The exit
status is 1 when nobody offered the pipe in time.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser

from lucky_transport.api import make_engine
from lucky_transport.cli.shutdown import Shutdown
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.host.host import Host
from lucky_transport_pipe.server import PipeServer

__all__ = ["main"]

_PATIENCE_S = 10.0
_LOOK_S = 0.1


def main() -> int:
    """Serve one client; return the exit status."""
    parser = ArgumentParser("python -m lucky_transport_pipe", description="An engine that behaves as a Unity build.")
    parser.add_argument("engine", help="for instance cartpole")
    parser.add_argument("-p", dest="pipe", required=True, metavar="NAME", help="the pipe to come to")
    parser.add_argument("-batchmode", action="store_true", help="accepted, without effect")
    parser.add_argument("-nographics", action="store_true", help="accepted, without effect")
    parser.add_argument("--options", type=json.loads, default={}, metavar="JSON", help="options of the engine")
    arguments = parser.parse_args()
    with Shutdown() as shutdown:
        host = Host(make_engine(arguments.engine, **arguments.options))
        server = PipeServer(Endpoint("pipe", arguments.pipe), load_settings(), patience_s=_PATIENCE_S)
        server.start(host)
        while not server.ended.wait(_LOOK_S) and not shutdown.asked.is_set():
            pass
        server.stop()
        host.close()
    return 0 if server.clients else 1


if __name__ == "__main__":
    sys.exit(main())
