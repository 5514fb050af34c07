"""The tools find what is planted in the answers of a team's own server, and say EQUAL of no refusals."""

import shlex
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc
from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

import lucky_transport_stubs
from lucky_transport.deadline import Deadline
from lucky_transport.process import unique_name
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.compare.items import ItemDigest
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CallOptions, CallOutcome
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.parity.service_servers import RunningServer, ServerCommand
from lucky_transport_migration.recording.entries import Header, call_entry, line_of
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.routing.received import ReceivedItems
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_stubs.staged import channels
from tests.planted.answering_server import add_service
from tests.planted.answers import PLANTS, SERVICE, Answer, AnswerPlant, is_refused, numbered
from tests.support.command import invoke
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]


def described(plants: Iterable[AnswerPlant]) -> bytes:
    """Return what describes the methods of plants."""
    file = FileDescriptorProto(name="plants.proto", package="plants.v1", syntax="proto3")
    file.dependency.append(struct_pb2.DESCRIPTOR.name)
    service = file.service.add(name="Plants")
    for plant in plants:
        name, message = plant.method.rpartition("/")[2], ".google.protobuf.Struct"
        service.method.add(name=name, input_type=message, output_type=message, server_streaming=plant.streams)
    found = FileDescriptorSet()
    struct_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.append(file)
    return found.SerializeToString()


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def server(*options: str) -> str:
    return shlex.join([sys.executable, "-m", "tests.planted.answering_server", "--port", "{port}", *options])


def requests() -> list[bytes]:
    """Return requests that a plant refuses, and some that none does."""
    return [one.SerializeToString(deterministic=True) for one in sorted(numbered(*range(10)), key=is_refused)]


def recording(plants: Sequence[AnswerPlant], **options: Any) -> Path:
    """Record what gRPC answers, as a program would: 256 items of a stream, and a digest of the rest."""
    rows = {row.name: row for row in methods_in(described(plants), "plants")}
    entries = []
    for plant, request in product(plants, requests()):
        is_planted = not plant.refuses or is_refused(struct_pb2.Struct.FromString(request))
        answer = plant.control if is_planted else Answer(numbered(1))
        kept = ReceivedItems(digest=lambda row=rows[plant.method]: ItemDigest(row, ComparisonRules()))
        for item in answer.items:
            kept.add(item.SerializeToString())
        end = answer.code, answer.details, tuple(answer.headers), tuple(answer.trailing)
        outcome = CallOutcome("grpc", kept.items, *end, more=kept.more, rest=kept.rest)
        entry = call_entry(plant.method, [request], outcome, "protobuf", CallOptions(**options))
        entries.append(entry if entries else replace(entry, described=described(plants)))
    file = Path("run.jsonl")
    file.write_text("".join(map(line_of, (Header("grpc"), *entries))))
    return file


def run(*arguments: str) -> tuple[int, str]:
    done = invoke(*arguments)
    return done.exit_code, done.output


Plants = Sequence[AnswerPlant]


def parity(plants: Plants, *options: str, given: Sequence[str] = (), **_: Any) -> tuple[int, str]:
    Path("plants.binpb").write_bytes(described(plants))
    return run("parity", "--server", server(*options), "--descriptor-set", "plants.binpb", "--requests", "10", *given)


def parity_from(plants: Plants, *options: str, given: Sequence[str] = (), **recorded: Any) -> tuple[int, str]:
    return run("parity", "--server", server(*options), "--from", str(recording(plants, **recorded)), *given)


def replayed(plants: Plants, *options: str, given: Sequence[str] = (), **recorded: Any) -> tuple[int, str]:
    file = recording(plants, **recorded)
    with RunningServer(ServerCommand(server(*options)), "shm") as running:
        return run("replay", str(file), running.endpoint, *given)


