"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import TransportInfo, hookimpl


@hookimpl
def lucky_transport_transports() -> list[TransportInfo]:
    return [
        TransportInfo(
            name="ray",
            schemes=("ray",),
            client="lucky_transport_ray.client:connect",
            server="",
            summary="one batch over the nodes of a Ray cluster, an engine in each actor; starts its engines itself",
            extra="ray",
            starts_engines=True,
            instead="a client starts its engines itself: lucky_transport.make(endpoint='ray:?engine=toy&num_envs=8')",
        )
    ]
