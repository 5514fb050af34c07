"""Engines that are killed in each phase of a step, children that are forked: errors, and CUDA that works on."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ClosedError, DeviceError, PeerDied
from lucky_transport.process import python_command
from tests.gpu.conftest import Gpu, actions_at, reference
from tests.gpu.engine import PHASES, EngineProgram
from tests.support.fake_cuda import FakeTorch
from tests.support.waiting import until

#: What the client does meanwhile, where the engine is killed from outside.
MEANWHILE = ("nothing", "a copy is under way", "a view is held", "memory is being opened")
_STEPS = 5


def kills(gpu: Gpu, kinds: int) -> int:
    """Return how often an engine is killed in one phase: 200 kills together on a device, one in each without."""
    return -(-200 // kinds) if gpu.is_real else 1


def started(gpu: Gpu, stack: ExitStack, count: int, **options: Any) -> Iterator[EngineProgram]:
    """Yield that many engines, of which the next are starting meanwhile."""
    with ThreadPoolExecutor(8) as pool:
        for one in [pool.submit(lambda: stack.enter_context(gpu.start_program(**options))) for _ in range(count)]:
            yield one.result()


def step_on(env: VectorEnv) -> None:
    """Step until that fails: a signal takes a moment to arrive."""
    while True:
        env.step(actions_at(0))


def assert_dead(gpu: Gpu, env: VectorEnv, held: Any, expected: Any) -> None:
    """The client finds out within its usual bound, a copy that it holds stays right, and its device works on."""
    with pytest.raises(PeerDied):
        step_on(env)
    with pytest.raises(PeerDied):
        env.observations_torch("cuda")
    np.testing.assert_array_equal(held.cpu().numpy(), expected)
    mark = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(gpu.tensor(mark).cpu().numpy(), mark)
    env.close()
    gpu.assert_open(0 if env.copy else 1)
    np.testing.assert_array_equal(held.cpu().numpy(), expected)


@pytest.mark.parametrize("on_stream", [False, True], ids=["", "in order of events"])
@pytest.mark.parametrize("phase", PHASES)
def test_an_engine_that_is_killed_in_a_step_is_a_dead_peer(gpu: Gpu, phase: str, on_stream: bool) -> None:
    count = kills(gpu, 2 * len(PHASES) + len(MEANWHILE))
    with ExitStack() as stack, reference() as same:
        for engine in started(gpu, stack, count, dies_in=phase, dies_at=_STEPS, move_every=_STEPS, on_stream=on_stream):
            env = stack.enter_context(api.make(endpoint=engine.endpoint))
            env.reset(seed=4)
            same.reset(seed=4)
            held = expected = None
            for number in range(_STEPS - 2):
                env.step(actions_at(number))
                held, expected = env.observations_torch("cuda"), same.step(actions_at(number))[0]
                np.testing.assert_array_equal(held.cpu().numpy(), expected)
            assert_dead(gpu, env, held, expected)


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_an_engine_that_is_killed_between_steps_is_a_dead_peer(
    gpu: Gpu, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = libcuda.load_driver()
    open_handle = driver.open
    with ExitStack() as stack, reference() as same:
        for engine in started(gpu, stack, kills(gpu, 2 * len(PHASES) + len(MEANWHILE))):
            env = stack.enter_context(api.make(endpoint=engine.endpoint, copy=meanwhile != "a view is held"))
            env.reset(seed=4)
            same.reset(seed=4)
            env.step(actions_at(0))
            expected = same.step(actions_at(0))[0]
            if meanwhile == "memory is being opened":
                _kill_while_it_is_opened(engine, env, driver, open_handle, monkeypatch)
                with pytest.raises(PeerDied):
                    env.observations_torch("cuda")
                continue
            tensor = env.observations_torch("cuda")
            if meanwhile == "a copy is under way":
                gpu.busy()
                tensor = env.observations_torch("cuda")
            engine.kill()
            if meanwhile == "a view is held":  # readable for as long as it is mapped
                np.testing.assert_array_equal(tensor.cpu().numpy(), expected)
            assert_dead(gpu, env, tensor if env.copy else gpu.tensor(expected), expected)


def _kill_while_it_is_opened(
    engine: EngineProgram,
    env: VectorEnv,
    driver: Any,
    open_handle: Callable[[bytes, int], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kill_and_open(handle: bytes, ordinal: int) -> Any:
        engine.kill()
        return open_handle(handle, ordinal)

    with monkeypatch.context() as patch:
        patch.setattr(driver, "open", kill_and_open)
        with pytest.raises(DeviceError, match=r"cannot be opened.*another process of this host"):
            env.observations_torch("cuda")


def test_a_client_that_is_killed_has_nothing_open_for_the_next_one(gpu: Gpu) -> None:
    with gpu.start_program() as engine:
        for number in range(gpu.times(10)):
            with client_program(gpu.library, engine.endpoint, is_real=gpu.is_real) as client:
                engine.ask("move")
                assert not engine.ask("is_unused")
                client.kill()
                client.wait()
                until(lambda: engine.ask("is_unused"))
            with api.make(endpoint=engine.endpoint) as env, reference() as same:
                env.reset(seed=4)
                env.step(actions_at(number))
                expected = same.step(actions_at(number))[0]
                np.testing.assert_array_equal(env.observations_torch("cuda").cpu().numpy(), expected)


def test_a_forked_child_is_refused_and_leaves_all_as_it_is_for_its_parent(gpu: Gpu) -> None:
    with gpu.start_program() as engine, api.make(endpoint=engine.endpoint, copy=False) as env:
        env.reset(seed=4)
        tensor = env.observations_torch("cuda")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                env.observations_torch("cuda")
            except ClosedError:
                try:
                    libcuda.load_driver()
                except DeviceError:
                    env.close()
                    del env, tensor
                    code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        for number in range(3):
            expected = env.step(actions_at(number))[0]
            np.testing.assert_array_equal(tensor.cpu().numpy(), expected)
        engine.ask("move")
        assert not engine.ask("is_unused")  # the child closed nothing
        gpu.assert_open(1)


@contextmanager
def client_program(library: str, endpoint: str, *, is_real: bool) -> Iterator[subprocess.Popen[str]]:
    """Start it; it holds a view. It has ended afterwards."""
    command = python_command(__name__, library, endpoint, "real" if is_real else "")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "holds\n"
            yield program
        finally:
            program.kill()


def client(library: str, endpoint: str, is_real: str) -> None:
    """Be a client that holds a view of an engine's device memory until it is killed."""
    if not is_real:
        libcuda.LIBRARY = library
        sys.modules["torch"] = FakeTorch()  # pyright: ignore[reportArgumentType]
    env = api.make(endpoint=endpoint, copy=False)
    env.reset(seed=4)
    view = env.observations_torch("cuda")
    print("holds", flush=True)
    sys.stdin.read()
    del view


if __name__ == "__main__":
    client(*sys.argv[1:])
