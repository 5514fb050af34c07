"""`lucky-transport export-libenv`: an engine as a shared library for gym3 and other hosts, by the system's compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from lucky_transport.cli.completion import complete_engines
from lucky_transport.cli.serve import options_of
from lucky_transport.errors import ConfigError, EngineFailed, MissingExtra, Unimplemented

_SOURCES = Path(__file__).parent
#: The C kit, schema/kits/c: a link to it, or in a wheel its headers. lucky_shm.h lies beside this file in the same way.
_KIT = _SOURCES / "kit"
_FLAGS = ("-O2", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
_COMPILER_S = 120.0


@click.command(
    epilog="\b\nExamples:\n"
    "  lucky-transport export-libenv toy --output libtoy.so\n"
    "  lucky-transport export-libenv gymnasium:CartPole-v1 --output envs/libcartpole.so\n"
    "  lucky-transport export-libenv toy --output libtoy.so --options '{\"episode_steps\": 50}'\n"
    "  python -c \"from gym3.libenv import CEnv; print(CEnv(num=4, lib_dir='.', lib_name='toy'))\""
)
@click.argument("engine", shell_complete=complete_engines)
@click.option("--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="libNAME.so to write.")
@click.option("--options", default="{}", metavar="JSON", help="Options of the engine; the library's host may add more.")
@click.option(
    "--python",
    default=sys.executable,
    show_default="this one",
    help="The interpreter that runs the engine; lucky-transport has to be installed there.",
)
@click.option("--no-check", is_flag=True, help="Do not make the engine once, to see whether libenv can carry it.")
def export_libenv(engine: str, output: Path, options: str, python: str, no_check: bool) -> None:
    """Write a shared library that is ENGINE (for instance toy or gymnasium:CartPole-v1) for any host of libenv.

    Each env of the library starts an engine process of its own, with as many envs as its host asks for.
    """
    from lucky_transport import api
    from lucky_transport_libenv.export.tensors import tensors_of

    engine_options = options_of(options)
    tensors = []
    if not no_check:
        made = api.make_engine(engine, 2, **engine_options)
        try:
            tensors = tensors_of(made.spec)
        finally:
            made.close()
    build(engine, output, options=engine_options, python=python)
    for tensor in tensors:
        click.echo(f"{tensor.space.name.lower():12} {tensor.name}: {tensor.dtype.name.lower()} {list(tensor.shape)}")
    click.echo(f"wrote {output}")


def build(engine: str, target: Path, *, options: Mapping[str, Any], python: str = sys.executable) -> None:
    """Write the shared library of `engine` to `target`, once it is whole; one that is there is replaced.

    options: the engine's, where a host of the library gives none of that name. python: the interpreter that runs the
    engine. Raises Unimplemented (not on Linux), MissingExtra (no compiler), ConfigError (no such folder),
    EngineFailed (the compiler's own words).
    """
    if sys.platform != "linux":
        raise Unimplemented(f"export-libenv knows Linux only, this is {sys.platform}", backend="libenv")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise MissingExtra("no C compiler (cc, gcc, clang)", backend="libenv", hint="apt install gcc libc6-dev")
    if not target.parent.is_dir():
        raise ConfigError(f"there is no folder {target.parent}", backend="libenv", hint="make it first")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as folder:
        Path(folder, "lucky_export.h").write_text(_header(engine, options, python))
        whole = Path(folder, target.name)
        folders = [f"-I{one}" for one in (folder, _SOURCES, _KIT)]
        _compile([compiler, *_FLAGS, *folders, "-o", str(whole), str(_SOURCES / "exported.c"), "-lm"])
        whole.replace(target)


def _header(engine: str, options: Mapping[str, Any], python: str) -> str:
    constants = {"ENGINE": engine, "OPTIONS": json.dumps(dict(options)), "PYTHON": python}
    return "".join(f"#define LUCKY_{name} {_c_string(value)}\n" for name, value in constants.items())


def _c_string(text: str) -> str:
    """Return a C literal of the text's UTF-8; octal escapes end after three digits, so nothing runs into them."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-./:,{}[]"
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineFailed(f"{command[0]} failed: {error}", backend="libenv") from error
    if done.returncode:
        raise EngineFailed(f"{' '.join(command)} failed:\n{done.stderr}", backend="libenv")
