"""The pytest plugin, as a team uses it: its own tests, run over two transports."""

from __future__ import annotations

import contextlib
import importlib

import pytest

from tests.support.command import python

pytest_plugins = ["pytester"]

# pytester forgets modules that a run inside it imports first; protobuf's native module crashes when it is loaded twice.
for _name in ("google.protobuf.descriptor_pb2", "grpc"):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

#: Makes "twin" a second path without a wire, with what `PLANTS` of the test's module has in it.
CONFTEST = """
import pytest
from tests.planted.changes import over_path
from lucky_transport_migration import paths

@pytest.fixture(autouse=True)
def twin(request, monkeypatch):
    monkeypatch.setitem(paths.NAMED, "twin", ("inproc", ()))
    over_path(monkeypatch, "twin", *getattr(request.module, "PLANTS", ()))
"""

HEAD = """
from contextlib import suppress
import numpy as np
import pytest
from lucky_transport.errors import PeerDied, UnknownName
from lucky_transport.messages.methods import method
from tests.planted.changes import answers, fails, one_bit

SCHEMA = method("AgentService/GetAgentSchema")

def drive(env, steps=20, seed=1):
    random = np.random.default_rng(seed)
    env.reset(seed=seed)
    for _ in range(steps):
        env.step(random.uniform(-1, 1, env.batch_spec.action_shape).astype(np.float32))
"""

BETWEEN = ("--lucky-between", "inproc,twin")


@pytest.fixture
def run(pytester: pytest.Pytester) -> Runner:
    return Runner(pytester)


class Runner:
    """Runs a team's tests, and gives what pytest printed."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makeconftest(CONFTEST)

    def __call__(self, source: str, *arguments: str, ini: str = "") -> pytest.RunResult:
        self.pytester.makepyfile(test_team=HEAD + source)
        if ini:
            self.pytester.makeini(f"[pytest]\n{ini}")
        return self.pytester.runpytest_inprocess("-q", "--strict-markers", "-p", "no:cacheprovider", *arguments)


SIDE_BY_SIDE = """
def test_policy(lucky_side_by_side):
    with lucky_side_by_side("toy", num_envs=3, seed=1) as env:
        drive(env)
        env.client.agent.get_schema("agent_0")
"""
ENV_FIXTURE = """
@pytest.mark.lucky("toy", num_envs=3, seed=1)
def test_policy(lucky_env):
    drive(lucky_env)
    lucky_env.client.agent.get_schema("agent_0")
"""


# without transports to compare


@pytest.mark.parametrize("source", [SIDE_BY_SIDE, ENV_FIXTURE])
def test_without_transports_tests_are_skipped_and_say_how_to_run_them(run: Runner, source: str) -> None:
    done = run(source, "-rs")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*nothing to compare; run pytest with --lucky-between grpc,shm*"])
    done.stdout.no_fnmatch_line("*side by side ===*")


@pytest.mark.exhaustive
def test_a_session_that_compares_nothing_imports_nothing_of_us(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        def test_light():
            ours = {name for name in sys.modules if name.startswith(("lucky_transport", "numpy", "gymnasium"))}
            assert ours == {"lucky_transport_migration", "lucky_transport_migration.pytest_plugin"}
        """
    )
    plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    done = python("-m", "pytest", "-q", *plugins)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("wrong", ["grpc", "grpc,grpc", "grpc,,shm", ","])
def test_fewer_than_two_paths_are_refused(run: Runner, wrong: str) -> None:
    done = run(SIDE_BY_SIDE, "--lucky-between", wrong)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*--lucky-between {wrong}: name at least two different paths, e.g. grpc,shm"])


def test_a_wrong_rule_ends_the_session_before_any_test(run: Runner) -> None:
    (run.pytester.path / "lucky_transport.toml").write_text("[parity.fields]\nobservation = { about = 1 }\n")
    done = run(SIDE_BY_SIDE, *BETWEEN)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*unknown key 'about'*"])


# equal transports


PARAMETERS = """
@pytest.mark.parametrize("steps", [3, 5])
@pytest.mark.lucky("toy", num_envs=2)
def test_policy(lucky_env, steps):
    drive(lucky_env, steps)
"""
BOTH_WAYS = SIDE_BY_SIDE + ENV_FIXTURE.replace("test_policy", "test_env")


@pytest.mark.parametrize(
    ("source", "options", "passed", "lines"),
    [
        (
            SIDE_BY_SIDE,
            BETWEEN,
            1,
            ["*lucky_transport: inproc and twin side by side*", "EQUAL: 21 exchanges and * calls (* values) in 1 test"],
        ),
        (ENV_FIXTURE, (*BETWEEN, "-vv"), 1, ["*::test_policy PASSED*", "EQUAL: 21 exchanges and 2 calls*in 1 test"]),
        (PARAMETERS, BETWEEN, 2, ["EQUAL: 10 exchanges and 2 calls * in 2 tests"]),
        (BOTH_WAYS, ("--lucky-between", "inproc,shm"), 2, ["EQUAL: 42 exchanges*"]),
    ],
    ids=["side by side", "an env", "parameters", "processes"],
)
def test_what_is_equal_passes_and_is_summed_up(
    run: Runner, source: str, options: tuple[str, ...], passed: int, lines: list[str]
) -> None:
    done = run(source, *options)
    done.assert_outcomes(passed=passed)
    done.stdout.fnmatch_lines(lines)


