"""The policy of a staged migration: stages decide who answers, and what was answered becomes evidence.

Callers only hand over what they saw; a thread of the policy's own compares, writes, counts and demotes. A method falls
back with the first evidence that its rule asks for, in all processes that share the journal; in this one only where the
journal cannot be written. A forked child has evidence and a summary of its own; its calls are no part of the parent's
metrics. Rules and limits are read again with the stages; wrong ones leave the last good ones in force.

What sends a method back at once is an answer that differs, or a candidate that fails:

    stage            answered differently    failed (unreachable, crashed, too late)
    shadow           grpc                    grpc
    canary p%, shm   shadow                  grpc

After a wrong answer gRPC answers again and the comparison goes on; a candidate that fails is left alone. Only live
calls demote. At `grpc` there is nowhere to go back to, and at `complete` nothing to go back to.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lucky_transport.errors import ConfigError
from lucky_transport.fork import on_child
from lucky_transport.registry import load
from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.catalogue.descriptors import keep_service
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import error_text
from lucky_transport_migration.compare.items import ItemDigest
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare
from lucky_transport_migration.evidence.evidence_queue import EvidenceQueue
from lucky_transport_migration.evidence.lines import Lines
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.evidence.record import CONTROL, DIFFERENT, FAILED, Evidence
from lucky_transport_migration.evidence.tally import RunSummary, say
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.stages.decision import Decider
from lucky_transport_migration.stages.effective_stages import STEPPING_PATH
from lucky_transport_migration.stages.stage import Placement, Stage

if TYPE_CHECKING:
    from lucky_transport_migration.evidence.metrics import Metrics

_CLOSE_S = 2.0

_log = logging.getLogger("lucky_transport")


class EvidencePolicy:
    """A policy by the nearest file from `directory` upwards. metrics: None without counting.

    tell: is given each line that a user should read; quiet: only those that say that something is wrong.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        metrics: Metrics | None = None,
        tell: Callable[[str], None] = say,
        quiet: bool = False,
    ) -> None:
        self._decider = Decider(directory)
        self._plan = self._decider.plan
        self._rules, self._limits = self._read()
        self._metrics = metrics or _open_metrics(self._plan.metrics_port, tell)
        self._tell = tell
        self._quiet = quiet
        self._lines = Lines(tell)
        self._summary = RunSummary()
        self._back: dict[str, Decision] = {}
        this = weakref.ref(self)
        on_child(self._begin_in_child)
        self._kept: set[str] = set()
        self._methods: dict[str, ServiceMethod | None] = {}
        self._queue = EvidenceQueue("lucky evidence", lambda entry: (one := this()) and one._take(*entry))

    def decide(self, method: str) -> Decision:
        """Return who answers the next call of a method, given by its full name."""
        return self._back.get(method) or self._decider.decide(method)

    def digest(self, method: str, decision: Decision) -> ItemDigest | None:
        """Return one where both sides are compared."""
        return ItemDigest(self._described(method), self._rules) if decision.shadow else None

    def note(self, comparison: Comparison) -> None:
        """Take the outcome of a call."""
        self._queue.put((time.time(), comparison), _weight(comparison))

    def close(self) -> None:
        """Look at what is left, for two seconds at most, and sum up. Idempotent."""
        if self._queue.close(_CLOSE_S):  # else the thread may be writing to the file at this moment
            self._lines.close()
        self._summary.lost, self._queue.refused = self._queue.refused, 0
        text = self._summary.sentence(self._plan.evidence)
        if text and (self._summary.is_bad or not self._quiet):
            self._tell(text)
        self._summary = RunSummary()

    # -- on the policy's own thread ------------------------------------------------------------------------------------

    def _take(self, at: float, comparison: Comparison) -> None:
        if self._decider.plan is not self._plan:
            self._read_again()
        evidence = replace(self._compare(comparison), at=moment(at))
        try:
            self._fall_back(evidence)
            self._lines.write(self._plan.evidence, [evidence])
            self._keep_service(evidence.method)
            self._summary.add(evidence)
            if self._metrics is not None:
                self._metrics.add(evidence)
        except Exception:
            _log.exception("no evidence of a call of %s", comparison.method)

    def _keep_service(self, method: str) -> None:
        """Keep beside the evidence what describes the service, if it is none of LuckyEngine's."""
        service = method.removeprefix("/").partition("/")[0]
        if method not in OWN and service not in self._kept:
            self._kept.add(service)
            with suppress(OSError):  # that the folder cannot be written is said of the evidence
                keep_service(self._plan.evidence, service)

    def _described(self, name: str) -> ServiceMethod | None:
        """Return the method of another service as the program's modules or the evidence folder describe it."""
        if name not in self._methods:
            found = None
            with suppress(ConfigError, OSError):  # the decider has said that it cannot be read
                found = self._plan.catalogue.method(name)
            self._methods[name] = found if found is not None and found.is_known else None
        return self._methods[name]

    def _compare(self, comparison: Comparison) -> Evidence:
        try:
            method = None if comparison.method in OWN else self._described(comparison.method)
            return compare(comparison, self._rules, method=method)
        except Exception as error:  # items are foreign objects
            why = f"they cannot be compared: {error_text(error)}"
            return compare(replace(comparison, shadow=None, why=why), self._rules)

    def _fall_back(self, evidence: Evidence) -> None:
        """Demote the method if the rule says so, and it is not back already."""
        to = demotion(evidence, self._limits)
        standing = self._decider.standing
        before = standing.placement(evidence.method)
        if to is None or before <= to or evidence.method in self._back:
            return
        try:
            cool_down_s = self._limits.cool_down_s
            standing.journal.demote(evidence.method, before, to, evidence.sentence, cool_down_s=cool_down_s)
        except OSError as error:
            to = Placement(Stage.GRPC)
            together = STEPPING_PATH if evidence.method in STEPPING_PATH else (evidence.method,)
            self._back |= dict.fromkeys(together, Decision(CONTROL, stage=str(to)))
            self._tell(f"a demotion holds in this process only: {error}")
        self._decider.look()
        self._tell(f"{evidence.sentence}; demoted from {before} to {to}")
        if self._metrics is not None:
            self._metrics.add_demotion(evidence.method, str(to))

    def _read_again(self) -> None:
        self._plan = self._decider.plan
        try:
            self._rules, self._limits = self._read()
        except ConfigError as error:
            _log.warning("rules and limits stay as they were: %s", error)

    def _read(self) -> tuple[ComparisonRules, Limits]:
        folder = self._plan.path.parent
        return ComparisonRules.load(folder), Limits.load(folder)

    def _begin_in_child(self) -> None:
        self._summary = RunSummary()
        self._metrics = None


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
    return placement.fallback if evidence.verdict == DIFFERENT else Placement(Stage.GRPC)


def _weight(comparison: Comparison) -> int:
    """Return about how many bytes a comparison keeps alive; what is no bytes is small."""
    sides = (comparison.primary, comparison.shadow)
    return sum(len(item) for side in sides if side for item in side.items if isinstance(item, bytes))


def _open_metrics(port: int, tell: Callable[[str], None]) -> Metrics | None:
    """Return the metrics of the process, served where a port is given; None where their library is missing."""
    try:
        return load("lucky_transport_migration.evidence.metrics:open_metrics", owner="metrics", extra="metrics")(port)
    except (ImportError, OSError) as error:
        if port:
            tell(f"no metrics at port {port}: {error}")
        return None
