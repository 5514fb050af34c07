"""Seeds for a library that takes one as an option when an env is made; the interface itself has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lucky_transport.errors import SpecError
from lucky_transport.messages.methods import method

SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_LARGEST = np.iinfo(np.int32).max


class Seeds:
    """The options of each env of the library, with its seed among them.

    A seed that was set is used by the next reset, once. An env that is made again without a new one gets a seed that
    follows from the last one, so that it plays other episodes; without any seed it is made as before.
    """

    def __init__(self, option: str, options: Mapping[str, Any], num_envs: int, seed: int | None) -> None:
        """`option`: the name of the library's seed, "" for none.

        Raises SpecError for a seed where the library has none, and for one that is no int32 from 0.
        """
        self._option = option
        self._options = options
        self._seeds: dict[int, int] = {}  # by first row
        self._uses: Counter[int] = Counter()  # of the present seed
        self._waiting: set[int] = set()
        if seed is None:
            return
        if not option:
            raise SpecError(
                f"seed {seed!r}: the libenv interface has no seeds",
                backend="libenv",
                hint='name the library\'s option that is one, be it "seed" itself: '
                'options={"libenv": {"seed_option": "seed"}}',
            )
        if type(seed) is not int or not 0 <= seed <= _LARGEST - num_envs:
            raise SpecError(f"seed {seed!r}: expected an int from 0 to {_LARGEST - num_envs}", backend="libenv")
        self._seeds = {env: seed + env for env in range(num_envs)}

    def options(self, start: int) -> Mapping[str, Any]:
        """Return what the next env of the library whose first row is `start` is to be made with."""
        self._waiting.discard(start)
        if start not in self._seeds:
            return self._options
        seed, uses = self._seeds[start], self._uses[start]
        self._uses[start] += 1
        return {**self._options, self._option: _following(seed, uses) if uses else seed}

    def wait(self, rows: slice) -> bool:
        """True while a seed for these rows was set and not used."""
        return rows.start in self._waiting

    def take(self, seeds: Mapping[int, int], blocks: Sequence[slice]) -> None:
        """Keep the seeds for the next reset: rows that are one env in the library take that of the first of them.

        Raises SpecError for seeds that cannot be kept, and then keeps none.
        """
        chosen: dict[int, int] = {}
        for rows in blocks:
            given = seeds.keys() & range(rows.start, rows.stop)
            if given and len(given) < rows.stop - rows.start:
                raise SpecError(
                    f"envs {rows.start} to {rows.stop - 1} are one in the library: seed all of them or none"
                )
            if given:
                chosen[rows.start] = seeds[rows.start]
        for seed in chosen.values():
            if not seed <= _LARGEST:
                raise SpecError(f"seed {seed}: an option has 32 bits, 0 to {_LARGEST}")
        for start in chosen:
            del self._uses[start]
        self._seeds |= chosen
        self._waiting |= chosen.keys()


def _following(seed: int, uses: int) -> int:
    """Return the seed of an env that was made `uses` times with `seed` before."""
    return int(np.random.SeedSequence([seed, uses]).generate_state(1)[0]) & _LARGEST
