"""The protobuf messages and services of `proto/`, in a descriptor pool of their own. Classes of two pools are different
types with the same wire format: pass bytes between them, not messages.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

__all__ = ["FILES", "POOL", "Method", "message_class", "methods", "services"]


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a service, with what a stub or a servicer needs to register it.

    `path` is what travels as HTTP/2 `:path`, for instance "/hazel.rpc.AgentService/Step".
    """

    path: str
    request: type[Message]
    response: type[Message]
    client_streaming: bool
    server_streaming: bool


def message_class(full_name: str) -> type[Message]:
    """Return the class of the message `full_name`, for instance "hazel.rpc.StepRequest"; the same one every time.

    Raises KeyError, with the nearest names, when there is no such message.
    """
    return _message_class(full_name)


@functools.cache
def _message_class(full_name: str) -> type[Message]:
    try:
        descriptor = POOL.FindMessageTypeByName(full_name)
    except KeyError:
        raise KeyError(_unknown_message(full_name)) from None
    return GetMessageClass(descriptor)


@functools.cache
def services() -> Mapping[str, ServiceDescriptor]:
    """Return every service by its full name, for instance "hazel.rpc.AgentService", in the order of the files."""
    found: dict[str, ServiceDescriptor] = {}
    for file_name in FILES:
        for service in POOL.FindFileByName(file_name).services_by_name.values():
            found[service.full_name] = service
    return MappingProxyType(found)


@functools.cache
def methods() -> Mapping[str, Method]:
    """Return every method of every service by its path, in the order of the files."""
    every = (method for service in services().values() for method in service.methods)
    return MappingProxyType({method.path: method for method in map(_method, every)})


def _method(descriptor: MethodDescriptor) -> Method:
    return Method(
        path=f"/{descriptor.containing_service.full_name}/{descriptor.name}",
        request=message_class(descriptor.input_type.full_name),
        response=message_class(descriptor.output_type.full_name),
        client_streaming=descriptor.client_streaming,
        server_streaming=descriptor.server_streaming,
    )


def _unknown_message(full_name: str) -> str:
    names = [
        message.full_name
        for file_name in FILES
        for message in POOL.FindFileByName(file_name).message_types_by_name.values()
    ]
    near = difflib.get_close_matches(full_name, names, n=3)
    # A bare or wrongly qualified name is the usual slip, and too far from the full one for difflib.
    near = near or [name for name in names if name.rpartition(".")[2] == full_name.rpartition(".")[2]]
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {len(names)} others"
    return f"no message {full_name!r} in proto/{hint}"


def _load() -> tuple[DescriptorPool, tuple[str, ...]]:
    """Return the pool with all files in it, and their names, imports first."""
    committed = resources.files(__name__) / "descriptors.binpb"
    files = FileDescriptorSet.FromString(committed.read_bytes()).file
    pool = DescriptorPool()
    # protoc writes each file after those that it imports, which is the order that a pool demands.
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return pool, tuple(file.name for file in files)


# luckyrobots registers files of the same names and packages in protobuf's default pool, and one pool refuses a second
# file of a name with other content; with two pools the import order is free. The classes come from `descriptors.binpb`,
# not from generated Python, so no version of the generator has to match the installed protobuf runtime.
#: The private pool, and the names of the files in it (imports first).
POOL, FILES = _load()
