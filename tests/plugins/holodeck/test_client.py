"""Any Holodeck engine as a batch: an engine of ours that shows only the original's side stands for the real one."""

import json
import resource
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

import lucky_transport
from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import HOLD, RESET, Engine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, LocalProtocolError, SpecError, Unimplemented
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.suite import every, open_reference, outcome, zeros
from lucky_transport.testing.trajectories import random_actions
from lucky_transport.transport import Capabilities, Frame, Transport
from lucky_transport_holodeck.export import export_holodeck
from tests.plugins.holodeck.conftest import LASERS, Bench, PlacedEngine, an_agent

_TASK = {"sensor_type": "DistanceTask"}
_SET_SEEDS = method("BatchService/SetSeeds")


def test_steps_are_bit_for_bit_those_without_a_wire(bench: Bench) -> None:
    options = {"obs_size": 6, "act_size": 4, "seed": 5, "episode_steps": 10_000}
    bench.serve("toy", 2, alone=True, **options)
    client = bench.connect(an_agent("a", [LASERS, _TASK]), an_agent("b", [LASERS, _TASK]))
    with open_reference("toy", 2, **options) as reference:
        generator = np.random.default_rng(0)
        frame = client.step(zeros(client), every(client, RESET))
        expected = reference.step(zeros(reference), every(reference, RESET))
        assert frame.observations.tobytes() == expected.observations.tobytes()
        assert not frame.rewards.any()
        for _ in range(200):
            actions = random_actions(reference.spec, generator)
            frame, expected = client.step(actions), reference.step(actions)
            assert frame.observations.tobytes() == expected.observations.tobytes()
            assert frame.rewards.tobytes() == expected.rewards.tobytes()
            assert frame.terminated.tolist() == expected.terminated.tolist()
            if expected.terminated.any():
                break


def test_a_scenario_becomes_a_spec(bench: Bench) -> None:
    bench.serve(PlacedEngine(2))
    sensors = [LASERS, {"sensor_type": "OrientationSensor", "sensor_name": "up"}, _TASK]
    with bench.connect(an_agent("a", sensors), an_agent("b", sensors), ticks_per_step=3) as client:
        spec = client.spec
    space: Any = spec.observation_space()
    assert spec.num_envs == 2
    assert {name: box.shape for name, box in space.items()} == {"RangeFinderSensor": (6,), "up": (3, 3)}
    assert spec.action.shape == (4,)
    assert (spec.reward_terms, spec.timeout_terms) == (("DistanceTask",), ("world_reset",))
    assert spec.step_s == pytest.approx(0.1)
    spec = bench.connect(an_agent("a", [LASERS], control_scheme=0)).spec
    assert spec.action.high == [5.087, 6.508, 0.8, 59.844]
    assert spec.reward_terms == ("reward",)


def test_a_vector_env_steps_agents_and_resets_them_together(bench: Bench) -> None:
    engine = PlacedEngine(2)
    bench.serve(engine)
    with VectorEnv(bench.connect(an_agent("a"), an_agent("b"))) as env:
        env.reset()
        actions = np.zeros((2, 4), np.float32)
        assert env.step(actions)[1].tolist() == [1, 1]
        actions[1, 0] = 10
        _, _, terminated, truncated, info = env.step(actions)
        assert (terminated.tolist(), truncated.tolist()) == ([False, True], [True, False])
        assert info["termination_terms"]["world_reset"].tolist() == [1, 0]
        observations, rewards, terminated, _, _ = env.step(actions)
        assert (observations[:, 0].tolist(), rewards.tolist(), terminated.tolist()) == ([0, 0], [0, 0], [False, False])
        assert engine.resets.tolist() == [2, 2]


def test_a_step_lasts_as_many_ticks_as_wanted(bench: Bench) -> None:
    client = bench.batch(ticks_per_step=5)
    assert [client.step(zeros(client)).observations[0, 0] for _ in range(3)] == [5, 10, 15]


