"""The engines of the core keep the contract, which names each broken rule; malformed options are refused."""

import os
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.api import make_engine
from lucky_transport.call import Call
from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.engines import pendulum
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorld
from lucky_transport.engines.pendulum import PendulumEngine, sine
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import ConfigError, SpecError, UnknownName
from lucky_transport.host.host import Host
from lucky_transport.messages import (
    GetJointStateRequest,
    GetSceneInfoRequest,
    ListEntitiesRequest,
    SetResetOptionsRequest,
    SetSeedsRequest,
    SimulationContract,
    StreamTelemetryRequest,
)
from lucky_transport.messages.methods import BY_NAME, method
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport.testing.contract import EngineContract
from lucky_transport.testing.stepping_contract import DialEngine

_PREFIX = "/lucky_transport.v1.BatchService/"


class TestToy(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, parallel_envs=2)


class TestToyWithResetTicks(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, parallel_envs=2, reset_ticks=1)


class TestToyWithoutHold(EngineContract):
    hold = False

    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, hold=False)


class TestCompositeToy(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("toy:composite", num_envs, episode_steps=25)


class TestDial(EngineContract):
    random_start = False
    seeds = False

    def make_engine(self, num_envs: int) -> Engine:
        return DialEngine(num_envs)


def _bound(engine: Engine) -> Buffers:
    buffers = Buffers.allocate(engine.spec)
    engine.bind(buffers)
    return buffers


def _reset(engine: Engine) -> None:
    engine.step(np.full(engine.spec.num_envs, RESET, np.uint8))


def test_an_episode_terminates_when_it_leaves_the_middle() -> None:
    engine = ToyEngine(2)
    buffers = _bound(engine)
    _reset(engine)
    buffers.actions[0] = 1.0
    steps = 0
    while not buffers.terminated.any():
        engine.step(None)
        steps += 1
    assert buffers.terminated.tolist() == [1, 0]
    assert abs(buffers.observations[0, 0]) > 0.5
    assert 1 < steps < 100


def test_seeds_of_another_number_are_refused() -> None:
    answer = ToyEngine(3).services[_PREFIX + "SetSeeds"](SetSeedsRequest([1, 2]))
    assert (answer.success, answer.message) == (False, "2 seeds for 3 envs: expected one per env")


@pytest.mark.parametrize(("steps", "status"), [(1, 9), (2, 3)])
def test_it_leaves_its_process_at_the_step_it_was_told_to(steps: int, status: int) -> None:
    if not (pid := os.fork()):
        try:
            engine = ToyEngine(1, exit_at=2)
            _bound(engine)
            for _ in range(steps):
                engine.step(None)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status


@pytest.mark.parametrize("options", [{"obs_size": 0}, {"act_size": 0}, {"num_envs": 0}])
def test_empty_sizes_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(SpecError, match="at least 1"):
        ToyEngine(**options)  # pyright: ignore[reportArgumentType]


def test_unknown_options_and_variants_are_refused_by_name() -> None:
    for variant in ("toy", "toy:idle", "toy:composite"):
        with pytest.raises(ConfigError, match=r"no option 'obs_szie'; did you mean 'obs_size'\? options: .*act_size, "):
            make_engine(variant, obs_szie=3)
    with pytest.raises(UnknownName, match=r"no variant 'idel'; did you mean 'toy:idle'\? use toy or toy:idle or "):
        make_engine("toy:idel")


def test_answers_show_where_the_points_are() -> None:
    engine = ToyEngine(3)
    host = Host(engine)
    buffers = Buffers.allocate(host.spec)
    buffers.actions[:] = 0.5
    host.drive("me", buffers).step(np.full(3, RESET, np.uint8))
    state = host.call(method("MujocoService/GetJointState"), GetJointStateRequest("agent_2")).state
    assert np.array_equal(np.float32(state.positions), buffers.observations[2])
    entities = host.call(method("SceneService/ListEntities"), ListEntitiesRequest(True, True)).entities
    assert [entity.name for entity in entities] == ["agent_0", "agent_1", "agent_2"]
    assert entities[1].transform.position.x == buffers.observations[1, 0]
    frame = next(host.stream(method("TelemetryService/StreamTelemetry"), StreamTelemetryRequest(), Call("me")))
    assert np.array_equal(np.float32(frame.observation_qpos), buffers.observations[0])
    assert frame.action_ctrl == [0.5, 0.5]
    info = host.call(method("SceneService/GetSceneInfo"), GetSceneInfoRequest())
    assert info.entity_count == len(entities)


def test_what_was_not_asked_for_is_not_served() -> None:
    awkward = {"GetLidarBeamAngles", "GetLidarBeamCount", "StreamViewport", "StreamPolicySlotState"}
    plain, asked = ToyEngine(), ToyEngine(answer_delay_s=0.01, faulty=True, slots=2)
    offered = {name.rpartition("/")[2] for name in (*plain.services, *plain.streams)}
    assert not offered & awkward
    assert {name.rpartition("/")[2] for name in (*asked.services, *asked.streams)} - offered == awkward
    assert set(asked.services) | set(asked.streams) <= set(BY_NAME)


def test_noise_comes_from_options_and_randomization_and_returns_where_they_say_nothing() -> None:
    def spread(*requests: SetResetOptionsRequest) -> float:
        host = Host(ToyEngine(64, obs_size=1))
        buffers = Buffers.allocate(host.spec)
        for request in requests:
            assert host.call(method("/lucky_transport.v1.BatchService/SetResetOptions"), request).success
        lease = host.drive("me", buffers)
        lease.step(np.full(64, RESET, np.uint8))
        start = buffers.observations.copy()
        lease.step()
        return float(np.abs(buffers.observations - start * np.float32(0.9)).max())

    quiet = SetResetOptionsRequest(None, '{"noise": 0}')
    loud = SetResetOptionsRequest(SimulationContract(joint_position_noise=0.5))
    assert spread(quiet, SetResetOptionsRequest()) == spread()
    assert spread(quiet) < 1e-6 < spread(loud) != spread()


def test_an_idle_engine_touches_nothing() -> None:
    engine = make_engine("toy:idle", 2)
    buffers = _bound(engine)
    engine.step(None)
    _reset(engine)
    assert not buffers.observations.any()
    assert not buffers.signals.any()


def test_a_copying_engine_copies_its_frame_with_the_number_of_the_step_at_both_ends() -> None:
    engine = make_engine("toy:copy", 2)
    buffers = _bound(engine)
    for number in (1, 2, 3):
        engine.step(None)
        values = buffers.observations.reshape(-1)
        assert values[0] == values[-1] == number
        assert (values[1:-1] == 0.5).all()


def state_of(world: CartPoleWorld) -> list[float]:
    """Return position, velocity, angle and angular velocity."""
    seen = world.observe()
    return [seen.cart_position, seen.cart_velocity, seen.pole_angle, seen.pole_angular_velocity]


@pytest.mark.parametrize("seed", range(5))
def test_it_moves_as_gymnasiums_cart(seed: int) -> None:
    world = CartPoleWorld(seed)
    reference: Any = gymnasium.make("CartPole-v1").unwrapped
    reference.reset()
    reference.state = tuple(state_of(world))
    for push in np.random.default_rng(seed).integers(0, 2, 200):
        world.act([CartPoleCommand(bool(push))])
        world.tick()
        _, _, terminated, _, _ = reference.step(int(push))
        np.testing.assert_allclose(state_of(world), [float(value) for value in reference.state], rtol=1e-12)
        assert world.is_over is terminated
        if terminated:
            break
    assert world.is_over


def test_the_same_wind_blows_whatever_is_commanded() -> None:
    """A gust and a push add up: the first tick's speeds of a pushed and an idle cart differ by the push alone."""

    def speed_gained(wind: float, *commands: CartPoleCommand) -> float:
        world = CartPoleWorld(1, initial_angle=0.0, wind=wind)
        world.act(commands)
        world.tick()
        return world.observe().cart_velocity

    push = CartPoleCommand(True)
    assert speed_gained(5.0) != 0
    assert speed_gained(5.0, push) - speed_gained(5.0) == pytest.approx(speed_gained(0.0, push))


def test_the_score_counts_the_ticks_that_the_pole_was_up() -> None:
    world = CartPoleWorld(0, initial_angle=0.2)
    events: list[str] = []
    while not world.is_over:
        events += world.tick()
    assert events == ["fell", "game_over"]
    assert world.score == world.ticks - 1 > 0


class TestPendulumEngine(EngineContract):
    def make_engine(self, num_envs: int) -> PendulumEngine:
        return PendulumEngine(num_envs, max_ticks=10)


def bound(num_envs: int, **options: Any) -> tuple[PendulumEngine, Buffers]:
    engine = PendulumEngine(num_envs, **options)
    buffers = _bound(engine)
    _reset(engine)
    return engine, buffers


def joint_state(engine: PendulumEngine, name: str = "") -> Any:
    return engine.services["/hazel.rpc.MujocoService/GetJointState"](GetJointStateRequest(name))


@pytest.mark.parametrize("seed", range(3))
def test_one_tick_moves_as_gymnasiums_pendulum_does(seed: int) -> None:
    engine, buffers = bound(1, seed=seed)
    reference: Any = gymnasium.make("Pendulum-v1").unwrapped
    reference.reset()
    for torque in np.random.default_rng(seed).uniform(-3, 3, 300).astype(np.float32):
        state = joint_state(engine).state
        reference.state = np.array([state.positions[0], state.velocities[0]])
        buffers.actions[:] = torque
        engine.step(None)
        observation, reward, _, _, _ = reference.step(np.array([torque]))
        np.testing.assert_allclose(buffers.observations[0], observation, atol=2e-6)
        np.testing.assert_allclose(buffers.rewards[0], reward, rtol=1e-6, atol=1e-6)


def test_the_sine_is_off_by_at_most_a_millionth() -> None:
    angles = np.linspace(-np.float32(3.1415927), np.float32(3.1415927), 10_001, dtype=np.float32)
    assert sine(angles).dtype == np.float32
    np.testing.assert_allclose(sine(angles), np.sin(angles.astype(np.float64)), atol=1e-6)


def test_equal_seeds_start_equal_episodes_whatever_the_other_envs_do() -> None:
    engine, buffers = bound(3)
    engine.services["/lucky_transport.v1.BatchService/SetSeeds"](SetSeedsRequest([7, 7, 8]))
    engine.step(np.array([RESET, HOLD, RESET], np.uint8))
    engine.step(np.array([0, RESET, RESET], np.uint8))
    first = buffers.observations[1].copy()
    engine.services["/lucky_transport.v1.BatchService/SetSeeds"](SetSeedsRequest([7, 0, 0], b"\1\0\0"))
    engine.step(np.array([RESET, HOLD, HOLD], np.uint8))
    np.testing.assert_array_equal(buffers.observations[0], first)
    assert not (buffers.observations[2] == first).all()


def test_an_episode_is_truncated_after_its_ticks() -> None:
    engine, buffers = bound(2, max_ticks=2)
    engine.step(None)
    assert buffers.truncated.tolist() == [0, 0]
    engine.step(np.array([0, HOLD], np.uint8))
    assert (buffers.truncated.tolist(), buffers.signals[3].tolist()) == ([1, 0], [1.0, 0.0])


def test_wrong_arguments_are_refused() -> None:
    engine, _ = bound(2)
    assert not engine.services["/lucky_transport.v1.BatchService/SetSeeds"](SetSeedsRequest([1])).success
    assert not joint_state(engine, "agent_2").success
    with pytest.raises(SpecError, match="max_ticks 0"):
        PendulumEngine(max_ticks=0)
    with pytest.raises(ConfigError, match="gravity"):
        pendulum.make_engine(gravity=9.81)
    with pytest.raises(UnknownName):
        pendulum.make_engine("double")


# --- the contract ---


GUIDE = (Path(__file__).parents[3] / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^#### (.*)$", GUIDE, re.MULTILINE)
(SOURCE,) = re.findall(
    r'^```python title="lucky_transport_loft/engine.py"\n(.*?)^```$', GUIDE, re.MULTILINE | re.DOTALL
)

START = "self._generators[env].uniform(0, 5)"
LIMIT = "self._height[touched] > 10"

#: The line's old and new text, the test, what its failure says.
CASES: list[tuple[str, str, str, str]] = [
    ("num_envs=num_envs,", "num_envs=num_envs + 1,", "the_spec_offers_the_number_of_envs_asked_for",
     r"make_engine\(4\) makes an engine of 4 envs; found: spec.num_envs = 5; .* section 'The factory'"),
    ("default_rng(seed + env)", "default_rng()", "equal_engines_give_equal_frames",
     r"two engines made alike give the same frames; found: observations of env \d.* section 'The factory'"),
    (LIMIT, "self._height[touched] > 1e9", "episodes_end_within_this_suite",
     r"episodes end within this suite.*found: no end in 120 steps of 4 envs; .* section 'Time limits'"),
    ("+= out.actions[steps, 0]", "+= out.actions[:, 0].mean()", "neighbours_have_no_influence",
     r"env 0 does the same whatever its neighbours do; found: .* of env 0 .* section 'Independent envs'"),
    ("(control & (RESET | HOLD)) == 0", "(control & RESET) == 0",
     "holding_an_env_does_not_change_what_it_does_later",
     r"HOLD leaves an env and its rows exactly as they are.*; found: observations .* section 'Resets'"),
    ("total_reward(out.signals, 2)[touched]", "out.signals[0, touched]", "the_rewards_are_the_sum_of_their_terms",
     r"rewards are the float32 sum of height, effort, bit for bit; found: rewards \[.* section 'Rewards'"),
    (LIMIT, "self._height[touched] * 0.5", "the_termination_terms_explain_the_flags",
     r"a termination term is 0 or 1; found: \[.* section 'Time limits'"),
    ("= out.signals[3, touched]", "= 0", "the_termination_terms_explain_the_flags",
     r"truncated is set exactly where one of \['time_out'\] is set; found: truncated False with \{'time_out': 1.0\}, "
     r"env \d in step \d+; .* section 'Time limits'"),
    (START, f"{START} + out.actions[env, 0]", "the_action_of_a_reset_env_is_ignored",
     r"the action of an env that is reset has no effect; found: observations .* section 'Resets'"),
    ('observation=ArraySpec("float32", (1,))', 'observation=ArraySpec("float32", (1,), 0.0, 1.0)',
     "observations_lie_in_their_space", r"observations lies in its space, Box.*; found: \[.* section 'Spaces'"),
    ("out.truncated[touched] =", "out.actions[:] = 0; out.truncated[touched] =",
     "another_driver_finds_the_envs_as_they_are",
     r"an engine only reads actions; found: \[.* section 'Independent envs'"),
    ("self._buffers = buffers", "self._buffers = buffers; self._height += 1",
     "another_driver_finds_the_envs_as_they_are",
     r"binding to other buffers between two steps changes nothing; found: observations .* section 'Independent envs'"),
    (START, "1.0", "envs_and_episodes_start_differently",
     r"two episodes of 4 envs have 8 different starts; found: 1: \[.* section 'Different starts'"),
    ("np.random.default_rng(seed)\n", "self._generators[env]\n",
     "the_same_seeds_give_the_same_episodes_and_others_do_not",
     r"the same seed gives the same start, whatever came before; found: \[.* section 'Seeds'"),
    ("np.random.default_rng(seed)\n", "np.random.default_rng(1)\n",
     "the_same_seeds_give_the_same_episodes_and_others_do_not",
     r"another seed gives another start; found: envs \[0, 1, 2, 3\] start alike; .* section 'Seeds'"),
    ("return SetSeedsResponse(True)", "return SetSeedsResponse(False, 'no')",
     "the_same_seeds_give_the_same_episodes_and_others_do_not",
     r"SetSeeds takes a seed per env; found: no; .* section 'Seeds'"),
]  # fmt: skip


def _contract(source: str) -> EngineContract:
    namespace: dict[str, Any] = {}
    exec(source, namespace)

    class Contract(EngineContract):
        def make_engine(self, num_envs: int) -> Engine:
            return namespace["make_engine"](num_envs=num_envs, episode_steps=1000 if "1e9" in source else 20)

    return Contract()


@pytest.mark.parametrize(("old", "new", "test", "text"), CASES, ids=[f"{case[2]}-{case[1]}" for case in CASES])
def test_a_broken_rule_is_named_with_the_value_and_the_section(old: str, new: str, test: str, text: str) -> None:
    assert SOURCE.count(old) == 1, old
    contract = _contract(SOURCE.replace(old, new))
    spec = contract.make_engine(contract.num_envs).spec
    with pytest.raises(pytest.fail.Exception) as failed:
        getattr(contract, f"test_{test}")(spec)
    said = str(failed.value)
    assert re.search(text, said, re.DOTALL), said
    (section,) = re.findall(r"see 'Write an engine or a transport' in the documentation, section '(.*)'$", said)
    assert section in HEADINGS


def test_every_section_that_the_contract_names_is_in_the_guide() -> None:
    contract = Path(__file__).parents[3] / "lucky_transport" / "testing" / "engine_contract.py"
    named = re.findall(r'"([A-Z][a-z]+(?: [a-z]+){0,2})"\)$', contract.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) > 15
    assert set(named) <= set(HEADINGS)


SET_RESET_OPTIONS = method("BatchService/SetResetOptions")
ENGINES = ["toy", "toy:composite", "cartpole", "mujoco:quadruped", "gymnasium:CartPole-v1"]
MALFORMED = {
    "half": "{",
    "list": "[1]",
    "number": "7",
    "null": "null",
    "NaN": '{"noise": NaN}',
    "infinity": '{"noise": -Infinity}',
    "too large": '{"noise": 1e999}',
    "deep": '{"noise": ' + "[" * 100 + "]" * 100 + "}",
    "deeper": "[" * 100_000,
    "words": "noise",
}


@pytest.fixture(params=["inproc", "shm", "grpc"])
def endpoint(request: pytest.FixtureRequest) -> str:
    """An endpoint to serve at."""
    pytest.importorskip(f"lucky_transport_{request.param}.server") if request.param != "inproc" else None
    return f"{request.param}://{'127.0.0.1:0' if request.param == 'grpc' else unique_name()}"


@pytest.mark.parametrize("engine", ENGINES)
def test_malformed_reset_options_are_refused_with_field_and_remedy(engine: str, endpoint: str) -> None:
    if engine.partition(":")[0] not in registry().engines:
        pytest.skip(f"no engine {engine}")
    with api.serve(engine, endpoint) as serving, api.open_transport(serving.endpoints[0]) as client:
        for name, text in MALFORMED.items():
            with pytest.raises(SpecError) as refused:
                client.call(SET_RESET_OPTIONS, SetResetOptionsRequest(None, text))
            said = str(refused.value)
            assert said.startswith(f"options_json {text[:20]!r}"[:20]), name
            assert said.endswith('; send an object such as {"name": 1}, or nothing'), name
            assert len(said) < 1000
        assert client.call(SET_RESET_OPTIONS, SetResetOptionsRequest(None, "{}")).success
        assert client.call(SET_RESET_OPTIONS, SetResetOptionsRequest()).success


@pytest.mark.parametrize("engine", ["toy", "toy:composite", "cartpole"])
@pytest.mark.parametrize("value", ['"loud"', "true", "null", "[1]", "{}", "1" + "0" * 400])
def test_an_option_that_is_no_number_is_refused_by_name_before_a_reset(engine: str, value: str, endpoint: str) -> None:
    name = "wind" if engine == "cartpole" else "noise"
    with api.serve(engine, endpoint) as serving, api.open_transport(serving.endpoints[0]) as client:
        with pytest.raises(SpecError, match=rf"option {name}=.*; .*expected numbers for .*{name}"):
            client.call(SET_RESET_OPTIONS, SetResetOptionsRequest(None, f'{{"{name}": {value}}}'))
        of_a_framework = SetResetOptionsRequest(None, f'{{"{name}": 0.5, "new_rollout": {value}}}')
        assert client.call(SET_RESET_OPTIONS, of_a_framework).success
        assert client.step(client.actions).seq == 1
