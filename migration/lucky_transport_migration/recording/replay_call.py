"""How a recorded call is made again: `ReplayCall`, and how two answers to it are compared.

a recorded call of     request             left early, if it was                     compared
LuckyEngine            its message         after as many items                       messages
any other service      the bytes of all    after as many items, or as late without   messages, or bytes where nothing
one                                       describes it
neither, or one that hangs on the clock, had not ended without an item, or cannot be read: it is not made
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from lucky_transport.call import Metadata
from lucky_transport.codec.flatbuffers import decode
from lucky_transport.errors import ConfigError, MissingExtra, RemoteProtocolError, plural
from lucky_transport.messages.methods import BY_NAME, Effect, Flow
from lucky_transport.registry import load
from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import UNKNOWN, ServiceMethod
from lucky_transport_migration.compare.difference import Difference, short
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare, differing_at
from lucky_transport_migration.evidence.lines import MASKED
from lucky_transport_migration.evidence.outcome import CallOptions, CallOutcome, Comparison
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, NOT_ENDED, Evidence
from lucky_transport_migration.evidence.service_caller import CANCELLED, without_secrets
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.call_answers import PATIENCE_S
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.service_requests import RecordedRequest, RecordedRequests
from lucky_transport_migration.recording.entries import FLATBUFFERS, PROTOBUF, RecordedCall, Recording

#: What of a call is left out where nothing describes its messages.
AS_BYTES = "fields of messages"
_UNDESCRIBED = "nothing describes the service, so bytes are compared"
_UNSAID = "nothing in the recording says how it is called"
_MOVED = "the world moved while the stream ran, so its items hang on the clock"


class RecordedMethods:
    """The methods that a recording knows so far: LuckyEngine's, those that it describes, and those that it was told how
    to call.
    """

    def __init__(self) -> None:
        self._methods = dict(OWN)

    def find(self, call: RecordedCall) -> ServiceMethod | None:
        """Return the method of a call, None where nothing says how it is called.

        Raises ConfigError for a description that is none.
        """
        if call.described:
            try:
                found = methods_in(call.described, "the recording")
            except ValueError as error:
                raise ConfigError(f"{call.call}: {error}") from error
            self._methods |= {one.name: one for one in found if one.name not in OWN}
        if call.call not in self._methods and call.arity:
            streams = call.arity.startswith("stream"), Flow.EVERY if call.arity.endswith("stream") else None
            self._methods[call.call] = ServiceMethod(call.call, Effect.WORLD, _UNDESCRIBED, UNKNOWN, *streams)
        return self._methods.get(call.call)


@dataclass(frozen=True, slots=True)
class ReplayCall:
    """A recorded call as it is made again; why_not: it is not, and why. was: what came of it then.

    request: see above. cancel_after, cancel_after_s: as in `ServiceCaller.ask`. without: metadata that it had, and that
    the recording holds no value of.
    """

    recorded: RecordedCall
    method: ServiceMethod
    was: CallOutcome
    request: Any = None
    why_not: str = ""
    timeout_s: float = PATIENCE_S
    metadata: Metadata = ()
    cancel_after: int | None = None
    cancel_after_s: float | None = None
    without: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, call: RecordedCall, method: ServiceMethod | None, transport: str = "", given: Metadata = ()
    ) -> ReplayCall:
        """Return how a recorded call is made again; transport: who answered, where its entry does not say. given:
        metadata that every call is made with.

        Raises ConfigError for one that is damaged.
        """
        call = replace(call, transport=call.transport or transport)
        if method is None:
            return cls._not_made(call, ServiceMethod(call.call, Effect.WORLD, _UNSAID), _UNSAID)
        if call.moved:
            return cls._not_made(call, method, _MOVED)
        if call.unfinished and not call.items:
            return cls._not_made(call, method, NOT_ENDED)
        return cls._own(call, method) if method.name in OWN else cls._of_service(call, method, given)

    @classmethod
    def _not_made(cls, call: RecordedCall, method: ServiceMethod, why: str) -> ReplayCall:
        was = CallOutcome(call.transport, call.items, call.code, took_us=call.us, is_local=call.local)
        return cls(call, method, was, why_not=why)

    @classmethod
    def _own(cls, call: RecordedCall, method: ServiceMethod) -> ReplayCall:
        try:
            was, request = _outcome_of(call, method), _request_of(call, method)
        except (ValueError, RemoteProtocolError, MissingExtra) as error:
            if call.form != PROTOBUF:  # a message of ours can be read, unless the recording is damaged
                raise ConfigError(f"{call.call}: {error}") from error
            return cls._not_made(call, method, str(error))
        is_cut = method.stream is not None and bool(call.left or call.more or call.local)
        return cls(call, method, was, request, cancel_after=len(call.items) if is_cut else None)

    @classmethod
    def _of_service(cls, call: RecordedCall, method: ServiceMethod, given: Metadata) -> ReplayCall:
        if not method.requests_stream and len(call.requests) != 1:
            raise ConfigError(f"{call.call}: {len(call.requests)} requests, and it takes one")
        is_left = call.left or (call.more > 0 and not call.rest)
        masked = tuple(dict.fromkeys(key for key, value in call.metadata if value == MASKED))
        return cls(
            call,
            method,
            without_secrets(_outcome_of(call, method), given),
            list(call.requests),
            timeout_s=PATIENCE_S if call.timeout_s is None else call.timeout_s,
            metadata=tuple((key, value) for key, value in call.metadata if key not in masked),
            cancel_after=len(call.items) if is_left and call.items else None,
            cancel_after_s=call.us / 1e6 if is_left and not call.items else None,
            without=tuple(key for key in masked if key not in dict(given)),
        )

    @property
    def is_cut(self) -> bool:
        """True for a call that is left again: only what both sent is compared."""
        return self.cancel_after is not None or self.cancel_after_s is not None

    @property
    def left_out(self) -> dict[str, str]:
        """What else is not compared, and why."""
        unfinished = {NOT_ENDED: "the recording has what came until then"} if self.recorded.unfinished else {}
        return unfinished if self.method.response is not None else {**unfinished, AS_BYTES: _UNDESCRIBED}

    def incomparable(self, *answers: CallOutcome) -> str:
        """Return why the answers show nothing, "" when they do."""
        if self.cancel_after_s is not None and any(one.code != CANCELLED for one in answers):
            return f"it was cancelled after {self.cancel_after_s:.3f} s without an answer, and had one by then now"
        if self.method.stream is None and self.recorded.more:
            return "its recorded response was none that a wire could carry"
        return self.why_not

    @property
    def text(self) -> str:
        """What is asked, as one line for people."""
        from google.protobuf.message import DecodeError

        if not isinstance(self.request, list):
            return short(str(self.request))
        try:
            return ServiceCall(tuple(map(self.method.request.FromString, self.recorded.requests))).text
        except (AttributeError, DecodeError):  # nothing describes it
            return short(", ".join(one.hex() for one in self.recorded.requests))


def _outcome_of(call: RecordedCall, method: ServiceMethod) -> CallOutcome:
    """Return what came of a call, items as `compare` takes them. Raises RemoteProtocolError for one that is none."""
    items: Any = call.items
    if call.form == FLATBUFFERS:
        items = [decode(method.response, item) for item in items]
    end = call.code, call.details, call.headers, call.trailing
    return CallOutcome(call.transport, items, *end, call.us, call.dropped, call.more, call.rest, call.local)


def _request_of(call: RecordedCall, method: ServiceMethod) -> Any:
    """Return the message that a call of LuckyEngine's was made with.

    Raises ValueError where there is not just one, or it is none of the method's, RemoteProtocolError for a broken one,
    MissingExtra where a program's own bytes cannot be read.
    """
    if len(call.requests) != 1:
        raise ValueError(f"{len(call.requests)} requests, and calls of ours have one")
    if call.form == FLATBUFFERS:
        return decode(method.request, call.requests[0])
    request_in = load("lucky_transport_grpc.codec:request_in", owner="replay", extra="grpc")
    return request_in(BY_NAME[method.name], call.requests[0])


def is_lost(outcome: CallOutcome) -> bool:
    """True where no connection stood, or it broke."""
    return outcome.is_local and outcome.code == "UNAVAILABLE"


def broken(first: CallOutcome, second: CallOutcome) -> Difference | None:
    """Return the difference of a connection that was lost in the second of two answers alone."""
    if is_lost(first) or not is_lost(second):
        return None
    return Difference("code", "code", first.code, f"{second.code}: {second.details}")


def compared(
    number: int, call: ReplayCall, first: CallOutcome, second: CallOutcome, rules: ComparisonRules
) -> Evidence:
    """Return what two answers show to a call that is the recording's entry of that number, from 1."""
    if call.recorded.form == PROTOBUF and call.method.name in OWN:  # typed calls see none of them
        first, second = (replace(one, headers=(), trailing=()) for one in (first, second))
    options = CallOptions(without=call.without, answered=call.recorded.code, channel=call.recorded.channel)
    name, decision = call.method.name, Decision(first.transport, second.transport)
    comparison = Comparison(name, decision, first, second, call.request, ended_early=call.is_cut, options=options)
    evidence = compare(comparison, rules, kind="replay", method=call.method)
    evidence = replace(evidence, at=moment(time.time()), left_out={**evidence.left_out, **call.left_out})
    if found := broken(first, second):
        evidence = differing_at(found, replace(evidence, why=""))
    elif call.is_cut and evidence.verdict not in (DIFFERENT, FAILED):
        evidence = _with_end(evidence, call.cancel_after or 0, first, second)
    if evidence.verdict not in (DIFFERENT, FAILED):
        return evidence
    return replace(evidence, where=f"call {number}: {evidence.where}", values={**evidence.values, "request": call.text})


