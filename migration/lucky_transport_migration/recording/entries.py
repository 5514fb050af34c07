"""What a recording consists of: a header, then one entry per call, stream and step, in the order they ended.

    {"v": 1, "what": "lucky_transport recording", "at": "2026-01-01T00:00:00.000Z", "transport": "shm",
     "endpoint": "shm://demo", "engine": "mujoco:quadruped", "seed": 7, "spec": {...} | null}
    {"call": "/hazel.rpc.SceneService/GetEntity", "form": "flatbuffers", "requests": [{"b64": "..."}],
     "items": [{"b64": "..."}], "us": 41.2}
    {"step": 1, "actions": {"b64": "..."}, "observations": {"b64": "..."}, "rewards": {"b64": "..."}, ..., "us": 12.5}

A message is bytes in the form that its entry names: FlatBuffers of this project's messages, or protobuf as a program's
own stubs sent it. An array is the bytes of C order, its dtype and shape are the spec's. What stands at its default is
left out, so that a line is as long as the call was eventful. Bytes are {"b64": "<base64>"}, wherever they stand.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Annotated, Any, cast

from lucky_transport.errors import ConfigError
from lucky_transport.nesting import parse_json
from lucky_transport.routing import ChannelOptions
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_migration.compare.difference import short
from lucky_transport_migration.evidence.lines import MASKED, SECRET_WORDS
from lucky_transport_migration.evidence.outcome import CallOptions, CallOutcome
from lucky_transport_migration.jsonl import VERSION, from_plain, one_of

WHAT = "lucky_transport recording"

#: Arrays of a frame.
ARRAYS = ("observations", "rewards", "terminated", "truncated", "signals")

#: What is kept of one call for a recording, and for a comparison of bytes.
KEPT_ITEMS = 256
KEPT_BYTES = 16 << 20

#: What the key of metadata speaks of whose value is not recorded.
_SECRET = re.compile(f"{SECRET_WORDS}|auth|cookie|session", re.IGNORECASE)

_ARITIES = tuple(f"{requests}_{responses}" for requests in ("unary", "stream") for responses in ("unary", "stream"))

#: Forms of a message.
FLATBUFFERS, PROTOBUF = "flatbuffers", "protobuf"


@dataclass(frozen=True, slots=True)
class Header:
    """Where and when it was recorded. seed: the engine's, None = unknown. spec: of the engine, as JSON values; None
    where only calls were recorded.
    """

    transport: str
    endpoint: str = ""
    engine: str = ""
    seed: int | None = None
    spec: Mapping[str, Any] | None = None
    at: str = ""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A unary call or a stream. requests: one, or those of a stream of requests. items: the response, or what came.

    transport: who answered, "" = as the header says. code, details, headers, trailing, dropped: as in
    `CallOutcome`. left: the caller left the stream before its end. more: items that came and were not kept; rest:
    their digest. local: the caller's own side ended it. moved: the world was stepped or changed while the stream ran.
    unfinished: the program ended before the call did. described: the FileDescriptorSet of a service that is not
    LuckyEngine's, with the first call of it that the process recorded. arity, metadata, timeout_s, channel: what it
    was made with, as in `CallOptions`; MASKED stands for a secret.
    """

    call: str
    form: Annotated[str, one_of(FLATBUFFERS, PROTOBUF)] = FLATBUFFERS
    transport: str = ""
    requests: tuple[bytes, ...] = ()
    items: tuple[bytes, ...] = ()
    code: str = "OK"
    details: str = ""
    headers: Metadata = ()
    trailing: Metadata = ()
    us: float = 0.0
    dropped: int = 0
    left: bool = False
    more: int = 0
    moved: bool = False
    unfinished: bool = False
    described: bytes = b""
    arity: Annotated[str, one_of("", *_ARITIES)] = ""
    metadata: Metadata = ()
    timeout_s: float | None = None
    rest: str = ""
    local: bool = False
    channel: ChannelOptions = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One exchange. step: the number of its frame, 0 where it failed, as code and details say. control: one byte per
    env, None where every env stepped. The rest are the frame's arrays.
    """

    step: int
    actions: bytes
    control: bytes | None = None
    observations: bytes = b""
    rewards: bytes = b""
    terminated: bytes = b""
    truncated: bytes = b""
    signals: bytes = b""
    code: str = "OK"
    details: str = ""
    us: float = 0.0


def call_entry(
    method: str, requests: list[bytes], outcome: CallOutcome, form: str, made: CallOptions | None = None, **rest: Any
) -> RecordedCall:
    """Return the entry of a call whose messages are bytes of `form`; rest: other fields of it."""
    made = made or CallOptions()
    sides = outcome.transport, tuple(requests), tuple(outcome.items)
    end = outcome.code, outcome.details, tuple(outcome.headers), tuple(outcome.trailing), round(outcome.took_us, 1)
    rest |= {"more": outcome.more, "rest": outcome.rest, "local": outcome.is_local, "dropped": outcome.dropped}
    rest |= {"arity": made.arity, "metadata": masked(made.metadata), "channel": made.channel}
    return RecordedCall(method, form, *sides, *end, timeout_s=made.timeout_s and round(made.timeout_s, 6), **rest)


def masked(metadata: Metadata) -> Metadata:
    """Return a request's metadata without the values of those whose name speaks of a secret."""
    return tuple((key, MASKED if _SECRET.search(key) else value) for key, value in metadata)


