"""The candidates: what a policy must offer, how a table gives it, and what the log makes of it.

Candidates come as tables, by state or by logged row, as networks in files, or as Python objects.
All are brought onto the states and actions of the log.
"""

from typing import TYPE_CHECKING

import lazy_loader

from bayesdice_ppl.policies.alignment import (
    AlignedPolicies,
    align_continuous,
    align_policies,
    needed_states,
)
from bayesdice_ppl.policies.by_row import RowPolicy
from bayesdice_ppl.policies.gaussian import GaussianPolicy
from bayesdice_ppl.policies.interface import (
    ContinuousPolicy,
    NormalPolicy,
    Policy,
    SymmetricPolicy,
)
from bayesdice_ppl.policies.libraries import from_d3rlpy, from_stable_baselines3
from bayesdice_ppl.policies.logging_policy import LOGGED, action_frequencies, with_logged_policy
from bayesdice_ppl.policies.networks import read_network
from bayesdice_ppl.policies.normal import checked_moments
from bayesdice_ppl.policies.onnx_models import read_onnx
from bayesdice_ppl.policies.policies import Policies
from bayesdice_ppl.policies.reading import read_policies
from bayesdice_ppl.policies.scored import epsilon_greedy, softmax
from bayesdice_ppl.policies.tabular import TabularPolicy

if TYPE_CHECKING:
    from bayesdice_ppl.policies.behavior import (
        BehaviorLogProb,
        behavior_log_prob,
        log_ratio,
        log_target,
    )
    from bayesdice_ppl.policies.cloning import Clone, ClonedPolicy, CloneReport, clone_policy

__all__ = [
    "LOGGED",
    "AlignedPolicies",
    "BehaviorLogProb",
    "Clone",
    "CloneReport",
    "ClonedPolicy",
    "ContinuousPolicy",
    "GaussianPolicy",
    "NormalPolicy",
    "Policies",
    "Policy",
    "RowPolicy",
    "SymmetricPolicy",
    "TabularPolicy",
    "action_frequencies",
    "align_continuous",
    "align_policies",
    "behavior_log_prob",
    "checked_moments",
    "clone_policy",
    "epsilon_greedy",
    "from_d3rlpy",
    "from_stable_baselines3",
    "log_ratio",
    "log_target",
    "needed_states",
    "read_network",
    "read_onnx",
    "read_policies",
    "softmax",
    "with_logged_policy",
]

# Lazy, so that candidates that are tables need no JAX.
__getattr__, _, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "behavior": ["BehaviorLogProb", "behavior_log_prob", "log_ratio", "log_target"],
        "cloning": ["Clone", "CloneReport", "ClonedPolicy", "clone_policy"],
    },
)
