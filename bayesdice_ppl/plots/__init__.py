"""Figures, as thin layers over ArviZ's and Matplotlib's.

A belief is an ArviZ DataTree, so its figures are ArviZ's too: what is added here is the order of
the policies, labels that say what is shown in which unit, and sizes that keep them legible. Every
figure of a belief is an ArviZ PlotCollection, that of mere estimates Matplotlib's own; `save`
writes either to a file.
"""

from bayesdice_ppl.plots.estimates import estimates
from bayesdice_ppl.plots.forest import X_LABEL, forest
from bayesdice_ppl.plots.loss_by_k import loss_by_k
from bayesdice_ppl.plots.ranks import rank_probabilities
from bayesdice_ppl.plots.saving import save

__all__ = ["X_LABEL", "estimates", "forest", "loss_by_k", "rank_probabilities", "save"]
