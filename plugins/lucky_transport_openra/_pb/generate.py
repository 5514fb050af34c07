"""Compile `rl_bridge.proto` into `descriptors.binpb`: `python plugins/lucky_transport_openra/_pb/generate.py`.

Rule 1: it is run by its path, because the package it lies in cannot be imported before there are descriptors.
"""

from __future__ import annotations

from pathlib import Path

from lucky_transport_grpc._pb.generate import compile_protos

__all__ = ["HERE", "main"]

HERE = Path(__file__).parent


def main() -> None:
    """Write the descriptors; raises GenerateError where they cannot be made."""
    (HERE / "descriptors.binpb").write_bytes(compile_protos(HERE))


if __name__ == "__main__":
    main()
