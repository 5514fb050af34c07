"""How an env ends and comes back: close, failures, interrupts, fork, pickle."""

import gc
import itertools
import os
import pickle
import threading
from collections.abc import Callable, Generator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ClosedError, ConfigError, EngineFailed, PeerDied, PeerTimeout
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.process import EngineProcess
from lucky_transport.transport import Frame
from tests.support.command import python
from tests.support.interrupted_moments import Interrupted, interrupted_at, interrupted_start
from tests.support.resources import threads_of
from tests.support.waiting import in_a_child, until


class Owner:
    """Counts how often it was stopped; says `words` when asked how its process ended."""

    def __init__(self, words: str = "") -> None:
        self.stopped = 0
        self._words = words

    def stop(self) -> None:
        self.stopped += 1

    def exit_report(self, within_s: float = 0.0) -> str:
        return self._words


class Unlucky(InprocTransport):
    """Raises the given errors, one per exchange (None: none), before it goes on as usual; counts its closes."""

    def __init__(self, *errors: BaseException | None, num_envs: int = 2, **options: Any) -> None:
        super().__init__(Host(ToyEngine(num_envs, **options)))
        self.errors = list(errors)
        self.closed = 0

    def recv(self, deadline: Deadline | None = None) -> Frame:
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        return super().recv(deadline)

    def close(self) -> None:
        self.closed += 1
        super().close()


def _zeros(env: VectorEnv) -> NDArray[Any]:
    return np.zeros(env.batch_spec.action_shape)


def _running(*errors: BaseException | None, **arguments: Any) -> tuple[Unlucky, VectorEnv]:
    """Return an env that was reset and then runs into `errors`."""
    transport = Unlucky()
    env = VectorEnv(transport, **arguments)
    env.reset(seed=0)
    transport.errors = [*errors]
    return transport, env


# closing


def test_the_owner_ends_even_where_closing_the_transport_fails() -> None:
    class Stubborn(Unlucky):
        def close(self) -> None:
            raise OSError("stuck")

    owner = Owner()
    env = VectorEnv(Stubborn(), owner=owner)
    with pytest.raises(OSError, match="stuck"):
        env.close()
    assert owner.stopped == 1
    with pytest.raises(ClosedError):
        env.step(_zeros(env))
    env.close()


@pytest.mark.parametrize("what", ["step", "reset"])
def test_a_closed_env_refuses_to_step_and_to_reset(what: str) -> None:
    env = VectorEnv(Unlucky())
    env.reset()
    env.close()
    with pytest.raises(ClosedError, match=f"^{what}: the env is closed; make a new one$"):
        env.step(_zeros(env)) if what == "step" else env.reset()


def test_an_env_that_is_forgotten_is_closed() -> None:
    transport, owner = Unlucky(), Owner()
    env = VectorEnv(transport, owner=owner)
    del env
    gc.collect()
    assert (transport.closed, owner.stopped) == (1, 1)


def test_an_env_that_could_not_be_made_leaves_the_transport_to_its_owner() -> None:
    transport = Unlucky()
    with pytest.raises(ConfigError, match="autoreset_mode"):
        VectorEnv(transport, autoreset_mode="never")
    gc.collect()
    assert transport.closed == 0


# failures


