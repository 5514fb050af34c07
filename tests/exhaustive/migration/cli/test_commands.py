"""`lucky-transport bench` and `lucky-transport parity` as a user types them."""

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lucky_transport.inproc import InprocTransport
from lucky_transport.messages.methods import METHODS, method
from lucky_transport.transport import Capabilities
from lucky_transport_migration.bench import suite
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import SpeedTarget
from lucky_transport_migration.bench.suites import steps
from lucky_transport_migration.bench.suites.stubs import cases_of, plan_of_stubs
from tests.planted.changes import answers, one_bit, over_path
from tests.support.command import invoke, json_of, output_of
from tests.support.fixtures.migration_evidence import rows_in

STEP = "/hazel.rpc.AgentService/Step"
QUICK = ("--quick", "--num-envs", "2")


bench = partial(invoke, "bench")


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bench.json of a run in process; `again` shows it once more."""
    folder = tmp_path_factory.mktemp("bench")
    done = bench("--between", "inproc", *QUICK, "--report", str(folder))
    assert done.exit_code == 0, done.output
    return folder / "bench.json"


@pytest.fixture
def again(one_run: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Type the command of that run with further arguments; nothing is measured a second time."""

    def run(self: PreparedSuite, command: str, advance: Callable[..., None]) -> dict[str, Any]:
        for piece in range(self.pieces):
            advance(f"piece {piece}")
        return json.loads(one_run.read_text())

    monkeypatch.setattr(PreparedSuite, "run", run)
    return lambda *arguments: bench("--between", "inproc", *QUICK, *arguments)


def test_json_has_environment_rows_and_ratios(tmp_path: Path) -> None:
    done = bench("--between", "inproc,shm", *QUICK, "--check", "--json", "--report", str(tmp_path))
    found = json.loads(done.stdout)
    assert done.exit_code == int("FAIL" in {row["word"] for row in found["targets"]})
    assert {(row["path"], row["size"]) for row in found["rows"]} >= {("inproc", 2), ("shm", 2)}
    assert {row["word"] for row in found["targets"]} <= {"NO VERDICT", "NOT MEASURED"}
    assert found["verdict"]["word"] == "NO VERDICT"
    assert {one["word"] for one in found["ratios"]} == {"NO VERDICT"}
    assert found["reference"] == "shm"
    written = json.loads((tmp_path / "bench.json").read_text())
    assert len(written["rows"]) == len(found["rows"])
    assert (tmp_path / "bench.html").stat().st_size > 10_000
    markdown = (tmp_path / "report.md").read_text()
    assert markdown.startswith("## Transports of toy:idle\n\n**NO VERDICT** ")
    for shown in (markdown, (tmp_path / "bench.html").read_text()):
        assert "FASTER" not in shown
        assert "Looked at in each exchange or item of" in shown


def test_an_engine_with_composite_spaces_is_measured() -> None:
    done = bench("toy:composite", "--quick", "--num-envs", "1", "--between", "shm", "--json")
    assert done.exit_code == 0, done.output


def test_people_get_sentences_tables_and_notes(again: Callable[..., Result]) -> None:
    done = again("--check")
    assert "Traceback" not in done.output
    assert "One exchange, 2 envs" in done.output
    assert "NOT MEASURED" in done.output
    assert "p50 is the median over rounds" in done.output.replace("\n", " ")


@pytest.mark.parametrize(("measured", "code"), [(1.0, 0), (0.5, 1), (None, 0)])
def test_a_promise_that_fails_is_an_exit_code(
    again: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, measured: float | None, code: int
) -> None:
    target = SpeedTarget("a promise", "at least", 1.0, "times", {"path": "nowhere"} if measured is None else measured)
    monkeypatch.setattr(suite, "LEAST_ROUNDS", 1)
    monkeypatch.setattr(steps, "STEP_TARGETS", (target,))
    done = again("--check")
    assert done.exit_code == code, done.output
    assert again().exit_code == 0


