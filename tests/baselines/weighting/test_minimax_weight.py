"""Minimax weight learning against the exact ratio and a kernel's Gram matrices written out."""

import jax
import numpy as np
import pytest

from bayesdice_ppl.baselines.interface import Baseline, Query
from bayesdice_ppl.baselines.value.bellman import evaluate
from bayesdice_ppl.baselines.value.lstdq import lstdq
from bayesdice_ppl.baselines.weighting.minimax_weight import MedianKernel, minimax_weight
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.logs import Logs
from tests.baselines.exhaustive import (
    POLICY,
    SETTINGS,
    exact_value,
    exhaustive_logs,
    logged_share,
    occupancy,
)
from tests.linear_world import GAMMA, POLICIES, TRUTH, chain_log


def test_it_is_a_baseline():
    linear, kernel = minimax_weight(), minimax_weight("kernel")
    assert isinstance(linear, Baseline)
    assert (linear.name, kernel.name) == ("minimax_weight", "minimax_weight_kernel")
    assert linear.gives == kernel.gives == "estimate"
    assert (linear.needs.rng_key, kernel.needs.rng_key) == (False, True)


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_exact_on_exhaustive_logs(gamma, termination):
    logs = exhaustive_logs()
    rows = Query(logs, POLICY, gamma, on_termination=termination).rows()
    ratio = np.zeros((3, 2))
    ratio.ravel()[rows.step.pair] = evaluate(rows, 0.0).ratio
    expected = occupancy(gamma, termination) / logged_share()
    assert np.allclose(ratio, expected, rtol=1e-9)
    found = minimax_weight(ridge=0.0).estimate(
        logs, POLICY, gamma=gamma, on_termination=termination
    )
    assert found.value == pytest.approx(exact_value(gamma, termination), rel=1e-9)


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_linear_is_lstdq_from_the_other_side(plain, gamma, termination):
    # So few rows that some pairs are not logged and mass is lost.
    logs = plain.log(2, n_episodes=3, n_actions=3)
    policy = plain.policies(2, 1, n_actions=3)["p0"]
    how = {"gamma": gamma, "on_termination": termination}
    found = minimax_weight(ridge=0.5).estimate(logs, policy, **how).value
    assert found == pytest.approx(lstdq(ridge=0.5).estimate(logs, policy, **how).value, rel=1e-9)


class Softmax:
    """A policy of two labeled actions over vectors."""

    def probs(self, obs):
        p = 1.0 / (1.0 + np.exp(-np.asarray(obs)[:, 0]))
        return np.stack([p, 1.0 - p], axis=1)


