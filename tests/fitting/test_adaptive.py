"""Logs of policies that follow their own rewards: found, and not taken for others."""

import json

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.adaptive import follow


def thompson(seed, n=600, n_actions=8, n_states=1):
    """Thompson sampling with normal rewards of variance 1 under a standard normal prior."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(n_states, n_actions)) * 0.3
    count, total = np.zeros_like(mean), np.zeros_like(mean)
    state, action, reward = rng.integers(n_states, size=n), np.empty(n, int), np.empty(n)
    for t, s in enumerate(state):
        drawn = total[s] / (count[s] + 1) + rng.normal(size=n_actions) / np.sqrt(count[s] + 1)
        a = action[t] = drawn.argmax()
        reward[t] = mean[s, a] + rng.normal()
        count[s, a] += 1
        total[s, a] += reward[t]
    return state, action, reward


def fixed(seed, n=600, n_actions=8, n_states=5):
    rng = np.random.default_rng(seed)
    state, action = rng.integers(n_states, size=n), rng.choice(n_actions, size=n)
    return state, action, 0.3 * action + 0.5 * state + rng.standard_t(3, size=n)


def test_scores_are_those_of_a_loop():
    n = 150
    state, action, reward = fixed(0, n=n, n_actions=3, n_states=2)
    score = np.zeros(n)
    for t in range(n):
        here = state == state[t]
        past = here & (np.arange(n) < t)
        mean = reward[past].mean() if past.any() else 0.0
        share = np.array([(action[here] == a).mean() for a in range(3)])
        advantage = np.array(
            [
                (reward[past & (action == a)] - mean).sum() / ((past & (action == a)).sum() + 1.0)
                for a in range(3)
            ]
        )
        score[t] = advantage[action[t]] - share @ advantage
    block = np.arange(n) * 25 // n
    sums = np.array([score[block == b].sum() / np.sqrt((block == b).sum()) for b in range(25)])
    expected = sums.mean() / stats.sem(sums)
    # The other statistic may be larger.
    assert follow(state, action, reward).score >= expected - 1e-9
    assert follow(state[:90], action[:90], reward[:90]).score == 0.0


def test_changed_shares_have_the_p_value_of_ranks():
    rng = np.random.default_rng(1)
    action = rng.integers(3, size=90)
    found = follow(np.zeros(90, int), action, rng.normal(size=90)).changed
    expected = stats.kruskal(*(np.flatnonzero(action == a) for a in range(3))).pvalue
    assert found == pytest.approx(expected, rel=1e-9)


def test_thompson_sampling_is_found_and_fixed_policies_are_not():
    found = [follow(*thompson(seed)).adaptive for seed in range(60)]
    # Measured 0.9 on other seeds.
    assert np.mean(found) > 0.7
    wrong = sum(follow(*fixed(seed)).adaptive for seed in range(150))
    # Measured 0.02 on other seeds.
    assert wrong <= stats.binom.ppf(1.0 - 1e-5, 150, 0.03)


@pytest.mark.parametrize(("n_states", "abstains"), [(1, False), (8, True)])
def test_the_belief_says_so_and_is_wider(n_states, abstains):
    state, action, reward = thompson(3, n=1_500, n_actions=5, n_states=n_states)
    assert follow(state, action, reward).adaptive
    logs = bd.Logs.from_dataframe(
        pl.DataFrame({"state": state, "action": action, "reward": reward})
    )
    seen = len(logs.action_labels)
    policies = {"uniform": bd.TabularPolicy(np.full((n_states, seen), 1.0 / seen))}
    belief = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(0), draws=20)
    data = belief["constant_data"]
    assert json.loads(belief.attrs["unit"])["adaptive"]
    assert data["error_inflation"].to_numpy()[0] > 1.2
    said = [w for w in json.loads(belief.attrs["support_warnings"]) if "followed" in w["reason"]]
    assert [w["abstain"] for w in said] == [abstains]
