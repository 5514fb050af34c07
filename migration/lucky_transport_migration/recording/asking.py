"""How a recorded call of a service that is not LuckyEngine's is made again, and how its answers are compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lucky_transport.call import Metadata
from lucky_transport.errors import ConfigError
from lucky_transport.messages.methods import Effect, Flow
from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.difference import Difference
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.compare.shown import short
from lucky_transport_migration.evidence.call_comparison import compare, differing_at
from lucky_transport_migration.evidence.outcome import CallOptions, CallOutcome, Comparison
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, NOT_ENDED, Evidence, SideResult
from lucky_transport_migration.evidence.service_caller import CANCELLED
from lucky_transport_migration.jsonl import moment
from lucky_transport_migration.parity.call_answers import PATIENCE_S
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.recording.entries import MASKED, RecordedCall

__all__ = ["AS_BYTES", "Asking", "RecordedMethods", "compared", "not_compared", "with_request"]

#: What of a call is left out where nothing describes its messages.
AS_BYTES = "fields of messages"


class RecordedMethods:
    """The methods that a recording knows so far: those that it describes, and those that it was told how to call."""

    def __init__(self) -> None:
        self._methods: dict[str, ServiceMethod] = {}

    def find(self, call: RecordedCall) -> ServiceMethod | None:
        """Return the method of a call, None where nothing says how it is called.

        Raises ConfigError for a description that is none.
        """
        if call.described:
            try:
                found = methods_in(call.described, "the recording")
            except ValueError as error:
                raise ConfigError(f"{call.call}: {error}") from error
            self._methods |= {one.name: one for one in found}
        if call.call not in self._methods and call.arity:
            self._methods[call.call] = ServiceMethod(
                call.call,
                Effect.WORLD,
                "nothing describes it",
                requests_stream=call.arity.startswith("stream"),
                stream=Flow.EVERY if call.arity.endswith("stream") else None,
            )
        return self._methods.get(call.call)


@dataclass(frozen=True, slots=True)
class Asking:
    """cancel_after, cancel_after_s: as in `ServiceCaller.ask`. is_cut: only what both sent is compared. without:
    metadata that it had, and that the recording holds no value of. left_out: what else is not compared, and why.
    """

    timeout_s: float
    metadata: Metadata
    cancel_after: int | None
    cancel_after_s: float | None
    is_cut: bool
    without: tuple[str, ...]
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, call: RecordedCall, method: ServiceMethod) -> Asking:
        """Return how a recorded call is made again."""
        is_left = call.left or (call.more > 0 and not call.rest)
        masked = tuple(dict.fromkeys(key for key, value in call.metadata if value == MASKED))
        left_out = {AS_BYTES: "nothing describes the service, so bytes are compared"} if method.response is None else {}
        if call.unfinished:
            left_out[NOT_ENDED] = "the recording has what came until then"
        return cls(
            PATIENCE_S if call.timeout_s is None else call.timeout_s,
            tuple((key, value) for key, value in call.metadata if key not in masked),
            len(call.items) if is_left and call.items else None,
            call.us / 1e6 if is_left and not call.items else None,
            is_left,
            masked,
            left_out,
        )

    def incomparable(self, now: CallOutcome) -> str:
        """Return why the answer shows nothing, "" when it does."""
        if self.cancel_after_s is not None and now.code != CANCELLED:
            return f"it was cancelled after {self.cancel_after_s:.3f} s without an answer, and had one by then now"
        return ""


def compared(
    number: int,
    call: RecordedCall,
    method: ServiceMethod,
    how: Asking,
    first: CallOutcome,
    second: CallOutcome,
    rules: ComparisonRules,
) -> Evidence:
    """Return what two answers to a recorded call show, the recording's entry of that number."""
    decision = Decision(first.transport, second.transport)
    options = CallOptions(without=how.without, answered=call.code)
    comparison = Comparison(
        call.call, decision, first, second, list(call.requests), ended_early=how.is_cut, options=options
    )
    evidence = compare(comparison, rules, kind="replay", method=method)
    evidence = replace(evidence, at=moment(time.time()), left_out={**evidence.left_out, **how.left_out})
    if how.is_cut and evidence.verdict not in (DIFFERENT, FAILED):
        evidence = _with_end(evidence, how, first, second)
    return with_request(number, call, method, evidence)


def _with_end(evidence: Evidence, how: Asking, *sides: CallOutcome) -> Evidence:
    """Return evidence of a call that is cancelled after so many responses: one that ends with fewer is different."""
    wanted = how.cancel_after or 0
    short = [len(one.items) < wanted for one in sides]
    if not any(short) or all(short):
        return evidence
    left, right = (
        f"{len(one.items)} items, then {one.code if is_short else 'cancelled'}"
        for one, is_short in zip(sides, short, strict=True)
    )
    return differing_at(Difference("count", "items", left, right), replace(evidence, why=""))


def not_compared(call: RecordedCall, why: str, transport: str = "") -> Evidence:
    """Return evidence of a call that was not compared; transport: where its entry does not say."""
    side = SideResult(call.transport or transport, call.code, call.us, len(call.items), call.local)
    return Evidence(call.call, "", side, kind="replay", why=why, at=moment(time.time()))


def with_request(number: int, call: RecordedCall, method: ServiceMethod, evidence: Evidence) -> Evidence:
    """Return evidence of a difference that names the call and what was asked."""
    if evidence.verdict not in (DIFFERENT, FAILED):
        return evidence
    values = evidence.values | {"request": _text(method, call.requests)}
    return replace(evidence, where=f"call {number}: {evidence.where}", values=values)


def _text(method: ServiceMethod, requests: Sequence[bytes]) -> str:
    from google.protobuf.message import DecodeError

    try:
        return ServiceCall(tuple(method.request.FromString(one) for one in requests)).text
    except (AttributeError, DecodeError):  # nothing describes it
        return short(", ".join(one.hex() for one in requests))
