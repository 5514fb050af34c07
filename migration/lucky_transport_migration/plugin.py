"""What the migration kit contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import CommandInfo, hookimpl

__all__: list[str] = []


@hookimpl
def lucky_transport_commands() -> list[CommandInfo]:
    return [
        CommandInfo(
            "demo", "lucky_transport_migration.cli.demo:demo", "step one batch over gRPC and shm, side by side"
        ),
        CommandInfo("parity", "lucky_transport_migration.cli.parity:parity", "prove that transports answer the same"),
        CommandInfo("bench", "lucky_transport_migration.cli.bench:bench", "measure transports against each other"),
    ]
