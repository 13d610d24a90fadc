"""Groups of a belief that ArviZ's functions need, made on demand: priors, likelihoods, predictions.

A belief of its own has draws, and what they rest on. The functions of this package fit its logs
again as they were fitted, and add what only the problem behind it knows. At most 1,000 draws are
kept, in single precision.
"""

from bayesdice_ppl.groups.likelihood import add_log_likelihood
from bayesdice_ppl.groups.predictive import add_posterior_predictive
from bayesdice_ppl.groups.prior import add_prior
from bayesdice_ppl.groups.summary import summary

__all__ = ["add_log_likelihood", "add_posterior_predictive", "add_prior", "summary"]
