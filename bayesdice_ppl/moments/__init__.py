"""Logs x policy x features -> moments: all that the constraint needs of the data."""

from bayesdice_ppl.moments.candidates import Candidates, state_features
from bayesdice_ppl.moments.cells import (
    Cells,
    TransformedRewards,
    count_cells,
    count_lines,
    pad_cells,
    reward_moments,
    round_size,
    transformed_rewards,
    with_rewards,
)
from bayesdice_ppl.moments.known_rewards import KnownMeans, RewardKind, check_rewards
from bayesdice_ppl.moments.mean_posteriors import MeanPosteriors
from bayesdice_ppl.moments.moments import (
    NEARLY_ONE,
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
    PairRewards,
    Reach,
    logged_pairs,
    pair_rewards,
    reach,
    renormalize,
    renormalize_pairs,
)
from bayesdice_ppl.moments.prior import Prior
from bayesdice_ppl.moments.sparse import SparseMoments, row_scaled, sparse_moments

__all__ = [
    "NEARLY_ONE",
    "NORMALIZATION_ROW",
    "VALUE_ROW",
    "Candidates",
    "Cells",
    "KnownMeans",
    "LoggedPairs",
    "MeanPosteriors",
    "MomentSettings",
    "Moments",
    "PairRewards",
    "Prior",
    "Reach",
    "RewardKind",
    "SparseMoments",
    "StateFeatures",
    "TransformedRewards",
    "build_moments",
    "check_rewards",
    "count_cells",
    "count_lines",
    "logged_pairs",
    "one_hot_features",
    "pad_cells",
    "pair_rewards",
    "reach",
    "renormalize",
    "renormalize_pairs",
    "reward_moments",
    "round_size",
    "row_scaled",
    "sparse_moments",
    "state_features",
    "transformed_rewards",
    "with_rewards",
]
