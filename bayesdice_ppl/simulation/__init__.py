"""From worlds to logs and to the truth that beliefs about those logs are judged by.

`simulate` plays a policy in a world and returns its logs; `true_value` and `true_ratio` compute
what a belief estimates from the logs alone: exactly, from the world's own table, or by playing on
where it has none.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from bayesdice_ppl.simulation.rollout import simulate
    from bayesdice_ppl.simulation.sampling import Transitions, sample_transitions
    from bayesdice_ppl.simulation.stored import stored_value
    from bayesdice_ppl.simulation.true_values import TrueValue
    from bayesdice_ppl.simulation.truth import true_ratio, true_value
    from bayesdice_ppl.simulation.worlds import World, known_values, make_world

__all__ = [
    "Transitions",
    "TrueValue",
    "World",
    "known_values",
    "make_world",
    "sample_transitions",
    "simulate",
    "stored_value",
    "true_ratio",
    "true_value",
]

# Lazy, so that the exact values can be had without JAX, and this package without Gymnasium.
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "sampling": ["Transitions", "sample_transitions"],
        "rollout": ["simulate"],
        "stored": ["stored_value"],
        "true_values": ["TrueValue"],
        "truth": ["true_ratio", "true_value"],
        "worlds": ["World", "known_values", "make_world"],
    },
)
