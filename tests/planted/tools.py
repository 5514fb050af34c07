"""The tools that compare, each run over shm and planted: its exit status and all that it printed."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import TransportError
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport_migration import paths
from lucky_transport_migration.evidence.metrics import Metrics
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.recording.recorded_transport import recorded_endpoint
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from lucky_transport_migration.stages.journal import Journal
from tests.planted.changes import connecting
from tests.planted.moving_engine import make_engine
from tests.planted.plant import planted
from tests.support.waiting import PATIENCE_S

#: The engine that all tools compare, and its batch.
ENGINE, NUM_ENVS, SEED = "moving", 4, 3
#: How many steps are looked at: three episodes, and the exchange in which most plants begin.
STEPS = 120


@dataclass(frozen=True)
class Report:
    """What a tool came to. status: of its exit, 0 = all that was compared is equal."""

    status: int
    text: str

    def says(self, words: Sequence[str]) -> bool:
        """True when it contains all the words."""
        return all(word in self.text for word in words)

    def must_name(self, words: Sequence[str]) -> None:
        """Fail unless it is a difference with these words, and no traceback."""
        assert self.status, self.text
        assert "Traceback" not in self.text, self.text
        assert self.says(words), self.text

    def must_list(self, words: Sequence[str]) -> None:
        """Fail unless all that was compared is equal, and these words say what was not."""
        assert self.status == 0, self.text
        assert self.says(words), self.text


@contextlib.contextmanager
def site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Register the planted transport and its engine, as an installed plugin is, here and in processes started here."""
    info = folder / "lucky_transport_planted-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lucky-transport-planted\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[lucky_transport]\nplanted = tests.planted.plant\n")
    monkeypatch.syspath_prepend(folder)
    registry.cache_clear()
    try:
        yield
    finally:
        registry.cache_clear()


class _ServedHere:
    """An engine in this process where a tool would start a process: a start takes a hundredth of the time."""

    pid = None

    def __init__(self, engine: str, endpoints: Sequence[str], **given: Any) -> None:
        options = {name: given[name] for name in ("num_envs", "seed", "options")}
        options["interceptors"] = given.get("interceptors") or None
        self._serving = api.serve(engine, list(endpoints), **options)
        self.endpoints = self._serving.endpoints
        self.stop = self._serving.stop


def engines_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tools serve their engines here."""
    monkeypatch.setattr(paths, "EngineProcess", _ServedHere)


def command(module: str, *arguments: str) -> Report:
    """Run a subcommand of `lucky-transport` in this process; what it raises is in the report, as a traceback."""
    name = module.rpartition(".")[2]
    found = getattr(__import__(module, fromlist=[name]), name)
    done = CliRunner(catch_exceptions=True).invoke(found, list(arguments), terminal_width=200)
    error = done.exception
    last = "" if error is None or isinstance(error, SystemExit) else f"Traceback: {type(error).__name__}: {error}"
    if isinstance(error, TransportError):  # the command line's main shows these as one line
        last = f"Error: {error}"
    return Report(done.exit_code, done.output + last)


def parity_steps(
    folder: Path, *, steps: int | None = STEPS, num_envs: int | None = NUM_ENVS, autoreset: str = "next_step"
) -> Report:
    """`lucky-transport parity moving --between shm,planted --suite step`; None = the default."""
    named = {"steps": steps, "num-envs": num_envs, "seed": SEED, "autoreset": autoreset}
    sizes = (f"--{name}={value}" for name, value in named.items() if value is not None)
    return command(
        "lucky_transport_migration.cli.parity", ENGINE, "--between", "shm,planted", "--suite", "step", *sizes
    )


def replayed(folder: Path, use: Callable[[Any], object]) -> Report:
    """What is done over shm is recorded, then made again over planted."""
    file = folder / "run.jsonl"
    with api.serve(ENGINE, f"shm://{unique_name()}", num_envs=NUM_ENVS, seed=SEED) as serving:
        to = str(serving.endpoints[0])
        with api.open_transport(recorded_endpoint(to, file, SEED)) as transport:
            use(transport)
    with api.serve(ENGINE, f"planted://{unique_name()}", num_envs=NUM_ENVS, seed=SEED) as serving:
        return command("lucky_transport_migration.cli.replay", str(file), str(serving.endpoints[0]))


def replay(folder: Path) -> Report:
    """A run of an env is replayed."""
    with contextlib.ExitStack() as stack:
        return replayed(folder, lambda transport: drive(stack.enter_context(VectorEnv(transport))))


def drive(env: Any, steps: int = 105) -> None:
    """What a team's own program does: steps, resets of all and of some envs, seeds, options, typed calls."""
    random = np.random.default_rng(SEED)
    env.reset(seed=SEED)
    masks = np.eye(env.num_envs, dtype=bool)
    for step in range(steps):
        actions = random.uniform(-2, 2, env.batch_spec.action_shape).astype(np.float32)
        actions[-1] /= 20  # this env lives until it is truncated
        env.step(actions)
        if step % 30 == 20:
            env.reset(seed=step, options={"reset_mask": masks[step % env.num_envs]})
        if step % 45 == 25:
            env.reset(options={"randomization": {"joint_position_noise": 0.01 * (step + 1)}})
        if step % 40 == 10:
            env.client.scene.list_entities()
            env.client.mujoco.get_joint_state("agent_1")
            with env.client.camera.stream(name="front") as images:
                for _ in range(3):
                    next(images)


