"""gRPC in texts: endpoints, targets, requirements and settings in strings, and the steps of build and start files.

Only what can hardly mean anything else counts: of all ports gRPC's customary one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lucky_transport_migration.scan.findings import GrpcUse, Kind
from lucky_transport_migration.scan.known import LUCKYROBOTS, PORT, is_grpc_distribution

_TARGET = re.compile(rf"[^\s/]*:{PORT}|(dns|ipv4|ipv6):\S*:{PORT}|grpc(\+unix)?://\S*")
REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[(?P<extras>[^]]*)\])?\s*((?:[<>=!~@(;,]|$).*)?", re.DOTALL
)
_SURE_REQUIREMENT = re.compile(r"(types-)?grpcio|[\w.-]{1,100}\s*([<>=!~]=|[<>[])")  # "grpc-status" is a header
#: What a URL or a path installs: by its fragment, its file, its repository.
_URL = re.compile(
    r"[#&]egg=(?P<egg>[\w.-]+)|(^|/)(?P<file>\w[\w.-]*?)-\d[^/\s]*\.(whl|tar\.gz|zip)|"
    r"\bgit\+(?!\S*egg=)\S*/(?P<repository>[\w.-]+?)(\.git)?(@\S*)?$"
)
_OURS = "lucky-transport"
_GRPC_EXTRAS = {"all", "grpc"}

_GENERATORS = re.compile(
    r"grpc_tools[.\w]*|grpc_python_out|python_grpc_out|grpclib_python_out|protoc-gen-\w*grpc\w*|"
    r"grpc_python_plugin|\w*py_grpc_library|buf\.build/grpc/python[^\s\"']*|protocolbuffers/grpc-python"
)
_SETTING = re.compile(r"\bLUCKY_TRANSPORT\b[\"']?\s*[=:]?\s*[\"']?(grpc|staged)\b|grpc(\+unix)?://[^\s\"']*")
_PORT = re.compile(rf"(?<![\w.]){PORT}(?![\w.])")
_INSTALL = re.compile(
    r"\b(pip[\d.]*|pipx|uv|uvx|poetry|pdm|pixi|hatch|rye|conda|(micro)?mamba|pipenv|apt(-get)?|apk|dnf|yum)[\"',\s]+"
    r"((pip|tool)[\"',\s]+|-\S+\s+)*(install|add|create|inject|download|wheel|run|--with)\b(?P<what>.*)"
)
_OPTION = re.compile(
    r"(?<!\S)(-[ncprtifgE]|--(name|channel|prefix|requirement|constraint|target|index-url|extra-index-url|find-links|"
    r"group|extra))[ =]\S+"
)

_BUILD_FILES = re.compile(
    r"(GNU)?[Mm]akefile.*|.*\.(mk|make|sh|bash|zsh|bat|ps1|cmake|bzl|ya?ml|toml|ini|env)|Dockerfile.*|.*\.[Dd]ockerfile|"
    r"Containerfile.*|CMakeLists\.txt|meson\.build|BUILD(\.bazel)?|[Jj]ustfile|Procfile|\.env.*|Jenkinsfile"
)
#: A comment is no step.
_COMMENT = re.compile(r"(^|\s)(#|//|REM ).*")
_GRPC_SETTING = re.compile(r"\s*transport\s*=\s*[\"'](grpc|staged)[\"']")


def place_of_text(text: str) -> tuple[Kind, str] | None:
    """Return what a text of a program is by itself, None when it has nothing to do with gRPC."""
    if _TARGET.fullmatch(text):
        return ("channel", text)
    if (generator := _GENERATORS.search(text)) is not None:
        return ("build", generator.group())
    name = requirement_name(text) if _SURE_REQUIREMENT.match(text) else None
    return None if name is None else ("dependency", name)


def requirement_name(text: str) -> str | None:
    """Return which distribution of gRPC's world a requirement asks for, None for any other or none.

    "grpcio>=1.60" -> "grpcio"; "luckyrobots" -> "luckyrobots"; "google-api-core[grpc]" -> "google-api-core[grpc]".
    """
    text = text.strip().removesuffix("\\").rstrip()
    match = REQUIREMENT.fullmatch(text)
    named = match or _URL.search(text)
    if named is None:
        return None
    found = str(next(filter(None, map(named.groupdict().get, ("name", "egg", "file", "repository")))))
    name = re.sub(r"[-_.]+", "-", found).lower()  # as package indexes compare names
    extras = {extra.strip().lower() for extra in ((match and match["extras"]) or "").split(",")}
    if is_grpc_distribution(name) or name == LUCKYROBOTS:
        return name
    brings_it = extras & _GRPC_EXTRAS if name == _OURS else extras & {"grpc"}
    return f"{name}[{sorted(brings_it)[0]}]" if brings_it else None


def _places_of_line(line: str) -> Iterator[tuple[Kind, str]]:
    """Yield what a line of a build file or a script does with gRPC; comments have been taken off."""
    if (generator := _GENERATORS.search(line)) is not None:
        yield ("build", generator.group())
    if (install := _INSTALL.search(line)) is not None:
        for word in re.split(r"[\s\"',]+", _OPTION.sub("", install["what"])):
            if (name := requirement_name(word)) is not None:
                yield ("dependency", name)
    if (setting := _SETTING.search(line)) is not None:
        yield ("build", setting.group())
    elif _PORT.search(line):
        yield ("build", f"port {PORT}")


def is_build_file(name: str) -> bool:
    """True for a file of that name that builds, starts or configures something."""
    return bool(_BUILD_FILES.fullmatch(name.rpartition("/")[2]))


def places_in_build(name: str, text: str) -> list[GrpcUse]:
    """Return what of gRPC a file holds, by line."""
    ours = name.rpartition("/")[2] == "lucky_transport.toml"
    found: list[GrpcUse] = []
    goes_on = False
    for number, line in enumerate(text.splitlines(), start=1):
        step = f"{'pip install ' if goes_on else ''}{_COMMENT.sub('', line)}"
        goes_on = step.rstrip().endswith("\\") and bool(_INSTALL.search(step))
        found += [GrpcUse(number, kind, symbol) for kind, symbol in _places_of_line(step)]
        if ours and _GRPC_SETTING.match(step):
            found.append(GrpcUse(number, "build", step.strip()))
    return found
