"""Pairs that were never logged: values by pencil and paper, and coverage on simulated logs."""

import json

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

import bayesdice_ppl as bd
from bayesdice_ppl.inference.hierarchy import PairNumbers, Sums, predict

KEY = jax.random.key(0)
# Priors so wide that the fitted ratio is that of the log.
WIDE = {"ratio_sd": 1e4, "value_sd": 1e4}


def bandit(seed, n, n_states, n_actions, spread=1.0):
    """A contextual bandit's log, three tables and their true values; contexts are uniform."""
    rng = np.random.default_rng(seed)
    mean = spread * rng.normal(size=(n_states, n_actions))
    tables = rng.dirichlet(np.ones(n_actions), size=(3, n_states))
    state, action = rng.integers(n_states, size=n), rng.integers(n_actions, size=n)
    reward = mean[state, action] + rng.normal(size=n)
    frame = pl.DataFrame({"state": state, "action": action, "reward": reward})
    logs = bd.Logs.from_dataframe(frame, actions=list(range(n_actions)))
    policies = {f"p{j}": bd.TabularPolicy(table) for j, table in enumerate(tables)}
    return logs, policies, tables, frame, (tables * mean).sum(axis=2)


def by_hand(frame, tables):
    """The value of each table and its variance from counts, but for the prediction itself."""
    state, action, reward = (frame[name].to_numpy() for name in ("state", "action", "reward"))
    n_states, n_actions = tables.shape[1:]
    share = np.bincount(state, minlength=n_states) / len(state)
    seen = [(s, a) for s in range(n_states) for a in range(n_actions)]
    seen = [pair for pair in seen if ((state == pair[0]) & (action == pair[1])).any()]
    groups = [reward[(state == s) & (action == a)] for s, a in seen]
    scatter = np.array([((g - g.mean()) ** 2).sum() for g in groups])
    visits = np.array([len(g) for g in groups])
    pool = scatter.sum() / (visits - 1).sum()
    noise = (scatter + 2 * pool) / (visits + 1) / visits
    value = np.array([g.mean() for g in groups])
    spread, free = value.var(ddof=1), len(seen) - 1
    largest = spread * free / chi2.ppf(0.05, free)
    variance = max(largest - noise.mean(), spread * np.sqrt(2 / free))
    never = [(s, a) for s in range(n_states) for a in range(n_actions) if (s, a) not in seen]
    n = len(tables)
    codes, others = np.array(seen).T, np.array(never).T
    mass = share[others[0]] * tables[:, others[0], others[1]]
    pairs = PairNumbers(
        *codes,
        np.tile(value, (n, 1)),
        np.tile(noise, (n, 1)),
        np.ones((n, len(seen)), dtype=bool),
        np.full(n, np.sqrt(variance)),
    )
    found = predict(pairs, Sums(*others, mass))
    weight = share[codes[0]] * tables[:, codes[0], codes[1]]
    mean = weight @ value + found.mean
    # Error: (w + alpha) noise, and what the latents vary beyond the noise in their prediction.
    around = (weight + found.slope) * np.sqrt(noise)
    inside = found.slope * np.sqrt(noise)
    covariance = around @ around.T - inside @ inside.T + found.covariance
    # Contexts are drawn: their values vary too.
    in_state = np.zeros((n, n_states))
    for k, (s, a) in enumerate(seen):
        kept = sum(tables[:, s, b] for t, b in seen if t == s)
        in_state[:, s] += tables[:, s, a] / kept * value[k]
    off = in_state - (in_state @ share)[:, None]
    return mean, covariance + (off * share) @ off.T / len(state), mass


@pytest.mark.parametrize("n", [60, 90])
def test_mean_and_covariance_are_those_by_hand(n):
    logs, policies, tables, frame, _ = bandit(3, n, 5, 6)
    belief = bd.fit(
        logs, policies, gamma=0.0, rng_key=KEY, prior=bd.Prior(**WIDE), cluster="transition"
    )
    mean, covariance, mass = by_hand(frame, tables)
    known = belief["constant_data"]
    np.testing.assert_allclose(known["guide_mean"], mean, atol=1e-5)
    np.testing.assert_allclose(known["guide_sd"], np.sqrt(np.diag(covariance)), rtol=2e-3)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(known["correlation"], covariance / sd / sd[:, None], atol=5e-3)
    order = [f"{s}, {a}" for s, a in zip(*np.nonzero(missing(frame, tables)), strict=True)]
    assert known["unseen_pair"].values.tolist() == order
    np.testing.assert_allclose(known["unseen_mass"], mass, atol=1e-6)


def missing(frame, tables):
    never = np.ones(tables.shape[1:], dtype=bool)
    never[frame["state"].to_numpy(), frame["action"].to_numpy()] = False
    return never


def test_a_log_that_has_every_pair_is_left_as_it_is():
    logs, policies, *_ = bandit(1, 400, 3, 3)
    beliefs = [
        bd.fit(logs, policies, gamma=0.0, rng_key=KEY, draws=50, prior=bd.Prior(unseen=way))
        for way in ("pooled", "moved")
    ]
    values = [belief["posterior/value"].to_numpy() for belief in beliefs]
    np.testing.assert_array_equal(*values)
    assert "unseen_mass" not in beliefs[0]["constant_data"]


