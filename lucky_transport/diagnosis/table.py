"""All checks, in the order in which they are shown; one that raises becomes a failed check."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lucky_transport.diagnosis import machine, packages, shared_memory
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots

#: One check: looks where `Roots` says and returns its row.
Examiner = Callable[[Roots], Check]

CHECKS: tuple[Examiner, ...] = (
    machine.interpreter,
    machine.kernel,
    packages.versions,
    packages.extras,
    packages.broken_plugins,
    machine.settings,
    machine.cpus,
    machine.pidfd,
    machine.open_files,
    shared_memory.space,
    shared_memory.permissions,
    shared_memory.trial_segment,
    shared_memory.stale_segments,
    shared_memory.native_module,
    machine.cuda_driver,
    machine.user_mapping,
    machine.runtime_directory,
    machine.engines,
)


def examine(roots: Roots | None = None, checks: Sequence[Examiner] = CHECKS) -> list[Check]:
    """Return one row per check."""
    return [_guarded(check, roots or Roots()) for check in checks]


def _guarded(check: Examiner, roots: Roots) -> Check:
    try:
        return check(roots)
    except (OSError, ImportError) as error:
        return Check(
            check.__name__.replace("_", " "),
            CheckStatus.FAIL,
            f"could not be looked at: {type(error).__name__}: {error}",
            "mend that first, then run `lucky-transport doctor` again",
        )


def healthy(rows: Sequence[Check]) -> bool:
    """True when no check failed; warnings are no failure."""
    return all(row.verdict is not CheckStatus.FAIL for row in rows)
