"""Compile `proto/` into `descriptors.binpb`: `python -m lucky_transport_grpc._pb.generate`.

Rule 1: the result depends on the `.proto` files alone: the files are given in sorted order, and source positions and
comments are left out, so that a comment changes nothing.
Rule 2: this module imports nothing of its package, so that it also runs by its path when `descriptors.binpb` is damaged
and the package cannot be imported.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["GenerateError", "compile_protos", "main"]

_OUTPUT = Path(__file__).with_name("descriptors.binpb")
_PROTO_DIR = Path(__file__).resolve().parents[3] / "proto"


class GenerateError(Exception):
    """The descriptors cannot be made; the text says why and what to do."""


def compile_protos(proto_dir: Path = _PROTO_DIR) -> bytes:
    """Return all `.proto` files of `proto_dir` as one serialised FileDescriptorSet, imports before importers.

    Raises GenerateError when the compiler or the files are missing, or the files do not compile.
    """
    if importlib.util.find_spec("grpc_tools") is None:
        raise GenerateError("grpcio-tools is missing: pip install 'lucky-transport[dev]'")
    names = sorted(path.name for path in proto_dir.glob("*.proto"))
    if not names:
        raise GenerateError(f"no .proto files in {proto_dir}: run this from a checkout, or give --proto-dir")
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "descriptors.binpb")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={proto_dir}", "--include_imports"]
        command += [f"--descriptor_set_out={output}", *names]
        protoc = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        # On success stderr holds only warnings about imports that upstream has and does not use.
        if protoc.returncode != 0:
            raise GenerateError(f"protoc ended with status {protoc.returncode}:\n{protoc.stderr}")
        return output.read_bytes()


def main(argv: Sequence[str] | None = None) -> int:
    """Write the descriptors and return the exit status: 0 only when they were written."""
    parser = argparse.ArgumentParser(prog="python -m lucky_transport_grpc._pb.generate", description=_first_line())
    parser.add_argument("--proto-dir", type=Path, default=_PROTO_DIR, help="folder of the .proto files")
    parser.add_argument("--output", type=Path, default=_OUTPUT, help="file to write")
    options = parser.parse_args(argv)
    try:
        descriptors = compile_protos(options.proto_dir)
    except GenerateError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    options.output.write_bytes(descriptors)
    print(f"{options.output}: {len(descriptors)} bytes")
    return 0


def _first_line() -> str:
    return (__doc__ or "").partition(":")[0]


if __name__ == "__main__":
    sys.exit(main())
