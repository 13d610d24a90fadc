"""Posteriors of mean rewards of a known kind, and logs that are of another."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import beta, gamma

from bayesdice_ppl import Prior
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.logs import RewardUnits
from bayesdice_ppl.moments import KnownMeans, PairRewards, check_rewards, pair_rewards
from bayesdice_ppl.moments.known_rewards import Bounded, reward_kind

WON, VISITS = np.array([3.0, 0.0, 7.0]), np.array([12.0, 5.0, 7.0])


def two_valued(kind, prior=0.5):
    rate = WON / VISITS
    return kind.means(PairRewards(VISITS, rate, VISITS * rate * (1.0 - rate)), prior)


@pytest.mark.parametrize("given", ["binary", (0, 1)])
def test_two_values_have_jeffreys_betas(given):
    found = two_valued(reward_kind(given))
    exact = beta(WON + 0.5, VISITS - WON + 0.5)
    mean, variance, skewness = exact.stats("mvs")
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.variance, variance)
    np.testing.assert_allclose(found.third, skewness * variance**1.5)
    # Their spread follows from their mean, and is not estimated.
    np.testing.assert_allclose(found.estimated, 0.0, atol=1e-12)


def test_poisson_counts_have_jeffreys_gammas():
    # No pair varies more than its mean says.
    found = reward_kind("counts").means(PairRewards(VISITS, WON / VISITS, 0.5 * WON))
    exact = gamma(WON + 0.5, scale=1.0 / VISITS)
    mean, variance, skewness = exact.stats("mvs")
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.variance, variance)
    np.testing.assert_allclose(found.third, skewness * variance**1.5)
    assert not found.estimated.any()


def test_counts_that_vary_more_are_as_much_wider():
    sure = np.array([40.0]), np.array([5.0])
    found = reward_kind("counts").means(PairRewards(*sure, np.array([3.0 * 5.0 * 39.0])))
    assert found.mean[0] == pytest.approx((200.0 / 3.0 + 0.5) * 3.0 / 40.0)
    assert found.variance[0] == pytest.approx((200.0 / 3.0 + 0.5) * (3.0 / 40.0) ** 2)
    assert found.estimated[0] == 1.0


def test_bounded_rewards_have_the_variance_of_their_mean():
    reward = np.random.default_rng(0).uniform(size=4000)
    found = KnownMeans(reward_kind((0, 1)), pair_rewards(np.zeros(4000, dtype=int), reward, 1))
    posterior = found.posterior(np.ones(1))
    assert posterior.variance[0] == pytest.approx(reward.var() / 4000, rel=2e-3)
    assert posterior.estimated[0] == pytest.approx(2.0 / 3.0, abs=0.02)


@pytest.mark.parametrize("given", ["binary", "counts"])
def test_distribution_and_quantiles_are_each_others_inverse(given):
    found = two_valued(reward_kind(given).into(RewardUnits(center=2.0, scale=4.0)))
    scores = np.array([-6.0, -1.0, 0.0, 2.0, 6.0])
    for pair in range(3):
        share = found.below(pair, found.at(pair, scores))
        np.testing.assert_allclose(share, ndtr(scores), rtol=1e-6)


@pytest.mark.parametrize("given", ["binary", "counts", (-1, 3)])
def test_units_move_the_posterior_and_nothing_else(given):
    units = RewardUnits(origin=0.5, center=-2.0, scale=3.0)
    kind, reward = reward_kind(given), np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    pair = np.array([0, 0, 0, 1, 1])
    share = np.array([0.3, 0.7])
    plain = KnownMeans(kind, pair_rewards(pair, reward, 2)).posterior(share)
    moved = KnownMeans(kind.into(units), pair_rewards(pair, units.into(reward), 2)).posterior(share)
    np.testing.assert_allclose(units.back(moved.mean), plain.mean)
    np.testing.assert_allclose(moved.variance * 9.0, plain.variance)
    np.testing.assert_allclose(moved.third * 27.0, plain.third, atol=1e-12)
    assert kind.into(units).flat == kind.flat


def test_the_prior_s_successes_are_shared_by_the_pairs():
    found = KnownMeans(
        reward_kind("binary"), pair_rewards(np.repeat(np.arange(4), 10), np.zeros(40), 4)
    )
    np.testing.assert_allclose(found.posterior(np.full(4, 0.25)).won, 0.5 / 4.0)
    np.testing.assert_allclose(found.posterior(np.eye(4)[1]).won, 0.5)


@pytest.mark.parametrize(
    ("given", "reward", "row"),
    [("binary", [0, 1, 0.5], 3), ("counts", [2, -1, 1], 2), ((0, 5), [6, 1], 1)],
)
def test_a_reward_of_another_kind_is_named_by_its_row(given, reward, row):
    with pytest.raises(LogsError, match=f"row {row}, column 'reward'"):
        check_rewards(reward_kind(given), np.array(reward, dtype=float))


def test_kinds_are_read_from_what_users_write():
    assert Prior(rewards=[0, 5]).rewards == Bounded(0.0, 5.0)
    assert Prior().rewards is None
    assert Prior(rewards="binary") != Prior(rewards=(0, 1))


@pytest.mark.parametrize("given", ["Poisson", (1, 0), (0, 1, 2), 5, (0, np.inf)])
def test_other_kinds_are_refused(given):
    with pytest.raises(SettingsError, match=r"prior\.rewards: expected"):
        Prior(rewards=given)
