"""Values of the command line, `parity` of steps, and `record` and `replay` as a user types them."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import Result

import lucky_transport
from lucky_transport.process import unique_name
from lucky_transport_migration.cli.arguments import METADATA
from lucky_transport_migration.recording.entries import Header, Recording, line_of
from tests.support.command import invoke, json_of, output_of, python
from tests.support.fixtures.migration_evidence import rows_in


@pytest.mark.parametrize(
    ("command", "text", "complaint"),
    [
        ("bench --between", "grpc,,shm", "empty name"),
        ("bench --between", "shm,grpc,shm", "names 'shm' twice"),
        ("bench --num-envs", "1,many", "'many' in '1,many' is no whole number"),
        ("bench --num-envs", "0", "no whole number from 1"),
        ("bench --num-envs", "-4", "no whole number from 1"),
        ("bench --num-envs", "4,4", "names 4 twice"),
        ("bench --num-envs", "", "no whole number"),
        ("bench --wait", "spin,nap", "'nap' is not one of adaptive, block, spin"),
        ("parity --options", "{", "is no JSON"),
        ("parity --options", "[1]", "is no JSON object"),
    ],
)
def test_a_wrong_value_is_named(command: str, text: str, complaint: str) -> None:
    assert complaint in " ".join(output_of(invoke(*command.split(), text), 2).split())


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("authorization=Bearer a=b", ("authorization", "Bearer a=b")),
        ("team=", ("team", "")),
        ("authorization=$TOKEN", ("authorization", "from the environment")),
        ("authorization=@token", ("authorization", "from a file")),
        ("key-bin=AAE=", ("key-bin", b"\0\1")),
        ("key-bin=AAE", ("key-bin", b"\0\1")),
        ("key-bin=$BYTES", ("key-bin", b"\0\1")),
        ("key-bin=@raw", ("key-bin", b"\xff\n")),
    ],
)
def test_metadata_are_given_as_text_a_file_or_a_variable(
    text: str, pair: tuple[str, str | bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "from the environment")
    monkeypatch.setenv("BYTES", "AAE=")
    (tmp_path / "token").write_text("from a file\n")
    (tmp_path / "raw").write_bytes(b"\xff\n")
    assert METADATA.convert(text, None, None) == pair


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hush-hush", "KEY=VALUE, KEY=@FILE or KEY=\\$VARIABLE"),
        ("authorization=$LUCKY_NO_SUCH", "authorization: no variable 'LUCKY_NO_SUCH' in the environment"),
        ("authorization=@no/such/file", "authorization: .*No such file or directory: 'no/such/file'"),
        ("Authorization=hush-hush", "'Authorization' is no key of metadata"),
        ("=hush-hush", "'' is no key of metadata"),
        ("grpc-timeout=hush-hush", "'grpc-timeout' is no key of metadata"),
        ("authorization=hush-hush\xe9", "authorization: its value is no printable ASCII; .* -bin"),
        ("authorization=hush-hush\n", "authorization: its value is no printable ASCII"),
        ("key-bin=hush-hush", "key-bin: its value is no base64"),
    ],
)
def test_wrong_metadata_are_named_and_no_value_is_shown(text: str, complaint: str) -> None:
    with pytest.raises(click.BadParameter, match=complaint) as caught:
        METADATA.convert(text, None, None)
    assert "hush" not in str(caught.value)


def test_one_pattern_of_methods_is_taken_and_several_are_refused() -> None:
    text = output_of(invoke("parity", "--method", "*/GetEntity", "--method", "*/ListEntities"), 2)
    assert "2 patterns; give one that fits all" in text


PROGRAM = """
import sys, lucky_transport
with lucky_transport.make() as env:
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(10):
        env.step(env.action_space.sample())
with lucky_transport.connect() as client:
    client.scene.list_entities()
sys.exit(7)
"""


def replay(*arguments: object) -> Result:
    return invoke("replay", *map(str, arguments))


record = partial(python, "-m", "lucky_transport", "record")


@pytest.fixture
def fresh() -> Iterator[str]:
    with lucky_transport.serve("toy", f"inproc://{unique_name()}", num_envs=2, seed=5) as serving:
        yield str(serving.endpoints[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a program that was recorded."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(PROGRAM)
    file = folder / "run.jsonl.gz"
    with lucky_transport.serve("toy", f"shm://{unique_name()}", num_envs=2, seed=5) as serving:
        program = (sys.executable, folder / "program.py")
        done = record(serving.endpoints[0], "--out", file, "--seed", "5", "--", *program)
    assert done.returncode == 7, done.stderr  # as the program says
    return file


@pytest.mark.exhaustive
def test_a_program_is_recorded_and_its_exit_status_is_its_own(run: Path) -> None:
    recording = Recording(run)
    assert (recording.header.engine, recording.header.transport, recording.header.seed) == ("toy", "shm", 5)
    assert len(list(recording.entries())) == 13


def test_a_recording_is_replayed_on_another_transport(run: Path, fresh: str, tmp_path: Path) -> None:
    found = json_of(replay(run, fresh, "--evidence", tmp_path / "seen", "--json"))
    assert found["equal"] is True
    assert found["calls"] == found["compared"] == 13
    rows = rows_in(tmp_path / "seen")
    assert [row["kind"] for row in rows] == ["replay"] * 13
    assert {row["authority"]["transport"] for row in rows} == {"shm"}
    assert all(row["at"] for row in rows)


def test_a_recording_without_a_call_needs_no_engine(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text(line_of(Header("grpc")))
    assert "NOTHING COMPARED" in output_of(replay(empty, "shm://no_engine_here"), 1)


@pytest.mark.exhaustive
def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").touch()
    done = record("shm://demo", "--out", tmp_path / "run.jsonl", "--", "true")
    assert done.returncode == 1
    assert "is there already" in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(("program", "status"), [("no-such-program", 127), (__file__, 126)])
def test_a_program_that_cannot_be_run_ends_as_in_a_shell(tmp_path: Path, program: str, status: int) -> None:
    done = record("shm://demo", "--out", tmp_path / "run.jsonl", "--", program)
    assert done.returncode == status
    assert f"{program!r} cannot be run" in done.stderr
