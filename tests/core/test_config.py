"""Settings: argument > environment > lucky_transport.toml > default; whose files are obeyed; errors name the place."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import config
from lucky_transport.cli.serve import options_of
from lucky_transport.config import (
    Launch,
    Settings,
    environment,
    export,
    load_launch,
    load_settings,
    load_table,
    recent_settings,
    runtime_directories,
)
from lucky_transport.errors import ConfigError, SpecError
from lucky_transport.found_file import find_up
from lucky_transport.nesting import parse_json, parse_toml
from lucky_transport.spec.batch_spec import BatchSpec
from tests.support.command import python
from tests.support.foreign_files import MakeForeignFile, foreign_uid
from tests.support.waiting import until


def _write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_each_source_beats_the_ones_behind_it(tmp_path: Path) -> None:
    own = _write(tmp_path, "lucky_transport.toml", "transport = 'b'\nshm_name = 'file'\nendpoint = 'shm://file'\n")
    environ = {"LUCKY_SHM_NAME": "environment", "LUCKY_ENDPOINT": "shm://environment"}
    settings = load_settings({"endpoint": "shm://argument"}, environ=environ, directory=tmp_path)
    assert (settings.wait, settings.transport, settings.shm_name) == ("adaptive", "b", "environment")
    assert settings.endpoint == "shm://argument"
    assert settings.sources == {
        "transport": str(own),
        "shm_name": "environment variable LUCKY_SHM_NAME",
        "endpoint": "argument",
    }


def test_recent_settings_follow_variables_at_once_files_soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert recent_settings().wait == "adaptive"
    monkeypatch.setenv("LUCKY_WAIT", "block")
    assert recent_settings().wait == "block"
    monkeypatch.delenv("LUCKY_WAIT")
    _write(tmp_path, "lucky_transport.toml", "wait = 'spin'\n")
    until(lambda: recent_settings().wait == "spin")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    _write(tmp_path / "below", "lucky_transport.toml", "wait = 'block'\n")
    assert recent_settings().wait == "block"


def test_recent_settings_stay_while_they_are_recent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "_RECENT_S", 3600.0)
    before = recent_settings()
    _write(tmp_path, "lucky_transport.toml", "wait = 'spin'\n")
    assert recent_settings() is before


def test_recent_settings_do_without_a_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert recent_settings() == Settings()


def test_an_argument_that_is_none_and_an_empty_variable_count_as_not_given(tmp_path: Path) -> None:
    settings = load_settings({"wait": None}, environ={"LUCKY_WAIT": ""}, directory=tmp_path)
    assert settings.wait == "adaptive"


@pytest.mark.parametrize(
    ("value", "read"), [("1", True), ("0", False), ("TRUE", True), ("no", False), ("on", True), ("off", False)]
)
def test_switches_are_read_as_people_write_them(value: str, read: bool, tmp_path: Path) -> None:
    assert load_settings(environ={"LUCKY_GRPC_SERVE_ONLY": value}, directory=tmp_path).grpc_serve_only is read


@given(st.floats(0, 1e6))
def test_timeouts_are_numbers_of_seconds(seconds: float) -> None:
    settings = load_settings({"step_timeout_s": seconds}, environ={"LUCKY_COMMAND_TIMEOUT_S": str(seconds)})
    assert settings.step_timeout_s == settings.command_timeout_s == seconds


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("wait", "lazy", "one of 'spin', 'adaptive', 'block'"),
        ("step_timeout_s", "soon", "seconds >= 0, e.g. 60"),
        ("step_timeout_s", "-1", "seconds >= 0, e.g. 60"),
        ("step_timeout_s", "nan", "seconds >= 0, e.g. 60"),
        ("connect_timeout_s", "inf", "seconds >= 0, e.g. 10"),
        ("grpc_serve_only", "perhaps", "1 or 0"),
        ("observation_slots", "0", "a number from 1 to 64, e.g. 2"),
    ],
)
def test_a_wrong_variable_is_named_with_value_and_remedy(key: str, value: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(environ={f"LUCKY_{key.upper()}": value}, directory=tmp_path)
    assert str(refused.value) == (f"environment variable LUCKY_{key.upper()}: {key} = {value!r}; expected {expected}")


@pytest.mark.parametrize(("key", "value"), [("endpoint", 5), ("transport", ["shm"]), ("shm_name", b"x"), ("wait", {})])
def test_a_wrong_argument_is_named(key: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^argument: {key} = .*; expected "):
        load_settings({key: value}, environ={}, directory=tmp_path)


def test_tables_in_the_file_belong_to_others(tmp_path: Path) -> None:
    """The migration kit keeps its stages in tables of the same file."""
    _write(tmp_path, "lucky_transport.toml", "wait = 'spin'\n[stages]\nStep = 'shadow'\n")
    assert load_settings(environ={}, directory=tmp_path).wait == "spin"


def test_sockets_lie_in_the_users_runtime_directory_else_in_tmp(tmp_path: Path) -> None:
    fallback = Path(f"/tmp/lucky-{os.getuid()}")
    assert runtime_directories({}) == (fallback,)
    assert runtime_directories({"XDG_RUNTIME_DIR": str(tmp_path)}) == (tmp_path / "lucky_transport", fallback)
    for useless in ("", "relative/path", str(tmp_path / "missing")):
        assert runtime_directories({"XDG_RUNTIME_DIR": useless}) == (fallback,)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("launch", [Launch(), Launch("/tmp/x", "7", True), Launch(parent="0")])
def test_what_a_launcher_says_is_what_its_program_reads(launch: Launch) -> None:
    assert load_launch(launch.variables()) == launch


def test_without_a_launcher_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_launch({}) == load_launch() == Launch()
    monkeypatch.setenv("LUCKY_RUN_PARENT", "7")
    assert load_launch() == Launch(parent="7")


def test_what_is_exported_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_WAIT", "spin")
    copy = environment()
    export({"LUCKY_WAIT": "block"})
    assert (copy["LUCKY_WAIT"], environment()["LUCKY_WAIT"], load_settings().wait) == ("spin", "block", "block")


def test_a_table_of_the_nearest_file_is_read_as_it_stands(tmp_path: Path) -> None:
    path = _write(tmp_path, "lucky_transport.toml", '[parity.fields]\n"A.b" = { abs = 1 }\n')
    below = tmp_path / "below"
    below.mkdir()
    assert load_table("parity.fields", below) == ({"A.b": {"abs": 1}}, f"{path}: [parity.fields]")
    assert load_table("gate", below) == ({}, f"{path}: [gate]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gate = 3", r": \[gate\]: gate = 3; write a table, \[gate\]"),
        ("gate =", r"lucky_transport.toml: .*mend the file"),
    ],
)
def test_what_is_no_table_is_said(tmp_path: Path, text: str, said: str) -> None:
    _write(tmp_path, "lucky_transport.toml", text)
    with pytest.raises(ConfigError, match=said):
        load_table("gate", tmp_path)


def test_a_misspelt_setting_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"argument: unknown setting 'wiat'; did you mean 'wait'\? known settings: "):
        load_settings({"wiat": "spin"}, environ={}, directory=tmp_path)
    path = _write(tmp_path, "lucky_transport.toml", "waitt = 'spin'")
    with pytest.raises(ConfigError, match=rf"^{path}: unknown setting 'waitt'; did you mean 'wait'\?"):
        load_settings(environ={}, directory=tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "said", "remedy"),
    [
        ("ENDPOINT", "1.2.3.4:5", "endpoint '1.2.3.4:5' names no transport", "did you mean grpc://1.2.3.4:5?"),
        ("STREAM_FPS", "a/b=5 C=x", "'C=x' is no limit of a stream", "write NAME=RATE, e.g. CameraService=10"),
    ],
)
def test_what_is_no_value_is_named_with_its_source_and_its_own_remedy(
    name: str, value: str, said: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(environ={f"LUCKY_{name}": value}, directory=tmp_path)
    assert str(refused.value) == f"environment variable LUCKY_{name}: {said}; {remedy}"
    assert refused.value.hint == remedy


def test_a_variable_that_is_no_setting_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environ = {"LUCKY_TRANSPRT": "shm", "LUCKY_COLOUR": "red", "LUCKYENGINE_HOME": "/opt"}
    for _ in range(2):
        load_settings(environ=environ, directory=tmp_path)
    guessed, unknown = (record.getMessage() for record in caplog.records)
    assert guessed.endswith("LUCKY_TRANSPRT has no effect: no such setting; did you mean 'LUCKY_TRANSPORT'?")
    assert "LUCKY_COLOUR has no effect: no such setting; known: LUCKY_TRANSPORT, LUCKY_ENDPOINT, " in unknown


def test_variables_of_tests_and_of_the_launcher_are_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = ["LUCKY_PEER_GYM3", "LUCKY_CI_BOUNDED", "LUCKY_OPENENV_TOKEN", "LUCKY_WAIT", *Launch().variables()]
    load_settings(environ=dict.fromkeys(names, ""), directory=tmp_path)
    assert caplog.records == []


def test_without_a_file_every_table_is_empty(tmp_path: Path) -> None:
    assert load_table("gate", tmp_path) == ({}, "lucky_transport.toml: [gate]")


#: Just too deep; deep enough for a walk by recursion to fail and for a parser not to; far too deep for any parser.
DEPTHS = [65, 400, 900, 100_000]
MEND = "{}/lucky_transport.toml: nested deeper than 64 levels; mend the file"


def _list(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


def _object(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("nest", [_list, _object])
@pytest.mark.parametrize("depth", DEPTHS)
def test_json_that_is_nested_too_deeply_is_a_value_error(depth: int, nest: Callable[[int], str]) -> None:
    for text in (nest(depth), nest(depth).encode()):
        with pytest.raises(ValueError, match="nested deeper than 64 levels"):
            parse_json(text)


@pytest.mark.parametrize("nest", [_list, _object])
def test_json_of_64_levels_and_of_many_values_is_read(nest: Callable[[int], str]) -> None:
    for text in (nest(64), json.dumps([[{}, []]] * 1000)):
        assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize("text", [lambda depth: f"a = {_list(depth)}", lambda depth: f"{'.'.join('a' * depth)} = 1"])
@pytest.mark.parametrize("depth", DEPTHS[:-1])
def test_toml_that_is_nested_too_deeply_is_a_value_error(depth: int, text: Callable[[int], str]) -> None:
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        parse_toml(text(depth))


#: What reads JSON or TOML of others -> the error with which it refuses text of that depth.
READERS: dict[str, tuple[Callable[[Path, int], Any], type[Exception], str]] = {
    "handshake": (lambda _, depth: BatchSpec.from_json(_object(depth)), SpecError, "64 levels"),
    "command line": (lambda _, depth: options_of(_object(depth)), click.BadParameter, "64 levels"),
    "settings": (lambda folder, _: load_settings(environ={}, directory=folder), ConfigError, MEND),
    "a table": (lambda folder, _: load_table("stages", folder), ConfigError, MEND),
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_what_is_nested_too_deeply(reader: str, depth: int, tmp_path: Path) -> None:
    _write(tmp_path, "lucky_transport.toml", f"a = {_list(depth)}")
    read, refusal, words = READERS[reader]
    with pytest.raises(refusal, match=words.format(tmp_path)) as refused:
        read(tmp_path, depth)
    assert len(str(refused.value)) < 1000 or reader == "command line"


# --- files that a search finds: run it as root, a second user makes the other user's ---


SETTINGS = "endpoint = 'shm://planted'\n"
NAME = "lucky_transport.toml"


def _to_another_group(path: Path) -> None:
    try:
        os.chown(path, -1, foreign_uid())
    except PermissionError:
        pytest.skip("only root can give a file to any group")


def _project(parent: Path) -> Path:
    project = parent / "project"
    project.mkdir(0o755)
    return project


def _endpoint(directory: Path) -> str:
    return load_settings(environ={}, directory=directory).endpoint


@pytest.mark.exhaustive
def test_what_another_user_plants_above_is_not_obeyed(shared: Path, make_foreign_file: MakeForeignFile) -> None:
    make_foreign_file(shared / NAME, "file", SETTINGS.encode())
    project = _project(shared)
    assert _endpoint(project) == _endpoint(_project(project)) == ""


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775, 0o757])
def test_the_search_ends_below_a_directory_that_others_may_write(mode: int, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(SETTINGS)
    project = _project(tmp_path)
    assert _endpoint(project) == "shm://planted"
    _to_another_group(tmp_path)
    tmp_path.chmod(mode)
    assert _endpoint(project) == ""


def test_the_search_ends_where_the_owner_changes(tmp_path: Path, make_foreign_file: MakeForeignFile) -> None:
    (tmp_path / NAME).write_text(SETTINGS)
    project = _project(tmp_path)
    os.chown(project, foreign_uid(), foreign_uid())
    assert _endpoint(project) == ""


def _home(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("HOME", str(root))


def _home_behind_a_link(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    monkeypatch.setenv("HOME", str(root.parent / "link"))


def _repository(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    (root / ".git").mkdir()


def _worktree(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    (root / ".git").touch()


@pytest.mark.parametrize("make_root", [_home, _home_behind_a_link, _repository, _worktree])
def test_the_search_ends_at_the_home_directory_and_at_the_root_of_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_root: Callable[[pytest.MonkeyPatch, Path], None]
) -> None:
    root = _project(tmp_path)
    inner = _project(root)
    (tmp_path / NAME).write_text(SETTINGS)
    assert _endpoint(inner) == "shm://planted"
    make_root(monkeypatch, root)
    assert _endpoint(root) == _endpoint(inner) == ""
    (root / NAME).write_text("endpoint = 'shm://root'")
    assert _endpoint(inner) == "shm://root"


def test_a_working_directory_that_is_gone_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = _project(tmp_path)
    monkeypatch.chdir(project)
    (tmp_path / NAME).write_text(SETTINGS)
    project.rmdir()
    assert find_up(NAME) is None
    assert load_settings(environ={}) == Settings()


def test_the_search_follows_where_a_link_leads_not_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(SETTINGS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".git").mkdir()
    (tmp_path / "link").symlink_to(elsewhere)
    assert find_up(NAME, tmp_path / "link") is None


def _refused(directory: Path, *said: str) -> None:
    for load in (lambda: load_settings(environ={}, directory=directory), lambda: load_table("stages", directory)):
        with pytest.raises(ConfigError) as refused:
            load()
        assert all(part in str(refused.value) for part in (str(directory / NAME), *said))


@pytest.mark.exhaustive
def test_another_users_file_is_refused_by_name_with_its_owner(shared: Path, make_foreign_file: MakeForeignFile) -> None:
    for text in (SETTINGS, "[stages]\ndefault = 'shm'\n", "no toml"):
        path = shared / NAME
        make_foreign_file(path, "file", text.encode())
        path.chmod(0o644)
        _refused(shared, f"user {foreign_uid()}", "chown")
        path.unlink()


@pytest.mark.exhaustive
def test_a_link_to_a_file_of_another_user_is_refused(shared: Path, make_foreign_file: MakeForeignFile) -> None:
    make_foreign_file(shared / "theirs", "file", SETTINGS.encode())
    (shared / NAME).symlink_to(shared / "theirs")
    _refused(shared, f"user {foreign_uid()}")


@pytest.mark.parametrize("mode", [0o666, 0o646, 0o664, 0o622])
def test_a_file_that_others_may_write_is_refused_by_name_with_its_mode(mode: int, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(SETTINGS)
    _to_another_group(path)
    path.chmod(mode)
    _refused(tmp_path, f"{mode:04o}", "chmod go-w")


# What is imported is imported before: the other user may not be able to read Python's own files.
_AS_A_USER = """
import os, sys, tomllib
from lucky_transport.config import load_settings
uid, gid = map(int, sys.argv[1:3])
os.setgroups([]); os.setgid(gid); os.setuid(uid); os.chdir(sys.argv[3])
print(load_settings(environ={}).endpoint)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("owner", ["itself", "root"])
def test_a_user_obeys_its_own_file_in_its_private_group_and_one_of_root(
    owner: str, shared: Path, make_foreign_file: MakeForeignFile
) -> None:
    uid = foreign_uid()
    project = _project(shared)
    path = project / NAME
    path.write_text(SETTINGS)
    if owner == "itself":  # as with umask 002
        for one, mode in ((project, 0o775), (path, 0o664)):
            os.chown(one, uid, uid)
            one.chmod(mode)
    inner = _project(project)
    os.chown(inner, project.stat().st_uid, -1)
    ran = python("-c", _AS_A_USER, uid, uid, inner)
    assert (ran.stdout, ran.stderr) == ("shm://planted\n", "")
