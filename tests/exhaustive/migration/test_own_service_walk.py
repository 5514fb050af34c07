"""A service that is not ours, from gRPC to the page to sign, by the commands that its team types.

Each step is a fixture that rests on the step before; the tests below read as the story. The team's server, client and
.proto import nothing of ours and stay as they are. What is typed is a fork of a Python that has imported what commands
import; what serves, and every program of the team, is started as the team starts it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.process import unique_name
from tests.support.forked_programs import SWITCHED, Programs
from tests.support.waiting import PATIENCE_S
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")
pytest.importorskip("tomlkit", reason="needs pip install 'lucky-transport[migration]'")

_CLI = [sys.executable, "-m", "lucky_transport"]
#: What the commands of the story import.
_IMPORTED = (
    *SWITCHED,
    "lucky_transport.cli.main",
    "lucky_transport_migration.gate.gate_verdict",
    "lucky_transport_migration.parity.service_proof",
    "lucky_transport_migration.parity.whole_parity",
    "lucky_transport_migration.recording.replay",
    "lucky_transport_migration.scan.changes",
    "lucky_transport_migration.signoff.collect",
)
ROUNDS = 30
GET, WATCH, SET = (f"/weather.v1.Weather/{name}" for name in ("GetForecast", "WatchForecast", "SetStation"))

#: The limits of a short run: durations are judged by the gate's own tests, on no machine that does other work.
_STAGES = '[stages.effects]\n"Weather/Watch*" = "read"\n[gate]\ncalls = 10\nmismatch_limit = 0.5\nslower_limit = 1e6\n'

#: A program of the team that only reads, so that no change of its own falls between two answers.
_READER = """
import sys, time
import grpc, weather_pb2, weather_pb2_grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = weather_pb2_grpc.WeatherStub(channel)
    for number in range(int(sys.argv[2])):
        time.sleep(0.01)  # as one that has something else to do
        like = weather_pb2.Reading(temperature=number)
        request = weather_pb2.ForecastRequest(station="Oslo", days=2, like=like)
        stub.GetForecast(request)
        assert len(list(stub.WatchForecast(request))) == 2
"""

_METHODS = ("GetForecast", "WatchForecast", "SetStation", "PutStation", "Report", "Chat")


@dataclass(frozen=True)
class Team:
    """The team's folder, with the programs in it, and what is typed there."""

    folder: Path
    weather: WeatherPrograms
    forks: Programs

    def type(self, *words: str, code: int = 0) -> str:
        """Type `lucky-transport` with these words, and return what it prints."""
        command = ["-m", "lucky_transport", *words]
        done = self.forks.run(command, cwd=self.folder, environ=os.environ, timeout=PATIENCE_S)
        assert done.returncode == code, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def served(self, *options: str, endpoint: str = "") -> Iterator[str]:
        """Serve over gRPC, and in shared memory too where an endpoint is given; gives the target."""
        under = [*_CLI, "run", "--transport", "shm", "--serve", f"127.0.0.1:*={endpoint}", "--"] if endpoint else []
        command = [*under, *self.weather.server(0, *options)]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                yield f"127.0.0.1:{server.stdout.readline().split()[-1]}"
            finally:
                server.terminate()

    def read_staged(self, *options: str) -> None:
        """Run the program that reads, with each method where its stage has it."""
        endpoint = f"shm://{unique_name()}"
        with self.served(*options, endpoint=endpoint) as target:
            pair = f"{target}={endpoint}"
            under = ("run", "--transport", "staged", "--map", pair, "--report", "calls.json")
            self.type(*under, "--", sys.executable, "reader.py", target, str(ROUNDS))

    def page(self, *words: str, code: int) -> dict[str, Any]:
        return json.loads(self.type("signoff", *words, "--json", code=code))


@pytest.fixture(scope="module")
def forks() -> Iterator[Programs]:
    with Programs(*_IMPORTED) as programs:
        yield programs


@pytest.fixture(scope="module")
def team(weather: WeatherPrograms, forks: Programs, tmp_path_factory: pytest.TempPathFactory) -> Team:
    folder = tmp_path_factory.mktemp("team") / "weather"
    shutil.copytree(weather.folder, folder)
    (folder / "reader.py").write_text(_READER)
    (folder / "lucky_transport.toml").write_text(_STAGES)
    return Team(folder, WeatherPrograms(folder), forks)


