"""What the Holodeck tests share: names of their own, an engine whose agents have places, and a look for leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport import messages as m
from lucky_transport.config import load_settings
from lucky_transport.engine import HOLD, RESET, Buffers, Engine, Handler
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.testing.suite import every, zeros
from lucky_transport.transport import Transport
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.scenario import read_scenario
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from lucky_transport_holodeck.world_client import WorldClient
    from tests.plugins.holodeck.original_engine import OriginalEngine

LASERS = {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": 6}}
SHARED = Path("/dev/shm")
SETTINGS: dict[str, Any] = {"connect_timeout_s": 5.0, "step_timeout_s": 20.0}
_HOLODECK = os.environ.get("LUCKY_PEER_HOLODECK", "")  # read now: no test sees our variables
_HOLOOCEAN = os.environ.get("LUCKY_PEER_HOLOOCEAN", "")


class PlacedEngine(Engine):
    """Each env counts its ticks and shows its last action; its agent has a place that SceneService knows.

    An episode terminates when the first action value is above 9.
    """

    def __init__(self, num_envs: int = 1, *, hold: bool = True) -> None:
        self.spec = BatchSpec(
            engine="placed",
            num_envs=num_envs,
            observation=ArraySpec("float64", (5,)),
            action=ArraySpec("float32", (4,)),
            reward_terms=("ticks_so_far",),
            termination_terms=("enough",),
            observation_terms=(("ticks", 1), ("last_action", 4)),
            hold=hold,
        )
        self.resets = np.zeros(num_envs, int)
        self.places = [m.Transform(m.Vec3(), m.Quat(w=1.0)) for _ in range(num_envs)]
        self._ticks = np.zeros(num_envs)
        self._buffers: Buffers

    @property
    def services(self) -> Mapping[str, Handler]:
        return {
            "/hazel.rpc.SceneService/ListEntities": self._list,
            "/hazel.rpc.SceneService/SetEntityTransform": self._move,
        }

    def _list(self, request: m.ListEntitiesRequest) -> m.ListEntitiesResponse:
        return m.ListEntitiesResponse(
            [m.EntityInfo(m.EntityId(env + 7), f"agent_{env}", place) for env, place in enumerate(self.places)]
        )

    def _move(self, request: m.SetEntityTransformRequest) -> m.SetEntityTransformResponse:
        assert request.id is not None
        assert request.transform is not None
        self.places[request.id.id - 7] = request.transform
        return m.SetEntityTransformResponse(True)

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def step(self, control: NDArray[np.uint8] | None) -> None:
        control = np.zeros(self.spec.num_envs, np.uint8) if control is None else control
        out = self._buffers
        reset, steps = (control & RESET) != 0, (control & (RESET | HOLD)) == 0
        self._ticks[reset] = 0
        self._ticks[steps] += 1
        self.resets[reset] += 1
        touched = reset | steps
        out.observations[touched, 0] = self._ticks[touched]
        out.observations[steps, 1:] = out.actions[steps]
        out.observations[reset, 1:] = 0
        out.signals[0, touched] = self._ticks[touched]
        out.signals[1, touched] = (out.actions[touched, 0] > 9) & steps[touched]
        out.rewards[touched] = out.signals[0, touched]
        out.terminated[touched] = out.signals[1, touched]


def an_agent(name: str, sensors: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """Return an agent of a scenario: a UAV with the whole observation and a task, unless `sensors` says otherwise."""
    standard = [
        {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": 5}},
        {"sensor_type": "DistanceTask"},
    ]
    agent = {"agent_name": name, "agent_type": "UavAgent", "control_scheme": 1}
    return agent | {"sensors": standard if sensors is None else sensors} | more


def a_sensor(kind: str, name: str = "", /, **config: Any) -> dict[str, Any]:
    return {"sensor_type": kind, "configuration": config} | ({"sensor_name": name} if name else {})


def a_uav(*sensors: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a scenario of one UAV with these sensors."""
    return {"world": "w", "main_agent": "a", "agents": [an_agent("a", list(sensors), **more)]}


