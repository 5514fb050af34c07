"""Engines of the kits with fault points (`kits/`): the checked engine in C and in C#, and the points they have."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from tests.support.kit_engine import KITS, compile_c, compile_csharp

_SOURCES = Path(__file__).with_name("kits")
_FAULTS = _SOURCES / "faults.c"
_POINT = re.compile(r'(?:LUCKY_FAULT|Reached|Copy|lucky_copy)\([^"\n]*"([a-z_.]+)"\)')
#: Every point of each kit; the kit in C++ is a class over the one in C.
KIT_POINTS = {
    kit: sorted({point for file in KITS.glob(pattern) for point in _POINT.findall(file.read_text())})
    for kit, pattern in (("c", "c/*.h"), ("csharp", "csharp/src/*.cs"))
}


def build(kit: str, folder: Path) -> str:
    """Compile the engine into the folder and return the command that serves it at `{name}`.

    Raises ClickException where its compiler is missing.
    """
    try:
        if kit == "c":
            command = compile_c(folder / "checked", str(_SOURCES / "checked.c"), "-DLUCKY_FAULT_POINTS", str(_FAULTS))
        else:
            sources, symbols = [str(_SOURCES / "*.cs")], ["LUCKY_FAULT_POINTS"]
            command = compile_csharp(folder / "checked.exe", sources, symbols)
            library = ["cc", "-shared", "-fPIC", "-o", str(folder / "liblucky_faults.so"), str(_FAULTS)]
            subprocess.run(library, check=True, timeout=60)
    except pytest.skip.Exception as missing:
        raise click.ClickException(str(missing)) from None
    return f"{shlex.join(command)} {{name}}"
