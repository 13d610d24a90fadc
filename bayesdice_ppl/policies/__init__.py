"""What a candidate is: a table of probabilities, or an object that gives them or draws actions.

Candidates come as a table with the columns ``policy, state, action, prob``, or as Python objects
with a method ``probs``; either way they are brought onto the states and actions of the log here.
"""

from bayesdice_ppl.policies.alignment import (
    AlignedPolicies,
    align_continuous,
    align_policies,
    needed_states,
)
from bayesdice_ppl.policies.gaussian import ContinuousPolicy, GaussianPolicy, SymmetricPolicy
from bayesdice_ppl.policies.logged import LOGGED, action_frequencies, with_logged_policy
from bayesdice_ppl.policies.policies import Policies
from bayesdice_ppl.policies.reading import read_policies
from bayesdice_ppl.policies.tabular import Policy, TabularPolicy

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
