"""The proof that typed calls are answered alike, and that it finds what is not."""

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.codec import flatbuffers
from lucky_transport.errors import UnknownName
from lucky_transport.hookspecs import EngineInfo
from lucky_transport.messages import EntityId, MdpParamDescriptor
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import METHODS, Method, method
from lucky_transport.registry import registry
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.evidence.record import EQUAL
from lucky_transport_migration.parity.call_parity import CommandsParity
from lucky_transport_migration.parity.call_proof import chosen_methods, prove_commands
from lucky_transport_migration.parity.drawn_requests import DrawnRequests
from lucky_transport_migration.parity.inventory import Known
from lucky_transport_migration.parity.request_table import CASES
from lucky_transport_migration.parity.step_parity import MODES, prove
from tests.planted.changes import Over, answers, each, items, over_path
from tests.planted.mirror_engine import MIRRORED
from tests.planted.tools import engines_in_this_process
from tests.support.command import python, stdout_of

BAKING = {"BakeLidarMaterial", "GetLidarBakeStatus", "LoadLidarBake", "SaveLidarBake"}

KNOWN = Known(
    agents=["agent_0", "agent_1"],
    action_size=12,
    nq=19,
    nu=12,
    robots=[1],
    slots=[1, 2],
    commands=[(1, 1, True), (2, 5, False)],
    descriptors=["policies/trot.policy"],
    randomizations={"friction_range": MdpParamDescriptor("float[2]", range_max=5.0, has_range=True)},
    named={
        "agent_name": ["", "agent_0", "agent_1"],
        "entity": [EntityId(1)],
        "name": ["agent_0", "floor"],
        "Camera.id": [EntityId(1000)],
        "Camera.name": ["front"],
        "joint_names": ["FL_hip", "FR_hip", "RL_hip"],
        "actuator_index": range(12),
        "RewardTermRequest.name": ["alive"],
    },
)


SCHEMA, JOINTS = method("AgentService/GetAgentSchema"), method("MujocoService/GetJointState")
TELEMETRY, IMAGES = method("TelemetryService/StreamTelemetry"), method("CameraService/StreamCamera")


@pytest.fixture
def against(twin: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandsParity]:
    """Return a function that compares a toy engine with one over a plant."""

    def compared(row: Method, over: Over, *, engine: str = "toy", count: int = 2) -> CommandsParity:
        over_path(monkeypatch, twin, over)
        return prove_commands(engine, ("inproc", twin), count=count, methods=(row,))

    return compared


# the proof


def test_equal_engines_answer_all_methods_alike(twin: str) -> None:
    rounds: list[int] = []
    outcome = prove_commands("toy", ("inproc", twin), count=4, seed=7, advance=lambda: rounds.append(1))
    assert outcome.equal, outcome.sentence
    assert len(rounds) == 4
    assert set(outcome.methods) == {row.name for row in METHODS}
    assert all(row.compared >= 5 for row in outcome.methods.values())
    assert outcome.methods["/hazel.rpc.AgentService/Step"].accepted > 0


def test_all_methods_of_the_reference_engine_are_answered_alike_over_grpc_and_shared_memory(few_items: None) -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("mujoco")
    outcome = prove_commands("mujoco:quadruped", ("grpc", "shm", "inproc"), count=4, seed=3)
    assert outcome.equal, outcome.sentence
    legacy = {name for name in outcome.methods if name.startswith("/hazel.rpc.")}
    assert len(legacy) == 72
    never = {name.rpartition("/")[2] for name in legacy if not outcome.methods[name].accepted}
    assert never == BAKING
    assert all(row.refusals for row in outcome.methods.values())


def fields_within(kind: type[Any]) -> Iterator[tuple[type[Any], str]]:
    """Yield the fields of a class of messages, and those of the messages in it."""
    for one in fields_of(kind):
        yield kind, one.name
        if one.message is not None:
            yield from fields_within(one.message)


