"""Methods moved by hand: what is written, what is refused."""

import json
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ConfigError, UnknownName
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.gate.moves import Moves, write_rows
from lucky_transport_migration.jsonl import Damage
from lucky_transport_migration.stages.decision import Decider
from lucky_transport_migration.stages.effective_stages import EffectiveStages
from lucky_transport_migration.stages.evidence_window import count_evidence
from lucky_transport_migration.stages.stage import Placement
from tests.support.fixtures.migration_evidence import demote, seen

STEP = "/hazel.rpc.AgentService/Step"
Write = Callable[[str], Path]

_ENTITY, _LIST = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.SceneService/ListEntities"

_FILE = """# ours
wait = "block"   # keep

[stages]  # see the handbook
default = "grpc"

[stages.methods]
# the scene first
"SceneService/*" = "shadow"   # reads
"/hazel.rpc.SceneService/ListEntities" = "canary 10%"

[gate]
calls = 12
mismatch_limit = 0.9
"""


def _see(
    folder: Path, method: str, verdict: str = "equal", *, count: int = 12, at: str = "2099", **fields: Any
) -> None:
    """Leave evidence of calls behind. fields: others of `seen`."""
    folder.mkdir(exist_ok=True)
    (folder / "looks.jsonl").touch()
    one = seen(method, verdict, grpc_us=100.0, shm_us=10.0, aspect="item", where="x", at=at, **fields)
    with (folder / "calls-1.jsonl").open("a") as file:
        file.write(one.write() * count)


def _at(method: str) -> str:
    return str(EffectiveStages.load().placement(method))


def _p(text: str) -> Placement:
    return Placement.parse(text)


def test_a_row_is_written_and_everything_else_left_as_it_is(write: Write) -> None:
    path = write(_FILE)
    Moves().place("SceneService/GetEntity", _p("shm"))
    assert path.read_text() == _FILE.replace('"canary 10%"\n', '"canary 10%"\n"SceneService/GetEntity" = "shm"\n')
    Moves().place("SceneService/ListEntities", _p("complete"))  # has a row, by its full name
    assert '"/hazel.rpc.SceneService/ListEntities" = "complete"' in path.read_text()
    assert "# reads\n" in path.read_text()
    assert (_at(_ENTITY), _at(_LIST)) == ("shm", "complete")


def test_a_pattern_takes_the_place_of_the_rows_it_covers(write: Write) -> None:
    path = write(_FILE)
    moves = Moves().place("SceneService/*", _p("shm"))
    assert [str(move.before) for move in moves if move.method == _LIST] == ["canary 10%"]
    assert path.read_text() == _FILE.replace('"shadow"', '"shm"').replace(
        '"/hazel.rpc.SceneService/ListEntities" = "canary 10%"\n', ""
    )


def test_a_file_that_is_not_there_is_made(project: Path) -> None:
    Moves().place("*", _p("shadow"))
    assert (project / "lucky_transport.toml").read_text() == '[stages.methods]\n"*" = "shadow"\n'
    assert _at(_ENTITY) == "shadow"


def test_the_rows_of_several_writers_are_all_kept(write: Write) -> None:
    path = write(_FILE)
    rows = [f"weather.Weather/Get{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda row: write_rows(path, {row: _p("shm")}), rows))
    assert tomllib.loads(path.read_text())["stages"]["methods"].keys() >= set(rows)


def test_a_wrong_file_is_not_written_over(write: Write, tmp_path: Path) -> None:
    path = write("[stages")
    with pytest.raises(ConfigError, match="mend the file"):
        write_rows(path, {"a": _p("shm")})
    assert path.read_text() == "[stages"


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("SceneService/GetEntitty", UnknownName, "did you mean"),
        ("Nothing/*", UnknownName, "no method fits"),
        ("AgentService/ResetAgent", ConfigError, "moves with the stepping path; move AgentService/Step"),
    ],
)
def test_what_cannot_be_moved_is_named(write: Write, target: str, error: type[Exception], message: str) -> None:
    path = write(_FILE)
    for move in (
        lambda: Moves().place(target, _p("shm")),
        lambda: Moves().promote(target),
        lambda: Moves().demote(target),
    ):
        with pytest.raises(error, match=message):
            move()
    assert path.read_text() == _FILE


def test_a_teams_own_methods_have_rows_too(write: Write) -> None:
    write(_FILE)
    Moves().place("/my.team.Robots/Grip", _p("canary 5%"))
    assert _at("/my.team.Robots/Grip") == "canary 5%"


# promotions


