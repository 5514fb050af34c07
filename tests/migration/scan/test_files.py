"""Requirements, build steps and generated code: what is found, and in which line."""

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
        ("requirements.txt", "-r base.txt\n-c c.txt\ngrpcio==1.60 \\\n  --hash=sha256:00 \\\n  --hash=sha256:01\n"
         "grpclib \\\n",
         [(3, "grpcio"), (6, "grpclib")]),
        ("requirements.txt", "https://host/w/grpcio-1.60.0-cp311-cp311-linux_x86_64.whl\n"
         "./wheels/grpcio_tools-1.60.tar.gz\n"
         "git+https://github.com/v/grpclib.git@v0.4\n-e git+ssh://git@host/any#egg=mypy-grpc\n"
         "grpcio @ file:///x/y.whl\n",
         [(1, "grpcio"), (2, "grpcio-tools"), (3, "grpclib"), (4, "mypy-grpc"), (5, "grpcio")]),
        ("deps/base.txt", "numpy\ngrpcio\nprotobuf>=4\n", [(2, "grpcio")]),
        ("requirements/deep/base.txt", "grpclib\n", [(1, "grpclib")]),
        ("requirements.lock", "-e file:.\ngrpcio==1.60.0\n    # via x\n", [(2, "grpcio")]),
        ("setup.cfg", "[options]\ninstall_requires = grpclib>=0.4\n[options.extras_require]\nrpc =\n"
         "    betterproto\none = sonora\n",
         [(2, "grpclib"), (5, "betterproto"), (6, "sonora")]),
        ("tox.ini", "[testenv]\ndeps =\n    pytest\n    py311: grpclib\n    -rrequirements.txt\n[testenv:b]\n"
         "deps = grpcio>=1\n",
         [(4, "grpclib"), (7, "grpcio")]),
        ("tox.toml", '[env_run_base]\ndeps = ["grpclib"]\n', [(2, "grpclib")]),
        ("hatch.toml", '[envs.test]\nextra-dependencies = ["grpclib"]\n', [(2, "grpclib")]),
        ("pixi.toml", '[pypi-dependencies]\ngrpclib = "*"\n', [(2, "grpclib")]),
        ("pyproject.toml", '[build-system]\nrequires = ["grpcio-tools"]\n[project.optional-dependencies]\n'
         'rpc = ["purerpc"]\n'
         '[tool.pdm.dev-dependencies]\ntest = ["pytest-grpc"]\n[tool.uv]\nconstraint-dependencies = ["grpcio<2"]\n'
         '[tool.poetry.group.dev.dependencies]\nbetterproto = {version = "*", extras = ["compiler"]}\n',
         [(2, "grpcio-tools"), (4, "purerpc"), (6, "pytest-grpc"), (8, "grpcio"), (10, "betterproto")]),
        ("conda/meta.yaml", "requirements:\n  run:\n    - python\n    - grpcio >=1.60\n    - python-grpcio\n",
         [(4, "grpcio"), (5, "python-grpcio")]),
        ("poetry.lock", '[[package]]\nname = "grpcio"\nversion = "1"\n[package.dependencies]\n'
         'grpclib = "*"\n', [(2, "grpcio")]),
        ("uv.lock", '[[package]]\nname = "a"\ndependencies = [\n    { name = "grpclib" },\n]\n[[package]]\n'
         'name = "grpclib"\n',
         [(7, "grpclib")]),
        ("pylock.toml", '[[packages]]\nname = "grpcio"\n', [(2, "grpcio")]),
        ("Pipfile.lock", '{\n    "default": {\n        "grpcio": {\n            "index": "pypi"\n', [(3, "grpcio")]),
        ("conda-lock.yml", "package:\n- name: grpcio\n  version: 1.60.0\n", [(2, "grpcio")]),
        ("setup.py", "from setuptools import setup\nRPC = ['grpclib']\nsetup(install_requires=['numpy', *RPC],\n"
         "      extras_require={'a': \"\"\"\n          grpcio-status\n          connect-python\n      \"\"\"})\n",
         [(2, "grpclib"), (5, "grpcio-status"), (6, "connect-python")]),
        ("noxfile.py", "def tests(session):\n    session.install('-r', 'r.txt', 'grpclib')\n", [(2, "grpclib")]),
        ("tool.py", "# /// script\n# requires-python = '>=3.11'\n# dependencies = [\n#   'numpy',\n"
         "#   'grpclib',\n# ]\n# ///\n",
         [(5, "grpclib")]),
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
        ("Dockerfile", "RUN pip install --no-cache-dir \\\n    numpy \\\n    'grpclib>=0.4'\n"
         "RUN [\"uv\", \"pip\", \"install\", \"sonora\"]\n",
         [(3, "dependency", "grpclib"), (4, "dependency", "sonora")]),
        ("run.sh", "uv run --with grpcio app.py\npython -m pip install -U grpclib\napt-get install -y python3-grpcio\n",
         [(1, "dependency", "grpcio"), (2, "dependency", "grpclib"), (3, "dependency", "python3-grpcio")]),
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
        ("Cargo.lock", '[[package]]\nname = "grpcio"\n'),
        ("notes.txt", "grpcio\nnumpy>=1\nis what we use here\n"),
        ("words.txt", "grpcio\ngrpclib\n"),
        ("setup.cfg", "[metadata]\nname = my-grpc\nkeywords = grpc-web\n[options]\npackages =\n    my_grpc\n"),
        ("tox.ini", "[testenv]\nextras = grpc-tests\ncommands =\n    grpc-tool\n"),
        (
            "setup.py",
            "from setuptools import setup\nsetup(name='my-grpc', packages=['my_grpc'], keywords=['grpc-web'])\n",
        ),
        ("pyproject.toml", '[project]\nname = "my-grpc"\nkeywords = ["grpc-web"]\n[tool.isort]\nextra = ["grpclib"]\n'),
        ("Dockerfile", "RUN conda create -n my-grpc python\nRUN pip install -r grpc-all.txt numpy\nRUN echo grpclib\n"),
        ("uv.lock", '[[package]]\nname = "numpy"\n'),
        ("README.md", "pip install grpcio, port 50051\n"),
        ("run.sh", "LUCKY_TRANSPORT=shm python train.py --port 150051\n"),
        ("lucky_transport.toml", 'transport = "shm"\nendpoint = "shm://demo"\n'),
    ],
)
def test_what_is_no_step_and_no_requirement_of_grpc_is_no_finding(tree: Any, name: str, text: str) -> None:
    assert seen(tree, name, text) == []


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


