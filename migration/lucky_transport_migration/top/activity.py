"""What the engines and gRPC servers of this host do, seen without disturbing them.

    with ActivityMonitor() as activity:
        for engine in activity.read(look_s=1.0).engines: ...

Segments are read through descriptors that cannot write; nothing is mapped for longer than a look, attached, locked or
asked. Within a look the counters of each loop are glanced at a hundred times a second.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lucky_transport import control
from lucky_transport.closing import Closing
from lucky_transport.config import runtime_directories
from lucky_transport.control import EngineDescription
from lucky_transport.diagnosis import inspection, servers
from lucky_transport.diagnosis.servers import ServerReport, connections_to
from lucky_transport.errors import ConfigError, RemoteProtocolError, TransportError
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import STOPPED, process_name
from lucky_transport.shm.files.private_file import open_private
from lucky_transport.shm.files.socket_path import socket_path
from lucky_transport.shm.ring import HEAD_BYTES, MODULUS, READ_POSITION, WRITE_POSITION, distance
from lucky_transport.shm.segment import segment_files
from lucky_transport.shm.segment.layout import FIELDS
from lucky_transport.shm.segment.segment_files import SegmentInfo
from lucky_transport_migration.top.steps import StepReading, steps_seen

_FRAME, _ACTION, _STATE, _HEARTBEAT = (
    FIELDS[name].offset for name in ("frame_seq", "action_seq", "engine_state", "heartbeat")
)
#: An idle engine looks at its segment once a second.
_HUNG_S = 5.0
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGESIZE")
_COUNTERS = struct.Struct(f"<Q{_ACTION - _FRAME - 8}xQ")


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """A process as it is now. cpu_s: processor seconds since it began."""

    pid: int
    command: str
    cpu_s: float
    rss_bytes: int


def read_process(pid: int, proc: Path = Path("/proc")) -> ProcessReading | None:
    """Return what is known of a process, None when it is gone, cannot be read or is a kernel thread."""
    try:
        name, *rest = (proc / str(pid) / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
        stat = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        resident = int((proc / str(pid) / "statm").read_text().split()[1])
        cpu_s = (int(stat[11]) + int(stat[12])) / _TICKS
    except (OSError, IndexError, ValueError):
        return None
    command = " ".join([os.path.basename(name), *rest])
    return ProcessReading(pid, command, cpu_s, resident * _PAGE) if name else None


@dataclass(frozen=True, slots=True)
class RingReading:
    """A ring of commands of the client that steps. filled: of its bytes. rate: bytes a second, since the last look."""

    name: str
    size: int
    filled: int
    rate: float


@dataclass(frozen=True, slots=True)
class EngineActivity:
    """One engine. state: "ready", "loading", "closing", "stopped" (by a signal), "hung" (it has not looked at its
    segment for 5 s: it hangs, or takes so long for a step), "stale" (it is gone), "damaged", or "no segment".

    name: of its segment, or of its process where it has none. engine: as its spec names it, "" if unknown.
    endpoints: where it is served, as far as can be seen.
    server, driver: its process and that of the client that steps, None where it cannot be seen; client: what messages
    call that client, "" for none. commanding: further clients, None where they cannot be counted. steps: None without
    a segment. problem: why no client can attach. offer: what it answers, None where it does not say.
    """

    name: str
    state: str
    engine: str = ""
    num_envs: int = 0
    endpoints: tuple[str, ...] = ()
    server: ProcessReading | None = None
    driver: ProcessReading | None = None
    client: str = ""
    commanding: int | None = None
    frame_seq: int = 0
    steps: StepReading | None = None
    rings: tuple[RingReading, ...] = ()
    problem: str = ""
    offer: EngineDescription | None = None


@dataclass(frozen=True, slots=True)
class ServerActivity:
    """A server and its calls a second since the last look; None where calls are not counted."""

    report: ServerReport
    rate: float | None

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.report.plain() | {"rate": self.rate}


class ServerRates:
    """Looks at the servers of this user again and again."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before: dict[tuple[str, int], tuple[float, int]] = {}

    def read(self) -> tuple[ServerActivity, ...]:
        """Return what there is now; a server that is seen for the first time has the rate 0."""
        found = servers.find(self._proc)
        before, now = self._before, time.monotonic()
        self._before = {(one.name, one.pid): (now, one.total) for one in found if one.total is not None}
        return tuple(ServerActivity(one, self._rate(one, before, now)) for one in found)

    @staticmethod
    def _rate(one: ServerReport, before: dict[tuple[str, int], tuple[float, int]], now: float) -> float | None:
        if one.total is None:
            return None
        then, count = before.get((one.name, one.pid), (now, one.total))
        return (one.total - count) / (now - then) if now > then else 0.0