def parity_calls(folder: Path, methods: str = "*", count: int = 3) -> Report:
    """`lucky-transport parity moving --between shm,planted --method`, a pattern."""
    sizes = ("--num-envs", str(NUM_ENVS), "--count", str(count), "--seed", str(SEED))
    return command(
        "lucky_transport_migration.cli.parity", ENGINE, "--between", "shm,planted", "--method", f"*/{methods}", *sizes
    )


def replay_calls(folder: Path) -> Report:
    """Typed calls and streams are replayed."""
    return replayed(folder, call_and_stream)


def call_and_stream(transport: Any) -> None:
    """What a team's own program does: calls, one that is refused, streams to their end, and one that is left."""
    from lucky_transport.messages import GetJointStateRequest, LidarSensorRequest, SetSeedsRequest, StepRequest
    from lucky_transport.messages.methods import method

    transport.call(method("/lucky_transport.v1.BatchService/SetSeeds"), SetSeedsRequest([5] * NUM_ENVS))
    for agent in range(NUM_ENVS):
        transport.call(method("AgentService/Step"), StepRequest(actions=[0.1, 0.2]))
        transport.call(method("MujocoService/GetJointState"), GetJointStateRequest(f"agent_{agent}"))
    entities = method("SceneService/ListEntities")
    transport.call(entities, entities.request())
    with contextlib.suppress(LookupError):
        transport.call(method("LidarService/GetLidarBeamCount"), LidarSensorRequest())
    transport.call(method("LidarService/GetLidarBeamCount"), LidarSensorRequest(1))
    for name in (
        "AgentService/StreamPolicySlotState",
        "MujocoService/StreamJointState",
        "TelemetryService/StreamTelemetry",
        "CameraService/StreamCamera",
    ):
        assert len(list(transport.stream(method(name), method(name).request()))) == 30
    endless = method("AgentService/StreamRobotController")
    with transport.stream(endless, endless.request()) as stream:
        assert [next(stream).entity.id for _ in range(5)] == list(range(5))


_TEAM = """
import warnings
import pytest
from tests.planted.tools import drive
from lucky_transport_migration.side_by_side.suite import SideBySideSuite

def make(num_envs, seed, **options):
    from tests.planted.moving_engine import MovingEngine
    return MovingEngine(num_envs, seed=seed, **options)

def test_side_by_side(lucky_side_by_side):
    with lucky_side_by_side(make, num_envs={n}, seed={seed}) as env:
        drive(env)

@pytest.mark.lucky(make, num_envs={n}, seed={seed})
def test_env_of_the_marker(lucky_env):
    drive(lucky_env)

class TestSuite(SideBySideSuite):
    engine = staticmethod(make)
    num_envs = {n}
    seed = {seed}
    steps = {steps}
"""


def side_by_side(folder: Path, source: str = "") -> Report:
    """`pytest --lucky-between shm,planted` on a team's tests."""
    import io

    file = folder / "test_planted_team.py"
    file.write_text(source or _TEAM.format(n=NUM_ENVS, seed=SEED, steps=STEPS))
    output = io.StringIO()
    words = ("-qx", "-pno:cacheprovider", "-pno:faulthandler", "--import-mode=importlib", "--lucky-between=shm,planted")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = pytest.main(
            [*words, *(f"--{name}={folder}" for name in ("rootdir", "confcutdir")), "-c", "/dev/null", str(file)]
        )
    return Report(int(status), output.getvalue())


class _WaitsForShadows:
    """Makes calls over a staged transport, and lets the shadow of each end before the next one."""

    def __init__(self, transport: StagedTransport, router: ProcessRouter) -> None:
        self._transport = transport
        self._router = router

    def call(self, *arguments: Any) -> Any:
        try:
            return self._transport.call(*arguments)
        finally:
            self._router.workers.drain(Deadline(PATIENCE_S))

    def stream(self, *arguments: Any) -> Any:
        self._router.workers.drain(Deadline(PATIENCE_S))
        return self._transport.stream(*arguments)


def staged(folder: Path) -> Report:
    """Typed calls and streams, each read made over a planted candidate too; status: whether one differed."""
    (folder / "lucky_transport.toml").write_text('[stages]\ndefault = "shadow"\n')
    told: list[str] = []
    router = ProcessRouter(EvidencePolicy(folder, tell=told.append, metrics=Metrics(CollectorRegistry())))
    with api.serve(make_engine("", NUM_ENVS, seed=SEED), f"inproc://{unique_name()}") as serving:
        endpoint = str(serving.endpoints[0])
        sides = (
            RoutedConnection("grpc", connecting(endpoint)),
            RoutedConnection("shm", connecting(endpoint, planted)),
        )
        with StagedTransport(*sides, router) as transport:
            call_and_stream(_WaitsForShadows(transport, router))
            router.workers.drain(Deadline(PATIENCE_S))
        router.close()
    seen = list(read_folder(folder / "lucky-evidence"))
    bad = {one.method for one in seen if one.verdict in ("different", "failed")}
    assert {one.method for one in Journal(folder / "lucky-evidence").entries()} == bad, "just these fall back"
    lines = (f"{one.verdict} {one.method}: {one.sentence or one.why}; {', '.join(one.left_out)}" for one in seen)
    return Report(int(bool(bad)), "\n".join([*told, *lines]))


#: The tools by name; each takes a folder of its own.
TOOLS: dict[str, Callable[..., Report]] = {
    "parity --suite step": parity_steps,
    "pytest --lucky-between": side_by_side,
    "replay": replay,
    "parity --method": parity_calls,
    "replay of calls": replay_calls,
    "staged": staged,
}
