"""Losses of a ranking: one definition each, for NumPy and JAX, with its form on average."""

from bayesdice_ppl.losses.correlation import Correlation, Kendall, Spearman
from bayesdice_ppl.losses.custom import Custom
from bayesdice_ppl.losses.score import Objective, Score
from bayesdice_ppl.losses.structure import (
    Assignment,
    Coverage,
    Pairwise,
    Sorting,
    Structure,
    evaluate,
)
from bayesdice_ppl.losses.top_k import (
    Accuracy,
    Ndcg,
    NormalizedRegret,
    Precision,
    Regret,
    SafeImprovement,
)

__all__ = [
    "Accuracy",
    "Assignment",
    "Correlation",
    "Coverage",
    "Custom",
    "Kendall",
    "Ndcg",
    "NormalizedRegret",
    "Objective",
    "Pairwise",
    "Precision",
    "Regret",
    "SafeImprovement",
    "Score",
    "Sorting",
    "Spearman",
    "Structure",
    "evaluate",
]
