"""Logs x policy x features -> moments: all that the constraint needs to know of the data."""

from bayesdice_ppl.moments.cells import (
    Cells,
    TransformedRewards,
    count_cells,
    pad_cells,
    reward_moments,
    transformed_rewards,
    with_rewards,
)
from bayesdice_ppl.moments.moments import (
    NORMALIZATION_ROW,
    Moments,
    MomentSettings,
    StateFeatures,
    build_moments,
    cell_ratio,
    one_hot_features,
)
from bayesdice_ppl.moments.pairs import (
    LoggedPairs,
    Reach,
    logged_pairs,
    reach,
    renormalize,
    renormalize_pairs,
)

__all__ = [
    "NORMALIZATION_ROW",
    "Cells",
    "LoggedPairs",
    "MomentSettings",
    "Moments",
    "Reach",
    "StateFeatures",
    "TransformedRewards",
    "build_moments",
    "cell_ratio",
    "count_cells",
    "logged_pairs",
    "one_hot_features",
    "pad_cells",
    "reach",
    "renormalize",
    "renormalize_pairs",
    "reward_moments",
    "transformed_rewards",
    "with_rewards",
]
