"""The frozen protocol is luckyrobots' own, byte for byte on the wire, and lives beside it in one process."""

# pyright: basic
# Reason: message classes are made at run time, so their fields have no static types.

import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'lucky-transport[grpc]'")

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message

from lucky_transport_grpc import _pb
from tests.support.command import python, stdout_of

LEGACY_FILES = [name for name in _pb.FILES if not name.startswith("lucky_")]
GENERATED = "luckyrobots.grpc.generated"


@pytest.fixture(scope="module")
def legacy_files() -> Mapping[str, FileDescriptorProto]:
    """The descriptors inside the installed luckyrobots, by file name."""
    files = _import_legacy()
    return {name: FileDescriptorProto.FromString(serialized) for name, serialized in files.items()}


def _import_legacy() -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    try:
        for name in LEGACY_FILES:
            module = importlib.import_module(f"{GENERATED}.{name.removesuffix('.proto')}_pb2")
            files[name] = module.DESCRIPTOR.serialized_pb
    except Exception as error:  # its generated code refuses older protobuf and grpcio with classes of its own
        pytest.skip(f"luckyrobots cannot be imported: {type(error).__name__}: {error}")
    return files


# --- equal to luckyrobots' descriptors ---


@pytest.mark.parametrize("file_name", LEGACY_FILES)
def test_a_legacy_file_equals_the_one_in_luckyrobots(
    file_name: str, legacy_files: Mapping[str, FileDescriptorProto]
) -> None:
    ours = FileDescriptorProto.FromString(_pb.POOL.FindFileByName(file_name).serialized_pb)
    differences = _differences(ours, legacy_files[file_name])
    assert not differences, "\n".join(differences)


def test_the_legacy_protocol_has_the_size_of_luckyrobots_0_5_0() -> None:
    services = [service for name, service in _pb.services().items() if name.startswith("hazel.rpc.")]
    methods = [method for path, method in _pb.methods().items() if path.startswith("/hazel.rpc.")]
    kinds = [(method.client_streaming, method.server_streaming) for method in methods]
    files = [_pb.POOL.FindFileByName(name) for name in LEGACY_FILES]
    messages = [found for file in files for top in file.message_types_by_name.values() for found in _with_nested(top)]
    enums = [enum for file in files for enum in file.enum_types_by_name]
    assert (len(services), len(methods)) == (9, 72)
    assert (kinds.count((False, False)), kinds.count((False, True))) == (65, 7)
    assert (len(messages), len(enums)) == (189, 4)


def _differences(one: FileDescriptorProto, other: FileDescriptorProto) -> list[str]:
    ours, theirs = dict(_facts(one)), dict(_facts(other))
    return [
        f"{path}: {ours.get(path, 'absent')}, upstream {theirs.get(path, 'absent')}"
        for path in sorted(ours.keys() | theirs.keys())
        if ours.get(path) != theirs.get(path)
    ]


