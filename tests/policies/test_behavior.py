"""Log probabilities of logged actions under candidates and the logging policy, in loops."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

from bayesdice_ppl import GaussianPolicy, Logs, TabularPolicy
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.policies import behavior_log_prob, log_ratio, log_target
from bayesdice_ppl.policies.behavior import log_counted, log_logged

N = 60


class Scores:
    """A softmax over two actions on vectors."""

    def probs(self, obs):
        one = 1.0 / (1.0 + np.exp(-obs[:, 0]))
        return np.stack([one, 1.0 - one], axis=1)


class ByLabel:
    """A Gaussian around each label."""

    def sample(self, rng_key, obs, n):
        raise AssertionError

    def log_prob(self, obs, action):
        return stats.norm.logpdf(action[..., 0], np.asarray(obs), 2.0)


def make(states, actions):
    rng = np.random.default_rng(7)
    data = {"reward": np.zeros(N), "propensity": rng.uniform(0.1, 0.9, N)}
    if states == "vectors":
        data |= {"obs_0": rng.normal(size=N), "obs_1": rng.normal(size=N)}
    else:
        data["state"] = rng.integers(0, 3, N)
    if actions == "vectors":
        data["action_0"] = rng.normal(size=N)
    else:
        data["action"] = rng.choice(["left", "right"], N)
    labels = ["left", "right"] if actions == "labels" else None
    return Logs.from_dataframe(pl.DataFrame(data), actions=labels), data


TABLE = TabularPolicy([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]], [0, 1, 2], ["left", "right"])
CASES = {
    ("vectors", "labels"): (
        Scores(),
        lambda row: -np.log1p(np.exp(-row["obs_0"] * (1 if row["action"] == "left" else -1))),
    ),
    ("vectors", "vectors"): (
        GaussianPolicy(lambda obs: obs[:, 1:] - 1.0, 0.7),
        lambda row: stats.norm.logpdf(row["action_0"], row["obs_1"] - 1.0, 0.7),
    ),
    ("labels", "vectors"): (
        ByLabel(),
        lambda row: stats.norm.logpdf(row["action_0"], row["state"], 2.0),
    ),
    ("labels", "labels"): (
        TABLE,
        lambda row: {
            (0, "left"): np.log(0.2),
            (0, "right"): np.log(0.8),
            (1, "left"): np.log(0.5),
            (1, "right"): np.log(0.5),
            (2, "left"): 0.0,
            (2, "right"): -np.inf,
        }[row["state"], row["action"]],
    ),
}


@pytest.mark.parametrize(("states", "actions"), CASES)
def test_log_target_is_that_of_each_row(states, actions):
    logs, data = make(states, actions)
    policy, by_hand = CASES[states, actions]
    rows = [{name: column[i] for name, column in data.items()} for i in range(N)]
    exact = np.array([by_hand(row) for row in rows])
    np.testing.assert_allclose(log_target(logs, policy), exact, rtol=2e-5, atol=2e-6)
    known = behavior_log_prob(logs, policy)
    assert known.report is None
    np.testing.assert_array_equal(known.log_prob, log_target(logs, policy))
    np.testing.assert_allclose(
        log_ratio(logs, policy), exact - np.log(data["propensity"]), rtol=2e-5, atol=2e-6
    )


def test_logged_and_counted():
    logs, data = make("labels", "labels")
    np.testing.assert_array_equal(log_logged(logs), np.log(data["propensity"]))
    np.testing.assert_array_equal(behavior_log_prob(logs, "logged").log_prob, log_logged(logs))
    shares = []
    for state, action in zip(data["state"], data["action"], strict=True):
        here = data["state"] == state
        shares.append(np.sum(here & (data["action"] == action)) / np.sum(here))
    np.testing.assert_allclose(log_counted(logs), np.log(shares), rtol=1e-12)
    np.testing.assert_array_equal(behavior_log_prob(logs, "fitted").log_prob, log_counted(logs))
    np.testing.assert_allclose(
        log_ratio(logs, TABLE, "fitted"), log_target(logs, TABLE) - np.log(shares), rtol=1e-12
    )


def test_cloned_counts_are_the_counts():
    logs, _ = make("labels", "labels")
    found = behavior_log_prob(logs, "cloned", jax.random.key(0))
    np.testing.assert_allclose(found.log_prob, log_counted(logs), rtol=1e-12)
    assert found.report is not None
    assert found.report.form == "counts"


def test_what_cannot_be_answered_is_refused():
    logs, _ = make("vectors", "labels")
    with pytest.raises(LogsError, match="states that are vectors"):
        behavior_log_prob(logs, "fitted")
    with pytest.raises(SettingsError, match="expected a key"):
        behavior_log_prob(logs, "cloned")
    with pytest.raises(SettingsError, match="'logged', 'fitted', 'cloned'"):
        behavior_log_prob(logs, "guessed")
    bare = Logs.from_dataframe(logs.to_dataframe().drop("propensity"), actions=["left", "right"])
    with pytest.raises(LogsError, match="no column propensity"):
        behavior_log_prob(bare, "logged")
