"""The service config of a channel: timeouts, `waitForReady` and retry policies of its methods, out of gRPC's JSON.

It is validated as gRPC validates it, in gRPC's words: https://github.com/grpc/grpc/blob/master/doc/service_config.md
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
_DURATION = re.compile(r"\s*\+?(\d+)(?:\.(\d+))?\s*", re.ASCII)
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
        config = parse_json(
            text, object_pairs_hook=_object, parse_int=_Number, parse_float=_Number, parse_constant=_constant
        )
    except ValueError as error:
        at = f"index {error.pos}" if isinstance(error, json.JSONDecodeError) else str(error)
        return ServiceConfig({}, _refusal(target, f"JSON parsing failed: [JSON parse error at {at}]"))
    loader = _Loader()
    methods = loader.service_config(config, retry_buffer_bytes(options), enables_retries(options))
    if loader.errors:
        return ServiceConfig({}, _refusal(target, f"errors validating service config: [{loader.text()}]"))
    log_unsupported(loader.seen)
    return ServiceConfig(methods)


def _refusal(target: object, why: str) -> CallStatus:
    return CallStatus(Code.INVALID_ARGUMENT, f"Failed to create channel to '{target}':{why}")


class _Number(str):
    """A JSON number as it is written; a string may stand where a number is expected, but not the other way round."""

    __slots__ = ()


def _constant(name: str) -> Any:
    raise ValueError(name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(name for name in names if names.count(name) > 1)!r}")
    return found


class _Loader:
    """Reads a service config and notes what is wrong with it, by field. seen: the names of all fields."""

    def __init__(self) -> None:
        self.errors: dict[str, list[str]] = {}
        self.seen: dict[str, None] = {}
        self._path = ""

    def text(self) -> str:
        """Return the errors in one line, as gRPC writes them."""
        fields = sorted(self.errors.items())
        return "; ".join(
            f"field:{field.lstrip('.')} " + (f"error:{said[0]}" if len(said) == 1 else f"errors:[{'; '.join(said)}]")
            for field, said in fields
        )

    def service_config(self, config: Any, buffer_bytes: int, is_retrying: bool) -> dict[str, MethodConfig]:
        fields = self._fields(config)
        throttle = self._optional(fields, "retryThrottling", self._throttle)
        methods: dict[str, MethodConfig] = {}
        with self._at(".methodConfig"):
            entries = self._array(fields.get("methodConfig", []))
        for number, entry in enumerate(entries):
            with self._at(f".methodConfig[{number}]"):
                said = self._fields(entry)
                found = MethodConfig(
                    self._optional(said, "timeout", self._duration),
                    self._optional(said, "waitForReady", self._boolean),
                    self._optional(said, "retryPolicy", self._retry_policy),
                    throttle,
                    buffer_bytes,
                )
                if not is_retrying:
                    found = MethodConfig(found.timeout_s, found.wait_for_ready)
                self._name(said, found, methods)
        return methods

    # -- the parts of a config ----------------------------------------------------------------------------------------

    def _name(self, said: dict[str, Any], config: MethodConfig, methods: dict[str, MethodConfig]) -> None:
        """Enter the config under each of its names."""
        for number, name in enumerate(self._optional(said, "name", self._array) or ()):
            with self._at(f".name[{number}]"):
                fields = self._fields(name)
                service = self._optional(fields, "service", self._string)
                method = self._optional(fields, "method", self._string)
                if service is None and method is not None:
                    self._wrong("method name populated without service name")
                path = f"/{service}/{method or ''}" if service else ""
                if path in methods:
                    same = f"multiple method configs for path {path}" if path else "duplicate default method config"
                    self._wrong(same)
                methods[path] = config

    def _retry_policy(self, value: Any) -> RetryPolicy | None:
        fields = self._fields(value)
        if not isinstance(value, dict):
            return None
        attempts = self._required(fields, "maxAttempts", self._integer)
        if attempts is not None and attempts < 2:
            self._wrong("must be at least 2", ".maxAttempts")
        elif attempts is not None and attempts > _MOST_ATTEMPTS:
            _log.warning("service config: clamped retryPolicy.maxAttempts at %d", _MOST_ATTEMPTS)
        initial = self._positive(fields, "initialBackoff", self._duration)
        longest = self._positive(fields, "maxBackoff", self._duration)
        multiplier = self._positive(fields, "backoffMultiplier", self._float)
        codes = self._codes(fields)
        if attempts is None or initial is None or longest is None or multiplier is None:
            return None
        return RetryPolicy(min(attempts, _MOST_ATTEMPTS), initial, longest, multiplier, codes)

    def _codes(self, fields: dict[str, Any]) -> frozenset[Any]:
        """Return the codes whose attempts are followed by another one."""
        named: list[Any] = []
        with self._at(".retryableStatusCodes"):
            if "retryableStatusCodes" in fields:
                named = self._array(fields["retryableStatusCodes"])
        texts = [self._item(f".retryableStatusCodes[{number}]", name) for number, name in enumerate(named)]
        found = frozenset(Code[name] for name in texts if name is not None and name in Code.__members__)
        if all(text is not None for text in texts):  # gRPC looks at what they name once all of them are texts
            for number, name in enumerate(texts):
                if name not in Code.__members__:
                    self._wrong("failed to parse status code", f".retryableStatusCodes[{number}]")
        else:
            found = frozenset[Any]()
        if not found and self._path + ".retryableStatusCodes" not in self.errors:
            self._wrong("must be non-empty", ".retryableStatusCodes")
        return found

    def _item(self, place: str, value: Any) -> str | None:
        with self._at(place):
            return self._string(value)

    def _throttle(self, value: Any) -> RetryThrottle | None:
        fields = self._fields(value)
        if not isinstance(value, dict):
            return None
        most = self._positive(fields, "maxTokens", self._integer)
        ratio = self._positive(fields, "tokenRatio", self._ratio)
        return None if most is None or ratio is None else RetryThrottle(most * 1000, ratio)

    # -- values -------------------------------------------------------------------------------------------------------

    def _integer(self, value: Any) -> int | None:
        text = self._number(value)
        if text is None:
            return None
        if not _INTEGER.fullmatch(text) or int(text) >= _UINT32:
            return self._wrong("failed to parse number")
        return int(text)

    def _float(self, value: Any) -> float | None:
        text = self._number(value)
        try:
            return None if text is None else float(text)
        except ValueError:
            return self._wrong("failed to parse floating-point number")

    def _ratio(self, value: Any) -> int | None:
        """Return thousandths; further digits are dropped, as in gRPC."""
        text = self._number(value)
        found = None if text is None else re.fullmatch(r"\s*\+?(\d+)(?:\.(\d+))?\s*", text, re.ASCII)
        if text is not None and found is None:
            return self._wrong("could not parse as a number")
        return None if found is None else int(found[1]) * 1000 + int((found[2] or "")[:3].ljust(3, "0"))

    def _duration(self, value: Any) -> float | None:
        text = self._string(value)
        if text is None:
            return None
        if not text.endswith("s"):
            return self._wrong("Not a duration (no s suffix)")
        found = _DURATION.fullmatch(text[:-1])
        if found is None:
            return self._wrong("Not a duration (not a number of seconds)")
        if len(found[2] or "") > 9:
            return self._wrong("Not a duration (too many digits after decimal)")
        if int(found[1]) > _LONGEST_S:
            return self._wrong(f"seconds must be in the range [0, {_LONGEST_S}]")
        return float(f"{found[1]}.{found[2] or 0}")

    def _number(self, value: Any) -> str | None:
        return value if isinstance(value, str) else self._wrong("is not a number")

    def _string(self, value: Any) -> str | None:
        is_text = isinstance(value, str) and not isinstance(value, _Number)
        return value if is_text else self._wrong("is not a string")

    def _boolean(self, value: Any) -> bool | None:
        return value if isinstance(value, bool) else self._wrong("is not a boolean")

    def _array(self, value: Any) -> list[Any]:
        if isinstance(value, list):
            return cast(list[Any], value)
        self._wrong("is not an array")
        return []

    def _fields(self, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            fields = cast(dict[str, Any], value)
            self.seen.update(dict.fromkeys(fields))
            return fields
        self._wrong("is not an object")
        return {}

    # -- fields -------------------------------------------------------------------------------------------------------

    def _optional(self, fields: dict[str, Any], name: str, load: Callable[[Any], Any]) -> Any:
        if fields.get(name) is None:
            return None
        with self._at(f".{name}"):
            return load(fields[name])

    def _required(self, fields: dict[str, Any], name: str, load: Callable[[Any], Any]) -> Any:
        if fields.get(name) is None:
            return self._wrong("field not present", f".{name}")
        return self._optional(fields, name, load)

    def _positive(self, fields: dict[str, Any], name: str, load: Callable[[Any], Any]) -> Any:
        found = self._required(fields, name, load)
        if found is not None and found <= 0:
            return self._wrong("must be greater than 0", f".{name}")
        return found

    @contextmanager
    def _at(self, place: str) -> Iterator[None]:
        outer, self._path = self._path, self._path + place
        try:
            yield
        finally:
            self._path = outer

    def _wrong(self, what: str, place: str = "") -> None:
        self.errors.setdefault(self._path + place, []).append(what)
