"""Rewrites of whole code bases, of requirements that nothing needs any more, and the way to the disk."""

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import TransportError
from lucky_transport_migration.scan import changes as rewriting
from lucky_transport_migration.scan import scanner
from lucky_transport_migration.scan.changes import plan_changes, rewrite_python, write_changes
from lucky_transport_migration.scan.requirements import rewrite_stages
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


@pytest.mark.parametrize(("module", "work"), [(scanner, "places_in"), (rewriting, "rewrite_python")])
def test_a_file_that_makes_the_scan_fail_is_named(
    tree: Any, monkeypatch: pytest.MonkeyPatch, module: Any, work: str
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("no good")

    monkeypatch.setattr(module, work, fail)
    root = tree({"a.py": "x = 1\n", "b.py": "import grpc\ngrpc.server(pool)\n"})
    with pytest.raises(TransportError, match=r"b\.py cannot be scanned: ValueError: no good; report it"):
        plan_changes(root, scan(root), None)


def test_what_a_link_leads_to_elsewhere_is_not_changed(tree: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(BEFORE)
    root = tree({})
    (root / "a.py").symlink_to(elsewhere)
    changes = plan_changes(root, scan(root), None)
    assert changes.files == []
    assert [one.why for one in changes.refusals] == ["a link: scan what it leads to"]


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


HEAD = "from luckyrobots import LuckyEngineClient\nclient = LuckyEngineClient()\n"


#: Uses in which a typed result and a message of Protobuf answer alike.
SAME = [
    "client.reset_agent('a')",
    "ok = client.reset_agent('a').success\nkeep(ok, [ok])",
    "if not client.reset_agent('a').success: raise SystemExit(1)",
    "resp = client.get_joint_state('a')\nfor _ in range(3):\n    resp = client.get_joint_state('a')\n"
    "    keep(resp.success, *resp.state.positions)",
    "first = client.get_joint_state('a').state.positions\nsecond = first\nkeep(len(second), second[0], second[1:][0])",
    "names = client.get_agent_schema().schema.action_names\nkeep(list(names), sorted(names), 'x' in names)",
    "import numpy as np\nq = client.get_joint_state('a').state.positions\nkeep(np.array(q, np.float32), np.asarray(q))",
    "for joint in client.get_model_info().joints:\n    keep(joint.name, joint.range_lo, joint.type)",
    "keep([joint.name for joint in client.get_model_info().joints if joint.limited])",
    "q = client.get_joint_state('a').state.positions\nkeep(1 if q else 0, not q, [*q], q == [0.0])",
    "info = client.get_model_info()\nkeep(len(info.joints), info.actuators[0].name)\nif info.joints: keep(info.nq)",
    "for number, q in enumerate(client.get_joint_state('a').state.positions):\n    keep(number, q)",
    "for frame in client.stream_telemetry():\n    keep(frame.frame_number, list(frame.observation_qpos))\n    break",
    "frames = client.stream_telemetry(30)\nframe = next(frames)\nkeep(frame.timestamp_ms)",
    "resp: object = client.get_model_info()\nkeep(f'{resp.nq} of {resp.message!r}')\ndel resp",
    "if (resp := client.reset_scene()).success: keep(resp.message)",
    "keep(client.reset_agent('a'  # why\n).success)",
    "state = client.get_joint_state('a').state\nq = state.positions\nkeep(len(q), max(state.velocities))",
    "def f():\n    resp = client.reset_scene()\n    return lambda: resp.message",
]


#: Uses in which they do not: the line that is named, and a part of the reason.
OTHERWISE = [
    ("client.get_joint_state('a').HasField('state')", 3, "HasField is no field of GetJointStateResponse"),
    ("client.get_joint_state('a').state.SerializeToString()", 3, "SerializeToString is no field of JointState"),
    ("a = client.get_joint_state('a')\nb = Message()\nb.CopyFrom(a)", 5, "passed to b.CopyFrom"),
    ("a = client.get_joint_state('a')\na.CopyFrom(other)", 4, "CopyFrom is no field"),
    ("client.get_model_info().WhichOneof('kind')", 3, "WhichOneof is no field"),
    ("keep([f.name for f, _ in client.reset_scene().ListFields()])", 3, "ListFields is no field"),
    ("json_format.MessageToDict(client.get_model_info())", 3, "passed to json_format.MessageToDict"),
    ("resp = client.get_model_info()\nkeep(resp)", 4, "GetModelInfoResponse is passed to keep"),
    ("keep(options=client.get_model_info())", 3, "passed to keep"),
    ("keep(*client.get_model_info().joints)", 3, "passed to keep"),
    ("print(client.get_model_info())", 3, "passed to print"),
    ("print(f'{client.get_model_info()}')", 3, "no rule knows"),
    ("for number, joint in enumerate(client.get_model_info().joints): pass", 3, "passed to enumerate"),
    ("q, v = client.get_joint_state('a').state.positions, 1", 3, "no rule knows"),
    ("box.state = client.get_joint_state('a').state", 3, "no rule knows"),
    ("box[0] = client.get_joint_state('a')", 3, "no rule knows"),
    ("def f():\n    return client.get_joint_state('a')", 4, "no rule knows"),
    ("f = lambda: client.get_joint_state('a')", 3, "no rule knows"),
    ("last = [client.get_joint_state('a')]", 3, "no rule knows"),
    ("resp = client.reset_scene()\nresp.success = False", 4, "is changed"),
    ("del client.reset_scene().message", 3, "is changed"),
    ("client.get_joint_state('a').state.positions.append(1.0)", 3, "append"),
    ("q = client.get_joint_state('a').state.positions\nq[0] = 1.0", 4, "is changed"),
    ("q = client.get_joint_state('a').state.positions\nq += [1.0]", 3, "q is bound to something else too"),
    ("if client.get_joint_state('a').state: pass", 3, "no rule knows"),
    ("keep(client.reset_scene() == other)", 3, "no rule knows"),
    ("keep(0 if x else client.get_joint_state('a').state.positions)", 3, "no rule knows"),
    ("keep(client.get_joint_state('a').state.positions or x)", 3, "no rule knows"),
    ("frame = next(client.stream_telemetry(), None)\nif frame is None: pass", 4, "no rule knows"),
    ("resp = client.reset_scene()\nresp = None", 3, "resp is bound to something else too"),
    ("for resp in (1, 2): pass\nresp = client.reset_scene()", 4, "resp is bound to something else too"),
    ("a = client.reset_scene()\nif x: a = client.get_model_info().joints[0].name", 3, "a is bound to something else"),
    ("a = client.reset_scene()\ndef f(a):\n    return a\nclass K:\n    b = client.reset_scene()", 7, "class"),
    ("frames = client.stream_telemetry()\nframes.cancel()", 4, "cancel"),
    ("for a, b in client.get_model_info().joints: pass", 3, "no rule knows"),
    ("for joint in client.get_model_info().joints: keep(joint)", 3, "JointDescriptor is passed to keep"),
    ("for joint in client.get_model_info().joints: joint.ClearField('name')", 3, "ClearField is no field"),
    ("joints = sorted(client.get_model_info().joints)", 3, "passed to sorted"),
    ("async def f():\n    await client.reset_scene()", 4, "no rule knows"),
    ("def len(x): ...\nkeep(len(client.get_model_info().joints))", 4, "passed to len"),
]


def test_what_answers_alike_is_rewritten_once() -> None:
    for use in SAME:
        after, refused = rewrite_python(f"{HEAD}{use}\n".encode(), None)
        assert refused == [], use
        assert b"client = lucky_transport.connect()" in after, use
        assert rewrite_python(after, None) == (after, []), use


def test_what_answers_otherwise_leaves_the_client_with_line_and_reason() -> None:
    for use, line, why in OTHERWISE:
        source = f"{HEAD}{use}\n".encode()
        after, refused = rewrite_python(source, None)
        assert after == source, use
        assert [found for found, _ in refused] == [line], (use, refused)
        assert why in refused[0][1], (use, refused)


def test_every_use_in_the_way_is_named_at_once() -> None:
    uses = "keep(client)\nkeep(client.reset_scene())\na = client.get_model_info()\nkeep(a.nq)\nkeep(a)\n"
    after, refused = rewrite_python(f"{HEAD}{uses}".encode(), None)
    assert after.decode() == HEAD + uses
    assert [line for line, _ in refused] == [3, 4, 7]


def test_an_attribute_of_a_class_is_seen_elsewhere_and_not_followed() -> None:
    source = b"from luckyrobots import LuckyEngineClient\nclass K:\n    client = LuckyEngineClient()\n"
    assert [line for line, _ in rewrite_python(source, None)[1]] == [3]


@pytest.mark.parametrize("endpoint", [None, "shm://demo"])
def test_a_result_of_which_nothing_is_used_takes_its_client_along(endpoint: str | None) -> None:
    after, refused = rewrite_python(f"{HEAD}client.connect()\nclient.reset_scene()\n".encode(), endpoint)
    assert refused == []
    assert after.endswith(b"client.mujoco_scene.reset()\n")
