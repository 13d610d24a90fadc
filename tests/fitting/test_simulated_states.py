"""Candidates simulated from the log's transitions: worlds whose answer is known by counting."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.simulated_states import Outside, share_outside
from bayesdice_ppl.fitting.warnings import outside_states


def seesaw(n_episodes=40, n_steps=10):
    """From 0 to 1 or -1 and back: at 0 the log goes either way, elsewhere it always returns."""
    rng = np.random.default_rng(0)
    state, following, episode = [], [], []
    for e in range(n_episodes):
        s = 0.0
        for _ in range(n_steps):
            then = rng.choice([-1.0, 1.0]) if s == 0.0 else 0.0
            state.append(s)
            following.append(then)
            episode.append(e)
            s = then
    return np.array(state)[:, None], np.array(following)[:, None], np.array(episode)


@pytest.mark.parametrize("gamma", [0.5, 0.9])
def test_where_none_of_its_actions_was_logged_a_candidate_is_outside(gamma):
    state, following, episode = seesaw()
    up = ((following - state)[:, 0] == 1.0) & (state[:, 0] == 0.0)
    never = np.zeros(len(state))
    found, _ = share_outside(
        state,
        following,
        np.zeros(len(state), dtype=bool),
        episode,
        np.zeros((40, 1)),
        np.stack([2.0 * up, np.ones(len(state)), never]),
        gamma,
        np.random.default_rng(1),
        restart=True,
    )
    # Upward from 0, then at 1 without an action, and back: outside at every odd step.
    n_steps = int(np.ceil(np.log(0.02) / np.log(gamma)))
    weight = gamma ** np.arange(n_steps)
    expected = [weight[1::2].sum() / weight.sum(), 0.0, 1.0]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def drifting(n_episodes=200, n_steps=6):
    """s' = s + a with a ~ Normal(0, 0.5): the log stays within a few units of 0."""
    rng = np.random.default_rng(2)
    action = 0.5 * rng.normal(size=(n_episodes, n_steps))
    path = np.concatenate([np.zeros((n_episodes, 1)), np.cumsum(action, axis=1)], axis=1)
    episode = np.repeat(np.arange(n_episodes), n_steps)
    return path[:, :-1].reshape(-1, 1), path[:, 1:].reshape(-1, 1), episode, action.ravel()


def test_a_candidate_that_drifts_away_is_outside_as_often_as_it_is_in_truth():
    state, following, episode, action = drifting()
    shifts = np.array([0.0, 0.25, 0.5, 0.75])
    ratio = np.exp((action * shifts[:, None] - 0.5 * shifts[:, None] ** 2) / 0.25)
    found, _ = share_outside(
        state,
        following,
        np.zeros(len(state), dtype=bool),
        episode,
        np.zeros((1, 1)),
        ratio,
        0.8,
        np.random.default_rng(3),
        restart=True,
    )
    n_steps = int(np.ceil(np.log(0.02) / np.log(0.8)))
    weight = 0.8 ** np.arange(n_steps) / np.sum(0.8 ** np.arange(n_steps))
    steps = 0.5 * np.random.default_rng(4).normal(size=(20_000, n_steps - 1))
    in_truth = []
    for shift in shifts:
        path = np.concatenate([np.zeros((20_000, 1)), np.cumsum(steps + shift, axis=1)], axis=1)
        in_truth.append(((path < state.min()) | (path > state.max())).mean(axis=0) @ weight)
    expected = np.array(in_truth) - in_truth[0]
    assert found[0] == 0.0
    # Neighbors stand for a state, so that the answer is near and not exact.
    np.testing.assert_allclose(found[1:], expected[1:], rtol=0.25)
    assert expected[1] > 0.05


def test_an_action_that_is_rare_in_the_log_is_no_state_outside_it():
    """The action says nothing of what follows; one in ten rows has the candidate's."""
    rng = np.random.default_rng(7)
    state, following = rng.normal(size=(2, 3000, 2))
    rare = 10.0 * (rng.random(3000) < 0.1)
    found, _ = share_outside(
        state,
        following,
        np.zeros(3000, dtype=bool),
        np.repeat(np.arange(100), 30),
        state[::30],
        np.stack([rare, rare]),
        0.9,
        rng,
        restart=True,
    )
    assert found[0] == found[1] < 0.05