@dataclass(frozen=True, slots=True)
class ActivityReading:
    """All engines and gRPC servers of this user on this host, and segment -> user id of those of other users.

    at: seconds since the epoch.
    """

    engines: tuple[EngineActivity, ...]
    of_other_users: dict[str, int] = field(default_factory=dict[str, int])
    servers: tuple[ServerActivity, ...] = ()
    host: str = field(default_factory=socket.gethostname)
    at: float = field(default_factory=time.time)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        servers = [one.plain() for one in self.servers]
        return asdict(replace(self, servers=())) | {"servers": servers}


class _Followed:
    """A segment that is looked at again and again: its file, by a descriptor that cannot write."""

    def __init__(self, fd: int, report: inspection.SegmentReport) -> None:
        self.fd = fd
        self.engine = "" if report.spec is None else report.spec.engine
        layout = report.layout
        self.rings = {} if layout is None else {name: layout[name] for name in ("ring_c2s", "ring_s2c")}
        self.glances: list[tuple[int, int, int]] = []
        self.before: dict[str, tuple[float, int]] = {}
        self.beat = 0, time.monotonic()

    def glance(self) -> None:
        counters = os.pread(self.fd, _COUNTERS.size, _FRAME)
        if len(counters) == _COUNTERS.size:
            self.glances.append((time.monotonic_ns(), *_COUNTERS.unpack(counters)))

    def state(self) -> str:
        word = os.pread(self.fd, 4, _STATE)
        found = inspection.STATES.get(int.from_bytes(word, "little"), "ready")
        beat = int.from_bytes(os.pread(self.fd, 8, _HEARTBEAT), "little")
        if beat != self.beat[0]:
            self.beat = beat, time.monotonic()
        return "hung" if found == "ready" and beat and time.monotonic() > self.beat[1] + _HUNG_S else found

    def read_rings(self) -> tuple[RingReading, ...]:
        found: list[RingReading] = []
        for name, region in self.rings.items():
            head = os.pread(self.fd, HEAD_BYTES, region.offset)
            if len(head) == HEAD_BYTES:
                write, read = (struct.unpack_from("<I", head, at)[0] for at in (WRITE_POSITION, READ_POSITION))
                size = region.size - HEAD_BYTES
                with contextlib.suppress(RemoteProtocolError):  # the engine's and client's to report
                    filled = distance(write, read, size)
                    found.append(RingReading(name, size, filled, self.rate(name, write, MODULUS)))
        return tuple(found)

    def rate(self, name: str, count: int, modulus: int) -> float:
        """Return how fast a count goes up since it was last asked for, 0.0 at first."""
        now = time.monotonic()
        then, before = self.before.get(name, (now, count))
        self.before[name] = now, count
        return (count - before) % modulus / (now - then) if now > then else 0.0