def line_of(entry: Header | RecordedCall | Step) -> str:
    """Return an entry as one line of JSON, with its line end."""
    lead = {"v": VERSION, "what": WHAT} if isinstance(entry, Header) else {}
    plain = {row.name: getattr(entry, row.name) for row in fields(entry) if getattr(entry, row.name) != row.default}
    return json.dumps(lead | plain, default=_packed, allow_nan=False, separators=(",", ":")) + "\n"


def header_of(line: bytes, source: str) -> Header:
    """Return the header that the first line of `source` is; raises ConfigError for anything else."""
    plain: Any = None
    with suppress(ValueError):
        plain = parse_json(line)
    if not isinstance(plain, dict) or plain.pop("what", "") != WHAT:
        raise ConfigError(f"{source} is no recording", hint="make one with `lucky-transport record`")
    if (version := plain.pop("v", None)) != VERSION:
        raise ConfigError(f"{source} is a recording of version {version!r}", hint=f"this reads {VERSION}")
    try:
        return from_plain(Header, plain)
    except ValueError as error:
        raise ConfigError(f"{source}: line 1: {error}", hint="record it anew") from error


def read_entry(line: bytes) -> RecordedCall | Step:
    """Return the entry that a line holds; raises ValueError for a line that holds none."""
    plain: Any = parse_json(line, object_hook=_unpacked)
    if not isinstance(plain, dict):
        raise ValueError(f"{short(repr(plain))} is no object")
    return from_plain(RecordedCall if "call" in plain else Step, plain)


def _begun(line: bytes) -> RecordedCall | Step:
    """Return the entry that a line is the beginning of, as far as its first field says which."""
    if line.startswith(b'{"step":'):
        return Step(0, b"")
    call = re.match(rb'\{"call":"([^"\\]+)"', line)
    return RecordedCall(call[1].decode(errors="replace") if call else "unknown")


def _packed(value: Any) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode("ascii")}  # raises TypeError for what is no bytes


def _unpacked(plain: dict[str, Any]) -> Any:
    return base64.b64decode(plain["b64"], validate=True) if plain.keys() == {"b64"} else plain


class Recording:
    """The recording in a file; raises ConfigError for a file that is none, OSError for one that cannot be read.

    One of a process that was killed may end in the middle of an entry: what is whole before it is read. Other damage is
    an error that names its place; where bytes are missing from a compressed piece, its end is not found, and the
    recording ends there.

    torn, cut: how the file ends where that is in the middle of an entry, and what that began as; known once `entries`
    has come to the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = ""
        self.cut: RecordedCall | Step | None = None
        self._line = 1
        self.header: Header = header_of(next(self._lines(), b""), str(path))

    def entries(self) -> Iterator[RecordedCall | Step]:
        """Yield what was recorded, in its order; raises ConfigError for a line that is no entry, and for damage."""
        self.torn, self.cut, self._line, lines = "", None, 1, self._lines()
        next(lines, None)
        for self._line, line in enumerate(lines, 2):
            if not line.endswith(b"\n"):
                self.torn = f"the recording ends in the middle of an entry; {self._line - 2:,} were read"
                self.cut = _begun(line)
                return
            try:
                yield read_entry(line)
            except (ValueError, TypeError) as error:
                raise self.damaged(str(error)) from error

    def damaged(self, why: str) -> ConfigError:
        """Return an error that names the line of the last entry."""
        return ConfigError(f"{self.path}: line {self._line}: {why}", hint="record it anew")

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines; the last one has no line end where the file ends in its middle."""
        opened = gzip.open if self.path.suffix == ".gz" else open
        with cast("IO[bytes]", opened(self.path, "rb")) as file:
            try:
                yield from file
            except EOFError:  # of a compressed piece
                yield b""
            except (gzip.BadGzipFile, zlib.error) as error:
                raise self.damaged(f"it is damaged behind this line: {error}") from error
