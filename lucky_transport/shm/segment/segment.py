"""One named segment: a file in /dev/shm, made by the engine and mapped by both sides.

The engine holds its lock byte before the file exists and until it is gone, so a segment whose byte is free is a dead
engine's. (`multiprocessing.shared_memory` would not do: its tracker deletes live segments of others.)
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import time
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import Buffers
from lucky_transport.errors import (
    Busy,
    NotReachable,
    SegmentError,
    TransportError,
    did_you_mean,
    from_wire,
)
from lucky_transport.shm.arena import DEFAULT_ARENA_BYTES, can_be_refused
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import pid_namespace, process_name, start_time
from lucky_transport.shm.files.lockfile import DIRECTORY, lock_path_of
from lucky_transport.shm.files.mapping import Mapping, allocate
from lucky_transport.shm.files.private_file import remove_private
from lucky_transport.shm.files.socket_path import live_socket
from lucky_transport.shm.ring import DEFAULT_RING_BYTES
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import (
    ERROR_BYTES,
    VERSION,
    SegmentLayout,
    plan,
)
from lucky_transport.shm.segment.segment_files import (
    find,
    map_segment,
    remove_dead,
    segment_path,
)
from lucky_transport.shm.slot_files.image_file import remove_images
from lucky_transport.shm.timing import SEGMENT_POLL_S
from lucky_transport.spec.batch_spec import BatchSpec

#: How many of the engines that are there an error names.
_SHOWN = 5
#: The head of the error region: u32 wire code, u32 length; UTF-8 text follows.
_ERROR = struct.Struct("<II")


def view(mapping: mmap, offset: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a writable array of `shape` elements at `offset`; it is valid for as long as it is referenced."""
    # np.frombuffer keeps the mapping alive. np.ndarray(buffer=...) does not: reading it after `close` is a crash.
    return np.frombuffer(mapping, dtype, math.prod(shape), offset).reshape(shape)