def test_what_a_shared_world_cannot_do_is_refused_before_anything_is_sent(bench: Bench) -> None:
    bench.serve(PlacedEngine(2))
    client = bench.connect(an_agent("a"), an_agent("b"))
    with pytest.raises(LocalProtocolError, match="before the first reset"):
        client.step(zeros(client))
    client.step(zeros(client), every(client, RESET))
    with pytest.raises(LocalProtocolError, match=r"envs \[1\] of 2 cannot be reset by themselves"):
        client.step(zeros(client), np.array([0, RESET], np.uint8))
    with pytest.raises(LocalProtocolError, match="cannot hold"):
        client.step(zeros(client), every(client, HOLD))
    with pytest.raises(Unimplemented, match="SetSeeds"):
        client.call(_SET_SEEDS, SetSeedsRequest([1, 2]))
    assert client.step(zeros(client)).observations[:, 0].tolist() == [1, 1]


def test_the_first_reset_refuses_what_the_engine_does_not_have_and_the_client_stays_usable(bench: Bench) -> None:
    bench.serve(PlacedEngine())
    client = bench.connect(an_agent("a"), an_agent("b"))
    for _ in range(2):
        with pytest.raises(SpecError, match="agent 'b' has no env: the engine has 1"):
            client.step(zeros(client), every(client, RESET))
    with pytest.raises(LocalProtocolError, match="before the first reset"):
        client.step(zeros(client))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("amid a reset")


@pytest.mark.parametrize(
    ("patched", "value", "error", "words"),
    [
        ("commands.BUFFER_BYTES", 10, SpecError, "for a block of 10; send fewer commands"),
        ("scenario.AgentPlan.start", _interrupt, KeyboardInterrupt, "amid a reset"),
    ],
)
def test_a_reset_that_is_not_sent_leaves_the_client_usable(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, patched: str, value: Any, error: type[BaseException], words: str
) -> None:
    client = bench.batch()
    with monkeypatch.context() as broken:
        broken.setattr(f"lucky_transport_holodeck.{patched}", value)
        for _ in range(2):
            with pytest.raises(error, match=words):
                client.step(zeros(client), every(client, RESET))
            with pytest.raises(LocalProtocolError, match="before the first reset"):
                client.step(zeros(client))
    client.step(zeros(client), every(client, RESET))
    assert client.step(zeros(client)).observations[:, 0].tolist() == [1]


def test_an_engine_needs_a_scenario_and_one_of_ours_is_reached_over_shm(bench: Bench) -> None:
    bench.serve(PlacedEngine())
    for connect in (lucky_transport.connect, lambda endpoint: lucky_transport.make(endpoint=endpoint)):
        with pytest.raises(ConfigError, match=r"needs a scenario; .* an engine of ours at shm://"):
            connect(f"holodeck://{bench.names.uuid}")
    with pytest.raises(ConfigError, match=r"'holodeck' cannot start an engine by itself; .*shm"):
        lucky_transport.make("toy", transport="holodeck")


