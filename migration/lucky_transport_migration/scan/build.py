"""gRPC in what builds, starts and configures a program: make, shell, containers, CI, buf, settings.

A comment is no step.
"""

from __future__ import annotations

import re

from lucky_transport_migration.scan.api_levels import GrpcUse
from lucky_transport_migration.scan.words import places_of_line

__all__ = ["is_build_file", "places_in_build"]

_NAMES = re.compile(
    r"(GNU)?[Mm]akefile.*|.*\.(mk|make|sh|bash|zsh|bat|ps1|cmake|bzl|ya?ml|toml|ini|env)|Dockerfile.*|.*\.[Dd]ockerfile|"
    r"Containerfile.*|CMakeLists\.txt|meson\.build|BUILD(\.bazel)?|[Jj]ustfile|Procfile|\.env.*|Jenkinsfile"
)
_COMMENT = re.compile(r"(^|\s)(#|//|REM ).*")
_GRPC_SETTING = re.compile(r"\s*transport\s*=\s*[\"'](grpc|staged)[\"']")


def is_build_file(name: str) -> bool:
    """True for a file of that name that builds, starts or configures something."""
    return bool(_NAMES.fullmatch(name.rpartition("/")[2]))


def places_in_build(name: str, text: str) -> list[GrpcUse]:
    """Return what of gRPC a file holds, by line."""
    ours = name.rpartition("/")[2] == "lucky_transport.toml"
    found: list[GrpcUse] = []
    for number, line in enumerate(text.splitlines(), start=1):
        step = _COMMENT.sub("", line)
        found += [GrpcUse(number, kind, symbol) for kind, symbol in places_of_line(step)]
        if ours and _GRPC_SETTING.match(step):
            found.append(GrpcUse(number, "build", step.strip()))
    return found
