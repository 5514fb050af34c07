"""Recorded calls of services that are not LuckyEngine's, made again at a server of their own.

The recording describes them, so the program that made them is not needed. Requests of a stream are sent without waiting
for answers in between. Metadata and the deadline of a request are not in a recording.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from lucky_transport.errors import ConfigError
from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.call_comparison import compare
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, NOT_ENDED, Evidence, SideResult
from lucky_transport_migration.evidence.service_caller import ServiceCaller
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.call_answers import PATIENCE_S
from lucky_transport_migration.parity.recorded_requests import RecordedRequest, RecordedRequests
from lucky_transport_migration.recording.entries import RecordedCall, Step
from lucky_transport_migration.recording.reading import Recording

__all__ = ["ServiceReplay", "is_foreign", "is_only_foreign", "requests_of"]

_LOST = "UNAVAILABLE"
_OUT_OF_TIME = ("DEADLINE_EXCEEDED", "CANCELLED")
_SHOWN = 200  # characters of a request


def is_foreign(entry: RecordedCall | Step) -> bool:
    """True for a call of a service that is not LuckyEngine's."""
    return isinstance(entry, RecordedCall) and entry.call not in OWN


def is_only_foreign(recording: Recording) -> bool:
    """True when there are calls, all of services that are not LuckyEngine's: no engine is needed."""
    entry = None
    for entry in recording.entries():
        if not is_foreign(entry):
            return False
    return entry is not None


def requests_of(recording: Recording) -> RecordedRequests:
    """Return the requests of all calls of services that are not LuckyEngine's, for another comparison than with what
    was answered then.

    Raises ConfigError for a damaged recording.
    """
    found, described, left = list[RecordedRequest](), dict[bytes, None](), Counter[str]()
    for entry in recording.entries():
        if not isinstance(entry, RecordedCall) or not is_foreign(entry):
            continue
        if entry.described:
            described[entry.described] = None
        is_cut = entry.left or entry.more > 0 or entry.code in _OUT_OF_TIME
        if is_cut and not entry.items:
            left["it was left before an item came"] += 1
            continue
        found.append(RecordedRequest(entry.call, entry.requests, len(entry.items) if is_cut else None))
    if recording.torn:
        left[recording.torn] += 1
    return RecordedRequests(str(recording.path), found, list(described), left)


class ServiceReplay:
    """Makes calls at `endpoint`, grpc://host:port or shm://name. is_lost: the server does not answer any more."""

    def __init__(self, endpoint: str, rules: ComparisonRules) -> None:
        self.is_lost = False
        self._endpoint = endpoint
        self._rules = rules
        self._caller: ServiceCaller | None = None
        self._methods: dict[str, ServiceMethod] = {}

    def close(self) -> None:
        """End the connection. Idempotent."""
        if self._caller is not None:
            self._caller.__exit__(None, None, None)
            self._caller = None

    def call(self, number: int, call: RecordedCall) -> Evidence:
        """Return what a recorded call shows, the recording's entry of that number, from 1.

        Raises ConfigError for a description or a request that is none, and for an endpoint that has no such calls.
        """
        method = self._method(call)
        if method is None:
            return _not_compared(call, "nothing in the recording describes its service")
        if call.moved:
            return _not_compared(call, "the world moved while the stream ran, so its items hang on the clock")
        if not method.requests_stream and len(call.requests) != 1:
            raise ConfigError(f"{call.call}: {len(call.requests)} requests, and it takes one")
        if call.unfinished and not call.items:
            return _not_compared(call, NOT_ENDED)
        is_late = call.code in _OUT_OF_TIME
        is_cut = method.stream is not None and bool(call.left or call.more or is_late)
        if is_cut and not call.items:
            return _not_compared(call, "it was left before an item came")
        now = self._ask(call, method, len(call.items) if is_cut else None)
        if is_late and not is_cut and now.code != call.code:
            return _not_compared(call, f"it ended with {call.code}, and a recording holds no deadline")
        was = CallOutcome(
            call.transport, call.items, call.code, call.details, call.headers, call.trailing, call.us, call.dropped
        )
        self.is_lost = now.code == _LOST != was.code
        decision = Decision(was.transport, now.transport)
        comparison = Comparison(call.call, decision, was, now, list(call.requests), ended_early=is_cut)
        evidence = compare(comparison, self._rules, kind="replay", method=method)
        evidence = replace(evidence, at=moment(time.time()))
        if call.unfinished:
            evidence = replace(evidence, left_out=(*evidence.left_out, NOT_ENDED))
        if self.is_lost:
            values = {was.transport or "recorded": was.code, "replay": f"{now.code}: {now.details}"}
            evidence = replace(evidence, verdict=DIFFERENT, aspect="code", where="code", values=values)
        if evidence.verdict not in (DIFFERENT, FAILED):
            return evidence
        values = evidence.values | {"request": _text(method, call)}
        return replace(evidence, where=f"call {number}: {evidence.where}", values=values)

    def _method(self, call: RecordedCall) -> ServiceMethod | None:
        if call.described:
            try:
                found = methods_in(call.described, "the recording")
            except ValueError as error:
                raise ConfigError(f"{call.call}: {error}") from error
            self._methods |= {one.name: one for one in found}
        return self._methods.get(call.call)

    def _ask(self, call: RecordedCall, method: ServiceMethod, cancel_after: int | None) -> CallOutcome:
        if self._caller is None:
            self._caller = ServiceCaller(self._endpoint)
        return self._caller.ask(method, call.requests, timeout_s=PATIENCE_S, cancel_after=cancel_after)


def _not_compared(call: RecordedCall, why: str) -> Evidence:
    primary = SideResult(call.transport, call.code, call.us, len(call.items))
    return Evidence(call.call, "", primary, kind="replay", why=why, at=moment(time.time()))


def _text(method: ServiceMethod, call: RecordedCall) -> str:
    from google.protobuf.message import DecodeError
    from google.protobuf.text_format import MessageToString

    try:
        texts = [MessageToString(method.request.FromString(one), as_one_line=True) for one in call.requests]
    except DecodeError:
        texts = [one.hex() for one in call.requests]
    text = ", ".join(f"{{{one.strip()}}}" for one in texts)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
