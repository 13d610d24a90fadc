"""Each explorer against what is known of it."""

import numpy as np
import pytest

from bayesdice_ppl.envs import Garnet, RiverSwim, optimal_action_values
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.exploration import (
    ExplorationTask,
    RoundRows,
    bayesdice,
    psrl,
    q_learning,
    rlsvi,
    ucbvi,
)
from bayesdice_ppl.exploration.explorers import Counted
from bayesdice_ppl.exploration.others import draw_model, ucb_values
from bayesdice_ppl.models import pair_beliefs, pair_prior, pair_variance
from tests.exploration_worlds import best_value, drawn_counts, exact_counts, value_of

PRIOR, GAMMA = pair_prior(0.0, 1.0), 0.9
TASK = ExplorationTask(4, 2, GAMMA, PRIOR)
UNIFORM = np.full((4, 2), 0.5)
ALL = [bayesdice(), psrl(), rlsvi(), ucbvi(), q_learning()]


@pytest.fixture(scope="module")
def garnet():
    return Garnet(4, 2, 2, seed=3)


def rows_of(drawn):
    episode, step, state, action, reward, following = (
        np.array(column) for column in zip(*drawn, strict=True)
    )
    never = np.zeros(len(state), dtype=bool)
    half = np.full(len(state), 0.5)
    return RoundRows(episode, step, state, action, reward, following, following, never, never, half)


@pytest.mark.parametrize("explorer", ALL, ids=lambda one: one.name)
def test_the_first_policy_is_uniform_and_nothing_is_changed(explorer, garnet):
    state = explorer.init(TASK)
    first = explorer.choose(state, np.random.default_rng(0)).policy
    np.testing.assert_allclose(first, 0.5)
    rows = rows_of(drawn_counts(garnet, UNIFORM, 2, 20, 0)[1])
    once, again = explorer.learn(state, rows), explorer.learn(state, rows)
    policies = [explorer.choose(one, np.random.default_rng(1)).policy for one in (once, again)]
    np.testing.assert_array_equal(*policies)
    np.testing.assert_allclose(explorer.choose(state, np.random.default_rng(0)).policy, 0.5)


@pytest.mark.parametrize("explorer", ALL[:-2], ids=lambda one: one.name)
def test_with_full_data_the_policy_is_the_best(explorer, garnet):
    state = Counted(TASK, exact_counts(garnet, 1e7))
    policy = explorer.choose(state, np.random.default_rng(0)).policy
    assert value_of(garnet, policy, GAMMA) == pytest.approx(best_value(garnet, GAMMA), rel=1e-3)


def test_counts_are_those_of_the_rows(garnet):
    counts, drawn = drawn_counts(garnet, UNIFORM, 3, 20, 0)
    explorer = psrl()
    found = explorer.learn(explorer.init(TASK), rows_of(drawn)).counts
    for one, expected in zip(found, counts, strict=True):
        np.testing.assert_allclose(one, expected)


def test_q_learning_comes_to_the_optimal_values(garnet):
    explorer = q_learning()
    _, drawn = drawn_counts(garnet, UNIFORM, 1, 15_000, 1)
    state = explorer.learn(explorer.init(TASK), rows_of(drawn))
    best = optimal_action_values(garnet.outcomes, gamma=GAMMA)
    # Steps of n^-0.6 leave a noise of that variance: a tenth of the largest value at most.
    np.testing.assert_allclose(state.values, best, atol=0.1 * best.max())
    policy = explorer.choose(state, np.random.default_rng(0)).policy
    epsilon = 2**-0.5
    assert policy.min() == pytest.approx(epsilon / 2.0)


def test_upper_bounds_of_ucbvi_hold_and_close(garnet):
    best = optimal_action_values(garnet.outcomes, gamma=GAMMA)
    for seed in range(10):
        counts, _ = drawn_counts(garnet, UNIFORM, 2, 50, seed)
        assert np.all(ucb_values(Counted(TASK, counts), 1.0) >= best - 1e-3)
    sure = ucb_values(Counted(TASK, exact_counts(garnet, 1e12)), 1.0)
    np.testing.assert_allclose(sure, best, atol=1e-2)
    greedy = ucb_values(Counted(TASK, exact_counts(garnet, 1e3)), 0.0)
    np.testing.assert_allclose(greedy, best, atol=1e-2)


def test_models_that_psrl_draws_have_the_moments_of_the_belief():
    counts, _ = drawn_counts(RiverSwim(4), UNIFORM, 2, 20, 0)
    beliefs = pair_beliefs(counts, PRIOR)
    rng, n = np.random.default_rng(0), 3000
    drawn = [draw_model(beliefs, rng) for _ in range(n)]
    moves, rewards = (np.stack(x) for x in zip(*drawn, strict=True))
    value = np.array([0.0, 1.0, 2.0, 4.0])
    for one, mean, variance in (
        (rewards, beliefs.reward, pair_variance(beliefs, 0.0 * value, 0.0)),
        (
            moves @ value,
            beliefs.moves @ value,
            (beliefs.moves @ value**2 - (beliefs.moves @ value) ** 2) / (beliefs.total + 1.0),
        ),
    ):
        assert np.all(np.abs(one.mean(axis=0) - mean) < 5.0 * np.sqrt(variance / n))
        off = (one - mean) ** 2
        assert np.all(np.abs(off.mean(axis=0) - variance) < 5.0 * off.std(axis=0) / np.sqrt(n))


def test_the_bonus_falls_as_one_over_n(garnet):
    value = np.array([0.0, 1.0, 3.0, 2.0])
    sizes = 2.0 ** np.arange(10, 18)
    logs = [pair_beliefs(exact_counts(garnet, n), PRIOR) for n in sizes]
    found = np.array([pair_variance(one, value, GAMMA).ravel() for one in logs])
    slopes = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    # The imaginary step is one in a thousand at the smallest of them.
    np.testing.assert_allclose(slopes, -1.0, atol=0.02)


def test_numbers_out_of_range_are_refused():
    with pytest.raises(SettingsError, match="q_learning: power"):
        q_learning(power=0.0)
    with pytest.raises(SettingsError, match="ucbvi: scale"):
        ucbvi(scale=-1.0)
