"""What each process of a run would spend its first 0.1 s on: the fork server imports it once, and loads the plugins."""

import importlib

from lucky_transport.registry import registry

__all__: list[str] = []

registry()
for name in (
    "lucky_transport.engines.cartpole",
    "lucky_transport_migration.bench.echo_engine",
    "lucky_transport.env.vector_env",
    "lucky_transport.host.dispatch",
    "lucky_transport.sessions.batch",
    "lucky_transport_shm.client",
    "lucky_transport_shm.device",
    "lucky_transport_shm.server",
):
    importlib.import_module(name)
