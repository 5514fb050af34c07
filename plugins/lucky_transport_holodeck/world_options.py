"""The options of an endpoint at which a Holodeck engine is.

    holodeck://UUID?scenario=FILE                       attach to it
    holodeck://?scenario=FILE&binary=FILE               start it, under a uuid of its own

An unknown option is refused: a typing error would otherwise have no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError
from lucky_transport_holodeck.scenario import Scenario, load_scenario

__all__ = ["WorldOptions"]

_NUMBERS = {"pre_start_steps": 0, "ticks_per_step": 1, "ticks_per_second": 1}


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """`scenario`, `binary`: files, "" for none. pre_start_steps: ticks in which a world settles after a reset.

    ticks_per_step: ticks that one step lasts. ticks_per_second: of simulated time; it is passed to an engine we start.
    """

    scenario: str = ""
    binary: str = ""
    pre_start_steps: int = 2
    ticks_per_step: int = 1
    ticks_per_second: int = 30

    @classmethod
    def of(cls, endpoint: Endpoint) -> WorldOptions:
        """Return the options of `endpoint`; raises ConfigError for one that there is not, or a number that is none."""
        values: dict[str, str | int] = {}
        for key, text in endpoint.options:
            if key in _NUMBERS:
                if not text.isdecimal() or int(text) < _NUMBERS[key]:
                    raise _wrong(endpoint, f"{key}={text!r}", f"a whole number of at least {_NUMBERS[key]}")
                values[key] = int(text)
            elif key in ("scenario", "binary"):
                values[key] = text
            else:
                raise _wrong(endpoint, f"option {key!r}", f"one of scenario, binary, {', '.join(_NUMBERS)}")
        return cls(**values)  # pyright: ignore[reportArgumentType] - each was read as its field wants it

    def load(self) -> Scenario:
        """Return the scenario; raises ConfigError when none was given, or it cannot be read."""
        if not self.scenario:
            raise ConfigError(
                "a Holodeck engine does not describe what it offers, so it needs a scenario",
                backend="holodeck",
                hint="write holodeck://UUID?scenario=FILE.json, in the form of Holodeck's own scenario files; "
                "connect to an engine of ours at shm://",
            )
        return load_scenario(Path(self.scenario))


def _wrong(endpoint: Endpoint, what: str, expected: str) -> ConfigError:
    return ConfigError(f"endpoint {endpoint}: {what}", backend="holodeck", hint=f"expected {expected}")
