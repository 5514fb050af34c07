"""Gradient ascent on cart_pole by evolution strategies: the gradient of the expected score is estimated from mirrored
perturbations of one agent, each played in a session of its own.

How to start it (an engine of ours is started, unless there is another one):

    python docs/examples/unity/gradient.py
    python docs/examples/unity/gradient.py --executable ./Training.x86_64
    python docs/examples/unity/gradient.py --pipe train            # waits for an editor, or for `serve`
"""

from __future__ import annotations

import numpy as np
from cart_pole import PARAMETERS, arguments, init_of, open_instance, play
from numpy.typing import NDArray

_SIGMA = 0.3
_STEP = 0.5


def ascend(agent: NDArray[np.float64], noise: NDArray[np.float64], gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the agent one step uphill; gains: score of agent + noise minus that of agent - noise, by rows of noise."""
    spread = gains.std()
    if not spread:
        return agent
    gradient = (gains / spread) @ noise / len(noise)
    return agent + _STEP * gradient


def main() -> list[float]:
    """Train, print a line per epoch, and return the mean score of each."""
    options = arguments("Train cart_pole by gradient ascent.")
    generator = np.random.default_rng(options.seed)
    agent = np.zeros(PARAMETERS)
    pairs = max(1, options.sessions // 2)
    means: list[float] = []
    with open_instance(options) as unity:
        for epoch in range(options.epochs):
            noise = generator.normal(0.0, 1.0, (pairs, PARAMETERS))
            angles = generator.uniform(-0.05, 0.05, pairs)
            agents = [*(agent + _SIGMA * noise), *(agent - _SIGMA * noise)]
            inits = [init_of(epoch * pairs + pair, float(angle)) for pair, angle in enumerate(angles)]
            scores = np.array(play(unity, agents, inits * 2))  # both of a pair meet the same wind
            means.append(float(scores.mean()))
            print(f"epoch {epoch}: mean {means[-1]:.1f}, best {scores.max():.1f}", flush=True)
            agent = ascend(agent, noise, scores[:pairs] - scores[pairs:])
    return means


if __name__ == "__main__":
    main()
