"""The command line as a user meets it: in a process of its own, which is a fork where a start proves nothing more."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from lucky_transport.config import Settings
from lucky_transport.process import unique_name
from lucky_transport.shm.segment import segment
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.support.command import invoke
from tests.support.forked_programs import CommandLine, Program, Programs

#: Runs `lucky-transport ARGUMENTS...` to its end.
Run = Callable[..., "subprocess.CompletedProcess[str]"]

#: Starts `lucky-transport ARGUMENTS...` in the background.
Start = Callable[..., "subprocess.Popen[str] | Program"]

#: Runs a command that is refused; returns its exit status and what it printed.
Refusal = Callable[..., tuple[int, str]]

#: Makes a segment of this test's own and returns it.
MakeSegment = Callable[..., segment.Segment]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment without anybody's settings."""
    for key in Settings.__dataclass_fields__:
        monkeypatch.delenv(f"LUCKY_{key.upper()}", raising=False)
    return dict(os.environ)


@pytest.fixture
def command_line(environ: dict[str, str], tmp_path: Path) -> Iterator[CommandLine]:
    """Commands that are started."""
    with closing(CommandLine(environ, tmp_path)) as started:
        yield started


@pytest.fixture
def forked(environ: dict[str, str], tmp_path: Path, served_programs: Programs) -> Iterator[CommandLine]:
    """Commands that are forks."""
    with closing(CommandLine(environ, tmp_path, served_programs)) as forks:
        yield forks


@pytest.fixture
def run(forked: CommandLine) -> Run:
    return forked.run


@pytest.fixture
def refusal(environ: dict[str, str]) -> Refusal:
    """Run a command that is refused, in this process; return its exit status and what it printed, as one line."""

    def refused(*arguments: str) -> tuple[int, str]:
        done = invoke(*arguments)
        assert isinstance(done.exception, SystemExit), done.exception  # anything else would be a traceback
        return done.exit_code, " ".join(done.output.split())

    return refused


@pytest.fixture
def start(forked: CommandLine) -> Start:
    return forked.start


@pytest.fixture
def make_segment() -> Iterator[MakeSegment]:
    """Segments in the real directory, under names of this test's own."""
    with ExitStack() as made:

        def make(num_envs: int = 3, *, ready: bool = True) -> segment.Segment:
            spec = BatchSpec("toy", num_envs, ArraySpec(shape=(4,)), ArraySpec(shape=(2,), low=-1.0, high=1.0))
            one = segment.create(unique_name(), spec)
            made.callback(one.unlink)
            if ready:
                one.publish_ready()
            return one

        yield make
