"""The result as scripts and people read it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lucky_transport_migration.scan.findings import KINDS
from lucky_transport_migration.scan.scanner import scan

EVERYTHING = {
    "app/client.py": "import grpc\nfrom g_pb2_grpc import GreeterStub\nGreeterStub(grpc.insecure_channel('h:1'))\n",
    "app/server.py": "import grpc\nimport g_pb2_grpc as g\nclass G(g.GreeterServicer): ...\ngrpc.server(pool)\n",
    "app/train.py": "from luckyrobots import LuckyEnv\nLuckyEnv()\n",
    "requirements.txt": "grpcio\n",
    "Makefile": "x:\n\tpython -m grpc_tools.protoc\n",
    "g_pb2_grpc.py": "import grpc",
}


def test_json_has_the_fixed_names(tree: Any) -> None:
    plain = json.loads(json.dumps(scan(tree(EVERYTHING)).plain()))
    for finding in plain["findings"]:
        assert {"path", "line", "kind", "symbol", "level"} <= set(finding)
        assert finding["kind"] in KINDS
        assert finding["level"] in (1, 2, 3)
    assert {finding["kind"] for finding in plain["findings"]} == set(KINDS)
    assert plain["generated"] == {"files": 1, "stubs": 1, "paths": ["g_pb2_grpc.py"]}


def test_findings_are_in_the_order_of_files_and_lines(tree: Any) -> None:
    places = [(one.path, one.line) for one in scan(tree(EVERYTHING)).findings]
    assert places == sorted(places)


@pytest.mark.parametrize("left", [{name: text} for name, text in EVERYTHING.items()])
def test_each_kind_of_thing_left_is_enough_for_something_to_be_left(tree: Any, left: dict[str, str]) -> None:
    result = scan(tree(left | {"clean.py": "import lucky_transport\n"}))
    assert not result.nothing_left
    assert result.sentence.startswith("Left of gRPC: ")


def test_code_without_grpc_has_nothing_left(tree: Any) -> None:
    result = scan(tree({"a.py": "import lucky_transport\nlucky_transport.connect('shm://demo')\n", "b.txt": "grpcio"}))
    assert result.nothing_left
    assert result.sentence == "Nothing of gRPC is left in 1 file."


def test_a_drop_in_still_needs_grpc_installed(tree: Any) -> None:
    result = scan(tree({"a.py": "import lucky_transport_stubs\nlucky_transport_stubs.channel('shm://demo')\n"}))
    assert [(one.kind, one.wire) for one in result.findings] == [("channel", False)]
    assert result.nothing_on_wire
    assert not result.nothing_left


def test_the_sentence_counts_kinds_and_levels(tree: Any) -> None:
    sentence = scan(tree(EVERYTHING)).sentence
    assert sentence == (
        "Left of gRPC: 12 places in 5 files, 3 on its wire and 9 that need its package "
        "(5 imports, 2 channels and targets, 1 stub, 1 server, 1 servicer, "
        "1 dependency, 1 build step); 8 at level 1, 2 at level 2, 2 at level 3; "
        "1 generated file (1 with stubs)."
    )
