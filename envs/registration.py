"""The worlds' names in Gymnasium: `bayesdice/Name-v0`.

Importing `bayesdice_ppl.envs` registers them, so `gymnasium.make` needs only the id with its
module in front: `gymnasium.make("bayesdice_ppl.envs:bayesdice/Bandit-v0")`.
"""

from typing import Any

import gymnasium

from bayesdice_ppl.envs.reacher import TRAJECTORY_STEPS

_MODULE = "bayesdice_ppl.envs"
# Each id is one world: Garnet's seed is part of what its id means, and can be overridden.
WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "bayesdice/Bandit-v0": ("bandit:Bandit", {}),
    "bayesdice/ContextualBandit-v0": ("contextual_bandit:ContextualBandit", {}),
    "bayesdice/InfiniteFrozenLake-v0": ("frozen_lake:InfiniteFrozenLake", {}),
    "bayesdice/InfiniteTaxi-v0": ("taxi:InfiniteTaxi", {}),
    "bayesdice/Garnet-v0": ("garnet:Garnet", {"seed": 0}),
    "bayesdice/RiverSwim-v0": ("river_swim:RiverSwim", {}),
    "bayesdice/InfiniteCartPole-v0": ("cart_pole:InfiniteCartPole", {}),
    "bayesdice/InfiniteReacher-v0": ("reacher:InfiniteReacher", {}),
}
# The paper's trajectories of Reacher, after which Gymnasium truncates; the others never end.
TIME_LIMITS = {"bayesdice/InfiniteReacher-v0": TRAJECTORY_STEPS}


def register_worlds() -> None:
    """Register every world that is not registered yet; calling it again changes nothing."""
    for name, (entry_point, kwargs) in WORLDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point=f"{_MODULE}.{entry_point}",
                kwargs=kwargs,
                max_episode_steps=TIME_LIMITS.get(name),
            )