def an_auv(*sensors: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a scenario of one agent of HoloOcean with these sensors."""
    return a_uav(*sensors, **{"agent_type": "HoveringAUV", "control_scheme": 0} | more)


class Bench:
    """Serves engines and drives them as the original's client would; everything is closed after the test."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path) -> None:
        self.stack = stack
        self.names = Names(unique_name())
        self._folder = folder

    def serve(self, engine: Engine | str, num_envs: int = 1, *, alone: bool = False, **options: Any) -> None:
        """Serve `engine`; `alone`: as for a client that starts its engine."""
        endpoint = f"holodeck://{self.names.uuid}" + ("?for=client" if alone else "")
        self.stack.enter_context(api.serve(engine, endpoint, num_envs=num_envs, options=options))

    def spawn(self, *, alone: bool = False, num_envs: int = 1, **options: Any) -> EngineProcess:
        """Return a toy engine, served as by `serve`, in a process of its own."""
        endpoint = f"holodeck://{self.names.uuid}" + ("?for=client" if alone else "")
        engine = EngineProcess("toy", [endpoint], num_envs=num_envs, options=options)
        self.stack.callback(engine.stop)
        return engine

    def original(self, *residents: str) -> OriginalEngine:
        """Return an engine that behaves as the originals', with these residents, at a uuid of its own."""
        from tests.plugins.holodeck.original_engine import OriginalEngine

        engine = OriginalEngine(Names(unique_name()), *residents)
        self.stack.callback(lambda: [path.unlink() for path in SHARED.glob(f"*{engine.names.uuid}*")])  # the blocks
        self.stack.callback(engine.close)
        return engine

    def enter(self, names: Names, scenario: dict[str, Any], pre_start_steps: int = 0) -> WorldClient:
        """Return a client of the original's kind of any engine, before its first reset."""
        from lucky_transport_holodeck.world_client import WorldClient

        settings = load_settings(SETTINGS)
        client = WorldClient.attach(names, read_scenario(scenario), settings, pre_start_steps=pre_start_steps)
        return self.stack.enter_context(client)

    def attach(self, *agents: dict[str, Any], pre_start_steps: int = 0) -> WorldClient:
        """Return a client of this bench's engine, before its first reset."""
        return self.enter(self.names, {"world": "w", "agents": list(agents)}, pre_start_steps)

    def drive(self, *agents: dict[str, Any], engine: Engine | None = None) -> WorldClient:
        """Serve `engine`, by default one with places, and return a client after its first reset.

        Without `agents` each env has one; the first is called "a".
        """
        engine = engine or PlacedEngine()
        self.serve(engine)
        world = self.attach(*(agents or map(an_agent, "abc"[: engine.spec.num_envs])))
        world.reset()
        return world

    def scenario(self, *agents: dict[str, Any]) -> Path:
        """Return the file of a scenario of these agents."""
        path = self._folder / "scenario.json"
        path.write_text(json.dumps({"world": "w", "agents": list(agents)}))
        return path

    def connect(self, *agents: dict[str, Any], timeout_s: float = 5.0, **options: Any) -> Transport:
        """Return a client that steps these agents as a batch, before its first reset."""
        query = "&".join(f"{key}={value}" for key, value in ({"pre_start_steps": 0} | options).items())
        endpoint = f"holodeck://{self.names.uuid}?scenario={self.scenario(*agents)}&{query}"
        settings = load_settings({"connect_timeout_s": timeout_s})
        return self.stack.enter_context(api.open_transport(endpoint, settings))

    def batch(self, engine: Engine | None = None, **options: Any) -> Transport:
        """Serve `engine`, by default one with places, and return a client of its envs after its first reset."""
        engine = engine or PlacedEngine()
        self.serve(engine)
        client = self.connect(*map(an_agent, "abc"[: engine.spec.num_envs]), **options)
        client.step(zeros(client), every(client, RESET))
        return client

    def leftovers(self) -> list[str]:
        """Return the files of this bench's uuid."""
        return sorted(path.name for path in SHARED.iterdir() if self.names.uuid in path.name)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[Bench]:
    """Its engines look for a client only where they are told that a file has changed."""
    monkeypatch.setattr("lucky_transport_holodeck.server._SLICE_S", 10 * PATIENCE_S)
    with contextlib.ExitStack() as stack:
        made = Bench(stack, tmp_path)
        yield made
    assert made.leftovers() == []


def _peer(variable: str, python: str, how: str) -> str:
    if not shutil.which(python):
        pytest.skip(f"{variable} names no Python with the original client; {how}")
    return python


@pytest.fixture
def peer_python() -> str:
    """A Python that has the original `holodeck` package."""
    make = "python3.11 -m venv P && P/bin/pip install holodeck==0.3.1 numpy==1.23.5 posix_ipc"
    return _peer("LUCKY_PEER_HOLODECK", _HOLODECK, f"make one with {make}")


@pytest.fixture
def holoocean_python() -> str:
    """A Python that has HoloOcean's client."""
    make = "python3.11 -m venv P && P/bin/pip install ./HoloOcean/client, from a checkout of its repository"
    return _peer("LUCKY_PEER_HOLOOCEAN", _HOLOOCEAN, f"make one with {make}: PyPI's holoocean has no client in it")