def test_without_evidence_only_the_first_rung_is_free(write: Write) -> None:
    write(_FILE)
    (first,) = Moves().promote("CameraService/ListCameras")
    assert (str(first.to), first.refused) == ("shadow", "")
    (second,) = Moves().promote("CameraService/ListCameras")
    assert "no call of it was compared since its last move" in second.refused
    assert _at("/hazel.rpc.CameraService/ListCameras") == "shadow"
    (forced,) = Moves().promote("CameraService/ListCameras", force=True)
    assert (str(forced.to), forced.refused) == ("canary 1%", "")


def test_each_stage_needs_evidence_of_its_own(write: Write, project: Path) -> None:
    write(_FILE)
    _see(project / "lucky-evidence", _ENTITY, at="2026-01-01T00:00:00.000Z")
    assert not Moves().promote(_ENTITY)[0].refused
    assert "since its last move" in Moves().promote(_ENTITY)[0].refused


def test_calls_that_were_decided_on_another_rung_are_no_evidence_for_this_one(write: Write, project: Path) -> None:
    """Also where the file was changed by hand, so that no move is in the journal."""
    write(_FILE.replace("canary 10%", "shm"))
    _see(project / "lucky-evidence", _LIST, stage="shadow")
    assert "since its last move" in Moves().promote(_LIST)[0].refused
    _see(project / "lucky-evidence", _LIST, stage="shm")
    assert not Moves().promote(_LIST)[0].refused


def test_a_read_needs_live_calls_on_each_rung_whatever_other_runs_showed(write: Write, project: Path) -> None:
    write(_FILE)
    _see(project / "lucky-evidence", _ENTITY, kind="parity", stage="parity", count=3_000)
    assert "at shadow 0 live calls of 12 were compared; run the program" in Moves().promote(_ENTITY)[0].refused
    _see(project / "lucky-evidence", _ENTITY, count=11)
    assert "at shadow 11 live calls of 12 were compared" in Moves().promote(_ENTITY)[0].refused
    _see(project / "lucky-evidence", _ENTITY, count=1, at="2026-01-01T00:00:00.000Z")
    assert str(Moves().promote(_ENTITY)[0].to) == "canary 1%"
    assert "at canary 1% 0 live calls of 12 were compared" in Moves().promote(_ENTITY)[0].refused


@pytest.mark.parametrize("rung", ["canary 10%", "shm"])
def test_what_is_made_once_needs_live_calls_that_shared_memory_answered(write: Write, project: Path, rung: str) -> None:
    row = f'[stages.methods]\n"SceneService/SetEntityTransform" = "{rung}"\n[gate]\ncalls = 12\nmismatch_limit = 0.9\n'
    write(row.replace(rung, "shadow"))
    world = "/hazel.rpc.SceneService/SetEntityTransform"
    _see(project / "lucky-evidence", world, kind="parity", stage="parity", count=1_200)
    assert not Moves().promote(world)[0].refused, "at shadow gRPC answers: there is nothing live to be seen"
    write(row)
    (move,) = Moves().promote(world)
    assert f"at {rung} 0 live calls of 12 were answered by shared memory" in move.refused
    assert "it is compared on two engines" in move.refused
    lone = seen(world, "not_compared", ["shm"], stage=rung, why="it changes the world", at="2099")
    with (project / "lucky-evidence" / "calls-2.jsonl").open("w") as file:
        file.write(lone.write() * 12)
    assert not Moves().promote(world)[0].refused


def test_typed_calls_of_step_move_no_exchanges(write: Write, project: Path) -> None:
    write('[stages]\ndefault = "shadow"\n[gate]\ncalls = 12\nmismatch_limit = 0.9\n')
    _see(project / "lucky-evidence", STEP, kind="parity", stage="parity", count=2_759)
    (move,) = Moves().promote("AgentService/Step")
    assert "of 2,759 calls none was compared" in move.refused
    assert "parity --suite step --evidence" in move.refused
    _see(project / "lucky-evidence", STEP, kind="parity", stage="exchange")
    assert not Moves().promote("AgentService/Step")[0].refused


def test_of_a_pattern_those_move_that_may(write: Write, project: Path) -> None:
    path = write(_FILE.replace("canary 10%", "shm"))
    _see(project / "lucky-evidence", _ENTITY)
    _see(project / "lucky-evidence", _LIST, stage="shm")
    moves = Moves().promote("SceneService/*")
    assert {move.method for move in moves if not move.refused} == {_ENTITY, _LIST}
    assert (_at(_ENTITY), _at(_LIST)) == ("canary 1%", "complete")
    assert '"SceneService/*" = "shadow"' in path.read_text()