def test_sigterm_ends_a_run_as_ctrl_c_does(one_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: PreparedSuite, *_: Any) -> dict[str, Any]:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        return json.loads(one_run.read_text()) | {"stopped": "interrupted"}

    monkeypatch.setattr(PreparedSuite, "run", run)
    before = signal.getsignal(signal.SIGTERM)
    assert bench("--between", "inproc", *QUICK).exit_code == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_suite_of_commands_runs_over_shared_memory_and_tells_its_targets(tmp_path: Path) -> None:
    done = bench(
        *("--suite", "commands", "--between", "inproc,shm", "--quick", "--check", "--json"),
        *("--report", str(tmp_path)),
    )
    found = json.loads(done.stdout)
    assert done.exit_code == int("FAIL" in {row["word"] for row in found["targets"]})
    kinds = {row["kind"] for row in found["rows"] if row["path"] == "shm"}
    assert kinds == {"unary", "stream", "images", "bytes"}
    assert {row["word"] for row in found["targets"]} <= {"NO VERDICT", "NOT MEASURED"}
    assert (tmp_path / "bench.html").stat().st_size > 5_000
    assert (tmp_path / "report.md").read_text().startswith("## Commands, streams and images\n")


def test_the_suite_of_stubs_measures_grpc_over_tcp_and_a_unix_socket(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = bench(
        *("--suite", "stubs", "--between", "grpc", "--quick", "--check", "--json"), *("--report", str(tmp_path))
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    cells = [cell for case in cases_of(plan_of_stubs(("grpc",), None, rounds=1, quick=True)) for cell in case.cells]
    rows = {(row["path"], row["kind"], row["what"], row["size"], row["rate_hz"]): row for row in found["rows"]}
    assert rows.keys() == {(cell.path, cell.kind, cell.what, cell.size, cell.rate_hz) for cell in cells}
    assert {path for path, *_ in rows} == {"grpc-tcp", "grpc-unix", "pipes"}
    assert {kind for _, kind, *_ in rows} >= {"unary", "stream", "callers", "aio", "bytes", "program"}
    assert [row for row in rows.values() if not row["n"]] == []
    assert {row["kind"] for row in rows.values() if row["cpu_us_each"]["engine"] is None} == {"program"}
    assert {row["word"] for row in found["targets"]} == {"NOT MEASURED"}
    assert (tmp_path / "bench.html").stat().st_size > 5_000


@pytest.mark.parametrize("suite", ["commands", "stubs"])
@pytest.mark.parametrize("arguments", [["toy:copy"], ["--num-envs", "2"], ["--rates", "9"]])
def test_a_suite_of_calls_has_an_engine_of_its_own(suite: str, arguments: list[str]) -> None:
    assert "leave out ENGINE, --num-envs" in output_of(bench("--suite", suite, *arguments), 2)


parity = partial(invoke, "parity")


def test_people_get_a_sentence_and_tables(twin: str) -> None:
    done = parity("toy", "--between", f"inproc,{twin}", "--steps", "30", "--autoreset", "all", "--count", "2")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "EQUAL: steps and calls."
    assert all(mode in done.output for mode in ("frames", "next_step", "same_step", "disabled"))
    rows = [line.split() for line in done.output.splitlines()]
    assert ["method", "calls", "equal", "ok", "refused"] in rows
    [row] = [row for row in rows if row[:1] == ["SceneService/ListEntities"]]
    assert row[1] == row[2] != "0"
    assert "not compared: AgentFrame.timestamp_ms" in done.output


@pytest.mark.parametrize("suite", [[], ["--suite", "step"], ["--suite", "step", "--json"]])
def test_no_transport_is_blamed_where_the_engine_differs_from_itself(
    twin: str, suite: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (twin, "inproc#2"):
        over_path(monkeypatch, path, one_bit(env=0))
    sizes = ("--num-envs", "2", "--steps", "10", *(("--count", "2") if not suite else ()))
    done = parity("toy", "--between", f"inproc,{twin}", *sizes, *suite)
    assert done.exit_code == 1
    if "--json" in suite:
        found = json.loads(done.stdout)
        assert (found["equal"], found["itself"]["equal"]) == (False, False)
        assert found["itself"]["between"] == ["inproc", "inproc#2"]
        return
    assert done.output.splitlines()[-1] == (
        f"NOT COMPARED with {twin}: engine 'toy' differs from itself, two of them over inproc with the same seed. "
        "Make it draw from its seed alone, or name in [parity.fields] what differs."
    )
    assert "DIFFERENT: observation of env 0" in done.output
    assert f"{twin} " not in done.output.rpartition("NOT COMPARED")[0]


def test_a_path_that_is_compared_with_itself_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    over_path(monkeypatch, "inproc#2", one_bit(env=0))
    done = parity("toy", "--between", "inproc", "--aa", "--suite", "step", "--steps", "5", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["itself"] is None


def test_an_engine_that_legacy_grpc_does_not_carry_is_refused_with_the_path_that_does() -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    text = output_of(parity("toy:composite", "--between", "grpc,shm", "--suite", "step", "--steps", "5"), 1)
    assert "engine 'toy' has observations or actions with parts" in text
    assert "for `parity` the path grpc-batch" in text
    done = parity("toy:composite", "--between", "grpc-batch,shm", "--suite", "step", "--steps", "5")
    assert done.exit_code == 0, done.output


def test_steps_are_evidence_of_exchanges_for_the_gate(twin: str, tmp_path: Path) -> None:
    sizes = ("--num-envs", "2", "--steps", "20", "--evidence", str(tmp_path / "seen"))
    done = parity("toy", "--suite", "step", "--between", f"inproc,{twin}", *sizes)
    assert done.exit_code == 0, done.output
    seen = rows_in(tmp_path / "seen")
    assert len(seen) == 40
    assert {(one["method"], one["stage"], one["kind"], one["verdict"]) for one in seen} == {
        (STEP, "exchange", "parity", "equal")
    }
    assert {(one["authority"]["transport"], one["shadow"]["transport"]) for one in seen} == {("inproc", twin)}
    assert all(one[side]["us"] > 0 for one in seen for side in ("authority", "shadow"))


def test_only_chosen_methods_are_evidence_where_nothing_differs(twin: str, tmp_path: Path) -> None:
    name, folder = "/hazel.rpc.SceneService/ListEntities", tmp_path / "seen"
    arguments = ("--method", name, "--between", f"inproc,{twin}", "--count", "4", "--evidence", str(folder))
    done = parity("toy", *arguments, "--json")
    assert done.exit_code == 0, done.output
    assert {one["method"] for one in rows_in(folder)} == {name}
    assert "compared" not in json.loads(done.stdout), "no steps"


def test_a_step_that_differs_is_evidence_with_its_place(
    twin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_path(monkeypatch, twin, one_bit(env=0))
    arguments = ("--suite", "step", "--between", f"inproc,{twin}", "--steps", "5", "--evidence", str(tmp_path / "seen"))
    assert parity("toy", *arguments).exit_code == 1
    (seen,) = rows_in(tmp_path / "seen")
    assert (seen["method"], seen["verdict"], seen["aspect"]) == (STEP, "different", "item")
    assert "exchange 1: observation[env 0]" in seen["where"]
    assert set(seen["values"]) == {"inproc", twin}


def test_by_default_steps_and_all_typed_calls_are_compared(twin: str) -> None:
    done = parity("toy", "--between", f"inproc,{twin}", "--method", "all", "--count", "1", "--steps", "20", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["equal"] is True
    assert found["compared"]["steps"] == 40
    assert set(found["methods"]) == {row.name for row in METHODS}
    row = found["methods"][STEP]
    assert (row["calls"] > 0, row["mismatches"]) == (True, 0)
    assert {"what": "AgentFrame.timestamp_ms", "why": row["not_compared"][0]["why"]} in row["not_compared"]
    assert all(gap["what"] and gap["why"] for each in found["methods"].values() for gap in each["not_compared"])


def test_a_transport_without_typed_calls_is_compared_by_steps(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without = property(lambda _: Capabilities(commands=False), lambda _, value: None)
    monkeypatch.setattr(InprocTransport, "capabilities", without, raising=False)
    done = parity("toy", "--between", f"inproc,{twin}", "--steps", "5", "--json")
    assert done.exit_code == 0, done.output
    left_out = {gap["what"]: gap["why"] for gap in json.loads(done.stdout)["compared"]["not_compared"]}
    assert left_out["typed calls"].startswith("inproc carries no typed calls")


def test_a_path_is_compared_with_itself_as_evidence_of_noise(few_items: None, tmp_path: Path) -> None:
    sizes = ("--count", "1", "--steps", "5", "--evidence", str(tmp_path / "seen"))
    done = parity("toy", "--between", "inproc,grpc", "--aa", *sizes, "--json")
    assert done.exit_code == 0, done.output
    assert {one["kind"] for one in rows_in(tmp_path / "seen")} == {"aa"}
    assert json.loads(done.stdout)["between"] == ["inproc", "inproc#2"]


def test_rules_of_the_project_count_and_are_told(twin: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    joints = answers(method("MujocoService/GetJointState"), lambda one: one.state and setattr(one.state, "nq", 99))
    over_path(monkeypatch, twin, one_bit(), joints)
    monkeypatch.chdir(tmp_path)
    rows = '"observation" = { abs = 1e-5 }\n"JointState.nq" = { skip = "counted elsewhere" }\n'
    (tmp_path / "lucky_transport.toml").write_text(f"[parity.fields]\n{rows}")
    found = json_of(parity("toy", "--between", f"inproc,{twin}", "--steps", "20", "--count", "1", "--json"))
    row = found["methods"]["/hazel.rpc.MujocoService/GetJointState"]
    assert {"what": "JointState.nq", "why": "counted elsewhere"} in row["not_compared"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["bench", "--between", "inproc,pigeon", *QUICK], "no transport 'pigeon'"),
        (["bench", "--rounds", "0"], "0 is not in the range"),
        (["bench", "--rates", "0"], "'0' in '0' is no whole number from 1"),
        (["bench", "tyo", "--between", "inproc", *QUICK], "no engine 'tyo'"),
        (["parity", "toy", "--between", "inproc,nowhere"], "no transport 'nowhere'"),
        (["parity", "toy", "--between", "inproc"], "at least two different paths"),
        (["parity", "toy", "--steps", "0"], "0 is not in the range"),
        (["parity", "toy", "--steps", "many"], "'many' is not a valid integer"),
        (["parity", "toy", "--seed", "-1"], "-1 is not in the range"),
        (["parity", "toy", "--autoreset", "sometimes"], "'sometimes' is not one of"),
        (["parity", "toy", "--suite", "dances"], "'dances' is not one of"),
        (["parity", "toy", "--suite", "step", "--method", "*"], "--method: not with --suite step"),
        (["parity", "toy", "--suite", "commands", "--steps", "5"], "--steps: not with --suite commands"),
        (["parity", "toy", "--suite", "commands", "--autoreset", "all"], "--autoreset: not with --suite commands"),
        (["parity", "toy", "--suite", "commands", "--count", "0"], "0 is not in the range"),
        (["parity", "toy", "--suite", "commands", "--method", "Fly"], "no method is called 'Fly'"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], complaint: str) -> None:
    done = invoke(*arguments)
    assert done.exit_code != 0
    assert complaint in done.output
    assert "Traceback" not in done.output
