"""Choose among all policies, and learn online: optimistic exploration by a belief of values.

`explore` plays any Gymnasium environment with discrete actions, with an explorer: `bayesdice`, or
one of those that it is compared with. States are labels, or vectors seen through features.
`docs/exploration.md` has the mathematics.
"""

from bayesdice_ppl.exploration.explorers import (
    Chosen,
    ExplorationTask,
    Explorer,
    RoundRows,
)
from bayesdice_ppl.exploration.loop import Exploration, explore
from bayesdice_ppl.exploration.optimist import bayesdice
from bayesdice_ppl.exploration.others import psrl, q_learning, rlsvi, ucbvi
from bayesdice_ppl.exploration.planning import planning
from bayesdice_ppl.exploration.variational import variational

__all__ = [
    "Chosen",
    "Exploration",
    "ExplorationTask",
    "Explorer",
    "RoundRows",
    "bayesdice",
    "explore",
    "planning",
    "psrl",
    "q_learning",
    "rlsvi",
    "ucbvi",
    "variational",
]
