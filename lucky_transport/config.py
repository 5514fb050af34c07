"""The settings of one connection.

Precedence: argument > environment (`LUCKY_*`) > `lucky_transport.toml` > default. The file is searched for from the
working directory upwards, as `found_file` says. No other module reads or writes os.environ or reads that file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, did_you_mean
from lucky_transport.found_file import find_up, open_found, refusal, working_directory
from lucky_transport.nesting import parse_toml
from lucky_transport.table_readers import Readers, parse_rates, read_value

__all__ = [
    "Launch",
    "Settings",
    "environment",
    "export",
    "load_launch",
    "load_settings",
    "load_table",
    "recent_settings",
    "runtime_directories",
]


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be configured; `sources` tells where each value came from.

    transport           a transport's name, "auto" for the best that loads
    endpoint            URL of a running engine, "" = start an engine process
    shm_name            name of the segment of an engine that is started here, "" = `lucky_<pid>`
    wait                "spin", "adaptive" or "block"
    observation_slots   how many steps' observations stay as they are at once
    step_timeout_s      seconds until a step gives up
    command_timeout_s   seconds until a typed call gives up
    connect_timeout_s   seconds to look for an engine
    start_timeout_s     seconds for an engine process to get ready
    max_message_bytes   the longest message that this side takes
    grpc_map            which gRPC targets a switched program finds at which endpoints: pairs `HOST:PORT=ENDPOINT`
                        apart by blanks, "" = the default target at `endpoint`
    grpc_serve          at which endpoints its servers' ports are found, such pairs, "" = as `grpc_map` says
    grpc_serve_only     there alone
    record              a file to which everything is recorded that goes to engines, "" = none
    interceptors        what stands around calls, streams and steps: names of plugins' interceptors or objects
    services            the services that an engine which is served here answers, empty = all
    without_services    those of them that it does not
    stream_fps          the most items a second that its streams give: pairs NAME=RATE
    allow_host          host names that HTTP servers answer to beside the loopback's
    allow_origin        origins of web pages that they answer to beside the loopback's
    """

    transport: str = "auto"
    endpoint: str = ""
    shm_name: str = ""
    wait: str = "adaptive"
    observation_slots: int = 1
    step_timeout_s: float = 60.0
    command_timeout_s: float = 10.0
    connect_timeout_s: float = 10.0
    start_timeout_s: float = 60.0
    max_message_bytes: int = 4 << 20
    grpc_map: str = ""
    grpc_serve: str = ""
    grpc_serve_only: bool = False
    record: str = ""
    interceptors: tuple[Any, ...] = ()
    services: tuple[str, ...] = ()
    without_services: tuple[str, ...] = ()
    stream_fps: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)


def _seconds(value: Any) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _endpoint(value: Any) -> str:
    """Return the URL as it stands; "" is none. Raises ConfigError with the remedy."""
    text = _text(value)
    if text:
        Endpoint.parse(text)
    return text


def _wait(value: Any) -> str:
    if value not in ("spin", "adaptive", "block"):
        raise ValueError
    return str(value)


def _bytes(value: Any) -> int:
    number = int(value)
    if number < 1 or number > 1 << 31:
        raise ValueError
    return number


def _slots(value: Any) -> int:
    number = int(value)
    if not 1 <= number <= 64:
        raise ValueError
    return number


def _names(value: Any) -> tuple[Any, ...]:
    """Return what a text names, apart by blanks or commas; a list or tuple stays as it is."""
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(cast("list[Any]", value))


def _rates(value: Any) -> tuple[str, ...]:
    names = _names(value)
    parse_rates(names)
    return names


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}[
        str(value).lower()
    ]


