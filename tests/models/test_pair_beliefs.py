import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.envs import Garnet, RiverSwim
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.models import (
    PairCounts,
    pair_beliefs,
    pair_prior,
    pair_variance,
    policy_belief,
)
from tests.exploration_worlds import drawn_counts, exact_counts, value_of

PRIOR = pair_prior(0.0, 1.0)


@pytest.fixture(scope="module")
def garnet():
    return Garnet(4, 2, 2, seed=3)


def random_policy(n_states, n_actions, seed):
    return np.random.default_rng(seed).dirichlet(np.ones(n_actions), size=n_states)


def test_the_variance_of_a_pair_is_that_of_its_dirichlet_process():
    """One pair with rows of known X, and imaginary ones of the base law: draws of the process."""
    moves = np.zeros((2, 1, 2))
    rewards, squares = np.zeros_like(moves), np.zeros_like(moves)
    # Rows of the pair (0, 0): reward 1 to state 1, three times; reward 0 to state 0, twice.
    moves[0, 0], rewards[0, 0], squares[0, 0] = (2, 3), (0, 3), (0, 3)
    counts = PairCounts(moves, rewards, squares, np.array([1.0, 0.0]))
    value, gamma = np.array([0.3, 2.0]), 0.9
    found = pair_variance(pair_beliefs(counts, PRIOR), value, gamma)
    rng, n_draws = np.random.default_rng(0), 50_000
    # Dirichlet of (row of kind 1, row of kind 2, imaginary row); the imaginary mass w = 1 is one
    # draw of a Dirichlet process of mass 1, by stick breaking.
    shares = rng.dirichlet([3.0, 2.0, 1.0], size=n_draws)
    sticks = rng.beta(1.0, 1.0, size=(n_draws, 40))
    left = np.cumprod(np.concatenate([np.ones((n_draws, 1)), 1.0 - sticks[:, :-1]], axis=1), axis=1)
    level = (3.0 + 0.5) / 6.0
    atoms = level + rng.choice([-0.5, 0.5], size=sticks.shape)
    atoms = atoms + gamma * value[rng.integers(2, size=sticks.shape)]
    base = (sticks * left * atoms).sum(axis=1)
    means = shares @ np.array([1.0 + gamma * 2.0, gamma * 0.3, 0.0]) + shares[:, 2] * base
    off = (means - means.mean()) ** 2
    error = off.std() / np.sqrt(n_draws)
    assert found[0, 0] == pytest.approx(off.mean(), abs=4.0 * error)


def test_a_pair_never_logged_has_the_variance_of_the_prior():
    counts = exact_counts(RiverSwim(4), 100.0)
    moves = counts.moves.copy()
    moves[2, 1] = 0.0
    sums = [np.where(moves > 0.0, each, 0.0) for each in counts[1:3]]
    beliefs = pair_beliefs(PairCounts(moves, *sums, counts.starts), PRIOR)
    value = np.array([0.0, 1.0, 2.0, 3.0])
    found = pair_variance(beliefs, value, 0.5)
    # Half of the variance of one imaginary step: rewards of variance 1/4, successors of any state.
    assert found[2, 1] == pytest.approx((0.25 + 0.25 * np.var(value)) / 2.0)
    assert found[2, 1] > 10.0 * np.delete(found.ravel(), 5).max()


def test_states_never_seen_are_not_led_to():
    counts = exact_counts(RiverSwim(3), 0.0)._replace(starts=np.array([1.0, 0.0, 0.0]))
    beliefs = pair_beliefs(counts, PRIOR)
    np.testing.assert_allclose(beliefs.moves[..., 0], 1.0)
    assert beliefs.reward == pytest.approx(0.5)
    found = policy_belief(beliefs, np.full((3, 2), 0.5), 0.9)
    # Two pairs with half of the steps each, and a variance of 1/8: 2 / 4 / 8.
    assert (found.mean, found.variance) == pytest.approx((0.5, 1.0 / 16.0))


def test_mean_and_variance_are_those_of_drawn_models(garnet):
    """The value is evaluated in models that are drawn from the belief, many rows a pair."""
    policy, gamma, n = random_policy(4, 2, 1), 0.9, 400.0
    counts = exact_counts(garnet, n)
    beliefs = pair_beliefs(counts, pair_prior(0.0, 1.0, weight=1e-9))
    found = policy_belief(beliefs, policy, gamma)
    rng, values = np.random.default_rng(2), []
    chance = np.stack([counts.moves - counts.reward_sum, counts.reward_sum], axis=-1)
    for _ in range(2000):
        # Rewards are 0 or 1, so that a Dirichlet over (successor, reward) is the whole process.
        draw = np.zeros_like(chance)
        for at in np.ndindex(4, 2):
            draw[at] = rng.dirichlet(chance[at].ravel() + 1e-12).reshape(4, 2)
        moves = np.einsum("sa,sat->st", policy, draw.sum(axis=-1))
        reward = np.einsum("sa,sat->s", policy, draw[..., 1])
        start = rng.dirichlet(counts.starts + 1e-12)
        values.append((1 - gamma) * start @ np.linalg.solve(np.eye(4) - gamma * moves, reward))
    values = np.array(values)
    sd = values.std()
    assert found.mean == pytest.approx(value_of(garnet, policy, gamma), rel=1e-6)
    assert abs(found.mean - values.mean()) < 5.0 * sd / np.sqrt(len(values))
    # Five errors of a standard deviation, and its terms of second order in 1 / n.
    assert found.variance**0.5 == pytest.approx(sd, rel=5.0 / np.sqrt(2 * len(values)) + 2.0 / n)


def test_it_is_the_belief_that_a_fit_gives(garnet):
    uniform = np.full((4, 2), 0.5)
    counts, rows = drawn_counts(garnet, uniform, 100, 40, 5)
    names = ("episode_id", "step", "state", "action", "reward", "next_state")
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"), actions=[0, 1])
    policies = {f"p{seed}": random_policy(4, 2, seed) for seed in range(3)}
    belief = bd.fit(
        logs,
        {name: bd.TabularPolicy(table) for name, table in policies.items()},
        gamma=0.9,
        rng_key=jax.random.key(0),
        cluster="transition",
        inference="exact",
        draws=100,
    )
    mean, sd = belief["constant_data/guide_mean"].values, belief["constant_data/guide_sd"].values
    beliefs = pair_beliefs(counts, pair_prior(0.0, 1.0, weight=1e-6))
    for at, table in enumerate(policies.values()):
        found = policy_belief(beliefs, table, 0.9)
        assert abs(found.mean - mean[at]) < 0.05 * sd[at]
        assert found.variance**0.5 == pytest.approx(sd[at], rel=0.02)


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.0), (0.0, 0.0), (0.0, float("nan"))])
def test_a_range_that_is_none_is_refused(low, high):
    with pytest.raises(SettingsError, match="reward range: expected two numbers, the lower one"):
        pair_prior(low, high)
