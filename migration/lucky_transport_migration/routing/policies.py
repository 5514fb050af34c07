"""What decides for each call of a staged migration and collects the outcomes, and the policy that writes them down.

    decision = policy.decide("/hazel.rpc.SceneService/GetEntity")
    outcome = <make the call over decision.primary>          # the caller gets this one
    other = <make it over decision.shadow too, if that is set, without keeping the caller waiting>
    policy.note(Comparison("/hazel.rpc.SceneService/GetEntity", decision, outcome, other))

    policy = recorded(EvidencePolicy())       # that policy itself where no setting asks for a recording (LUCKY_RECORD)

Calls are recorded by a thread of their own; a caller waits for nothing. Only calls that came as a program's own bytes
are written: those of our own clients are recorded by their transport (recording/recorded_transport.py), which sees
their steps too. While it records there are no shadows: a call is then noted when it ends, so that the order is that of
calls. A recording with gaps says so when it ends: it cannot be replayed faithfully.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from lucky_transport.config import load_settings
from lucky_transport.errors import ConfigError
from lucky_transport.messages.methods import Effect
from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.catalogue import OWN, known_method
from lucky_transport_migration.catalogue.descriptors import file_set_of, method_of_program
from lucky_transport_migration.compare.items import ItemDigest
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.evidence_queue import EvidenceQueue
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.evidence.record import CONTROL
from lucky_transport_migration.recording.entries import PROTOBUF, Header, call_entry
from lucky_transport_migration.recording.recorder import Recorder, recorder_of
from lucky_transport_migration.stages.decision import Decider
from lucky_transport_migration.stages.stage import Stage

_log = logging.getLogger("lucky_transport")

_CLOSE_S = 2.0


class RoutingPolicy(Protocol):
    """Decides for each call, and collects the outcomes. Called from any thread; no method waits or raises."""

    def decide(self, method: str) -> Decision:
        """Return the decision for the next call of a method, given by its full name "/package.Service/Method"."""
        ...

    def digest(self, method: str, decision: Decision) -> ItemDigest | None:
        """Return a digest for the items of one side of a call beyond those that are kept, None where nobody asks."""
        ...

    def note(self, comparison: Comparison) -> None:
        """Take the outcome of a call."""
        ...

    def close(self) -> None:
        """Write the outcomes; takes a few seconds at most. Idempotent."""
        ...


def recorded(policy: RoutingPolicy) -> RoutingPolicy:
    """Return `policy`, within one that records where the settings name a file. Raises ConfigError for wrong ones."""
    file = load_settings().record
    return RecordingPolicy(policy, Path(file)) if file else policy


class UnstagedPolicy:
    """Leaves every call to one transport and keeps no evidence. [stages.effects] says what a call changes."""

    def __init__(self, transport: str) -> None:
        self._transport = transport
        self._decider: Decider | None = None
        try:
            self._decider = Decider()
        except ConfigError as error:  # of a file that this program does not need
            _log.warning("[stages.effects] is not read: %s", error)

    def decide(self, method: str) -> Decision:
        """Return that it answers, and nothing else does."""
        effect = None if self._decider is None else self._decider.decide(method).effect
        return Decision(self._transport, stage=str(Stage.COMPLETE), effect=effect)

    def digest(self, method: str, decision: Decision) -> None:
        """Look at nothing."""

    def note(self, comparison: Comparison) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Have nothing to write."""


class RecordingPolicy:
    """`inner` decides who answers, and is told of everything. The file is made with the first call."""

    def __init__(self, inner: RoutingPolicy, file: Path) -> None:
        self._inner = inner
        self._file = file
        self._recorder: Recorder | None = None
        self._moved_ns = 0
        self._lost = 0
        self._described = set[tuple[int, str]]()  # process and service: a forked child's file is its own
        self._queue = EvidenceQueue("lucky recording", lambda item: self._write(*item))

    def decide(self, method: str) -> Decision:
        """Return who answers the next call, by the other policy; no shadow is asked."""
        decision = self._inner.decide(method)
        return replace(decision, shadow="")

    def digest(self, method: str, decision: Decision) -> ItemDigest:
        """Return one by the rules of the project, as a replay there makes it."""
        return ItemDigest(method_of_program(method), ComparisonRules.load())

    def note(self, comparison: Comparison) -> None:
        """Take the outcome of a call; what the caller got of it is recorded."""
        row = known_method(comparison.method)
        now_ns = time.monotonic_ns()
        effect = comparison.decision.effect or (row.effect if row else Effect.WORLD)
        began_ns = now_ns - int(comparison.primary.took_us * 1000)
        has_moved = row is not None and row.stream is not None and self._moved_ns > began_ns
        if effect is not Effect.READ:
            self._moved_ns = now_ns
        if (requests := _requests(comparison)) is not None:
            size = sum(len(item) for item in (*requests, *comparison.primary.items))
            self._queue.put((comparison, requests, has_moved), size)
        self._inner.note(comparison)

    def close(self) -> None:
        """Write what was noted, for two seconds at most, and close the other policy. Idempotent."""
        self._queue.close(_CLOSE_S)
        if self._recorder is not None:
            self._recorder.flush()
        lost, self._lost, self._queue.refused = self._lost + self._queue.refused, 0, 0
        if lost:
            _log.warning("the recording in %s lacks %d calls, for which there was no room", self._file, lost)
        self._inner.close()

    def _write(self, comparison: Comparison, requests: list[bytes], has_moved: bool) -> None:
        given = comparison.method, requests, comparison.primary, PROTOBUF, comparison.options
        ends = {"left": comparison.ended_early, "unfinished": comparison.unfinished, "moved": has_moved}
        try:
            self._recorder = recorder_of(self._file, Header(CONTROL))
            self._recorder.write(call_entry(*given, described=self._description(comparison.method), **ends))
        except ConfigError as error:
            if not self._lost:
                _log.warning("nothing is recorded: %s", error)
            self._lost += 1

    def _description(self, method: str) -> bytes:
        """Return what describes the method's service, once for each that is not LuckyEngine's."""
        service = method.removeprefix("/").partition("/")[0]
        key = os.getpid(), service
        if method in OWN or key in self._described:
            return b""
        self._described.add(key)
        return file_set_of(service) or b""


def _requests(comparison: Comparison) -> list[bytes] | None:
    """Return what was sent; None where that, or what came, is no program's own bytes."""
    request = comparison.request
    requests = request if isinstance(request, list) else [request]
    is_bytes = all(isinstance(one, bytes) for one in (*requests, *comparison.primary.items))
    return requests if is_bytes else None
