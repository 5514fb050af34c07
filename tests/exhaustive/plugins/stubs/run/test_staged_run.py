"""A program under the launcher whose methods are at different stages: one engine, at a port and in shared memory.

Reads of a team's own service get shadows where they are declared, and are compared field by field.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from tests.exhaustive.plugins.stubs.run.conftest import Served
from tests.plugins.stubs.run.conftest import Launch, Python
from tests.support.command import stdout_of
from tests.support.fixtures.migration_evidence import rows_in
from tests.support.forked_programs import CommandLine
from tests.support.weather import SERVICE, WeatherPrograms

pytest.importorskip("grpc")
pytest.importorskip("tomlkit", reason="needs pip install 'lucky-transport[scan]'")


SCHEMA = "/hazel.rpc.AgentService/GetAgentSchema"
INFO = "/hazel.rpc.SceneService/GetSceneInfo"
RESET = "/hazel.rpc.AgentService/ResetAgent"

CALL = """
import sys
def call(method, times=1, port=sys.argv[1]):
    import grpc
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        callable = channel.unary_unary(method, _registered_method=True)
        for _ in range(times):
            callable(b"", timeout=20)
"""


class Place:
    """Where an engine answers, both ways."""

    def __init__(self, port: str, endpoint: str) -> None:
        self.port = port
        self.endpoint = endpoint
        self.options = ("--transport", "staged", "--map", f"127.0.0.1:{port}={endpoint}")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    endpoint = f"shm://{unique_name()}"
    with lucky_transport.serve("toy", ["grpc://127.0.0.1:0", endpoint]) as serving:
        yield Place(serving.endpoints[0].address.rpartition(":")[2], endpoint)


@pytest.fixture
def stages(tmp_path: Path) -> Callable[..., Path]:
    """Write the stages of a program: `stages(default, method=stage, ...)` returns the file."""

    def write(default: str, rows: dict[str, str] | None = None) -> Path:
        path = tmp_path / "lucky_transport.toml"
        lines = [f'"{method}" = "{stage}"' for method, stage in (rows or {}).items()]
        path.write_text(f'[stages]\ndefault = "{default}"\n[stages.methods]\n' + "\n".join(lines) + "\n")
        return path

    return write


def calls(folder: Path) -> Counter[tuple[str, bool]]:
    """How often each method was called, over shared memory and not, from the report in `calls.json`."""
    found = Counter[tuple[str, bool]]()
    for one in json.loads((folder / "calls.json").read_text())["calls"]:
        found[one["method"], bool(one["endpoint"])] += one["count"]
    return found


def test_each_method_goes_where_its_stage_says_and_reads_are_compared(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    stages("shadow", {"SceneService/*": "shm", "AgentService/GetAgentSchema": "canary 50%"})
    code = f"{CALL}\nfor method in {[RESET, SCHEMA, INFO]}: call(method, 10)"  # nothing changes under a read
    done = launch(*place.options, "--report", "calls.json", command=python(code, place.port))
    assert done.returncode == 0, done.stderr
    assert f"127.0.0.1:{place.port} goes to gRPC or {place.endpoint}, each method as its stage says" in done.stderr
    counted = Counter(calls(tmp_path))
    drawn = counted[SCHEMA, True]  # which calls go to a canary is random
    assert f"{10 + drawn} calls over shared memory, {20 - drawn} over gRPC, by 1 process" in done.stderr
    assert f"127.0.0.1:{place.port} over gRPC: the stage of the method\n" in done.stderr
    assert counted == Counter(
        {(SCHEMA, True): drawn, (SCHEMA, False): 10 - drawn, (INFO, True): 10, (RESET, False): 10}
    )
    seen = Counter(
        (one["method"], one["authority"]["transport"], one["verdict"]) for one in rows_in(tmp_path / "lucky-evidence")
    )
    assert seen == Counter(
        {
            (SCHEMA, "grpc", "equal"): 10 - drawn,
            (SCHEMA, "shm", "equal"): drawn,
            (INFO, "shm", "equal"): 10,
            (RESET, "grpc", "not_compared"): 10,
        }
    )


def test_quiet_stages_and_counts_nothing(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path], tmp_path: Path
) -> None:
    stages("shadow")
    done = launch(*place.options, "--quiet", command=python(f"{CALL}\ncall('{SCHEMA}')", place.port))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(rows_in(tmp_path / "lucky-evidence")) == 1


def test_stages_that_cannot_be_read_are_an_error_where_the_channel_is_made(
    launch: Launch, python: Python, place: Place, stages: Callable[..., Path]
) -> None:
    stages("sideways")
    done = launch(*place.options, command=python(f"{CALL}\ncall('{SCHEMA}')", place.port))
    assert done.returncode == 1
    assert "ConfigError" in done.stderr
    assert "sideways" in done.stderr


_EFFECTS = '[stages.effects]\n"Weather/Watch*" = "read"\n'

_READS = """
    request = weather_pb2.ForecastRequest(station="Oslo", days=3)
    for _ in range(4):
        stub.GetForecast(request)
        assert len(list(stub.WatchForecast(request))) == 3
    for station in ("nowhere", "Oslo"):
        try:
            stub.GetForecast(weather_pb2.ForecastRequest(station=station, days=99))
        except grpc.RpcError as error:
            assert error.details()
