"""Service configs that cases give to their channels."""

from __future__ import annotations

import json
from typing import Any

from .ends import SERVICE

#: Another attempt comes soon, for the one code that the handlers of cases fail with.
POLICY = {
    "maxAttempts": 3,
    "initialBackoff": "0.01s",
    "maxBackoff": "0.02s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
#: The next attempt does not come within a case.
SLOW = {**POLICY, "initialBackoff": "60s", "maxBackoff": "60s"}

#: What a server may ask for; the last three are no such text.
PUSHBACKS = ("1", "20", "+5", "-1", "1.5", "soon", "")

#: Configs that differ from a valid one in one place, by what is wrong.
WRONG: dict[str, Any] = {
    "no object": [],
    "no methods": {"methodConfig": {}},
    "no method": {"methodConfig": [3]},
    "a method without a service": {"methodConfig": [{"name": [{"method": "Method"}]}]},
    "a name twice": {
        "methodConfig": [{"name": [{"service": SERVICE}]}, {"name": [{"service": SERVICE, "method": ""}]}]
    },
    "two defaults": {"methodConfig": [{"name": [{}]}, {"name": [{"service": ""}]}]},
    "a timeout in numbers": {"methodConfig": [{"timeout": 5}]},
    "a timeout without its unit": {"methodConfig": [{"timeout": "5"}]},
    "a timeout of letters": {"methodConfig": [{"timeout": "as"}]},
    "a timeout too fine": {"methodConfig": [{"timeout": "1.1234567891s"}]},
    "a timeout too long": {"methodConfig": [{"timeout": "315576000001s"}]},
    "no boolean": {"methodConfig": [{"waitForReady": "true"}]},
    "no policy": {"methodConfig": [{"retryPolicy": "often"}]},
    "an empty policy": {"methodConfig": [{"retryPolicy": {}}]},
    "attempts that are no number": {"methodConfig": [{"retryPolicy": {**POLICY, "maxAttempts": []}}]},
    "one attempt": {"methodConfig": [{"retryPolicy": {**POLICY, "maxAttempts": 1}}]},
    "part of an attempt": {"methodConfig": [{"retryPolicy": {**POLICY, "maxAttempts": 2.5}}]},
    "no backoff": {"methodConfig": [{"retryPolicy": {**POLICY, "initialBackoff": "0s", "maxBackoff": "0s"}}]},
    "no growth": {"methodConfig": [{"retryPolicy": {**POLICY, "backoffMultiplier": 0}}]},
    "growth in letters": {"methodConfig": [{"retryPolicy": {**POLICY, "backoffMultiplier": "fast"}}]},
    "no codes": {"methodConfig": [{"retryPolicy": {**POLICY, "retryableStatusCodes": []}}]},
    "an unknown code": {"methodConfig": [{"retryPolicy": {**POLICY, "retryableStatusCodes": ["unavailable"]}}]},
    "a code in numbers": {"methodConfig": [{"retryPolicy": {**POLICY, "retryableStatusCodes": ["ABORTED", 14]}}]},
    "no ratio": {"retryThrottling": {"maxTokens": 10}},
    "no tokens": {"retryThrottling": {"maxTokens": 0, "tokenRatio": 0}},
    "a ratio of letters": {"retryThrottling": {"maxTokens": 10, "tokenRatio": "half"}},
}


def options(*methods: dict[str, Any], **fields: Any) -> tuple[tuple[str, Any], ...]:
    """Return the options of a channel with these method configs; one without a name is the default."""
    named = [{"name": [{}], **method} for method in methods]
    return (("grpc.service_config", json.dumps({"methodConfig": named, **fields})),)


def of_json(config: Any) -> tuple[tuple[str, Any], ...]:
    """Return the options of a channel with this config."""
    return (("grpc.service_config", json.dumps(config)),)
