"""The file of stages: `[stages]` of lucky_transport.toml, read as a whole.

    [stages]
    default = "grpc"                         # methods that no row names
    control = "grpc://127.0.0.1:50051"       # where gRPC is
    candidate = "shm://demo"                 # where shared memory is
    evidence = "lucky-evidence"              # the folder of what was seen, beside this file
    sample = 1.0                             # share of the reads that get a shadow
    metrics_port = 9464                      # serve metrics there; 0 = do not

    [stages.methods]
    "SceneService/*" = "shadow"              # full names, short names, shell patterns: the most exact row counts
    "SceneService/ListEntities" = "canary 10%"

    [stages.effects]                         # of services of your own, over what their .proto says
    "Weather/Get*" = "read"                  # or "idempotent", "view", "world"; see catalogue/effects.py

`LUCKY_TRANSPORT=grpc` or `shm` overrides every stage, also demotions; "staged" and "auto" leave it to the file. A wrong
key or value is a ConfigError that names source, key, value and remedy; a plan that loads is whole. A plan is what the
file says; which methods were demoted since is in the journal (see decision.py for both).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lucky_transport.config import environment, load_table
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError
from lucky_transport.found_file import describe_user, find_up, working_directory
from lucky_transport.messages.method import is_pattern, matches, most_exact
from lucky_transport.messages.methods import Effect
from lucky_transport.table_readers import Readers, number, only, read_table
from lucky_transport_migration.catalogue.catalogue import OWN, Catalogue
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.stages.stage import PLACEMENTS, Placement, Stage

FILE_NAME = "lucky_transport.toml"

_GRPC = Placement(Stage.GRPC)

#: What `LUCKY_TRANSPORT` says about stages; None leaves them to the file.
_OVERRIDES = {
    "": None,
    "auto": None,
    "staged": None,
    "grpc": _GRPC,
    "shm": Placement(Stage.COMPLETE),
}


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What the file says. path: the file, which need not exist. methods: the rows of [stages.methods], in its order.

    control, candidate: endpoints, "" where the file has none. evidence: the folder, absolute. override: the placement
    that the environment gives to every method. catalogue: the methods that are known here, with their effects.
    """

    path: Path
    default: Placement = _GRPC
    control: str = ""
    candidate: str = ""
    evidence: Path = Path("lucky-evidence")
    sample: float = 1.0
    metrics_port: int = 0
    methods: Mapping[str, Placement] = field(default_factory=dict[str, Placement])
    override: Placement | None = None
    catalogue: Catalogue = field(default_factory=Catalogue, compare=False)

    @classmethod
    def load(cls, directory: Path | None = None, *, environ: Mapping[str, str] | None = None) -> StagePlan:
        """Return the plan of the nearest file, from `directory` (the working one) upwards; without any, the defaults.

        Raises ConfigError.
        """
        path = find_file(directory)
        table, source = load_table("stages", path.parent)
        rows, rows_source = load_table("stages.methods", path.parent)
        declared, declared_source = load_table("stages.effects", path.parent)
        inner = ("methods", "effects")
        values = read_table({key: value for key, value in table.items() if key not in inner}, source, _READERS)
        folder = values["evidence"] = path.parent / values.get("evidence", "lucky-evidence")
        effects = {key: _effect(key, value, f"{declared_source} {key!r}") for key, value in declared.items()}
        catalogue = Catalogue(folder, effects, seen=lambda: (one.method for one in read_folder(folder)))
        methods = {key: _placement(value, f"{rows_source} {key!r}") for key, value in rows.items()}
        override = _override(environment() if environ is None else environ)
        return cls(path, **values, methods=methods, override=override, catalogue=catalogue)

    @property
    def owners(self) -> list[str]:
        """The users that may write the file of stages and the evidence, root apart."""
        found = (one.stat().st_uid for one in (self.path, self.evidence) if one.exists())
        return list(dict.fromkeys(map(describe_user, found)))

    def placement(self, method: str) -> Placement:
        """Return where a method, given by its full name, is by the file and the environment."""
        if self.override is not None:
            return self.override
        row = self.row(method)
        return self.default if row is None else self.methods[row]

    def row(self, method: str) -> str | None:
        """Return the key of the row that counts for a method; None when none does."""
        return most_exact(method, self.methods)

    def effect(self, method: str) -> Effect:
        """Return what a call of that method changes; one of which nothing says it may change the world."""
        return self.catalogue.method(method).effect


def find_file(directory: Path | None = None) -> Path:
    """Return the nearest file of stages, from `directory` upwards; where there is none, the one that would be in it."""
    return find_up(FILE_NAME, directory) or Path(directory or working_directory()).absolute() / FILE_NAME


def _override(environ: Mapping[str, str]) -> Placement | None:
    said = environ.get("LUCKY_TRANSPORT", "")
    if said not in _OVERRIDES:
        hint = "expected grpc or shm for all methods, or staged to leave each method to its stage"
        raise ConfigError(f"environment variable LUCKY_TRANSPORT: transport = {said!r}", hint=hint)
    return _OVERRIDES[said]


def _placement(value: Any, source: str) -> Placement:
    try:
        return Placement.parse(value)
    except ValueError:
        raise ConfigError(f"{source} = {value!r}", hint=f"expected {PLACEMENTS}") from None


def _effect(key: str, value: Any, source: str) -> Effect:
    if not is_pattern(key) and any(matches(name, key) for name in OWN):
        hint = "drop the row; `lucky-transport stage show --reasons` says why it has its effect"
        raise ConfigError(f"{source}: what a method of LuckyEngine changes is fixed", hint=hint)
    try:
        return Effect(value)
    except ValueError:
        expected = ", ".join(f'"{one.value}"' for one in Effect)
        raise ConfigError(f"{source} = {value!r}", hint=f"expected one of {expected}") from None


def _endpoint(value: Any) -> str:
    try:
        return str(Endpoint.parse(value)) if value else ""
    except ConfigError as error:
        raise ValueError from error


def _is_folder(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


#: Per key of [stages]: how a value is read, and what a right one looks like.
_READERS: Readers = {
    "default": (Placement.parse, PLACEMENTS),
    "control": (_endpoint, "the endpoint of gRPC, e.g. 'grpc://127.0.0.1:50051'"),
    "candidate": (_endpoint, "the endpoint of shared memory, e.g. 'shm://demo'"),
    "evidence": (only(_is_folder), "a folder's name, e.g. 'lucky-evidence'"),
    "sample": (number(lambda value: 0 <= value <= 1), "a share from 0 to 1, e.g. 0.1"),
    "metrics_port": (number(lambda value: 0 <= value < 65536, int), "a port from 1 to 65535, or 0 for none"),
}