"""
_CHANGES = """
    stub.SetStation(weather_pb2.Station(name="Oslo", offset=1.0))
    stub.PutStation(weather_pb2.Station(name="Oslo", offset=1.0))
    stub.Report(weather_pb2.Reading(temperature=one) for one in range(3))
    assert len(list(stub.Chat(weather_pb2.Line(number=one) for one in range(3)))) == 3
"""
_CLIENT = """
import sys
import grpc
sys.path.insert(0, sys.argv[2])
import weather_pb2
import weather_pb2_grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = weather_pb2_grpc.WeatherStub(channel)
"""


#: Runs a client that makes these calls in the test's folder, with every method at `shadow`; more of its file of stages.
RunStaged = Callable[..., None]

#: A program that has no generated modules.
_BARE = """
import sys
import grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
"""
_BYTES = """
    for _ in range(2):
        assert channel.unary_unary("/weather.v1.Weather/GetForecast")(b"")
"""


@pytest.fixture
def run_staged(
    run_switched: Launch,
    weather: WeatherPrograms,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> RunStaged:
    monkeypatch.chdir(tmp_path)

    def run(served_at: tuple[str, str], calls: str, rows: str = "") -> None:
        target, pair = served_at
        (tmp_path / "lucky_transport.toml").write_text(f'[stages]\ndefault = "shadow"\n{rows}')
        program = f"{_CLIENT}{calls}" if calls is not _BYTES else f"{_BARE}{calls}"
        command = ["-c", program, target, str(weather.folder)]
        stdout_of(run_switched("--transport", "staged", "--map", pair, command=command))

    return run


def shown(line: CommandLine, *arguments: str) -> str:
    """Return what a command prints about its folder, without the program and its modules."""
    return stdout_of(line.run(*arguments))


def test_declared_reads_alone_are_asked_twice_compared_and_known_by_name_and_effect(
    served: Served, run_staged: RunStaged, forked_line: CommandLine, tmp_path: Path
) -> None:
    with served("--calls", str(tmp_path / "calls")) as where:
        run_staged(where, f"{_CHANGES}{_READS}", _EFFECTS)
    came = Counter((tmp_path / "calls").read_text().split())
    assert came.pop("GetForecast") >= 12  # more where a shadow was late
    assert came.pop("WatchForecast") >= 8
    assert came == {"SetStation": 1, "PutStation": 1, "Report": 1, "Chat": 1}
    reads = [one for one in rows_in(tmp_path / "lucky-evidence") if one["method"].endswith("Forecast")]
    seen = Counter((one["method"].rpartition("/")[2], one["verdict"]) for one in reads)
    assert seen == {("GetForecast", "equal"): 6, ("WatchForecast", "equal"): 4}
    for one in reads:
        assert one["left_out"] == {}
        assert (one["shadow"]["transport"], one["shadow"]["code"]) == ("shm", one["authority"]["code"])
        assert min(one["shadow"]["us"], one["authority"]["us"]) > 0
    whys = [one["why"] for one in rows_in(tmp_path / "lucky-evidence") if one["method"].endswith("Report")]
    assert whys == ["nothing says that it is a read, so it is not made twice"]
    rows = json.loads(shown(forked_line, "stage", "show", "Weather/*", "--json"))["methods"]
    assert {row["method"].rpartition("/")[2]: row["effect"] for row in rows} == {
        "Chat": "world",
        "GetForecast": "read",
        "PutStation": "idempotent",
        "Report": "world",
        "SetStation": "world",
        "WatchForecast": "read",
    }
    assert {row["method"]: row["seen"] for row in rows}[f"/{SERVICE}/GetForecast"] == {"equal": 6}


def test_a_program_without_generated_modules_is_compared_by_what_was_registered(
    served: Served, run_staged: RunStaged, forked_line: CommandLine, weather: WeatherPrograms, tmp_path: Path
) -> None:
    (tmp_path / "lucky_transport.toml").write_text("[stages]\n")
    shown(forked_line, "stage", "register", str(weather.descriptor_set))
    with served("--fault", "value") as served_at:
        run_staged(served_at, _BYTES)
    [found, *_] = rows_in(tmp_path / "lucky-evidence")
    assert (found["verdict"], found["aspect"], found["where"]) == ("different", "item", "reading.temperature")
    assert found["values"] == {"grpc": 0.0, "shm": 1.0}
