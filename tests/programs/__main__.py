"""`python -m tests.programs`: programs over TCP and over shared memory, and the table of what came of it."""

import sys
import tempfile
from pathlib import Path

import click

from tests.programs.page import Row, save, saved, table, tell_sign_offs, write, write_page
from tests.programs.programs import ROOT, CannotInstall, Program, environment, programs, wheel
from tests.programs.sides import ProgramFailed, run_program
from tests.programs.sign_off import sign_off

#: Over shared memory or not, in the order in which each program runs.
_ORDER = (False, True, True, False)


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--environments",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / "build" / "programs",
    help="Where each program's environment is made and kept. Default: build/programs.",
)
@click.option("--equal-only", is_flag=True, help="Compare what programs give, once over each; time nothing.")
@click.option(
    "--page",
    is_flag=True,
    help="Put the results into docs/explanation/programs.md, beside earlier ones.",
)
@click.option(
    "--sign-off",
    "is_signing",
    is_flag=True,
    help="Compare calls in place of outputs, recorded and drawn ones, write pages, and their results into the table.",
)
@click.option(
    "--sign-offs",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / "build" / "sign-offs",
    help="Where the pages of --sign-off are written. Default: build/sign-offs.",
)
@click.option("--list", "is_listing", is_flag=True, help="List the programs and what they install.")
def main(
    names: tuple[str, ...],
    environments: Path,
    equal_only: bool,
    page: bool,
    is_signing: bool,
    sign_offs: Path,
    is_listing: bool,
) -> None:
    """Run the programs of tests/programs/table.toml, or those named by package or case, on both sides.

    Each program runs over TCP, twice under `lucky-transport run` and over TCP again, each time in new processes. What
    it gives has to be equal. The exit status is 1 where a program differs or fails. One that cannot be installed here
    is named, and is no failure.
    """
    found = programs()
    unknown = set(names) - {name for one in found for name in (one.name, one.case)}
    if unknown:
        raise click.UsageError(f"no program {', '.join(sorted(unknown))}; --list has them")
    chosen = [one for one in found if not names or {one.name, one.case} & set(names)]
    if is_listing:
        for program in chosen:
            click.echo(f"{program.case:24} {' '.join(program.asked)}")
        return
    if page and equal_only:
        raise click.UsageError("--page writes tables with times, and --equal-only takes none")
    if is_signing and (page or equal_only):
        raise click.UsageError("--sign-off runs by itself")
    with tempfile.TemporaryDirectory() as folder:
        try:
            project = wheel(Path(folder))
        except CannotInstall as error:
            raise click.ClickException(f"this project's wheel cannot be built: {error}") from None
        if is_signing:
            failed = [program for program in chosen if not _sign_off(program, environments, project, sign_offs)]
            tell_sign_offs(chosen, sign_offs)
            sys.exit(bool(failed))
        rows: list[Row] = []
        for program in chosen:
            rows.append(_run(program, environments, project, equal_only))
            if page:
                save(rows[-1], environments / "results")
    click.echo(table(rows))
    if page:
        write(saved(found, environments / "results"))
    sys.exit(any(row.failure for row in rows))


def _run(program: Program, environments: Path, project: Path, equal_only: bool) -> Row:
    try:
        click.echo(f"{program.name}: {' '.join(program.asked)}", err=True)
        python = environment(program, environments, project)
        order = _ORDER[:2] if equal_only else _ORDER
        outcomes = [(shm, run_program(program, python, shm=shm, timed=not equal_only)) for shm in order]
        row = Row.of(program, outcomes)
    except CannotInstall as error:
        row = Row(program, left_out=f"cannot be installed here: {error}")
    except ProgramFailed as error:
        row = Row(program, failure=str(error))
    click.echo(f"    {row.verdict}", err=True)
    return row


def _sign_off(program: Program, environments: Path, project: Path, pages: Path) -> bool:
    """Write the program's page; return False where it failed."""
    try:
        click.echo(f"{program.name}: {' '.join(program.asked)}", err=True)
        python = environment(program, environments, project)
        with tempfile.TemporaryDirectory() as folder:
            done = sign_off(program, python, Path(folder))
    except (CannotInstall, ProgramFailed) as error:
        click.echo(f"    no page: {error}", err=True)
        return isinstance(error, CannotInstall)
    click.echo(f"    {done.word}: {write_page(program, done, pages)}", err=True)
    return True


if __name__ == "__main__":
    main()