@pytest.fixture(scope="module")
def totals(team: Team) -> dict[str, str]:
    """What the team's client prints over each transport, on a fresh server."""

    def total(*under: str, target: str) -> str:
        client = team.weather.client(target)
        command = [*_CLI, *under, "--", *client] if under else client
        done = subprocess.run(command, cwd=team.folder, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return done.stdout.splitlines()[-1]

    with team.served() as target:
        found = {"grpc": total(target=target)}
    endpoint = f"shm://{unique_name()}"
    with team.served(endpoint=endpoint) as target:
        found["shm"] = total("run", "--transport", "shm", "--map", f"{target}={endpoint}", target=target)
    return found


@pytest.fixture(scope="module")
def declared(team: Team) -> str:
    """The service is made known by its .proto, and its reads are set to shadow."""
    said = team.type("stage", "register", "weather.proto")
    team.type("stage", "set", "Weather/GetForecast", "shadow")
    team.type("stage", "set", "Weather/Watch*", "shadow")
    return said


@pytest.fixture(scope="module")
def shadowed(team: Team, declared: str) -> dict[str, Any]:
    """The page after a run in which gRPC answered and shared memory was asked too."""
    assert declared
    team.read_staged()
    return team.page(code=0)


@pytest.fixture(scope="module")
def completed(team: Team, shadowed: dict[str, Any]) -> dict[str, Any]:
    """The page after the team has set its reads to complete, and has run once more."""
    assert shadowed
    for method in ("Weather/GetForecast", "Weather/Watch*"):
        team.type("stage", "set", method, "complete")
    team.read_staged()
    return team.page(code=0)


def by_name(page: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["method"]: one for one in page["methods"]}


def test_scan_finds_what_is_on_grpcs_wire(team: Team) -> None:
    found = json.loads(team.type("scan", ".", "--json"))
    assert {"server.py", "client.py"} <= {one["path"] for one in found["findings"]}
    assert found["nothing_on_wire"] is False
    team.type("scan", ".", "--gate", "wire", code=1)


def test_run_moves_both_programs_with_the_same_total(totals: dict[str, str]) -> None:
    assert totals["grpc"].startswith("weather total ")
    assert totals["shm"] == totals["grpc"]


def test_the_effects_are_those_that_the_proto_and_the_team_say(declared: str) -> None:
    assert f"{GET}: read, option idempotency_level = NO_SIDE_EFFECTS" in declared
    assert f"{WATCH}: read, [stages.effects]" in declared
    assert f"{SET}: world" in declared


def test_the_gate_and_the_page_agree_that_compared_reads_may_move_on(team: Team, shadowed: dict[str, Any]) -> None:
    assert shadowed["word"] == "READY"
    methods = by_name(shadowed)
    assert set(methods) == {GET, WATCH}
    for one in methods.values():
        assert (one["mismatches"], one["failures"]) == (0, 0), one
        assert 10 <= one["latency"][0]["calls"] <= one["compared"] <= ROUNDS
        (left_out,) = one["left_out"]
        assert (left_out["what"], left_out["calls"]) == ("that it changes nothing", one["compared"])
    (program,) = shadowed["programs"]
    assert program["command"][1] == "reader.py"
    assert "grpcio" in program["versions"]
    assert team.folder.joinpath("lucky-report", "signoff.html").exists()


def test_at_complete_the_page_is_ready_by_what_was_compared_on_the_way(completed: dict[str, Any]) -> None:
    assert {one["verdict"] for one in completed["methods"]} == {"COMPLETE"}
    assert completed["word"] == "READY"
    assert all(one["compared"] >= 10 for one in completed["methods"])


def test_at_complete_no_call_of_them_goes_over_grpc(team: Team, completed: dict[str, Any]) -> None:
    assert completed
    calls = json.loads(team.folder.joinpath("calls.json").read_text())["calls"]
    assert {(one["method"], one["count"]) for one in calls} == {(GET, ROUNDS), (WATCH, ROUNDS)}
    assert all(one["endpoint"].startswith("shm://") for one in calls)


def test_the_command_on_the_page_turns_a_method_back(team: Team, completed: dict[str, Any]) -> None:
    command = by_name(completed)[WATCH]["back"].split()
    assert command[0] == "lucky-transport"
    assert re.search(r"complete -> shadow", team.type(*command[1:]))
    page = team.page(code=1)
    assert [one["method"] for one in page["methods"] if one["reasons"]] == [WATCH]


def test_a_server_that_answers_another_value_is_named_on_the_page(
    team: Team, declared: str, tmp_path: Path, weather: WeatherPrograms, forks: Programs
) -> None:
    assert declared
    other = Team(tmp_path / "other", weather, forks)
    shutil.copytree(weather.folder, other.folder)
    (other.folder / "reader.py").write_text(_READER)
    rows = "".join(f'"{name}" = "shadow"\n' for name in (GET, WATCH))
    (other.folder / "lucky_transport.toml").write_text(f"{_STAGES}[stages.methods]\n{rows}")
    other.read_staged("--fault", "value")
    methods = by_name(other.page(code=1))
    for name in (GET, WATCH):
        assert methods[name]["verdict"] == "HELD BACK"
        assert methods[name]["first"]["where"].endswith("reading.temperature")
        assert any("demoted to grpc" in reason for reason in methods[name]["reasons"])


def test_what_changes_the_world_is_compared_on_two_servers_and_can_be_signed(
    tmp_path: Path, weather: WeatherPrograms, forks: Programs
) -> None:
    team = Team(tmp_path / "proven", weather, forks)
    shutil.copytree(weather.folder, team.folder)
    (team.folder / "lucky_transport.toml").write_text(_STAGES)
    server = f"{shlex.quote(sys.executable)} server.py --port {{port}}"
    drawn = ("--proto", "weather.proto", "--method", "Weather/SetStation", "--count", "20")
    said = team.type("parity", "--server", server, *drawn, "--evidence", "lucky-evidence")
    assert "EQUAL: all " in said
    team.type("stage", "set", "Weather/SetStation", "complete")
    page = team.page(code=0)
    (method,) = page["methods"]
    assert (method["method"], method["verdict"], method["effect"]) == (SET, "COMPLETE", "world")
    assert method["kinds"] == {"parity": method["compared"]}
    assert method["compared"] >= 20
    assert "parity" in page["programs"][0]["command"]


@pytest.fixture(scope="module")
def recorded(weather: WeatherPrograms, forks: Programs, tmp_path_factory: pytest.TempPathFactory) -> Team:
    """A folder in which the team has recorded its client over gRPC, with nothing moved."""
    team = Team(tmp_path_factory.mktemp("recorded") / "weather", weather, forks)
    shutil.copytree(weather.folder, team.folder)
    (team.folder / "lucky_transport.toml").write_text(_STAGES)
    with team.served() as target:
        client = team.weather.client(target, "--rounds", "12")
        assert "weather total" in team.type("run", "--transport", "grpc", "--record", "run.jsonl.gz", "--", *client)
    return team


def test_what_was_recorded_is_made_again_over_both_transports_and_can_be_signed(recorded: Team) -> None:
    endpoint = f"shm://{unique_name()}"
    with recorded.served() as target, recorded.served(endpoint=endpoint):
        words = ("run.jsonl.gz", f"grpc://{target}", endpoint, "--evidence", "lucky-evidence")
        said = recorded.type("replay", *words)
    assert said.count("EQUAL: 84 of 84 recorded calls and steps were compared") == 3
    assert f"grpc://{target} and {endpoint}:" in said
    recorded.type("stage", "register", "weather.proto")
    recorded.type("stage", "set", "Weather/SetStation", "complete")
    (changing,) = recorded.page("--method", "Weather/SetStation", code=0)["methods"]
    assert (changing["verdict"], changing["effect"], changing["kinds"]) == ("COMPLETE", "world", {"replay": 12})
    methods = by_name(recorded.page(code=1))  # durations of a replay are not judged
    assert set(methods) == {f"/weather.v1.Weather/{name}" for name in _METHODS}
    assert all((one["mismatches"], one["failures"], one["not_compared"]) == (0, 0, []) for one in methods.values())
