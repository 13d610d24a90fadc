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

__all__ = [
    "NORMALIZATION_ROW",
    "Cells",
    "MomentSettings",
    "Moments",
    "StateFeatures",
    "TransformedRewards",
    "build_moments",
    "cell_ratio",
    "count_cells",
    "one_hot_features",
    "pad_cells",
    "reward_moments",
    "transformed_rewards",
    "with_rewards",
]
