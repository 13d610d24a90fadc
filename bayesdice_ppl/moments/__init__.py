"""Logs x policy x features -> moments: all that the constraint needs of the data."""

from bayesdice_ppl.moments.candidates import Candidates, state_features
from bayesdice_ppl.moments.cells import (
    Cells,
    TransformedRewards,
    count_cells,
    pad_cells,
    reward_moments,
    round_size,
    transformed_rewards,
    with_rewards,
)
from bayesdice_ppl.moments.known_rewards import (
    KnownMeans,
    MeanPosteriors,
    RewardKind,
    check_rewards,
    known_means,
)
from bayesdice_ppl.moments.moments import (
    NORMALIZATION_ROW,
    VALUE_ROW,
    Moments,
    MomentSettings,
    StateFeatures,
    build_moments,
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
from bayesdice_ppl.moments.prior import Prior

__all__ = [
    "NORMALIZATION_ROW",
    "VALUE_ROW",
    "Candidates",
    "Cells",
    "KnownMeans",
    "LoggedPairs",
    "MeanPosteriors",
    "MomentSettings",
    "Moments",
    "Prior",
    "Reach",
    "RewardKind",
    "StateFeatures",
    "TransformedRewards",
    "build_moments",
    "check_rewards",
    "count_cells",
    "known_means",
    "logged_pairs",
    "one_hot_features",
    "pad_cells",
    "reach",
    "renormalize",
    "renormalize_pairs",
    "reward_moments",
    "round_size",
    "state_features",
    "transformed_rewards",
    "with_rewards",
]
