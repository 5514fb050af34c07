"""The tools find what is planted in the answers of a team's own server, and say EQUAL of no refusals."""

import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
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


def described() -> bytes:
    """Return what describes the service."""
    file = FileDescriptorProto(name="plants.proto", package="plants.v1", syntax="proto3")
    file.dependency.append(struct_pb2.DESCRIPTOR.name)
    service = file.service.add(name="Plants")
    for name in ("Get", "Watch"):
        message = ".google.protobuf.Struct"
        service.method.add(name=name, input_type=message, output_type=message, server_streaming=name == "Watch")
    found = FileDescriptorSet()
    struct_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.append(file)
    return found.SerializeToString()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "plants.binpb").write_bytes(described())
    return tmp_path


def server(*options: str) -> str:
    return shlex.join([sys.executable, "-m", "tests.planted.answering_server", "--port", "{port}", *options])


def requests() -> list[bytes]:
    """Return requests that a plant refuses, and some that none does."""
    made = [one for number in range(20) for one in numbered(number)]
    return [one.SerializeToString(deterministic=True) for one in sorted(made, key=is_refused)]


def recording(plant: AnswerPlant, **options: Any) -> Path:
    """Record what gRPC answers, as a program would: 256 items of a stream, and a digest of the rest."""
    rows = {row.name: row for row in methods_in(described(), "plants")}
    entries = []
    for number, request in enumerate(requests()):
        is_planted = not plant.refuses or is_refused(struct_pb2.Struct.FromString(request))
        usual = Answer(numbered(1, 2) if plant.method.endswith("Watch") else numbered(1))
        answer = plant.control if is_planted else usual
        kept = ReceivedItems(digest=lambda: ItemDigest(rows[plant.method], ComparisonRules()))
        for item in answer.items:
            kept.add(item.SerializeToString())
        end = answer.code, answer.details, tuple(answer.headers), tuple(answer.trailing)
        outcome = CallOutcome("grpc", kept.items, *end, more=kept.more, rest=kept.rest)
        entry = call_entry(plant.method, [request], outcome, "protobuf", CallOptions(**options))
        entries.append(entry if number else replace(entry, described=described()))
    file = Path("run.jsonl")
    file.write_text("".join(map(line_of, (Header("grpc"), *entries))))
    return file


def run(*arguments: str) -> tuple[int, str]:
    done = invoke(*arguments)
    return done.exit_code, done.output


def parity(plant: AnswerPlant, *options: str, given: Sequence[str] = (), **_: Any) -> tuple[int, str]:
    chosen = ("--descriptor-set", "plants.binpb", "--method", plant.method, "--requests", "20")
    return run("parity", "--server", server(*options), *chosen, *given)


def parity_from(plant: AnswerPlant, *options: str, given: Sequence[str] = (), **recorded: Any) -> tuple[int, str]:
    return run("parity", "--server", server(*options), "--from", str(recording(plant, **recorded)), *given)


def replayed(plant: AnswerPlant, *options: str, given: Sequence[str] = (), **recorded: Any) -> tuple[int, str]:
    file = recording(plant, **recorded)
    with RunningServer(ServerCommand(server(*options)), "shm") as running:
        return run("replay", str(file), running.endpoint, *given)


def staged(plant: AnswerPlant, _: str = "", name: str = "", *, leaves: bool = False) -> tuple[int, str]:
    """A program calls over gRPC, and each call is made in shared memory too; `leaves`: it leaves a stream at once."""
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
            add_service(server, name)
            ports.append(server.add_insecure_port(place))
            server.start()
            stack.callback(server.stop, 0)
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(channels, "open_router", lambda: router)
        target = f"127.0.0.1:{ports[0]}"
        makers = {"grpc": lambda: grpc.insecure_channel(target), "shm": lambda: lucky_transport_stubs.channel(endpoint)}
        channel = channels.open_channel(target, {side: make() for side, make in makers.items()}, makers, None)
        for request in requests():
            with suppress(grpc.RpcError):
                if plant.method.endswith("Get"):
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
    assert {one.method for one in seen} == {plant.method}
    said = "\n".join([*told, *(f"{one.verdict}: {one.sentence}{one.why} {list(one.left_out)}" for one in seen)])
    return int(any(one.verdict == "different" for one in seen)), said


TOOLS: dict[str, Callable[..., tuple[int, str]]] = {
    "parity": parity,
    "from": parity_from,
    "replay": replayed,
    "staged": staged,
}
CASES = [(name, tool) for name, plant in PLANTS.items() for tool in plant.tools]


@pytest.mark.parametrize(("name", "tool"), CASES)
def test_a_planted_difference_is_found_and_named(name: str, tool: str) -> None:
    plant = PLANTS[name]
    status, said = TOOLS[tool](plant, "--plant", name)
    assert status == 1, said
    assert "DIFFERENT" in said
    missing = [word for word in plant.words if word not in said]
    assert not missing, said


def test_what_comes_after_a_stream_was_left_is_said_to_be_unseen() -> None:
    status, said = staged(PLANTS["late item lost"], name="late item lost", leaves=True)
    assert status == 0, said
    assert "items beyond the last that both sent" in said


def test_without_a_plant_all_is_equal_under_staged_too() -> None:
    status, said = staged(PLANTS["text"])
    assert status == 0, said
    assert "20 of 20 calls of 1 method compared: 20 equal" in said


@pytest.mark.parametrize("tool", ["parity", "from", "replay"])
@pytest.mark.parametrize("name", ["late item lost", "details of UNAVAILABLE"])
def test_what_both_answer_alike_is_equal_and_a_verdict_says_how_many_answers_were_refusals(
    name: str, tool: str
) -> None:
    status, said = TOOLS[tool](PLANTS[name], "--plant", name, "--alike")
    assert status == 0, said
    *_, last = said.splitlines()
    assert last.startswith("EQUAL: ")
    assert ("compared answers were refusals" in last and "UNAVAILABLE." in last) == PLANTS[name].refuses


#: What a recording has of a secret.
_MASKED = (("authorization", "***"),)


@pytest.mark.parametrize("tool", ["parity", "from", "replay"])
def test_behind_a_token_check_no_tool_says_equal(tool: str) -> None:
    status, said = TOOLS[tool](PLANTS["last bit of a double"], "--token", "secret", metadata=_MASKED)
    of_drawn = "none of 20 compared calls was accepted (20 UNAUTHENTICATED)"
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
    name = "last bit of a double"
    served = ["--token", "a-long-secret", "--plant", name, *["--alike"] * (not is_planted)]
    monkeypatch.setenv("TOKEN", "a-long-secret")
    given = ("--metadata", "authorization=$TOKEN", "--evidence", "seen")
    status, said = TOOLS[tool](PLANTS[name], *served, given=given, metadata=_MASKED)
    assert (status, "DIFFERENT" in said, "EQUAL" in said) == (int(is_planted), is_planted, not is_planted), said
    assert "without its secret" not in said
    assert "a-long-secret" not in said + "".join(one.read_text() for one in Path("seen").glob("*.jsonl"))