_READERS: Readers = {
    "transport": (_text, "a transport's name or 'auto', e.g. 'shm'"),
    "endpoint": (_endpoint, "a URL, e.g. 'shm://name' or 'grpc://127.0.0.1:50051'"),
    "shm_name": (_text, "a segment name, e.g. 'lucky_demo'"),
    "wait": (_wait, "one of 'spin', 'adaptive', 'block'"),
    "observation_slots": (_slots, "a number from 1 to 64, e.g. 2"),
    "step_timeout_s": (_seconds, "seconds >= 0, e.g. 60"),
    "command_timeout_s": (_seconds, "seconds >= 0, e.g. 10"),
    "connect_timeout_s": (_seconds, "seconds >= 0, e.g. 10"),
    "start_timeout_s": (_seconds, "seconds >= 0, e.g. 60"),
    "max_message_bytes": (_bytes, "bytes from 1 to 2147483648, e.g. 4194304"),
    "grpc_map": (_text, "pairs HOST:PORT=ENDPOINT apart by blanks, e.g. '127.0.0.1:50051=shm://name'"),
    "grpc_serve": (_text, "pairs HOST:PORT=ENDPOINT apart by blanks, e.g. '127.0.0.1:50051=shm://name'"),
    "grpc_serve_only": (_switch, "1 or 0"),
    "record": (_text, "a file's name, e.g. 'run.jsonl.gz'"),
    "interceptors": (_names, "names apart by blanks, e.g. 'opentelemetry', or a list of names and interceptors"),
    "services": (_names, "names or patterns apart by blanks, e.g. 'SceneService Mujoco*'"),
    "without_services": (_names, "names or patterns apart by blanks, e.g. 'CameraService'"),
    "stream_fps": (_rates, "pairs NAME=RATE apart by blanks, e.g. 'CameraService=10'"),
    "allow_host": (_names, "names apart by blanks, e.g. 'robot.example'"),
    "allow_origin": (_names, "origins apart by blanks, e.g. 'https://app.example'"),
}


def load_settings(
    arguments: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    others: Collection[str] = (),
) -> Settings:
    """Return the settings in force; an argument that is None counts as not given.

    A `LUCKY_*` variable that is no setting is warned of in the log, once. others: the names of further arguments, which
    are suggested for a misspelt one.

    Raises ConfigError for an unknown key in a file or an argument, a malformed file and a value that cannot be read.
    """
    environ = _our_variables() if environ is None else environ
    _warn_of_unknown(environ)
    raw: dict[str, tuple[Any, str]] = {}
    source, found = _file_values(directory)
    for key, value in found.items():
        raw[_known(key, source)] = (value, source)
    for key in _READERS:
        variable = f"LUCKY_{key.upper()}"
        if environ.get(variable):
            raw[key] = (environ[variable], f"environment variable {variable}")
    for key, value in (arguments or {}).items():
        if value is not None:
            raw[_known(key, "argument", others)] = (value, "argument")
    values = {key: read_value(key, value, source, _READERS) for key, (value, source) in raw.items()}
    return Settings(**values, sources={key: source for key, (_, source) in raw.items()})


def recent_settings() -> Settings:
    """Return what `load_settings` does without arguments; files are looked for once a second at most.

    For what asks at each connection. Raises ConfigError.
    """
    global _recent
    asked = (_our_variables(), working_directory())
    if _recent is None or _recent[0] != asked or monotonic() >= _recent[1]:
        _recent = (asked, monotonic() + _RECENT_S, load_settings())
    return _recent[2]


#: How old what `recent_settings` returns may be.
_RECENT_S = 1.0
#: For which environment and working directory it was loaded, until when it counts, and the settings.
_recent: tuple[tuple[dict[str, str], str], float, Settings] | None = None


def _our_variables() -> dict[str, str]:
    """Return the variables of this process whose names begin as ours do."""
    # Found among the bytes, since programs may ask for each connection: decoding all names takes ten times as long.
    return {name.decode(): os.environ[name.decode()] for name in list(os.environb) if name.startswith(b"LUCKY_")}


#: Variables of this project that are no settings: of `run` (see `Launch`), secrets, of tests and of CI.
_OTHER_VARIABLES = re.compile(r"LUCKY_(RUN_(FOLDER|LEADER|PARENT|QUIET|REPORT)|OPENENV_TOKEN|PEER_\w+|CI_\w+)")

_warned: set[str] = set()


def _warn_of_unknown(environ: Mapping[str, str]) -> None:
    """Log the variables that look like settings of ours and are none: a misspelt one would be without effect."""
    known = {key.upper(): f"LUCKY_{key.upper()}" for key in _READERS}
    for name in environ:
        if name.startswith("LUCKY_") and name not in known.values() and name not in _warned and not _is_other(name):
            _warned.add(name)
            guess = did_you_mean(name.removeprefix("LUCKY_"), known, prefix="LUCKY_").rstrip()
            guess = guess or f"known: {', '.join(known.values())}"
            import logging  # programs without such a variable start sooner

            # its value may be a secret
            logging.getLogger("lucky_transport").warning(
                "environment variable %s has no effect: no such setting; %s", name, guess
            )


