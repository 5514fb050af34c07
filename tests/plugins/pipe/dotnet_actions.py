"""How long an action takes with a real .NET program at the other end: `python tests/plugins/pipe/dotnet_actions.py`.

It compiles `peer.cs` with Mono, plays one session after another, and prints the median time from a command to the state
or score that answers it, in microseconds.
"""

import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from lucky_transport.process import unique_name
from lucky_transport_pipe.experiment import Started, StateUpdate
from lucky_transport_pipe.instance import Instance

_SOURCE = Path(__file__).with_name("peer.cs")
_SESSIONS = 1000


def main() -> None:
    """Print the median."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "peer.exe"
        subprocess.run(["mcs", "-r:System.Core.dll", f"-out:{binary}", str(_SOURCE)], check=True, timeout=60)
        with Instance(unique_name(), ["mono", str(binary)]) as unity:
            took: list[float] = []
            for _ in range(_SESSIONS):
                took += play(unity)
    print(f"{np.median(took) * 1e6:.1f}")


def play(unity: Instance) -> list[float]:
    """Play one session; return the seconds that each of its actions took."""
    experiment = unity.experiment("add", [{"Goal": 0}])
    took: list[float] = []
    began = 0.0
    for event in experiment:
        if began and not isinstance(event, Started):
            took.append(time.perf_counter() - began)
        if isinstance(event, StateUpdate):
            experiment.command(event.session, {"Add": True})
            began = time.perf_counter()
    return took


if __name__ == "__main__":
    main()
