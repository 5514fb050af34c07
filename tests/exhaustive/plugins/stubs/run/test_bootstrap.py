"""The sitecustomize that every Python under the launcher finds: what it switches, and what it leaves alone."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.process import unique_name
from tests.plugins.stubs.run.conftest import BOOTSTRAP, Launch

SOURCE = Path(BOOTSTRAP) / "sitecustomize.py"

#: A grpc and a lucky_transport_stubs that tell what happens to them, for programs that have neither.
GRPC = """
import sys
def insecure_channel(target): return "original"
from . import aio
"""
STUBS = """
import sys
def activate(grpc):
    print("activated", grpc.__name__, hasattr(grpc, "insecure_channel"), grpc.__loader__.__class__.__name__)
"""

MODULES = "import sys; print(*sorted(sys.modules))"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with stand-ins for grpc and for our package."""
    for name, text in {
        "grpc/__init__.py": GRPC,
        "grpc/aio/__init__.py": "",
        "lucky_transport_stubs/__init__.py": "",
        "lucky_transport_stubs/run/__init__.py": "",
        "lucky_transport_stubs/run/activation.py": STUBS,
    }.items():
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "packages"


def start(
    code: str, *path: Path | str, before: tuple[Path, ...] = (), flags: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a Python with the bootstrap and `path` on PYTHONPATH, and none of the packages installed here.

    before: what a launcher puts in front of the bootstrap.
    """
    folders = os.pathsep.join(map(str, (*before, BOOTSTRAP, *path)))
    environ = {"PYTHONPATH": folders, "LUCKY_TRANSPORT": "shm", **variables}
    command = [getattr(sys, "_base_executable", sys.executable), *flags, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def test_its_folder_holds_nothing_else() -> None:
    names = {path.name for path in Path(BOOTSTRAP).iterdir() if path.name != "__pycache__"}
    assert names == {"sitecustomize.py", "grpc.py"}


def test_it_is_python_3_8_and_imports_nothing_that_does_not_come_with_it() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"atexit", "os", "sys"}
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom)]


def test_a_python_that_does_not_use_grpc_imports_nothing_for_us(packages: Path) -> None:
    without = start(MODULES, flags=("-E",)).stdout.split()
    found = set(start(MODULES, packages).stdout.split()) - set(without)
    assert found - {"atexit"} == {"sitecustomize"}  # atexit is built in, and some Pythons begin with it


@pytest.mark.parametrize("transport", ["shm", ""])
def test_the_sitecustomize_that_it_hides_runs_too(tmp_path: Path, transport: str) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    done = start("import sitecustomize; print(sitecustomize.__file__)", tmp_path, LUCKY_TRANSPORT=transport)
    assert done.stdout == f"theirs\n{tmp_path / 'sitecustomize.py'}\n"


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """A folder as launchers put it in front of PYTHONPATH, whose sitecustomize runs no other."""
    folder = tmp_path / "launcher"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("print('theirs')")
    return folder


ACTIVATED = "activated grpc True SourceFileLoader\n"
_LOOK = f"\nimport sys; print('packages' in sys.modules['grpc'].__file__, {BOOTSTRAP!r} in sys.path)"
_FINDERS = "[type(finder).__module__ for finder in sys.meta_path if type(finder).__module__ == 'sitecustomize']"


@pytest.mark.parametrize(
    ("code", "transport", "out"),
    [
        ("import grpc; print('imported')", "shm", f"{ACTIVATED}imported\n"),
        ("import grpc, importlib; importlib.reload(grpc)", "shm", ACTIVATED * 2),
        (f"from grpc import aio{_LOOK}", "shm", f"{ACTIVATED}True False\n"),
        (f"import grpc.aio{_LOOK}", "shm", f"{ACTIVATED}True False\n"),
        (f"import sys; print({_FINDERS})", "shm", "['sitecustomize']\n"),
        (f"import grpc, sys; print({_FINDERS})", "", "[]\n"),
        (f"import sys; sys.path.insert(0, {BOOTSTRAP!r}); import grpc{_LOOK}", "shm", f"{ACTIVATED}True False\n"),
    ],
)
def test_whoever_imports_grpc_has_it_switched_right_then(packages: Path, code: str, transport: str, out: str) -> None:
    done = start(code, packages, LUCKY_TRANSPORT=transport)
    assert (done.stdout, done.stderr) == (out, "")


_RUNS_IT = "import sys; sys.path.remove(sys.path[0]); del sys.modules['sitecustomize']; import sitecustomize"


@pytest.mark.parametrize(
    ("first", "code", "transport", "out"),
    [
        *(
            ("print('theirs')", f"{code}{_LOOK}", "shm", f"theirs\n{ACTIVATED}True False\n")
            for code in ("import grpc", "import grpc.aio", "from grpc import aio", "import grpc; import grpc")
        ),
        ("import grpc", "print('program')", "shm", f"{ACTIVATED}program\n"),
        (_RUNS_IT, "import grpc", "shm", ACTIVATED),
        ("", "import grpc; print(grpc.insecure_channel(1))", "", "original\n"),
    ],
)
def test_a_sitecustomize_that_hides_it_does_not_keep_grpc_from_the_switch(
    launcher: Path, packages: Path, first: str, code: str, transport: str, out: str
) -> None:
    (launcher / "sitecustomize.py").write_text(first)
    assert start(code, packages, before=(launcher,), LUCKY_TRANSPORT=transport).stdout == out


@pytest.mark.parametrize("hidden", [False, True])
def test_a_program_without_grpc_learns_that_from_python_itself(launcher: Path, hidden: bool) -> None:
    code = "import sys; sys.path[:] = [entry for entry in sys.path if '-packages' not in entry]; import grpc"
    done = start(code, before=(launcher,) if hidden else ())
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'grpc'\n")


def test_another_package_that_speaks_grpc_is_noted_down_once_it_is_imported(packages: Path, tmp_path: Path) -> None:
    (packages / "grpclib").mkdir()
    (packages / "grpclib/__init__.py").write_text("")
    notes = tmp_path / "notes"
    notes.mkdir()
    look = "from importlib.util import find_spec; print(find_spec('grpclib').name)"
    assert start(look, packages, LUCKY_RUN_PARENT="1", LUCKY_RUN_FOLDER=str(notes)).stdout == "grpclib\n"
    assert list(notes.iterdir()) == []
    assert start("import grpclib", packages, LUCKY_RUN_PARENT="1", LUCKY_RUN_FOLDER=str(notes)).stderr == ""
    assert [note.read_text() for note in notes.glob("*.grpclib.other")] == ["grpclib"]


def test_an_error_in_the_hidden_one_is_shown_as_python_shows_it(tmp_path: Path, packages: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("1 / 0")
    done = start("import grpc", tmp_path, packages)
    assert "Error in sitecustomize" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "activated" in done.stdout


def test_another_import_hook_before_or_behind_ours_works_on(packages: Path) -> None:
    code = """
import importlib.util, sys
class Other:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name != "grpc" or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        print("seen")
        return spec
sys.meta_path.insert(PLACE, Other())
import grpc
"""
    for place in "0", "1":
        done = start(code.replace("PLACE", place), packages)
        assert "seen" in done.stdout, done.stderr
        assert "activated" in done.stdout


def test_a_program_that_executes_itself_anew_keeps_its_folder_and_reports(packages: Path, tmp_path: Path) -> None:
    again = """
import os, sys
if "anew" not in sys.argv:
    os.execv(sys.executable, [sys.executable, "-c", os.environ["CODE"], "anew"])
import grpc
print(os.environ["LUCKY_RUN_FOLDER"], flush=True)
input()
"""
    folder = tmp_path / "temporary"
    folder.mkdir()
    variables = {"CODE": again, "LUCKY_TRANSPORT": "shm", "TMPDIR": str(folder)}
    path = os.pathsep.join([BOOTSTRAP, str(packages)])
    with subprocess.Popen(
        [getattr(sys, "_base_executable", sys.executable), "-c", again],
        env={"PYTHONPATH": path, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert "activated" in program.stdout.readline()
        assert list(folder.iterdir()) == [Path(program.stdout.readline().strip())]
        program.communicate("\n")
    assert list(folder.iterdir()) == []


def test_a_folder_that_was_removed_is_reported_too(packages: Path, tmp_path: Path) -> None:
    (packages / "lucky_transport_stubs/run/report.py").write_text("def conclude_here(folder): print('told')")
    remove = "import grpc, os, shutil; shutil.rmtree(os.environ['LUCKY_RUN_FOLDER'])"
    done = start(remove, packages, TMPDIR=str(tmp_path), LUCKY_RUN_REPORT="-")
    assert (done.stdout.splitlines()[-1], done.stderr) == ("told", "")


def test_a_switch_that_fails_ends_the_process_with_78_and_one_line(packages: Path) -> None:
    (packages / "lucky_transport_stubs/run/activation.py").write_text("def activate(grpc): raise ValueError('no map')")
    done = start("import os; print(os.getpid(), flush=True)\nimport grpc; print('never')", packages)
    assert (done.returncode, done.stdout.count("\n")) == (78, 1)
    assert done.stderr == f"lucky-transport: pid {done.stdout.strip()} cannot be switched: ValueError: no map\n"


@pytest.fixture
def bare(packages: Path) -> Path:
    """A folder with grpc and without lucky_transport."""
    shutil.rmtree(packages / "lucky_transport_stubs")
    return packages


@pytest.mark.parametrize(
    ("parent", "status", "out"),
    [(str(os.getpid()), 78, ""), (None, 78, ""), ("1", 0, "original\n")],
    ids=["the program itself", "a program that nobody launched", "a child"],
)
def test_without_our_package_a_program_is_refused_and_a_child_noted_down(
    bare: Path, tmp_path: Path, parent: str | None, status: int, out: str
) -> None:
    launched: Any = {"LUCKY_RUN_PARENT": parent, "LUCKY_RUN_FOLDER": str(tmp_path)} if parent else {}
    done = start("import grpc; print(grpc.insecure_channel(1))", bare, **launched)
    assert (done.returncode, done.stdout) == (status, out)
    assert ("has no lucky_transport, pip install it there" in done.stderr) == (status == 78)
    notes = [Path(note.read_text()) for note in tmp_path.glob("*.absent")]
    assert [note.samefile(sys.executable) for note in notes] == [True] * (status == 0)


@pytest.mark.parametrize(("flag", "is_shut_out"), [("-E", True), ("-I", True), ("-P", False), ("-S", False)])
def test_what_shuts_it_out_is_known(flag: str, is_shut_out: bool, packages: Path) -> None:
    """Facts that `--check` relies on: if one of them changes, so must the list of flags."""
    code = f"import sys; sys.path.append({str(packages)!r}); import grpc"
    assert ("activated" in start(code, flags=(flag,)).stdout) == (not is_shut_out)


def test_opentelemetrys_launcher_keeps_no_program_from_the_switch(launch: Launch) -> None:
    """Its sitecustomize comes first on PYTHONPATH, and runs no other."""
    instrument = Path(sys.executable).with_name("opentelemetry-instrument")
    if not instrument.exists():
        pytest.skip("opentelemetry-instrument is not installed")
    exporters = [f"--{signal}_exporter=none" for signal in ("traces", "metrics", "logs")]
    code = "import grpc; grpc.insecure_channel('localhost:50051').unary_unary('/t.T/Echo').future(b'').cancel()"
    name = unique_name()
    done = launch(
        *("--transport", "shm", "--endpoint", f"shm://{name}"),
        command=[str(instrument), *exporters, sys.executable, "-c", code],
    )
    assert done.returncode == 0, done.stderr
    assert f"localhost:50051 goes to shm://{name}" in done.stderr
    assert "1 call over shared memory, 0 over gRPC, by 1 process" in done.stderr
