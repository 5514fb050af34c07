"""A transport from a package of somebody else's is found, works, and passes the contract suite unchanged."""

import os
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.support.command import python, stdout_of

HERE = Path(__file__).parents[2] / "outside_plugin"
PACKAGE = "lucky_transport_mailbox"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like site-packages after `pip install lucky-transport-mailbox`."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(HERE / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / f"{PACKAGE}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [f"{name} = {target}" for name, target in project["entry-points"]["lucky_transport"].items()]
    (info / "entry_points.txt").write_text("[lucky_transport]\n" + "\n".join(points) + "\n")
    return folder


def _run(site: Path, *arguments: str) -> str:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("LUCKY_", "PYTEST_"))}
    environ |= {"PYTHONPATH": str(site), "TMPDIR": str(site)}
    return stdout_of(python(*arguments, env=environ, timeout=110))


def test_it_is_found_without_being_imported(site: Path) -> None:
    program = (
        "import sys; from lucky_transport.registry import registry; found = registry()\n"
        "print(found.transport_of_scheme('mailbox').summary, found.broken)\n"
        "print('lucky_transport_mailbox.client' in sys.modules)"
    )
    assert _run(site, "-c", program).splitlines() == ["pickled messages over a unix socket {}", "False"]


def test_it_passes_the_contract_suite_unchanged(site: Path) -> None:
    """In its own process, because a process reads its plugins once."""
    options = [
        "-q",
        "-rs",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(HERE),
        "-c",
        str(HERE / "pyproject.toml"),
    ]
    said = _run(site, "-m", "pytest", *options, str(HERE / "contract_of_mailbox.py"))
    counted = re.search(r"(\d+) passed", said)
    assert counted is not None, said
    assert int(counted[1]) > 60  # loops within a test do not count
    why = [line.rpartition(": ")[2] for line in said.splitlines() if line.startswith("SKIPPED")]
    without = ("streams", "sessions", "async_envs")
    assert set(why) <= {f"transport 'mailbox' declares no {what}" for what in without}, said


def test_an_engine_process_is_started_over_it(site: Path) -> None:
    program = (
        "import lucky_transport, os\n"
        "with lucky_transport.make('toy', 2, transport='mailbox') as env:\n"
        "    env.reset(seed=1); env.step(env.action_space.sample()); print(env)"
    )
    said = _run(site, "-W", "error", "-c", program)
    assert said == "VectorEnv(toy, num_envs=2, transport=mailbox, autoreset_mode=NEXT_STEP)\n"
    assert not list(site.glob("*.sock"))
