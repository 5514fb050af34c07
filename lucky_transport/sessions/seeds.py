"""Which seed a world gets for its n-th episode: the same for batches of worlds and batches of sessions.

Rule 1: the first episode gets the seed that was asked for; each further one follows from it, however it came about.
"""

from __future__ import annotations

from lucky_transport.messages.batch import SetSeedsRequest, SetSeedsResponse

__all__ = ["EpisodeSeeds"]

#: An odd number far from any small one: seeds that lie side by side stay apart in all their episodes.
_STRIDE = 0x1E3779B97F4A7C15
_SEEDS = 1 << 62


class EpisodeSeeds:
    """The seeds of a batch; env i begins with `seed` + i."""

    def __init__(self, seed: int, num_envs: int) -> None:
        self._seeds = [seed + env for env in range(num_envs)]
        self._episodes = [0] * num_envs

    def following(self, env: int) -> int:
        """Return the seed, 0 to 2**62 - 1, of the next episode of an env."""
        episode = self._episodes[env]
        self._episodes[env] += 1
        return (self._seeds[env] + episode * _STRIDE) % _SEEDS

    def set(self, request: SetSeedsRequest) -> SetSeedsResponse:
        """Begin anew with other seeds, from the next episode on."""
        n = len(self._seeds)
        if len(request.seeds) != n or len(request.mask) not in (0, n):
            return SetSeedsResponse(False, f"{len(request.seeds)} seeds and a mask of {len(request.mask)} for {n} envs")
        for env, seed in enumerate(request.seeds):
            if not request.mask or request.mask[env]:
                self._seeds[env], self._episodes[env] = seed, 0
        return SetSeedsResponse(True)
