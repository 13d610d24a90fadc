"""The Bayes-optimal ranking against Monte Carlo, brute force and pencil and paper."""

from itertools import permutations
from math import exp, lgamma

import numpy as np
import pytest
from scipy import stats

from bayesdice_ppl import risk, scores
from bayesdice_ppl.baselines.bayesian.bayes_optimal import (
    ArmComparison,
    bayes_optimal_ranking,
    compare_arms,
    expected_losses,
)
from bayesdice_ppl.errors import ScoreError, SettingsError

PROBABILITIES = np.array([0.3, 0.9, 0.1, 0.75])
RANKINGS = np.array(list(permutations(range(4))))


def plain_precision(order, ranking, values, k):
    return 1.0 - len(set(order[:k]) & set(ranking[:k])) / k


def plain_accuracy(order, ranking, values, k):
    return 1.0 - sum(order[i] == ranking[i] for i in range(k)) / k


def plain_regret(order, ranking, values, k):
    return max(values) - max(values[i] for i in ranking[:k])


def plain_correlation(order, ranking, values, k):
    places = [list(ranking).index(policy) + 1 for policy in order[:k]]
    return 1.0 - np.corrcoef(np.arange(1, k + 1), places)[0, 1]


CASES = [
    (scores.precision(2), plain_precision, 2),
    (scores.accuracy(3), plain_accuracy, 3),
    (scores.regret(1), plain_regret, 1),
    (scores.regret(2), plain_regret, 2),
    (scores.correlation(2), plain_correlation, 2),
    (scores.correlation(4), plain_correlation, 4),
]


def choose(n, k):
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def greater(a, b, c, d):
    """P(Beta(a, b) > Beta(c, d)) of whole parameters, a sum over orders of uniform variables.

    Beta(a, b) is the a-th of a + b - 1 uniforms: count how many of the other sample lie below it.
    """
    m, n = a + b - 1, c + d - 1
    # In the joint order, j of the other n lie below the a-th of m: hypergeometric waiting time.
    terms = [
        exp(choose(a - 1 + j, j) + choose(m - a + n - j, n - j) - choose(m + n, n))
        for j in range(c, n + 1)
    ]
    return sum(terms)


@pytest.mark.parametrize(
    ("wins", "pulls"),
    [
        ((3, 5), (10, 10)),
        ((0, 7), (0, 9)),
        ((600, 40), (2000, 100)),
        ((1, 30), (2, 40)),
        ((2, 2), (5, 5)),
    ],
)
def test_closed_form_for_whole_counts(wins, pulls):
    a, c = (1 + w for w in wins)
    b, d = (1 + n - w for n, w in zip(pulls, wins, strict=True))
    found = compare_arms(wins, pulls)
    exact = greater(a, b, c, d)
    assert found.first_better == pytest.approx(exact, rel=1e-8)
    assert found.second_better == pytest.approx(greater(c, d, a, b), rel=1e-8)
    # E[p 1(p > q)] is the mean of p times the probability under the density weighted by p.
    mean, other = a / (a + b), c / (c + d)
    excess = mean * greater(a + 1, b, c, d) - other * greater(a, b, c + 1, d)
    assert found.first_excess == pytest.approx(excess, rel=1e-7)
    assert found.first_excess - found.second_excess == pytest.approx(mean - other, abs=1e-10)


def test_real_parameters_against_draws():
    rng, n = np.random.default_rng(0), 100_000
    found = compare_arms((3, 5), (10, 11), prior=(0.5, 1.7))
    gap = rng.beta(3.5, 8.7, n) - rng.beta(5.5, 7.7, n)
    samples = [gap > 0, gap < 0, np.maximum(gap, 0), np.maximum(-gap, 0)]
    for exact, sample in zip(found, samples, strict=True):
        assert abs(exact - np.mean(sample)) < 4.5 * np.std(sample) / np.sqrt(n)


