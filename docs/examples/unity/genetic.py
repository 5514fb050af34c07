"""A genetic algorithm on cart_pole: the better half of a population lives on, its mutants replace the others.

How to start it (an engine of ours is started, unless there is another one):

    python docs/examples/unity/genetic.py
    python docs/examples/unity/genetic.py --executable ./Training.x86_64
    python docs/examples/unity/genetic.py --pipe train             # waits for an editor, or for `serve`
"""

from __future__ import annotations

import numpy as np
from cart_pole import PARAMETERS, arguments, init_of, open_instance, play
from numpy.typing import NDArray


def next_generation(
    population: NDArray[np.float64], scores: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return as many individuals: the better half, best first, then a mutant of each."""
    elite = population[np.argsort(-scores, kind="stable")][: (len(population) + 1) // 2]
    mutants = elite + generator.normal(0.0, 0.3, elite.shape)
    return np.concatenate([elite, mutants])[: len(population)]


def main() -> list[float]:
    """Train, print a line per epoch, and return the mean score of each."""
    options = arguments("Train cart_pole with a genetic algorithm.")
    generator = np.random.default_rng(options.seed)
    population = generator.normal(0.0, 0.5, (options.sessions, PARAMETERS))
    means: list[float] = []
    with open_instance(options) as unity:
        for epoch in range(options.epochs):
            angle = float(generator.uniform(-0.05, 0.05))  # the same for all: they are compared
            scores = np.array(play(unity, list(population), [init_of(epoch, angle)] * len(population)))
            means.append(float(scores.mean()))
            print(f"epoch {epoch}: mean {means[-1]:.1f}, best {scores.max():.1f}", flush=True)
            population = next_generation(population, scores, generator)
    return means


if __name__ == "__main__":
    main()
