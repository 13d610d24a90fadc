"""Clones of policies that are known: linear ones exactly, others up to what the report says."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy import optimize, special, stats

from bayesdice_ppl import GaussianPolicy, Logs, TabularPolicy
from bayesdice_ppl.errors import LogsError, PoliciesError, SettingsError
from bayesdice_ppl.policies import (
    Clone,
    ContinuousPolicy,
    Policies,
    Policy,
    clone_policy,
    log_target,
)

KEY = jax.random.key(3)
STEPS = 20
SMALL = Clone(steps=600, width=32, batch=128)
N = 4_000


def states(n=N, p=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(n, p)) * np.array([2.0, 0.5])[:p] + 1.0


def vector_log(obs, action, steps=STEPS):
    data = {f"obs_{k}": each for k, each in enumerate(obs.T)}
    data |= {f"action_{k}": each for k, each in enumerate(action.T)}
    n = len(obs)
    return Logs.from_dataframe(
        pl.DataFrame({"episode_id": np.arange(n) // steps, "reward": np.zeros(n), **data})
    )


def label_log(obs, action, space, steps=STEPS):
    data = {f"obs_{k}": each for k, each in enumerate(obs.T)}
    n = len(obs)
    frame = {"episode_id": np.arange(n) // steps, "reward": np.zeros(n), "action": action}
    return Logs.from_dataframe(pl.DataFrame(frame | data), actions=space)


WEIGHTS = np.array([[0.7, -0.2], [0.3, 1.5]])


def linear_gaussian(seed=0):
    rng, obs = states(seed=seed)
    mean = 0.5 + obs @ WEIGHTS
    return obs, mean, mean + np.array([0.3, 0.9]) * rng.normal(size=mean.shape)


def test_a_linear_gaussian_policy_is_found():
    obs, mean, action = linear_gaussian()
    sd = np.array([0.3, 0.9])
    clone = clone_policy(vector_log(obs, action), KEY, Clone(form="linear"))
    assert isinstance(clone.policy, GaussianPolicy)
    # The standard error of a least-squares mean at each state.
    design = np.column_stack([np.ones(N), obs])
    leverage = np.einsum("ij,ij->i", design @ np.linalg.inv(design.T @ design), design)
    error = np.asarray(clone.policy.mean(obs)) - mean
    assert np.all(np.abs(error) < 5.0 * sd * np.sqrt(leverage)[:, None])
    assert np.all(np.abs(clone.policy.sd / sd - 1.0) < 5.0 / np.sqrt(2.0 * N))
    exact = stats.norm.logpdf(action, mean, sd).sum(axis=1)
    # Twice the likelihood ratio is chi-square with as many degrees as there are parameters.
    assert 0.0 < 2.0 * np.sum(clone.in_sample - exact) < stats.chi2.ppf(1.0 - 1e-6, 8)
    assert np.sqrt(np.mean((clone.in_sample - exact) ** 2)) < 5.0 * np.sqrt(8 / N)
    assert np.sqrt(np.mean((clone.held_out - exact) ** 2)) < 5.0 * np.sqrt(8 / (0.8 * N))
    assert not clone.report.poor
    assert clone.report.standard_error == pytest.approx(np.std(exact) / np.sqrt(N), rel=0.3)


def test_least_squares_and_its_held_out_densities_are_those_of_numpy():
    obs, _, action = linear_gaussian(1)
    logs = vector_log(obs, action)
    clone = clone_policy(logs, KEY, Clone(form="linear", folds=4))
    design = np.column_stack([np.ones(N), obs])

    def density(train, rows):
        weights, squares, *_ = np.linalg.lstsq(design[train], action[train], rcond=None)
        sd = np.sqrt(squares / (len(train) - 3))
        return stats.norm.logpdf(action[rows], design[rows] @ weights, sd).sum(axis=1)

    every = np.arange(N)
    np.testing.assert_allclose(clone.in_sample, density(every, every), atol=1e-4)
    found = np.full(N, np.nan)
    # A row's fold is not public: the one fit without its episode that gives its density is it.
    rng = np.random.default_rng(np.random.SeedSequence(seed_of_folds()))
    order = rng.permutation(logs.n_episodes)
    fold = np.empty(logs.n_episodes, dtype=int)
    fold[order] = np.arange(logs.n_episodes) % 4
    for k in range(4):
        held = fold[logs.episode] == k
        found[held] = density(np.flatnonzero(~held), np.flatnonzero(held))
    np.testing.assert_allclose(clone.held_out, found, atol=1e-4)
    np.testing.assert_array_equal(clone.log_prob_of_log("held_out"), clone.held_out)
    np.testing.assert_array_equal(clone.log_prob_of_log(), clone.in_sample)


def seed_of_folds():
    return np.asarray(jax.random.key_data(jax.random.split(KEY)[0])).tolist()


def test_a_linear_softmax_is_found():
    rng, obs = states(seed=2)
    weights = np.array([[0.5, -0.5, 0.0], [1.0, 0.0, -2.0]])
    truth = special.softmax(obs @ weights + np.array([0.0, 0.5, 1.0]), axis=1)
    action = (truth.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)
    logs = label_log(obs, action, [0, 1, 2, 9])
    clone = clone_policy(logs, KEY, Clone(form="linear"))
    design = np.column_stack([np.ones(N), obs])

    def loss(theta):
        scores = np.column_stack([np.zeros(N), design @ theta.reshape(3, 2)])
        return -np.mean(special.log_softmax(scores, axis=1)[np.arange(N), action])

    best = optimize.minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-8})
    scores = np.column_stack([np.zeros(N), design @ best.x.reshape(3, 2)])
    optimum = special.softmax(scores, axis=1)
    found = clone.policy.probs(obs)
    assert isinstance(clone.policy, Policy)
    np.testing.assert_array_equal(found[:, 3], 0.0)
    np.testing.assert_allclose(found[:, :3], optimum, atol=1e-4)
    np.testing.assert_allclose(clone.in_sample, np.log(optimum)[np.arange(N), action], atol=2e-3)
    exact = np.log(truth)[np.arange(N), action]
    assert 0.0 < 2.0 * np.sum(clone.in_sample - exact) < stats.chi2.ppf(1.0 - 1e-6, 6)
    assert np.sqrt(np.mean((clone.held_out - exact) ** 2)) < 5.0 * np.sqrt(6 / (0.8 * N))
    assert not clone.report.poor
    np.testing.assert_allclose(log_target(logs, clone.policy), clone.in_sample, atol=1e-12)


def test_counts_are_shares():
    rng = np.random.default_rng(4)
    state, action = rng.choice(["a", "b", "c"], 200), rng.integers(0, 3, 200)
    frame = {"episode_id": np.arange(200) // 4, "state": state, "action": action}
    logs = Logs.from_dataframe(pl.DataFrame(frame | {"reward": np.zeros(200)}))
    clone = clone_policy(logs, KEY)
    assert isinstance(clone.policy, TabularPolicy)
    for s in "abc":
        for a in range(3):
            here = state == s
            share = np.sum(here & (action == a)) / np.sum(here)
            assert clone.policy.probs([s])[0, a] == pytest.approx(share, abs=1e-15)
    # A visit of the whole log's shares keeps held-out probabilities above 0.
    assert np.all(np.isfinite(clone.held_out))
    assert clone.report.form == "counts"


def test_a_table_of_gaussians_is_found():
    rng = np.random.default_rng(5)
    state = rng.integers(0, 3, 6_000)
    mean, sd = np.array([-1.0, 0.0, 5.0]), np.array([0.2, 1.0, 3.0])
    action = mean[state] + sd[state] * rng.normal(size=6_000)
    logs = Logs.from_dataframe(
        pl.DataFrame({"state": state, "action_0": action, "reward": np.zeros(6_000)})
    )
    clone = clone_policy(logs, KEY)
    assert isinstance(clone.policy, ContinuousPolicy)
    law = clone.policy.mixture([0, 1, 2])
    count = np.bincount(state)
    assert np.all(np.abs(law.mean[:, 0, 0] - mean) < 5.0 * sd / np.sqrt(count))
    assert np.all(np.abs(law.sd[:, 0, 0] / sd - 1.0) < 5.0 / np.sqrt(2.0 * count))
    exact = stats.norm.logpdf(action, mean[state], sd[state])
    assert np.sqrt(np.mean((clone.held_out - exact) ** 2)) < 5.0 * np.sqrt(6 / (0.8 * 6_000))
    assert not clone.report.poor
    with pytest.raises(PoliciesError, match="found 7"):
        clone.policy.log_prob([7], np.zeros((1, 1)))


def test_a_spread_that_depends_on_the_state_needs_the_network():
    rng, obs = states(seed=6)
    mean, sd = obs[:, :1], np.exp(0.5 * obs[:, :1] - 1.0)
    action = mean + sd * rng.normal(size=(N, 1))
    logs = vector_log(obs, action)
    exact = stats.norm.logpdf(action, mean, sd)[:, 0]
    linear = clone_policy(logs, KEY, Clone(form="linear"))
    assert linear.report.poor
    assert "off by" in linear.report.sentence
    clone = clone_policy(logs, KEY, SMALL)
    assert clone.report.form == "network"
    assert not clone.report.poor
    assert np.sqrt(np.mean((clone.held_out - exact) ** 2)) < 0.2
    assert np.sqrt(np.mean((linear.held_out - exact) ** 2)) > 0.5
    again = clone_policy(logs, KEY, SMALL)
    np.testing.assert_array_equal(again.held_out, clone.held_out)


def test_two_humps_need_the_mixture():
    rng, obs = states(seed=7)
    side = rng.choice([-1.0, 1.0], N)[:, None]
    action = 0.3 * obs[:, :1] + 2.0 * side + 0.4 * rng.normal(size=(N, 1))
    logs = vector_log(obs, action)
    middle = 0.3 * obs[:, :1]
    humps = [stats.norm.pdf(action, middle + place, 0.4) for place in (-2.0, 2.0)]
    exact = np.log(0.5 * humps[0] + 0.5 * humps[1])[:, 0]
    linear = clone_policy(logs, KEY, Clone(form="linear"))
    assert linear.report.poor
    assert "probabilities are off" in linear.report.sentence
    clone = clone_policy(logs, KEY, SMALL)
    assert clone.report.form == "mixture"
    assert not clone.report.poor
    assert np.sqrt(np.mean((clone.held_out - exact) ** 2)) < 0.2
    np.testing.assert_allclose(log_target(logs, clone.policy), clone.in_sample, atol=1e-3)
    Policies({"clone": clone.policy})
    # Draws have the shares, means and spreads that the density has.
    where = np.array([[1.0, 1.0]])
    drawn = np.asarray(clone.policy.sample(jax.random.key(1), where, 20_000))
    assert drawn.shape == (20_000, 1, 1)
    law = clone.policy.mixture(where)
    weight, mean, sd = np.exp(law.log_weight[0]), law.mean[0, :, 0], law.sd[0, :, 0]
    center = weight @ mean
    variance = weight @ (sd**2 + mean**2) - center**2
    assert abs(drawn.mean() - center) < 5.0 * np.sqrt(variance / 20_000)
    right = weight @ stats.norm.sf(0.3, mean, sd)
    assert abs(np.mean(drawn > 0.3) - right) < 5.0 * np.sqrt(0.25 / 20_000)


def test_a_softmax_that_is_not_linear_needs_the_network():
    rng, obs = states(seed=8)
    truth = special.expit(3.0 * np.sin(obs[:, 0]))
    action = (rng.random(N) < truth).astype(int)
    logs = label_log(obs, action, [0, 1])
    exact = np.log(np.where(action == 1, truth, 1.0 - truth))
    linear = clone_policy(logs, KEY, Clone(form="linear"))
    assert linear.report.poor
    clone = clone_policy(logs, KEY, SMALL)
    assert clone.report.form == "network"
    assert not clone.report.poor
    assert np.sqrt(np.mean((clone.held_out - exact) ** 2)) < 0.2
    np.testing.assert_allclose(log_target(logs, clone.policy), clone.in_sample, atol=1e-4)


def test_clipped_actions_show():
    obs, _, action = linear_gaussian(9)
    logs = vector_log(obs, np.clip(action, -0.5, 2.5))
    report = clone_policy(logs, KEY, Clone(form="linear")).report
    assert report.poor
    assert "is the same in" in report.sentence


def test_few_episodes_are_held_out_in_blocks():
    obs, _, action = linear_gaussian(10)
    report = clone_policy(vector_log(obs, action, steps=N // 2), KEY, Clone(form="linear")).report
    assert not report.whole_episodes
    assert "blocks of rows" in report.sentence


def test_what_cannot_be_cloned_is_refused():
    obs, mean, action = linear_gaussian(11)
    with pytest.raises(LogsError, match=r"at least 50 rows.*found 40"):
        clone_policy(vector_log(obs[:40], action[:40]), KEY)
    with pytest.raises(LogsError, match="found 'go' in every row"):
        clone_policy(label_log(obs, ["go"] * N, ["go", "stay"]), KEY)
    with pytest.raises(LogsError, match="'action_1': expected different numbers"):
        clone_policy(vector_log(obs, np.column_stack([action[:, 0], np.ones(N)])), KEY)
    with pytest.raises(LogsError, match=r"'action_0'.*a density, found one of them in"):
        clone_policy(vector_log(obs, np.clip(action, 5.0, 9.0)), KEY)
    with pytest.raises(LogsError, match="'action_0': expected actions that vary"):
        clone_policy(vector_log(obs, mean), KEY)
    with pytest.raises(SettingsError, match="rng_key"):
        clone_policy(vector_log(obs, action), 0)
    with pytest.raises(SettingsError, match="'mixture'"):
        clone_policy(label_log(obs, np.arange(N) % 2, [0, 1]), KEY, Clone(form="mixture"))
    labels = Logs.from_dataframe(
        pl.DataFrame({"state": [0] * 60, "action": [0, 1] * 30, "reward": [0.0] * 60})
    )
    with pytest.raises(SettingsError, match="which are counted"):
        clone_policy(labels, KEY, Clone(form="linear"))


@pytest.mark.parametrize("wrong", [{"form": "tree"}, {"folds": 1}, {"steps": 0}, {"components": 1}])
def test_impossible_settings(wrong):
    with pytest.raises(SettingsError, match="expected"):
        Clone(**wrong)
