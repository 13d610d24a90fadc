"""Gymnasium environments with a known truth, and their reference policies.

A belief can only be checked where the truth is known. Each world here is a proper Gymnasium
environment that never ends; the tabular ones carry their own model as a table, from which exact
values and ratios follow. Importing this package registers them as `bayesdice/Name-v0`.
"""

from bayesdice_ppl.envs.bandit import Bandit
from bayesdice_ppl.envs.cart_pole import InfiniteCartPole
from bayesdice_ppl.envs.contextual_bandit import ContextualBandit
from bayesdice_ppl.envs.continuous import cart_pole_policy, reacher_policy
from bayesdice_ppl.envs.frozen_lake import InfiniteFrozenLake
from bayesdice_ppl.envs.garnet import Garnet, garnet_outcomes
from bayesdice_ppl.envs.planning import optimal_action_values, optimal_actions
from bayesdice_ppl.envs.reacher import InfiniteReacher
from bayesdice_ppl.envs.reference import (
    bandit_policy,
    contextual_bandit_policy,
    frozen_lake_policy,
    garnet_policy,
    river_swim_policy,
    taxi_policy,
)
from bayesdice_ppl.envs.registration import register_worlds
from bayesdice_ppl.envs.restart import Restart, restart_outcomes
from bayesdice_ppl.envs.river_swim import RiverSwim
from bayesdice_ppl.envs.table_env import TableEnv
from bayesdice_ppl.envs.tabular import (
    Outcomes,
    TabularEnv,
    as_tabular,
    reward_matrix,
    transition_matrix,
)
from bayesdice_ppl.envs.taxi import InfiniteTaxi

register_worlds()

__all__ = [
    "Bandit",
    "ContextualBandit",
    "Garnet",
    "InfiniteCartPole",
    "InfiniteFrozenLake",
    "InfiniteReacher",
    "InfiniteTaxi",
    "Outcomes",
    "Restart",
    "RiverSwim",
    "TableEnv",
    "TabularEnv",
    "as_tabular",
    "bandit_policy",
    "cart_pole_policy",
    "contextual_bandit_policy",
    "frozen_lake_policy",
    "garnet_outcomes",
    "garnet_policy",
    "optimal_action_values",
    "optimal_actions",
    "reacher_policy",
    "restart_outcomes",
    "reward_matrix",
    "river_swim_policy",
    "taxi_policy",
    "transition_matrix",
]
