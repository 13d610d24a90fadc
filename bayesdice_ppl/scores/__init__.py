"""Scores of a ranking, as losses: lower is better everywhere.

A score compares a ranking with the policies' values (Yang et al., Offline Policy Selection under
Uncertainty, section 2.2). Each has a `depth`, how far down the ranking it looks, so that a search
need not try orders that cannot matter. With ``risk=bayesdice_ppl.risk.cvar(0.1)`` a ranking is
judged by its loss in the worst tenth of the belief's draws instead of the mean. Exact solvers hold
for the mean alone; other risks are searched.
"""

from bayesdice_ppl.scores.catalog import CATALOG, by_name
from bayesdice_ppl.scores.rank_correlations import correlation, kendall, spearman
from bayesdice_ppl.scores.regrets import normalized_regret, regret, safe_improvement
from bayesdice_ppl.scores.score import Score
from bayesdice_ppl.scores.top_k import accuracy, ndcg, precision
from bayesdice_ppl.scores.user_function import custom

__all__ = [
    "CATALOG",
    "Score",
    "accuracy",
    "by_name",
    "correlation",
    "custom",
    "kendall",
    "ndcg",
    "normalized_regret",
    "precision",
    "regret",
    "safe_improvement",
    "spearman",
]
