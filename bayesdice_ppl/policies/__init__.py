"""The candidates: what a policy must offer, how a table gives it, and what the log makes of it.

Candidates come as a table with the columns ``policy, state, action, prob``, or as Python objects.
Either way they are brought onto the states and actions of the log.
"""

from bayesdice_ppl.policies.alignment import (
    AlignedPolicies,
    align_continuous,
    align_policies,
    needed_states,
)
from bayesdice_ppl.policies.gaussian import GaussianPolicy
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy, SymmetricPolicy
from bayesdice_ppl.policies.logging_policy import LOGGED, action_frequencies, with_logged_policy
from bayesdice_ppl.policies.policies import Policies, read_policies
from bayesdice_ppl.policies.tabular import TabularPolicy

__all__ = [
    "LOGGED",
    "AlignedPolicies",
    "ContinuousPolicy",
    "GaussianPolicy",
    "Policies",
    "Policy",
    "SymmetricPolicy",
    "TabularPolicy",
    "action_frequencies",
    "align_continuous",
    "align_policies",
    "needed_states",
    "read_policies",
    "with_logged_policy",
]
