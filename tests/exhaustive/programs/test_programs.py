"""Each program that is installed here gives the same over shared memory; what its page of `signoff` says."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import sides
from tests.programs import sign_off as program_sign_off
from tests.programs.page import EXAMPLES, tell_sign_offs, verdict, write_page
from tests.programs.programs import Program, programs
from tests.programs.sides import ProgramFailed, run_program
from tests.programs.sign_off import SignOff, field_values, sign_off

PROGRAM = Program("any", "any_case", ["any==1.0"], [], "calls")
SAID = "Recorded over TCP: 3 calls of 1 method."


def method(name: str, *reasons: str, compared: int = 1500, different: int = 0) -> dict[str, Any]:
    counts = {"compared": compared, "distinct": compared - 100, "mismatches": different, "failures": 0}
    word = "HELD BACK" if reasons else "MAY MOVE"
    judged = {"latency": [{"holds_back": False}], "gate": {"error": 0.05, "is_whole": True}}
    return {"method": f"/lab.Any/{name}", "verdict": word, "reasons": list(reasons), **counts, **judged}


def signed(*methods: dict[str, Any]) -> SignOff:
    word = "NOT READY" if any(one["reasons"] for one in methods) else "READY"
    limits = {"calls": 1000, "mismatch_limit": 0.003}
    return SignOff([SAID], result={"word": word, "methods": methods, "itself": [], "limits": limits})


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.case)
def test_a_program_gives_the_same_over_shared_memory(program: Program) -> None:
    pytest.importorskip("grpc")
    if program.missing:
        pytest.skip(f"{program.name}: no {', '.join(program.missing)} here; see python -m tests.programs --help")
    over_tcp = run_program(program, sys.executable, shm=False)
    over_shm = run_program(program, sys.executable, shm=True)
    assert over_shm.equal == over_tcp.equal
    assert over_tcp.equal
    assert over_shm.over_shm
    assert over_shm.over_grpc == 0


def test_a_page_has_the_verdict_what_was_compared_and_what_holds_it_back(tmp_path: Path) -> None:
    page = write_page(
        PROGRAM, signed(method("Get"), method("Set", "1 of 1,500 differed" + "x" * 5000, different=1)), tmp_path
    )
    text = page.read_text()
    assert text.startswith("# any 1.0: NOT READY\n\n1 of 2 methods ready; 3,000 calls compared; 1 differed or failed; ")
    assert "; differs: 1 of Set" in text.splitlines()[2]
    assert f"- {SAID}\n" in text
    assert "| Any/Get | MAY MOVE | 1,500 | 1,400 | 0 |\n" in text
    assert "What holds it back:\n\n- Any/Set: 1 of 1,500 differedx" in text
    assert "xxx …" in text
    assert len(text) < 1500


def test_a_page_of_a_program_that_is_ready_names_nothing_that_holds_it_back(tmp_path: Path) -> None:
    text = write_page(PROGRAM, signed(method("Get")), tmp_path).read_text()
    assert text.startswith("# any 1.0: READY\n")
    assert "holds it back" not in text


def test_the_table_has_the_first_line_of_each_page_that_was_made(tmp_path: Path) -> None:
    folder, table = tmp_path / "sign-offs", tmp_path / "programs.md"
    other = Program("other", "other_case", ["other==2.0"], [], "calls")
    table.write_text("| any 1.0 | calls | 0 | - |\n| other 2.0 | calls | 0 | as before |\n| any | 5 |\n")
    write_page(PROGRAM, signed(method("Get")), folder)
    for _ in range(2):  # a second time changes nothing
        tell_sign_offs([PROGRAM, other], folder, table)
    first, *rest = table.read_text().splitlines()
    assert first.startswith("| any 1.0 | calls | 0 | READY: 1 of 1 method ready; 1,500 calls compared; ")
    assert rest == ["| other 2.0 | calls | 0 | as before |", "| any | 5 |"]


def test_the_examples_of_the_documentation_are_in_its_table() -> None:
    examples = [one for one in programs() if (EXAMPLES / f"{one.case}.md").exists()]
    assert len(examples) == len(list(EXAMPLES.iterdir())) == 2
    text = (EXAMPLES.parent / "programs.md").read_text()
    for program in examples:
        assert f"| {verdict(program, EXAMPLES)} |\n" in text


def test_a_program_that_cannot_be_recorded_is_a_failure(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    with pytest.raises(ProgramFailed, match="No module named 'no_such_case'"):
        sign_off(Program("any", "no_such_case", [], [], ""), sys.executable, tmp_path)


CASE = """
from contextlib import contextmanager

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from serving import serving


def server(port):
    return serving(port, lambda one: health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), one))


@contextmanager
def client(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        check = health_pb2_grpc.HealthStub(channel).Check

        def ask():
            return check(health_pb2.HealthCheckRequest(service=""), timeout=30).status

        yield ask, ask, ask
"""


def test_a_program_is_judged_by_its_own_calls_and_by_drawn_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc_health")
    cases, folder = tmp_path / "cases", tmp_path / "made"
    cases.mkdir()
    folder.mkdir()
    for name in ("side.py", "serving.py"):
        shutil.copy(sides.SIDE.with_name(name), cases)
    (cases / "health.py").write_text(CASE)
    for module in (sides, program_sign_off):
        monkeypatch.setattr(module, "SIDE", cases / "side.py")
    (folder / "lucky_transport.toml").write_text("[gate]\ncalls = 20\nmismatch_limit = 0.2\nslower_limit = 1000.0\n")
    done = sign_off(Program("health", "health", [], [], ""), sys.executable, folder)
    [check] = done.methods
    assert (check["verdict"], check["mismatches"], check["failures"]) == ("MAY MOVE", 0, 0), done
    assert check["distinct"] >= 20, "one request is recorded, the others are drawn"
    assert done.word == "READY"
    assert [text.rpartition(":")[0] for text in done.said] == [
        "Recorded over TCP",
        "Made again at a server on a port and at one in shared memory",
        "Replayed in shared memory, against the recorded answers",
        "Drawn",
    ]


def test_values_of_recorded_requests_are_those_of_texts_numbers_and_enums_that_are_set() -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="lab_values.proto", package="lab")
    ask = file.message_type.add(name="Ask")
    for number, kind in enumerate((field.TYPE_STRING, field.TYPE_INT32, field.TYPE_BOOL, field.TYPE_DOUBLE), 1):
        ask.field.add(name=f"f{number}", number=number, type=kind, label=field.LABEL_OPTIONAL)
    ask.field.add(name="more", number=5, type=field.TYPE_MESSAGE, type_name=".lab.Ask", label=field.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("lab.Ask"))
    requests = [
        made(f1="Oslo", f3=True, f4=1.5),
        made(f2=7, more=[made(f1="Bern"), made(f1="Oslo")]),
        made(f1="x" * 300),
    ]
    assert field_values(requests) == ['lab.Ask.f1=["Oslo", "Bern"]', "lab.Ask.f2=[7]"]
