"""The generated code of `lucky_differential.proto`, made by the grpcio-tools that is installed.

Nothing generated is kept: what an older or newer generator writes is what the cases run with.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

NAME = "lucky_differential"

AVAILABLE = importlib.util.find_spec("grpc_tools") is not None


@functools.cache
def messages() -> ModuleType:
    """Return the module of messages."""
    return _modules()[0]


@functools.cache
def services() -> ModuleType:
    """Return the module of stubs and servicers."""
    return _modules()[1]


@functools.cache
def _modules() -> tuple[ModuleType, ModuleType]:
    folder = Path(__file__).parent
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={out}"),
                *(f"--grpc_python_out={out}", str(folder / f"{NAME}.proto")),
            ],
            check=True,
            timeout=60,
        )
        return _load(Path(out), f"{NAME}_pb2"), _load(Path(out), f"{NAME}_pb2_grpc")


def _load(folder: Path, name: str) -> ModuleType:
    """Import a module from a folder under a name by which generated code finds it."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
