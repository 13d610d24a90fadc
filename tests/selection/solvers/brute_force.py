"""Every launch that rules allow, and the losses of all of them, in plain loops."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np

from bayesdice_ppl.selection.rules import Rules
from tests.selection import literal

# Sizes of 200 random beliefs: N! rankings each, so that most are small.
SIZES = [1] * 6 + [2] * 24 + [3] * 50 + [4] * 70 + [5] * 42 + [6] * 7 + [7]


def expected_loss(word, k, rows):
    """Give a function that averages the literal loss of a prefix over draws and tie-breaks."""
    # Losses depend on the first k of the true order: those that occur, and how often.
    draws = [(row, Counter(order[:k] for order in literal.true_orders(row))) for row in rows]
    if word == "ndcg":  # which depends on the values in that order alone
        draws = [(row, Counter([next(iter(truths))])) for row, truths in draws]

    def average(prefix):
        total = 0.0
        for row, truths in draws:
            losses = [n * literal.loss(word, k, row, truth, prefix) for truth, n in truths.items()]
            total += sum(losses) / truths.total()
        return total / len(draws)

    return average


def form(score, values):
    """The form of the mean loss."""
    return score.form(score.digest(values))


def random_rules(rng, n, k):
    """Some of: policies that must be launched, others that must not, and a budget."""
    order = rng.permutation(n).tolist()
    n_required = int(rng.integers(0, min(2, k) + 1)) if rng.random() < 0.5 else 0
    n_excluded = int(rng.integers(0, n - n_required + 1)) if rng.random() < 0.5 else 0
    required, excluded = np.zeros(n, bool), np.zeros(n, bool)
    required[order[:n_required]] = True
    excluded[order[n_required : n_required + n_excluded]] = True
    if rng.random() < 0.4:
        return Rules(required, excluded, np.zeros(n), np.inf)
    # Sums of tenths are rounded.
    return Rules(required, excluded, rng.integers(0, 6, n) / 10, int(rng.integers(0, 4 * k)) / 10)


def launches(n, depth, rules, *, partial):
    """List the sets that may be launched: smaller ones where too few are left, or for a budget."""
    required = set(np.flatnonzero(rules.required).tolist())
    excluded = set(np.flatnonzero(rules.excluded).tolist())
    most = min(depth, n - len(excluded)) if partial else depth
    sizes = range(1, most + 1) if partial and rules.budget < np.inf else [most] if most else []
    return [
        chosen
        for size in sizes
        for chosen in combinations(range(n), size)
        if required <= set(chosen)
        and not excluded & set(chosen)
        and sum(rules.cost[i] for i in chosen) <= rules.budget + 1e-9
    ]


def ranked(sets, judge, *, ordered):
    """List (loss, prefix) of all prefixes: the best first, of equals the longest and the first."""
    prefixes = [
        order for chosen in sets for order in (permutations(chosen) if ordered else [chosen])
    ]
    judged = [(judge(prefix), prefix) for prefix in prefixes]
    # Losses of small beliefs are multiples of a large fraction: equal ones agree in 10 digits.
    return sorted(judged, key=lambda entry: (round(entry[0], 10), -len(entry[1]), entry[1]))
