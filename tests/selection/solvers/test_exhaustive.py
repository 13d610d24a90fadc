"""Exhaustive search against algorithm OfflineSelect written out literally."""

from itertools import islice, permutations

import numpy as np
import pytest

from bayesdice_ppl import scores
from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import no_rules
from bayesdice_ppl.selection.solvers import exhaustive
from tests.marks import every_fifth
from tests.selection.literal import loss as loss_of
from tests.selection.literal import random_draws, true_orders

WORDS = ["precision", "accuracy", "regret", "correlation"]
# Sizes of the 100 random beliefs: 720 rankings each for the last.
SIZES = [1] * 3 + [2] * 12 + [3] * 22 + [4] * 30 + [5] * 26 + [6] * 7


def search(values, score, preference, max_evaluations=None):
    """Number the policies by preference, search, and number them back."""
    problem = RankingProblem(values, score, no_rules(len(preference))).permuted(list(preference))
    found = exhaustive.search(problem, max_evaluations)
    second = found.runner_up
    return found._replace(
        prefix=tuple(preference[list(found.prefix)]),
        runner_up=None if second is None else tuple(preference[list(second)]),
    )


def offline_select(word, k, rows):
    """OfflineSelect: every permutation, every draw; ties by mean, then index.

    Returns the best ranking, its loss and the lowest loss of another class of rankings (those
    that share what the score looks at).
    """
    n = len(rows[0])
    truths = [true_orders(row) for row in rows]
    means = [sum(column) for column in zip(*rows, strict=True)]
    preferred = sorted(range(n), key=lambda i: (-means[i], i))
    best, best_loss, classes = None, float("inf"), {}
    for ranking in permutations(preferred):
        total = 0.0
        for row, orders in zip(rows, truths, strict=True):
            loss = sum(loss_of(word, k, row, truth, ranking) for truth in orders)
            total += loss / len(orders)
        mean = total / len(rows)
        if mean < best_loss - 1e-10:
            best, best_loss = list(ranking), mean
        key = {"accuracy": ranking[:k], "correlation": ranking}.get(word, frozenset(ranking[:k]))
        classes[key] = mean
    others = sorted(classes.values())[1:]
    return best, best_loss, (others[0] if others else None), len(classes)


@every_fifth
@pytest.mark.parametrize("word", WORDS)
def test_finds_what_the_paper_s_algorithm_finds(word, every):
    for seed, n in islice(enumerate(SIZES), 0, None, every):
        values = random_draws(seed, n)
        means = values.sum(axis=0)
        preference = sorted(range(n), key=lambda i: (-means[i], i))
        for k in range(2 if word == "correlation" else 1, n + 1):
            score = getattr(scores, word)(k)
            found = search(values, score, np.array(preference))
            order = [*found.prefix, *(i for i in preference if i not in found.prefix)]
            best, loss, second, tried = offline_select(word, k, values.tolist())
            where = f"{word}@{k}, belief {seed}, {n} policies"
            assert order == best, where
            assert found.loss == pytest.approx(loss, abs=1e-12), where
            assert found.evaluated == tried, where
            if second is None:
                assert found.runner_up is None
                assert found.runner_up_loss is None
            else:
                assert found.runner_up_loss == pytest.approx(second, abs=1e-12), where
                per_draw = score.losses(values, np.array([found.runner_up]))
                assert per_draw.mean() == pytest.approx(second, abs=1e-12)


def test_a_callable_finds_the_same_as_the_built_in_score():
    for seed, n in [(1, 3), (2, 4), (3, 5), (9, 4)]:
        values = random_draws(seed, n)
        preference = np.argsort(-values.sum(axis=0), kind="stable")
        own = scores.custom(
            lambda v, r: v.max(axis=1) - np.maximum(v[:, r[0]], v[:, r[1]]), depth=2
        )
        built_in, called = (search(values, score, preference) for score in (scores.regret(2), own))
        assert set(called.prefix) == set(built_in.prefix)
        assert called.loss == pytest.approx(built_in.loss, abs=1e-12)
        assert called.evaluated == n * (n - 1)


def test_results_do_not_depend_on_chunks(monkeypatch):
    from bayesdice_ppl.scores import forms, rank_correlations

    values = random_draws(5, 6)
    preference = np.argsort(-values.sum(axis=0), kind="stable")
    some = [scores.regret(3), scores.accuracy(3), scores.correlation(3), scores.precision(3)]
    whole = [search(values, score, preference) for score in some]
    monkeypatch.setattr(exhaustive, "_CHUNK", 7)
    monkeypatch.setattr(forms, "CHUNK", 16)
    monkeypatch.setattr(rank_correlations, "CHUNK", 16)
    for found, score in zip(whole, some, strict=True):
        again = search(values, score, preference)
        assert again.prefix == found.prefix
        assert again.runner_up == found.runner_up
        assert again.loss == pytest.approx(found.loss, abs=1e-15)


def test_policies_that_are_all_equal_are_listed_by_preference():
    values = np.zeros((3, 5))
    preference = np.array([3, 1, 4, 0, 2])
    for word in WORDS:
        found = search(values, getattr(scores, word)(3), preference)
        assert found.prefix == tuple(preference[: len(found.prefix)])


def test_too_many_rankings_is_an_error_that_says_what_to_do():
    values = np.zeros((2, 34))
    for score in (scores.accuracy(8), scores.regret(17), scores.correlation(2)):
        with pytest.raises(ScoreError, match=r"at most max_evaluations = 2,000,000 .* Leave out"):
            search(values, score, np.arange(34))
    own = scores.custom(lambda v, r: v[:, 0])
    with pytest.raises(
        ScoreError, match=r"max_evaluations = 50,000 rankings to try, found 362,880"
    ):
        search(values[:, :9], own, np.arange(9))
    with pytest.raises(ScoreError, match="max_evaluations = 5 sets to try, found 6"):
        search(values[:, :4], scores.regret(2), np.arange(4), max_evaluations=5)
    assert search(values[:, :4], scores.regret(2), np.arange(4), max_evaluations=6).evaluated == 6


def test_a_score_that_does_not_fit_is_refused():
    with pytest.raises(ScoreError, match="expected at least 3 candidates"):
        search(np.zeros((2, 2)), scores.precision(3), np.arange(2))
