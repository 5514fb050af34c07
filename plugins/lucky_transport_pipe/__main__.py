"""An engine of ours that behaves as a Unity build, for programs that start one:

    python -m lucky_transport_pipe cartpole -batchmode -nographics -p NAME --slots 4

It connects to the pipe NAME and ends after one client. The exit status is 1 when no client offered the pipe in time,
and 2 when the command line is wrong.
"""

from __future__ import annotations

import sys

import click

from lucky_transport.api import make_engine
from lucky_transport.cli.serve import options_of
from lucky_transport.cli.shutdown import Shutdown
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import TransportError
from lucky_transport.host.host import Host
from lucky_transport_pipe.options import SessionRules
from lucky_transport_pipe.server import PipeServer

_CONNECT_TIMEOUT_S = 10.0


@click.command(
    epilog="\b\nExample:\n"
    "  python -m lucky_transport_pipe cartpole -batchmode -nographics -p train --slots 4\n\n"
    "An engine that serves one client after another: lucky-transport serve cartpole --endpoint 'pipe://train?slots=4'"
)
@click.argument("engine")
@click.option("-p", "pipe", required=True, metavar="NAME", help="The pipe to connect to.")
@click.option("-batchmode", "-nographics", is_flag=True, expose_value=False, help="Accepted, without effect.")
@click.option(
    "--stepping",
    type=click.Choice(["barrier", "independent"]),
    help="independent: a session steps as soon as it has a command (default: barrier, all that run step together).",
)
@click.option("--slots", metavar="N", help=f"Sessions at once (default: {SessionRules().slots}).")
@click.option(
    "--timeout-s", metavar="S", help="A session that gets no command for so long ends (default: step_timeout_s)."
)
@click.option("--options", default="{}", metavar="JSON", help="Options of the engine.")
def main(engine: str, pipe: str, options: str, **rules: str | None) -> None:
    """Serve ENGINE, for instance cartpole, to one client, as a Unity build would."""
    given = tuple((name, value) for name, value in rules.items() if value is not None)
    engine_options = options_of(options)
    with Shutdown() as shutdown:
        try:
            server = PipeServer(
                Endpoint("pipe", pipe, given),
                load_settings(),
                connect_timeout_s=_CONNECT_TIMEOUT_S,
                on_end=shutdown.asked.set,
            )
            host = Host(make_engine(engine, **engine_options))
            server.start(host)
        except TransportError as error:
            raise click.UsageError(str(error)) from error
        shutdown.wait()
        server.stop()
        host.close()
    sys.exit(0 if server.clients else 1)


if __name__ == "__main__":
    main()
