"""An engine as a library: loaded again by our own libenv engine it is what it was, and its end is seen."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.engine import RESET
from lucky_transport.errors import ConfigError, EngineFailed, MissingExtra
from lucky_transport.shm.segment import segment_files
from lucky_transport.spec.composite import views
from lucky_transport_libenv.export.build import build
from tests.plugins.libenv.conftest import bound, made
from tests.support.command import execute, invoke, python, stdout_of
from tests.support.waiting import PATIENCE_S, until

HERE = Path(__file__).parents[3] / "plugins" / "libenv"
N = 3

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libraries are exported on Linux only")


def stepped_as_a_library(path: str, steps: int, actions: Any, **options: Any) -> list[dict[str, Any]]:
    """Return what the library shows at its start and after each step: tensors, reward and first."""
    with bound(made(path, N, **options)) as (engine, buffers):
        seen: list[dict[str, Any]] = []
        for step in range(steps + 1):
            if step:
                for name, array in views(buffers.actions, engine.spec.action_parts).items():
                    array[:] = actions(step)[name[0]]
            engine.step(None if step else np.full(N, RESET, np.uint8))
            shown = views(buffers.observations, engine.spec.observation_parts + engine.spec.info_parts)
            row = {"/".join(map(str, path)): array.copy() for path, array in shown.items()}
            seen.append(row | {"reward": buffers.rewards.copy(), "first": buffers.terminated != 0})
    return seen


def test_an_engine_is_the_same_as_a_library(toy: str) -> None:
    """Bit for bit what the engine itself shows with autoreset in the same step; the library's reward is the last."""
    generator = np.random.default_rng(0)
    actions = [generator.uniform(-1, 1, (N, 2)).astype(np.float32) for _ in range(31)]
    found = stepped_as_a_library(toy, 30, lambda step: {"action": actions[step]}, seed=4)
    options = {"episode_steps": 12}
    with api.make("toy", N, seed=4, transport="inproc", autoreset_mode="SAME_STEP", options=options) as env:
        observations, _ = env.reset()
        assert found[0]["observation"].tobytes() == observations.tobytes()
        ends = 0
        for step in range(1, 31):
            observations, rewards, terminated, truncated, _ = env.step(actions[step])
            ends += int((terminated | truncated).sum())
            assert found[step]["observation"].tobytes() == observations.tobytes(), step
            assert found[step]["reward"].tobytes() == rewards.tobytes(), step
            assert found[step]["first"].tolist() == (terminated | truncated).tolist(), step
            assert found[step]["terminated"].tolist() == terminated.astype(int).tolist(), step
            assert found[step]["truncated"].tolist() == truncated.astype(int).tolist(), step
    assert ends > N


def test_arrays_of_every_kind_come_over_with_their_values(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "libkinds.so"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    build("gymnasium:kinds:kinds/Kinds-v0", path, options={})

    def actions(step: int) -> dict[str, Any]:
        return {"force": [step / 8, -0.5], "turn": step % 3}

    seen = stepped_as_a_library(str(path), 5, actions)
    for step, row in enumerate(seen):
        tick = step % 5
        turn = step % 3 - 1 if tick else 0
        assert row["first"].tolist() == [tick == 0 and step > 0] * N
        assert row["wide"][1].tolist() == [tick + 0.25, step / 8 if tick else 0]
        assert row["few"][1].tolist() == [tick, 9, 0]
        assert row["many"][1] == 50000 + tick
        assert row["level"][1] == turn - 3 + 4
        assert row["digits"].tolist() == [[tick % 5, 6]] * N
        assert row["switches"][1].tolist() == [1, 0, tick % 2]
        assert row["deep/pair/0"][1].tolist() == [tick, 255]
        assert row["deep/pair/1"][1] == tick % 3
        assert row["reward"].tolist() == [-0.5 if step else 0] * N
        assert row["truncated"].tolist() == [int(tick == 0 and step > 0)] * N


def test_two_libraries_live_in_two_threads(toy: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def digest(_: int) -> bytes:
        rows = stepped_as_a_library(toy, 10, lambda step: {"action": 0.5}, seed=1)
        return b"".join(row["observation"].tobytes() for row in rows)

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(digest, range(2)))) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [({"episode": 1}, "no option 'episode'; did you mean 'episode_steps'?"), ({"obs_size": 0}, "obs_size 0")],
)
def test_an_option_that_the_engine_does_not_take_is_said(
    toy: str, options: dict[str, Any], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EngineFailed, match="libenv_make gave no env"):
        made(toy, N, **options)
    assert words in capfd.readouterr().err


