"""Suites to inherit, trajectories to compare, and a checker of vector envs that finds each planted defect."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.testing import VectorEnvFaults, check_vector_env
from lucky_transport.testing.trajectories import (
    TrajectoryDifference,
    first_difference,
    random_moves,
    record_env,
    record_frames,
)

pytest_plugins = ["pytester"]

# pytester forgets modules that a run inside it imports first.
for _name in ("contract", "needs"):
    importlib.import_module(f"lucky_transport.testing.{_name}")

SUITE = """
from lucky_transport.testing.engine_contract import EngineContract
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Capabilities

INPROC = dict(zero_copy=True, streams=True, sessions=True, async_envs=True)

@needs("streams")
class Contract(TransportSuite):
    endpoint = "inproc://{name}"

    def test_streams(self):
        with self.open_client() as client:
            assert client.capabilities.streams

    @needs("images", "streams")
    def test_images(self):
        with self.open_client():
            raise AssertionError("it goes on where there are no images")

    @needs("has_deadlines")
    def test_deadlines(self):
        assert self.has_deadlines

    @needs()
    def test_any(self):
        pass
"""
LACKING = "class TestIt(Contract):\n  has_deadlines = False\n  declares = Capabilities(**INPROC)"
PLUGIN = ("-p", "lucky_transport.testing.needs")
NAMES = "names_itself_and_has_the_capabilities_that_its_suite_declares"


def run(pytester: pytest.Pytester, suite: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(SUITE + suite)
    # pytest's plugin for crashes would show those of the outer run to nobody from then on
    return pytester.runpytest_inprocess("-v", "-rs", "-p", "no:cacheprovider", "-p", "no:faulthandler", *arguments)


def test_what_a_class_declares_not_to_have_is_deselected(pytester: pytest.Pytester) -> None:
    done = run(pytester, LACKING, *PLUGIN)
    done.assert_outcomes(passed=3, deselected=2)
    assert "test_images" not in done.stdout.str()
    assert "test_deadlines" not in done.stdout.str()


def test_without_the_plugin_it_skips_and_names_the_class_and_the_need(pytester: pytest.Pytester) -> None:
    done = run(pytester, LACKING)
    done.assert_outcomes(passed=3, skipped=2)
    done.stdout.fnmatch_lines(["*: TestIt declares images=False", "*: TestIt declares has_deadlines=False"])


def test_a_class_that_declares_nothing_skips_once_it_connects_to_less(pytester: pytest.Pytester) -> None:
    done = run(pytester, "class TestIt(Contract):\n  pass", *PLUGIN)
    done.assert_outcomes(passed=4, skipped=1)
    done.stdout.fnmatch_lines(["*: transport 'inproc' declares no images"])


@pytest.mark.parametrize("wrong", [{"streams": False}, {"images": True}])
def test_a_declaration_that_is_not_the_transports_fails(pytester: pytest.Pytester, wrong: dict[str, bool]) -> None:
    suite = f"class TestIt(Contract):\n  declares = Capabilities(**INPROC | {wrong})"
    run(pytester, suite, "-k", NAMES, *PLUGIN).assert_outcomes(failed=1, deselected=4)


def test_a_test_that_is_inapplicable_is_deselected(pytester: pytest.Pytester) -> None:
    suite = "class TestIt(Contract):\n  inapplicable = {'test_images': 'it shows none'}"
    run(pytester, suite, *PLUGIN).assert_outcomes(passed=4, deselected=1)
    done = run(pytester, suite)
    done.assert_outcomes(passed=4, skipped=1)
    done.stdout.fnmatch_lines(["*: it shows none"])


def test_a_name_of_no_test_is_a_wrong_declaration(pytester: pytest.Pytester) -> None:
    done = run(pytester, "class TestIt(Contract):\n  inapplicable = {'test_image': 'a slip'}", *PLUGIN)
    done.assert_outcomes(errors=5)


@pytest.mark.parametrize(("declared", "outcome"), [("seeds = False", "passed"), ("hold = False", "failed")])
def test_an_engines_class_that_declares_it_wrong_fails(pytester: pytest.Pytester, declared: str, outcome: str) -> None:
    suite = (
        "from lucky_transport.testing.stepping_contract import DialEngine\n"
        f"class TestIt(EngineContract):\n  {declared}\n"
        "  def make_engine(self, num_envs):\n    return DialEngine(num_envs)"
    )
    done = run(pytester, suite, "-k", "test_the_suite_declares or test_the_same_seeds or test_holding", *PLUGIN)
    assert done.parseoutcomes()[outcome] == 1 + (outcome == "passed")


def test_tests_of_no_suite_are_left_alone(pytester: pytest.Pytester) -> None:
    run(pytester, "class TestIt:\n  def test(self):\n    pass\ndef test():\n  pass", *PLUGIN).assert_outcomes(passed=2)


def _client(num_envs: int = 3) -> InprocTransport:
    return InprocTransport(Host(ToyEngine(num_envs, episode_steps=7)))


FRAMES = record_frames(_client(), random_moves(_client().spec, 50, seed=1))


@given(
    step=st.integers(0, 49),
    env=st.integers(0, 2),
    field=st.sampled_from(["observations", "rewards", "terminated", "signals"]),
    later=st.integers(0, 49),
)
def test_the_first_difference_is_found_by_step_env_and_field(step: int, env: int, field: str, later: int) -> None:
    left, right = dict(FRAMES), {name: array.copy() for name, array in FRAMES.items()}
    for at in (step, max(step, later)):
        row = right[field][at, env : env + 1]
        row[...] = ~row if row.dtype == np.bool_ else row + 1
    found = first_difference(left, right)
    if step == max(step, later) and field == "terminated":
        assert found is None  # flipped twice
        return
    assert found is not None
    assert (found.step, found.env, found.field) == (step, env, field)
    assert found.left != found.right


def test_bits_are_compared_and_not_numbers() -> None:
    zero, minus = ({"x": np.array([[value]], np.float32)} for value in (0.0, -0.0))
    found = first_difference(zero, minus)
    assert found == TrajectoryDifference(0, 0, "x", (), 0.0, -0.0)
    nan = {"x": np.array([[np.nan]], np.float32)}
    assert first_difference(nan, {"x": nan["x"].copy()}) is None


def test_a_difference_reads_as_a_sentence() -> None:
    found = TrajectoryDifference(4, 1, "observations", (2,), 0.5, 0.25)
    assert str(found) == "observations of env 1 at [2] in step 4: 0.5 against 0.25"


def test_parts_are_fields_of_their_own_and_a_difference_names_part_and_element() -> None:
    clients = [InprocTransport(Host(api.make_engine("toy:composite", 3, episode_steps=7))) for _ in range(2)]
    moves = random_moves(clients[0].spec, 20, seed=1)
    left, right = (record_frames(client, moves) for client in clients)
    assert "observations" not in left
    assert left['observation["camera"]["left"]'].shape == (20, 3, 4, 6, 3)
    assert left['info["clock"]["ticks"]'].dtype == np.int64
    assert first_difference(left, right) is None
    right['observation["arms"][0]'][4, 1, 1] = 0.25
    before = left['observation["arms"][0]'][4, 1, 1].item()
    found = str(first_difference(left, right))
    assert found == f'observation["arms"][0][1] of env 1 in step 4: {before} against 0.25'


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x is float32 \(1, 2\) here and float64 \(1, 2\) there"):
        first_difference({"x": np.zeros((1, 2), np.float32)}, {"x": np.zeros((1, 2))})
    with pytest.raises(ValueError, match=r"the fields \['x'\] and \['y'\]"):
        first_difference({"x": np.zeros((1, 1))}, {"y": np.zeros((1, 1))})


def test_ended_envs_can_be_reset_by_the_move_that_would_step_them() -> None:
    spec = _client().spec
    reset, held = (np.full(3, code, np.uint8) for code in (RESET, HOLD))
    moves = [(np.zeros(spec.action_shape), control) for control in (reset, *[None] * 7, held, None, None)]
    frames = record_frames(_client(), moves, reset_ended=True)
    assert np.flatnonzero(frames["truncated"].all(axis=1)).tolist() == [7, 8]
    assert frames["rewards"].all(axis=1).tolist() == [False, *[True] * 8, False, True]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_an_envs_trajectory_has_its_reset_in_row_zero_and_its_terms_in_columns(mode: str) -> None:
    with api.make("toy", 2, transport="inproc", autoreset_mode=mode, options={"episode_steps": 3}) as env:
        found = record_env(env, 10, seed=1)
        start = env.reset(seed=1)[0]
    assert found["observations"].shape == (11, 2, 8)
    assert found["observations"][0].tobytes() == start.tobytes()
    assert found["truncated"].any()
    assert found["reward_terms.alive"][1:3].all()
    assert found["final_obs"].any() == (mode == "SameStep")
    assert ("after_reset" in found) == (mode == "Disabled")


# --- the checker of vector envs ---


NEXT, SAME, OFF = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MODES = [NEXT, SAME, OFF]


def gymnasiums_own(mode: AutoresetMode = NEXT, env_id: str = "CartPole-v1", **options: Any) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: gymnasium.make(env_id, **options)] * 3, autoreset_mode=mode)


def ours(mode: AutoresetMode, engine: str = "toy", **settings: Any) -> Any:
    return api.make(engine, 3, transport="inproc", autoreset_mode=mode, **settings)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_gymnasiums_own_envs_pass(mode: AutoresetMode, env_id: str) -> None:
    env = gymnasiums_own(mode, env_id, max_episode_steps=20)
    notes = check_vector_env(env, steps=45)
    # Gymnasium pops the mask out of the options
    assert len(notes) == (mode is OFF)
    assert all("reset_mask" in note for note in notes)
    env.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("engine", ["toy", "toy:composite", "cartpole", "gymnasium:CartPole-v1"])
def test_our_envs_pass(mode: AutoresetMode, engine: str) -> None:
    options = {"episode_steps": 9} if engine.startswith("toy") else {}
    with ours(mode, engine, options=options) as env:
        assert check_vector_env(env, steps=60) == []


def test_a_wrapped_env_passes() -> None:
    with ours(NEXT, options={"episode_steps": 9}) as env:
        assert check_vector_env(gymnasium.wrappers.vector.RecordEpisodeStatistics(env), steps=30) == []


def test_views_pass_where_they_are_announced() -> None:
    with ours(NEXT, options={"episode_steps": 9}, copy=False) as env:
        assert check_vector_env(env, steps=30, copy=False) == []
        with pytest.raises(VectorEnvFaults) as caught:
            check_vector_env(env, steps=30)
    assert list(caught.value.faults) == ["overwritten"]


def test_episodes_that_do_not_end_are_told_of() -> None:
    env = gymnasiums_own(env_id="Pendulum-v1")
    (note,) = check_vector_env(env, steps=5)
    assert note == "no episode ended within 5 steps: nothing of autoreset was checked"
    env.close()


class Planted(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """An env with a defect: `change` gets the result of each step, and what it returns is returned; `reset` resets."""

    def __init__(
        self,
        mode: AutoresetMode = NEXT,
        change: Callable[..., Any] = lambda result: result,
        reset: Callable[..., Any] = lambda plain, seed, options: plain.reset(
            seed=seed, options=options and {**options}
        ),
    ) -> None:
        self.plain, self.change, self.reset_by = gymnasiums_own(mode, max_episode_steps=15), change, reset
        self.num_envs = 3
        self.metadata = dict(self.plain.metadata)
        for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
            setattr(self, name, getattr(self.plain, name))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.reset_by(self.plain, seed, options)

    def step(self, actions: Any) -> Any:
        return self.change(self.plain.step(actions))

    def close_extras(self, **kwargs: Any) -> None:
        self.plain.close()


@pytest.fixture
def plant() -> Iterator[Callable[..., Planted]]:
    """Makes planted envs, and closes them."""
    with ExitStack() as made:
        yield lambda *args, **kwargs: made.enter_context(closing(Planted(*args, **kwargs)))


def faults_of(env: Any) -> dict[str, str]:
    with pytest.raises(VectorEnvFaults) as caught:
        check_vector_env(env, steps=60)
    assert all(f"{rule}: {text}" in str(caught.value) for rule, text in caught.value.faults.items())
    return caught.value.faults


def test_the_env_that_defects_are_planted_in_passes_without(plant: Callable[..., Planted]) -> None:
    for mode in MODES:
        assert check_vector_env(plant(mode), steps=60) == []


def _with_info(result: Any, **more: Any) -> Any:
    return (*result[:4], result[4] | more)


EVERY = np.ones(3, np.bool_)


def _at_ends(**more: Any) -> Callable[[Any], Any]:
    return lambda result: _with_info(result, **more) if "final_obs" in result[4] else result


@pytest.mark.parametrize(
    ("rule", "mode", "change"),
    [
        ("step", NEXT, lambda r: (*r[:2], r[2] | r[3], r[4])),
        ("rewards", NEXT, lambda r: (r[0], r[1].tolist(), *r[2:])),
        ("rewards", NEXT, lambda r: (r[0], r[1][:, None], *r[2:])),
        ("rewards", NEXT, lambda r: (r[0], r[1].astype(np.int64), *r[2:])),
        ("rewards", NEXT, lambda r: (r[0], r[1] * np.nan, *r[2:])),
        ("terminated", NEXT, lambda r: (*r[:2], r[2].view(np.uint8), *r[3:])),
        ("truncated", NEXT, lambda r: (*r[:3], r[3].tolist(), r[4])),
        ("truncated", NEXT, lambda r: (*r[:2], r[2], r[2], r[4])),
        ("observation", NEXT, lambda r: (r[0].astype(np.float64), *r[1:])),
        ("observation", NEXT, lambda r: (r[0][:2], *r[1:])),
        ("observation", NEXT, lambda r: (r[0] * np.nan, *r[1:])),
        ("info", NEXT, lambda r: (*r[:4], [{}, {}, {}])),
        ("info", NEXT, lambda r: _with_info(r, height=[1, 2, 3], _height=EVERY)),
        ("info", NEXT, lambda r: _with_info(r, height=1.5, _height=EVERY)),
        ("info", NEXT, lambda r: _with_info(r, height=np.zeros(2), _height=EVERY)),
        ("info", NEXT, lambda r: _with_info(r, episode={"r": np.zeros(3), "_r": EVERY}, _episode=EVERY)),
        ("info mask", NEXT, lambda r: _with_info(r, height=np.zeros(3), _height=EVERY.view(np.uint8))),
        (
            "info mask",
            NEXT,
            lambda r: _with_info(r, group={"height": np.zeros(3), "_height": [True] * 3}, _group=EVERY),
        ),
        ("final_obs", NEXT, lambda r: _with_info(r, final_obs=r[0], _final_obs=EVERY)),
        ("final_obs", SAME, lambda r: (*r[:4], {name: value for name, value in r[4].items() if "final" not in name})),
        ("final_obs", SAME, _at_ends(_final_obs=~EVERY)),
        ("final_obs", SAME, _at_ends(final_obs=np.full((3, 4), 1e9, np.float32))),
    ],
)
def test_a_defect_of_a_step_is_found(
    plant: Callable[..., Planted], rule: str, mode: AutoresetMode, change: Callable[..., Any]
) -> None:
    assert list(faults_of(plant(mode, change))) == [rule]


def test_a_reward_for_the_step_that_resets_is_found(plant: Callable[..., Planted]) -> None:
    faults = faults_of(plant(change=lambda r: (r[0], r[1] + 1, *r[2:])))
    assert "in NEXT_STEP that step resets" in faults["next_step"]


@pytest.mark.parametrize(
    ("mode", "rule"), [(SAME, "final_obs"), ("NextStep", "autoreset_mode"), (None, "autoreset_mode")]
)
def test_a_mode_that_is_not_the_envs_or_none_is_found(plant: Callable[..., Planted], mode: Any, rule: str) -> None:
    env = plant(NEXT)
    env.metadata["autoreset_mode"] = mode
    assert list(faults_of(env)) == [rule]


def test_observations_that_the_next_step_overwrites_are_found(plant: Callable[..., Planted]) -> None:
    buffer = np.zeros((3, 4), np.float32)

    def into_buffer(result: Any) -> Any:
        buffer[:] = result[0]
        return (buffer, *result[1:])

    assert list(faults_of(plant(change=into_buffer))) == ["overwritten"]


def pops_all(plain: SyncVectorEnv, seed: Any, options: Any) -> Any:
    (options or {}).clear()
    return plain.reset(seed=seed)


def refuses_options(plain: SyncVectorEnv, seed: Any, options: Any) -> Any:
    if options:
        raise ValueError(f"unknown options {options}")
    return plain.reset(seed=seed)


@pytest.mark.parametrize(
    ("rule", "mode", "reset"),
    [
        ("options", OFF, lambda plain, seed, options: plain.reset(seed=seed, options=options)),  # pops the mask
        ("options", NEXT, pops_all),
        ("options", NEXT, refuses_options),
        ("reset_mask", OFF, lambda plain, seed, options: plain.reset(seed=seed)),
        ("seed", NEXT, lambda plain, seed, options: plain.reset(options=options)),
        ("seed", NEXT, lambda plain, seed, options: plain.reset(seed=[seed] * 3 if isinstance(seed, int) else seed)),
    ],
    ids=["pops the mask", "pops all", "refuses options", "resets all", "forgets the seed", "seeds all alike"],
)
def test_a_defect_of_a_reset_is_found(
    plant: Callable[..., Planted], rule: str, mode: AutoresetMode, reset: Callable[..., Any]
) -> None:
    assert list(faults_of(plant(mode, reset=reset))) == [rule]


def test_dynamics_that_no_seed_decides_are_found(plant: Callable[..., Planted]) -> None:
    generator = np.random.default_rng()
    faults = faults_of(plant(change=lambda r: (r[0], r[1] * (1 + generator.random()), *r[2:])))
    assert "another trajectory the second time" in faults["seed"]


def test_returned_arrays_that_are_the_envs_own_are_found(plant: Callable[..., Planted]) -> None:
    total = np.zeros(3)

    def running_total(result: Any) -> Any:
        total[:] += result[1]
        return (result[0], total, *result[2:])

    def restarts(plain: SyncVectorEnv, seed: Any, options: Any) -> Any:
        total[:] = 0
        return plain.reset(seed=seed, options=options)

    assert list(faults_of(plant(SAME, running_total, restarts))) == ["shared memory"]


def test_spaces_that_do_not_fit_and_no_vector_env_are_found(plant: Callable[..., Planted]) -> None:
    env = plant()
    env.action_space = env.single_action_space
    assert list(faults_of(env)) == ["action_space"]
    env = plant()
    env.num_envs = 0
    assert list(faults_of(env)) == ["num_envs"]
    single: Any = gymnasium.make("CartPole-v1")
    assert list(faults_of(single)) == ["class"]
    single.close()


def test_a_spec_that_cannot_be_set_is_found(plant: Callable[..., Planted], monkeypatch: pytest.MonkeyPatch) -> None:
    env = plant()
    monkeypatch.setattr(Planted, "spec", property(lambda self: None), raising=False)
    assert list(faults_of(env)) == ["spec"]


@pytest.mark.parametrize(
    ("images", "fps", "passes"),
    [
        ((np.zeros((4, 6, 3), np.uint8),) * 3, 50, True),
        ((np.zeros((4, 6, 3), np.uint8),) * 3, None, False),
        ((np.zeros((4, 6, 3), np.uint8),), 50, False),
        ((np.zeros((4, 6, 3)),) * 3, 50, False),
        (np.zeros((3, 4, 6, 3), np.uint8), 50, False),
    ],
)
def test_images_are_checked(plant: Callable[..., Planted], images: Any, fps: int | None, passes: bool) -> None:
    env: Any = plant()
    env.render_mode, env.render = "rgb_array", lambda: images
    env.metadata.pop("render_fps", None)
    if fps:
        env.metadata["render_fps"] = fps
    if passes:
        assert check_vector_env(env, steps=20) == []
    else:
        assert list(faults_of(env)) == ["render"]