@dataclass(frozen=True, slots=True)
class Segment:
    """A mapped segment; both ends hold one.

    lock: the engine's place in the lock file, in the process that made it.

    The mapping is never closed by hand: it goes when the last view of it goes.
    """

    name: str
    path: Path
    mapping: Mapping
    spec: BatchSpec
    layout: SegmentLayout
    lock: lockfile.Lock | None

    @property
    def lock_path(self) -> str:
        """The lock file beside the segment."""
        return lock_path_of(self.path)

    def buffers(self, slot: int = 0) -> Buffers:
        """Return the arrays of a step, which lie in the segment; the observations are those of a slot."""
        spec, n = self.spec, self.spec.num_envs
        return Buffers(
            self._array("actions", spec.action.dtype, spec.action_shape),
            view(self.mapping, self.layout.slot_offset(slot), spec.observation.dtype, spec.observation_shape),
            self._array("rewards", "float32", (n,)),
            self._array("terminated", "uint8", (n,)),
            self._array("truncated", "uint8", (n,)),
            self._array("signals", "float32", (spec.num_terms, n)),
        )

    def control(self) -> NDArray[np.uint8]:
        """Return the control byte of each env, uint8 (num_envs,), which lie in the segment."""
        return self._array("control", "uint8", (self.spec.num_envs,))

    def _array(self, region: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        return view(self.mapping, self.layout[region].offset, dtype, shape)

    def write_error(self, error: TransportError) -> None:
        """Say why the last exchange has no frame; the text is cut to the error region."""
        text = str(error).encode()[: ERROR_BYTES - _ERROR.size]
        offset = self.layout["error"].offset
        _ERROR.pack_into(self.mapping, offset, error.wire_code, len(text))
        self.mapping[offset + _ERROR.size : offset + _ERROR.size + len(text)] = text

    def read_error(self, backend: str) -> TransportError:
        """Return the error that the engine left, as one of transport `backend`."""
        offset = self.layout["error"].offset
        code, length = _ERROR.unpack_from(self.mapping, offset)
        start = offset + _ERROR.size
        text = self.mapping[start : start + min(length, ERROR_BYTES - _ERROR.size)]
        return from_wire(code, text.decode(errors="replace"), backend=backend)

    def publish_ready(self) -> None:
        """Write the version word: clients may attach. Everything else was written before."""
        header.put(self.mapping, "version", VERSION)

    def unlink(self) -> None:
        """Remove the segment, its images and its lock file; mapped memory stays valid. For the engine, idempotent."""
        remove_images(self.path)
        remove_private(self.path)
        if self.lock is not None:
            self.lock.release(unlink=True)


def create(
    name: str,
    spec: BatchSpec,
    *,
    ring_bytes: int = DEFAULT_RING_BYTES,
    observation_slots: int = 1,
    arena_bytes: int = DEFAULT_ARENA_BYTES,
    envs_alone: bool = False,
    directory: Path = DIRECTORY,
) -> Segment:
    """Make the segment `name` for `spec`; a dead engine's segment of that name is replaced.

    It is not ready until `publish_ready`. Raises Busy when a living engine has it, SegmentError when the name belongs
    to something else, NoSpace when the memory is not there.
    """
    path = segment_path(name, directory)
    lock_path = lock_path_of(path)
    lock = lockfile.acquire_engine(lock_path)
    if lock is None:
        owner = process_name(lockfile.holder(lock_path, lockfile.ENGINE) or 0)
        raise Busy(f"segment {path} belongs to the engine of {owner}", backend="shm", hint="use another name")
    try:
        remove_dead(path)
        layout = plan(
            spec,
            ring_bytes=ring_bytes,
            observation_slots=observation_slots,
            arena_bytes=arena_bytes if can_be_refused() else 0,
            envs_alone=envs_alone,
        )
        try:
            mapping = allocate(path, layout.total_size, "a segment", "use fewer envs", mapped=layout.file_bytes)
        except FileExistsError as error:
            raise SegmentError(
                f"{path} was made by somebody else just now", backend="shm", hint="use another name"
            ) from error
        header.write(
            mapping,
            layout,
            spec,
            pid=os.getpid(),
            started=start_time(os.getpid()),
            namespace=pid_namespace(),
            lock=lock.own,
            ring_bytes=ring_bytes,
        )
        return Segment(name, path, mapping, spec, layout, lock)
    except BaseException:
        lock.release(unlink=True)
        raise


def open_segment(name: str, deadline: Deadline, *, directory: Path = DIRECTORY) -> Segment:
    """Map the segment `name` of a living engine, once it is ready.

    A dead engine's segment counts as none: another engine may take it over. Raises NotReachable when there is none by
    the deadline; SegmentError when it is damaged, foreign or of another version.
    """
    path = segment_path(name, directory)
    lock_path = lock_path_of(path)
    while True:
        gone = ""
        mapping = map_segment(path)
        if mapping is not None and header.get(mapping, "version"):
            spec, layout = header.read(mapping, str(path))
            with contextlib.closing(header.engine_of(mapping, lock_path)) as engine:
                if engine.alive:
                    return Segment(name, path, mapping, spec, layout, None)
                if lockfile.holder(lock_path, lockfile.ENGINE) is None:
                    gone = engine.name
        if deadline.expired:
            raise _gone(path, gone, deadline) if gone else _absent(name, path, deadline)
        time.sleep(SEGMENT_POLL_S)


def _gone(path: Path, engine: str, deadline: Deadline) -> NotReachable:
    """Return the error for a segment whose engine is gone, or cannot be seen."""
    lock_path = lock_path_of(path)
    if not os.path.lexists(lock_path):
        return NotReachable(
            f"the engine of {path} ({engine}) cannot be seen: there is no {lock_path}, the lock by which it is known",
            backend="shm",
            hint=f"share all of {path.parent} between containers, not single files; else start the engine again",
        )
    return NotReachable(
        f"the engine of {path} ({engine}) is gone, and no other came within {deadline.timeout_s:g} s",
        backend="shm",
        hint="start the engine again",
    )


def _absent(name: str, path: Path, deadline: Deadline) -> NotReachable:
    """Return the error for a segment that is not there, or never gets ready, with what is there instead."""
    state = "is never made ready" if path.exists() else "is not there"
    names = [one.name for one in find(path.parent) if not one.stale and one.name != name]
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    there = f"engines here: {shown}" if names else "there are no engines here"
    if not path.exists() and (listens := live_socket(name)):
        return NotReachable(
            f"no engine at shm://{name} after {deadline.timeout_s:g} s: {path} {state}, "
            f"but a process listens at {listens}",
            backend="shm",
            hint=f"an engine in another container has to share {path.parent} (docker run --ipc=host, or "
            "--ipc=container:ID of one with --ipc=shareable); a server of stubs alone has no segment: use a stub "
            "channel",
        )
    return NotReachable(
        f"no engine at shm://{name} after {deadline.timeout_s:g} s: {path} {state}; {there}",
        backend="shm",
        hint=f"{did_you_mean(name, names)}start one: lucky-transport serve ENGINE --endpoint shm://{name}; "
        "`lucky-transport ls` lists what is there",
    )
