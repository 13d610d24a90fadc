"""Adaptively weighted values against a loop, and against every log of a small bandit."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from bayesdice_ppl.inference import weighted_values
from bayesdice_ppl.inference.weighting import adaptive_scores

RATE = np.array([0.7, 0.4])


def chances(history):
    """An eager bandit: the better mean so far is taken with probability 0.8."""
    mean = [np.mean([r for a, r in history if a == k] or [0.5]) for k in range(2)]
    if mean[0] == mean[1]:
        return np.array([0.5, 0.5])
    return np.array([0.8, 0.2]) if mean[0] > mean[1] else np.array([0.2, 0.8])


def by_loop(action, reward, propensity, target):
    """Scores and weights of one candidate, row by row."""
    score, weight, k = [], [], len(target)
    for t in range(len(action)):
        past = slice(0, t)
        overall = reward[past].mean() if t else 0.0
        model, guess = np.empty(k), np.empty(k)
        for a in range(k):
            taken = np.flatnonzero(action[past] == a)
            model[a] = (reward[taken].sum() + overall) / (len(taken) + 1)
            seen, since = (propensity[taken[-1]], t - taken[-1] - 1) if len(taken) else (1 / k, t)
            guess[a] = 1.0 / (1.0 / seen + since / 2)
        guess /= guess.sum()
        a = action[t]
        score.append(target[a] / propensity[t] * (reward[t] - model[a]) + target @ model)
        weight.append((target**2 / guess).sum() ** -0.5)
    return np.array(score), np.array(weight)


def made_up(n=60, n_actions=3):
    rng = np.random.default_rng(0)
    action, reward = rng.integers(n_actions, size=n), rng.normal(size=n)
    return action, reward, rng.uniform(0.1, 0.9, size=n), rng.dirichlet(np.ones(n_actions), size=2)


@pytest.mark.parametrize("held", [1, 9, 1_000])
def test_scores_and_weights_are_those_of_a_loop(monkeypatch, held):
    monkeypatch.setattr("bayesdice_ppl.inference.weighting._AT_ONCE", 3 * held)
    action, reward, propensity, target = made_up()
    score, weight = adaptive_scores(action, reward, propensity, target)
    for j in range(2):
        expected = by_loop(action, reward, propensity, target[j])
        np.testing.assert_allclose(score[j], expected[0], rtol=1e-12)
        np.testing.assert_allclose(weight[j], expected[1], rtol=1e-12)


def test_states_are_averaged_by_their_shares():
    action, reward, propensity, target = made_up()
    state = np.arange(60) % 2
    share = np.repeat([0.3, 0.7], 3)
    found = weighted_values(
        3 * state + action, reward, propensity, np.repeat([0, 1], 3), np.tile(target, 2), share
    )
    value, error = np.zeros(2), np.zeros((2, 60))
    for s, mass in enumerate((0.3, 0.7)):
        rows = np.flatnonzero(state == s)
        for j in range(2):
            score, weight = by_loop(action[rows], reward[rows], propensity[rows], target[j])
            one = weight @ score / weight.sum()
            value[j] += mass * one
            error[j, rows] = mass * weight * (score - one) / weight.sum()
    np.testing.assert_allclose(found.value, value, rtol=1e-12)
    np.testing.assert_allclose(found.covariance, error @ error.T, rtol=1e-12)
    effective = (error**2).sum(axis=1) ** 2 / (error**4).sum(axis=1)
    np.testing.assert_allclose(found.effective, effective, rtol=1e-12)


def test_weighted_scores_have_the_value_as_their_mean_over_every_log():
    """All 4^5 logs of two arms that pay 0 or 1, each with its probability."""
    target = np.array([[0.5, 0.5], [0.1, 0.9]])
    off, plain, mass = np.zeros(2), 0.0, 0.0
    for steps in product(product((0, 1), (0, 1)), repeat=5):
        probability, chance = 1.0, []
        for t, (a, r) in enumerate(steps):
            chance.append(chances(steps[:t])[a])
            probability *= chance[-1] * (RATE[a] if r else 1.0 - RATE[a])
        action, reward = (np.array(column) for column in zip(*steps, strict=True))
        score, weight = adaptive_scores(action, reward * 1.0, np.array(chance), target)
        off += probability * (weight * (score - (target @ RATE)[:, None])).sum(axis=1)
        mean = reward[action == 1].mean() if np.any(action == 1) else RATE[1]
        plain += probability * (mean - RATE[1])
        mass += probability
    assert mass == pytest.approx(1.0)
    np.testing.assert_allclose(off, 0.0, atol=1e-12)
    # The plain mean of an arm is too low.
    assert plain < -0.03


def test_a_candidate_without_logged_actions_has_no_value():
    action, reward, propensity, target = made_up()
    none = np.vstack([target[0], np.zeros(3)])
    found = weighted_values(action, reward, propensity, np.zeros(3, int), none, np.ones(3))
    assert found.value[1] == 0.0
    assert found.covariance[1, 1] == 0.0


def test_intervals_cover_under_epsilon_greedy():
    rng, n_logs, n = np.random.default_rng(1), 400, 400
    mean, target = np.array([0.2, 0.0, 0.0]), np.full((1, 3), 1 / 3)
    logs, rows = np.arange(n_logs), []
    count, total = np.zeros((n_logs, 3)), np.zeros((n_logs, 3))
    for _ in range(n):
        best = np.argmax(total / np.maximum(count, 1.0), axis=1)
        chance = 0.1 + 0.7 * np.eye(3)[best]
        action = (chance.cumsum(axis=1) < rng.random(n_logs)[:, None]).sum(axis=1).clip(max=2)
        reward = mean[action] + rng.normal(size=n_logs)
        count[logs, action] += 1
        total[logs, action] += reward
        rows.append((action, reward, chance[logs, action]))
    columns = [np.stack(column, axis=1) for column in zip(*rows, strict=True)]
    inside = []
    for action, reward, propensity in zip(*columns, strict=True):
        found = weighted_values(action, reward, propensity, np.zeros(3, int), target, np.ones(3))
        score = (found.value[0] - target[0] @ mean) / np.sqrt(found.covariance[0, 0])
        inside.append(np.abs(score) < stats.norm.ppf(0.95))
    assert abs(np.mean(inside) - 0.9) < 4.0 * np.sqrt(0.09 / n_logs)