def test_after_a_failed_step_the_env_asks_for_a_reset_and_then_goes_on() -> None:
    env = VectorEnv(Unlucky(fail_at=2))
    env.reset()
    with pytest.raises(EngineFailed, match="asked to fail at step 2"):
        env.step(_zeros(env))
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"the last step or reset failed, .* call reset\(\)"):
        env.step(_zeros(env))
    with pytest.raises(gymnasium.error.ResetNeeded, match="a partial reset is not possible"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.reset()
    env.step(_zeros(env))


def test_after_timeouts_a_reset_first_receives_the_late_frame() -> None:
    transport, env = _running(PeerTimeout("late"), PeerTimeout("later"))
    before = transport._frames[0].seq  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(PeerTimeout, match="late"):
        env.step(_zeros(env))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(_zeros(env))
    with pytest.raises(PeerTimeout, match="later"):
        env.reset()
    env.reset()
    env.step(_zeros(env))
    assert transport._frames[0].seq == before + 3  # pyright: ignore[reportPrivateUsage]


def test_the_hint_of_a_late_step_names_what_an_env_has() -> None:
    _, env = _running(PeerTimeout("no frame", backend="shm", hint="recv() again, or raise step_timeout_s"))
    with pytest.raises(PeerTimeout) as late:
        env.step(_zeros(env))
    assert str(late.value) == "no frame; call reset(), or raise step_timeout_s"
    assert (late.value.backend, late.value.hint) == ("shm", "call reset(), or raise step_timeout_s")
    env.reset()
    env.step(_zeros(env))


def test_same_steps_second_exchange_can_fail_too() -> None:
    transport = Unlucky(episode_steps=1)
    env = VectorEnv(transport, autoreset_mode="SameStep")
    env.reset()
    transport.errors = [None, PeerTimeout("late")]
    with pytest.raises(PeerTimeout):
        env.step(_zeros(env))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(_zeros(env))
    env.reset()
    assert env.step(_zeros(env))[3].all()


@pytest.mark.parametrize("report", ["exit status 3\n  Traceback: boom", ""])
def test_a_dead_engines_exit_report_is_in_the_error(report: str) -> None:
    error = PeerDied("the engine is gone")
    _, env = _running(error, owner=Owner(report))
    with pytest.raises(PeerDied) as died:
        env.step(_zeros(env))
    said = f"\nthe engine process ended with {report}" if report else ""
    assert str(died.value) == f"the engine is gone{said}"
    assert (died.value.__cause__ or died.value) is error


# fork


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_can_neither_step_nor_end_its_parents_env() -> None:
    owner = Owner()
    env = VectorEnv(Unlucky(), owner=owner)
    env.reset()

    def refused() -> bool:
        with pytest.raises(ClosedError, match=r"belongs to the parent process; connect again after fork\(\)"):
            env.step(_zeros(env))
        env.close()
        return owner.stopped == 0

    assert in_a_child(refused)
    env.step(_zeros(env))


# pickling


def test_an_env_is_pickled_as_the_recipe_of_one_like_it() -> None:
    with api.make("toy", 3, transport="inproc", seed=4, autoreset_mode="SameStep", options={"obs_size": 5}) as env:
        env.spec = EnvSpec("lucky_transport/Toy-v0", entry_point="x:y")
        text = pickle.dumps(env)
        start = env.reset()[0]
        with pickle.loads(text) as again:
            assert again is not env
            assert repr(again) == repr(env)
            assert again.spec == env.spec
            assert again.reset()[0].tobytes() == start.tobytes()


def test_an_env_on_a_transport_object_cannot_be_pickled_and_says_why() -> None:
    with pytest.raises(TypeError, match=r"VectorEnv\(toy, .*cannot be pickled: it was built on a transport"):
        pickle.dumps(VectorEnv(Unlucky()))


def test_a_lambda_in_the_recipe_gives_pickles_own_error() -> None:
    with (
        api.make("toy", transport="inproc", reward_fn=lambda signals: signals["alive"]) as env,
        pytest.raises((AttributeError, pickle.PicklingError), match="lambda"),
    ):
        pickle.dumps(env)


# processes


def test_an_engine_process_of_its_own_ends_with_the_env() -> None:
    process = EngineProcess("toy", ["inproc:"])
    env = VectorEnv(Unlucky(), owner=process)
    env.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@pytest.mark.exhaustive
def test_a_program_that_forgets_to_close_leaves_no_engine_process_behind() -> None:
    program = (
        "import logging; logging.getLogger('lucky_transport').setLevel(logging.ERROR)  # a busy machine starts slowly\n"
        "from lucky_transport.env.vector_env import VectorEnv; from lucky_transport.process import EngineProcess\n"
        "from lucky_transport.inproc import InprocTransport; from lucky_transport.host.host import Host\n"
        "from lucky_transport.engines.toy import ToyEngine\n"
        "process = EngineProcess('toy', ['inproc:'])\n"
        "env = VectorEnv(InprocTransport(Host(ToyEngine(1))), owner=process); env.reset()\n"
        "print(process.pid)"
    )
    ended = python("-W", "error", "-c", program, check=True)
    assert ended.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(ended.stdout), 0)


ENVS = 4
ACTIONS = np.zeros((ENVS, 2), np.float32)


@pytest.fixture(scope="module", params=["inproc", "shm"])
def env(request: pytest.FixtureRequest) -> Generator[VectorEnv]:
    options = {"parallel_envs": 3, "episode_steps": 3}
    with api.make("toy", ENVS, transport=request.param, options=options, autoreset_mode="SameStep") as made:
        yield made


def some(env: VectorEnv) -> None:
    env.send(ACTIONS[:3], np.arange(3))


@pytest.mark.parametrize(
    ("before", "work"),
    [
        pytest.param(None, some, id="send"),
        pytest.param(lambda env: env.send(ACTIONS), lambda env: env.recv(2), id="recv"),
        pytest.param(None, lambda env: env.step(ACTIONS), id="step"),
        pytest.param(None, lambda env: env.step_async(ACTIONS), id="step_async"),
        pytest.param(lambda env: env.step_async(ACTIONS), lambda env: env.step_wait(), id="step_wait"),
        pytest.param(some, lambda env: env.reset(), id="reset"),
    ],
)
def test_a_reset_follows_an_interrupt_at_any_moment(
    env: VectorEnv, before: Callable[[VectorEnv], Any] | None, work: Callable[[VectorEnv], Any]
) -> None:
    met = 0
    for moment in itertools.count():
        env.reset()
        if before is not None:
            before(env)
        is_interrupted = interrupted_at(moment, lambda: work(env))
        met += is_interrupted and moment > 0
        try:
            env.reset()
            env.send(ACTIONS)
            assert env.recv(ENVS).env_ids.tolist() == list(range(ENVS))
            env.step(ACTIONS)
        except Exception as error:
            pytest.fail(f"after an interrupt at moment {moment}: {error!r}")
        if moment and not is_interrupted:
            break
    assert met, "no moment was met"


def test_an_interrupt_in_the_start_of_the_first_steps_leaves_one_thread_that_holds_the_engine() -> None:
    def holding() -> set[threading.Thread]:
        return set(threads_of("env steps")) - others

    others = set(threads_of("env steps"))
    with api.make("toy", ENVS, transport="inproc", options={"parallel_envs": 3}) as env:
        env.reset()
        with interrupted_start(Interrupted), pytest.raises(Interrupted):
            some(env)
        until(lambda: not holding())
        env.reset()
        for _ in range(3):
            some(env)
            env.recv(3)
        assert len(holding()) == 1
    until(lambda: not holding())
