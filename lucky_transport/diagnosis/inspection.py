"""The offers of an engine at an endpoint, without driving it.

A segment has room for one client, so its header is read from a read-only mapping: nothing is attached, written or
locked, and a damaged segment or one whose engine is gone can be read too. Elsewhere only methods that read are called.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import SegmentError, TransportError, Unimplemented
from lucky_transport.host.service_switch import SWITCHED_OFF
from lucky_transport.messages.methods import METHODS, Effect
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import process_name
from lucky_transport.shm.files.private_file import open_private
from lucky_transport.shm.segment import device_offer, header, segment, segment_files
from lucky_transport.shm.segment.device_offer import ACTIONS, OBSERVATIONS
from lucky_transport.shm.segment.layout import FIELDS, HEADER_BYTES, EngineState, Feature, SegmentLayout
from lucky_transport.spec.batch_spec import DTYPES, BatchSpec
from lucky_transport.transport import Transport

ANSWERS = "answers"
MISSING = "not implemented"
UNTRIED = "not tried: it changes the simulation"
STATES = {EngineState.LOADING: "loading", EngineState.READY: "ready", EngineState.CLOSING: "closing"}
#: How often a segment that comes or goes meanwhile is looked for.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """A segment as it is now.

    fields: those of its header, each with name, offset, code, value (hexadecimal for bytes), shown (what a person
    reads of that) and meaning. problem: the reason why no client can attach, "" if one can: then spec and layout are
    set. gpu: where the observations lie on a GPU, "" when they do not.
    """

    info: segment_files.SegmentInfo
    fields: list[dict[str, Any]]
    problem: str = ""
    spec: BatchSpec | None = None
    layout: SegmentLayout | None = None
    gpu: str = ""


@dataclass(frozen=True, slots=True)
class EngineReport:
    """An engine behind any other transport: method name -> ANSWERS, MISSING, SWITCHED_OFF, UNTRIED or its error."""

    transport: str
    spec: BatchSpec
    capabilities: dict[str, bool]
    methods: dict[str, str] = field(default_factory=dict[str, str])


def of_segment(name: str, directory: Path = lockfile.DIRECTORY) -> SegmentReport:
    """Return what the segment `name` holds.

    Raises NotReachable when there is none, ConfigError for an impossible name, SegmentError for a file that is no
    segment or may not be read.
    """
    for _ in range(_TRIES):
        found = next(iter(segment_files.find(directory, name)), None) if name else None
        if found is not None:
            break
        segment.open_segment(name, Deadline(0), directory=directory)  # raises the error that names the problem
    else:
        raise SegmentError(f"{directory / name} changes while it is read", backend="shm", hint="try again")
    fd = open_private(found.path, writes=False)
    try:
        mapping = mmap(fd, os.fstat(fd).st_size, access=ACCESS_READ)
    finally:
        os.close(fd)
    return _report(found, mapping)


def _report(found: segment_files.SegmentInfo, mapping: mmap) -> SegmentReport:
    spec: BatchSpec | None = None
    layout: SegmentLayout | None = None
    problem = ""
    try:
        spec, layout = header.read(mapping, str(found.path))
        if found.stale:
            engine = process_name(header.get(mapping, "server_pid"), header.get(mapping, "server_pid_namespace"))
            problem = f"the engine ({engine}) is gone; `lucky-transport doctor --fix` removes the segment"
    except SegmentError as error:
        problem = str(error)
    return SegmentReport(found, _fields(mapping), problem, spec, layout, _gpu(mapping, found.path, spec))


def _gpu(mapping: mmap, path: Path, spec: BatchSpec | None) -> str:
    if spec is None or not header.get(mapping, "gpu_available"):
        return ""
    try:
        offer = device_offer.read_offer(mapping, OBSERVATIONS, spec, str(path))
        actions = device_offer.read_offer(mapping, ACTIONS, spec, str(path))
        _, events = device_offer.read_events(mapping, str(path))
    except SegmentError as error:
        return f"offered, but {error}"
    if offer is None:
        return f"shared in a way that is not known here (gpu_obs_mode {header.get(mapping, 'gpu_obs_mode')})"
    uuid = f", UUID {offer.uuid.hex()}" if any(offer.uuid) else ""
    on_demand = header.get(mapping, "engine_features") & Feature.DEVICE_ONLY
    here = "; here on demand" if on_demand else ""
    here += f"; {actions.size_bytes} bytes for actions" if actions is not None else ""
    here += "; ordered by events" if events is not None else ""
    return f"{offer.size_bytes} bytes on the engine's CUDA device {offer.ordinal}{uuid}, by CUDA IPC{here}"


def _fields(mapping: mmap) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for place in sorted(FIELDS.values(), key=lambda place: place.offset) if len(mapping) >= HEADER_BYTES else ():
        value = header.get(mapping, place.name)
        plain = value.hex() if isinstance(value, bytes) else value
        row = {"name": place.name, "offset": place.offset, "code": place.code, "value": plain}
        found.append(row | {"shown": _shown(place.name, value), "meaning": place.meaning})
    return found


def _shown(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex() if any(value) else f"{len(value)} zero bytes"
    if name == "magic":
        return f"{value:#x}"
    if name == "schema_hash":
        return f"{value:#018x}"
    if name.endswith("_features"):
        named = [one.name or "" for one in Feature if value & one]
        return f"{value:#x} ({' '.join(named)})" if named else f"{value:#x}"
    if name.endswith("_dtype"):
        return f"{value} ({DTYPES[value] if value < len(DTYPES) else 'unknown'})"
    if name == "engine_state":
        return f"{value} ({STATES.get(value, 'unknown')})"
    return str(value)


def of_engine(transport: Transport, timeout_s: float = 2.0) -> EngineReport:
    """Return what the engine behind `transport` offers; each reading method is called once, with an empty request,
    for at most `timeout_s`.
    """
    report = EngineReport(transport.name, transport.spec, asdict(transport.capabilities))
    for method in METHODS:
        report.methods[method.name] = UNTRIED
        if method.effect is not Effect.READ:
            continue
        try:
            transport.call(method, method.request(), Deadline(timeout_s))
            report.methods[method.name] = ANSWERS
        except Unimplemented as error:
            report.methods[method.name] = SWITCHED_OFF if SWITCHED_OFF in str(error) else MISSING
        except TransportError as error:
            report.methods[method.name] = str(error)
    return report
