"""Tests of a team's own gRPC service, as the team wrote them, run over gRPC and over shared memory.

Each run of pytest is a fork of a Python that has imported pytest and grpc; the one under the launcher is none.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator

import pytest

from lucky_transport.config import runtime_directories
from tests.support.command import python
from tests.support.forked_programs import SWITCHED, Programs
from tests.support.waiting import PATIENCE_S
from tests.support.weather import WeatherPrograms

pytest.importorskip("grpc")

pytest_plugins = ["pytester"]
# As in test_pytest_plugin.py: pytester forgets modules that a run inside it imports first.
for _name in ("google.protobuf.descriptor_pb2", "grpc", "grpc.aio"):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

HEAD = """
import asyncio, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
import grpc, pytest
import weather_pb2, weather_pb2_grpc
from server import Weather

OSLO = weather_pb2.ForecastRequest(station="Oslo", days=2)

def serve(fault=""):
    server = grpc.server(ThreadPoolExecutor(4))
    weather_pb2_grpc.add_WeatherServicer_to_server(Weather(fault), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"

def days(stub):
    assert stub.GetForecast(OSLO).reading.temperature == 4.0
    return [one.day for one in stub.WatchForecast(OSLO)]
"""

FIXTURE = """
@pytest.fixture(scope="module")
def stub(lucky_grpc):
    server, target = serve()
    with grpc.insecure_channel(target) as channel:
        yield weather_pb2_grpc.WeatherStub(channel)
    server.stop(None)

def test_days(stub):
    assert days(stub) == [0, 1]
"""

BETWEEN = ("--lucky-between", "grpc,shm")


@pytest.fixture(scope="module")
def forks() -> Iterator[Programs]:
    """Runs pytest as forks of a Python that has imported it, and what its plugin imports where a test asks for it."""
    with Programs("pytest", *SWITCHED, "lucky_transport_migration.side_by_side.hooks") as programs:
        yield programs


class Runner:
    """Runs a team's tests where its modules are, and gives what pytest printed."""

    def __init__(self, pytester: pytest.Pytester, weather: WeatherPrograms, forks: Programs) -> None:
        self.pytester = pytester
        self._forks = forks
        pytester.makeconftest(f"import sys; sys.path.insert(0, {str(weather.folder)!r})")

    def __call__(self, source: str, *arguments: str, ini: str = "") -> pytest.RunResult:
        self.pytester.makepyfile(test_team=HEAD + source)
        if ini:
            self.pytester.makeini(f"[pytest]\n{ini}")
        folder = self.pytester.path
        command = ["-m", "pytest", f"--basetemp={folder / 'temporary'}", "-vv", "--strict-markers", *arguments]
        environ = {**os.environ, "HOME": str(folder)}
        done = self._forks.run([*command, "-p", "no:cacheprovider"], cwd=folder, environ=environ, timeout=PATIENCE_S)
        print(done.stdout, done.stderr)
        return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0)


@pytest.fixture
def run(pytester: pytest.Pytester, weather: WeatherPrograms, forks: Programs) -> Runner:
    return Runner(pytester, weather, forks)


CALLED = "2 calls over shared memory in 1 test"


@pytest.mark.parametrize(
    ("options", "passed", "lines"),
    [
        (BETWEEN, 2, ["*::test_days[[]grpc[]] PASSED*", "*::test_days[[]shm[]] PASSED*", CALLED]),
        ((*BETWEEN, "-p", "xdist", "-n", "2"), 2, [CALLED]),
        (("--lucky-between", "inproc,shm"), 1, ["*::test_days[[]shm[]] PASSED*", CALLED]),
        (("--lucky-between", "inproc,grpc-batch"), 1, ["*::test_days PASSED*"]),
        ((), 1, ["*::test_days PASSED*"]),
    ],
    ids=["both", "workers", "what a service has", "none that it has", "none"],
)
def test_a_test_of_a_server_and_a_channel_runs_over_each_path_that_a_service_has(
    run: Runner, options: tuple[str, ...], passed: int, lines: list[str]
) -> None:
    if "xdist" in options:
        pytest.importorskip("xdist")
    done = run(FIXTURE, *options)
    done.assert_outcomes(passed=passed)
    done.stdout.fnmatch_lines(lines)
    assert ("over shared memory" in done.stdout.str()) == (CALLED in lines)


