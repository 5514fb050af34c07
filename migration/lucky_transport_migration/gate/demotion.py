"""What sends a method back at once: an answer that differs, or a candidate that fails.

    stage            answered differently    failed (unreachable, crashed, too late)
    shadow           grpc                    grpc
    canary p%, shm   shadow                  grpc

After a wrong answer gRPC answers again and the comparison goes on; a candidate that fails is left alone, and a read
that changes the engine's state is not made twice any more. Only live calls demote. At `grpc` there is nowhere to go
back to, and at `complete` nothing to go back to.
"""

from __future__ import annotations

from lucky_transport_migration.evidence.record import DIFFERENT, EFFECT, FAILED, Evidence
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.stages.stage import Placement, Stage

__all__ = ["demotion"]


def demotion(evidence: Evidence, limits: Limits) -> Placement | None:
    """Return where one call sends its method back to, None where the method stays.

    Its journal is told so with `evidence.sentence` as the reason and `limits.cool_down_s`. Raises ValueError for
    evidence of a stage that there is not.
    """
    if not limits.demote or evidence.kind != "live" or evidence.verdict not in (DIFFERENT, FAILED):
        return None
    placement = Placement.parse(evidence.stage)
    if placement.stage in (Stage.GRPC, Stage.COMPLETE):
        return None
    goes_on = evidence.verdict == DIFFERENT and evidence.aspect != EFFECT
    return placement.fallback if goes_on else Placement(Stage.GRPC)