# two processes

HOST = """
import sys, os, signal
import numpy as np
from lucky_transport.engine import Buffers
from lucky_transport_libenv.engine import LibenvEngine
engine = LibenvEngine(sys.argv[1], 2)
buffers = Buffers.allocate(engine.spec)
engine.bind(buffers)
engine.step(None)
if sys.argv[2] == "nan":
    buffers.actions.view(np.float32)[:] = np.nan
if sys.argv[2] == "fork" and os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]) + 40)
print("stepped", flush=True)
sys.stdin.readline()
while True:
    engine.step(None)
"""


def host(toy: str, what: str = "") -> subprocess.Popen[str]:
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = subprocess.Popen([sys.executable, "-c", HOST, toy, what], text=True, **pipes)
    assert started.stdout is not None
    assert started.stdout.readline() == "stepped\n"
    return started


def hosted(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return how a host ended."""
    return python("-c", program, *arguments, env=os.environ | environment)


def engine_of(client: subprocess.Popen[str]) -> Any:
    (found,) = [one for one in segment_files.find() if one.client_pid == client.pid]
    return found


def test_a_killed_engine_ends_the_host_with_a_reason(toy: str) -> None:
    client = host(toy)
    engine = engine_of(client)
    os.kill(engine.engine_pid, signal.SIGKILL)
    _, text = client.communicate("go\n", timeout=PATIENCE_S)
    assert client.returncode == 1
    assert "libenv library of engine toy: the engine's process ended while a frame was awaited" in text
    assert not engine.path.exists()


def test_a_killed_host_ends_the_engine(toy: str) -> None:
    client = host(toy)
    engine = engine_of(client)
    client.kill()
    client.communicate(timeout=PATIENCE_S)
    until(lambda: not engine.path.exists())


def test_actions_that_are_not_finite_are_refused_before_anything_is_stepped(toy: str) -> None:
    client = host(toy, "nan")
    _, text = client.communicate("go\n", timeout=PATIENCE_S)
    assert client.returncode == 1
    assert "action 'action' of env 0 is not finite at element 0; no env was stepped" in text


GERMAN = """
import locale, sys
from lucky_transport_libenv.engine import LibenvEngine
locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
assert locale.localeconv()["decimal_point"] == ","
engine = LibenvEngine(sys.argv[1], 2)
print([(part.path, part.array.shape, part.array.low, part.array.high) for part in engine.spec.action_parts])
print([part.path for part in engine.spec.observation_parts])
engine.close()
"""


def test_a_host_whose_locale_writes_a_decimal_comma_has_every_tensor(toy: str, tmp_path: Path) -> None:
    tool = shutil.which("localedef")
    if tool is None:
        pytest.skip("no localedef; apt install locales")
    target = tmp_path / "de_DE.UTF-8"
    made = execute(tool, "-i", "de_DE", "-f", "UTF-8", target)
    if not target.is_dir():
        pytest.skip(f"localedef makes no de_DE here: {made.stderr}")
    printed = stdout_of(hosted(GERMAN, toy, LOCPATH=str(tmp_path)))
    assert printed.splitlines() == ["[(('action',), (2,), -1.0, 1.0)]", "[('observation',)]"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("tensor 0 0 0 0 1 2 0 -1,5 1,5 1 2 observation", "line 'tensor 0 0 0 0 1 2 0 -1,5 1,5 1 2 observation'"),
        ("tensor 1 0 0 4 2 1 0 0 3000000000 0 action", "line 'tensor 1 0 0 4 2 1 0 0 3000000000 0 action'"),
        ("something new", "line 'something new' cannot be read: export the library again"),
        ("ready no_such_segment", "segment no_such_segment cannot be mapped"),
    ],
)
def test_a_line_of_the_engine_that_cannot_be_read_is_said_and_not_skipped(
    compiler: str, tmp_path: Path, said: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{said}'\necho 'ready none'\n")
    python.chmod(0o700)
    build("toy", tmp_path / "libtoy.so", options={}, python=str(python))
    with pytest.raises(EngineFailed, match="libenv_make gave no env"):
        made(str(tmp_path / "libtoy.so"), N)
    assert words in capfd.readouterr().err


NARROW = """
import gymnasium, numpy as np
class Narrow(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(0, 100, (3,), np.int8)
    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}
    def step(self, action):
        return np.float32([action.sum() / 1000]), 0.0, False, False, {}
gymnasium.register("Narrow-v0", Narrow)
"""

NARROW_HOST = """
import sys
import numpy as np
from lucky_transport.engine import Buffers
from lucky_transport_libenv.engine import LibenvEngine
engine = LibenvEngine(sys.argv[1], 1)
buffers = Buffers.allocate(engine.spec)
engine.bind(buffers)
engine.step(None)
actions = buffers.actions.view(np.int32)[0]
actions[:3] = 100, 127, 3
engine.step(None)
print(buffers.observations.view(np.float32)[0, 0], flush=True)
actions[1] = int(sys.argv[2])
engine.step(None)
"""


@pytest.mark.parametrize("value", [128, -129, 2**31 - 1])
def test_an_action_that_the_engines_type_cannot_hold_is_refused_and_not_cast(
    compiler: str, tmp_path: Path, value: int
) -> None:
    (tmp_path / "narrow_env.py").write_text(NARROW)
    library = tmp_path / "libnarrow.so"
    build("gymnasium:narrow_env:Narrow-v0", library, options={})
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = hosted(NARROW_HOST, str(library), str(value), PYTHONPATH=paths)
    assert done.stdout == "0.23\n", done.stderr
    assert done.returncode == 1
    words = f"action 'action' of env 0 is {value} at element 1, more than the engine's type holds; no env was stepped"
    assert words in done.stderr


def test_a_forked_child_is_refused_and_harms_nothing(toy: str) -> None:
    client = host(toy, "fork")
    _, text = client.communicate("go\n", timeout=PATIENCE_S)
    assert "belongs to the parent process" in text
    assert client.returncode == 41


# the command


def test_the_command_writes_a_library_and_says_what_is_in_it(compiler: str, tmp_path: Path) -> None:
    path = tmp_path / "libcart.so"
    done = invoke("export-libenv", "gymnasium:CartPole-v1", "--output", str(path))
    assert done.exit_code == 0, done.output
    assert "observation  observation: float32 [4]" in done.output
    assert "action       action: int32 []" in done.output
    assert path.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["libcart.so"]


def test_the_command_refuses_an_engine_that_libenv_cannot_carry(tmp_path: Path, sample: str) -> None:
    done = invoke("export-libenv", f"libenv:{sample}", "--output", str(tmp_path / "libx.so"))
    assert done.exit_code == 1
    assert "cannot reset one env while the others hold" in done.output
    assert "num=1" in done.output
    assert "export-libenv --no-check writes it" in done.output
    assert not list(tmp_path.iterdir())


def test_a_library_is_not_written_where_there_is_no_folder(compiler: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        build("toy", tmp_path / "nowhere" / "libtoy.so", options={})


def test_without_a_compiler_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra, match="apt install gcc"):
        build("toy", tmp_path / "libtoy.so", options={})


def test_any_text_can_stand_in_a_library(compiler: str, tmp_path: Path) -> None:
    engine = 'toy:a"b\\n%s??=\n1ä\\'
    build(engine, tmp_path / "libx.so", options={engine: engine})
    assert engine.encode() in (tmp_path / "libx.so").read_bytes()