def test_a_number_that_does_not_persist_does_not_wander_off():
    """A candidate that likes what is followed by a high number, which says nothing of the next."""
    rng = np.random.default_rng(6)
    state, following = rng.normal(size=(2, 400, 1))
    found, _ = share_outside(
        state,
        following,
        np.zeros(400, dtype=bool),
        np.repeat(np.arange(40), 10),
        state[::10],
        np.exp(following.T),
        0.9,
        rng,
        restart=True,
    )
    assert found[0] < 0.02


def test_after_a_termination_there_is_a_fresh_start_or_nothing():
    """One step from 0 to far away, which ends the episode for half of the log."""
    state = np.zeros((60, 1))
    following = np.full((60, 1), 5.0)
    ended = np.arange(60) % 2 == 0
    given = (state, following, ended, np.arange(60), state[:1])
    ends, goes_on = ended.astype(float), (~ended).astype(float)
    restart, absorb = (
        share_outside(
            *given, np.stack([ends, goes_on]), 0.9, np.random.default_rng(0), restart=restart
        ).share
        for restart in (True, False)
    )
    # The logging policy leaves too, and what it leaves is subtracted.
    assert restart[0] == absorb[0] == 0.0
    assert (restart[1] > 0.1) & (absorb[1] > 0.1)


def test_where_the_logging_policy_itself_leaves_the_log_the_check_says_so():
    """A clock in the state: 30 steps were logged, and some 80 count."""
    step = np.tile(np.arange(30.0), 20)[:, None]
    found = share_outside(
        step,
        step + 1.0,
        np.zeros(600, dtype=bool),
        np.repeat(np.arange(20), 30),
        np.zeros((1, 1)),
        np.ones((1, 600)),
        0.95,
        np.random.default_rng(0),
        restart=True,
    )
    weight = 0.95 ** np.arange(np.ceil(np.log(0.02) / np.log(0.95)))
    assert found.logging == pytest.approx(weight[30:].sum() / weight.sum(), abs=0.02)
    assert found.share[0] == 0.0
    (told,) = outside_states(("same",), Outside(found.share, 0.4))
    assert "cannot be checked" in told.reason
    assert not told.abstain
    assert not outside_states(("same",), found._replace(logging=0.2))


def test_a_belief_says_so_and_abstains():
    rng = np.random.default_rng(5)
    rows = []
    for episode in range(60):
        s = np.zeros(2)
        for step in range(12):
            a = 0.5 * rng.normal()
            following = np.array([0.9 * s[0] + a, 0.5 * s[1] + 0.3 * rng.normal()])
            density = np.exp(-2.0 * a**2) / np.sqrt(0.5 * np.pi)
            rows.append(
                (episode, step, *s, a, -abs(s[0]) + 0.1 * rng.normal(), *following, density)
            )
            s = following
    names = [
        "episode_id",
        "step",
        "obs_0",
        "obs_1",
        "action_0",
        "reward",
        "next_obs_0",
        "next_obs_1",
        "propensity",
    ]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
    policies = {
        "near": bd.GaussianPolicy(lambda obs: -0.1 * np.asarray(obs)[:, :1], 0.5),
        "far": bd.GaussianPolicy(lambda obs: 0.0 * np.asarray(obs)[:, :1] + 0.9, 0.3),
    }
    belief = bd.fit(logs, policies, gamma=0.95, rng_key=jax.random.key(0), draws=100)
    share = belief["constant_data/outside_share"].values
    assert share[0] < 0.05
    assert share[1] > 0.1
    view = bd.belief.BeliefView(belief)
    said = [w for w in view.support_warnings if "outside the log" in w.reason]
    assert [(w.policy, w.abstain) for w in said] == [("far", True)]
    assert f"{share[1]:.0%} of its discounted time" in said[0].reason
