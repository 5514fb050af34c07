"""What is said at the end, and what the JSON file holds."""

from __future__ import annotations

from pathlib import Path

from lucky_transport.call_counts import CallCounters, Calls, ProcessCalls
from lucky_transport.count_folders import new_folder
from lucky_transport_stubs.run.report import Report
from lucky_transport_stubs.run.unpatched_processes import UnpatchedProcess


def calls(method: str, count: int, *, endpoint: str = "shm://demo", target: str = "127.0.0.1:50051") -> Calls:
    return Calls(target, endpoint, "" if endpoint else "the map does not name it", method, count)


def test_a_program_that_called_nothing_is_told_so() -> None:
    seen = "lucky-transport: no gRPC call was counted; {} that can be switched imported grpc\n"
    assert Report([]).text() == seen.format("no process")
    assert Report([], reached=[7]).text() == seen.format("1 process")


def test_it_says_which_methods_went_where_and_how_often() -> None:
    made = [calls("/a.B/Reset", 2), calls("/a.B/Step", 1000), calls("/c.D/Log", 1, endpoint="", target="logs:1")]
    assert Report([ProcessCalls(7, ["python"], 0, made)]).text() == (
        "lucky-transport: 1,002 calls over shared memory, 1 over gRPC, by 1 process\n"
        "  127.0.0.1:50051 over shm://demo\n"
        "         1,000  /a.B/Step\n"
        "             2  /a.B/Reset\n"
        "  logs:1 over gRPC: the map does not name it\n"
        "             1  /c.D/Log\n"
    )


def test_processes_are_added_up_and_listed() -> None:
    processes = [
        ProcessCalls(7, ["python", "train me.py"], 0, [calls("/a.B/Step", 3)]),
        ProcessCalls(8, ["python", "x" * 200], 1, [calls("/a.B/Step", 4), calls("/a.B/Reset", 1)]),
    ]
    report = Report(processes)
    assert report.text() == (
        "lucky-transport: 8 calls over shared memory, 0 over gRPC, by 2 processes\n"
        "  127.0.0.1:50051 over shm://demo\n"
        "             7  /a.B/Step\n"
        "             1  /a.B/Reset\n"
        "  by process\n"
        "             3  pid 7: python 'train me.py'\n"
        f"             5  pid 8: python {'x' * 90}...\n"
    )
    plain = report.plain()
    assert [(one["method"], one["count"]) for one in plain["calls"]] == [("/a.B/Step", 7), ("/a.B/Reset", 1)]
    assert [(one["pid"], len(one["calls"])) for one in plain["processes"]] == [(7, 1), (8, 2)]


def test_names_of_programs_and_methods_are_spelt_out() -> None:
    made = [calls("/a.B/\x1b[31mStep", 1, target="unix:/x\ny")]
    processes = [ProcessCalls(pid, ["python", "-c", "a\nb"], 0, made) for pid in (7, 8)]
    text = Report(processes, escapes=[UnpatchedProcess(9, ["python", "\x1b[2J"], "why")]).text()
    assert r"/a.B/\x1b[31mStep" in text
    assert r"unix:/x\ny" in text
    assert text.count(r"python -c 'a\nb'") == 2
    assert r"python '\x1b[2J'" in text
    assert "\x1b" not in text


def test_what_was_not_reached_is_always_said() -> None:
    unpatched = UnpatchedProcess(10, ["python", "-I", "x.py"], "started with -I")
    report = Report([], {9: "/other/python"}, [unpatched], others=[(11, "grpclib"), (12, "ray"), (13, "ray")])
    assert report.troubles() == (
        "lucky-transport: pid 9 stayed on gRPC: /other/python has no lucky_transport\n"
        "lucky-transport: pid 10 (python -I x.py) was not switched: started with -I\n"
        "lucky-transport: pid 11 imported grpclib, which speaks gRPC without grpcio;"
        " only what is generated for grpcio is switched\n"
        "lucky-transport: pid 12 and 1 other imported ray, which has a gRPC of its own in its wheel,"
        " between its nodes and workers, in C++; nothing can switch it\n"
    )
    assert report.text().endswith(report.troubles())
    assert report.plain()["without_lucky_transport"] == [{"pid": 9, "python": "/other/python"}]
    assert report.plain()["other_packages"][:2] == [{"pid": 11, "package": "grpclib"}, {"pid": 12, "package": "ray"}]
    assert report.plain()["escapes"] == [{"pid": 10, "command": ["python", "-I", "x.py"], "why": "started with -I"}]


def test_a_ledger_is_read_once_and_removed() -> None:
    folder = new_folder()
    assert folder.stat().st_mode & 0o077 == 0
    CallCounters(folder).counter(calls("/a.B/Step", 0)).add()
    Path(folder, "9.absent").write_text("/other/python")
    Path(folder, "8.reached").touch()
    Path(folder, "8.pyarrow.flight.other").write_text("pyarrow.flight")
    without, unpatched = (UnpatchedProcess(pid, ["python"], "why") for pid in (9, 10))
    report = Report.conclude(folder, [without, unpatched])
    assert [process.calls for process in report.processes] == [[calls("/a.B/Step", 1)]]
    assert report.absent == {9: "/other/python"}
    assert (report.reached, report.others, report.escapes) == ([8], [(8, "pyarrow.flight")], [unpatched])
    assert not folder.exists()