# differences


@pytest.mark.parametrize("source", [SIDE_BY_SIDE, ENV_FIXTURE])
def test_a_bit_in_one_observation_fails_the_test_with_its_place_and_both_values(run: Runner, source: str) -> None:
    done = run(source + "\nPLANTS = [one_bit(8, env=2)]", *BETWEEN)
    assert done.parseoutcomes()["failed"] == 1
    done.stdout.fnmatch_lines(
        [
            "*inproc and twin differ in exchange 8 (step)",
            "*  exchange  8",
            "*  field     observation",
            "*  env       2",
            "*  index     [[]0]",
            "*  inproc    *",
            "*  twin      *",
            "*equal before it: 7 exchanges and 1 call (* values)",
            "DIFFERENT: 1 of *",
            "differs: observation of env 2 at [[]0] differs in exchange 8 (step, side by side): inproc *, twin *",
        ]
    )
    done.stdout.fnmatch_lines([">*env.step(random.uniform*", "E*Mismatch: inproc and twin differ in exchange 8 (step)"])
    done.stdout.no_fnmatch_line("*tee_transport.py*")


@pytest.mark.parametrize("source", [SIDE_BY_SIDE, ENV_FIXTURE])
@pytest.mark.parametrize(
    ("plant", "says"),
    [
        ("answers(SCHEMA, lambda one: setattr(one.schema, 'action_size', 3))", "field *schema.action_size"),
        ("fails(SCHEMA, UnknownName('planted'))", "twin *UnknownName: planted*"),
        ("fails(4, UnknownName('planted'))", "twin *UnknownName: planted*"),
        ("fails(4, PeerDied('planted'))", "twin *PeerDied: planted*"),
    ],
)
def test_another_answer_or_error_is_found(run: Runner, source: str, plant: str, says: str) -> None:
    done = run(source + f"\nPLANTS = [{plant}]", *BETWEEN)
    assert done.parseoutcomes()["failed"] == 1
    done.stdout.fnmatch_lines([f"*{says}", "DIFFERENT: 1 of *"])


SWALLOWED = """
def test_training(lucky_side_by_side):
    with suppress(AssertionError), lucky_side_by_side("toy", num_envs=3, seed=1) as env:
        drive(env)
"""
SWALLOWED_WITHIN = """
def test_training(lucky_side_by_side):
    with lucky_side_by_side("toy", num_envs=3, seed=1) as env, suppress(AssertionError):
        drive(env)
"""
SWALLOWED_WITH_THE_FIXTURE = """
@pytest.mark.lucky("toy", num_envs=3, seed=1)
def test_training(lucky_env):
    with suppress(AssertionError):
        drive(lucky_env)
"""
IN_A_FIXTURE = """
@pytest.fixture
def trained(lucky_side_by_side):
    yield
    with suppress(AssertionError), lucky_side_by_side("toy", num_envs=3, seed=1) as env:
        drive(env)

def test_training(trained):
    pass
"""
FOUND = "differs: observation of env 2 at [[]0] differs in exchange 8 (step, side by side): *"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (SWALLOWED, "*the test went on after a difference"),
        (SWALLOWED_WITH_THE_FIXTURE, "*the test went on after a difference"),
        (SWALLOWED_WITHIN, "E*Mismatch: inproc and twin differ in exchange 8 (step)"),
    ],
)
def test_a_test_that_swallows_a_difference_fails(run: Runner, source: str, said: str) -> None:
    done = run(f"{source}\nPLANTS = [one_bit(8, env=2)]", *BETWEEN)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([said, "DIFFERENT: 1 of 1 test", FOUND])


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_a_session_fails_of_a_difference_that_no_test_fails_of(run: Runner, workers: tuple[str, ...]) -> None:
    if workers:
        pytest.importorskip("xdist")
    done = run(f"{IN_A_FIXTURE}\nPLANTS = [one_bit(8, env=2)]", *BETWEEN, *workers)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["DIFFERENT: 1 of 1 test", FOUND])


# whose engine


ENGINE = """
from lucky_transport.api import make_engine
def make_arm(num_envs, seed, **options):
    return make_engine("toy", num_envs, seed=seed, **options)
"""