def vector_log(seed, n_episodes=6, n_steps=4):
    rng = np.random.default_rng(seed)
    rows, observations = [], []
    for episode in range(n_episodes):
        for step in range(n_steps):
            rows.append((episode, step, rng.integers(2), rng.normal()))
            observations.append(rng.normal(size=2))
    ends = rng.normal(size=(n_episodes, 2))
    episode, step, action, reward = map(np.array, zip(*rows, strict=True))
    n = len(rows)
    last = step == n_steps - 1
    return Logs(
        episode=episode,
        step=step,
        state=np.arange(n),
        action=action,
        reward=reward,
        next_state=np.where(last, n + episode, np.arange(n) + 1),
        terminated=last & (episode % 2 == 0),
        truncated=last & (episode % 2 == 1),
        propensity=None,
        state_labels=np.concatenate([observations, ends]),
        action_labels=np.arange(2),
        episode_labels=np.arange(n_episodes),
        row=np.arange(1, n + 1),
        declared_actions=np.arange(2),
    )


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_kernel_by_gram_matrices(gamma, termination):
    logs, sd = vector_log(0), 3.0
    restart = termination == "restart"
    n, n_states = logs.n_transitions, len(logs.state_labels)
    # The library's length scale: the median distance of standardized logged states.
    logged = logs.state_labels[logs.state]
    points = (logs.state_labels - logged.mean(axis=0)) / logged.std(axis=0)
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    among = distance[:n, :n][np.triu_indices(n, 1)]
    kernel = np.exp(-0.5 * (distance / np.median(among)) ** 2)
    # Over all (state, action); an atom's number is 2 * state + action.
    gram = np.kron(kernel, np.eye(2))
    pair = 2 * logs.state + logs.action
    pi = Softmax().probs(logs.state_labels)

    def under_policy(state):
        coefficients = np.zeros(2 * n_states)
        coefficients[2 * state : 2 * state + 2] = pi[state]
        return coefficients

    start = np.mean([under_policy(s) for s in logs.initial_state], axis=0)
    terms, mass = np.zeros((n, 2 * n_states)), np.ones(n)
    for i in range(n):
        if gamma > 0.0 and logs.terminated[i]:
            terms[i] = gamma * start if restart else 0.0
            mass[i] += 0.0 if restart else gamma / (1 - gamma)
        elif gamma > 0.0:
            terms[i] = gamma * under_policy(logs.next_state[i])
        terms[i, pair[i]] -= 1.0
    # Critics are the functions that the kernel spans at the logged pairs, orthonormalized.
    inner = gram[np.ix_(pair, pair)]
    critics = np.linalg.solve(np.linalg.cholesky(inner), gram[pair])

    def objective(alpha):
        ratio = 1.0 + inner @ alpha
        flow = critics @ (ratio @ terms / n + (1 - gamma) * start)
        off = ratio @ mass / n - 1.0
        return n * (flow @ flow + off**2) + alpha @ inner @ alpha / sd**2

    # A quadratic: its minimum from its values.
    zero, eye = np.zeros(n), np.eye(n)
    base = objective(zero)
    single = np.array([objective(e) for e in eye])
    double = np.array([[objective(e + f) for f in eye] for e in eye])
    hessian = double - single[:, None] - single[None, :] + base
    gradient = single - base - 0.5 * hessian.diagonal()
    ratio = 1.0 - inner @ np.linalg.solve(hessian, gradient)
    found = minimax_weight("kernel", prior_sd=sd).estimate(
        logs, Softmax(), gamma=gamma, on_termination=termination, rng_key=jax.random.key(0)
    )
    # A constant is known without the ratio, where no episode ends in the reward 0 for ever.
    known = logs.reward.mean() if restart or gamma == 0.0 else 0.0
    assert found.value == pytest.approx(known + ratio @ (logs.reward - known) / n, rel=1e-5)


@pytest.mark.slow
def test_kernel_near_the_truth():
    errors = np.array(
        [
            [
                minimax_weight("kernel", n_inducing=60)
                .estimate(logs, policy, gamma=GAMMA, rng_key=jax.random.key(seed))
                .value
                for policy in POLICIES.values()
            ]
            for seed in range(6)
            for logs in [chain_log(seed, n_episodes=60, n_steps=15)]
        ]
    )
    errors = errors - TRUTH
    se = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert np.all(np.abs(errors.mean(axis=0)) < 5 * se)
    assert np.all(se < 0.05)


def test_bad_settings_are_refused():
    with pytest.raises(SettingsError, match="critics"):
        minimax_weight("neural")
    with pytest.raises(SettingsError, match="prior_sd"):
        minimax_weight(prior_sd=0.0)
    with pytest.raises(SettingsError, match="n_inducing"):
        minimax_weight(n_inducing=0)
    with pytest.raises(LogsError, match="labels"):
        minimax_weight("kernel").estimate(
            exhaustive_logs(), POLICY, gamma=0.5, rng_key=jax.random.key(0)
        )
    with pytest.raises(SettingsError, match="rng_key"):
        minimax_weight("kernel").estimate(vector_log(0), Softmax(), gamma=0.5)
    assert str(MedianKernel(5, "both")) == "squared_exponential(median, n_inducing=5, of='both')"
