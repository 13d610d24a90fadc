"""The logging policy's side of importance sampling: propensities, counts, densities, refusals."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from bayesdice_ppl import GaussianPolicy, Logs, TabularPolicy
from bayesdice_ppl.baselines.interface import Baseline
from bayesdice_ppl.baselines.weighting.importance_sampling import importance_sampling
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.policies import log_ratio
from tests.baselines.enumerable import (
    CANDIDATE,
    ENDING,
    exhaustive_log,
    horizon_value,
    small_log,
)


def test_fitted_behavior_at_gamma_0_is_the_direct_method(plain):
    logs = plain.bandit([(0, 1.0), (0, 0.0), (0, 1.0), (1, 0.5), (1, 2.0)])
    policy = TabularPolicy([[0.3, 0.7]])
    method = importance_sampling(normalized=False, behavior="fitted")
    by_hand = 0.3 * (2.0 / 3.0) + 0.7 * (2.5 / 2.0)
    assert method.estimate(logs, policy, gamma=0.0).value == pytest.approx(by_hand, abs=1e-14)
    contexts = Logs.from_dataframe(
        pl.DataFrame(
            {"state": [0, 0, 0, 1, 1], "action": [0, 1, 1, 0, 1], "reward": [1, 2, 4, 8, 9]}
        ),
        actions=[0, 1],
    )
    two = TabularPolicy([[0.3, 0.7], [0.9, 0.1]])
    direct = 0.6 * (0.3 * 1.0 + 0.7 * 3.0) + 0.4 * (0.9 * 8.0 + 0.1 * 9.0)
    assert method.estimate(contexts, two, gamma=0.0).value == pytest.approx(direct, abs=1e-13)


def test_fitted_behavior_on_an_exhaustive_log_is_the_logging_policy():
    logs = exhaustive_log(ENDING, propensities=False)
    found = importance_sampling(behavior="fitted").estimate(logs, CANDIDATE, gamma=0.9)
    assert found.value == pytest.approx(horizon_value(ENDING, 0.9, restart=True), abs=1e-12)


def vector_log(seed, n_episodes=40, steps=3):
    rng = np.random.default_rng(seed)
    n = n_episodes * steps
    obs = rng.normal(size=(n, 2))
    center = 0.5 * obs
    action = center + np.array([0.8, 0.6]) * rng.normal(size=(n, 2))
    frame = pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(n_episodes), steps),
            "obs_0": obs[:, 0],
            "obs_1": obs[:, 1],
            "action_0": action[:, 0],
            "action_1": action[:, 1],
            "reward": action[:, 0] + obs[:, 1],
            "propensity": stats.norm.pdf(action, center, [0.8, 0.6]).prod(axis=1),
        }
    )
    return Logs.from_dataframe(frame), obs, action


def test_vectors_with_gaussian_policies():
    logs, obs, action = vector_log(0)
    policy = GaussianPolicy(lambda x: 0.4 * x + 0.1, [0.5, 0.7])
    exact = stats.norm.logpdf(action, 0.4 * obs + 0.1, [0.5, 0.7]) - stats.norm.logpdf(
        action, 0.5 * obs, [0.8, 0.6]
    )
    np.testing.assert_allclose(log_ratio(logs, policy), exact.sum(axis=1), atol=2e-5)
    rho = np.exp(np.cumsum(exact.sum(axis=1).reshape(-1, 3), axis=1))
    reward = logs.reward.reshape(-1, 3)
    share = np.array([1.0, 0.9, 0.81]) / (1.0 + 0.9 + 0.81)
    plain = importance_sampling(normalized=False).estimate(logs, policy, gamma=0.9)
    assert plain.value == pytest.approx(np.mean(rho * reward @ share), rel=1e-4)
    weighted = importance_sampling().estimate(logs, policy, gamma=0.9)
    by_step = np.sum(rho * reward, axis=0) / rho.sum(axis=0)
    assert weighted.value == pytest.approx(by_step @ share, rel=1e-4)


def test_gaussian_bandit_in_closed_form():
    rng = np.random.default_rng(4)
    n = 20_000
    action = rng.normal(0.0, 1.0, n)
    logs = Logs.from_dataframe(
        pl.DataFrame(
            {
                "state": np.zeros(n, dtype=int),
                "action_0": action,
                "reward": action**2,
                "propensity": stats.norm.pdf(action),
            }
        )
    )
    policy = GaussianPolicy(lambda x: np.full((len(x), 1), 0.3), 0.8)
    method = importance_sampling(normalized=False, interval="student")
    found = method.estimate(logs, policy, gamma=0.0, level=0.9)
    assert found.lower is not None
    assert found.upper is not None
    error = (found.upper - found.lower) / (2.0 * stats.norm.ppf(0.95))
    assert abs(found.value - (0.3**2 + 0.8**2)) < 4.0 * error
    assert error < 0.02


def test_names_needs_and_gives():
    method = importance_sampling(interval="bca")
    assert isinstance(method, Baseline)
    assert (method.name, method.short) == ("weighted per-step IS + bca", "wpdis:bca")
    assert method.needs.propensities
    assert method.needs.rng_key
    assert method.gives == "interval"
    plain = importance_sampling("trajectory", normalized=False, behavior="fitted")
    assert (plain.name, plain.short) == ("per-trajectory IS (fitted behavior)", "is:fitted")
    assert plain.needs.labels
    assert not plain.needs.propensities
    assert plain.gives == "estimate"
    assert importance_sampling(normalized=False).short == "pdis"
    assert importance_sampling("trajectory", interval="student").short == "wis:student"


def test_what_cannot_be_answered_is_refused():
    logs = small_log(0)
    bare = Logs.from_dataframe(logs.to_dataframe().drop("propensity"), actions=[0, 1])
    with pytest.raises(LogsError, match="needs the probability of each logged action"):
        importance_sampling().estimate(bare, CANDIDATE, gamma=0.9)
    vectors, _, _ = vector_log(0)
    with pytest.raises(LogsError, match="needs labels"):
        importance_sampling(behavior="fitted").estimate(
            vectors, GaussianPolicy(lambda x: x, 1.0), gamma=0.9
        )
    with pytest.raises(SettingsError, match="give rng_key"):
        importance_sampling(interval="bca").estimate(logs, CANDIDATE, gamma=0.9)
    with pytest.raises(SettingsError, match="at least the largest weight in the log"):
        importance_sampling(interval="hoeffding", max_weight=0.1).estimate(
            logs, CANDIDATE, gamma=0.9
        )
    with pytest.raises(SettingsError, match="a range that holds the logged rewards"):
        importance_sampling(interval="bernstein", reward_range=(0.0, 1.0)).estimate(
            logs, CANDIDATE, gamma=0.9
        )
    one = Logs.from_dataframe(logs.to_dataframe().filter(pl.col("episode_id") == 3), actions=[0, 1])
    assert np.isfinite(importance_sampling().estimate(one, CANDIDATE, gamma=0.9).value)
    with pytest.raises(LogsError, match="at least two episodes"):
        importance_sampling(interval="student").estimate(one, CANDIDATE, gamma=0.9)
    for wrong in ({"kind": "step"}, {"interval": "t"}, {"behavior": "guess"}, {"resamples": 9}):
        with pytest.raises(SettingsError, match="expected"):
            importance_sampling(**wrong)
    with pytest.raises(SettingsError, match="reward_range"):
        importance_sampling(reward_range=(1.0, 0.0))


def test_episodes_with_missing_steps_are_refused():
    frame = pl.DataFrame(
        {
            "episode_id": [0, 0, 1, 1],
            "step": [0, 2, 0, 1],
            "state": [0, 1, 0, 0],
            "next_state": [0, 1, 0, 1],
            "action": [0, 1, 0, 1],
            "reward": [0.0, 1.0, 0.0, 1.0],
            "propensity": [0.5] * 4,
        }
    )
    logs = Logs.from_dataframe(frame, actions=[0, 1])
    with pytest.raises(LogsError, match="steps are missing"):
        importance_sampling().estimate(logs, CANDIDATE, gamma=0.9)
    assert np.isfinite(importance_sampling().estimate(logs, CANDIDATE, gamma=0.0).value)
