"""`lucky-transport`: lists the commands without importing them, and loads the one that runs.

A TransportError ends a command with its text on stderr and exit code 1; a traceback is a bug.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from lucky_transport.cli.completion import COMPLETION_VARIABLE
from lucky_transport.config import environment
from lucky_transport.errors import TransportError, did_you_mean, printable
from lucky_transport.found_file import working_directory
from lucky_transport.registry import load, missing_extra, registry

#: The exit code after Ctrl-C: that of a program ended by SIGINT. `serve` exits with 0, since Ctrl-C is how it ends.
INTERRUPTED = 128 + signal.SIGINT


#: The sections of `--help`; a command of any other stands in the last one.
_SECTIONS = {
    "run": "Run engines and programs",
    "prove": "Prove that nothing changes",
    "migrate": "Migrate method by method",
    "look": "Look at what there is",
    "more": "More",
}


def _plain(command: click.Command) -> click.Command:
    """Return the command with words for numbers in its help: N, not INTEGER RANGE."""
    for param in command.params:
        if param.metavar is None and isinstance(param.type, _NUMBERS) and not getattr(param, "is_flag", False):
            param.metavar = "N"
    for deeper in command.commands.values() if isinstance(command, click.Group) else ():
        _plain(deeper)
    return command


_NUMBERS = (type(click.INT), type(click.FLOAT), click.IntRange, click.FloatRange)


class _Commands(click.Group):
    """Subcommands from the registry, imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(registry().commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        info = registry().commands.get(cmd_name)
        return None if info is None else _plain(load(info.command, owner=f"command {cmd_name!r}", extra=info.extra))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = registry().commands
        width = max(map(len, commands), default=0)
        rows: dict[str, list[tuple[str, str]]] = {section: [] for section in _SECTIONS}
        for name in self.list_commands(ctx):
            rows.get(commands[name].section, rows["more"]).append((name.ljust(width), commands[name].summary))
        for section, title in _SECTIONS.items():
            if rows[section]:
                with formatter.section(title):
                    formatter.write_dl(rows[section])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in registry().commands:
            ctx.fail(_unknown(name))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TransportError as error:
            raise click.ClickException("\n".join(map(printable, str(error).split("\n")))) from error
        except ModuleNotFoundError as error:  # commands import what they need when they run
            name = ctx.invoked_subcommand or ""
            info = registry().commands.get(name)
            missing = info and missing_extra(error, owner=f"command {name!r}", extra=info.extra)
            if not missing:
                raise
            raise click.ClickException(str(missing)) from error
        except FileNotFoundError as error:
            if Path(working_directory()).exists():
                raise
            raise click.ClickException("the working directory is gone: `cd` to one that is there") from error
        except (KeyboardInterrupt, click.Abort) as error:  # click turns Ctrl-C at a prompt into an Abort
            if isinstance(error, click.Abort) and not isinstance(error.__context__, KeyboardInterrupt):
                raise
            click.echo("\ninterrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


def _unknown(name: str) -> str:
    """Return the error text for a command that does not exist."""
    known = sorted(registry().commands)
    suggestion = did_you_mean(name, known).strip() or f"there are: {', '.join(known)}"
    failed = sorted(registry().broken)
    note = f" (plugins that failed to load: {', '.join(failed)}; see `lucky-transport doctor`)" if failed else ""
    return f"no command {name!r}; {suggestion}{note}"


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExamples:\n  lucky-transport demo\n  lucky-transport serve toy --endpoint shm://demo --num-envs 16",
)
@click.version_option(None, "-V", "--version", package_name="lucky-transport", prog_name="lucky-transport")
@click.option("-v", "--verbose", is_flag=True, help="Log to stderr what is chosen and why.")
def cli(verbose: bool) -> None:
    """Move a training stack off gRPC: serve, compare and measure engines over interchangeable transports."""
    if verbose:
        import logging

        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)


def main() -> NoReturn:
    """Run the command line of this process, or complete one for a shell."""
    if COMPLETION_VARIABLE in environment():
        with suppress(TransportError):  # a command whose extra is missing completes to nothing
            cli(prog_name="lucky-transport")
        sys.exit()
    sys.exit(cli(prog_name="lucky-transport"))
