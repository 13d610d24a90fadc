"""The candidates: what a policy must offer, how a table gives it, and what the log makes of it.

Candidates come as a table with the columns ``policy, state, action, prob``, or as Python objects.
Either way they are brought onto the states and actions of the log.
"""

from typing import TYPE_CHECKING

import lazy_loader

from bayesdice_ppl.policies.alignment import (
    AlignedPolicies,
    align_continuous,
    align_policies,
    needed_states,
)
from bayesdice_ppl.policies.gaussian import GaussianPolicy
from bayesdice_ppl.policies.interface import (
    ContinuousPolicy,
    NormalPolicy,
    Policy,
    SymmetricPolicy,
)
from bayesdice_ppl.policies.logging_policy import LOGGED, action_frequencies, with_logged_policy
from bayesdice_ppl.policies.normal import checked_moments
from bayesdice_ppl.policies.policies import Policies, read_policies
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
    "SymmetricPolicy",
    "TabularPolicy",
    "action_frequencies",
    "align_continuous",
    "align_policies",
    "behavior_log_prob",
    "checked_moments",
    "clone_policy",
    "log_ratio",
    "log_target",
    "needed_states",
    "read_policies",
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
