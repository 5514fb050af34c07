"""A recording made again, in its order, on other engines or servers; every answer is compared with the recorded one.

Each should be fresh, with the seed of the recorded one: what a recording changed, its replay changes too. Every call is
made that can be made, so that the world stays in step, also where its answer is not compared. A lost connection is a
difference; where the server is not soon there again, and always where an engine is lost, what comes after it is not
made. Calls of services that are not LuckyEngine's are made by their bytes, with the deadline and the metadata that they
had, but for secrets; requests of a stream are sent without waiting for answers in between.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.api import open_transport
from lucky_transport.call import Metadata
from lucky_transport.deadline import Deadline
from lucky_transport.engine import Buffers
from lucky_transport.errors import ConfigError, SpecError
from lucky_transport.messages.methods import BY_NAME
from lucky_transport.routing import Decision, Ending
from lucky_transport.spec.actions import Bounds
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.compare.arrays import FrameTables, first_difference, spec_difference
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare, differing_at
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison, as_seen, call_outcome, ending_of
from lucky_transport_migration.evidence.record import EQUAL, EXCHANGE, Evidence, SideResult
from lucky_transport_migration.evidence.service_caller import ServiceCaller
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.call_answers import PATIENCE_S
from lucky_transport_migration.recording.entries import ARRAYS, RecordedCall, Recording, Step
from lucky_transport_migration.recording.replay_call import RecordedMethods, ReplayCall, broken, compared, is_lost
from lucky_transport_migration.recording.result import UNMADE
from lucky_transport_migration.stages.effective_stages import STEP

#: How long a replay waits in all for servers that are lost.
_BACK_S = 5.0


@dataclass(frozen=True, slots=True)
class _Exchanged:
    """What came of an exchange. table: of its frame, None where it failed."""

    outcome: CallOutcome
    spec: BatchSpec
    table: Mapping[str, Any] | None = None


class ReplayPlace:
    """Where a recording is made again, connected when that is first needed: the engine at `endpoint`, or over
    `transport`, and a server of other services, whose calls all have the metadata `given`.
    """

    def __init__(self, endpoint: str, transport: Transport | None = None, given: Metadata = ()) -> None:
        self.given = given
        self._endpoint = endpoint
        self._stack = ExitStack()
        self._patience_s = _BACK_S
        if transport is not None:
            vars(self)["_transport"] = transport

    @cached_property
    def _transport(self) -> Transport:
        return self._stack.enter_context(open_transport(self._endpoint))

    @cached_property
    def _caller(self) -> ServiceCaller:
        return self._stack.enter_context(ServiceCaller(self._endpoint, self.given))

    @cached_property
    def _tables(self) -> FrameTables:
        return FrameTables(self._transport.spec)

    def close(self) -> None:
        """End the connections that it made. Idempotent."""
        self._stack.close()

    def call(self, call: ReplayCall) -> CallOutcome:
        """Make a call. Raises ConfigError for an endpoint that has no such calls, and what connecting to an engine
        raises.
        """
        if call.method.name in OWN:
            transport = self._transport
            return self._outcome(lambda items: _take(transport, items, call))
        return self._caller.ask(
            call.method,
            call.recorded.requests,
            timeout_s=call.timeout_s,
            metadata=call.metadata,
            cancel_after=call.cancel_after,
            cancel_after_s=call.cancel_after_s,
            options=call.recorded.channel,
        )

    def exchange(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> _Exchanged:
        """Make an exchange."""
        transport, frames = self._transport, list[Frame]()
        now = self._outcome(lambda _: frames.append(transport.step(actions, control, Deadline(PATIENCE_S))))
        table = self._tables.table(frames[0], transport.out_of_bounds) if frames else None
        return _Exchanged(now, transport.spec, table)

    def is_back(self, outcome: CallOutcome, name: str) -> bool:
        """True where the next call can be made after this outcome; a lost server has some time, in all, to be back."""
        is_late = outcome.is_local and outcome.code == "DEADLINE_EXCEEDED" and name not in OWN
        if not (is_late or is_lost(outcome)):  # one may have waited for a server that is not there
            return True
        began = time.monotonic()
        is_ready = name not in OWN and self._patience_s > 0 and self._caller.is_ready(self._patience_s)
        self._patience_s -= time.monotonic() - began
        return is_ready

    def _outcome(self, make: Callable[[list[Any]], int | None]) -> CallOutcome:
        items: list[Any] = []
        ending, dropped, began_ns = Ending(), 0, time.perf_counter_ns()
        try:
            dropped = make(items) or 0
        except Exception as error:  # whatever it is, it is what is compared
            ending = ending_of(error)
        took_ns = time.perf_counter_ns() - began_ns
        return call_outcome(self._transport.name, items, as_seen(ending, took_ns, PATIENCE_S), took_ns, dropped=dropped)


def _take(transport: Transport, items: list[Any], call: ReplayCall) -> int:
    """Add the response, or the items of a stream: so many, without a number all. Returns how many it skipped."""
    method = BY_NAME[call.method.name]
    if method.stream is None:
        items.append(transport.call(method, call.request, Deadline(PATIENCE_S)))
        return 0
    with transport.stream(method, call.request, Deadline(PATIENCE_S)) as stream:
        for item in islice(stream, call.cancel_after):
            items.append(item)  # one by one: those before an error count
        return stream.dropped


def replay_at(
    recording: Recording,
    places: Sequence[ReplayPlace],
    rules: ComparisonRules,
    takes: Sequence[Callable[[Evidence], None]],
) -> None:
    """Make everything that was recorded again at one place, or at two in turn.

    takes: are given the evidence of each two of the recording and the places. What could not be made, and what a torn
    recording ends with, counts as not compared. Raises ConfigError for a damaged recording, SpecError where an engine's
    batch is another one, and what connecting raises.
    """
    methods, steps, is_made = RecordedMethods(), _Steps(recording, rules), True
    for number, entry in enumerate(recording.entries(), 1):
        name = STEP if isinstance(entry, Step) else entry.call
        try:
            if not is_made:
                seen, answers = [_not_compared(entry, UNMADE, recording)] * len(takes), []
            elif isinstance(entry, Step):
                seen, answers = steps.make(entry, places)
            else:
                call = ReplayCall.of(entry, methods.find(entry), recording.header.transport, places[0].given)
                seen, answers = _make(number, call, recording, places, rules)
        except ConfigError as error:
            raise recording.damaged(str(error)) from error
        seen[: len(places)] = map(_with_recorded, seen[: len(places)])
        for take, evidence in zip(takes, seen, strict=True):
            take(evidence)
        is_made = is_made and all(place.is_back(one, name) for place, one in zip(places, answers, strict=False))
    if recording.cut:
        for take in takes:
            take(_not_compared(recording.cut, recording.torn, recording))


def _with_recorded(evidence: Evidence) -> Evidence:
    """Return evidence that calls the first side of a difference what it is: recorded."""
    first, values = evidence.primary.transport, evidence.values.items()
    named = {"recorded" if name == first else name.removesuffix(" again"): value for name, value in values}
    return replace(evidence, values=named)


def _not_compared(entry: RecordedCall | Step, why: str, recording: Recording) -> Evidence:
    transport, at = recording.header.transport, moment(time.time())
    if isinstance(entry, Step):
        return Evidence(STEP, EXCHANGE, SideResult(transport, entry.code, entry.us), kind="replay", why=why, at=at)
    side = SideResult(entry.transport or transport, entry.code, entry.us, len(entry.items), entry.local)
    return Evidence(entry.call, "", side, kind="replay", why=why, at=at)


def _make(
    number: int, call: ReplayCall, recording: Recording, places: Sequence[ReplayPlace], rules: ComparisonRules
) -> tuple[list[Evidence], list[CallOutcome]]:
    """Return what a call shows of each two of the recording and the places, and what came of it at these."""
    answers = [] if call.why_not else [place.call(call) for place in places]
    pairs = combinations((call.was, *(answers or [call.was] * len(places))), 2)
    return [
        _not_compared(call.recorded, why, recording)
        if (why := call.incomparable(*pair))
        else compared(number, call, *pair, rules)
        for pair in pairs
    ], answers


class _Steps:
    """Makes exchanges, in their order."""

    def __init__(self, recording: Recording, rules: ComparisonRules) -> None:
        self._header = recording.header
        self._rules = rules
        self._number = 0  # of the last one, from 1
        self._outside = 0  # action values out of bounds so far
        if self._header.spec is not None:
            self._spec = BatchSpec.from_json(json.dumps(self._header.spec))
            self._tables = FrameTables(self._spec)

    def make(self, step: Step, places: Sequence[ReplayPlace]) -> tuple[list[Evidence], list[CallOutcome]]:
        """Return what an exchange shows of each two of the recording and the places, and what came of it at these.

        Raises ConfigError for a damaged one, SpecError where it fits no engine.
        """
        if self._header.spec is None:
            raise SpecError("the recording has steps and no spec", hint="record it anew")
        self._number += 1
        was = CallOutcome(self._header.transport, code=step.code, details=step.details, took_us=step.us)
        actions, control = _moves_of(step, self._spec)
        self._outside += Bounds(self._spec.action).count_outside(actions)
        table = None if step.code != "OK" else self._tables.table(_recorded_frame(step, self._spec), self._outside)
        answers = [place.exchange(actions, control) for place in places]
        pairs = combinations((_Exchanged(was, self._spec, table), *answers), 2)
        return [self._compared(*pair) for pair in pairs], [one.outcome for one in answers]

    def _compared(self, first: _Exchanged, second: _Exchanged) -> Evidence:
        one, other = first.outcome, second.outcome
        comparison = Comparison(STEP, Decision(one.transport, other.transport), one, other)
        evidence = replace(compare(comparison, self._rules, kind="replay"), stage=EXCHANGE, at=moment(time.time()))
        found, place = self._spec_difference(first.spec, second.spec) if self._number == 1 else None, self._number
        if found is not None:
            place = 0
        elif found := broken(one, other):
            evidence = replace(evidence, why="")
        elif evidence.verdict == EQUAL and first.table is not None and second.table is not None:
            found = first_difference(first.table, second.table, self._rules)
        if found is None:
            return replace(evidence, where=evidence.where and f"exchange {place}: {evidence.where}")
        env = "" if found.env is None else f"[env {found.env}]"
        where = f"exchange {place}: {found.where}{env}{''.join(f'[{index}]' for index in found.index)}"
        return differing_at(Difference(found.aspect, where, found.left, found.right), evidence)

    def _spec_difference(self, was: BatchSpec, now: BatchSpec) -> Difference | None:
        """Return where one batch differs from the other; raises SpecError where steps do not fit it."""
        for what in ("num_envs", "observation_shape", "action_shape", "num_terms"):
            if getattr(was, what) != getattr(now, what):
                raise SpecError(
                    f"recorded with {what} {getattr(was, what)}, the engine has {getattr(now, what)}",
                    hint=f"start one like it: lucky-transport serve {was.engine} --num-envs {was.num_envs}",
                )
        found = spec_difference({"recorded": was, "now": now}, "replay", self._rules)
        return None if found is None else found.difference


def _moves_of(step: Step, spec: BatchSpec) -> tuple[NDArray[Any], NDArray[np.uint8] | None]:
    """Return the actions and control bytes of an exchange; raises ConfigError where they do not fit the spec."""
    actions = _array("actions", step.actions, np.dtype(spec.action.dtype), spec.action_shape)
    if step.control is None:
        return actions, None
    return actions, _array("control", step.control, np.dtype(np.uint8), (spec.num_envs,))


def _recorded_frame(step: Step, spec: BatchSpec) -> Frame:
    """Return the frame of a recorded exchange; raises ConfigError where its arrays do not fit the spec."""
    frame = Frame.showing(Buffers.allocate(spec))
    frame.seq, frame.any_ended = step.step, True
    for name in ARRAYS:
        array: NDArray[Any] = getattr(frame, name)
        setattr(frame, name, _array(name, getattr(step, name), array.dtype, array.shape))
    return frame


def _array(name: str, data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    wanted = dtype.itemsize * math.prod(shape)
    if len(data) != wanted:
        raise ConfigError(f"recorded {name} of {len(data)} bytes, expected {wanted}", hint="record it anew")
    return np.frombuffer(data, dtype).reshape(shape)
