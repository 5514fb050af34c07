"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import CommandInfo, EngineInfo, hookimpl


@hookimpl
def lucky_transport_engines() -> list[EngineInfo]:
    return [
        EngineInfo(
            name="libenv",
            factory="lucky_transport_libenv.engine:make_engine",
            summary="any library with the libenv C interface: libenv:PATH",
        )
    ]


@hookimpl
def lucky_transport_commands() -> list[CommandInfo]:
    return [
        CommandInfo(
            "export-libenv",
            "lucky_transport_libenv.export.build:export_libenv",
            "make a shared library of an engine, for gym3 and other libenv hosts",
        )
    ]
