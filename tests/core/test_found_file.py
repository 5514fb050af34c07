"""Configuration that a search finds: where it ends, and whose files are obeyed.

Run it as root: a second user makes the other user's files.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lucky_transport.config import Settings, load_settings, load_table
from lucky_transport.errors import ConfigError
from lucky_transport.found_file import find_up
from tests.support.command import python
from tests.support.foreign_files import MakeForeignFile, foreign_uid

SETTINGS = "endpoint = 'shm://planted'\n"
NAME = "lucky_transport.toml"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory in which every user may make files, as /tmp is."""
    directory = Path(tempfile.mkdtemp(prefix="lucky-test-"))
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory)


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
