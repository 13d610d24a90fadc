"""The report's numbers against SciPy and plain loops."""

import numpy as np
import pytest
from scipy import stats

from bayesdice_ppl.policies.cloning.gaussians import Gaussians
from bayesdice_ppl.policies.cloning.report import (
    calibration_error,
    rank_groups,
    report_labels,
    report_vectors,
    shares_chi_square,
    uniform_distance,
)
from bayesdice_ppl.policies.cloning.split import Folds, mean_and_error

RNG = np.random.default_rng(0)
N = 600
UNIT = np.arange(N) // 6
FOLDS = Folds(UNIT % 5, UNIT, 5, True)


def normal_law(mean, sd):
    return Gaussians(np.zeros((N, 1)), mean[:, None], np.broadcast_to(sd, mean.shape)[:, None])


def test_the_distance_is_scipys():
    values = RNG.random(500) ** 1.1
    assert uniform_distance(values) == pytest.approx(stats.kstest(values, "uniform").statistic)


def test_densities_and_distributions_are_scipys():
    weight = RNG.dirichlet([1.0, 2.0], size=N)
    mean, sd = RNG.normal(size=(N, 2, 3)), RNG.uniform(0.5, 2.0, (N, 2, 3))
    action = RNG.normal(size=(4, N, 3))
    law = Gaussians(np.log(weight), mean, sd)
    each = stats.norm.pdf(action[:, :, None], mean, sd).prod(axis=-1)
    np.testing.assert_allclose(law.log_density(action), np.log((weight * each).sum(-1)))
    below = stats.norm.cdf(action[0][:, None], mean, sd)
    np.testing.assert_allclose(law.distribution(action[0]), (weight[..., None] * below).sum(1))


def test_vectors_in_numbers():
    mean = RNG.normal(size=(N, 2))
    action = mean + RNG.normal(size=(N, 2)) * [0.5, 2.0]
    groups = [rank_groups(mean[:, 0], 10)]
    found = report_vectors("linear", normal_law(mean, np.array([0.5, 2.0])), action, groups, FOLDS)
    log_prob = stats.norm.logpdf(action, mean, [0.5, 2.0]).sum(axis=1)
    assert found.log_likelihood == pytest.approx(log_prob.mean())
    by_episode = log_prob.reshape(-1, 6).mean(axis=1)
    assert found.standard_error == pytest.approx(stats.sem(by_episode))
    constant = np.zeros(N)
    for k in range(5):
        held = k == UNIT % 5
        seen = action[~held]
        constant[held] = stats.norm.logpdf(
            action[held], seen.mean(axis=0), seen.std(axis=0, ddof=1)
        ).sum(axis=1)
    assert found.constant_log_likelihood == pytest.approx(constant.mean())
    assert found.gain_error == pytest.approx(
        stats.sem((log_prob - constant).reshape(-1, 6).mean(1))
    )
    below = stats.norm.cdf(action, mean, [0.5, 2.0])
    worst = max(stats.kstest(each, "uniform").statistic for each in below.T)
    assert found.calibration == pytest.approx(worst)
    assert stats.kstwobign.sf(found.calibration_limit * np.sqrt(N)) == pytest.approx(0.005, rel=0.1)
    assert np.isnan(found.chi_square)
    assert (found.region_error, found.repeated, found.poor) == (0.0, 0.0, False)


def test_errors_by_region():
    x = RNG.normal(size=N)
    mean = np.zeros((N, 1))
    group = rank_groups(x, 10)
    assert np.bincount(group).tolist() == [60] * 10
    shifted = (np.where(x > 0.0, 0.5, -0.5) + RNG.normal(size=N))[:, None]
    found = report_vectors("linear", normal_law(mean, 1.0), shifted, [group], FOLDS)
    assert 0.3 < found.region_error < 0.5 + 5.0 * np.sqrt(1.0 / N)
    assert "standard deviations in parts of the state space" in found.sentence
    louder = (np.where(x > 0.0, 2.0, 1.0) * RNG.normal(size=N))[:, None]
    assert report_vectors("linear", normal_law(mean, 1.0), louder, [group], FOLDS).poor


def label_case(seed, n=2_000):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([3.0, 2.0, 1.0], size=n)
    return p, (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def test_calibration_error_in_a_loop():
    p, action = label_case(1)
    best = p.max(axis=1)
    order = np.argsort(best)
    right = p.argmax(axis=1) == action
    by_hand = sum(
        abs(right[rows].mean() - best[rows].mean()) * len(rows) / len(p)
        for rows in np.split(order, 10)
    )
    error, _ = calibration_error(p, action)
    assert error == pytest.approx(by_hand)
    pairs = [calibration_error(*label_case(s)) for s in range(400)]
    over = [error > limit for error, limit in pairs]
    assert sum(over) <= stats.binom.ppf(1.0 - 1e-5, 400, 0.01)


def test_chi_square_of_one_group_is_pearsons():
    share = np.array([0.5, 0.3, 0.2])
    action = np.repeat([0, 1, 2], [40, 35, 25])
    found, degrees = shares_chi_square(np.tile(share, (100, 1)), action)
    exact = stats.chisquare([40, 35, 25], 100 * share)
    assert (found, degrees) == (pytest.approx(exact.statistic), 2)


def test_chi_square_follows_its_law():
    found = [shares_chi_square(*label_case(s, 1_000)) for s in range(300)]
    assert {degrees for _, degrees in found} == {20}
    p_values = stats.chi2.sf([statistic for statistic, _ in found], 20)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-5


def test_labels_in_numbers():
    p, action = label_case(3, N)
    groups = [rank_groups(p[:, 0], 10)]
    found = report_labels("linear", p, action, groups, FOLDS)
    each = np.log(p[np.arange(N), action])
    assert found.log_likelihood == pytest.approx(each.mean())
    assert found.standard_error == pytest.approx(stats.sem(each.reshape(-1, 6).mean(axis=1)))
    share = np.bincount(action) / N
    constant = np.zeros(N)
    for k in range(5):
        held = k == UNIT % 5
        seen = np.bincount(action[~held], minlength=3)
        constant[held] = np.log((seen + share) / (seen.sum() + 1.0))[action[held]]
    assert found.constant_log_likelihood == pytest.approx(constant.mean())
    assert not found.poor
    blind = report_labels("linear", np.tile(share, (N, 1)), action, groups, FOLDS)
    assert blind.poor
    assert "in parts of the state space" in blind.sentence


def test_mean_and_error_of_unequal_units():
    values, unit = np.array([1.0, 2.0, 6.0]), np.array([0, 0, 1])
    mean, error = mean_and_error(values, unit)
    assert mean == 3.0
    # Sums of deviations -3 and 3, times m / (m - 1) = 2, over n^2 = 9.
    assert error == pytest.approx(np.sqrt(2.0 * 18.0) / 3.0)
