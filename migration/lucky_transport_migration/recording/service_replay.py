"""Recorded calls of services that are not LuckyEngine's, made again at a server of their own.

The recording describes them, so the program that made them is not needed; calls of a service that nothing describes are
compared as bytes. A call has the deadline and the metadata that it had, but for secrets, which are not recorded. One
that its caller left is cancelled after as many responses, or where none had come after as much time. Requests of a
stream are sent without waiting for answers in between.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lucky_transport.errors import ConfigError, plural
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CallOutcome
from lucky_transport_migration.evidence.record import DIFFERENT, NOT_ENDED, Evidence
from lucky_transport_migration.evidence.service_caller import ServiceCaller
from lucky_transport_migration.parity.recorded_requests import RecordedRequest, RecordedRequests
from lucky_transport_migration.recording.asking import Asking, RecordedMethods, compared, not_compared, with_request
from lucky_transport_migration.recording.calls import outcome_of
from lucky_transport_migration.recording.entries import RecordedCall, Step
from lucky_transport_migration.recording.reading import Recording

__all__ = ["ServiceReplay", "is_foreign", "is_only_foreign", "requests_of"]

_LOST = "UNAVAILABLE"
_UNSAID = "nothing in the recording says how it is called"


def is_foreign(entry: RecordedCall | Step) -> bool:
    """True for a call of a service that is not LuckyEngine's."""
    return isinstance(entry, RecordedCall) and entry.call not in OWN


def is_only_foreign(recording: Recording) -> bool:
    """True when all calls are of services that are not LuckyEngine's, or there are none: no engine is needed."""
    return all(map(is_foreign, recording.entries()))


def requests_of(recording: Recording) -> RecordedRequests:
    """Return the requests of all calls of services that are not LuckyEngine's, for another comparison than with what
    was answered then.

    Raises ConfigError for a damaged recording.
    """
    found, described = list[RecordedRequest](), dict[bytes, None]()
    skipped, left = Counter[str](), dict[str, str]()
    methods = RecordedMethods()
    for entry in recording.entries():
        if not isinstance(entry, RecordedCall) or not is_foreign(entry):
            continue
        if entry.described:
            described[entry.described] = None
        method = methods.find(entry)
        if method is None:
            skipped[_UNSAID] += 1
            continue
        how = Asking.of(entry, method)
        if not entry.items and (entry.unfinished or how.cancel_after_s is not None):
            skipped[NOT_ENDED if entry.unfinished else "it was left before an item came"] += 1
            continue
        sent = how.metadata, how.cancel_after, entry.timeout_s, how.without, entry.code
        found.append(RecordedRequest(entry.call, entry.requests, *sent))
    left |= {plural(count, "recorded call"): why for why, count in skipped.items()}
    if recording.torn:
        left["the end of the recording"] = recording.torn
    return RecordedRequests(str(recording.path), found, list(described), left)


class ServiceReplay:
    """Makes calls at `endpoint`, grpc://host:port or shm://name.

    is_lost: the server does not answer any more. outcome: what came of the last call, None where it was not made.
    """

    def __init__(self, endpoint: str, rules: ComparisonRules) -> None:
        self.is_lost = False
        self.outcome: CallOutcome | None = None
        self._endpoint = endpoint
        self._rules = rules
        self._caller: ServiceCaller | None = None
        self._methods = RecordedMethods()

    def close(self) -> None:
        """End the connection. Idempotent."""
        if self._caller is not None:
            self._caller.__exit__(None, None, None)
            self._caller = None

    def call(self, number: int, call: RecordedCall) -> Evidence:
        """Return what a recorded call shows, the recording's entry of that number, from 1.

        Raises ConfigError for a description or a request that is none, and for an endpoint that has no such calls.
        """
        self.outcome = None
        method = self._methods.find(call)
        if method is None:
            return not_compared(call, _UNSAID)
        if call.moved:
            return not_compared(call, "the world moved while the stream ran, so its items hang on the clock")
        if not method.requests_stream and len(call.requests) != 1:
            raise ConfigError(f"{call.call}: {len(call.requests)} requests, and it takes one")
        if call.unfinished and not call.items:
            return not_compared(call, NOT_ENDED)
        how = Asking.of(call, method)
        self.outcome = now = self._ask(call, method, how)
        self.is_lost = now.code == _LOST and now.is_local and not call.local
        if why := how.incomparable(now):
            return not_compared(call, why)
        was = outcome_of(call, method)
        evidence = compared(number, call, method, how, was, now, self._rules)
        if self.is_lost:
            values = {was.transport or "recorded": was.code, "replay": f"{now.code}: {now.details}"}
            evidence = replace(evidence, verdict=DIFFERENT, aspect="code", where="code", values=values)
            return with_request(number, call, method, evidence)
        return evidence

    def between(self, number: int, call: RecordedCall, first: CallOutcome, second: CallOutcome) -> Evidence:
        """Return what the answers to a call show that was made at two servers."""
        method = self._methods.find(call)
        assert method is not None  # it was made
        return compared(number, call, method, Asking.of(call, method), first, second, self._rules)

    def _ask(self, call: RecordedCall, method: ServiceMethod, how: Asking) -> CallOutcome:
        if self._caller is None:
            self._caller = ServiceCaller(self._endpoint)
        return self._caller.ask(
            method,
            call.requests,
            timeout_s=how.timeout_s,
            metadata=how.metadata,
            cancel_after=how.cancel_after,
            cancel_after_s=how.cancel_after_s,
        )
