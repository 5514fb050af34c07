"""The switch without a launcher and without PYTHONPATH: what `import lucky_transport.auto` does, and for a while.

Importing this imports grpc; where it is not installed, there is nothing to switch.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

_EARLY = "grpc" in sys.modules

import grpc  # noqa: E402 - after the look
from grpc._cython import cygrpc  # noqa: E402

from lucky_transport.call_counts import CallCounters, Calls, new_folder  # noqa: E402
from lucky_transport.config import Launch, Settings, environment, export, load_launch, load_settings  # noqa: E402
from lucky_transport_stubs.run.activation import activate, variables  # noqa: E402
from lucky_transport_stubs.run.notice import say  # noqa: E402
from lucky_transport_stubs.run.patches import patched  # noqa: E402
from lucky_transport_stubs.run.report import conclude_here  # noqa: E402
from lucky_transport_stubs.run.switch import Switch, target_map  # noqa: E402


def activate_here() -> None:
    """Switch this process and those it starts from now on. Raises ConfigError when the settings do not say where."""
    settings, launch = load_settings(), load_launch()
    target_map(settings)
    if not launch.parent:
        launch = _lead(launch)
    export(variables(settings, launch))
    activate(grpc)
    if _EARLY and not launch.quiet:
        say("grpc was imported before lucky_transport.auto: what was taken from it by name stays as it is")


def switch_here(settings: Settings, folder: Path) -> Callable[[], AbstractContextManager[None]]:
    """Return what switches this process for a while, as often as it is called, with the processes that it starts then.

    Calls are counted in `folder`. Raises ConfigError where the settings do not say where; what it returns raises it
    where this process is switched already.
    """
    switch, counters = Switch(settings, quiet=True), CallCounters(folder, say)
    launch = Launch(str(folder), str(os.getppid()), quiet=True)

    @contextmanager
    def switched() -> Generator[None]:
        changed, before = variables(settings, launch), environment()
        with patched(grpc, switch, counters):
            export(changed)
            try:
                yield
            finally:
                export({name: before.get(name) for name in changed})

    return switched


def calls_on_grpc() -> Iterator[Calls]:
    """Yield the calls of each open channel of gRPC's own in this process, whenever it was made, as channelz counts."""
    start = 0
    while found := json.loads(cygrpc.channelz_get_top_channels(start)).get("channel"):
        for one in found:
            data, start = one["data"], int(one["ref"]["channelId"]) + 1
            target, count = data["target"].removeprefix("dns:///"), int(data.get("callsStarted", 0))
            yield Calls(target, "", "the channel was made before the switch", f"channel {start}", count, "channel")


def _lead(launch: Launch) -> Launch:
    """Report for this process and its children at its end, as the bootstrap does where it is on PYTHONPATH."""
    folder = "" if launch.quiet else str(new_folder())
    if folder:
        Path(folder, f"{os.getpid()}.reached").touch()
        atexit.register(_report, folder, os.getpid())
    return Launch(folder, str(os.getppid()), launch.quiet, launch.report)


def _report(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # not in a forked child that ends as a program does
        conclude_here(folder)
