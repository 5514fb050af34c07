"""What a pytest session with `--lucky-between` keeps: the transports, the rules, recordings and the count of it all.

A test's counts travel in its report, so that the summary is the same with worker processes. A recording is dropped
as soon as every transport has run the test.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.side_by_side.comparison_counts import ComparisonCounts
from lucky_transport_migration.side_by_side.engines import Engines
from lucky_transport_migration.side_by_side.mismatch import Mismatch
from lucky_transport_migration.side_by_side.tee_transport import SideBySideTransport
from lucky_transport_migration.side_by_side.transcript import Transcript, first_between

__all__ = ["SideBySideRun"]

#: How a test is called without the name of its transport: its place, and its other parameters.
Key = tuple[Any, ...]


class SideBySideRun:
    """`between` are the paths compared, the baseline first."""

    def __init__(self, between: Sequence[str]) -> None:
        self.between = tuple(between)
        self.rules = ComparisonRules.load()
        self._recordings: dict[Key, dict[str, Transcript]] = {}

    @contextmanager
    def side_by_side(
        self, engines: Engines, counts: ComparisonCounts, between: Sequence[str] = (), **env: Any
    ) -> Generator[VectorEnv]:
        """Yield one env that steps an engine per transport and compares after each move.

        Raises Mismatch at the first difference, also where the test swallowed it.
        """
        with ExitStack() as stack:
            members = {name: engines.open(name, stack) for name in between or self.between}
            tee = SideBySideTransport(members, self.rules, counts)
            made = stack.enter_context(VectorEnv(tee, **env))
            yield made
            if tee.mismatch is not None:
                raise tee.mismatch

    @contextmanager
    def recorded(self, engines: Engines, key: Key, name: str, **env: Any) -> Generator[VectorEnv]:
        """Yield the env of one run of a test, over the path `name`; what it does is kept for `check`."""
        with ExitStack() as stack:
            recording = self._recordings.setdefault(key, {})[name] = Transcript(name)
            transport = recording.over(engines.open(name, stack))
            yield stack.enter_context(VectorEnv(transport, **env))

    def forget(self, key: Key, name: str) -> None:
        """Drop a run that failed by itself: it is no baseline."""
        self._recordings.get(key, {}).pop(name, None)

    def check(self, key: Key, name: str, counts: ComparisonCounts) -> Mismatch | None:
        """Return where the run over `name`, which is over, differs from the first transport's; None if nowhere."""
        runs: Mapping[str, Transcript] = self._recordings.get(key, {})
        baseline = self.between[0]
        if name == baseline or name not in runs:
            return None
        if baseline not in runs:
            counts.leave_out(f"runs over {name}", f"no run over {baseline} to compare with in this process")
            return None
        found = first_between(runs[baseline], runs[name], self.rules, counts)
        if len(runs) == len(self.between):
            del self._recordings[key]
        if found is None:
            return None
        counts.differ(found)
        return Mismatch(found, counts)