def test_tests_need_no_change_where_the_configuration_uses_the_fixture(run: Runner) -> None:
    source = """
@pytest.fixture
def target():
    server, target = serve()
    yield target
    server.stop(None)

def test_days(target):
    with grpc.insecure_channel(target) as channel:
        assert days(weather_pb2_grpc.WeatherStub(channel)) == [0, 1]

def test_nothing():
    pass
"""
    done = run(source, *BETWEEN, ini="usefixtures = lucky_grpc\n")
    done.assert_outcomes(passed=4)
    done.stdout.fnmatch_lines(["2 calls over shared memory in 2 tests"])


def test_servers_of_commands_and_of_asyncio_are_switched_and_what_differs_fails_there_alone(
    run: Runner, weather: WeatherPrograms
) -> None:
    source = f"""
@pytest.fixture
def target(lucky_grpc):
    server = subprocess.Popen({weather.server()!r}, stdout=subprocess.PIPE, text=True)
    yield f"localhost:{{server.stdout.readline().split()[-1]}}"
    server.terminate()
    server.communicate()

def test_days(target):
    with grpc.insecure_channel(target) as channel:
        assert days(weather_pb2_grpc.WeatherStub(channel)) == [0, 1]

class AioWeather(weather_pb2_grpc.WeatherServicer):
    async def GetForecast(self, request, context):
        return weather_pb2.Forecast(station=request.station)

async def ask():
    server = grpc.aio.server()
    weather_pb2_grpc.add_WeatherServicer_to_server(AioWeather(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        found = await weather_pb2_grpc.WeatherStub(channel).GetForecast(OSLO)
    await server.stop(None)
    return found.station

def test_station(lucky_grpc):
    assert asyncio.run(ask()) == "Oslo"

def test_value(lucky_grpc):
    server, target = serve("value")
    with grpc.insecure_channel(target) as channel:
        stub = weather_pb2_grpc.WeatherStub(channel)
        with pytest.raises(grpc.RpcError) as raised:
            stub.GetForecast(weather_pb2.ForecastRequest(station="nowhere"))
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
        assert days(stub) == [0, 1]
    server.stop(None)
"""
    done = run(source, *BETWEEN)
    done.assert_outcomes(passed=5, failed=1)
    done.stdout.fnmatch_lines(["*test_value[[]shm[]] FAILED*", "3 calls over shared memory in 2 tests"])


def test_what_no_server_of_the_tests_serves_is_called_over_grpc(run: Runner, weather: WeatherPrograms) -> None:
    source = f"""
import os
EMULATOR = subprocess.Popen({weather.server()!r}, stdout=subprocess.PIPE, text=True)
PORT = EMULATOR.stdout.readline().split()[-1]

def test_both(lucky_grpc):
    server, target = serve()
    for one in (target, f"localhost:{{PORT}}"):
        with grpc.insecure_channel(one) as channel:
            assert days(weather_pb2_grpc.WeatherStub(channel)) == [0, 1]
    server.stop(None)

def test_end():
    EMULATOR.terminate()
    EMULATOR.communicate()
"""
    done = run(source, *BETWEEN)
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines(["2 calls over shared memory in 1 test"])


ONE_SERVER_FOR_ALL = """
@pytest.fixture(scope="session")
def target():
    server, target = serve()
    yield target
    server.stop(None)

def test_days(target, lucky_grpc):
    with grpc.insecure_channel(target) as channel:
        assert days(weather_pb2_grpc.WeatherStub(channel)) == [0, 1]
"""
BY_NAME = """
from grpc import insecure_channel

def test_days(lucky_grpc):
    server, target = serve()
    with insecure_channel(target) as channel:
        assert days(weather_pb2_grpc.WeatherStub(channel)) == [0, 1]
    server.stop(None)
"""


