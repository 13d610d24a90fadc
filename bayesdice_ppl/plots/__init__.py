"""Figures, as thin layers over ArviZ's and Matplotlib's.

A belief is an ArviZ DataTree, so its figures are ArviZ's too. What is added here is the order of
the policies, labels with units, and sizes that keep them legible. Every figure of a belief is an
ArviZ PlotCollection; a figure of estimates is Matplotlib's. `save` writes either to a file.
"""

from bayesdice_ppl.plots.coverage import coverage, ranks_of_truth
from bayesdice_ppl.plots.dependence import dependence
from bayesdice_ppl.plots.elbo import elbo
from bayesdice_ppl.plots.estimates import estimates
from bayesdice_ppl.plots.forest import forest
from bayesdice_ppl.plots.influence import influence
from bayesdice_ppl.plots.layout import X_LABEL
from bayesdice_ppl.plots.loss_by_k import loss_by_k
from bayesdice_ppl.plots.pairs import pairs
from bayesdice_ppl.plots.prior_posterior import prior_posterior
from bayesdice_ppl.plots.rank_probabilities import rank_probabilities
from bayesdice_ppl.plots.residuals import residuals
from bayesdice_ppl.plots.ridge import ridge
from bayesdice_ppl.plots.save import save
from bayesdice_ppl.plots.support import support
from bayesdice_ppl.plots.top_k import top_k

__all__ = [
    "X_LABEL",
    "coverage",
    "dependence",
    "elbo",
    "estimates",
    "forest",
    "influence",
    "loss_by_k",
    "pairs",
    "prior_posterior",
    "rank_probabilities",
    "ranks_of_truth",
    "residuals",
    "ridge",
    "save",
    "support",
    "top_k",
]
