"""The real luckyrobots package against engines that `lucky-transport serve` runs, each in a process of its own.

    cd tests/exhaustive/interop && python -m pytest .
    lucky-transport run --transport shm --map '127.0.0.1:*=shm://lucky_{port}_interop' -- python -m pytest .

The second line runs the same tests without a gRPC server anywhere: the engine of a port is where the map says.

The package is used as its users use it; what has to be repaired for that is README's remedy, word for word. Without
luckyrobots (or mujoco) every test here is skipped, with the reason. An engine serves a whole module, so a test that
changes what outlives it puts that back.
"""

# pyright: basic, reportMissingImports=false
# Reason: luckyrobots ships no types, and is installed only where its compatibility is tested.

import importlib
import importlib.util
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.config import load_launch, load_settings
from lucky_transport.process import EngineProcess
from tests.support.resources import free_port

README = Path(__file__).resolve().parents[3] / "plugins" / "lucky_transport_grpc" / "README.md"

#: Beside the package itself: modules that it does not import by itself.
_MODULES = ("cli.inspect", "debug", "sysid.collector")


def _map() -> Any:
    """Return the map of targets when these tests run under the launcher, None when they run over gRPC."""
    settings = load_settings()
    if not load_launch().parent or settings.transport != "shm":
        return None
    from lucky_transport_stubs.run.switch import target_map

    return target_map(settings)


#: Read here, at import: the tests' own clean slate removes LUCKY_* variables later.
_MAP = _map()

#: What the launcher gave these tests, for programs that they start.
_ENVIRONMENT = dict(os.environ)

#: Engine -> the port at which luckyrobots finds it.
_ports: dict[EngineProcess, int] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark of a test that is about gRPC itself, or about what the launcher changes."""
    config.addinivalue_line("markers", "only_over_grpc(why): skipped under the launcher")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by a mark: so they are one line of the summary for each file."""
    folder = f"{Path(__file__).parent}{os.sep}"
    ours = [item for item in items if str(item.path).startswith(folder)]  # of thousands
    for item in ours:
        only = item.get_closest_marker("only_over_grpc")
        if only is not None and _MAP is not None:
            item.add_marker(pytest.mark.skip(reason=f"under lucky-transport run: {only.args[0]}"))
    for module, remedy in (("luckyrobots", "luckyrobots==0.5.0"), ("mujoco", "'lucky-transport[mujoco]'")):
        if importlib.util.find_spec(module) is None:
            missing = pytest.mark.skip(reason=f"{module} is not installed: pip install {remedy}")
            for item in ours:
                item.add_marker(missing)


@pytest.fixture(scope="session")
def lucky() -> Any:
    """The package luckyrobots."""
    try:
        for module in _MODULES:
            importlib.import_module(f"luckyrobots.{module}")
        return importlib.import_module("luckyrobots")
    except Exception as error:  # its generated code refuses older protobuf and grpcio with classes of its own
        pytest.skip(f"luckyrobots cannot be imported: {type(error).__name__}: {error}")


@pytest.fixture(scope="module")
def serve(lucky: Any) -> Generator[Callable[..., EngineProcess]]:
    """Run `lucky-transport serve ENGINE` at a port of its own until the module's tests are over."""
    with ExitStack() as stack:

        def start(engine: str = "mujoco:quadruped", **options: Any) -> EngineProcess:
            port = 0 if _MAP is None else free_port()
            endpoint = f"grpc://127.0.0.1:{port}" if _MAP is None else _MAP.endpoint_of(f"127.0.0.1:{port}")
            process = EngineProcess(engine, [endpoint], **options)
            stack.callback(process.stop)
            _ports[process] = port or int(process.endpoints[0].address.rpartition(":")[2])
            return process

        yield start


@pytest.fixture(scope="module")
def port_of() -> Callable[[EngineProcess], int]:
    """Return the port of an engine process."""
    return _ports.__getitem__


@pytest.fixture(scope="module")
def engine(serve: Callable[..., EngineProcess], request: pytest.FixtureRequest) -> EngineProcess:
    """The module's engine; a module may say NUM_ENVS."""
    return serve(num_envs=getattr(request.module, "NUM_ENVS", 1))


@pytest.fixture(scope="module")
def port(engine: EngineProcess) -> int:
    """The port of the module's engine."""
    return _ports[engine]


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a further program: under the launcher it is switched too."""
    return dict(_ENVIRONMENT)


@pytest.fixture
def connect(lucky: Any) -> Generator[Callable[[int], Any]]:
    """Connect a LuckyEngineClient to a port, as its README shows."""
    with ExitStack() as stack:

        def open_client(port: int) -> Any:
            client = lucky.LuckyEngineClient(host="127.0.0.1", port=port, robot_name="quadruped")
            client.connect()
            stack.callback(client.close)
            return client

        yield open_client


@pytest.fixture
def client(connect: Callable[[int], Any], port: int) -> Any:
    """A LuckyEngineClient of the module's engine."""
    return connect(port)


def _remedy() -> str:
    """Return the remedy that README offers for the health check, the code block behind its marker."""
    _, _, after = README.read_text(encoding="utf-8").partition("<!-- luckyrobots: health check -->")
    lines = after.strip("\n").split("\n\n")[0].splitlines()
    return "\n".join(line.removeprefix("    ") for line in lines)


@pytest.fixture
def repaired(lucky: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply README's remedy, for this test alone."""
    monkeypatch.setattr(lucky.LuckyEngineClient, "health_check", lucky.LuckyEngineClient.health_check)
    exec(_remedy(), {})  # the code is ours, out of the README beside it


@pytest.fixture
def session(lucky: Any, port: int, repaired: None) -> Generator[Any]:
    """A connected Session. It is closed without "stopping the engine", which kills by name."""
    opened = lucky.Session(host="127.0.0.1", port=port)
    opened.connect(timeout_s=20.0, robot="quadruped")
    yield opened
    opened.close(stop_engine=False)


@pytest.fixture
def robot(session: Any) -> Generator[Any]:
    """The RobotController of the only robot; afterwards no slot and no motion graph is active."""
    found = session.robot("agent_0")
    yield found
    for slot in found.get_state().slots:
        found.set_policy_active(slot.slot_id, False)
    found.set_motion_graph_active(False)
