"""The first fits of a process: ``python -m benchmarks.fresh_fit svi`` prints their seconds.

Compilation can only be timed where nothing has been compiled yet, so `benchmarks.speed` runs this
in processes of its own.
"""

import json
import sys
import time

import jax

import bayesdice_ppl as bd

EPISODES, STEPS, DRAWS = 50, 100, 4000
SEED = 0


def main(inference: str, n_fits: int) -> None:
    """Fit the same logs with different keys and print the seconds of each fit as JSON."""
    world = bd.simulation.make_world("frozenlake", alpha=0.0)
    logs = bd.simulate(world.env, world.behavior, EPISODES, STEPS, rng_key=jax.random.key(SEED))
    seconds = []
    for i in range(n_fits):
        started = time.perf_counter()
        bd.fit(
            logs,
            world.candidates,
            gamma=world.gamma_hint,
            rng_key=jax.random.key(i),
            inference=inference,
            draws=DRAWS,
        )
        seconds.append(time.perf_counter() - started)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
