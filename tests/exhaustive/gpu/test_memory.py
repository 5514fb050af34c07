"""Whose memory a tensor is, how long it is open, and what happens when the engine takes other memory."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.cuda import libcuda
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, DeviceError, SegmentError
from lucky_transport.process import unique_name
from tests.gpu.conftest import LARGE, NUM_ENVS, Gpu, actions_at
from tests.gpu.engine import EngineUnderTest
from tests.support.allocating_driver import AllocatingDriver
from tests.support.command import execute, stdout_of

Connect = Callable[..., Any]


@pytest.fixture
def engine(gpu: Gpu) -> Iterator[EngineUnderTest]:
    with gpu.start() as started:
        yield started


def shown(env: VectorEnv) -> Any:
    return env.observations_torch("cuda").cpu().numpy()


def step(env: VectorEnv, number: int = 0) -> Any:
    return env.step(actions_at(number))[0]


# -- the engine's memory


def test_a_copy_stays_as_it_is_and_a_view_shows_the_next_frame(
    gpu: Gpu, engine: EngineUnderTest, connect: Connect
) -> None:
    for copy in (True, False):
        env = connect(engine, copy=copy)
        before = step(env).copy()
        tensor = env.observations_torch("cuda")
        after = step(env).copy()
        np.testing.assert_array_equal(tensor.cpu().numpy(), before if copy else after)
        env.close()


def test_the_step_that_writes_a_view_again_waits_for_its_readers(
    gpu: Gpu, engine: EngineUnderTest, connect: Connect
) -> None:
    env = connect(engine, copy=False)
    for number in range(gpu.times(200)):
        expected = step(env, number).copy()
        view = env.observations_torch("cuda")
        gpu.busy()
        read = view.to("cuda", copy=True)  # behind work that takes longer than the next step
        step(env, number)
        np.testing.assert_array_equal(read.cpu().numpy(), expected)


def test_another_device_than_the_engines_gets_a_copy(gpu: Gpu, engine: EngineUnderTest, connect: Connect) -> None:
    if gpu.torch.cuda.device_count() < 2:
        pytest.skip("only one CUDA device")
    env = connect(engine, copy=False)
    expected = step(env).copy()
    tensor = env.observations_torch("cuda:1")
    step(env)
    np.testing.assert_array_equal(tensor.cpu().numpy(), expected)


def test_memory_that_moved_is_opened_anew_and_the_old_may_be_freed_then(
    gpu: Gpu, engine: EngineUnderTest, connect: Connect
) -> None:
    env = connect(engine)
    for number in range(gpu.times(40)):
        env.observations_torch("cuda")
        engine.ask("move")
        assert not engine.ask("is_unused")  # the client has the old one open
        expected = step(env, number)
        assert not engine.ask("is_unused")
        np.testing.assert_array_equal(shown(env), expected)
        assert engine.ask("is_unused")
        gpu.assert_open(1)


def test_a_client_that_closes_has_nothing_open_any_more(gpu: Gpu, engine: EngineUnderTest, connect: Connect) -> None:
    for copy in (True, False):
        env = connect(engine, copy=copy)
        env.observations_torch("cuda")
        engine.ask("move")
        assert not engine.ask("is_unused")
        env.close()
        assert engine.ask("is_unused")
        gpu.assert_open(0)


def test_withdrawn_memory_is_closed_and_the_segment_takes_over(
    gpu: Gpu, engine: EngineUnderTest, connect: Connect
) -> None:
    env = connect(engine)
    env.observations_torch("cuda")
    engine.ask("withdraw")
    for number in range(3):
        expected = step(env, number)
        np.testing.assert_array_equal(shown(env), expected)
        assert engine.ask("is_unused")
        gpu.assert_open(0)


@pytest.mark.parametrize("times", [1, 100])
def test_memory_that_moves_while_it_is_opened_is_opened_again_or_given_up(
    gpu: Gpu, engine: EngineUnderTest, connect: Connect, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    env = connect(engine)
    driver = libcuda.load_driver()
    open_handle, moves = driver.open, [None] * times

    def open_and_move(handle: bytes, ordinal: int) -> Any:
        if moves:
            moves.pop()
            engine.ask("move")
        return open_handle(handle, ordinal)

    with monkeypatch.context() as patch:
        patch.setattr(driver, "open", open_and_move)
        if times > 1:
            with pytest.raises(SegmentError, match="8 times"):
                env.observations_torch("cuda")
            moves.clear()
            step(env)
        np.testing.assert_array_equal(shown(env), env.observations_torch("cpu").numpy())
    assert engine.ask("is_unused")
    gpu.assert_open(1)


def test_two_envs_over_two_engines_are_used_by_turns_and_by_threads(gpu: Gpu, connect: Connect) -> None:
    with gpu.start() as one, gpu.start() as other:
        envs = [connect(one), connect(other, copy=False)]
        wrong: list[int] = []

        def run(env: VectorEnv) -> None:
            for number in range(gpu.times(500)):
                expected = step(env, number).copy()
                if not np.array_equal(shown(env), expected):
                    wrong.append(number)

        for env in envs:
            run(env)
        threads = [threading.Thread(target=run, args=[env]) for env in (envs if gpu.is_real else envs[:1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_memory_of_expandable_segments_is_refused_when_it_is_published(gpu: Gpu) -> None:
    if not gpu.is_real:
        pytest.skip("the stand-in has no memory pools")
    setting = "expandable_segments:True"
    environ = os.environ | {"PYTORCH_ALLOC_CONF": setting, "PYTORCH_CUDA_ALLOC_CONF": setting}
    done = subprocess.run([sys.executable, "-c", _PUBLISHES], env=environ, capture_output=True, text=True)
    assert "DeviceError: cuIpcGetMemHandle failed: CUDA_ERROR" in done.stderr


_PUBLISHES = """
import torch
from lucky_transport.cuda import libcuda
libcuda.load_driver().export(torch.zeros(16 << 20, device="cuda").data_ptr())
"""


# -- the segment's pages


@pytest.fixture
def large(gpu: Gpu) -> Iterator[str]:
    with api.serve("toy", f"shm://{unique_name()}", num_envs=NUM_ENVS, options={"obs_size": LARGE}) as serving:
        yield str(serving.endpoints[0])


def test_much_is_copied_beside_the_program_and_few_at_once(gpu: Gpu, large: str) -> None:
    with api.make(endpoint=large) as env:
        env.reset(seed=4)
        gpu.assert_under_way(env.observations_torch("cuda"))
    with api.make("toy", NUM_ENVS, transport="shm") as env:
        expected, _ = env.reset(seed=4)
        gpu.assert_done(env.observations_torch("cuda"), expected)


def test_work_of_the_present_stream_comes_after_the_copy(gpu: Gpu, large: str) -> None:
    with api.make(endpoint=large) as env:
        expected, _ = env.reset(seed=4)
        gpu.busy()
        tensor = env.observations_torch("cuda:0")
        sibling = tensor.to("cuda", copy=True)
        np.testing.assert_array_equal(sibling.cpu().numpy(), expected)


def test_every_exchange_waits_for_the_copy_of_what_it_overwrites(gpu: Gpu, large: str) -> None:
    with api.make(endpoint=large) as env:
        held = [(env.reset(seed=4)[0], env.observations_torch("cuda"))]
        held += [(step(env), env.observations_torch("cuda"))]
        env.step_async(actions_at(1))
        held += [(env.step_wait()[0], env.observations_torch("cuda"))]
        held += [(env.reset(seed=9)[0], env.observations_torch("cuda"))]
        with pytest.raises(ValueError, match="actions"):
            env.step(np.zeros((9, 9)))
        held += [(held[-1][0], env.observations_torch("cuda")) for _ in range(2)]
        step(env)
    for expected, tensor in held:  # closing waits for copies, too
        np.testing.assert_array_equal(tensor.cpu().numpy(), expected)


def test_the_second_exchange_of_a_step_waits_for_copies_as_well(gpu: Gpu) -> None:
    options = {"episode_steps": 2, "obs_size": LARGE}
    with api.make("toy", NUM_ENVS, transport="shm", options=options, autoreset_mode="SameStep") as env:
        env.reset(seed=3)
        for number in range(4):
            expected = step(env, number)
            tensor = env.observations_torch("cuda")
            step(env, number)
            np.testing.assert_array_equal(tensor.cpu().numpy(), expected)


# -- no such device


@pytest.mark.parametrize("device", ["cuda:9", "gpu", "cuda:x"])
def test_a_device_that_is_not_there_is_named(gpu: Gpu, engine: EngineUnderTest, connect: Connect, device: str) -> None:
    env = connect(engine)
    with pytest.raises((DeviceError, ConfigError), match=f"device '{device}': .+") as caught:
        env.observations_torch(device)
    assert "\n" not in str(caught.value)
    expected = step(env)
    np.testing.assert_array_equal(shown(env), expected)


def test_a_handle_that_no_driver_made_is_refused_with_the_drivers_word(gpu: Gpu) -> None:
    with pytest.raises(DeviceError, match=r"cuIpcOpenMemHandle_v2 failed: CUDA_ERROR"):
        AllocatingDriver(gpu.library).open(b"\xff" * 64, 0)


_ROOT = Path(__file__).parents[3]
#: Of what goes on in device memory, as much as there is time for: a program under memcheck takes many times as long.
_TESTS = ["a_copy_stays_as_it_is", "that_moved_is_opened_anew", "much_is_copied", "withdrawn_memory"]
_LIMIT_S = 150


def test_memcheck_finds_no_error_in_the_tests_of_memory(gpu: Gpu, tmp_path: Path) -> None:
    checker: list[str] = []
    if gpu.is_real:
        found = shutil.which("compute-sanitizer")
        if found is None:
            pytest.skip("compute-sanitizer is not on the PATH: it comes with the CUDA toolkit")
        checker = [found, "--tool", "memcheck", "--target-processes", "all", "--report-api-errors", "no"]
        checker += ["--error-exitcode", "99"]
    which = f"{'[cuda]' if gpu.is_real else '[stand-in]'} and ({' or '.join(_TESTS)})"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", str(tmp_path / "tests")]
    command = [*checker, sys.executable, "-m", "pytest", *options, Path(__file__), "-k", which]
    assert f"{len(_TESTS)} passed" in stdout_of(execute(*command, cwd=_ROOT, timeout=_LIMIT_S))
