"""`lucky-transport run`: an unmodified program over shared memory."""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TextIO

import click

from lucky_transport.call_counts import new_folder
from lucky_transport.cli.completion import complete_endpoints
from lucky_transport.config import Launch, Settings, environment, load_launch, load_settings
from lucky_transport.errors import ConfigError, UnknownName
from lucky_transport_stubs.run import launch
from lucky_transport_stubs.run.activation import variables
from lucky_transport_stubs.run.notice import tell
from lucky_transport_stubs.run.switch import MODES, served_map, target_map
from lucky_transport_stubs.run.unpatched_processes import UnpatchedProcessDetector

#: As a shell says that there is no such program, or that it cannot be run.
_NO_PROGRAM, _NO_EXECUTABLE = 127, 126
_REPORT = "lucky_transport_stubs.run.report"

_NOTHING_RECORDED = "no channel made a call; record the client, not its server, to have what a server answers"

#: As `env` and `timeout` say that they themselves failed, not the program.
_NOTHING_SWITCHED = 125


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n"
    "  lucky-transport run --transport shm --endpoint shm://demo -- python train.py --lr 3e-4\n"
    "  lucky-transport run --endpoint shm://demo --report calls.json -- torchrun --nproc-per-node 2 train.py\n"
    "  lucky-transport run --transport grpc -- python train.py        # only count: the baseline\n"
    "  lucky-transport run --transport staged --endpoint shm://demo -- python train.py  # each method by its stage\n"
    "  lucky-transport run --map '127.0.0.1:*=shm://engine_{port}' --map 'robot:*=shm://robot' -- ./start.sh\n"
    "  lucky-transport run --transport shm --serve '127.0.0.1:50051=shm://demo' -- python server.py\n"
    "  lucky-transport run --transport shm --require --map 'localhost:50071=shm://weather' -- python client.py\n"
    "  lucky-transport run --transport grpc --record run.jsonl.gz -- python client.py  # for lucky-transport replay\n"
    "  lucky-transport run --transport shm --endpoint shm://demo --print-environment\n",
)
@click.option("--transport", type=click.Choice(MODES), help="Default: LUCKY_TRANSPORT, else auto.")
@click.option(
    "--endpoint",
    shell_complete=complete_endpoints,
    metavar="ENDPOINT",
    help="The engine, shm://NAME, that takes the place of luckyrobots' default target (port 50051 of this host).",
)
@click.option(
    "--map",
    "pairs",
    multiple=True,
    metavar="TARGET=ENDPOINT",
    help="Which targets are switched, in place of that default; * stands for anything, {host} and {port} for the"
    " target's own. The first that fits decides; may be given repeatedly.",
)
@click.option(
    "--serve",
    "served",
    multiple=True,
    metavar="ADDRESS=ENDPOINT",
    help="Which ports of its servers are served at which endpoints too, in place of those that --map or the default"
    " names; patterns as there; may be given repeatedly.",
)
@click.option("--serve-only", is_flag=True, help="Serve these ports over shared memory alone, not over gRPC.")
@click.option("--require", is_flag=True, help="Exit with 125 when nothing was switched and COMMAND ended with 0.")
@click.option(
    "--check", is_flag=True, help="Also name Pythons that cannot be switched and use no gRPC (-I, -E, env={})."
)
@click.option(
    "--report",
    metavar="FILE.json|-",
    help="Write the calls to this file, as JSON; - stands for stderr, terminal or not, and for notices too.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every call and its answer to this file, for lucky-transport replay; compressed if it is a .gz.",
)
@click.option("--quiet", is_flag=True, help="Say what went wrong, nothing else.")
@click.option("--print-environment", is_flag=True, help="Run nothing: print the variables that switch a program.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def run(
    transport: str | None,
    endpoint: str | None,
    pairs: tuple[str, ...],
    served: tuple[str, ...],
    serve_only: bool,
    require: bool,
    check: bool,
    report: str | None,
    record: Path | None,
    quiet: bool,
    print_environment: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND with its gRPC channels and servers over shared memory. Nothing in it changes, nor in its children.

    With --transport shm, mapped targets go over shared memory; without an engine there, calls fail as UNAVAILABLE. With
    auto they do so where an engine is there when the channel is made, else they stay on gRPC, and run says so. With
    grpc nothing is switched and calls are counted. With staged each call goes over gRPC or shared memory, as the stage
    of its method says (lucky-transport stage), and reads are made over the other one too and compared.

    Servers listen over shared memory beside the ports that they bind, or with --serve-only in place of them.

    At the end it says which methods went where and how often, on stderr if that is a terminal, since a program may
    read anything else. Exit status and signals are COMMAND's own, but with --require: 125 says that no call and no port
    went over shared memory, and stderr names the map to add. With --quiet, and neither --report, --require nor --check,
    COMMAND takes the launcher's place and keeps its pid.
    """
    settings = load_settings(
        {
            "transport": transport,
            "endpoint": endpoint,
            "grpc_map": " ".join(pairs) or None,
            "grpc_serve": " ".join(served) or None,
            "grpc_serve_only": serve_only or None,
            "record": None if record is None else str(_new(record)),
        }
    )
    if settings.record:
        from lucky_transport_stubs.staged.router import find_router  # what it imports, a plain run does without

        find_router("a recording is asked for")
    if require and settings.transport == "grpc":
        raise click.UsageError("--require asks for shared memory, and --transport grpc switches nothing")
    mapped = target_map(settings)  # a mistake in a map is reported here, not by every process of the program
    served_map(settings)
    asked = Launch(quiet=quiet, report="-" if "-" in (report, load_launch().report) else "")
    if print_environment:
        _print(variables(settings, asked))
        return
    if not command:
        raise click.UsageError("say what to run: lucky-transport run [OPTIONS] -- python train.py")
    _find(command[0])
    if quiet and not report and not check and not require:
        environ = environment() | variables(settings, asked._replace(parent=str(os.getppid())))
        with _started(command[0]):
            launch.replace_us(command, environ)
    file = None if report == "-" else report
    status, unswitched = _run_and_report(settings, command, asked, check=check, file=file, to=mapped.only_endpoint)
    if require and not status and unswitched:
        _give_up(unswitched, _NOTHING_SWITCHED)
    sys.exit(launch.end_like(status))


def _print(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if value:
            click.echo(f"export {name}={shlex.quote(value)}")


def _new(file: Path) -> Path:
    """Return the file's whole path; raises ConfigError where it is there already."""
    if file.exists():
        raise ConfigError(f"{file} is there already", hint="name another file, or remove it")
    return file.absolute()


def _find(program: str) -> None:
    """End with the status of a shell when there is no such program."""
    try:
        launch.find_program(program, environment().get("PATH", os.defpath))
    except UnknownName as error:
        _give_up(str(error), _NO_EXECUTABLE if os.sep in program and os.path.exists(program) else _NO_PROGRAM)


@contextlib.contextmanager
def _started(program: str) -> Generator[None]:
    """End with the status of a shell when the system refuses to run the program."""
    try:
        yield
    except OSError as error:
        _give_up(f"{program!r} cannot be run: {error}", _NO_EXECUTABLE)


def _give_up(why: str, status: int) -> NoReturn:
    click.echo(f"Error: {why}", err=True)
    sys.exit(status)


def _run_and_report(
    settings: Settings, command: Sequence[str], asked: Launch, *, check: bool, file: str | None, to: str
) -> tuple[int, str]:
    """Return how the program ended, and why nothing was switched, "" when something was."""
    lookout = UnpatchedProcessDetector(os.getpid(), thorough=check)

    def watch() -> None:
        importlib.import_module(_REPORT)  # beside the starting program, which need not wait for it
        lookout.look()

    with contextlib.ExitStack() as stack:
        target = stack.enter_context(_opened(file)) if file else None
        folder = new_folder()
        environ = environment() | variables(settings, asked._replace(folder=str(folder), parent=str(os.getpid())))
        try:
            with _started(command[0]):
                status = launch.run(command, environ, watch=watch, thorough=check)
        finally:
            from lucky_transport_stubs.run.report import Report

            found = Report.conclude(folder, lookout.escapes)
        tell(found.troubles() if asked.quiet else found.text(), asked=bool(asked.report))
        if settings.record and not Path(settings.record).exists():
            tell(f"lucky-transport: {settings.record} was not written: {_NOTHING_RECORDED}\n", asked=bool(asked.report))
        if target is not None:
            import json

            with contextlib.suppress(OSError):  # a pipe or a device, which has nothing of before
                target.truncate(0)
            target.write(
                json.dumps({"transport": settings.transport, "status": status, **found.plain()}, indent=2) + "\n"
            )
    return status, found.unswitched(to)


def _opened(report: str) -> TextIO:
    """Return the open file with what is in it: one that cannot be written is reported before the program runs."""
    try:
        return open(report, "a", encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(str(error), param_hint="'--report'") from error
