"""Scores and risks by their definitions, in plain Python loops over tie-breaks and draws."""

import math
import statistics
from fractions import Fraction
from itertools import combinations, pairwise, permutations

import numpy as np
from hypothesis import strategies as st

from bayesdice_ppl import scores
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import no_rules

WORDS = [
    "precision",
    "accuracy",
    "regret",
    "normalized_regret",
    "ndcg",
    "correlation",
    "spearman",
    "kendall",
    "safe_improvement",
    "custom",
]
PARTIAL = ["precision", "accuracy", "regret", "normalized_regret", "ndcg", "safe_improvement"]
"""Scores that judge a launch of fewer than k policies too."""
WHOLE = ["correlation", "spearman", "kendall"]
"""Scores that look at all places of a ranking."""
WITHOUT_K = ["spearman", "kendall"]


def fewest(word):
    """Least k, and number of candidates, that a score is defined for."""
    return 2 if word in WHOLE else 1


def names(n):
    return tuple(f"policy {i}" for i in range(n))


def make(word, k, n, risk=None):
    """The library's score of N policies, bound to them."""
    if word in WITHOUT_K:
        return getattr(scores, word)(risk=risk)
    if word == "safe_improvement":
        return scores.safe_improvement("policy 0", k=k, risk=risk).bind(names(n))
    if word == "custom":
        return scores.custom(halved(k), depth=k, higher_is_better=True, risk=risk)
    return getattr(scores, word)(k, risk=risk)


def form(score, values):
    """The form of the mean loss."""
    return score.form(score.digest(values))


def objective(score, values):
    """What a search minimizes."""
    return RankingProblem(values, score, no_rules(values.shape[1])).objective


def halved(k):
    """A function of a user's: the listed values, each place worth half of the one before."""

    def halved_values(values, ranking):
        weights = np.array([0.5**j for j in range(1, k + 1)])
        return values[:, ranking[:k]] @ weights

    return halved_values


def tie_breaks(values):
    """Every true order, best first, that is consistent with the values."""
    return [
        order
        for order in permutations(range(len(values)))
        if all(values[a] >= values[b] for a, b in pairwise(order))
    ]


def loss(word, k, values, ranking):
    """Loss of a ranking, or of the first policies of one, in one draw."""
    listed = list(ranking[:k])
    best, worst = max(values), min(values)
    if word in {"regret", "safe_improvement"}:
        return best - max(values[i] for i in listed)
    if word == "normalized_regret":
        short = best - max(values[i] for i in listed)
        return short / (best - worst) if best > worst else 0.0
    if word == "custom":
        return -sum(values[i] / 2**j for j, i in enumerate(listed, start=1))
    if word == "ndcg":
        # Where no policy is better than the worst, each counts the same, whatever that is.
        gains = [v - worst if best > worst else 1.0 for v in values]
        ideal = discounted(sorted(gains, reverse=True)[:k])
        return 1 - discounted([gains[i] for i in listed]) / ideal
    return statistics.fmean(one_loss(word, k, truth, ranking) for truth in tie_breaks(values))


def discounted(gains):
    return sum(gain / math.log2(1 + place) for place, gain in enumerate(gains, start=1))


def one_loss(word, k, truth, ranking):
    """Loss where the true order is known."""
    if word == "precision":
        return 1 - len(set(truth[:k]) & set(ranking[:k])) / k
    if word == "accuracy":
        return 1 - sum(a == b for a, b in zip(truth[:k], ranking[:k], strict=False)) / k
    if word == "kendall":
        tau = 0
        for a, b in combinations(truth, 2):
            tau += 1 if list(ranking).index(a) < list(ranking).index(b) else -1
        return 1 - tau / math.comb(len(truth), 2)
    top = truth if word == "spearman" else truth[:k]
    places = [list(ranking).index(i) + 1 for i in top]
    return 1 - statistics.correlation(list(range(1, len(top) + 1)), places)


def losses(word, k, rows, rankings):
    return [[loss(word, k, row, list(ranking)) for row in rows] for ranking in rankings]


def cvar(alpha, of_draws):
    """Mean of the worst alpha of the draws, the last of them in part: exact arithmetic."""
    share = Fraction(alpha) * len(of_draws)
    left, total = share, Fraction(0)
    for one in sorted((Fraction(float(x)) for x in of_draws), reverse=True):
        taken = min(left, Fraction(1))
        total += taken * one
        left -= taken
    return float(total / share)


def tables(low=-3, high=3, most=5, fewest_policies=1):
    """Draws as lists of rows, in quarters: sums are exact, and ties are real ones."""
    return st.integers(fewest_policies, most).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(low, high).map(lambda i: i / 4), min_size=n, max_size=n),
            min_size=1,
            max_size=4,
        )
    )


def random_draws(seed, n, m, *, ties=True):
    """Correlated draws; with ties, in halves, and one policy under two names."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(m, 1)) + rng.normal(size=(m, n)) + 0.2 * rng.normal(size=n)
    if ties:
        values = np.round(2 * values) / 2
        values[:, -1] = values[:, 0]
        values[0] = values[0, 0]
    return values


def random_rankings(seed, n, count):
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(n) for _ in range(count)])
