"""What a program is told where Ray itself fails; and the example of the page about Ray, as it stands."""

import re
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'lucky-transport[ray]'")

from lucky_transport import api
from lucky_transport.errors import NotReachable
from lucky_transport_ray import cluster
from tests.support.command import python, stdout_of
from tests.support.waiting import PATIENCE_S

ray: Any = pytest.importorskip("ray")
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "ray.md"


@pytest.mark.parametrize(
    "error", [ConnectionError("no answer"), Exception("The current node timed out during startup.")], ids=type
)
def test_a_ray_that_does_not_start_is_not_reachable(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**arguments: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "init", fails)
    with pytest.raises(NotReachable, match=f"no Ray cluster at this host: {error}.*ray start --head"):
        api.make(endpoint="ray:?engine=toy")
    assert not ray.is_initialized()


@pytest.fixture
def hangs() -> Generator[Any]:
    """A function that returns at the end of the test only."""
    ends = threading.Event()
    yield lambda **arguments: ends.wait()  # pyright: ignore[reportUnknownLambdaType]
    ends.set()


def test_an_end_of_ray_that_hangs_is_given_up(
    hangs: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(**arguments: Any) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(cluster, "_END_S", 0.01)
    monkeypatch.setattr(ray, "init", fails)
    monkeypatch.setattr(ray, "shutdown", hangs)
    with pytest.raises(NotReachable, match="no answer"):
        api.make(endpoint="ray:?engine=toy")
    assert "ray: what it started here may be left, it takes longer than 0.01 s to end" in caplog.text


def test_the_example_starts_ray_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    program = tmp_path / "example.py"
    # Where it hangs, it says in which call.
    prelude = f"import faulthandler\nfaulthandler.dump_traceback_later({3 * PATIENCE_S}, exit=True)\n"
    program.write_text(f"{prelude}{example}\nassert not ray.is_initialized()\n", encoding="utf-8")
    done = python(program, timeout=4 * PATIENCE_S, cwd=PAGE.parents[2])
    if "no Ray cluster at this host" in done.stderr:  # Ray gives its processes 30 s, which a loaded machine exceeds
        pytest.skip(f"Ray did not start here: {done.stderr.splitlines()[-1]}")
    assert stdout_of(done).startswith("(8, "), done.stdout
