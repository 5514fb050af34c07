"""How a recorded call is made again, of LuckyEngine's or any service, and how two answers to it are compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from lucky_transport_migration.evidence.service_caller import CANCELLED
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.call_answers import PATIENCE_S
from lucky_transport_migration.parity.recorded_requests import RecordedRequest, RecordedRequests
from lucky_transport_migration.parity.service_call import ServiceCall
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
class Asking:
    """How a call is made again. why_not: it is not, and why. was: what came of it; request: its message, or the bytes
    of all of them where it is none of LuckyEngine's.

    cancel_after, cancel_after_s: as in `ServiceCaller.ask`. is_cut: only what both sent is compared. without: metadata
    that it had, and that the recording holds no value of. left_out: what else is not compared, and why.
    """

    call: RecordedCall
    method: ServiceMethod
    was: CallOutcome
    request: Any = None
    why_not: str = ""
    timeout_s: float = PATIENCE_S
    metadata: Metadata = ()
    cancel_after: int | None = None
    cancel_after_s: float | None = None
    is_cut: bool = False
    without: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, call: RecordedCall, method: ServiceMethod | None, transport: str = "", given: Metadata = ()) -> Asking:
        """Return how a recorded call is made again; transport: who answered, where its entry does not say. given:
        metadata that every call is made with.

        Raises ConfigError for one that is damaged.
        """
        side = CallOutcome(call.transport or transport, call.items, call.code, took_us=call.us, is_local=call.local)
        why = _UNSAID if method is None else _MOVED if call.moved else ""
        if not why and call.unfinished and not call.items:
            why = NOT_ENDED
        if method is None or why:
            return cls(call, method or ServiceMethod(call.call, Effect.WORLD, why), side, why_not=why)
        left_out = {NOT_ENDED: "the recording has what came until then"} if call.unfinished else {}
        if method.name in OWN:
            try:
                was, request = _outcome_of(call, method, transport), _request_of(call, method)
            except (ValueError, RemoteProtocolError, MissingExtra) as error:
                if call.form != PROTOBUF:  # a message of ours can be read, unless the recording is damaged
                    raise ConfigError(f"{call.call}: {error}") from error
                return cls(call, method, side, why_not=str(error))
            is_cut = method.stream is not None and bool(call.left or call.more or call.local)
            left = len(call.items) if is_cut else None
            return cls(call, method, was, request, cancel_after=left, is_cut=is_cut, left_out=left_out)
        if not method.requests_stream and len(call.requests) != 1:
            raise ConfigError(f"{call.call}: {len(call.requests)} requests, and it takes one")
        is_left = call.left or (call.more > 0 and not call.rest)
        masked = tuple(dict.fromkeys(key for key, value in call.metadata if value == MASKED))
        if method.response is None:
            left_out[AS_BYTES] = _UNDESCRIBED
        return cls(
            call,
            method,
            _outcome_of(call, method, transport),
            list(call.requests),
            timeout_s=PATIENCE_S if call.timeout_s is None else call.timeout_s,
            metadata=tuple((key, value) for key, value in call.metadata if key not in masked),
            cancel_after=len(call.items) if is_left and call.items else None,
            cancel_after_s=call.us / 1e6 if is_left and not call.items else None,
            is_cut=is_left,
            without=tuple(key for key in masked if key not in dict(given)),
            left_out=left_out,
        )

    def incomparable(self, *answers: CallOutcome) -> str:
        """Return why the answers show nothing, "" when they do."""
        if self.cancel_after_s is not None and any(one.code != CANCELLED for one in answers):
            return f"it was cancelled after {self.cancel_after_s:.3f} s without an answer, and had one by then now"
        if self.method.stream is None and self.call.more:
            return "its recorded response was none that a wire could carry"
        return self.why_not

    @property
    def text(self) -> str:
        """What is asked, as one line for people."""
        from google.protobuf.message import DecodeError

        if not isinstance(self.request, list):
            return short(str(self.request))
        try:
            return ServiceCall(tuple(map(self.method.request.FromString, self.call.requests))).text
        except (AttributeError, DecodeError):  # nothing describes it
            return short(", ".join(one.hex() for one in self.call.requests))


def _outcome_of(call: RecordedCall, method: ServiceMethod, transport: str = "") -> CallOutcome:
    """Return what came of a call, items as `compare` takes them. Raises RemoteProtocolError for one that is none."""
    items: Any = call.items
    if call.form == FLATBUFFERS:
        items = [decode(method.response, item) for item in items]
    end = call.code, call.details, call.headers, call.trailing
    name = call.transport or transport
    return CallOutcome(name, items, *end, call.us, call.dropped, call.more, call.rest, call.local)


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


def compared(number: int, how: Asking, first: CallOutcome, second: CallOutcome, rules: ComparisonRules) -> Evidence:
    """Return what two answers show to a call that is the recording's entry of that number, from 1."""
    if how.call.form == PROTOBUF and how.method.name in OWN:  # typed calls see none of them
        first, second = (replace(one, headers=(), trailing=()) for one in (first, second))
    decision = Decision(first.transport, second.transport)
    options = CallOptions(without=how.without, answered=how.call.code, channel=how.call.channel)
    comparison = Comparison(
        how.method.name, decision, first, second, how.request, ended_early=how.is_cut, options=options
    )
    evidence = compare(comparison, rules, kind="replay", method=how.method)
    evidence = replace(evidence, at=moment(time.time()), left_out={**evidence.left_out, **how.left_out})
    if found := broken(first, second):
        evidence = differing_at(found, replace(evidence, why=""))
    elif how.is_cut and evidence.verdict not in (DIFFERENT, FAILED):
        evidence = _with_end(evidence, how.cancel_after or 0, first, second)
    if evidence.verdict not in (DIFFERENT, FAILED):
        return evidence
    return replace(evidence, where=f"call {number}: {evidence.where}", values={**evidence.values, "request": how.text})


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
        how = Asking.of(replace(entry, moved=False), methods.find(entry), given=given)
        if how.why_not or how.cancel_after_s is not None:
            skipped[how.why_not or "it was left before an item came"] += 1
            continue
        made = ServiceCall((), how.metadata, how.cancel_after, timeout_s=entry.timeout_s, channel=entry.channel)
        made = replace(made, without=how.without, answered=entry.code)
        found.append(RecordedRequest(entry.call, entry.requests, made))
    left = {plural(count, "recorded call"): why for why, count in skipped.items()}
    if recording.torn:
        left["the end of the recording"] = recording.torn
    return RecordedRequests(str(recording.path), found, list(described), left)
