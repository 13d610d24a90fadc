"""Losses and selection by the definitions, in plain loops that share nothing with the library."""

import math
import statistics
from functools import cache
from itertools import combinations, pairwise, permutations

import numpy as np


def random_draws(seed, n, n_draws=5):
    """Few draws, correlated, on a dyadic grid: so sums are exact, and ties are real ones."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_draws, 1))
    values = common + rng.normal(size=(n_draws, n)) + rng.normal(size=n)
    grid = 2.0 if seed % 2 else 64.0
    values = np.round(values * grid) / grid
    if n > 2 and seed % 3 == 0:
        values[:, n - 1] = values[:, 0]  # one candidate under two names
    return values


@cache
def _true_orders(row):
    return [
        order
        for order in permutations(range(len(row)))
        if all(row[a] >= row[b] for a, b in pairwise(order))
    ]


def true_orders(row):
    """All equally likely true orders of one draw."""
    return _true_orders(tuple(row))


def loss(word, k, row, truth, ranking):
    """Loss of a ranking, of which `ranking[:k]` may be shorter than k, against one true order."""
    listed = ranking[:k]
    if word == "precision":
        return 1 - sum(i in listed for i in truth[:k]) / k
    if word == "accuracy":
        return 1 - sum(truth[j] == listed[j] for j in range(len(listed))) / k
    if word in ("regret", "normalized_regret"):
        regret = max(row) - max(row[i] for i in listed)
        if word == "regret" or max(row) == min(row):
            return regret
        return regret / (max(row) - min(row))
    if word == "ndcg":
        gains = [value - min(row) for value in row]
        ideal = sum(gains[i] / math.log2(2 + j) for j, i in enumerate(truth[:k]))
        if ideal == 0.0:
            whole = sum(1 / math.log2(2 + j) for j in range(k))
            return 1 - sum(1 / math.log2(2 + j) for j in range(len(listed))) / whole
        return 1 - sum(gains[i] / math.log2(2 + j) for j, i in enumerate(listed)) / ideal
    if word == "kendall":
        agreements = [1 if truth.index(a) < truth.index(b) else -1 for a, b in _in_order(ranking)]
        return 1 - sum(agreements) / len(agreements)
    places = [ranking.index(i) + 1 for i in truth[:k]]
    return 1 - statistics.correlation(list(range(1, k + 1)), places)


def _in_order(ranking):
    return [(ranking[a], ranking[b]) for a, b in combinations(range(len(ranking)), 2)]


def draw_losses(word, k, rows, ranking):
    """Loss in every draw, averaged over the true orders."""
    losses = []
    for row in rows:
        orders = true_orders(row)
        losses.append(sum(loss(word, k, row, truth, ranking) for truth in orders) / len(orders))
    return losses


def risk_of(losses, alpha=None):
    """Mean of the losses, or of their worst share alpha, the last draw counted in part."""
    if alpha is None:
        return sum(losses) / len(losses)
    left, total = alpha * len(losses), 0.0
    for value in sorted(losses, reverse=True):
        part = min(1.0, left)
        total += part * value
        left -= part
        if left <= 1e-12:
            break
    return total / (alpha * len(losses))
