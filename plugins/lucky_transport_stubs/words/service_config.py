"""The service config of a channel: timeouts, `waitForReady` and retry policies of its methods, out of gRPC's JSON.

What gRPC refuses is refused; the first field that is wrong is named: https://github.com/grpc/grpc/blob/master/doc/service_config.md
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from lucky_transport.nesting import parse_json
from lucky_transport_stubs.words.options import Options, enables_retries, log_unsupported, retry_buffer_bytes
from lucky_transport_stubs.words.retries import Retries, RetryPolicy, RetryThrottle
from lucky_transport_stubs.words.status import CallStatus, Code

_log = logging.getLogger("lucky_transport")

#: gRFC A6: "maxAttempts ... values greater than 5 are treated as 5".
_MOST_ATTEMPTS = 5
#: google.protobuf.Duration: 10,000 years.
_LONGEST_S = 315_576_000_000
_UINT32 = 2**32
_DECIMAL = re.compile(r"\s*\+?(\d+)(?:\.(\d+))?\s*", re.ASCII)
_INTEGER = re.compile(r"\s*\+?\d+\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class MethodConfig:
    """What holds for calls of a method. None: nothing is said. buffer_bytes: of requests kept for another attempt."""

    timeout_s: float | None = None
    wait_for_ready: bool | None = None
    retry_policy: RetryPolicy | None = None
    throttle: RetryThrottle | None = None
    buffer_bytes: int = 0

    def timeout(self, asked_s: float | None) -> float | None:
        """Return the shorter of the caller's timeout and the method's."""
        if self.timeout_s is None or asked_s is None:
            return self.timeout_s if asked_s is None else asked_s
        return min(self.timeout_s, asked_s)

    def waits_for_ready(self, asked: bool | None) -> bool | None:
        """Return what the caller asked for, and else what the method says."""
        return self.wait_for_ready if asked is None else asked

    def retries(self) -> Retries | None:
        """Return the attempts of a new call; None for one that has only one."""
        return None if self.retry_policy is None else Retries(self.retry_policy, self.throttle)


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """The configs of methods, by path; "/service/" for all of a service, "" for all others.

    refusal: how every call of the channel ends, when the config is invalid.
    """

    methods: dict[str, MethodConfig]
    refusal: CallStatus | None = None

    def method(self, path: str) -> MethodConfig | None:
        """Return the config of a method, given by its path; the most specific one counts alone."""
        service = path[: path.rfind("/") + 1]
        return self.methods.get(path) or self.methods.get(service) or self.methods.get("")


def load_service_config(text: str, options: Options, target: object) -> ServiceConfig:
    """Return the service config that the options of a channel to `target` give as this text.

    An invalid one is no error here: as in gRPC, it ends every call. What has no effect here is logged by name, once.
    """
    try:
        config = parse_json(text, object_pairs_hook=_object, parse_constant=_constant)
    except ValueError as error:
        at = f"index {error.pos}" if isinstance(error, json.JSONDecodeError) else str(error)
        return ServiceConfig({}, _refusal(target, f"JSON parsing failed: [JSON parse error at {at}]"))
    try:
        methods = _methods(config, retry_buffer_bytes(options), enables_retries(options))
    except _InvalidField as error:
        why = f"field:{error.path.lstrip('.')} error:{error}"
        return ServiceConfig({}, _refusal(target, f"errors validating service config: [{why}]"))
    log_unsupported((*config, *(name for entry in config.get("methodConfig", ()) for name in entry)))
    return ServiceConfig(methods)


def _refusal(target: object, why: str) -> CallStatus:
    return CallStatus(Code.INVALID_ARGUMENT, f"Failed to create channel to '{target}':{why}")


def _constant(name: str) -> Any:
    raise ValueError(name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(name for name in names if names.count(name) > 1)!r}")
    return found


class _InvalidField(Exception):
    """What is wrong with the field at `path`."""

    path = ""


@contextmanager
def _at(place: str) -> Iterator[None]:
    try:
        yield
    except _InvalidField as error:
        error.path = place + error.path
        raise


# -- the parts of a config --------------------------------------------------------------------------------------------


def _methods(config: Any, buffer_bytes: int, is_retrying: bool) -> dict[str, MethodConfig]:
    """Return the configs of methods by their paths. Raises _InvalidField."""
    throttle = _field(config, "retryThrottling", _throttle)
    methods: dict[str, MethodConfig] = {}
    for number, entry in enumerate(_field(config, "methodConfig", _array) or ()):
        with _at(f".methodConfig[{number}]"):
            timeout_s = _field(entry, "timeout", _duration)
            waits, policy = _field(entry, "waitForReady", _boolean), _field(entry, "retryPolicy", _retry_policy)
            found = MethodConfig(timeout_s, waits)
            if is_retrying:
                found = MethodConfig(timeout_s, waits, policy, throttle, buffer_bytes)
            for place, name in enumerate(_field(entry, "name", _array) or ()):
                with _at(f".name[{place}]"):
                    path = _path(name)
                    if path in methods:
                        raise _InvalidField(
                            f"multiple method configs for path {path}" if path else "duplicate default method config"
                        )
                    methods[path] = found
    return methods


def _path(name: Any) -> str:
    service, method = _field(name, "service", _string), _field(name, "method", _string)
    if service is None and method is not None:
        raise _InvalidField("method name populated without service name")
    return f"/{service}/{method or ''}" if service else ""


def _retry_policy(value: Any) -> RetryPolicy:
    attempts = _positive(value, "maxAttempts", _integer)
    if attempts < 2:
        with _at(".maxAttempts"):
            raise _InvalidField("must be at least 2")
    if attempts > _MOST_ATTEMPTS:
        _log.warning("service config: clamped retryPolicy.maxAttempts at %d", _MOST_ATTEMPTS)
    initial_s, longest_s = _positive(value, "initialBackoff", _duration), _positive(value, "maxBackoff", _duration)
    multiplier = _positive(value, "backoffMultiplier", _float)
    codes = _field(value, "retryableStatusCodes", _codes)
    if not codes:
        with _at(".retryableStatusCodes"):
            raise _InvalidField("must be non-empty")
    return RetryPolicy(min(attempts, _MOST_ATTEMPTS), initial_s, longest_s, multiplier, codes)


def _codes(value: Any) -> frozenset[Any]:
    """Return the codes whose attempts are followed by another one."""
    for number, name in enumerate(_array(value)):
        with _at(f"[{number}]"):
            if _string(name) not in Code.__members__:
                raise _InvalidField("failed to parse status code")
    return frozenset(Code[name] for name in value)


def _throttle(value: Any) -> RetryThrottle:
    return RetryThrottle(_positive(value, "maxTokens", _integer) * 1000, _positive(value, "tokenRatio", _thousandths))


# -- fields and values ------------------------------------------------------------------------------------------------


def _field(value: Any, name: str, load: Callable[[Any], Any]) -> Any:
    """Return a field of an object as `load` makes it, None where it is absent."""
    if not isinstance(value, dict):
        raise _InvalidField("is not an object")
    found = cast("dict[str, Any]", value).get(name)
    if found is None:
        return None
    with _at(f".{name}"):
        return load(found)


def _positive(value: Any, name: str, load: Callable[[Any], Any]) -> Any:
    found = _field(value, name, load)
    with _at(f".{name}"):
        if found is None:
            raise _InvalidField("field not present")
        if found <= 0:
            raise _InvalidField("must be greater than 0")
    return found


def _number(value: Any) -> str:
    """Return the text of a number; as in gRPC, a string may stand for one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _InvalidField("is not a number")
    return str(value)


def _integer(value: Any) -> int:
    text = _number(value)
    if not _INTEGER.fullmatch(text) or int(text) >= _UINT32:
        raise _InvalidField("failed to parse number")
    return int(text)


def _float(value: Any) -> float:
    try:
        return float(_number(value))
    except ValueError:
        raise _InvalidField("failed to parse floating-point number") from None


def _thousandths(value: Any) -> int:
    """Return a number in thousandths; further digits are dropped, as in gRPC."""
    found = _DECIMAL.fullmatch(_number(value))
    if found is None:
        raise _InvalidField("could not parse as a number")
    return int(found[1]) * 1000 + int((found[2] or "")[:3].ljust(3, "0"))


def _duration(value: Any) -> float:
    found = _DECIMAL.fullmatch(_string(value).removesuffix("s"))
    if found is None or not value.endswith("s") or len(found[2] or "") > 9 or int(found[1]) > _LONGEST_S:
        raise _InvalidField("Not a duration of seconds")
    return float(f"{found[1]}.{found[2] or 0}")


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _InvalidField("is not a string")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _InvalidField("is not a boolean")
    return value


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _InvalidField("is not an array")
    return cast("list[Any]", value)
