"""An engine of ours that behaves as a Unity build, for programs that start one:

    python -m lucky_transport_pipe cartpole -batchmode -nographics -p NAME --slots 4

It connects to the pipe NAME and ends after one client. The exit status is 1 when no client offered the pipe in time,
and 2 when the command line is wrong.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import Any

import click

from lucky_transport.agents.agents import AgentHost
from lucky_transport.api import make_engine
from lucky_transport.cli.serve import options_of
from lucky_transport.cli.shutdown import Shutdown
from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import TransportError
from lucky_transport_pipe.rules import SessionRules, changed
from lucky_transport_pipe.server import PipeServer

__all__ = ["main"]

_CONNECT_TIMEOUT_S = 10.0
_LOOK_S = 0.1
_RULES = ("stepping", "slots", "timeout_s")
_EXAMPLE = """\
Example:
  python -m lucky_transport_pipe cartpole -batchmode -nographics -p train --slots 4

An engine that serves one client after another: lucky-transport serve cartpole --endpoint 'pipe://train?slots=4'
"""


def main() -> int:
    """Serve one client; return the exit status."""
    parser = _parser()
    arguments = parser.parse_args()
    with Shutdown() as shutdown:
        try:
            return _serve(arguments, shutdown)
        except TransportError as error:
            parser.exit(2, f"{parser.prog}: {error}\n")


def _serve(arguments: Namespace, shutdown: Shutdown) -> int:
    options = tuple((name, value) for name in _RULES if (value := getattr(arguments, name)) is not None)
    server = PipeServer(
        Endpoint("pipe", arguments.pipe, options), load_settings(), connect_timeout_s=_CONNECT_TIMEOUT_S
    )
    host = AgentHost(make_engine(arguments.engine, **arguments.options))
    server.start(host)
    while not server.ended.wait(_LOOK_S) and not shutdown.asked.is_set():
        pass
    server.stop()
    host.close()
    return 0 if server.clients else 1


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "python -m lucky_transport_pipe",
        description="An engine that behaves as a Unity build.",
        epilog=_EXAMPLE,
        formatter_class=RawDescriptionHelpFormatter,
    )
    default = SessionRules(timeout_s=load_settings().step_timeout_s)
    parser.add_argument("engine", help="for instance cartpole")
    parser.add_argument("-p", dest="pipe", required=True, metavar="NAME", help="the pipe to connect to")
    parser.add_argument("-batchmode", action="store_true", help="accepted, without effect")
    parser.add_argument("-nographics", action="store_true", help="accepted, without effect")
    parser.add_argument(
        "--stepping",
        choices=["barrier", "independent"],
        help="independent: a session steps as soon as it has a command (default: barrier, all that run step together)",
    )
    parser.add_argument(
        "--slots", type=_rule("slots"), metavar="N", help=f"sessions at once (default: {default.slots})"
    )
    parser.add_argument(
        "--timeout-s",
        type=_rule("timeout_s"),
        metavar="S",
        help=f"a session that gets no command for so long ends (default: {default.timeout_s:g})",
    )
    parser.add_argument("--options", type=_options, default={}, metavar="JSON", help="options of the engine")
    return parser


def _rule(name: str) -> Callable[[str], str]:
    """Return what checks an argument as the option of an endpoint is checked."""

    def check(text: str) -> str:
        try:
            changed(SessionRules(), name, text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from error
        return text

    return check


def _options(text: str) -> dict[str, Any]:
    try:
        return options_of(text)
    except click.BadParameter as error:
        raise ArgumentTypeError(error.message) from error


if __name__ == "__main__":
    sys.exit(main())
