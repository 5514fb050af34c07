"""What describes a service before any program has called it: its .proto, a file of descriptors, or its server."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, MissingExtra, NotReachable, printable
from lucky_transport.foreign_code import import_problem

_PATIENCE_S = 10.0
#: For all files that a server describes.
_DESCRIBING_S = 30.0
_INSTEAD = "give its .proto, or a descriptor set of it"

#: Services that a server answers for gRPC's tools, not for its clients.
_OF_TOOLS = "grpc."


def file_set_from(source: str, folders: Iterable[Path] = (), metadata: Metadata = ()) -> bytes:
    """Return the FileDescriptorSet that `source` gives, with all that it imports.

    source: a .proto file, a file that protoc's --descriptor_set_out wrote, or "grpc://host:port", a server that has
    reflection, asked with `metadata`. folders: where a .proto finds its imports, beside its own folder. Raises
    ConfigError for what gives none, MissingExtra where a package is needed, NotReachable for a server that is not
    there.
    """
    if "://" in source:
        return _from_server(source, metadata)
    path = Path(source)
    if not path.is_file():
        raise ConfigError(f"no file {source!r}", hint="give a .proto, a descriptor set, or grpc://host:port")
    return _from_proto(path, folders) if path.suffix == ".proto" else path.read_bytes()


def _from_proto(path: Path, folders: Iterable[Path]) -> bytes:
    known = Path(_imported("grpc_tools", "grpcio-tools", "give a descriptor set").__path__[0]) / "_proto"
    with tempfile.TemporaryDirectory() as scratch:
        written = Path(scratch) / "services.binpb"
        command = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", f"--descriptor_set_out={written}"]
        command += [f"--proto_path={folder}" for folder in (*folders, path.parent, known)]
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            hint = "give the folder that its imports start from: --proto-path FOLDER"
            raise ConfigError(f"protoc refuses {path}: {done.stderr.strip()}", hint=hint)
        return written.read_bytes()


def _imported(module: str, package: str, instead: str) -> ModuleType:
    """Return a module; raises MissingExtra, with the package that has it and another way."""
    if why := import_problem(module):
        raise MissingExtra(
            f"the description of a service needs the package {package!r} ({why})",
            hint=f"pip install {package}, or {instead}",
        )
    return importlib.import_module(module)


def _from_server(source: str, metadata: Metadata) -> bytes:
    endpoint = Endpoint.parse(source)
    if endpoint.scheme != "grpc":
        raise ConfigError(
            f"{source}: reflection is asked for over gRPC", hint="give the server's port: grpc://host:port"
        )
    module = "grpc_reflection.v1alpha.reflection_pb2_grpc"
    stub = _imported(module, "grpcio-reflection", "give the service's .proto").ServerReflectionStub
    import grpc  # reflection has brought it
    from google.protobuf.message import DecodeError

    with grpc.insecure_channel(endpoint.address) as channel:
        try:
            grpc.channel_ready_future(channel).result(_PATIENCE_S)
            return _reflected(stub(channel), source, metadata)
        except grpc.FutureTimeoutError:
            raise NotReachable(f"no server answers at {source}", hint="start it, or give its .proto") from None
        except grpc.RpcError as error:
            text = f"{source} has no reflection: {error.code().name} {error.details()}"
            raise ConfigError(text, hint=_INSTEAD) from None
        except (DecodeError, CycleError) as error:
            raise ConfigError(f"{source} describes its services wrongly: {error}", hint=_INSTEAD) from None


def _reflected(stub: Any, source: str, metadata: Metadata) -> bytes:
    """Return the files of all services of a server, each behind those that it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

    def ask(**what: Any) -> Any:
        requests = iter([ServerReflectionRequest(**what)])
        timeout_s = min(_PATIENCE_S, until.remaining_s)
        answers = list(stub.ServerReflectionInfo(requests, timeout=timeout_s, metadata=metadata))
        if len(answers) == 1 and not answers[0].HasField("error_response"):
            return answers[0]
        why = printable(answers[0].error_response.error_message) if answers else "it gave no answer"
        raise ConfigError(f"{source} describes no {next(iter(what.values()))!r}: {why}", hint="give its .proto")

    files: dict[str, Any] = {}
    until = Deadline(_DESCRIBING_S)
    services = [one.name for one in ask(list_services="*").list_services_response.service]
    asked = [{"file_containing_symbol": one} for one in services if not one.startswith(_OF_TOOLS)]
    while asked:
        what = asked.pop()
        if what.get("file_by_filename") in files:
            continue
        found = map(FileDescriptorProto.FromString, ask(**what).file_descriptor_response.file_descriptor_proto)
        for file in found:
            if files.setdefault(file.name, file) is file:
                asked += [{"file_by_filename": name} for name in file.dependency]
    return FileDescriptorSet(file=_imports_first(files)).SerializeToString(deterministic=True)


def _imports_first(files: dict[str, Any]) -> list[Any]:
    order = TopologicalSorter({name: tuple(file.dependency) for name, file in files.items()}).static_order()
    return [files[name] for name in order if name in files]