def _facts(message: Message, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every field that is set as (path, value); elements with a name are addressed by it."""
    for field, value in message.ListFields():
        # json_name follows from the name; protoc writes it, descriptors embedded in generated code lack it.
        if field.name == "json_name":
            continue
        here = f"{path}.{field.name}" if path else field.name
        if field.message_type is None:
            yield here, list(value) if _is_repeated(field) else value
        elif _is_repeated(field):
            names = [getattr(element, "name", "") or str(index) for index, element in enumerate(value)]
            yield f"{here} in this order", names
            for name, element in zip(names, value, strict=True):
                yield from _facts(element, f"{here}[{name}]")
        else:
            yield from _facts(value, here)


def _is_repeated(field: FieldDescriptor) -> bool:
    # `label` is deprecated where `is_repeated` exists, and the only way where it does not (older protobuf).
    if hasattr(field, "is_repeated"):
        return field.is_repeated
    return field.label == FieldDescriptor.LABEL_REPEATED  # pyright: ignore[reportAttributeAccessIssue]


def _with_nested(message: Descriptor) -> Iterator[Descriptor]:
    yield message
    for nested in message.nested_types:
        yield from _with_nested(nested)


# --- beside luckyrobots in one process ---


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", [("luckyrobots", "ours"), ("ours", "luckyrobots")], ids="-then-".join)
def test_luckyrobots_and_our_messages_live_in_one_process(order: tuple[str, str]) -> None:
    _import_legacy()  # skips when it cannot be imported at all
    modules = {"luckyrobots": f"{GENERATED}.agent_pb2", "ours": "lucky_transport_grpc._pb"}
    program = f"""
import importlib
for name in {[modules[which] for which in order]!r}:
    importlib.import_module(name)
from lucky_transport_grpc import _pb
from {GENERATED} import agent_pb2, hazel_rpc_pb2, lidar_pb2
ours = _pb.message_class("hazel.rpc.StepRequest")
assert ours is not agent_pb2.StepRequest
assert ours.FromString(agent_pb2.StepRequest(agent_name="a", actions=[0.5]).SerializeToString()).actions[0] == 0.5
assert agent_pb2.StepRequest.FromString(ours(timeout_s=2.0).SerializeToString()).timeout_s == 2.0
"""
    _run(program)


# --- what _pb promises ---


@pytest.mark.exhaustive
def test_importing_the_messages_does_not_import_grpc() -> None:
    loaded = _run("""
import json, sys
from lucky_transport_grpc import _pb
_pb.methods()
print(json.dumps(sorted(sys.modules)))
""")
    assert [name for name in json.loads(loaded) if name.partition(".")[0] in {"grpc", "grpc_tools"}] == []


@pytest.mark.exhaustive
def test_the_messages_stay_out_of_the_default_pool() -> None:
    _run("""
from google.protobuf import descriptor_pool
from lucky_transport_grpc import _pb
_pb.methods()
for name in _pb.FILES:
    try:
        descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        continue
    raise SystemExit(f"{name} is in the default pool")
""")


def test_a_message_class_is_the_same_each_time_and_knows_its_neighbours() -> None:
    response = _pb.message_class("hazel.rpc.StepResponse")
    assert response is _pb.message_class("hazel.rpc.StepResponse")
    assert type(response().observation) is _pb.message_class("hazel.rpc.AgentFrame")  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", ["hazel.rpc.StepReqest", "StepRequest", "hazel.StepRequest"])
def test_an_unknown_message_is_refused_with_the_nearest_names(name: str) -> None:
    with pytest.raises(KeyError, match=r"did you mean .*hazel\.rpc\.StepRequest"):
        _pb.message_class(name)


def test_a_method_says_all_that_a_stub_needs() -> None:
    stream = _pb.methods()["/hazel.rpc.MujocoSceneService/StreamFullState"]
    assert stream.request is _pb.message_class("hazel.rpc.StreamFullStateRequest")
    assert stream.response is _pb.message_class("hazel.rpc.GetFullStateResponse")
    assert (stream.client_streaming, stream.server_streaming) == (False, True)


def test_services_of_ours_stand_beside_the_legacy_ones() -> None:
    ours = [name for name in _pb.services() if not name.startswith("hazel.rpc.")]
    assert ours == [f"lucky_transport.v1.{name}Service" for name in ("Batch", "Session", "State")]


def test_the_batch_service_has_what_a_batch_needs() -> None:
    ours = {path.rpartition("/")[2]: method for path, method in _pb.methods().items() if "BatchService" in path}
    assert list(ours) == ["GetSpec", "Exchange", "SetSeeds", "SetResetOptions", "Attach"]
    assert [name for name, method in ours.items() if method.server_streaming] == ["Attach"]
    options = _pb.message_class("lucky_transport.v1.SetResetOptionsRequest")
    assert type(options().contract) is _pb.message_class("hazel.rpc.SimulationContract")  # pyright: ignore[reportAttributeAccessIssue]


def _run(program: str) -> str:
    """Return what `program` prints in a fresh interpreter; it must succeed."""
    return stdout_of(python("-c", program))
