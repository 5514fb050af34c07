"""A recording made again, in its order, on another engine; every answer is compared with the recorded one.

The engine should be fresh, with the seed of the recorded one: what a recording changed, its replay changes too. Every
call is made that can be made, so that the world stays in step, also where its answer is not compared. The first lost
connection ends a replay, and is a difference. Headers and trailing metadata of a program of gRPC are not compared:
calls of ours do not see them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    ClosedError,
    ConfigError,
    MissingExtra,
    NotReachable,
    PeerDied,
    RemoteProtocolError,
    SpecError,
)
from lucky_transport.messages.methods import BY_NAME, Method
from lucky_transport.routing import Decision, Ending
from lucky_transport.spec.actions import Bounds
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.compare.arrays import first_difference
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.frames import FrameTables, spec_difference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare, differing_at
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison, as_seen, call_outcome, ending_of
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, EXCHANGE, NOT_COMPARED, NOT_ENDED, Evidence
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.call_answers import PATIENCE_S
from lucky_transport_migration.recording.asking import not_compared
from lucky_transport_migration.recording.calls import outcome_of, request_of
from lucky_transport_migration.recording.entries import PROTOBUF, RecordedCall, Step
from lucky_transport_migration.recording.frames import moves_of, recorded_frame
from lucky_transport_migration.recording.reading import Recording
from lucky_transport_migration.recording.service_replay import ServiceReplay, is_foreign
from lucky_transport_migration.stages.effective_stages import STEP

__all__ = ["ReplayPlace", "replay_at"]

_LOST = (PeerDied, NotReachable, ClosedError)


class ReplayPlace:
    """Where a recording is made again: an engine's transport, None where `is_only_foreign`, and `services`, what makes
    calls of services that are not LuckyEngine's. endpoint: its name for people.
    """

    def __init__(
        self,
        recording: Recording,
        transport: Transport | None,
        rules: ComparisonRules,
        services: ServiceReplay | None = None,
        endpoint: str = "",
    ) -> None:
        self.endpoint = endpoint
        self._player = None if transport is None else _Player(recording, transport, rules)
        self._services = services

    @property
    def is_lost(self) -> bool:
        """True when the connection is gone."""
        return any(one is not None and one.is_lost for one in (self._player, self._services))

    def make(self, number: int, entry: RecordedCall | Step) -> Evidence:
        """Make the recording's entry of that number again, and return what it shows.

        Raises ConfigError for a damaged entry, SpecError where the engine's batch is another one.
        """
        if self._services is not None and isinstance(entry, RecordedCall) and is_foreign(entry):
            return self._services.call(number, entry)
        if self._player is None:
            raise ConfigError("the recording has grown calls of an engine while it was replayed")
        return self._player.step(entry) if isinstance(entry, Step) else self._player.call(entry)

    def between(self, other: ReplayPlace, number: int, entry: RecordedCall | Step, evidence: Evidence) -> Evidence:
        """Return what the answers here and there show of an entry that both have made; evidence: of this place."""
        found = None
        if self._services is not None and other._services is not None and is_foreign(entry):
            assert isinstance(entry, RecordedCall)
            if self._services.outcome is not None and other._services.outcome is not None:
                found = self._services.between(number, entry, self._services.outcome, other._services.outcome)
        elif self._player is not None and other._player is not None:
            found = self._player.between(other._player)
        why = evidence.why or "it was not made at both"
        return found or Evidence(evidence.method, "", evidence.primary, kind="replay", why=why, at=evidence.at)


def replay_at(recording: Recording, places: Sequence[ReplayPlace], takes: Sequence[Callable[[Evidence], None]]) -> None:
    """Make everything that was recorded again at one place, or at two in turn.

    takes: are given the evidence of each place and the recording, and of two places of what both answered. What a torn
    recording ends with counts as one more call that was not compared. Raises ConfigError for a damaged recording,
    SpecError where the engine's batch is another one.
    """
    seen: list[Evidence] = []
    for number, entry in enumerate(recording.entries(), 1):
        try:
            seen = [place.make(number, entry) for place in places]
        except ConfigError as error:
            raise recording.damaged(str(error)) from error
        if len(places) > 1:
            seen.append(places[0].between(places[1], number, entry, seen[0]))
        for take, evidence in zip(takes, seen, strict=True):
            take(evidence)
        if any(place.is_lost for place in places):
            return
    if recording.torn:
        for take, one in zip(takes, seen, strict=False):
            take(Evidence(one.method, "", one.primary, kind="replay", why=recording.torn, at=one.at))


@dataclass(frozen=True, slots=True)
class _Answer:
    """What an engine answered last. table: of the frame of an exchange, None where it failed."""

    method: str
    outcome: CallOutcome
    request: Any = None
    is_cut: bool = False
    table: Mapping[str, Any] | None = None
    place: str = ""


def _located(evidence: Evidence, place: str, found: Difference | None) -> Evidence:
    """Return evidence of an exchange that names the place of its difference, or of that which was found."""
    if found is None:
        return replace(evidence, where=f"{place}: {evidence.where}") if evidence.where else evidence
    env = "" if found.env is None else f"[env {found.env}]"
    where = f"{found.where}{env}{''.join(f'[{index}]' for index in found.index)}"
    return differing_at(Difference("item", f"{place}: {where}", found.left, found.right), evidence)


class _Player:
    """Plays entries over a transport. is_lost: the connection is gone."""

    def __init__(self, recording: Recording, transport: Transport, rules: ComparisonRules) -> None:
        self.is_lost = False
        self._header = recording.header
        self._transport = transport
        self._rules = rules
        self._exchange = 0  # the number of the last one, from 1
        self._outside = 0  # action values out of bounds so far
        self._last: _Answer | None = None
        if recording.header.spec is not None:
            self._spec = BatchSpec.from_json(json.dumps(recording.header.spec))
            self._tables = FrameTables(self._spec), FrameTables(transport.spec)

    def step(self, step: Step) -> Evidence:
        """Return what a recorded exchange shows."""
        self._exchange += 1
        self._last = None
        found = self._spec_difference() if self._exchange == 1 else None
        place = f"exchange {self._exchange if found is None else 0}"
        was = CallOutcome(self._header.transport, code=step.code, details=step.details, took_us=step.us)
        actions, control = moves_of(step, self._spec)
        self._outside += Bounds(self._spec.action).count_outside(actions)
        frames: list[Frame] = []
        now = self._ask(lambda _: frames.append(self._transport.step(actions, control, Deadline(PATIENCE_S))))
        evidence = replace(self._compared(STEP, was, now), stage=EXCHANGE)
        table = self._tables[1].table(frames[0], self._transport.out_of_bounds) if frames else None
        self._last = _Answer(STEP, now, table=table, place=f"exchange {self._exchange}")
        if found is None and evidence.verdict == EQUAL and table is not None:
            left = self._tables[0].table(recorded_frame(step, self._spec), self._outside)
            found = first_difference(left, table, self._rules)
        return _located(evidence, place, found)

    def between(self, other: _Player) -> Evidence | None:
        """Return what the last answers of two engines show, None where one of them was not asked."""
        mine, others = self._last, other._last
        if mine is None or others is None:
            return None
        request, is_cut = mine.request, mine.is_cut
        evidence = self._compared(mine.method, mine.outcome, others.outcome, request=request, is_cut=is_cut)
        if mine.method != STEP:
            return evidence
        found = None
        if evidence.verdict == EQUAL and mine.table is not None and others.table is not None:
            found = first_difference(mine.table, others.table, self._rules)
        return _located(replace(evidence, stage=EXCHANGE), mine.place, found)

    def call(self, call: RecordedCall) -> Evidence:
        """Return what a recorded call or stream shows."""
        self._last = None
        method = BY_NAME.get(call.call)
        if method is None:
            return not_compared(
                call, "it is in no table of methods: only a program's own stubs know it", self._header.transport
            )
        if call.moved:
            return not_compared(
                call, "the world moved while the stream ran, so its items hang on the clock", self._header.transport
            )
        if call.unfinished and not call.items:
            return not_compared(call, NOT_ENDED, self._header.transport)
        try:
            request, was = request_of(call, method), outcome_of(call, method, self._header.transport)
        except (ValueError, RemoteProtocolError, MissingExtra) as error:
            if call.form != PROTOBUF:  # a message of ours can be read, unless the recording is damaged
                raise ConfigError(f"{call.call}: {error}") from error
            return not_compared(call, str(error), self._header.transport)
        is_cut = method.stream is not None and bool(call.left or call.more or call.local)
        wanted = len(call.items) if is_cut else None
        now = self._ask(lambda items: self._take(items, method, request, wanted))
        if call.form == PROTOBUF:
            was, now = (replace(one, headers=(), trailing=()) for one in (was, now))
        if method.stream is None and call.more:
            return not_compared(call, "its recorded response was none that a wire could carry", self._header.transport)
        self._last = _Answer(call.call, now, request, is_cut)
        evidence = self._compared(call.call, was, now, request=request, is_cut=is_cut)
        left_out = {NOT_ENDED: "the recording has what came until then"} if call.unfinished else {}
        return replace(evidence, left_out={**evidence.left_out, **left_out})

    def _take(self, items: list[Any], method: Method, request: Any, wanted: int | None) -> int:
        """Add the response, or the items of a stream: so many, without a number all. Returns how many it skipped."""
        if method.stream is None:
            items.append(self._transport.call(method, request, Deadline(PATIENCE_S)))
            return 0
        with self._transport.stream(method, request, Deadline(PATIENCE_S)) as stream:
            while wanted is None or len(items) < wanted:
                try:
                    items.append(next(stream))
                except StopIteration:
                    break
            return stream.dropped

    def _ask(self, make: Callable[[list[Any]], int | None]) -> CallOutcome:
        items: list[Any] = []
        ending, dropped, began_ns = Ending(), 0, time.perf_counter_ns()
        try:
            dropped = make(items) or 0
        except Exception as error:  # whatever it is, it is what is compared
            self.is_lost, ending = isinstance(error, _LOST), ending_of(error)
        took_ns = time.perf_counter_ns() - began_ns
        return call_outcome(self._transport.name, items, as_seen(ending, took_ns, PATIENCE_S), took_ns, dropped=dropped)

    def _compared(
        self, method: str, was: CallOutcome, now: CallOutcome, *, request: Any = None, is_cut: bool = False
    ) -> Evidence:
        comparison = Comparison(method, Decision(was.transport, now.transport), was, now, request, ended_early=is_cut)
        evidence = replace(compare(comparison, self._rules, kind="replay"), at=moment(time.time()))
        if self.is_lost and evidence.verdict in (EQUAL, NOT_COMPARED) and was.code != now.code:
            return replace(evidence, verdict=DIFFERENT, aspect="code", where="code", values={"replay": now.details})
        return evidence

    def _spec_difference(self) -> Difference | None:
        """Return where the engine's batch differs from the recorded one; raises SpecError where steps do not fit it."""
        if self._header.spec is None:
            raise SpecError("the recording has steps and no spec", hint="record it anew")
        was, now = self._spec, self._transport.spec
        for what in ("num_envs", "observation_shape", "action_shape", "num_terms"):
            if getattr(was, what) != getattr(now, what):
                raise SpecError(
                    f"recorded with {what} {getattr(was, what)}, the engine has {getattr(now, what)}",
                    hint=f"start one like it: lucky-transport serve {was.engine} --num-envs {was.num_envs}",
                )
        found = spec_difference({"recorded": was, "now": now}, "replay", self._rules)
        return None if found is None else found.difference
