"""How an engine's runs go: set in the endpoint, or by the client with `set <name> <value>` for its next run.

    pipe://train?slots=4&stepping=independent&timeout_s=10

`SessionRules` names the options.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, number, one_of, read_options, whole
from lucky_transport_pipe.address import BACKEND


@dataclass(frozen=True, slots=True)
class SessionRules:
    """slots: sessions at once. barrier: they step together, else each for itself. timeout_s: how long a session waits
    for its next command.
    """

    slots: int = 16
    barrier: bool = True
    timeout_s: float = 60.0


def _is_barrier(text: str) -> bool:
    return one_of("barrier", "independent")(text) == "barrier"


_OPTIONS = {
    "slots": EndpointOption(whole(1), "a number of sessions from 1"),
    "stepping": EndpointOption(_is_barrier, "one of barrier, independent", "barrier"),
    "timeout_s": EndpointOption(number(sys.float_info.max, positive=True), "a number of seconds above 0"),
}


def changed(rules: SessionRules, name: str, value: str) -> SessionRules:
    """Return the rules with one changed. Raises ValueError for an unknown name or a value that does not fit."""
    option = _OPTIONS.get(name)
    if option is None:
        raise ValueError(f"there is no setting {name!r}, only {', '.join(_OPTIONS)}")
    try:
        return replace(rules, **{option.field or name: option.read(value)})
    except ValueError:
        raise ValueError(f"{value!r} is not {option.expected}") from None


def rules_of(endpoint: Endpoint, timeout_s: float) -> SessionRules:
    """Return the rules that an endpoint's options set, with `timeout_s` where they set none. Raises ConfigError."""
    return SessionRules(**{"timeout_s": timeout_s, **read_options(endpoint, _OPTIONS, backend=BACKEND)})
