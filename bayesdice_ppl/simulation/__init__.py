"""Simulate logs in a world, and compute the true values and ratios there.

`simulate` plays a policy in a world and returns its logs. `true_value` and `true_ratio` give what a
belief estimates from the logs: exactly from the world's table, or by simulation where there is no
table.
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

# Lazy, so that exact values need no JAX, and this package needs no Gymnasium.
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
