"""What a launched program called, of all its processes together.

Each line names its subject: the target as the program wrote it, and where it went.
"""

from __future__ import annotations

import shlex
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lucky_transport.call_counts import Calls, ProcessCalls, read
from lucky_transport.errors import plural, printable
from lucky_transport.other_grpc import why_unmoved
from lucky_transport_stubs.run.notice import tell
from lucky_transport_stubs.run.targets import UNNAMED, how_to_map
from lucky_transport_stubs.run.unpatched_processes import UnpatchedProcess

_LONGEST_COMMAND = 100


@dataclass(frozen=True, slots=True)
class Report:
    """The processes that called, those without lucky_transport (pid -> their Python), those that were not switched.

    reached: those that imported grpc. others: (pid, package) of those that imported gRPC from another package.
    is_lost: somebody has removed the counts.
    """

    processes: Sequence[ProcessCalls]
    absent: dict[int, str] = field(default_factory=dict[int, str])
    escapes: Sequence[UnpatchedProcess] = ()
    reached: Sequence[int] = ()
    others: Sequence[tuple[int, str]] = ()
    is_lost: bool = False

    @classmethod
    def conclude(cls, folder: Path, escapes: Sequence[UnpatchedProcess] = ()) -> Report:
        """Return the report of the counters in the folder, and remove it."""
        absent, reached, others = (
            [(int(note.name.partition(".")[0]), note.read_text()) for note in sorted(folder.glob(f"*.{kind}"))]
            for kind in ("absent", "reached", "other")
        )
        unreached = [one for one in escapes if one.pid not in dict(absent)]
        reached_pids = [pid for pid, _ in reached]
        report = cls(read(folder), dict(absent), unreached, reached_pids, others, not folder.is_dir())
        shutil.rmtree(folder, ignore_errors=True)  # a process that goes on may just have added a file
        return report

    def plain(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "calls": [asdict(calls) for calls in self._merged()],
            "processes": [asdict(process) for process in self.processes],
            "without_lucky_transport": [{"pid": pid, "python": python} for pid, python in self.absent.items()],
            "escapes": [escape._asdict() for escape in self.escapes],
            "reached": list(self.reached),
            "other_packages": [{"pid": pid, "package": package} for pid, package in self.others],
        }

    def text(self) -> str:
        """Return the report as a person reads it: by target, then by method."""
        lines = [f"lucky-transport: {self._summary()}", *self._places()]
        if len(self.processes) > 1:
            lines += ["  by process", *(_row(_total(one.calls), _shown(one)) for one in self.processes)]
        return "\n".join(map(printable, lines)) + "\n" + self.troubles()

    def troubles(self) -> str:
        """Return what was not switched although it might have called, "" when all is well."""
        absent = (f"pid {pid} stayed on gRPC: {python} has no lucky_transport" for pid, python in self.absent.items())
        escaped = map(str, self.escapes)
        return "".join(
            printable(f"lucky-transport: {trouble}") + "\n" for trouble in (*absent, *escaped, *self._unmoved())
        )

    def _unmoved(self) -> list[str]:
        """Return a sentence for each package whose own gRPC some processes imported."""
        pids = {name: [pid for pid, other in self.others if other == name] for _, name in self.others}
        return [f"{_pids(found)} imported {name}, which {why_unmoved(name)}" for name, found in pids.items()]

    def unswitched(self, endpoint: str = "") -> str:
        """Return why nothing was switched, and what to do; "" when a call or a port went over shared memory.

        endpoint: where targets were to be switched to.
        """
        calls = self._merged()
        if any(one.endpoint for one in calls):
            return ""
        hints = {one.target: how_to_map(one.target, endpoint) for one in calls if one.why == UNNAMED}
        places = {f"{one.target} ({one.why})": hints.get(one.target, "") for one in calls if one.target}
        where = ", ".join(places) or "no gRPC call was counted, and no port was bound"
        hints_once = dict.fromkeys(filter(None, places.values()))
        return printable("; ".join([f"nothing was switched: {where}", *hints_once, *self._unmoved()]))

    def _summary(self) -> str:
        calls = self._merged()
        if self.is_lost:
            return "what was called is not known: the folder of the counts was removed"
        if not calls:
            reached = plural(len(self.reached), "process", "processes") if self.reached else "no process"
            return f"no gRPC call was counted; {reached} that can be switched imported grpc"
        parts: list[str] = []
        for role, what in (("client", ""), ("server", "served ")):
            rows = [one for one in calls if one.role == role]
            if rows:
                switched = _total(one for one in rows if one.endpoint)
                over_shm = f"{what}{plural(switched, 'call')} over shared memory"
                parts.append(f"{over_shm}, {_total(rows) - switched:,} over gRPC")
        return f"{'; '.join(parts)}, by {plural(len(self.processes), 'process', 'processes')}"

    def _places(self) -> Iterable[str]:
        places: dict[str, list[Calls]] = defaultdict(list)
        for calls in self._merged():
            way = f"over {calls.endpoint}" if calls.endpoint else f"over gRPC: {calls.why}"
            places[f"  {'server ' if calls.role == 'server' else ''}{calls.target} {way}"].append(calls)
        for place, rows in places.items():
            yield place
            yield from (_row(calls.count, calls.method) for calls in rows if calls.method)

    def _merged(self) -> list[Calls]:
        """Return the calls of all processes, the most frequent first."""
        counts: dict[Calls, int] = defaultdict(int)
        for process in self.processes:
            for calls in process.calls:
                counts[replace(calls, count=0)] += calls.count
        merged = [replace(calls, count=count) for calls, count in counts.items()]
        return sorted(merged, key=lambda calls: -calls.count)


def conclude_here(folder: str) -> None:
    """Tell what a program without a launcher called; the counters are gone afterwards."""
    tell(Report.conclude(Path(folder)).text())


def _pids(pids: Sequence[int]) -> str:
    return f"pid {pids[0]}" + (f" and {plural(len(pids) - 1, 'other')}" if pids[1:] else "")


def _total(calls: Iterable[Calls]) -> int:
    return sum(one.count for one in calls)


def _row(count: int, what: str) -> str:
    return f"  {count:>12,}  {what}"


def _shown(process: ProcessCalls) -> str:
    command = shlex.join(process.command)
    shown = command if len(command) <= _LONGEST_COMMAND else command[: _LONGEST_COMMAND - 3] + "..."
    return f"pid {process.pid}: {shown}"
