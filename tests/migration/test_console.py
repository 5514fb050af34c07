"""What a command shows to a person, and what it writes: names of others stay names, files are whole."""

import io
import resource
import threading
from pathlib import Path

import pytest
from rich.console import Console

from lucky_transport.cli.tables import show
from lucky_transport.errors import ConfigError
from lucky_transport_migration import console as console_module
from lucky_transport_migration.console import print_text, text_of, watched
from lucky_transport_migration.table import write_files
from tests.support.waiting import until

HOSTILE = "[red]a|b\n\x1b[31mc[/nothing]"
SHOWN = r"[red]a|b\n\x1b[31mc[/nothing]"


@pytest.fixture
def console() -> Console:
    """A terminal of 200 columns that keeps what it gets, without colours."""
    return Console(file=io.StringIO(), force_terminal=True, width=200, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_sentence_shows_a_name_as_it_is(console: Console) -> None:
    print_text(console, f"between {HOSTILE}", "bold")
    console.print(text_of(HOSTILE))
    text = written(console).replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert text.count(SHOWN) == 2
    assert "\x1b[31mc" not in text


def test_a_table_shows_names_as_they_are_and_numbers_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    show(HOSTILE, ("path", HOSTILE), [(HOSTILE, "1"), ("shm", "1,000")], numbers=True)
    title, heads, *rows = capsys.readouterr().out.splitlines()
    assert title == SHOWN
    assert heads.endswith(SHOWN)
    assert SHOWN in rows[0]
    assert len(rows[0]) == len(rows[1]) == len(heads)
    assert rows[1].endswith("  1,000")


def test_a_bar_shows_the_name_of_a_file_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr("lucky_transport_migration.console.Console", lambda **_: screen)
    with watched("scan", 2) as advance:
        advance(HOSTILE)
    assert SHOWN in written(screen)


def test_a_file_gets_a_line_of_progress_while_nothing_else_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_module, "_FIRST_S", 0.001)
    with watched("comparing calls", 300) as advance:
        advance()
        advance(HOSTILE)
        shown = until(lambda: [line for line in capsys.readouterr().err.splitlines() if "2 of 300 done" in line])
    assert shown[0].startswith(f"{SHOWN}: ")
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def test_a_report_that_cannot_be_written_leaves_the_former_one(tmp_path: Path) -> None:
    write_files(tmp_path, {"page.html": "the former page"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))  # as a disk that is full
    try:
        with pytest.raises(ConfigError, match="File too large"):
            write_files(tmp_path, {"page.html": "a page that is longer than that"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"page.html": "the former page"}