def test_every_field_of_every_answer_is_compared_over_grpc_and_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference engine leaves many empty; the mirror engine leaves none."""
    pytest.importorskip("grpc")
    mirror = EngineInfo("mirror", "tests.planted.mirror_engine:make_engine", "it answers by a hash of the request")
    monkeypatch.setitem(registry().engines, "mirror", mirror)
    engines_in_this_process(monkeypatch)
    given = set[tuple[type[Any], str]]()

    def note(message: Any) -> Any:
        for one in fields_of(type(message)):
            if value := getattr(message, one.name):
                given.add((type(message), one.name))
                inner: Any = value.values() if one.shape == "map" else value if one.shape == "list" else [value]
                for each in inner if one.message is not None else ():
                    note(each)
        return message

    noting = (items(row, lambda found: map(note, found)) if row.stream else answers(row, note) for row in MIRRORED)
    over_path(monkeypatch, "shm", *noting)
    outcome = prove_commands("mirror", ("grpc", "shm"), methods=MIRRORED, count=12, seed=0)
    assert outcome.equal, outcome.sentence
    assert len(outcome.methods) == 72
    assert [name for name, one in outcome.methods.items() if not one.verdicts[EQUAL] == one.compared > 8] == []
    assert given == {field for row in MIRRORED for field in fields_within(row.response)}


def test_the_same_seed_makes_the_same_calls(twin: str) -> None:
    one, same, other = (prove_commands("toy", ("inproc", twin), count=2, seed=seed).plain() for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_only_the_chosen_methods_are_called_beside_what_a_round_needs(twin: str) -> None:
    outcome = prove_commands("toy", ("inproc", twin), methods=chosen_methods("MujocoService/*"), count=2)
    beside = {
        "/hazel.rpc.AgentService/Step",
        "/hazel.rpc.AgentService/ResetAgent",
        "/hazel.rpc.SceneService/EnterPlayMode",
    }
    assert {name for name in outcome.methods if "/hazel.rpc.MujocoService/" not in name} <= beside
    assert len(outcome.methods) >= 5


def test_methods_are_chosen_by_full_or_short_names() -> None:
    assert chosen_methods("*") == METHODS
    assert chosen_methods("CameraService/*") == chosen_methods("/hazel.rpc.CameraService/*")
    assert [row.short_name for row in chosen_methods("AgentService/Step")] == ["Step"]
    with pytest.raises(UnknownName, match=r"no method is called 'Fly'; the services are AgentService, "):
        chosen_methods("Fly")


# what it finds


def test_images_that_are_numbered_backwards_are_found(against: Callable[..., CommandsParity]) -> None:
    numbers = iter(range(1000, 0, -1))
    count_down = each(lambda item: setattr(item, "frame_number", next(numbers)))
    first = against(IMAGES, items(IMAGES, count_down), engine="echo").first_difference
    assert first is not None
    assert first.difference.where == "frame_number of the items"


def test_the_outcome_is_json_also_with_numbers_that_json_lacks(against: Callable[..., CommandsParity]) -> None:
    outcome = against(JOINTS, answers(JOINTS, lambda one: setattr(one.state, "positions", [math.nan, math.inf])))
    text = json.dumps(outcome.plain(), allow_nan=False)
    assert json.loads(text)["equal"] is False


def test_nothing_compared_is_no_success() -> None:
    outcome = CommandsParity(["grpc", "shm"])
    assert not outcome.equal
    assert outcome.sentence == "NOTHING COMPARED: no call could be compared."


# requests


@pytest.mark.parametrize("known", [KNOWN, Known(agents=["agent_0"])], ids=["much", "nothing"])
def test_requests_can_be_sent_unless_they_are_meant_not_to(known: Known) -> None:
    requests = DrawnRequests(known, seed=0)
    for row in METHODS * 20:
        _check_is_sent_whole(row, requests.valid(row).message)
        made = requests.corrupted(row)
        if not made.is_unsendable:
            _check_is_sent_whole(row, made.message)
        elif fields_of(row.request):
            with pytest.raises((TypeError, ValueError), match=rf"^{row.request.__name__}\."):
                flatbuffers.encode(made.message)


def test_corrupted_requests_are_spread() -> None:
    requests, row = DrawnRequests(KNOWN, seed=0), method("AgentService/ResetAgent")
    made = [requests.corrupted(row).message for _ in range(100)]
    assert len({repr(message) for message in made}) > 60
    assert len({message.agent_name for message in made if message.agent_name in CASES["str"]}) > 8


def _check_is_sent_whole(row: Method, request: Any) -> None:
    received = flatbuffers.decode(row.request, flatbuffers.encode(request))
    assert first_unequal(row.request, request, received) is None, (row.short_name, request)


def test_requests_name_what_there_is() -> None:
    requests = DrawnRequests(KNOWN, seed=0)
    step, config = method("AgentService/Step"), method("CameraService/GetCameraConfig")
    assert {requests.valid(step).message.agent_name for _ in range(50)} == {"", "agent_0", "agent_1"}
    filmed = [requests.valid(config).message for _ in range(50)]
    assert {request.name for request in filmed} == {"", "front"}
    assert {request.id.id for request in filmed if request.id} == {1000}
    assert all((request.id is None) != (request.name == "") for request in filmed)


def test_requests_that_are_few_come_again() -> None:
    requests, row = DrawnRequests(KNOWN, seed=0), method("SceneService/EnterPlayMode")
    assert [requests.valid(row).message for _ in range(5)] == [row.request()] * 5


def test_the_command_leaves_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    command = ["-m", "lucky_transport", "parity", "toy", "--between", "inproc,inproc#2"]
    command += ["--method", "*SceneService*", "--count", "2"]
    environ = os.environ | {"HOME": str(tmp_path / "home")}
    stdout_of(python(*command, cwd=tmp_path / "work", env=environ, timeout=120))
    assert list((tmp_path / "work").iterdir()) == []


pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
STEPS = 100


@pytest.mark.parametrize(
    ("engine", "between", "modes"),
    [
        *(("toy", ("inproc", other), ("same_step",)) for other in ("shm", "grpc", "grpc-batch")),
        ("toy", ("grpc", "shm"), MODES[:1]),
        ("toy:composite", ("inproc", "shm"), MODES),
        ("mujoco:quadruped", ("grpc", "shm"), MODES),
        ("gymnasium:CartPole-v1", ("grpc", "shm"), MODES[:1]),
    ],
)
def test_a_trajectory_is_the_same_bit_for_bit(engine: str, between: tuple[str, ...], modes: tuple[str, ...]) -> None:
    if engine.startswith("mujoco"):
        pytest.importorskip("mujoco")
    outcome = prove(engine, between, num_envs=3, steps=STEPS, seed=11, modes=modes)
    assert outcome.equal, outcome.sentence
    for mode in ("frames", *modes):
        counts = outcome.modes[mode]
        assert counts.steps >= STEPS
        assert counts.terminations > 0
        assert min(counts.resets.values()) > 0, "resets of all, of one and of some envs"
