"""The interface's layouts are those that a C compiler gives them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from lucky_transport_libenv import interface
from lucky_transport_libenv.interface import LibenvBuffers
from tests.support.waiting import PATIENCE_S

EXPORT = Path(interface.__file__).parent / "export"

#: C's name of each structure -> ours.
STRUCTURES = {
    "libenv_tensortype": interface.TensorType,
    "libenv_option": interface.Option,
    "libenv_options": interface.Options,
    "libenv_buffers": LibenvBuffers,
}


@pytest.fixture(scope="module")
def measured(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Sizes and offsets as a compiled program prints them."""
    lines = [f'printf("{name} %zu\\n", sizeof(struct {name}));' for name in STRUCTURES]
    lines += [
        f'printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));'
        for name, ours in STRUCTURES.items()
        for field, _ in ours._fields_
    ]
    text = '#include <stdio.h>\n#include <stddef.h>\n#include "libenv.h"\nint main(void) {' + "\n".join(lines) + "}"
    folder = tmp_path_factory.mktemp("sizes")
    (folder / "sizes.c").write_text(text)
    subprocess.run(
        [compiler, f"-I{EXPORT}", "-o", folder / "sizes", folder / "sizes.c"], check=True, timeout=PATIENCE_S
    )
    printed = subprocess.run([folder / "sizes"], check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout
    return {name: int(number) for name, number in map(str.split, printed.splitlines())}


def test_structures_have_the_sizes_and_offsets_of_the_c_header(measured: dict[str, int]) -> None:
    ours = {name: ctypes.sizeof(structure) for name, structure in STRUCTURES.items()}
    for name, structure in STRUCTURES.items():
        ours |= {f"{name}.{field}": getattr(structure, field).offset for field, _ in structure._fields_}
    assert ours == measured


def test_structures_have_the_sizes_that_gym3_has() -> None:
    sizes = {name: ctypes.sizeof(structure) for name, structure in STRUCTURES.items()}
    assert sizes == {"libenv_tensortype": 212, "libenv_option": 144, "libenv_options": 16, "libenv_buffers": 40}