@pytest.mark.parametrize(("wins", "pulls"), [((3, 4), (3, 4)), ((0, 0), (1, 0)), ((5, 0), (5, 2))])
@pytest.mark.parametrize("prior", [(0.02, 0.02), (0.05, 0.3)])
def test_arms_that_always_or_never_paid_under_a_small_prior(wins, pulls, prior):
    # Log odds of Beta variables from gamma ones, log G(a + 1) + log(U) / a, which never underflow.
    rng, n, (a, b) = np.random.default_rng(2), 200_000, prior
    found = compare_arms(wins, pulls, prior)
    first, second = (
        sum(
            sign * (np.log(rng.standard_gamma(c + 1, n)) - rng.standard_exponential(n) / c)
            for sign, c in ((1, a + w), (-1, b + m - w))
        )
        for w, m in zip(wins, pulls, strict=True)
    )
    odds = first - second
    sample = np.mean(odds > 0)
    error = np.sqrt(found.first_better * found.second_better / n)
    assert abs(found.first_better - sample) < 4.5 * error
    mirrored = compare_arms(wins[::-1], pulls[::-1], prior)
    assert found.first_better + mirrored.first_better == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("priors", [(0.02, 0.02), (1.0, 1.0), (50.0, 3.0)])
def test_arms_with_the_same_data(priors):
    found = compare_arms((2, 2), (5, 5), priors)
    assert found[:2] == (0.5, 0.5)
    assert found.first_excess == found.second_excess > 0.0


@pytest.mark.parametrize(("score", "plain", "k"), CASES)
@pytest.mark.parametrize(("wins", "pulls"), [((3, 5), (10, 12)), ((8, 2), (10, 4))])
def test_monte_carlo_and_brute_force(score, plain, k, wins, pulls):
    rng, n = np.random.default_rng(1), 100_000
    first, second = (rng.beta(1 + w, 1 + m - w, n) for w, m in zip(wins, pulls, strict=True))
    # Two orders are possible, and within each every loss is a multiple of |p_1 - p_2| or constant.
    means, errors = np.zeros(24), np.zeros(24)
    gap = np.abs(first - second) if plain is plain_regret else np.ones(n)
    losses = np.zeros((24, n))
    for up in (True, False):
        line = PROBABILITIES if up else -PROBABILITIES
        order = sorted(range(4), key=lambda j: -line[j])
        for i, ranking in enumerate(RANKINGS):
            losses[i] += ((first > second) == up) * gap * plain(order, ranking, line, k)
    means, errors = losses.mean(axis=1), losses.std(axis=1) / np.sqrt(n)
    exact = expected_losses(compare_arms(wins, pulls), PROBABILITIES, score, RANKINGS)
    assert np.all(np.abs(exact - means) <= 4.5 * errors + 1e-12)
    found = bayes_optimal_ranking(wins, pulls, PROBABILITIES, score)
    assert found.expected_loss == pytest.approx(exact.min(), abs=1e-12)
    at = RANKINGS.tolist().index(found.ranking.tolist())
    assert exact[at] == pytest.approx(exact.min(), abs=1e-12)
    # By the draws alone no ranking is better, as far as they can tell.
    assert means[at] <= means.min() + 4.5 * (errors[at] + errors[np.argmin(means)]) + 1e-12


def plain_normalized_regret(order, ranking, values, k):
    return plain_regret(order, ranking, values, k) / (max(values) - min(values))


def plain_ndcg(order, ranking, values, k):
    def gained(listed):
        return sum((values[j] - min(values)) / np.log2(2 + i) for i, j in enumerate(listed[:k]))

    return 1.0 - gained(ranking) / gained(order)


def plain_spearman(order, ranking, values, k):
    return 1.0 - stats.spearmanr([list(ranking).index(j) for j in order], range(4)).statistic


def plain_kendall(order, ranking, values, k):
    return 1.0 - stats.kendalltau([list(ranking).index(j) for j in order], range(4)).statistic


