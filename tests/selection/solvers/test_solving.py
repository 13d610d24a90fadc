"""Every solver that `select` can choose, against trying all rankings by the definitions."""

from itertools import combinations, islice, permutations

import arviz as az
import numpy as np
import pytest

from bayesdice_ppl import risk, scores
from bayesdice_ppl.selection import select
from tests.marks import every_fifth
from tests.selection.literal import draw_losses, random_draws, risk_of

# Through `select` on small random beliefs; each solver's own test takes 200 of up to 7 policies.
SIZES = [1] * 2 + [2] * 8 + [3] * 20 + [4] * 16 + [5] * 2
SETS = ("precision", "regret", "normalized_regret")
TOP = (*SETS, "accuracy", "ndcg")
WHOLE = ("correlation", "spearman", "kendall")
OUT_OF_REACH = 1  # with one evaluation allowed, no exhaustive search is


def belief_of(values, names=None):
    names = names or [f"p{i}" for i in range(values.shape[1])]
    return az.from_dict(
        {"posterior": {"value": values[None]}}, coords={"policy": names}, dims={"value": ["policy"]}
    )


def least_loss(word, k, rows, launches, alpha=None):
    """The least loss of all rankings whose launch is one of those given."""
    n = len(rows[0])
    if word in SETS:
        tried = launches
    elif word in TOP:
        tried = [order for launch in launches for order in permutations(launch)]
    else:
        sets = {frozenset(launch) for launch in launches}
        tried = [order for order in permutations(range(n)) if frozenset(order[:k]) in sets]
    return min(risk_of(draw_losses(word, k, rows, order), alpha) for order in tried)


def make(word, k, **options):
    if word in ("spearman", "kendall"):
        return getattr(scores, word)(**options)
    return getattr(scores, word)(k, **options)


def ks(word, n):
    if word in ("spearman", "kendall"):
        return [n] if n > 1 else []
    return range(2 if word == "correlation" else 1, n + 1)


@every_fifth
@pytest.mark.parametrize("word", [*TOP, *WHOLE])
def test_exact_solvers_equal_brute_force(word, every):
    methods = set()
    for seed, n in islice(enumerate(SIZES), 0, None, every):
        values = random_draws(seed, n)
        rows = values.tolist()
        for k in ks(word, n):
            choice = select(belief_of(values), make(word, k), max_evaluations=OUT_OF_REACH)
            certificate, where = choice.certificate, f"{word}@{k}, belief {seed}, {n} policies"
            methods.add(certificate.method)
            least = least_loss(word, k, rows, list(combinations(range(n), min(k, n))))
            if certificate.status == "optimal":
                assert choice.expected_loss == pytest.approx(least, abs=1e-12), where
                assert certificate.gap == 0.0, where
            elif certificate.status == "gap":
                assert certificate.bound <= least + 1e-12, where
                assert choice.expected_loss - certificate.gap <= least + 1e-12, where
            else:
                assert word == "correlation", where
            if word not in ("kendall", "correlation"):
                assert certificate.status == "optimal", where
            losses = draw_losses(word, k, rows, [int(name[1:]) for name in choice.order])
            assert choice.expected_loss == pytest.approx(risk_of(losses), abs=1e-12), where
    expected = {
        "precision": "sorting",
        "ndcg": "sorting",
        "spearman": "sorting",
        "accuracy": "assignment",
        "regret": "branch and bound",
        "normalized_regret": "branch and bound",
        "kendall": "pairwise ordering",
        "correlation": "local search",
    }
    assert expected[word] in methods


@every_fifth
@pytest.mark.parametrize("word", ["correlation", "kendall", "regret", "accuracy"])
def test_searched_risks_find_the_least_of_all(word, every):
    """Search proves nothing; at this size it finds the optimum nevertheless."""
    for seed, n in islice(enumerate([2, 3, 4, 5] * 10), 0, None, every):
        values = random_draws(seed, n, n_draws=8)
        rows = values.tolist()
        for k in ks(word, n):
            score = make(word, k, risk=risk.cvar(0.3))
            choice = select(belief_of(values), score, max_evaluations=400)
            least = least_loss(word, k, rows, list(combinations(range(n), k)), alpha=0.3)
            assert choice.expected_loss == pytest.approx(least, abs=1e-12), (word, seed, k)


def allowed_launches(n, k, cost, budget, include, exclude, *, fewer):
    sizes = range(1, k + 1) if fewer else [k]
    return [
        launch
        for size in sizes
        for launch in combinations(range(n), size)
        if set(include) <= set(launch)
        and not set(exclude) & set(launch)
        and sum(cost[i] for i in launch) <= budget
    ]


@every_fifth
@pytest.mark.parametrize("word", [*TOP, "correlation"])
@pytest.mark.parametrize("reach", [None, OUT_OF_REACH])
def test_rules_of_a_launch_equal_brute_force(word, reach, every):
    tried = 0
    for seed in islice(range(20), 0, None, every):
        n = 4 + seed % 2
        rng = np.random.default_rng(1000 + seed)
        values, cost = random_draws(seed, n), rng.integers(1, 6, size=n).astype(float)
        include = [int(rng.integers(n))] if seed % 3 == 0 else []
        exclude = [i for i in rng.permutation(n)[:1].tolist() if i not in include]
        names = [f"p{i}" for i in range(n)]
        for k in ks(word, n - 1):
            budget = float(rng.integers(2, 12))
            fewer = word != "correlation"
            launches = allowed_launches(n, k, cost, budget, include, exclude, fewer=fewer)
            if not launches:
                continue
            tried += 1
            choice = select(
                belief_of(values),
                make(word, k),
                max_evaluations=5_000 if reach and word == "correlation" else reach,
                costs=dict(zip(names, cost, strict=True)),
                budget=budget,
                must_include=[names[i] for i in include],
                must_exclude=[names[i] for i in exclude],
            )
            where = f"{word}@{k}, belief {seed}"
            launch = tuple(sorted(int(name[1:]) for name in choice.launch))
            assert launch in launches, where
            least = least_loss(word, k, values.tolist(), launches)
            assert choice.expected_loss == pytest.approx(least, abs=1e-12), where
    assert tried > 15 / every
