"""Code bases as they are: links, pipes, other encodings, broken files, rights, too much nesting."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_migration.scan.scanner import files_of, scan


def test_a_loop_of_links_ends_and_a_file_is_read_once(tree: Any) -> None:
    root = tree({"a/b/c.py": "import grpc\n"})
    (root / "a/b/loop").symlink_to(root)
    (root / "z.py").symlink_to(root / "a/b/c.py")
    (root / "broken.py").symlink_to(root / "nowhere")
    assert [one.path for one in scan(root).findings] == ["a/b/c.py"]


def test_pipes_are_not_waited_for(tree: Any) -> None:
    root = tree({"a.py": "import grpc\n"})
    os.mkfifo(root / "pipe.py")
    assert len(scan(root).findings) == 1
    assert scan(root / "pipe.py").files == 0


def test_what_others_wrote_is_passed_over(tree: Any) -> None:
    text = "import grpc\n"
    folders = (".git", "node_modules", ".venv/lib", "x/__pycache__", "lib/site-packages/p", "a.egg-info")
    root = tree({f"{folder}/a.py": text for folder in folders} | {".venv/pyvenv.cfg": "", ".ci/a.py": text})
    assert [one.path for one in scan(root).findings] == [".ci/a.py"]


def test_a_single_file_goes_by_its_name(tree: Any) -> None:
    root = tree({"a/b.py": "import grpc\n"})
    assert [one.path for one in scan(root / "a/b.py").findings] == ["b.py"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfimport grpc\r\nx = 1\r\n",
        "# -*- coding: latin-1 -*-\nimport grpc  # \xe4\n".encode("latin-1"),
        b"import grpc",
        b"\timport grpc\n".lstrip(),
        b"import grpc\x0c\n",
    ],
)
def test_source_of_every_encoding_and_line_end_is_read(tree: Any, content: bytes) -> None:
    result = scan(tree({"a.py": content}))
    assert [one.symbol for one in result.findings] == ["grpc"]
    assert result.unread == []


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"import grpc\nprint 'python 2'\n", 2, "is no Python 3"),
        (b"import grpc\nx = '\xff\xfe'\n", 2, "is no Python 3"),
        (b"import grpc\0", 1, "is no Python 3"),
        (b"# coding: klingon\nimport grpc\n", 1, "is no Python 3"),
        (b"import grpc\nx = " + b"(" * 5000 + b")" * 5000, 2, "is no Python 3: too many nested parentheses"),
        (b"import grpc\nx = " + b"1+" * 30000 + b"1", 1, "nests too deeply"),
        (b"import grpc\nx = " + b"-" * 50000 + b"1", 1, "nests too deeply"),
    ],
)
def test_a_file_that_is_no_python_is_reported_with_its_line_and_holds_up_the_gate(
    tree: Any, content: bytes, line: int, why: str
) -> None:
    result = scan(tree({"a.py": content, "b.py": "import grpc"}))
    assert [one.path for one in result.findings] == ["b.py"]
    (unread,) = result.unread
    assert (unread.path, why in unread.why) == ("a.py", True)
    assert unread.line == line
    assert not result.nothing_left


def test_a_broken_file_without_a_word_of_grpc_is_no_matter(tree: Any) -> None:
    assert scan(tree({"a.py": "print 'python 2'\n", "b.ipynb": "{", "pyproject.toml": "]"})).nothing_left


@pytest.mark.parametrize(("name", "why"), [("a.ipynb", "is no notebook"), ("pyproject.toml", "is no TOML")])
def test_a_file_of_another_kind_that_is_broken_is_reported(tree: Any, name: str, why: str) -> None:
    (unread,) = scan(tree({name: "{ grpcio"})).unread
    assert why in unread.why


def test_a_huge_file_is_reported_when_it_may_hold_grpc(tree: Any) -> None:
    big = b"x = 1\n" * 800_000
    result = scan(tree({"a.py": b"import grpc\n" + big, "b.py": big}))
    assert [(one.path, one.why) for one in result.unread] == [("a.py", "is longer than 4 MiB")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_reported(tree: Any) -> None:
    root = tree({"a.py": "import grpc", "secret/b.py": "import grpc"})
    (root / "a.py").chmod(0)
    (root / "secret").chmod(0)
    try:
        assert sorted(one.path for one in scan(root).unread) == ["a.py", "secret"]
    finally:
        (root / "secret").chmod(0o700)


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    (unread,) = scan(tmp_path).unread
    assert "cannot be listed: Permission denied" in unread.why


def test_files_come_in_the_order_of_their_names(tree: Any) -> None:
    root = tree({"b/z.py": "", "b/a.py": "", "a.py": "", "c.py": ""})
    assert [path.relative_to(root).as_posix() for path in files_of(root)] == ["a.py", "c.py", "b/a.py", "b/z.py"]