def _is_other(name: str) -> bool:
    return _OTHER_VARIABLES.fullmatch(name) is not None


class Launch(NamedTuple):
    """The settings that `lucky-transport run` passes to the processes under it; without a launcher, the defaults.

    folder: where they count their calls, "" = not counted. parent: the pid of the program's parent, which distinguishes
    the program from its children. quiet: print errors only. report: "-" = print notices on a stderr that
    is no terminal.
    """

    folder: str = ""
    parent: str = ""
    quiet: bool = False
    report: str = ""

    def variables(self) -> dict[str, str]:
        """Return the environment variables that `load_launch` reads this from."""
        return {
            "LUCKY_RUN_FOLDER": self.folder,
            "LUCKY_RUN_PARENT": self.parent,
            "LUCKY_RUN_QUIET": "1" if self.quiet else "",
            "LUCKY_RUN_REPORT": self.report,
        }


def load_launch(environ: Mapping[str, str] | None = None) -> Launch:
    """Return the settings that the launcher passed to this process."""
    environ = os.environ if environ is None else environ
    folder, parent, quiet, report = (environ.get(name, "") for name in Launch().variables())
    return Launch(folder, parent, bool(quiet), report)


def load_table(name: str, directory: Path | None = None) -> tuple[dict[str, Any], str]:
    """Return the table "a.b" of the nearest `lucky_transport.toml` as it stands there, and the source for errors:
    "<file>: [a.b]". A table that is not there is empty.

    Raises ConfigError for a malformed file, for one that others may write and for what is no table.
    """
    path = find_up("lucky_transport.toml", directory)
    if path is None:
        return {}, f"lucky_transport.toml: [{name}]"
    source = f"{path}: [{name}]"
    values = _parsed(path)
    for key in name.split("."):
        table: Any = values.get(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{source}: {key} = {table!r}", hint=f"write a table, [{name}]")
        values = cast("dict[str, Any]", table)
    return values, source


def environment() -> dict[str, str]:
    """Return a copy of this process's environment, for a child of it."""
    return dict(os.environ)


def export(variables: Mapping[str, str | None]) -> None:
    """Set variables of this process's environment, so that its children have them; None takes one away."""
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    for name in [name for name, value in variables.items() if value is None]:
        os.environ.pop(name, None)


def runtime_directories(environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return where this user's sockets may lie, the preferred place first: an engine listens there, a client searches
    each, since the two may have been started with different environments. Nothing is created.
    """
    given = (os.environ if environ is None else environ).get("XDG_RUNTIME_DIR") or ""
    places = _runtime_directories(given, os.getuid())
    return places if os.path.isabs(given) and os.path.isdir(given) else places[1:]


@lru_cache(maxsize=16)  # a program may connect for each call
def _runtime_directories(given: str, uid: int) -> tuple[Path, ...]:
    return Path(given) / "lucky_transport", Path("/tmp") / f"lucky-{uid}"


def _known(key: str, source: str, others: Collection[str] = ()) -> str:
    """Return `key`; raises ConfigError for an unknown one. others: further names to suggest."""
    if key not in _READERS:
        belongs = f"an option of the engine belongs into options={{{key!r}: ...}}; " if "options" in others else ""
        raise ConfigError(
            f"{source}: unknown setting {key!r}",
            hint=f"{did_you_mean(key, (*_READERS, *others))}{belongs}known settings: {', '.join(sorted(_READERS))}",
        )
    return key


def _file_values(directory: Path | None) -> tuple[str, dict[str, Any]]:
    """Return the name of the nearest configuration file and the settings in it, those outside of its tables."""
    path = find_up("lucky_transport.toml", directory)
    if path is None:
        return "", {}
    return str(path), {key: value for key, value in _parsed(path).items() if not isinstance(value, dict)}


def _parsed(path: Path) -> dict[str, Any]:
    """Return the values of a file; raises ConfigError for a malformed one and for one that must not be obeyed."""
    try:
        with open_found(path) as file:
            refused = refusal(path, file.fileno())
            if refused is None:
                return _toml(file.read().decode())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}", hint="mend the file") from error
    raise refused


@lru_cache(maxsize=4)
def _toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text, which are read only: every connection and every server asks for them."""
    return parse_toml(text)


assert set(_READERS) == {f.name for f in fields(Settings)} - {"sources"}