def staged(plants: Plants, *, alike: bool = False, leaves: bool = False) -> tuple[int, str]:
    """A program calls over gRPC, and each call is made in shared memory too; `leaves`: it leaves a stream at once."""
    Path("plants.binpb").write_bytes(described(plants))
    effects = f'[stages.effects]\n"/{SERVICE}/*" = "read"\n'
    Path("lucky_transport.toml").write_text(f'[stages]\ndefault = "shadow"\n{effects}')
    run("stage", "register", "plants.binpb")
    told: list[str] = []
    router = ProcessRouter(EvidencePolicy(Path.cwd(), tell=told.append))
    endpoint = f"shm://{unique_name()}"
    ports = []
    with ExitStack() as stack:
        for made, place in ((grpc.server, "127.0.0.1:0"), (lucky_transport_stubs.server, endpoint)):
            server = made(ThreadPoolExecutor(4))
            add_service(server, alike=alike)
            ports.append(server.add_insecure_port(place))
            server.start()
            stack.callback(server.stop, 0)
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(channels, "open_router", lambda: router)
        target = f"127.0.0.1:{ports[0]}"
        makers = {"grpc": lambda: grpc.insecure_channel(target), "shm": lambda: lucky_transport_stubs.channel(endpoint)}
        channel = channels.open_channel(target, {side: make() for side, make in makers.items()}, makers, None)
        for plant, request in product(plants, requests()):
            with suppress(grpc.RpcError):
                if not plant.streams:
                    channel.unary_unary(plant.method)(request)
                else:
                    items = channel.unary_stream(plant.method)(request)
                    next(items) if leaves else list(items)
                    items.cancel()
            router.endings.drain(Deadline(PATIENCE_S))
            router.workers.drain(Deadline(PATIENCE_S))
        channel.close()
        router.close()
    seen = list(read_folder(Path("lucky-evidence")))
    lines = [f"{one.verdict}: {one.method} {one.sentence}{one.why} {list(one.left_out)}" for one in seen]
    said = "\n".join([*lines, *told])
    return int(any(one.verdict == "different" for one in seen)), said


TOOLS: dict[str, Any] = {"parity": parity, "from": parity_from, "replay": replayed, "staged": staged}


#: What names a difference of each method, and all plants that it finds in one run.
_AT_ONCE = {tool: [plant for plant in PLANTS.values() if tool in plant.tools] for tool in ("parity", "from", "staged")}


@pytest.mark.parametrize(
    ("tool", "plants"), [*_AT_ONCE.items(), *(("replay", [one]) for one in PLANTS.values() if "replay" in one.tools)]
)
def test_each_planted_difference_is_found_and_named(tool: str, plants: Sequence[AnswerPlant]) -> None:
    status, said = TOOLS[tool](plants)
    assert status == 1, said
    assert "DIFFERENT" in said
    for plant in plants:
        found = [line for line in said.splitlines() if "differ" in line and plant.method in line]
        assert any(all(word in line for word in plant.words) for line in found), f"{plant.name}: {said}"


def test_what_comes_after_a_stream_was_left_is_said_to_be_unseen() -> None:
    status, said = staged([PLANTS["late item lost"]], leaves=True)
    assert status == 0, said
    assert "items beyond the last that both sent" in said


def test_without_a_plant_all_is_equal_under_staged_too() -> None:
    status, said = staged([PLANTS["headers"]], alike=True)
    assert status == 0, said
    assert "10 of 10 calls of 1 method compared: 10 equal" in said


@pytest.mark.parametrize("tool", ["parity", "from", "replay"])
@pytest.mark.parametrize("name", ["late item lost", "details of UNAVAILABLE"])
def test_what_both_answer_alike_is_equal_and_a_verdict_says_how_many_answers_were_refusals(
    name: str, tool: str
) -> None:
    status, said = TOOLS[tool]([PLANTS[name]], "--alike")
    assert status == 0, said
    *_, last = said.splitlines()
    assert last.startswith("EQUAL: ")
    assert (" of 10 compared answers " in last and "UNAVAILABLE." in last) == PLANTS[name].refuses


#: What a recording has of a secret.
_MASKED = (("authorization", "***"),)


@pytest.mark.parametrize("tool", ["parity", "from", "replay"])
def test_behind_a_token_check_no_tool_says_equal(tool: str) -> None:
    status, said = TOOLS[tool]([PLANTS["last bit of a double"]], "--token", "secret", metadata=_MASKED)
    of_drawn = "none of 10 compared calls was accepted (10 UNAUTHENTICATED)"
    of_recorded = "it is made without its secret, and ended with UNAUTHENTICATED"
    assert (of_drawn if tool == "parity" else of_recorded) in said
    assert status == 1
    assert "NOTHING COMPARED" in said
    assert "EQUAL" not in said


@pytest.mark.parametrize("is_planted", [True, False])
@pytest.mark.parametrize("tool", ["parity", "from", "replay"])
def test_behind_a_token_check_a_difference_is_found_with_the_token(
    tool: str, is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ["--token", "a-long-secret", *["--alike"] * (not is_planted)]
    monkeypatch.setenv("TOKEN", "a-long-secret")
    given = ("--metadata", "authorization=$TOKEN", "--evidence", "seen")
    status, said = TOOLS[tool]([PLANTS["last bit of a double"]], *served, given=given, metadata=_MASKED)
    assert (status, "DIFFERENT" in said, "EQUAL" in said) == (int(is_planted), is_planted, not is_planted), said
    assert "without its secret" not in said
    assert "a-long-secret" not in said + "".join(one.read_text() for one in Path("seen").glob("*.jsonl"))
