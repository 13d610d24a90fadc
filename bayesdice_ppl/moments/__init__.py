"""Logs x policy x features -> moments: all that the constraint needs to know of the data."""

from bayesdice_ppl.moments.cells import Cells, count_cells, reward_moments
from bayesdice_ppl.moments.moments import (
    Moments,
    MomentSettings,
    StateFeatures,
    build_moments,
    cell_ratio,
    one_hot_features,
)

__all__ = [
    "Cells",
    "MomentSettings",
    "Moments",
    "StateFeatures",
    "build_moments",
    "cell_ratio",
    "count_cells",
    "one_hot_features",
    "reward_moments",
]
