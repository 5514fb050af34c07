"""The verdict of a run: what all its comparisons say together.

What is decided is whether a switch from gRPC pays; other ways and the machine's limits are told apart from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lucky_transport_migration.bench.stats import Overall, Word, overall
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import times_text

__all__ = ["INCONCLUSIVE", "MOST_NOISE", "verdict"]

#: The word for a run from which nothing is concluded, and the A/A ratio from which on a run is one.
INCONCLUSIVE = "INCONCLUSIVE"
MOST_NOISE = 1.5


def verdict(
    reference: str,
    ratios: Sequence[Mapping[str, Any]],
    looked_at: Sequence[str],
    floor: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the run's verdict on `reference`: word, sentence, and the sentences that go with it.

    `looked_at` says what was looked at while it was timed; floor: the A/A ratio, from which on nothing is concluded.
    """
    transports = [one for one in ratios if one["to"] not in (reference, "limit")]
    grpc = [one for one in transports if one["to"].startswith("grpc")]
    name = label(reference)
    name = name[:1].upper() + name[1:]
    asked = grpc if grpc and not reference.startswith("grpc") else transports
    noise = 1.0 if floor is None else max(floor["ratio"], 1 / floor["ratio"])
    main = overall(name, "gRPC" if asked is grpc else "the other transports", _words(asked))
    if noise > MOST_NOISE and main.word is not Overall.UNKNOWN:
        sentence = (
            f"The machine was too noisy: measured twice (A/A), {label(reference)} differed from itself by a factor of "
            f"{times_text(noise)}, more than {times_text(MOST_NOISE)}. Run it again where nothing else runs."
        )
        return {"word": INCONCLUSIVE, "sentence": sentence, "beside": [*looked_at]}
    return {"word": main.word.value, "sentence": main.sentence, "beside": [*looked_at]}


def _words(ratios: Sequence[Mapping[str, Any]]) -> list[Word]:
    return [Word(one["word"]) for one in ratios]