def _made_before(made: str, days: str = "days(STUB)", fixture: str = "") -> tuple[str, str]:
    """A test that calls by what was made where nothing asked for lucky_grpc, and why its calls stay on gRPC."""
    source = f"""
@pytest.fixture(scope="session", autouse=True)
def end():
    yield
    SERVER.stop(None)

SERVER, TARGET = serve()
{made}
def test_days({fixture}lucky_grpc):
    assert {days} == [0, 1]
"""
    return source, "the channel was made before"


A_FIXTURE = """
@pytest.fixture(scope="{}")
def wide():
    with grpc.insecure_channel(TARGET) as channel:
        yield weather_pb2_grpc.WeatherStub(channel)
"""
STAYED = {
    "to one server for all": (ONE_SERVER_FOR_ALL, "no server or engine at shm://"),
    "by name": (BY_NAME, "calls that came to the port"),
    "of a module's fixture": _made_before(A_FIXTURE.format("module"), "days(wide)", "wide, "),
    "of an import": _made_before("STUB = weather_pb2_grpc.WeatherStub(grpc.insecure_channel(TARGET))"),
}


@pytest.mark.parametrize(("source", "why"), STAYED.values(), ids=STAYED)
def test_a_test_whose_calls_all_stay_on_grpc_fails_and_says_what_to_change(run: Runner, source: str, why: str) -> None:
    done = run(source, *BETWEEN)
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        [
            f"? call* went over gRPC, none over shared memory (127.0.0.1:*: {why}*)",
            "Have the fixture that starts the server ask for lucky_grpc*",
        ]
    )


def test_a_session_in_which_nothing_went_over_shared_memory_fails(run: Runner) -> None:
    done = run("def test_nothing(lucky_grpc):\n    pass\n", *BETWEEN)
    done.assert_outcomes(passed=2)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["NOTHING went over shared memory in 1 test: Have the fixture*"])


def test_the_fixture_says_what_the_test_goes_over_and_puts_everything_back(run: Runner) -> None:
    source = """
import os

def state():
    return [getattr(module, name) for module in (grpc, grpc.aio) for name in ("insecure_channel", "server")], {
        name: value for name, value in os.environ.items() if name.startswith(("LUCKY", "PYTHONPATH"))
    }

BEFORE = state()

def test_path(lucky_grpc):
    assert lucky_grpc in ("grpc", "shm")
    assert (state() == BEFORE) == (lucky_grpc == "grpc")
    if lucky_grpc == "shm":
        server, target = serve()
        with grpc.insecure_channel(target) as channel:
            assert days(weather_pb2_grpc.WeatherStub(channel)) == [0, 1]
        server.stop(None)

def test_end():
    assert state() == BEFORE
"""
    before = _served()
    done = run(source, *BETWEEN)
    done.assert_outcomes(passed=3)
    assert not [name for name in _served() - before if _is_gone(name)]


def _served() -> set[str]:
    return {name for folder in runtime_directories() if folder.is_dir() for name in os.listdir(folder)}


def _is_gone(name: str) -> bool:
    """True where the process that a name was made by has ended."""
    parts = name.split("_")
    return len(parts) > 1 and parts[1].isdecimal() and not os.path.exists(f"/proc/{parts[1]}")


def test_a_process_that_is_switched_already_is_refused(run: Runner) -> None:
    run.pytester.makepyfile(test_team=HEAD + FIXTURE)
    under = ("-m", "lucky_transport", "run", "--transport", "grpc", "--quiet", "--", sys.executable)
    done = python(*under, "-m", "pytest", "-q", "-p", "no:cacheprovider", *BETWEEN)
    assert "the channels of this process are switched already" in done.stdout
    assert "1 passed, 1 error" in done.stdout
