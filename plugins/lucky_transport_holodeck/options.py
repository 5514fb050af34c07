"""The options of an endpoint at which a Holodeck engine is.

    holodeck://UUID?scenario=FILE                       attach to it
    holodeck://?scenario=FILE&binary=FILE               start it, under a uuid of its own

An unknown option is refused: a typing error would otherwise have no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, read_options, whole
from lucky_transport.errors import ConfigError
from lucky_transport_holodeck.scenario import Scenario, load_scenario

_OPTIONS = {
    "scenario": EndpointOption(str, "a file"),
    "binary": EndpointOption(str, "a file"),
    "pre_start_steps": EndpointOption(whole(), "a whole number of at least 0"),
    "ticks_per_step": EndpointOption(whole(1), "a whole number of at least 1"),
    "ticks_per_second": EndpointOption(whole(1), "a whole number of at least 1"),
}


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """`scenario`, `binary`: files, "" for none. pre_start_steps: ticks in which a world settles after a reset.

    ticks_per_step: ticks that one step lasts. ticks_per_second: of simulated time, instead of the scenario's.
    """

    scenario: str = ""
    binary: str = ""
    pre_start_steps: int = 2
    ticks_per_step: int = 1
    ticks_per_second: int | None = None

    @classmethod
    def of(cls, endpoint: Endpoint) -> WorldOptions:
        """Return the options of `endpoint`; raises ConfigError for one that there is not, or a number that is none."""
        return cls(**read_options(endpoint, _OPTIONS, backend="holodeck"))

    def load(self) -> Scenario:
        """Return the scenario; raises ConfigError when none was given, or it cannot be read."""
        if not self.scenario:
            raise ConfigError(
                "a Holodeck engine does not describe what it offers, so it needs a scenario",
                backend="holodeck",
                hint="write holodeck://UUID?scenario=FILE.json, in the form of Holodeck's own scenario files; "
                "connect to an engine of ours at shm://",
            )
        return load_scenario(Path(self.scenario), self.ticks_per_second)