def test_moved_is_what_the_ratio_alone_says():
    logs, policies, tables, frame, _ = bandit(3, 60, 5, 6)
    belief = bd.fit(logs, policies, gamma=0.0, rng_key=KEY, prior=bd.Prior(**WIDE, unseen="moved"))
    kept = ~missing(frame, tables) * tables
    table = kept / kept.sum(axis=2, keepdims=True)
    state, action = frame["state"].to_numpy(), frame["action"].to_numpy()
    total = np.zeros((5, 6))
    np.add.at(total, (state, action), frame["reward"].to_numpy())
    count = np.zeros((5, 6))
    np.add.at(count, (state, action), 1)
    mean = total / np.maximum(count, 1)
    share = np.bincount(state, minlength=5) / len(state)
    expected = ((table * mean).sum(axis=2) * share).sum(axis=1)
    np.testing.assert_allclose(belief["constant_data/guide_mean"], expected, atol=1e-5)
    assert "unseen_mass" not in belief["constant_data"]


def test_a_state_without_a_logged_action_is_predicted_from_other_states():
    """One action in the last state was logged, and the candidate takes another there."""
    rng = np.random.default_rng(0)
    state = np.repeat(np.arange(6), 40)
    action = np.where(state == 5, 0, rng.integers(2, size=240))
    reward = 10.0 + state + 2.0 * action + 0.1 * rng.normal(size=240)
    frame = pl.DataFrame({"state": state, "action": action, "reward": reward})
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1])
    always = bd.TabularPolicy([[0.0, 1.0]] * 6)
    belief = bd.fit(logs, {"always 1": always}, gamma=0.0, rng_key=KEY)
    known = belief["constant_data"]
    # State and action add up: the last state's action 0 says what its action 1 pays.
    truth = 10.0 + 2.5 + 2.0
    assert abs(known["guide_mean"].values[0] - truth) < 4.0 * known["guide_sd"].values[0]
    assert known["guide_sd"].values[0] < 0.2
    moved = bd.fit(
        logs, {"always 1": always}, gamma=0.0, rng_key=KEY, prior=bd.Prior(unseen="moved")
    )
    assert abs(moved["constant_data/guide_mean"].values[0] - truth) > 0.3


def chain(seed, n_episodes, gamma, dead=False):
    """A walk over five states; `rare` was never logged in the last two, or nothing else is done."""
    rng = np.random.default_rng(seed)
    move = rng.dirichlet(np.ones(5), size=(5, 3))
    mean = rng.normal(size=(5, 3))
    logging = np.tile([0.5, 0.5, 0.0], (5, 1))
    logging[:3] = [0.4, 0.4, 0.2]
    table = np.tile([0.5, 0.3, 0.2], (5, 1))
    if dead:
        table[4] = [0.0, 0.0, 1.0]
    rows = []
    for episode in range(n_episodes):
        state = int(rng.integers(5))
        for step in range(20):
            action = int(rng.choice(3, p=logging[state]))
            following = int(rng.choice(5, p=move[state, action]))
            reward = float(mean[state, action] + 0.3 * rng.normal())
            rows.append((episode, step, state, action, reward, following))
            state = following
    names = ["episode_id", "step", "state", "action", "reward", "next_state"]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"), actions=[0, 1, 2])
    flow = np.einsum("sa,sat->st", table, move)
    visits = np.linalg.solve(np.eye(5) - gamma * flow.T, np.full(5, (1.0 - gamma) / 5))
    return logs, {"p": bd.TabularPolicy(table)}, float(visits @ (table * mean).sum(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("dead", [False, True])
def test_ninety_percent_intervals_of_an_mdp_cover_over_its_worlds(dead):
    """Worlds are drawn anew, as the prior of the latents has them."""
    hits, silent = [], 0
    for seed in range(300):
        logs, policies, truth = chain(seed, 60, 0.8, dead)
        belief = bd.fit(logs, policies, gamma=0.8, rng_key=KEY, draws=400)
        below = (belief["posterior/value"].to_numpy().ravel() < truth).mean()
        hits.append(0.05 < below < 0.95)
        silent += any(w["abstain"] for w in json.loads(belief.attrs["support_warnings"]))
    # Four standard errors, and .03 for what is first order.
    assert abs(np.mean(hits) - 0.9) < 4.0 * np.sqrt(0.09 / 300) + 0.03


@pytest.mark.slow
def test_intervals_of_bandits_cover_over_their_worlds():
    levels = np.array([0.5, 0.8, 0.9, 0.95])
    hits = []
    for seed in range(300):
        logs, policies, _, _, truth = bandit(seed, 100, 10, 6)
        belief = bd.fit(logs, policies, gamma=0.0, rng_key=KEY, draws=400)
        values = belief["posterior/value"].to_numpy()[0]
        off = np.abs((values < truth.mean(axis=1)).mean(axis=0) - 0.5)
        hits.append(off[:, None] < levels / 2)
    covers = np.mean(hits, axis=(0, 1))
    # Three candidates of one log are worth one, at least.
    assert (np.abs(covers - levels) < 4.0 * np.sqrt(levels * (1 - levels) / 300) + 0.01).all()
