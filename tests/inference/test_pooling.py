"""Pooled means against integrals over all unknowns, and their limits."""

import numpy as np
import pytest
from scipy import stats

from bayesdice_ppl.inference import pooled_means

VISITS = np.array([30.0, 6.0, 12.0])
MEAN = np.array([0.6, -0.3, 0.2])
SCATTER = np.array([31.0, 4.0, 13.0])


def noise():
    pool = SCATTER.sum() / (VISITS - 1.0).sum()
    return (SCATTER + 10.0 * pool) / (VISITS + 9.0) / VISITS, np.sqrt(pool)


def by_integration():
    """Posterior means and variances by sums over grids of center, log scale and each mean."""
    variance, sd = noise()
    center = np.linspace(-3.0, 4.0, 141)
    effect = np.linspace(-6.0, 7.0, 1_301)
    log_scale = np.linspace(np.log(0.01 * sd), np.log(10.0 * sd), 31)
    total = np.zeros(7)
    likelihood = stats.norm.pdf(MEAN[:, None], effect, np.sqrt(variance)[:, None])
    for scale in np.exp(log_scale):
        prior = stats.cauchy.pdf(effect, center[:, None], scale)
        moments = [
            np.trapezoid(likelihood[:, None] * prior * effect**k, effect, axis=2) for k in range(3)
        ]
        mass = moments[0].prod(axis=0)
        first = mass * moments[1] / moments[0]
        second = mass * moments[2] / moments[0]
        parts = [mass, *first, *second]
        total += scale * np.array([np.trapezoid(part, center) for part in parts])
    mean = total[1:4] / total[0]
    return mean, total[4:] / total[0] - mean**2


def test_means_are_those_of_the_integrals():
    found = pooled_means(np.zeros(3, int), VISITS, MEAN, SCATTER)
    mean, variance = by_integration()
    # Eight normals stand for the Cauchy law, and 31 scales for all.
    sd = np.sqrt(variance)
    np.testing.assert_allclose(found.mean, mean, atol=0.1 * sd.min())
    np.testing.assert_allclose(np.sqrt(np.diagonal(found.covariance)), sd, rtol=0.07)


def test_states_share_nothing_but_the_scale():
    state = np.repeat([4, 9], 3)
    visits, scatter = np.tile(VISITS, 2), np.tile(SCATTER, 2)
    mean = np.r_[MEAN, MEAN + 100.0]
    found = pooled_means(state, visits, mean, scatter)
    np.testing.assert_allclose(found.mean[3:], found.mean[:3] + 100.0, atol=1e-8)
    moved = pooled_means(state[::-1], visits[::-1], mean[::-1], scatter[::-1])
    np.testing.assert_allclose(moved.mean, found.mean[::-1], atol=1e-8)
    np.testing.assert_allclose(moved.covariance, found.covariance[::-1, ::-1], atol=1e-8)


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_units_of_the_reward_do_not_matter(scale):
    state = np.zeros(3, int)
    one = pooled_means(state, VISITS, MEAN, SCATTER)
    other = pooled_means(state, VISITS, scale * MEAN + 5.0, scale**2 * SCATTER)
    np.testing.assert_allclose(other.mean, scale * one.mean + 5.0, atol=1e-7 * max(scale, 1.0))
    np.testing.assert_allclose(other.covariance, scale**2 * one.covariance, rtol=1e-6)


def test_many_visits_are_left_alone():
    visits = np.full(3, 1e6)
    found = pooled_means(np.zeros(3, int), visits, MEAN, visits - 1.0)
    np.testing.assert_allclose(found.mean, MEAN, atol=2e-4)
    np.testing.assert_allclose(np.diagonal(found.covariance), 1e-6, rtol=1e-2)


def test_one_action_in_a_state_keeps_its_mean():
    found = pooled_means(np.array([0, 1]), np.array([9.0, 4.0]), np.array([1.0, 3.0]), np.ones(2))
    np.testing.assert_allclose(found.mean, [1.0, 3.0], atol=1e-6)


def test_rewards_without_noise_are_exact():
    found = pooled_means(np.zeros(2, int), np.array([5.0, 3.0]), np.array([1.0, 2.0]), np.zeros(2))
    np.testing.assert_array_equal(found.mean, [1.0, 2.0])
    np.testing.assert_array_equal(found.covariance, 0.0)


def test_posteriors_cover_under_thompson_sampling():
    """Means drawn from the prior: the posterior of a sum of them covers whatever the policy did."""
    rng, n_logs, n_actions = np.random.default_rng(3), 200, 5
    levels = np.array([0.5, 0.8, 0.9, 0.95])
    target = np.array([0.1, 0.3, 0.2, 0.25, 0.15])
    true = 0.3 * rng.standard_cauchy(size=(n_logs, n_actions)).clip(-4, 4)
    logs = np.arange(n_logs)
    count, total, square = np.zeros((3, n_logs, n_actions))
    for _ in range(200):
        drawn = total / (count + 1.0) + rng.normal(size=count.shape) / np.sqrt(count + 1.0)
        action = drawn.argmax(axis=1)
        reward = true[logs, action] + rng.normal(size=n_logs)
        count[logs, action] += 1
        total[logs, action] += reward
        square[logs, action] += reward**2
    inside = []
    for i in logs:
        seen = count[i] > 0
        visits, mean = count[i, seen], total[i, seen] / count[i, seen]
        scatter = square[i, seen] - visits * mean**2
        found = pooled_means(np.zeros(seen.sum(), int), visits, mean, scatter)
        weight = target[seen] / target[seen].sum()
        error = weight @ (found.mean - true[i, seen])
        score = abs(error) / np.sqrt(weight @ found.covariance @ weight)
        inside.append(score < stats.norm.ppf(0.5 + levels / 2))
    error = np.sqrt(levels * (1 - levels) / n_logs)
    # Two points for a normal law in place of the posterior, and a prior that is cut at 4.
    assert np.all(np.abs(np.mean(inside, axis=0) - levels) < 4.0 * error + 0.02)