def test_a_promotion_is_a_look_and_its_next_rung_begins_with_the_first(write: Write, project: Path) -> None:
    write(_FILE.replace("mismatch_limit = 0.9", "mismatch_limit = 0.2"))
    looks = project / "lucky-evidence" / "looks.jsonl"
    _see(project / "lucky-evidence", _ENTITY, count=16)
    for count in (16, 20):
        _see(project / "lucky-evidence", _ENTITY, count=count, verdict="different")
        assert "differed" in Moves().promote(_ENTITY)[0].refused
    assert [json.loads(line)["seen"][0] for line in looks.read_text().splitlines()] == [32, 52]
    seen = {_ENTITY: (60, 0)}
    assert Looks(looks.parent).take(seen, lambda name, number: False) == {_ENTITY: 3}
    assert not Moves().promote(_ENTITY, force=True)[0].refused
    assert Looks(looks.parent).take(seen, lambda name, number: False) == {_ENTITY: 1}


def test_a_pattern_whose_methods_all_move_alike_stays_one_row(write: Write) -> None:
    path = write("")
    moves = Moves().promote("CameraService/*")
    assert {str(move.to) for move in moves} == {"shadow"}
    assert path.read_text() == '[stages.methods]\n"CameraService/*" = "shadow"\n'


def test_after_the_last_rung_there_is_none(write: Write) -> None:
    write(_FILE)
    Moves().place(_ENTITY, _p("complete"))
    (move,) = Moves().promote(_ENTITY, force=True)
    assert move.refused == "is at complete, the last stage"


# demotions


def test_a_demotion_leads_to_where_grpc_answers_and_holds_for_the_cool_down(write: Write) -> None:
    write(_FILE)
    Moves().place(_ENTITY, _p("shm"))
    (move,) = Moves().demote(_ENTITY, why="looks wrong")
    assert (str(move.to), _at(_ENTITY)) == ("shadow", "shadow")
    for upwards in (Moves().promote(_ENTITY), Moves().place(_ENTITY, _p("shm"))):
        assert upwards[0].refused.startswith("demoted to shadow (looks wrong), in cool-down for")
        assert Moves().notes(upwards) == ["--force overrules cool-down and gate"]
    for there in ("shadow", "grpc"):  # to stay and to go down are always free
        assert "cool-down" not in Moves().place(_ENTITY, _p(there))[0].refused
    assert not Moves().place(_ENTITY, _p("shm"), force=True)[0].refused
    assert _at(_ENTITY) == "shm"


def test_an_automatic_demotion_outlasts_its_cool_down_until_a_promotion(write: Write, project: Path) -> None:
    write(_FILE)
    demote(project / "lucky-evidence", _LIST, "canary 10%", "shadow", cool_down_s=0)
    assert _at(_LIST) == "shadow"
    _see(project / "lucky-evidence", _LIST)
    (move,) = Moves().promote(_LIST)
    assert (str(move.before), str(move.to), move.refused, _at(_LIST)) == ("shadow", "canary 1%", "", "canary 1%")


def test_what_is_low_already_is_not_moved_and_what_differed_before_is_set_aside(write: Write, project: Path) -> None:
    write(_FILE)
    assert Moves().demote(_ENTITY, _p("shm"))[0].refused == "is at shadow already"
    assert {one.refused for one in Moves().demote("CameraService/*")} == {"is at grpc already"}
    method = "/hazel.rpc.CameraService/ListCameras"
    _see(project / "lucky-evidence", method, verdict="different", at="2026-01-01T00:00:00.000Z")
    (move,) = Moves().demote("CameraService/ListCameras", why="mended")
    assert (str(move.before), str(move.to), move.refused) == ("grpc", "grpc", "")
    assert not count_evidence(project / "lucky-evidence", Damage())[method]


def test_the_stepping_path_moves_by_its_row_and_running_programs_keep_their_side(write: Write, project: Path) -> None:
    write('[stages]\ndefault = "shm"\n')
    running = Decider()
    assert running.decide(STEP).primary == "shm"
    Moves().demote("AgentService/*", why="looks wrong")
    assert (_at(STEP), _at("/hazel.rpc.AgentService/ResetAgent")) == ("shadow", "shadow")
    running.look()
    assert running.decide(STEP).primary == "shm"
    assert Decider().decide(STEP).primary == "grpc"


def test_a_promotion_of_step_ends_the_demotions_of_its_whole_path(write: Write, project: Path) -> None:
    write('[stages]\ndefault = "shm"\n')
    reset = "/hazel.rpc.AgentService/ResetAgent"
    demote(project / "lucky-evidence", reset, "shm", "grpc", "died")
    assert _at(STEP) == "grpc"
    assert "in cool-down" in Moves().promote("AgentService/Step")[0].refused
    Moves().place("AgentService/Step", _p("shm"), force=True)
    assert (_at(STEP), _at(reset)) == ("shm", "shm")


def test_the_environment_does_not_change_what_is_written(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(_FILE)
    monkeypatch.setenv("LUCKY_TRANSPORT", "shm")
    (move,) = Moves().demote(_ENTITY)
    assert (str(move.before), str(move.to)) == ("shadow", "grpc")
