"""docs/how-to/extend.md, typed as it stands: its files in an empty folder, its commands in an own environment."""

import importlib
import os
import re
import select
import shlex
import site
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from lucky_transport.testing.contract import EngineContract
from tests.support.waiting import PATIENCE_S

GUIDE = (Path(__file__).parents[2] / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
SECTION = GUIDE.partition("## An engine of your own\n")[2].partition("\n### ")[0]


def _commands() -> list[str]:
    """The command lines of the section, without what is said of them."""
    (block,) = re.findall(r"^```text\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    return [line.partition(" #")[0].strip() for line in block.splitlines()]


def _command(start: str) -> list[str]:
    (line,) = (line for line in _commands() if line.startswith(start))
    return shlex.split(line)


class Environment:
    """A virtual environment that sees the packages of this one, and a folder with the files of the guide."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lucky-transport-loft"
        self._environment = folder / "environment"
        venv.create(self._environment, with_pip=False, symlinks=True)
        (packages,) = self._environment.glob("lib/python*/site-packages")
        seen = [path for path in sys.path if path and Path(path).is_dir() and Path(path).name.endswith("-packages")]
        lines = [f"import site; site.addsitedir({path!r})" for path in dict.fromkeys([*seen, *site.getsitepackages()])]
        (packages / "outside.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.python = self._environment / "bin" / "python"
        script = self._environment / "bin" / "lucky-transport"  # as pip writes it
        script.write_text(f"#!{self.python}\nfrom lucky_transport.cli.main import main\nmain()\n", encoding="utf-8")
        script.chmod(0o755)

    def write_files(self) -> None:
        """Write every block that names its file."""
        blocks = re.findall(r'^```\w+ title="(\S+)"\n(.*?)^```$', SECTION, re.MULTILINE | re.DOTALL)
        assert [name for name, _ in blocks] == [
            "pyproject.toml",
            "lucky_transport_loft/plugin.py",
            "lucky_transport_loft/engine.py",
            "test_loft.py",
        ]
        for name, text in blocks:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        """Start a command of the guide, in its folder."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("LUCKY_", "PYTEST_", "PYTHON"))}
        search = f"{self._environment / 'bin'}:{os.environ['PATH']}"
        environ = kept | {"PATH": search, "VIRTUAL_ENV": str(self._environment)}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, env=environ, stdout=pipe, stderr=pipe, text=True)

    def run(self, command: list[str]) -> str:
        """Run a command of the guide that must succeed, and return what it printed."""
        process = self.start(command)
        try:
            said, complained = process.communicate(timeout=4 * PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, said + complained
        return said


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Where the guide's author would be after its first command; pip takes nothing from a network."""
    for module in ("setuptools", "pip"):  # in this order: pip keeps a later setuptools from its own distutils
        pytest.importorskip(module)
    environment = Environment(tmp_path_factory.mktemp("guide"))
    environment.write_files()
    install, *what = _command("pip install")[1:]
    assert (install, what) == ("install", ["-e", ".", "pytest"])
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    environment.run([str(environment.python), "-m", "pip", "install", *offline, "-e", "."])
    return environment


def test_the_engine_is_listed_and_loads(user: Environment) -> None:
    said = user.run(_command("lucky-transport ls engines"))
    (line,) = (line for line in said.splitlines() if "loft" in line)
    assert "a loft of pigeons" in line


def test_its_tests_pass(user: Environment) -> None:
    said = user.run([*_command("python -m pytest"), "-p", "no:cacheprovider", "-W", "error"])
    counted = re.search(r"(\d+) passed", said)
    assert counted is not None, said
    assert int(counted[1]) == sum(name.startswith("test_") for name in dir(EngineContract))
    assert "skipped" not in said


def test_it_answers_the_same_over_grpc_and_shared_memory(user: Environment) -> None:
    pytest.importorskip("grpc")
    said = user.run(_command("lucky-transport parity"))
    assert "EQUAL: all" in said
    assert "engine 'loft' offers 8 methods; the other" in said


def test_parity_says_in_one_line_that_an_engine_has_no_services(user: Environment) -> None:
    pytest.importorskip("grpc")
    engine = user.folder / "lucky_transport_loft" / "engine.py"
    kept = engine.read_text(encoding="utf-8")
    services = 'return {"/lucky_transport.v1.BatchService/SetSeeds": self._set_seeds}'
    assert kept.count(services) == 1
    engine.write_text(kept.replace(services, "return {}"), encoding="utf-8")
    try:
        said = user.run(["lucky-transport", "parity", "loft", "--suite", "commands", "--count", "2"])
    finally:
        engine.write_text(kept, encoding="utf-8")
    lines = " ".join(said.split())
    assert "engine 'loft' has no services of its own: AgentService comes with every engine; the other" in lines
    assert "never accepted" not in lines
    assert "CameraService" not in lines


def test_it_is_measured(user: Environment) -> None:
    for module in ("grpc", "hdrh", "matplotlib", "rich"):
        pytest.importorskip(module)
    assert "Shared memory" in user.run(_command("lucky-transport bench"))


def test_it_is_served_with_a_seed_and_options(user: Environment) -> None:
    name = unique_name()
    command = _command("lucky-transport serve")
    assert command[command.index("--seed") + 1] == "7"
    process = user.start([f"shm://{name}" if part == "shm://loft" else part for part in command])
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], PATIENCE_S)[0], "the engine is not ready"
        assert process.stdout.readline().startswith(f"ready shm://{name}")
        with lucky_transport.make(endpoint=f"shm://{name}") as env:
            observations, _ = env.reset()
            assert env.get_attr("max_episode_steps") == (50,) * 4
            again, _ = env.reset(seed=7)
            assert again.tobytes() == observations.tobytes()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_a_seeded_env_repeats_its_episodes(user: Environment) -> None:
    program = (
        "import lucky_transport\n"
        "for transport in ('shm', 'inproc'):\n"
        "    with lucky_transport.make('loft', 2, seed=3, transport=transport) as env:\n"
        "        env.action_space.seed(0)\n"
        "        print(env.reset(seed=5)[0].tolist(), env.step(env.action_space.sample())[1].tolist())\n"
    )
    first, second = user.run([str(user.python), "-W", "error", "-c", program]).splitlines()
    assert first == second


@pytest.fixture
def pigeon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The plugin module of the guide's transport."""
    package = tmp_path / "lucky_transport_pigeon"
    package.mkdir()
    (package / "__init__.py").touch()
    named = r'^```python title="lucky_transport_pigeon/(\w+)\.py"\n(.*?)^```$'
    for name, text in re.findall(named, GUIDE, re.MULTILINE | re.DOTALL):
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("lucky_transport_pigeon.plugin")
    for name in [name for name in sys.modules if name.partition(".")[0] == "lucky_transport_pigeon"]:
        del sys.modules[name]


def test_the_announcement_of_the_guides_transport_is_understood(pigeon: ModuleType) -> None:
    (transport,) = pigeon.lucky_transport_transports()
    assert (transport.name, transport.schemes) == ("pigeon", ("pigeon",))
