"""Requirements that nothing needs any more go, and lucky-transport takes their place."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport_migration.scan.changes import plan_changes
from lucky_transport_migration.scan.requirements import rewrite_stages
from lucky_transport_migration.scan.scanner import scan


def fixed(tree: Any, files: dict[str, str], name: str) -> str:
    root = tree(files)
    changes = plan_changes(root, scan(root), None)
    texts = {one.name: one.after.decode() for one in changes.files}
    return texts.get(name, files[name])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("requirements.txt", "numpy\nluckyrobots>=0.5 ; python_version > '3'\ngrpcio\ntorch  # gpu\n",
         "numpy\nlucky-transport\ntorch  # gpu\n"),
        ("requirements.txt", "lucky-transport[grpc]==0.1\ngrpcio\n", "lucky-transport==0.1\n"),
        ("requirements-dev.txt", "grpcio-tools\npytest", "pytest"),
        ("requirements.txt", "grpcio==1 \\\n  --hash=sha256:0 \\\n  --hash=sha256:1\nnumpy==2 \\\n  --hash=sha256:2\n",
         "lucky-transport\nnumpy==2 \\\n  --hash=sha256:2\n"),
        ("requirements.txt", "opentelemetry-exporter-otlp-proto-grpc\n", "opentelemetry-exporter-otlp-proto-grpc\n"),
        ("uv.lock", '[[package]]\nname = "grpcio"\n', '[[package]]\nname = "grpcio"\n'),
        ("environment.yml", "dependencies:\n  - python=3.11\n  - grpcio=1.60\n  - pip:\n    - luckyrobots\n",
         "dependencies:\n  - python=3.11\n  - lucky-transport\n  - pip:\n"),
        ("setup.cfg", "[options]\ninstall_requires =\n    grpcio>=1\n    numpy\n",
         "[options]\ninstall_requires =\n    lucky-transport\n    numpy\n"),
        ("pyproject.toml",
         '[project]\nname = "x"\ndependencies = [\n    "numpy",  # arrays\n    "luckyrobots>=0.5",\n    "grpcio",\n]\n'
         '\n[project.optional-dependencies]\ndev = ["grpcio-tools", "pytest"]  # tools\n',
         '[project]\nname = "x"\ndependencies = [\n    "numpy",  # arrays\n    "lucky-transport",\n]\n'
         '\n[project.optional-dependencies]\ndev = ["pytest"]  # tools\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.11"\ngrpcio = "^1.60"\n',
         '[tool.poetry.dependencies]\npython = "^3.11"\nlucky-transport = "*"\n'),
        ("pyproject.toml", '[project]\ndependencies = ["lucky-transport[all]"]\n',
         '[project]\ndependencies = ["lucky-transport[shm,mujoco,migration]"]\n'),
    ],
)  # fmt: skip
def test_what_nothing_needs_goes(tree: Any, name: str, before: str, after: str) -> None:
    files = {name: before, "train.py": "from luckyrobots import LuckyEnv\nLuckyEnv()\n"}
    assert fixed(tree, files, name) == after


@pytest.mark.parametrize(
    "left",
    [
        {"a.py": "import grpc\n"},
        {"a.py": "import lucky_transport_stubs\n"},
        {"a_pb2_grpc.py": ""},
        {"a.py": "import grpc\nprint 'python 2'\n"},
    ],
)
def test_what_something_needs_stays(tree: Any, left: dict[str, str]) -> None:
    text = "grpcio\nlucky-transport[grpc]\n"
    assert fixed(tree, left | {"requirements.txt": text}, "requirements.txt") == text


def test_luckyrobots_stays_while_a_class_of_it_is_used_and_grpcio_may_go(tree: Any) -> None:
    files = {"a.py": "from luckyrobots import Session\n", "requirements.txt": "luckyrobots\ngrpcio\n"}
    assert fixed(tree, files, "requirements.txt") == "luckyrobots\nlucky-transport\n"


def test_tools_stay_while_a_build_step_uses_them(tree: Any) -> None:
    files = {"Makefile": "x:\n\tpython -m grpc_tools.protoc\n", "requirements.txt": "grpcio-tools\ngrpcio-status\n"}
    assert fixed(tree, files, "requirements.txt") == "grpcio-tools\n"


def test_another_packages_extra_is_left_to_a_person(tree: Any) -> None:
    text = "google-api-core[grpc]\n"
    assert fixed(tree, {"requirements.txt": text}, "requirements.txt") == text


COMPLETE = b'[stages]\ndefault = "complete"  # all of them\ncontrol = "grpc://h:1"\ncandidate = "shm://a"\n'


def test_grpcs_endpoint_goes_when_every_method_is_complete() -> None:
    after = b'[stages]\ndefault = "complete"  # all of them\ncandidate = "shm://a"\n'
    assert rewrite_stages("x/lucky_transport.toml", COMPLETE) == after
    assert rewrite_stages("x/lucky_transport.toml", after) == after


@pytest.mark.parametrize(
    "content",
    [
        COMPLETE.replace(b"complete", b"shm"),
        COMPLETE + b'[stages.methods]\n"A/*" = "shadow"\n',
        b"]",
        b"\xff",
        b"x = 1",
    ],
)
def test_grpcs_endpoint_stays_while_a_method_may_need_it(content: bytes) -> None:
    assert rewrite_stages("lucky_transport.toml", content) == content
