"""Methods by protobuf's descriptors: of the modules of this program, and of what programs kept beside their evidence.

A program that makes evidence keeps what describes the services that it called, as FileDescriptorSets in
`<folder>/services-<hash>.binpb`: one file a service, named by its content, so that processes never write over each
other. Commands read them, and know names, effects and messages without the program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucky_transport.atomic_write import write_atomically
from lucky_transport.messages.methods import Effect, Flow
from lucky_transport_migration.catalogue.effects import BY_LEVEL, UNSAID
from lucky_transport_migration.catalogue.service_method import ServiceMethod

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor

_PATTERN = "services-*.binpb"


def method_of_program(name: str) -> ServiceMethod | None:
    """Return the method of that full name as a generated module of this program describes it; None where none does."""
    pool = _pool_of_program()
    if pool is None:
        return None
    service, _, method = name.removeprefix("/").partition("/")
    try:
        return _described(pool.FindServiceByName(service).methods_by_name[method], "the program's modules")
    except KeyError:
        return None


def file_set_of(service: str) -> bytes | None:
    """Return the FileDescriptorSet of a service of this program, with all that it imports; None where none is known."""
    pool = _pool_of_program()
    try:
        file = None if pool is None else pool.FindServiceByName(service).file
    except KeyError:
        return None
    if file is None:
        return None
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files: dict[str, Any] = {}
    _add_file(file, files)
    found = FileDescriptorSet()
    for one in files.values():
        one.CopyToProto(found.file.add())
    return found.SerializeToString(deterministic=True)


def keep_service(folder: Path, service: str) -> None:
    """Keep what describes a service of this program in the folder, which is there. Raises OSError."""
    if content := file_set_of(service):
        keep_set(folder, content)


def keep_set(folder: Path, content: bytes) -> None:
    """Keep a FileDescriptorSet in the folder, which is there; each content once. Raises OSError."""
    path = folder / f"services-{blake2b(content, digest_size=8).hexdigest()}.binpb"
    if path.exists():
        path.touch()
    else:
        write_atomically(path, content)


def kept_sets(folder: Path) -> Iterator[tuple[bytes, str]]:
    """Yield the FileDescriptorSets in the folder, the one that was written last first, each with its path.

    Raises OSError, and ConfigError for a file that others may write.
    """
    from lucky_transport.found_file import open_found, refusal

    for path in sorted(folder.glob(_PATTERN), key=lambda one: -one.stat().st_mtime_ns):
        with open_found(path) as file:
            if refused := refusal(path, file.fileno()):
                raise refused
            yield file.read(), str(path)


def methods_in(file_set: bytes, source: str) -> list[ServiceMethod]:
    """Return the methods of all services of a FileDescriptorSet. Raises ValueError for what is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool = DescriptorPool()
    try:
        files = FileDescriptorSet.FromString(file_set).file
        for file in files:
            pool.Add(file)
        services = [
            pool.FindServiceByName(f"{file.package}.{one.name}" if file.package else one.name)
            for file in files
            for one in file.service
        ]
    except (DecodeError, TypeError, KeyError) as error:
        raise ValueError(f"no FileDescriptorSet: {error}") from error
    return [_described(method, source) for service in services for method in service.methods]


def _described(method: MethodDescriptor, source: str) -> ServiceMethod:
    effect, reason = BY_LEVEL.get(method.GetOptions().idempotency_level, (Effect.WORLD, UNSAID))
    return ServiceMethod(
        name=f"/{method.containing_service.full_name}/{method.name}",
        effect=effect,
        reason=reason,
        source=source,
        requests_stream=bool(method.client_streaming),
        stream=Flow.EVERY if method.server_streaming else None,
        request=class_of(method.input_type),
        response=class_of(method.output_type),
        descriptor=method,
    )


def class_of(message: Any) -> Any:
    """Return the class of the messages that a descriptor describes."""
    from google.protobuf import message_factory

    if not hasattr(message_factory, "GetMessageClass"):  # a switched program may have a protobuf before 4.22
        return message_factory.MessageFactory(message.file.pool).GetPrototype(message)  # pyright: ignore[reportAttributeAccessIssue]
    return message_factory.GetMessageClass(message)


def _add_file(file: Any, files: dict[str, Any]) -> None:
    """Add a file behind those that it imports."""
    for one in file.dependencies:
        if one.name not in files:
            _add_file(one, files)
    files[file.name] = file


def _pool_of_program() -> Any:
    """Return the pool that generated modules of this program are in; None where none was imported."""
    module = sys.modules.get("google.protobuf.descriptor_pool")
    return None if module is None else module.Default()
