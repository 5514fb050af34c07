"""Suites to inherit: which of their tests run, and trajectories that are compared."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
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
    return pytester.runpytest_inprocess("-v", "-rs", "-p", "no:cacheprovider", *arguments)


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
