"""`lucky-transport relay`: a gRPC server of any language on this host, for clients in shared memory."""

from __future__ import annotations

import click

from lucky_transport.cli.shutdown import Shutdown

#: What an orderly end may take beside the calls under way.
_END_S = 4.0


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport relay grpc://127.0.0.1:50051 --endpoint shm://robot\n"
    "  lucky-transport run --map 127.0.0.1:50051=shm://robot -- python client.py\n\n"
    "\b\n"
    "  lucky-transport relay grpc://127.0.0.1:50051 --endpoint 'shm://grpc_{port}'\n"
    "  lucky-transport run --map '127.0.0.1:*=shm://grpc_{port}' -- python client.py\n\n"
    "\b\n"
    "  lucky-transport relay 'grpcs://robot.lab:443?ca=ca.pem&cert=me.pem&key=me.key' --endpoint shm://robot\n"
    "  lucky-transport relay grpc+unix:///run/engine.sock --endpoint shm://engine\n",
)
@click.argument("upstream", metavar="UPSTREAM")
@click.option(
    "--endpoint",
    required=True,
    metavar="ENDPOINT",
    help="Where to serve, shm://NAME; {host} and {port} stand for those of UPSTREAM.",
)
@click.option(
    "--max-calls",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Calls under way at once, each a thread; more are RESOURCE_EXHAUSTED.",
)
@click.option(
    "--grace",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="Seconds that calls under way have to end after SIGTERM or Ctrl-C.",
)
def relay(upstream: str, endpoint: str, max_calls: int, grace: float) -> None:
    """Carry the calls of clients in shared memory to the gRPC server at UPSTREAM, of any services and any language.

    UPSTREAM is grpc://HOST:PORT, grpc+unix:///PATH, or over TLS grpcs://HOST:PORT, with the options ca, cert, key (PEM
    files) and authority (the name in the server's certificate). Calls are UNAVAILABLE while it does not run.

    Prints `ready shm://NAME`. SIGTERM or Ctrl-C end it: new calls are refused, those under way have --grace seconds.
    """
    with Shutdown(limit_s=grace + _END_S, what="relay") as shutdown:
        from lucky_transport_stubs.relay.relay import Relay

        with Relay(upstream, endpoint, max_calls) as serving:
            click.echo(f"ready {serving.endpoint}")
            shutdown.wait()
            serving.stop(grace)
