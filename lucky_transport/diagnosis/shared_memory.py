"""Checks of shared memory: its size, whether a segment can be made, what dead engines left, the native module.

What imports NumPy is imported inside the check that needs it; the other checks run without NumPy.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.errors import TransportError

if TYPE_CHECKING:
    from lucky_transport.shm.segment.segment_files import SegmentInfo


_MIB = 1 << 20
_ENLARGE = "enlarge it: `docker run --shm-size=1g ...`, or `mount -o remount,size=1g /dev/shm`"

#: The batch that must fit for the default settings to be useful.
_LARGE_BATCH = (4096, 100, 12)


def space(roots: Roots) -> Check:
    """Size and free space, against a small and a large batch."""
    name = "shared memory"
    if not roots.shm.is_dir():
        return Check(name, CheckStatus.FAIL, f"{roots.shm} is no directory", f"mount a tmpfs at {roots.shm}")
    stats = os.statvfs(roots.shm)
    total, free = stats.f_blocks * stats.f_frsize, stats.f_bavail * stats.f_frsize
    small, large = _segment_bytes(1, 1, 1), _segment_bytes(*_LARGE_BATCH)
    seen = f"{roots.shm}: {free // _MIB} MiB free of {total // _MIB} MiB"
    if free < small:
        return Check(name, CheckStatus.FAIL, f"{seen}; the smallest segment needs {small / _MIB:.1f} MiB", _ENLARGE)
    if free < large:
        envs, observations, actions = _LARGE_BATCH
        batch = f"{envs} envs of {observations} observations and {actions} actions"
        return Check(name, CheckStatus.WARN, f"{seen}; {batch} need {large / _MIB:.1f} MiB", _ENLARGE)
    return Check(name, CheckStatus.OK, seen)


def _segment_bytes(num_envs: int, observations: int, actions: int) -> int:
    from lucky_transport.shm.segment.layout import plan
    from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

    spec = BatchSpec("doctor", num_envs, ArraySpec(shape=(observations,)), ArraySpec(shape=(actions,)))
    return plan(spec).total_size


def permissions(roots: Roots) -> Check:
    """Which users may write to the directory, and whether others may remove our segments."""
    name = "permissions"
    mode = stat.S_IMODE(roots.shm.stat().st_mode)
    seen = f"{roots.shm} has mode {mode:04o}"
    if not os.access(roots.shm, os.W_OK | os.X_OK):
        return Check(
            name, CheckStatus.FAIL, f"{seen}: not writable for user id {os.getuid()}", f"chmod 1777 {roots.shm}"
        )
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return Check(name, CheckStatus.WARN, f"{seen}: any user may remove others' segments", f"chmod 1777 {roots.shm}")
    return Check(name, CheckStatus.OK, seen)


def trial_segment(roots: Roots) -> Check:
    """Makes the smallest segment, maps it and removes it: the same steps as an engine."""
    name = "trial segment"
    from lucky_transport.process import unique_name
    from lucky_transport.shm.segment import segment
    from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

    spec = BatchSpec("doctor", 1, ArraySpec(shape=(1,)), ArraySpec(shape=(1,)))
    try:
        made = segment.create(unique_name(), spec, directory=roots.shm)
    except (TransportError, OSError) as error:
        hint = error.hint if isinstance(error, TransportError) else ""
        remedy = hint or f"see that {roots.shm} is a tmpfs this user may write to"
        return Check(name, CheckStatus.FAIL, str(error).removesuffix(f"; {hint}"), remedy)
    made.unlink()
    return Check(name, CheckStatus.OK, f"made, mapped and removed {made.layout.total_size} bytes")


def stale_segments(roots: Roots) -> Check:
    """Segments whose engine is gone; they take space until a new engine of that name comes."""
    from lucky_transport.shm.segment import segment_files

    found = segment_files.find(roots.shm)
    stale = [one for one in found if one.stale]
    if not stale:
        return Check("stale segments", CheckStatus.OK, f"none among {len(found)} on this host")
    size = sum(one.size_bytes for one in stale) / _MIB
    names = ", ".join(one.name for one in stale)
    return Check(
        "stale segments", CheckStatus.WARN, f"{names} ({size:.1f} MiB)", "remove them: `lucky-transport doctor --fix`"
    )


def remove_stale_segments(roots: Roots) -> list[SegmentInfo]:
    """Remove the segments of dead engines and return them; those of living ones are never touched."""
    from lucky_transport.shm.segment import segment_files

    return segment_files.remove_stale(roots.shm)


def native_module(roots: Roots) -> Check:
    """Whether the native module can be loaded."""
    from lucky_transport import native

    error = native.problem()
    if error is None:
        return Check("native module", CheckStatus.OK, f"version {native.VERSION}, loaded")
    return Check("native module", CheckStatus.FAIL, str(error).removesuffix(f"; {error.hint}"), error.hint)