class ActivityMonitor(Closing):
    """Looks at the engines of this user. period_s: between two glances at the counters."""

    def __init__(
        self, directory: Path = lockfile.DIRECTORY, proc: Path = Path("/proc"), *, period_s: float = 0.01
    ) -> None:
        self._directory, self._proc = directory, proc
        self._period_s = period_s
        self._followed: dict[tuple[str, int], _Followed] = {}
        self._servers = ServerRates(proc)
        self._looking = threading.Lock()
        self._end = threading.Event()

    def _follow(self, segments: list[SegmentInfo]) -> dict[str, _Followed | str]:
        """Open what is new and close what is gone; return segment -> it, or why it cannot be followed."""
        found: dict[str, _Followed | str] = {}
        keys: set[tuple[str, int]] = set()
        for info in segments:
            try:
                key = info.name, info.path.stat().st_ino
                if key not in self._followed:
                    report = inspection.of_segment(info.name, self._directory)
                    if report.problem and not info.stale:
                        found[info.name] = report.problem  # it may still be loading: looked at again next time
                        continue
                    self._followed[key] = _Followed(open_private(info.path, writes=False), report)
                keys.add(key)
                found[info.name] = self._followed[key]
            except (OSError, TransportError, ValueError) as error:  # it has just gone, or is damaged
                found[info.name] = str(error)
        for key in self._followed.keys() - keys:
            os.close(self._followed.pop(key).fd)
        return found

    def read(self, look_s: float = 0.0) -> ActivityReading:
        """Return what goes on within the next `look_s` seconds; nothing once it is closed. One thread at a time."""
        with self._looking:
            self._glance(look_s)
            return ActivityReading(()) if self._end.is_set() else self._read()

    def _glance(self, look_s: float) -> None:
        self._follow(segment_files.find(self._directory))
        for one in self._followed.values():
            one.glances.clear()
        until = time.monotonic() + look_s
        is_over = False
        while not is_over:
            for one in self._followed.values():
                one.glance()
            is_over = time.monotonic() >= until or self._end.wait(self._period_s)

    def _read(self) -> ActivityReading:
        segments = segment_files.find(self._directory)
        followed = self._follow(segments)
        connections = connections_to(self._proc)
        offers = control.engines()
        engines = [self._of_segment(info, followed[info.name], connections, offers) for info in segments]
        shown = [one.offer for one in engines]
        engines += [self._of_offer(one) for one in offers if one not in shown]
        of_others = segment_files.of_other_users(self._directory)
        return ActivityReading(tuple(engines), of_others, self._servers.read())

    def _of_segment(
        self,
        info: SegmentInfo,
        followed: _Followed | str,
        connections: Counter[str] | None,
        offers: Sequence[EngineDescription],
    ) -> EngineActivity:
        ours = f"shm://{info.name}"
        offer = None if info.stale else next((one for one in offers if ours in one.endpoints), None)
        others = () if offer is None else (one for one in offer.endpoints if one != ours)
        seen = EngineActivity(
            name=info.name,
            state="stale" if info.stale else "stopped" if info.stopped else "damaged",
            num_envs=info.num_envs,
            endpoints=(ours, *others),
            server=None if info.stale else self._process(info.engine_pid, info.engine),
            driver=self._process(info.client_pid, info.client) if info.client else None,
            client=info.client,
            commanding=None if info.stale else self._commanding(info.name, connections),
            frame_seq=info.frame_seq,
            offer=offer,
        )
        if isinstance(followed, str):
            return replace(seen, problem=followed)
        return replace(
            seen,
            state=seen.state if info.stale or info.stopped else followed.state(),
            engine=followed.engine,
            steps=steps_seen(followed.glances),
            rings=followed.read_rings(),
        )

    def _process(self, pid: int, name: str) -> ProcessReading | None:
        """Return a side's process; None for a pid of another namespace, which means another process here."""
        return None if "another pid namespace" in name else read_process(pid, self._proc)

    def _of_offer(self, offer: EngineDescription) -> EngineActivity:
        """Return an engine that serves no segment: over gRPC, for instance."""
        state = "stopped" if process_name(offer.pid).endswith(STOPPED) else "no segment"
        found = EngineActivity(f"pid {offer.pid}", state, offer.engine, offer.num_envs, offer.endpoints, offer=offer)
        return replace(found, server=read_process(offer.pid, self._proc))

    @staticmethod
    def _commanding(name: str, connections: Counter[str] | None) -> int | None:
        for directory in runtime_directories():
            with contextlib.suppress(ConfigError):
                path = socket_path(directory, name)
                if connections is not None and path.exists():
                    return connections[str(path)]
        return None

    def close(self) -> None:
        """End a look under way, and look no more; idempotent."""
        self._end.set()
        with self._looking:
            while self._followed:
                os.close(self._followed.popitem()[1].fd)
