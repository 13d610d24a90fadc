"""Values of known kinds of reward, and by empirical likelihood, from the log to the draws."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import beta, gamma

import bayesdice_ppl as bd
from bayesdice_ppl.constraint.empirical_likelihood import likelihood_curve
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.fitting.statistics import count_statistics
from bayesdice_ppl.inference.shapes import _items
from bayesdice_ppl.inference.sums import Rest, sum_curve
from bayesdice_ppl.moments import KnownMeans, PairRewards, pair_rewards
from bayesdice_ppl.moments.known_rewards import reward_kind
from bayesdice_ppl.statistics import cvar, mean, quantile

DRAWS = 4000
SHARES = np.array([0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975])
WIDE = {"ratio_sd": 1e4, "value_sd": 1e4}


def believed(action, reward, policy, *, rewards=None, law="skewed", draws=DRAWS, **more):
    """The values of one policy on a bandit, and the belief."""
    frame = pl.DataFrame({"state": 0, "action": action, "reward": np.asarray(reward, dtype=float)})
    belief = bd.fit(
        bd.Logs.from_dataframe(frame, actions=range(len(policy))),
        {"it": bd.TabularPolicy([policy])},
        gamma=0.0,
        rng_key=jax.random.key(1),
        draws=draws,
        inference="exact",
        prior=bd.Prior(**WIDE, rewards=rewards),
        constraint=bd.Constraint(value_law=law),
        **{"cluster": "transition", **more},
    )
    return belief["posterior/value"].to_numpy().ravel(), belief


def off(share, of=DRAWS, other=np.inf):
    """Difference from the nominal shares, in Monte Carlo standard errors."""
    error = np.sqrt(SHARES * (1.0 - SHARES) * (1.0 / of + 1.0 / other))
    return np.abs(share - SHARES) / error


@pytest.mark.parametrize(("n", "won"), [(12, 3), (25, 1), (25, 25)])
def test_one_arm_of_zeros_and_ones_has_jeffreys_beta(n, won):
    reward = np.arange(n) < won
    if won == n:
        # Rewards that are all equal have no unit; one other arm gives it, which is not taken.
        action, reward = np.r_[np.zeros(n, dtype=int), 1], np.r_[reward, False]
        value, _ = believed(action, reward, [1.0, 0.0], rewards="binary")
    else:
        value, _ = believed(np.zeros(n, dtype=int), reward, [1.0], rewards="binary")
    share = beta(won + 0.5, n - won + 0.5).cdf(np.quantile(value, SHARES))
    assert off(share).max() < 4.5


def test_one_arm_of_counts_has_jeffreys_gamma():
    reward = np.array([0, 1, 1, 0, 1, 2, 0, 1, 1, 1, 1, 1])
    value, belief = believed(np.zeros(12, dtype=int), reward, [1.0], rewards="counts")
    share = gamma(reward.sum() + 0.5, scale=1.0 / 12.0).cdf(np.quantile(value, SHARES))
    assert off(share).max() < 4.5
    assert np.isinf(belief["constant_data/degrees_of_freedom"].item())


def test_a_value_of_several_arms_is_a_sum_of_betas():
    policy = np.array([0.2, 0.5, 0.3])
    won, pulls = np.array([14.0, 1.0, 4.0]), np.array([20, 15, 10])
    action = np.repeat(np.arange(3), pulls)
    reward = np.concatenate([np.arange(n) < k for n, k in zip(pulls, won, strict=True)])
    value, _ = believed(action, reward, policy, rewards="binary")
    weight = policy**2 / pulls
    prior = 0.5 * (weight @ weight) / weight.sum() ** 2
    many = 100_000
    rates = np.random.default_rng(0).beta(won + prior, pulls - won + prior, size=(many, 3))
    drawn = np.sort(rates @ policy)
    share = np.searchsorted(drawn, np.quantile(value, SHARES)) / many
    assert off(share, other=many).max() < 4.5


def test_the_lattice_has_the_law_of_a_sum():
    visits, rate = np.array([9.0, 40.0, 15.0]), np.array([0.0, 0.3, 0.9])
    scatter = visits * rate * (1.0 - rate)
    posterior = reward_kind("binary").means(PairRewards(visits, rate, scatter))
    weight, rest = np.array([0.5, -0.2, 0.7]), 0.02
    curve = sum_curve(posterior, weight, Rest(rest**2, 0.0))
    rng, many = np.random.default_rng(2), 400_000
    drawn = rng.beta(posterior.won, posterior.lost, size=(many, 3)) - posterior.mean
    drawn = drawn @ weight + rest * rng.normal(size=many)
    sd = np.sqrt(weight**2 @ posterior.variance + rest**2)
    share = np.searchsorted(np.sort(drawn), sd * curve.at(ndtri(SHARES))) / many
    assert off(share, of=many).max() < 4.5


def test_what_is_added_may_lean():
    posterior = reward_kind("binary").means(PairRewards(np.ones(1), np.zeros(1), np.zeros(1)))
    curve = sum_curve(posterior, np.array([1e-9]), Rest(4.0, 8.0))
    scores = np.array([-2.0, 0.0, 3.0])
    # A Gamma of skewness 1 has the shape 4.
    exact = (gamma(4.0).ppf(ndtr(scores)) - 4.0) / 2.0
    np.testing.assert_allclose(curve.at(scores), exact, atol=2e-3)


def test_rewards_within_bounds_stay_there():
    reward = np.random.default_rng(3).uniform(1.0, 4.0, size=12)
    value, belief = believed(np.zeros(12, dtype=int), reward, [1.0], rewards=(1, 4))
    assert value.min() > 1.0
    assert value.max() < 4.0
    assert '"rewards": [1.0, 4.0]' in belief.attrs["settings"]
    assert 11.0 < belief["constant_data/degrees_of_freedom"].item() < 100.0


def chain(rng, episodes, *, pays):
    """Episodes of 10 steps in two states, where each action moves by a coin."""
    rows = []
    for episode in range(episodes):
        state = int(rng.integers(2))
        for step in range(10):
            action, following = int(rng.integers(2)), int(rng.integers(2))
            reward = float(rng.random() < pays[state][action])
            rows.append((episode, step, state, action, reward, following))
            state = following
    names = ("episode_id", "step", "state", "action", "reward", "next_state")
    return bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))


def test_transitions_keep_their_own_noise():
    policies = {"it": bd.TabularPolicy([[0.8, 0.2], [0.3, 0.7]])}
    found = {}
    for pays in ([[0.0, 0.0], [1.0, 1.0]], [[0.4, 0.6], [0.5, 0.3]]):
        logs = chain(np.random.default_rng(4), 300, pays=pays)
        for rewards in (None, "binary"):
            belief = bd.fit(
                logs,
                policies,
                gamma=0.9,
                rng_key=jax.random.key(0),
                inference="exact",
                cluster="transition",
                prior=bd.Prior(rewards=rewards),
            )
            known = belief["constant_data"]
            found[pays[0][0], rewards] = known["guide_mean"].item(), known["guide_sd"].item()
    for pays in (0.0, 0.4):
        (middle, sd), (told_middle, told_sd) = found[pays, None], found[pays, "binary"]
        # With 3,000 rows the posterior of a rate is the log's, and where rewards follow from the
        # state, all there is to a value is where its steps lead.
        assert told_sd == pytest.approx(sd, rel=0.02)
        assert told_middle == pytest.approx(middle, abs=0.02 * sd)
    assert found[0.0, "binary"][1] > 0.5 * found[0.4, "binary"][1]


def test_empirical_likelihood_has_the_items_that_are_independent(plain):
    rng = np.random.default_rng(5)
    log = [(int(rng.integers(2)), float(rng.exponential())) for _ in range(40)]
    policies = bd.Policies({"a": bd.TabularPolicy([[0.3, 0.7]])})
    found = plain.prepare(plain.bandit(log), policies, gamma=0.0, inference="exact", draws=2)
    rows, problem = found.inputs.cell_rows, found.problem
    error, count = _items(
        problem.cells, problem.pilots, rows, None, 0, by_episode=False, groups=None
    )
    action, reward = (np.array(column) for column in zip(*log, strict=True))
    mean = np.bincount(action, reward) / np.bincount(action)
    weight = np.array([0.3, 0.7]) / np.bincount(action)
    exact = np.sort(weight[action] * (reward - mean[action]))
    # The prior moves the mean reward of an arm a little.
    np.testing.assert_allclose(np.repeat(error, count.astype(int)), exact, atol=1e-2 * exact.max())


def test_draws_by_empirical_likelihood_have_its_quantiles():
    rng = np.random.default_rng(6)
    reward = rng.exponential(size=30)
    value, belief = believed(np.zeros(30, dtype=int), reward, [1.0], law="empirical")
    error = (reward - reward.mean()) / 30.0
    sd = belief["constant_data/guide_sd"].item()
    curve = likelihood_curve(error, np.ones(30), sd**2)
    at = np.interp((np.quantile(value, SHARES) - reward.mean()) / sd, curve.quantile, curve.score)
    from scipy.stats import t

    df = belief["constant_data/degrees_of_freedom"].item()
    assert off(t(df).cdf(at)).max() < 4.5
    assert reward.min() < value.min()
    assert value.max() < reward.max()
    assert '"value_law": "empirical"' in belief.attrs["settings"]


def test_a_quantile_keeps_students_t_and_the_mean_its_likelihood(plain):
    rng = np.random.default_rng(6)
    log = plain.bandit([(int(rng.integers(2)), float(rng.exponential())) for _ in range(60)])
    policies = bd.Policies({"a": bd.TabularPolicy([[0.5, 0.5]])})
    law = {"value_law": "empirical", "statistic": (mean(), quantile(0.5), cvar(0.5))}
    both = plain.prepare(log, policies, gamma=0.0, inference="exact", draws=2, **law)
    curves = count_statistics(both).problem.tails.curves
    assert [curve is None for curve in curves] == [False, True, False]
    # The mean's is that of a fit of the mean alone.
    np.testing.assert_allclose(curves[0].quantile, both.problem.tails.curves[0].quantile, rtol=1e-9)


def test_groups_are_the_items_of_empirical_likelihood():
    rng = np.random.default_rng(7)
    effect = rng.exponential(size=25)
    reward = np.repeat(effect, 8) + 0.01 * rng.normal(size=200)
    action, user = np.zeros(200, dtype=int), np.repeat(np.arange(25), 8)
    frame = pl.DataFrame({"state": 0, "action": action, "reward": reward, "user_id": user})
    belief = bd.fit(
        bd.Logs.from_dataframe(frame),
        {"it": bd.TabularPolicy([[1.0]])},
        gamma=0.0,
        rng_key=jax.random.key(1),
        draws=DRAWS,
        cluster="user_id",
        prior=bd.Prior(**WIDE),
        constraint=bd.Constraint(value_law="empirical"),
    )
    value = belief["posterior/value"].to_numpy().ravel()
    # No mean of users is beyond the users' own.
    assert effect.min() - 0.05 < value.min()
    assert value.max() < effect.max() + 0.05


def test_what_the_log_contradicts_is_refused():
    reward = [0.0, 1.0, 2.0]
    with pytest.raises(LogsError, match="row 3, column 'reward': expected rewards of 0 or 1"):
        believed(np.zeros(3, dtype=int), reward, [1.0], rewards="binary")


@pytest.mark.parametrize(
    "given",
    [
        {"features": bd.features.fourier(8)},
        {"statistic": "cvar(0.1)"},
        {"preset": "paper"},
        {"small_sample": False},
    ],
)
def test_known_rewards_are_refused_where_they_do_not_apply(given):
    from bayesdice_ppl.fitting import flat_settings

    with pytest.raises(SettingsError, match=r"prior\.rewards='binary': expected the mean"):
        flat_settings(gamma=0.5, rewards="binary", **given)


@pytest.mark.parametrize("given", [{"rewards": "binary"}, {"law": "empirical"}])
def test_logs_of_a_policy_that_followed_its_rewards_are_refused(given):
    rng = np.random.default_rng(8)
    won, lost = np.ones(8), np.ones(8)
    rows = []
    for _ in range(600):
        action = int(np.argmax(rng.beta(won, lost)))
        reward = float(rng.random() < 0.3 + 0.05 * action)
        won[action], lost[action] = won[action] + reward, lost[action] + 1.0 - reward
        rows.append((action, reward))
    action, reward = zip(*rows, strict=True)
    with pytest.raises(SettingsError, match="expected the log of a fixed policy"):
        believed(action, reward, [0.125] * 8, cluster=None, **given)


def test_a_known_kind_needs_no_more_of_the_rows():
    found = KnownMeans(
        reward_kind("binary"), pair_rewards(np.array([0, 0, 1]), np.array([0.0, 1.0, 1.0]), 2)
    )
    np.testing.assert_array_equal(found.rewards.visits, [2.0, 1.0])
    np.testing.assert_array_equal(found.rewards.mean, [0.5, 1.0])
    np.testing.assert_array_equal(found.rewards.scatter, [0.5, 0.0])


@pytest.mark.parametrize("cluster", [None, "episode", "user_id"])
def test_on_vectors_a_value_leans_as_its_units_do(cluster):
    """Of the logging policy of a bandit the error of a row is its reward less the mean.

    What the features say of it cancels between the row and its start.
    """
    rng = np.random.default_rng(8)
    n, group = 600, np.repeat(np.arange(120), 5)
    reward = rng.exponential(size=n) ** 2
    frame = pl.DataFrame(
        {
            "obs_0": rng.normal(size=n),
            "action_0": rng.normal(size=n),
            "reward": reward,
            "user_id": group,
        }
    )
    density = np.exp(-0.5 * frame["action_0"].to_numpy() ** 2) / np.sqrt(2.0 * np.pi)
    belief = bd.fit(
        bd.Logs.from_dataframe(frame.with_columns(propensity=density)),
        {"same": bd.GaussianPolicy(lambda obs: 0.0 * np.asarray(obs), 1.0)},
        gamma=0.0,
        rng_key=jax.random.key(0),
        features=bd.features.polynomial(1, of="state"),
        cluster=cluster,
        draws=50,
    )
    data = belief["constant_data"]
    error = (reward - reward.mean()) / n
    unit = np.bincount(group, error) if cluster == "user_id" else error
    freedom = float(data["degrees_of_freedom"][0])
    third, sd = np.sum(unit**3), float(data["guide_sd"][0])
    np.testing.assert_allclose(
        data["skewness"][0], third / sd**3 / (1.0 + 30.0 / freedom), rtol=2e-2
    )
    np.testing.assert_allclose(
        data["effective_errors"][0], np.sum(error**2) ** 2 / np.sum(error**4), rtol=0.1
    )