def test_an_engine_is_made_by_a_function_of_the_teams_own(run: Runner) -> None:
    run.pytester.makepyfile(arm=ENGINE)
    run.pytester.syspathinsert()
    source = """
from arm import make_arm
def test_function(lucky_side_by_side):
    with lucky_side_by_side(make_arm, num_envs=2, options={"obs_size": 5}) as env:
        drive(env)
        assert env.batch_spec.observation.shape == (5,)
def test_name(lucky_side_by_side):
    with lucky_side_by_side("arm:make_arm", num_envs=2) as env:
        drive(env)
@pytest.mark.lucky(num_envs=2)
def test_setting(lucky_env):
    drive(lucky_env)
"""
    done = run(source, "--lucky-between", "inproc,shm", ini="lucky_engine = arm:make_arm")
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines(["EQUAL: 63 exchanges*"])


def test_engines_that_run_already_are_met_at_their_endpoints(run: Runner) -> None:
    source = """
from lucky_transport import serve
@pytest.fixture(autouse=True, scope="module")
def engines():
    with serve("toy", "inproc://pair-a", num_envs=2, seed=4), serve("toy", "inproc://pair-b", num_envs=2, seed=4):
        yield
def test_pair(lucky_side_by_side):
    for _ in range(2):
        with lucky_side_by_side() as env:
            drive(env)
def test_other_names(lucky_side_by_side):
    with lucky_side_by_side(endpoints={"a": "inproc://pair-a", "b": "inproc://pair-b"}, between=("a", "b")) as env:
        drive(env)
"""
    done = run(source, *BETWEEN, ini="lucky_endpoints =\n  inproc = inproc://pair-a\n  twin = inproc://pair-b\n")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["EQUAL: 63 exchanges*"])


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        (
            "def test_policy(lucky_side_by_side):\n    with lucky_side_by_side(make_arm) as env:\n        drive(env)",
            "failed",
        ),
        ("@pytest.mark.lucky(engine=make_arm)\ndef test_policy(lucky_env):\n    drive(lucky_env)", "errors"),
    ],
)
def test_engines_of_another_shape_are_told_apart_before_the_first_step(run: Runner, test: str, outcome: str) -> None:
    source = """
from lucky_transport.api import make_engine
sizes = iter([4, 5])
def make_arm(num_envs, seed):
    return make_engine("toy", num_envs, seed=seed, obs_size=next(sizes))
"""
    done = run(source + test, *BETWEEN)
    done.assert_outcomes(**{outcome: 1})
    done.stdout.fnmatch_lines(
        ["*field *spec.observation.shape", "*inproc*'[[]4]'", "*twin *'[[]5]'", "DIFFERENT: 1 of 1 test"]
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("lucky_side_by_side()", "*ConfigError: no engine to compare; pass one*"),
        ('lucky_side_by_side("nowhere:make")', "*engine 'nowhere:make': No module named 'nowhere'*"),
        ('lucky_side_by_side("toyy")', "*no engine 'toyy'; did you mean 'toy'?*"),
        ('lucky_side_by_side(endpoints={"a": "inproc://a"})', "*no endpoint for 'inproc'; there are: a; name one*"),
    ],
)
def test_what_no_engine_can_be_found_for_is_named(run: Runner, call: str, says: str) -> None:
    done = run(f"def test_policy(lucky_side_by_side):\n    with {call} as env:\n        pass\n", *BETWEEN)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([says])


def test_a_wrong_line_of_endpoints_is_named(run: Runner) -> None:
    source = "def test_policy(lucky_side_by_side):\n    lucky_side_by_side()\n"
    done = run(source, *BETWEEN, ini="lucky_endpoints = grpc://127.0.0.1:50051")
    done.stdout.fnmatch_lines(["*lucky_endpoints: *write lines like grpc = grpc://127.0.0.1:50051*"])


@pytest.mark.exhaustive
def test_the_ready_made_suite_compares_an_engine_in_two_lines(run: Runner) -> None:
    source = """
from lucky_transport_migration.side_by_side.suite import SideBySideSuite
class TestToy(SideBySideSuite):
    engine = "toy"
class TestRigid(SideBySideSuite):
    engine, options = "toy", {"hold": False}
"""
    done = run(source, "--lucky-between", "inproc,shm", "-rs")
    done.assert_outcomes(passed=5, skipped=1)
    done.stdout.fnmatch_lines(["EQUAL: * exchanges and * calls (* values) in *", "SKIPPED*SAME_STEP*"])


# tolerances


def test_a_tolerance_of_the_project_counts(run: Runner) -> None:
    (run.pytester.path / "lucky_transport.toml").write_text('[parity.fields]\n"observation" = { ulp = 1 }\n')
    done = run(SIDE_BY_SIDE + "\nPLANTS = [one_bit()]", *BETWEEN)
    done.assert_outcomes(passed=1)


def test_what_is_left_out_is_said_with_the_reason(run: Runner) -> None:
    (run.pytester.path / "lucky_transport.toml").write_text('[parity.fields]\n"observation" = { skip = "noisy" }\n')
    source = SIDE_BY_SIDE + "        next(env.client.telemetry.stream(fps=100))\n"
    done = run(source + "\nPLANTS = [one_bit()]", *BETWEEN)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines_random(
        ["not compared: items of */StreamTelemetry (*", "not compared: observation (noisy)"]
    )
