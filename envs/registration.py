"""The worlds' names in Gymnasium: `bayesdice/Name-v0`.

Importing `bayesdice_ppl.envs` registers them, so `gymnasium.make` needs only the id with its
module in front: `gymnasium.make("bayesdice_ppl.envs:bayesdice/Bandit-v0")`.
"""

from typing import Any

import gymnasium

# Each id is one world: Garnet's seed is part of what its id means, and can be overridden.
WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "bayesdice/Bandit-v0": ("bayesdice_ppl.envs.bandit:Bandit", {}),
    "bayesdice/InfiniteFrozenLake-v0": ("bayesdice_ppl.envs.frozen_lake:InfiniteFrozenLake", {}),
    "bayesdice/Garnet-v0": ("bayesdice_ppl.envs.garnet:Garnet", {"seed": 0}),
}


def register_worlds() -> None:
    """Register every world that is not registered yet; calling it again changes nothing."""
    for name, (entry_point, kwargs) in WORLDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point, kwargs=kwargs)