@pytest.mark.parametrize(
    "distribution",
    ["grpcio", "grpcio_tools", "grpcio-status", "grpcio-health-checking", "grpcio.reflection", "grpcio-observability",
     "types-grpcio", "grpc-stubs", "grpc-interceptor", "grpc-google-iam-v1", "mypy-grpc", "pytest-grpc", "nameko-grpc",
     "py-grpc-prometheus", "opentelemetry-instrumentation-grpc", "opentelemetry-exporter-otlp-proto-grpc", "aiogrpc",
     "grpclib", "betterproto", "betterproto2", "betterproto2-compiler", "connect-python", "connectrpc", "connecpy",
     "purerpc", "sonora", "grpcalchemy", "django-grpc-framework"],
)  # fmt: skip
def test_every_distribution_of_grpcs_world_is_known(tree: Any, distribution: str) -> None:
    found = [symbol for _, _, symbol in seen(tree, "requirements.txt", f"numpy\n{distribution}\nprotobuf\n")]
    assert found == [distribution.replace("_", "-").replace(".", "-")]


@pytest.mark.parametrize(
    ("source", "stack", "kinds"),
    [
        ("from grpclib.client import Channel\nfrom lab_grpc import LabStub\nchannel = Channel()\n"
         "LabStub(channel)\n", "grpclib",
         ["import", "channel", "stub"]),
        ("from grpclib.server import Server\nServer([])\n", "grpclib", ["import", "server"]),
        ("import betterproto\n", "betterproto", ["import"]),
        ("import purerpc\n", "purerpc", ["import"]),
        ("from connectrpc.client import ConnectClient\n", "connectrpc", ["import"]),
        ("import sonora.aio\n", "sonora", ["import"]),
        ("from pyarrow import flight\n", "pyarrow.flight", ["import"]),
    ],
)  # fmt: skip
def test_what_speaks_grpc_without_grpcio_is_said_to_stay(tree: Any, source: str, stack: str, kinds: list[str]) -> None:
    result = scan(tree({"a.py": source}))
    assert [one.kind for one in result.findings] == kinds
    for one in result.findings:
        assert one.why.startswith(f"it stays on gRPC: `lucky-transport run` does not move {stack}")


def test_stubs_of_grpcio_beside_another_stack_are_moved(tree: Any) -> None:
    source = "import grpclib\nfrom lab_pb2_grpc import LabStub\nLabStub(channel)\n"
    assert [one.why.startswith("it stays") for one in scan(tree({"a.py": source})).findings] == [True, False, False]


def test_a_script_with_broken_metadata_is_named(tree: Any) -> None:
    result = scan(tree({"a.py": "# /// script\n# dependencies = ['grpclib'\n# ///\n"}))
    assert "is no TOML" in result.unread[0].why


def test_lists_that_a_list_names_are_lists_whatever_their_names(tree: Any) -> None:
    files = {
        "requirements.txt": "-r more/base.txt\n-c pins.in\n--requirement=gone.txt\n-r requirements.txt\n",
        "more/base.txt": "grpclib\n-r ../deep.txt\n",
        "deep.txt": "-r more/base.txt\nsonora\n",
        "pins.in": "grpcio\n",
        "words.txt": "purerpc\n",
    }
    found = [(one.path, one.symbol) for one in scan(tree(files)).findings]
    assert found == [("deep.txt", "sonora"), ("more/base.txt", "grpclib"), ("pins.in", "grpcio")]
