"""Finding and loading: by path, by folder and name, by name; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_transport.errors import EngineFailed, SpecError, UnknownName
from lucky_transport_libenv.library import Library, file_name, find


@pytest.mark.parametrize(
    ("platform", "name"), [("linux", "libmaze.so"), ("darwin", "libmaze.dylib"), ("win32", "maze.dll")]
)
def test_a_library_is_called_as_each_system_calls_it(platform: str, name: str) -> None:
    assert file_name("maze", platform) == name


def test_a_library_is_found_by_its_path_and_by_folder_and_name(sample: str) -> None:
    assert find(sample) == sample
    assert find(str(Path(sample).parent / "sample")) == sample


def test_a_relative_path_becomes_an_absolute_one(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(sample).parent)
    assert find("libsample.so") == find("./sample") == find("sample") == sample


def test_a_bare_name_is_left_to_the_systems_loader() -> None:
    assert find("nobody_has_this") == file_name("nobody_has_this")


@pytest.mark.parametrize("name", ["", "/nowhere/libmaze.so", "nowhere/maze", "nobody_has_this"])
def test_a_library_that_is_nowhere_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownName, match=name or "needs a library"):
        Library(name)


def test_a_file_that_is_no_library_does_not_load(tmp_path: Path) -> None:
    path = tmp_path / "libtext.so"
    path.write_text("not an ELF file, though it has the name of one")
    with pytest.raises(EngineFailed, match="does not load"):
        Library(str(path))


def test_a_library_of_something_else_is_refused_by_what_it_lacks(compile_sample, tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int answer(void) { return 42; }")
    with pytest.raises(SpecError, match="exports no libenv_version"):
        Library(str(compile_sample("other", source=source)))


def test_another_version_is_refused_with_both_numbers(compile_sample) -> None:
    with pytest.raises(SpecError, match="version 2 of libenv, expected 1"):
        Library(str(compile_sample("newer", "-DSAMPLE_VERSION=2")))


def test_a_function_that_a_library_lacks_is_refused_by_name(sample: str) -> None:
    with pytest.raises(SpecError, match="exports no fly"):
        Library(sample).function("fly", None)
