"""Make what follows from the `.proto` files and the segment's layout; with `--check` only compare.

The dataclasses and the rows of the method table come first; `hazel_rpc.fbs` and `typed.pyi` are made from those. protoc
(grpcio-tools) is needed here only: nothing that is written imports protobuf.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["GenerateError", "compile_protos", "main"]

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "plugins"
MESSAGES = ROOT / "lucky_transport" / "messages" / "_generated"
KITS = ROOT / "schema" / "kits"

BRIDGE = PLUGINS / "lucky_transport_openra" / "_pb"

#: Which folder of `.proto` files each file of descriptors is made from.
DESCRIPTORS = {
    PLUGINS / "lucky_transport_grpc" / "_pb" / "descriptors.binpb": ROOT / "proto",
    BRIDGE / "descriptors.binpb": BRIDGE,
}


class GenerateError(Exception):
    """Something cannot be generated; the text says why and what to do."""


def compile_protos(folder: Path, *, comments: bool = False) -> bytes:
    """Return all `.proto` files of a folder as one serialized FileDescriptorSet, imports before importers.

    Without `comments`, positions and comments are left out, so that a changed comment changes nothing. Raises
    GenerateError when the compiler or the files are missing, or the files do not compile.
    """
    if importlib.util.find_spec("grpc_tools") is None:
        raise GenerateError("grpcio-tools is missing: pip install 'lucky-transport[dev]'")
    names = sorted(path.name for path in folder.glob("*.proto"))
    if not names:
        raise GenerateError(f"no .proto files in {folder}")
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "descriptors.binpb")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder}", "--include_imports"]
        command += ["--include_source_info"] if comments else []
        command += [f"--descriptor_set_out={output}", *names]
        protoc = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        # On success stderr holds only warnings about imports that upstream has and does not use.
        if protoc.returncode != 0:
            raise GenerateError(f"protoc ended with status {protoc.returncode}:\n{protoc.stderr}")
        return output.read_bytes()


def main(argv: Sequence[str] | None = None) -> int:
    """Write everything, or with `--check` name what differs; return 0 when all is written or equal."""
    parser = argparse.ArgumentParser(description="Make what follows from the .proto files and the segment's layout.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a committed file differs")
    check = bool(parser.parse_args(argv).check)
    try:
        differing = _from_protos(check)
        if not (check and differing):  # from classes that are not what they should be, nothing can be compared
            differing += _from_classes(check)
    except GenerateError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in differing:
        print(f"{path.relative_to(ROOT)}: {'differs, run python schema/generate.py' if check else 'written'}")
    return 1 if check and differing else 0


def _from_protos(check: bool) -> list[Path]:
    from generators.classes import ProtoError, render, render_world

    try:
        texts = render(compile_protos(ROOT / "proto", comments=True))
        world = render_world(compile_protos(BRIDGE, comments=True), "_pb/rl_bridge.proto")
    except ProtoError as error:
        raise GenerateError(str(error)) from None
    contents = {MESSAGES / name: text.encode() for name, text in texts.items()}
    contents[BRIDGE.parent / "skirmish" / "messages.py"] = world.encode()
    contents |= {output: compile_protos(folder) for output, folder in DESCRIPTORS.items()}
    return _settle(contents, check) + _remove(set(MESSAGES.glob("*.py")) - contents.keys(), check)


def _from_classes(check: bool) -> list[Path]:
    sys.path[:0] = [str(ROOT), str(PLUGINS)]
    from generators import csharp, flatbuffers, kit_header, segment_layout, typed
    from generators.vectors import files as vectors

    released = (ROOT / "schema" / "released.fbs").read_text(encoding="utf-8")
    schema = flatbuffers.render()
    broken = flatbuffers.violations(released, schema)
    if broken:
        raise GenerateError("peers built from schema/released.fbs would break:\n" + "\n".join(broken))
    contents = {ROOT / "schema" / "hazel_rpc.fbs": schema.encode()}
    contents[ROOT / "lucky_transport" / "client" / "typed.pyi"] = typed.render().encode()
    contents |= {KITS / "vectors" / name: text.encode() for name, text in vectors.render().items()}
    contents[KITS / "c" / "lucky_schema.h"] = kit_header.render().encode()
    contents[ROOT / "schema" / "lucky_shm.h"] = segment_layout.header().encode()
    contents[ROOT / "lucky_transport" / "_native" / "constants.h"] = segment_layout.constants().encode()
    contents[KITS / "csharp" / "src" / "Generated" / "SegmentLayout.cs"] = segment_layout.csharp().encode()
    contents[KITS / "csharp" / "src" / "Generated" / "Messages.cs"] = csharp.messages_file().encode()
    contents[KITS / "csharp" / "src" / "Generated" / "Methods.cs"] = csharp.methods_file().encode()
    return _settle(contents, check)


def _settle(contents: Mapping[Path, bytes], check: bool) -> list[Path]:
    """Write what differs unless `check`; return its paths."""
    differing = [path for path, content in contents.items() if not path.exists() or _differ(path, content)]
    if not check:
        for path in differing:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(contents[path])
    return differing


def _differ(path: Path, content: bytes) -> bool:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    committed = path.read_bytes()
    if path.suffix == ".binpb":  # parsed, because another protoc may write the fields in another order
        return FileDescriptorSet.FromString(committed) != FileDescriptorSet.FromString(content)
    return committed != content


def _remove(paths: set[Path], check: bool) -> list[Path]:
    if not check:
        for path in paths:
            path.unlink()
    return sorted(paths)


if __name__ == "__main__":
    sys.exit(main())
