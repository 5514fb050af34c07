"""Requirements, build steps, notebooks and generated code: what is found, and in which line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lucky_transport_migration.scan.scanner import scan


def seen(tree: Any, name: str, text: str) -> list[tuple[int, str, str]]:
    result = scan(tree({name: text}))
    assert result.unread == []
    return [(one.line, one.kind, one.symbol) for one in result.findings]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("requirements.txt", "numpy\n# grpcio\ngrpcio>=1.60  # rpc\n", [(3, "grpcio")]),
        ("requirements/dev.in", 'grpcio_tools==1.60.0 ; python_version > "3.8"\n', [(1, "grpcio-tools")]),
        ("requirements.txt", "luckyrobots[rl]==0.5.0 --hash=sha256:00\n", [(1, "luckyrobots")]),
        ("requirements.txt", "lucky-transport[grpc]\nlucky-transport\n", [(1, "lucky-transport[grpc]")]),
        ("environment.yml", "dependencies:\n  - grpcio=1.60=py311\n  - pip:\n    - 'luckyrobots'\n",
         [(2, "grpcio"), (4, "luckyrobots")]),
        ("setup.cfg", "[options]\ninstall_requires =\n    grpcio\n    numpy\n", [(3, "grpcio")]),
        ("Pipfile", '[packages]\ngrpcio = "*"\nnumpy = "*"\n', [(2, "grpcio")]),
        (
            "pyproject.toml",
            '[project]\nname = "grpcio-user"\ndependencies = ["numpy", "grpcio>=1"]\n'
            '[dependency-groups]\ndev = [\n  "grpcio>=1",  # twice\n]\n[tool.poetry.dependencies]\ngrpcio = "^1"\n',
            [(3, "grpcio"), (6, "grpcio"), (9, "grpcio")],
        ),
        ("pyproject.toml", '[project]\ndependencies = ["google-api-core[grpc]"]', [(2, "google-api-core[grpc]")]),
    ],
)  # fmt: skip
def test_requirements_are_found_in_every_kind_of_list(
    tree: Any, name: str, text: str, expected: list[tuple[int, str]]
) -> None:
    assert seen(tree, name, text) == [(line, "dependency", symbol) for line, symbol in expected]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Makefile", "p:\n\tpython -m grpc_tools.protoc -I. a.proto\n", [(2, "build", "grpc_tools.protoc")]),
        ("gen.sh", "# grpc_tools\nprotoc --grpc_python_out=gen a.proto\n", [(2, "build", "grpc_python_out")]),
        ("buf.gen.yaml", "p:\n  - remote: buf.build/grpc/python:v1\n", [(2, "build", "buf.build/grpc/python:v1")]),
        ("Dockerfile", "RUN pip install numpy 'grpcio>=1'\nEXPOSE 50051\n",
         [(1, "dependency", "grpcio"), (2, "build", "port 50051")]),
        (".github/workflows/ci.yml", "env:\n  LUCKY_TRANSPORT: grpc\n", [(2, "build", "LUCKY_TRANSPORT: grpc")]),
        ("lucky_transport.toml", 'transport = "grpc"\nendpoint = "grpc://h:1"\n',
         [(1, "build", 'transport = "grpc"'), (2, "build", "grpc://h:1")]),
    ],
)  # fmt: skip
def test_build_steps_are_found(tree: Any, name: str, text: str, expected: list[tuple[int, str, str]]) -> None:
    assert seen(tree, name, text) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Makefile", "p:\n\tprotoc --python_out=. a.proto\n"),
        ("requirements.txt", "-r grpcio.txt\nnot-grpcio\ngrpcioish-thing\n"),
        ("poetry.lock", '[[package]]\nname = "grpcio"\n'),
        ("README.md", "pip install grpcio, port 50051\n"),
        ("run.sh", "LUCKY_TRANSPORT=shm python train.py --port 150051\n"),
        ("lucky_transport.toml", 'transport = "shm"\nendpoint = "shm://demo"\n'),
    ],
)
def test_what_is_no_step_and_no_requirement_of_grpc_is_no_finding(tree: Any, name: str, text: str) -> None:
    assert seen(tree, name, text) == []


def notebook(*cells: list[str]) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}, indent=1)


def test_a_notebook_is_read_cell_by_cell_and_lines_are_those_of_the_file(tree: Any) -> None:
    text = notebook(["import grpc\n", "x = 'ä'"], ["%pip install grpcio\n", "c = grpc.insecure_channel('h:1')"])
    found = seen(tree, "a.ipynb", text)
    assert [(kind, symbol) for _, kind, symbol in found] == [
        ("import", "grpc"),
        ("dependency", "grpcio"),
        ("channel", "grpc.insecure_channel"),
    ]
    lines = text.splitlines()
    assert [word in lines[line - 1] for (line, _, _), word in zip(found, ("import grpc", "%pip", "c ="), strict=True)]


def test_a_broken_cell_is_reported_and_hides_no_other(tree: Any) -> None:
    result = scan(tree({"a.ipynb": notebook(["import grpc\n"], ["def (\n"], ["%%bash\n", "pip install grpcio\n"])}))
    assert [one.kind for one in result.findings] == ["import", "dependency"]
    assert [one.path for one in result.unread] == ["a.ipynb"]
    assert "has a cell that is no Python 3" in result.unread[0].why


def test_generated_code_is_counted_apart(tree: Any) -> None:
    generated = {"p/a_pb2.py": "import grpc", "p/a_pb2_grpc.py": "import grpc", "p/a_pb2.pyi": "import grpc"}
    result = scan(tree(generated))
    assert result.findings == []
    assert result.generated == ["p/a_pb2.py", "p/a_pb2.pyi", "p/a_pb2_grpc.py"]
    assert result.generated_stubs == ["p/a_pb2_grpc.py"]
    assert not result.nothing_left


def test_messages_alone_are_protobuf_and_may_stay(tree: Any) -> None:
    assert scan(tree({"a_pb2.py": "", "b.py": "import a_pb2"})).nothing_left


def test_a_script_is_known_by_its_first_line(tree: Any) -> None:
    assert seen(tree, "bin/train", "#!/usr/bin/env python3\nimport grpc\n") == [(2, "import", "grpc")]


STUBS = "self.Call = channel.unary_unary('/{}.SceneService/Call')\n"


@pytest.mark.parametrize(
    ("packages", "level"), [(["acme"], 1), (["hazel.rpc"], 2), (["acme", "hazel.rpc"], 2), ([], 2)]
)
def test_typed_calls_are_advised_for_the_engines_services_only(tree: Any, packages: list[str], level: int) -> None:
    stubs = {f"{number}/scene_pb2_grpc.py": STUBS.format(name) for number, name in enumerate(packages)}
    result = scan(tree(stubs | {"a.py": "from scene_pb2_grpc import SceneServiceStub\nSceneServiceStub(c)\n"}))
    assert [one.level for one in result.findings] == [level, level]
