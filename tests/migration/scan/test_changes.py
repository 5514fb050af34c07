"""Rewrites of whole code bases: copies of real ones, and the way to the disk."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import TransportError
from lucky_transport_migration.scan.changes import plan_changes, write_changes
from lucky_transport_migration.scan.scanner import scan


def copy_of(package: str, to: Path) -> Path:
    """Return a copy of an installed package's source, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(shutil.copytree(Path(spec.origin).parent, to / package, ignore=shutil.ignore_patterns("*.so", "*.pyc")))


def test_luckyrobots_itself_is_understood_whole(tmp_path: Path) -> None:
    result = scan(copy_of("luckyrobots", tmp_path))
    assert result.unread == []
    found = {(one.path, one.symbol, one.level) for one in result.findings}
    assert ("client.py", "grpc.insecure_channel", 2) in found
    assert ("async_session.py", "grpc.aio.insecure_channel", 2) in found
    assert ("client.py", ".grpc.generated.agent_pb2_grpc.AgentServiceStub", 3) in found
    assert len([one for one in result.findings if one.kind == "stub"]) == 20
    assert len(result.generated) == 24
    assert len(result.generated_stubs) == 12


def test_a_fixed_copy_of_luckyrobots_compiles_and_is_fixed_once(tmp_path: Path) -> None:
    root = copy_of("luckyrobots", tmp_path)
    fixable = {"__init__.py", "async_session.py", "lucky_env.py"}  # the others are long, and parsing takes its time
    for path in root.rglob("*.py"):
        if path.relative_to(root).as_posix() not in fixable:
            path.unlink()
    changes = plan_changes(root, scan(root), "shm://demo", ["target"])
    assert {one.name for one in changes.files} == {"__init__.py", "async_session.py"}
    write_changes(changes)
    for path in root.rglob("*.py"):
        compile(path.read_bytes(), str(path), "exec")
    again = scan(root)
    assert again == changes.after
    assert plan_changes(root, again, "shm://demo", ["target"]).files == []


def test_the_service_modules_of_grpc_are_found_as_such(tmp_path: Path) -> None:
    result = scan(copy_of("grpc_health", tmp_path))
    assert result.unread == []
    assert len([one for one in result.findings if one.kind == "servicer"]) == 2
    assert len(result.generated_stubs) == 1


BEFORE = "from luckyrobots import LuckyEnv\nLuckyEnv(port=50051)\n"


def test_planning_writes_nothing(tree: Any) -> None:
    root = tree({"a.py": BEFORE})
    changes = plan_changes(root, scan(root), None)
    assert (root / "a.py").read_text() == BEFORE
    assert changes.files[0].diff() == (
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-from luckyrobots import LuckyEnv\n-LuckyEnv(port=50051)\n"
        "+from lucky_transport import LuckyEnv\n+LuckyEnv()"
    )
    assert changes.after.nothing_left


def test_a_file_that_was_changed_meanwhile_is_not_overwritten(tree: Any) -> None:
    root = tree({"a.py": BEFORE})
    changes = plan_changes(root, scan(root), None)
    (root / "a.py").write_text("mine\n")
    with pytest.raises(TransportError, match=r"a\.py was changed meanwhile; scan again"):
        write_changes(changes)
    assert (root / "a.py").read_text() == "mine\n"


def test_what_a_link_leads_to_elsewhere_is_not_changed(tree: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(BEFORE)
    root = tree({})
    (root / "a.py").symlink_to(elsewhere)
    changes = plan_changes(root, scan(root), None)
    assert changes.files == []
    assert [one.why for one in changes.refusals] == ["a link: scan what it leads to"]


def test_a_notebook_is_found_in_and_not_changed(tree: Any) -> None:
    text = '{"cells": [{"cell_type": "code", "source": ["from luckyrobots import LuckyEnv\\n", "LuckyEnv()"]}]}'
    root = tree({"a.ipynb": text})
    result = scan(root)
    assert len(result.findings) == 2
    assert plan_changes(root, result, None).files == []
