"""Packages with a gRPC of their own in their wheel are shown with the reason, and count as nothing that is left."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.other_grpc import COMPILED, COMPILED_USES, OTHER_STACKS, why_unmoved
from lucky_transport_migration.scan.scanner import scan, scan_again
from lucky_transport_migration.scan.show import show_result
from lucky_transport_stubs.run.activation import BOOTSTRAP


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import ray\n", [(1, "ray")]),
        ("import os\nfrom ray import serve\n", [(2, "ray")]),
        ("import reverb.client as c\nimport launchpad as lp\n", [(1, "reverb"), (2, "launchpad")]),
        ("import jax\njax.distributed.initialize('host:1', 2, 0)\n", [(2, "jax.distributed.initialize")]),
        ("from jax import distributed as d\nd.initialize()\n", [(2, "jax.distributed.initialize")]),
        ("import tensorflow as tf\ntf.distribute.Server({})\n", [(2, "tensorflow.distribute.Server")]),
        (
            "import tensorflow as tf\ntf.data.experimental.service.DispatchServer()\n",
            [(2, "tensorflow.data.experimental.service")],
        ),
        ("from pinecone.grpc import PineconeGRPC\nPineconeGRPC()\n", [(2, "pinecone.grpc")]),
        ("from pinecone import Pinecone\nPinecone()\n", []),
        ("import jax\njax.jit(len)\nimport tensorflow as tf\ntf.constant(1)\n", []),
        ('"""\nimport ray\n"""\nfrom .ray import beam\nimport arrays\n', []),
        ("import ray(\n", []),
    ],
)
def test_what_no_one_can_switch_is_found(tree: Any, source: str, found: list[tuple[int, str]]) -> None:
    result = scan(tree({"a.py": source}))
    assert [(one.line, one.symbol) for one in result.unmoved] == found
    assert all(one.why == why_unmoved(one.symbol) for one in result.unmoved)
    assert result.nothing_left or result.unread
    assert result.plain()["unmoved"] == [one.plain() for one in result.unmoved]


def test_it_is_shown_with_the_reason(tree: Any, capsys: pytest.CaptureFixture[str]) -> None:
    show_result(scan(tree({"a.py": "import ray\n"})))
    shown = capsys.readouterr().out
    assert "a.py:1: ray has a gRPC of its own in its wheel, between its nodes and workers, in C++;" in shown
    assert "Nothing of gRPC is left in 1 file." in shown


def test_a_changed_file_is_looked_at_again(tree: Any) -> None:
    result = scan(tree({"a.py": "import ray\n", "b.py": "import reverb\n"}))
    after = scan_again(result, {"b.py": b"import courier\n"})
    assert [(one.path, one.symbol) for one in after.unmoved] == [("a.py", "ray"), ("b.py", "courier")]


def test_run_names_the_modules_of_the_table() -> None:
    bootstrap = ast.parse(Path(BOOTSTRAP, "sitecustomize.py").read_text(encoding="utf-8"))
    (named,) = (
        node.value
        for node in bootstrap.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_OTHERS"
    )
    names = [element.value for element in ast.walk(named) if isinstance(element, ast.Constant)]
    assert sorted(map(str, names)) == sorted([*OTHER_STACKS, *COMPILED])


def test_the_page_of_limits_names_them_all() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
    for name in [*OTHER_STACKS, *COMPILED, *COMPILED_USES]:
        assert f"`{name}`" in page
