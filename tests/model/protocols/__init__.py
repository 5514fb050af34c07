"""The step tables of the shared-memory protocols, one file each."""

from collections.abc import Callable

from tests.model.explorer import Scenario
from tests.model.protocols import env_words, image_slots, lock_step, park_words, ring

__all__ = ["PROTOCOLS"]

#: Name to the scenarios of a bound.
PROTOCOLS: dict[str, Callable[[int], list[Scenario]]] = {
    "ring": ring.scenarios,
    "lock-step": lock_step.scenarios,
    "park-words": park_words.scenarios,
    "image-slots": image_slots.scenarios,
    "env-words": env_words.scenarios,
}
