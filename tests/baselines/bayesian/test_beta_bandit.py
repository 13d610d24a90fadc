"""The Beta posterior against Beta algebra, SciPy's distribution, and simulated bandits."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

from bayesdice_ppl import Logs, TabularPolicy
from bayesdice_ppl.baselines.bayesian.beta_bandit import beta_bandit
from bayesdice_ppl.baselines.interface import Baseline
from bayesdice_ppl.errors import LogsError, SettingsError
from tests.linear_world import POLICIES, chain_log

KEY = jax.random.key(3)
# (state, action, low, high): how often each arm paid the lower and the higher reward.
PAID = [(0, 0, 4, 2), (0, 1, 1, 6), (1, 0, 0, 3), (1, 2, 5, 1)]
TARGET = np.array([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]])


def bandit_log(paid, values=(0.0, 1.0), actions=(0, 1, 2)):
    rows = [
        (state, action, reward)
        for state, action, *times in paid
        for reward, count in zip(values, times, strict=True)
        for _ in range(count)
    ]
    frame = pl.DataFrame(rows, schema=["state", "action", "reward"], orient="row")
    return Logs.from_dataframe(frame, actions=None if actions is None else list(actions))


def within(draws, exact, errors=5.0):
    """Whether the mean of draws is within some standard errors of its own of the truth."""
    return abs(np.mean(draws) - exact) < errors * np.std(draws) / np.sqrt(len(draws))


def test_it_is_a_baseline():
    found = beta_bandit()
    assert isinstance(found, Baseline)
    assert (found.name, found.short, found.gives) == ("beta", "beta", "draws")
    assert (found.needs.labels, found.needs.bandit, found.needs.rng_key) == (True, True, True)


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 3.0)])
@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 2.0)])
def test_mean_and_variance_of_a_sum_of_arms(values, prior):
    low, high = values
    weight = {0: 13 / 22, 1: 9 / 22}
    mean = variance = 0.0
    for state in (0, 1):
        for action in (0, 1, 2):
            losses, wins = next((p[2:] for p in PAID if p[:2] == (state, action)), (0, 0))
            arm = stats.beta(prior[0] + wins, prior[1] + losses)
            share = weight[state] * TARGET[state, action]
            mean += share * (low + (high - low) * arm.mean())
            variance += (share * (high - low)) ** 2 * arm.var()
    logs, policy = bandit_log(PAID, values), TabularPolicy(TARGET)
    method = beta_bandit(prior, 4000)
    moments = method.moments(logs, policy)
    assert moments.mean == pytest.approx(mean, rel=1e-12)
    assert moments.sd == pytest.approx(np.sqrt(variance), rel=1e-12)
    found = method.estimate(logs, policy, gamma=0.0, level=0.8, rng_key=KEY)
    assert found.value == pytest.approx(mean, rel=1e-12)
    assert found.draws.shape == (4000,)
    assert within(found.draws, mean)
    assert within((found.draws - mean) ** 2, variance)
    ends = np.quantile(found.draws, [0.1, 0.9])
    assert (found.lower, found.upper) == pytest.approx(tuple(ends), rel=1e-12)


@pytest.mark.parametrize("arm", [0, 1, 2])
def test_one_arm_is_its_beta_distribution(arm):
    logs = bandit_log([(0, 0, 4, 2), (0, 1, 1, 6)])
    exact = [stats.beta(3, 5), stats.beta(7, 2), stats.beta(1, 1)][arm]
    found = beta_bandit().estimate(logs, TabularPolicy(np.eye(3)[[arm]]), gamma=0.0, rng_key=KEY)
    # One false alarm in 30,000, as at 4 standard errors.
    assert stats.kstest(found.draws, exact.cdf).pvalue > 3e-5


def test_draws_are_joint():
    logs = bandit_log(PAID, actions=None)
    first, second = TARGET, TARGET[:, ::-1]

    def draws(table, actions=None):
        policy = TabularPolicy(table, actions=actions)
        return beta_bandit().estimate(logs, policy, gamma=0.0, rng_key=KEY).draws

    assert np.array_equal(draws(first), draws(first.copy()))
    mixed = draws(0.25 * first + 0.75 * second)
    assert np.allclose(mixed, 0.25 * draws(first) + 0.75 * draws(second), rtol=1e-12)
    # A policy that knows one more action, or lists them otherwise, still meets the same arms.
    wider = np.c_[np.zeros(2), first]
    assert np.allclose(draws(wider, [-1, 0, 1, 2]), draws(first), rtol=1e-12)
    assert np.allclose(draws(first[:, ::-1], [2, 1, 0]), draws(first), rtol=1e-12)
    other = beta_bandit().estimate(logs, TabularPolicy(first), gamma=0.0, rng_key=jax.random.key(4))
    assert not np.allclose(other.draws, draws(first))


@pytest.mark.slow
def test_coverage_under_the_prior():
    rng, inside, trials = np.random.default_rng(0), 0, 400
    policy = TabularPolicy(np.array([[0.3, 0.7]]))
    method = beta_bandit(draws=1000, reward_values=(0.0, 1.0))
    for _ in range(trials):
        rates = rng.random(2)
        wins = rng.binomial([12, 4], rates)
        logs = bandit_log([(0, a, n - w, w) for a, n, w in zip((0, 1), (12, 4), wins, strict=True)])
        found = method.estimate(logs, policy, gamma=0.0, level=0.8, rng_key=KEY)
        inside += found.lower <= 0.3 * rates[0] + 0.7 * rates[1] <= found.upper
    assert abs(inside / trials - 0.8) < 4.5 * np.sqrt(0.8 * 0.2 / trials)


def test_episodes_of_several_steps():
    # Every row counts for its arm, and of the contexts the first of each episode alone.
    rows = {
        "episode_id": [0, 0, 0, 1, 1, 2],
        "step": [0, 1, 2, 0, 1, 0],
        "state": [0, 1, 1, 0, 0, 1],
        "action": [0, 0, 1, 0, 1, 1],
        "reward": [1.0, 1.0, 0.0, 0.0, 1.0, 0.0],
    }
    moments = beta_bandit().moments(
        Logs.from_dataframe(pl.DataFrame(rows)), TabularPolicy([[0.5, 0.5], [0.2, 0.8]])
    )
    arms = [[stats.beta(2, 2), stats.beta(2, 1)], [stats.beta(2, 1), stats.beta(1, 3)]]
    weight = np.array([[2 / 3 * 0.5, 2 / 3 * 0.5], [1 / 3 * 0.2, 1 / 3 * 0.8]])
    mean = sum(weight[s, a] * arms[s][a].mean() for s in (0, 1) for a in (0, 1))
    variance = sum(weight[s, a] ** 2 * arms[s][a].var() for s in (0, 1) for a in (0, 1))
    assert moments.mean == pytest.approx(mean, rel=1e-12)
    assert moments.sd == pytest.approx(np.sqrt(variance), rel=1e-12)


def test_one_reward_in_the_log():
    logs, policy = bandit_log([(0, 0, 0, 5)], actions=[0]), TabularPolicy([[1.0]])
    with pytest.raises(LogsError, match=r"only 1. State both: reward_values"):
        beta_bandit().estimate(logs, policy, gamma=0.0, rng_key=KEY)
    stated = beta_bandit(reward_values=(1, 0)).moments(logs, policy)
    assert stated.mean == pytest.approx(6 / 7)


def test_what_does_not_suit_is_refused():
    logs, policy = bandit_log(PAID), TabularPolicy(TARGET)
    with pytest.raises(SettingsError, match="bandits"):
        beta_bandit().estimate(logs, policy, gamma=0.5, rng_key=KEY)
    with pytest.raises(SettingsError, match="rng_key"):
        beta_bandit().estimate(logs, policy, gamma=0.0)
    with pytest.raises(LogsError, match="to be 0 or 2, found 1"):
        beta_bandit(reward_values=(0, 2)).estimate(logs, policy, gamma=0.0, rng_key=KEY)
    with pytest.raises(LogsError, match="labels"):
        beta_bandit().moments(chain_log(0, n_episodes=2, n_steps=2), POLICIES["calm"])
    graded = Logs.from_dataframe(pl.DataFrame({"state": [0] * 3, "action": 0, "reward": [0, 1, 2]}))
    with pytest.raises(LogsError, match="3 values"):
        beta_bandit().moments(graded, TabularPolicy([[1.0]]))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"prior": (0.0, 1.0)}, "prior"),
        ({"prior": 1.0}, "prior"),
        ({"draws": 0}, "draws"),
        ({"reward_values": (1.0, 1.0)}, "reward_values"),
        ({"reward_values": (0.0, 1.0, 2.0)}, "reward_values"),
    ],
)
def test_bad_settings_are_refused(settings, word):
    with pytest.raises(SettingsError, match=word):
        beta_bandit(**settings)