@pytest.mark.parametrize(
    ("score", "plain", "k"),
    [
        *CASES,
        (scores.normalized_regret(1), plain_normalized_regret, 1),
        (scores.ndcg(3), plain_ndcg, 3),
        (scores.spearman(), plain_spearman, 4),
        (scores.kendall(), plain_kendall, 4),
    ],
)
@pytest.mark.parametrize(("first", "second"), [(0.8, 0.3), (0.15, 0.6)])
def test_arms_that_are_known_have_the_losses_of_the_values(score, plain, k, first, second):
    values = PROBABILITIES * first + (1.0 - PROBABILITIES) * second
    order = sorted(range(4), key=lambda j: -values[j])
    up, gap = float(first > second), first - second
    known = ArmComparison(up, 1.0 - up, max(gap, 0.0), max(-gap, 0.0))
    exact = [plain(order, ranking.tolist(), values, k) for ranking in RANKINGS]
    found = expected_losses(known, PROBABILITIES, score, RANKINGS)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)


def test_the_extremes_are_never_regretted():
    # One of the two extremes is the best whichever arm is.
    found = bayes_optimal_ranking((2, 2), (5, 5), PROBABILITIES, scores.regret(2))
    assert set(found.ranking[:2].tolist()) == {1, 2}
    assert found.expected_loss == 0.0


def test_a_coin_toss():
    # Both orders are as likely: the first place is right half of the time, and a rank correlation
    # is on average 0 whatever the ranking.
    found = bayes_optimal_ranking((2, 2), (5, 5), PROBABILITIES, scores.precision(1))
    assert found.expected_loss == pytest.approx(0.5, abs=1e-12)
    assert found.ranking[0] in (1, 2)
    same = compare_arms((2, 2), (5, 5))
    losses = expected_losses(same, PROBABILITIES, scores.spearman(), RANKINGS)
    assert np.allclose(losses, 1.0, rtol=0, atol=1e-12)
    # Regret of the lone choice j: half of E|p_1 - p_2| times its distance from either end.
    one = bayes_optimal_ranking((2, 2), (5, 5), PROBABILITIES, scores.regret(1))
    assert one.expected_loss == pytest.approx(0.8 * same.first_excess, rel=1e-9)


def test_no_doubt_is_left():
    # The second arm is better for certain, so that the one who pulls it most is the best.
    found = bayes_optimal_ranking((5, 950), (1000, 1000), PROBABILITIES, scores.accuracy(4))
    assert found.ranking.tolist() == [2, 0, 3, 1]
    assert found.expected_loss == pytest.approx(0.0, abs=1e-12)


def test_ties_and_what_lies_past_the_depth():
    # Candidates 0 and 2 are one policy: half of the time the wrong one of them is listed.
    probabilities = np.array([0.8, 0.1, 0.8])
    found = bayes_optimal_ranking((900, 1), (1000, 1000), probabilities, scores.accuracy(2))
    assert found.ranking.tolist() == [0, 2, 1]
    assert found.expected_loss == pytest.approx(0.5, abs=1e-9)
    short = bayes_optimal_ranking((900, 1), (1000, 1000), PROBABILITIES, scores.precision(1))
    assert short.ranking.tolist() == [1, 3, 0, 2]


def test_what_does_not_suit_is_refused():
    ask = (3, 5), (10, 10), PROBABILITIES
    with pytest.raises(ScoreError, match="without a risk, found"):
        bayes_optimal_ranking(*ask, scores.custom(lambda values, ranking: values[:, 0]))
    with pytest.raises(ScoreError, match="without a risk, found"):
        bayes_optimal_ranking(*ask, scores.regret(1, risk=risk.cvar(0.1)))
    with pytest.raises(ScoreError, match="at least 5"):
        bayes_optimal_ranking(*ask, scores.regret(5))
    with pytest.raises(SettingsError, match="at most 100,000 rankings"):
        bayes_optimal_ranking((3, 5), (10, 10), np.linspace(0, 1, 12), scores.kendall())
    with pytest.raises(SettingsError, match="more wins"):
        compare_arms((11, 5), (10, 10))
    with pytest.raises(SettingsError, match="two arms"):
        compare_arms((1, 5, 3), (10, 10, 4))
    with pytest.raises(SettingsError, match=r"prior: expected two numbers of at least 0\.02"):
        compare_arms((3, 5), (10, 10), (0.01, 1.0))
    with pytest.raises(SettingsError, match="probabilities"):
        bayes_optimal_ranking((3, 5), (10, 10), np.array([0.5, 1.5]), scores.regret(1))