def _with_end(evidence: Evidence, wanted: int, *sides: CallOutcome) -> Evidence:
    """Return evidence of a call that is cancelled after so many responses: one that ends with fewer is different."""
    short = [len(one.items) < wanted for one in sides]
    if not any(short) or all(short):
        return evidence
    left, right = (
        f"{len(one.items)} items, then {one.code if is_short else 'cancelled'}"
        for one, is_short in zip(sides, short, strict=True)
    )
    return differing_at(Difference("count", "items", left, right), replace(evidence, why=""))


def requests_of(recording: Recording, given: Metadata = ()) -> RecordedRequests:
    """Return the requests of all calls of services that are not LuckyEngine's, for another comparison than with what
    was answered then. given: metadata that they are made with.

    Raises ConfigError for a damaged recording.
    """
    found, described = list[RecordedRequest](), dict[bytes, None]()
    skipped, methods = Counter[str](), RecordedMethods()
    for entry in recording.entries():
        if not isinstance(entry, RecordedCall) or entry.call in OWN:
            continue
        if entry.described:
            described[entry.described] = None
        call = ReplayCall.of(replace(entry, moved=False), methods.find(entry), given=given)
        if call.why_not or call.cancel_after_s is not None:
            skipped[call.why_not or "it was left before an item came"] += 1
            continue
        made = ServiceCall((), call.metadata, call.cancel_after, timeout_s=entry.timeout_s, channel=entry.channel)
        made = replace(made, without=call.without, answered=entry.code)
        found.append(RecordedRequest(entry.call, entry.requests, made))
    left = {plural(count, "recorded call"): why for why, count in skipped.items()}
    if recording.torn:
        left["the end of the recording"] = recording.torn
    return RecordedRequests(str(recording.path), found, list(described), left)
