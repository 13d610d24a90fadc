"""From worlds to logs and to the truth that beliefs about those logs are judged by.

`simulate` plays a policy in a world and returns its logs; `true_value` and `true_ratio` compute
exactly, from the world's own table, what a belief estimates from the logs alone.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from bayesdice_ppl.simulation.rollout import simulate
    from bayesdice_ppl.simulation.sampling import Transitions, sample_transitions
    from bayesdice_ppl.simulation.truth import true_ratio, true_value
    from bayesdice_ppl.simulation.worlds import World, make_world

__all__ = [
    "Transitions",
    "World",
    "make_world",
    "sample_transitions",
    "simulate",
    "true_ratio",
    "true_value",
]

# Lazy, so that the exact values can be had without JAX, and this package without Gymnasium.
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "sampling": ["Transitions", "sample_transitions"],
        "rollout": ["simulate"],
        "truth": ["true_ratio", "true_value"],
        "worlds": ["World", "make_world"],
    },
)
