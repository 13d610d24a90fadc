"""Figures, as thin layers over ArviZ's and Matplotlib's.

A belief is an ArviZ DataTree, so its figures are ArviZ's too. What is added here is the order of
the policies, labels with units, and sizes that keep them legible. Every figure of a belief is an
ArviZ PlotCollection; a figure of estimates is Matplotlib's. `save` writes either to a file.
"""

from bayesdice_ppl.plots.estimates import estimates
from bayesdice_ppl.plots.forest import forest
from bayesdice_ppl.plots.layout import X_LABEL
from bayesdice_ppl.plots.loss_by_k import loss_by_k
from bayesdice_ppl.plots.rank_probabilities import rank_probabilities
from bayesdice_ppl.plots.save import save

__all__ = ["X_LABEL", "estimates", "forest", "loss_by_k", "rank_probabilities", "save"]