def test_the_pages_scenario_and_program_run_as_they_stand(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lucky_transport_holodeck

    page = (Path(lucky_transport_holodeck.__file__).with_name("README.md")).read_text(encoding="utf-8")
    scenario, program = (page.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("json", "python"))
    bench.serve("toy", act_size=4)
    monkeypatch.chdir(tmp_path)
    Path("S.json").write_text(scenario)
    assert "holodeck://demo" in program
    names: dict[str, Any] = {}
    exec(program.replace("holodeck://demo", f"holodeck://{bench.names.uuid}"), names)
    assert names["observations"].shape == (1, 8)


def test_a_package_that_cannot_be_written_is_told_and_leaves_the_former_one(tmp_path: Path) -> None:
    def export(place: Path, *options: str) -> Any:
        return CliRunner().invoke(export_holodeck, ["toy", str(place), *options])

    def written() -> dict[str, str]:
        return {file.name: file.read_text() for file in (tmp_path / "lucky_toy").iterdir()}

    assert export(tmp_path).exit_code == 0
    former = written()
    place = tmp_path / "lucky_toy" / next(iter(former)) / "worlds"
    ran = export(place)
    assert (ran.exit_code, ran.output) == (1, f"Error: the package cannot be written into {place}: Not a directory\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))  # as a disk that is full
    try:
        assert export(tmp_path, "--num-envs", "2").exit_code == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert written() == former


_OWN_SPEC = "the scenario says what is observed, acted and rewarded: a Task sensor is one reward term"
_ONE_WORLD = "the envs share a world, which a reset loads anew for all of them"
_NO_ERRORS = "the protocol carries no error: the agents of a failed engine are terminal until the next reset"
_NO_SEEDS = "the protocol has no seeds"
_NO_GOODBYE = "a client that comes takes the place of one before it, which may have gone without a word"
_NO_END = "an engine that stops says nothing: a client watches its process"
#: From this seed no episode ends within a test: where one does, all the others are truncated with it.
_LASTING = {"seed": 40}


@pytest.mark.exhaustive
class TestHolodeck(TransportContract):
    """A toy shows its observation as a range finder, and its rewards as a task; its agents are turtles."""

    declares = Capabilities(hold=False, commands=False)
    inapplicable: Mapping[str, str] = {
        "test_the_client_gets_the_engines_spec_unchanged": _OWN_SPEC,
        "test_a_frames_arrays_have_the_promised_dtypes_and_shapes": _OWN_SPEC,
        "test_the_total_reward_is_the_sum_of_its_terms": _OWN_SPEC,
        "test_values_out_of_bounds_are_passed_on_and_counted": _OWN_SPEC,
        "test_a_reset_env_has_no_outcome": _ONE_WORLD,
        "test_any_sequence_of_moves_gives_the_references_frames": _ONE_WORLD,
        "test_the_next_driver_finds_the_engine_where_the_last_one_left_it": _ONE_WORLD,
        "test_a_failing_engine_raises_what_the_reference_raises_and_can_be_stepped_again": _NO_ERRORS,
        "test_a_failing_engine_names_its_error": _NO_ERRORS,
        "test_a_vector_env_gives_the_references_trajectory": _NO_SEEDS,
        "test_a_second_driver_is_refused_until_the_first_closes": _NO_GOODBYE,
        "test_an_engine_that_has_stopped_is_stepped_no_more": _NO_END,
    }

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        if isinstance(engine, str):
            engine = api.make_engine(engine, num_envs, **(_LASTING | options))
        spec, uuid = engine.spec, unique_name()
        if spec.observation.dtype != "float32" or spec.action.dtype != "float32" or spec.action.size != 2:
            pytest.skip("a range finder shows float32, and a turtle takes 2 of them")
        lasers = {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": spec.observation.size}}
        agent = {"agent_type": "TurtleAgent", "sensors": [lasers, {"sensor_type": "DistanceTask"}]}
        scenario = {"world": "toy", "agents": [{"agent_name": f"{env}", **agent} for env in range(spec.num_envs)]}
        with tempfile.TemporaryDirectory() as folder, api.serve(engine, f"holodeck://{uuid}?for=client"):
            path = Path(folder) / "scenario.json"
            path.write_text(json.dumps(scenario))
            yield Endpoint.parse(f"holodeck://{uuid}?scenario={path}&pre_start_steps=0")

    def connect(self, endpoint: Endpoint) -> Transport:
        """Return a client after its first reset: before that there are no agents."""
        client = super().connect(endpoint)
        client.step(zeros(client), every(client, RESET))
        return client

    @contextmanager
    def open_reference(self, engine: str | Engine, num_envs: int = 4, **options: Any) -> Generator[Transport]:
        with open_reference(engine, num_envs, **(_LASTING | options)) as reference:
            reference.step(zeros(reference), every(reference, RESET))
            yield reference

    def check_refused(
        self, client: Transport, reference: Transport, call: Callable[[Transport], object], name: str = ""
    ) -> None:
        expected = outcome(reference, call)
        assert expected != "no error", name
        assert outcome(client, call).replace("holodeck:toy", "toy") == expected, name

    def check_same_step(self, client: Transport, reference: Transport, code: int = 0, name: str = "") -> None:
        found, expected = (_shown(each.step(zeros(each), every(each, code))) for each in (client, reference))
        assert found == expected, name


def _shown(frame: Frame) -> list[bytes]:
    """Return what both ends have of a frame: its terms are each end's own."""
    return [array.tobytes() for array in (frame.observations, frame.rewards, frame.terminated, frame.truncated)]
