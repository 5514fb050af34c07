"""A server of a team's own, started for a comparison: on a port, or in shared memory under `lucky-transport run`."""

from __future__ import annotations

import os
import shlex
import signal
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from lucky_transport.call import Metadata
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, UnknownName, did_you_mean
from lucky_transport.messages.method import matches
from lucky_transport.process import ChildProcess, python_command, unique_name
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.catalogue.sources import file_set_from
from lucky_transport_migration.evidence.outcome import CANDIDATE
from lucky_transport_migration.evidence.service_caller import ServiceCaller

PORT = "{port}"


class ServerCommand:
    """The command line of a server, which has {port} where the number goes. start_s: how long it may take to answer.
    metadata: what every call to it has.

    Raises ConfigError for a line without {port} or that no shell could split.
    """

    def __init__(self, line: str, start_s: float = 60.0, metadata: Metadata = ()) -> None:
        try:
            self._words = shlex.split(line)
        except ValueError as error:
            raise ConfigError(f"--server {line!r}: {error}", hint="close the quotation mark") from None
        if PORT not in line:
            raise ConfigError(f"--server {line!r} has no {PORT}", hint=f"e.g. 'python server.py --port {PORT}'")
        self.line = line
        self.start_s = start_s
        self.metadata = metadata

    def words(self, port: int) -> list[str]:
        """Return the command for that port."""
        return [word.replace(PORT, str(port)) for word in self._words]


class RunningServer:
    """One instance of a server, over "grpc" or "shm", that answers. clients: four, with connections of their own:
    two with the metadata that was given, one without it, one with other values of it.

    Raises NotReachable, with its last lines of output, when it ends or does not answer in time.
    """

    def __init__(self, command: ServerCommand, transport: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = command.words(port)
        self.endpoint = f"grpc://127.0.0.1:{port}"
        if transport == CANDIDATE:
            self.endpoint = f"shm://{unique_name()}"
            served = f"--serve=*:{port}={self.endpoint}"
            words = python_command(
                "lucky_transport", "run", "--transport", "shm", "--quiet", served, "--serve-only", "--", *words
            )
        with ExitStack() as stack:
            given = (command.metadata, command.metadata, (), tuple((key, value * 2) for key, value in command.metadata))
            self.clients = [stack.enter_context(ServiceCaller(self.endpoint, metadata)) for metadata in given]
            self._process = ChildProcess(f"the server over {transport}", words)
            stack.callback(self._end)
            late = f"it has to serve port {port}, without TLS; a slow one needs a longer start_timeout_s"
            if transport == CANDIDATE:
                late += "; `lucky-transport run` moves servers of Python's grpcio alone"
            is_ready, deadline = self.clients[0].is_ready, Deadline(command.start_s)
            self._process.await_ready(is_ready, deadline, late=late, ended=f"try it: {command.line}")
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stack.close()

    def exit_report(self, within_s: float = 0.0) -> str:
        """Return how it ended, with its last lines of output; "" when it still runs after `within_s`."""
        return self._process.exit_report(within_s)

    def _end(self) -> None:
        self._process.stop()
        with suppress(ProcessLookupError, PermissionError):  # what it started, in the session of its own
            os.killpg(self._process.pid, signal.SIGKILL)


def methods_of(
    endpoint: str,
    files: Sequence[Path],
    folders: Sequence[Path],
    services: Sequence[str],
    pattern: str,
    described: Sequence[bytes] = (),
    metadata: Metadata = (),
) -> tuple[list[ServiceMethod], list[bytes]]:
    """Return the methods to compare, and the FileDescriptorSets that describe them: of `files` and `described`, or else
    the reflection of the server at `endpoint`.

    services: full names, () = all. pattern: of methods, "all" = each. metadata: of calls to the server. Raises
    ConfigError where nothing describes it, UnknownName for a service or method that is none of them.
    """
    found: dict[str, ServiceMethod] = {}
    sets = [(content, "the recording") for content in described]
    for source in [str(file) for file in files] or ([] if described else [endpoint]):
        sets.append((_content(source, folders, metadata), source))
    for content, source in sets:
        try:
            found |= {one.name: one for one in methods_in(content, source)}
        except ValueError as error:
            hint = "write one: protoc --include_imports --descriptor_set_out FILE"
            raise ConfigError(f"{source}: {error}", hint=hint) from None
    by_service = {name: name.removeprefix("/").partition("/")[0] for name in found}
    for service in services:
        if service not in by_service.values():
            there = list(dict.fromkeys(by_service.values()))
            hint = did_you_mean(service, there).rstrip() or f"there are {', '.join(there) or 'none'}"
            raise UnknownName(f"no service is called {service!r}", hint=hint)
    rows = {name: row for name, row in found.items() if not services or by_service[name] in services}
    chosen = [row for name, row in rows.items() if pattern == "all" or matches(name, pattern)]
    if not chosen:
        raise UnknownName(f"no method fits {pattern!r}", hint=f"there are {', '.join(rows) or 'none'}")
    return chosen, [content for content, _ in sets]


def _content(source: str, folders: Sequence[Path], metadata: Metadata) -> bytes:
    try:
        return file_set_from(source, folders, metadata)
    except ConfigError as error:
        if "://" not in source:
            raise
        hint = "give its .proto with --proto FILE, or with --descriptor-set FILE what protoc --descriptor_set_out wrote"
        raise ConfigError(f"nothing describes the messages of the server: {error}", hint=hint) from None
