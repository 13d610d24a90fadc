"""Gymnasium environments with a known truth, and their reference policies.

A belief can only be checked where the truth is known. Each world here is a proper Gymnasium
environment that never ends and that carries its own model as a table, from which exact values and
ratios follow. Importing this package registers them as `bayesdice/Name-v0`.
"""

from bayesdice_ppl.envs.bandit import Bandit
from bayesdice_ppl.envs.frozen_lake import InfiniteFrozenLake
from bayesdice_ppl.envs.garnet import Garnet, garnet_outcomes
from bayesdice_ppl.envs.reference import (
    bandit_policy,
    frozen_lake_policy,
    garnet_policy,
    optimal_actions,
)
from bayesdice_ppl.envs.registration import register_worlds
from bayesdice_ppl.envs.restart import Restart, restart_outcomes
from bayesdice_ppl.envs.table_env import TableEnv
from bayesdice_ppl.envs.tabular import (
    Outcomes,
    TabularEnv,
    as_tabular,
    reward_matrix,
    transition_matrix,
)

register_worlds()

__all__ = [
    "Bandit",
    "Garnet",
    "InfiniteFrozenLake",
    "Outcomes",
    "Restart",
    "TableEnv",
    "TabularEnv",
    "as_tabular",
    "bandit_policy",
    "frozen_lake_policy",
    "garnet_outcomes",
    "garnet_policy",
    "optimal_actions",
    "restart_outcomes",
    "reward_matrix",
    "transition_matrix",
]
