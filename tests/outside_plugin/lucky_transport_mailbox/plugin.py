"""What this package contributes; imports nothing heavy."""

from lucky_transport.hookspecs import TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="mailbox",
            schemes=("mailbox",),
            client="lucky_transport_mailbox.client:connect",
            server="lucky_transport_mailbox.server:server",
            summary="pickled messages over a unix socket",
            local_endpoint="mailbox://{name}",
        )
    ]
