"""The logging policy cloned from its log: counts, linear forms, networks, mixtures; a report."""

from bayesdice_ppl.policies.cloning.clone import ClonedPolicy, SoftmaxPolicy, clone_policy
from bayesdice_ppl.policies.cloning.gaussians import Gaussians, MixturePolicy
from bayesdice_ppl.policies.cloning.report import CloneReport
from bayesdice_ppl.policies.cloning.settings import Clone

__all__ = [
    "Clone",
    "CloneReport",
    "ClonedPolicy",
    "Gaussians",
    "MixturePolicy",
    "SoftmaxPolicy",
    "clone_policy",
]
