"""What is played is what the table says, by exact binomial tests over every row.

The family-wise level is 0.1 % in each test (Bonferroni), and the seeds are fixed.
"""

import jax
import numpy as np
import pytest
from scipy.stats import binom

import bayesdice_ppl.envs as envs
from bayesdice_ppl.simulation import sample_transitions
from tests.marks import first_few

WORLDS = {
    "bandit": envs.Bandit((0.75, 0.25, 1.0)),
    "lake": envs.InfiniteFrozenLake(),
    "garnet": envs.Restart(envs.Garnet(8, 3, 3, seed=5, termination=0.1)),
    "garnet_episodic": envs.Garnet(8, 3, 3, seed=5, termination=0.1),
    "garnet_by_chance": envs.Restart(
        envs.Garnet(8, 3, 3, seed=5, termination=0.1), probability=0.2
    ),
    "contexts": envs.ContextualBandit(contexts=(0.1, 0.2, 0.3, 0.4)),
    "river": envs.RiverSwim(),
    "taxi": envs.InfiniteTaxi(),
    "taxi_in_the_rain": envs.InfiniteTaxi(is_rainy=True),
}
LEVEL = 0.001


def expected_cells(outcomes):
    """(state, action, next state, reward, terminated) -> probability."""
    cells = {}
    for state, action, k in zip(*np.nonzero(outcomes.probability), strict=True):
        at = (state, action, k)
        cell = (
            int(state),
            int(action),
            int(outcomes.next_state[at]),
            float(np.float32(outcomes.reward[at])),  # as the sampler has it
            bool(outcomes.terminated[at]),
        )
        cells[cell] = cells.get(cell, 0.0) + outcomes.probability[at]
    return cells


def smallest_p_value(counts, trials, probabilities):
    """Two-sided exact binomial p-values, at most doubled one-sided ones."""
    counts, trials = np.asarray(counts), np.asarray(trials)
    probabilities = np.minimum(probabilities, 1.0)  # 1/3 + 1/3 + 1/3 may exceed 1 by rounding
    below = binom.cdf(counts, trials, probabilities)
    above = binom.sf(counts - 1, trials, probabilities)
    return np.min(np.minimum(1.0, 2 * np.minimum(below, above)))


def assert_agrees(outcomes, state, action, next_state, reward, terminated):
    expected = expected_cells(outcomes)
    reward = np.asarray(reward, np.float32)
    rows = np.stack([state, action, next_state, reward, terminated], axis=1)
    seen, counts = np.unique(rows.astype(float), axis=0, return_counts=True)
    counted = {
        (int(s), int(a), int(t), float(r), bool(e)): int(n)
        for (s, a, t, r, e), n in zip(seen, counts, strict=True)
    }
    assert set(counted) <= set(expected)
    visits = np.zeros(outcomes.probability.shape[:2], dtype=int)
    np.add.at(visits, (state, action), 1)
    cells = [cell for cell in expected if visits[cell[:2]] > 0]
    smallest = smallest_p_value(
        [counted.get(cell, 0) for cell in cells],
        [visits[cell[:2]] for cell in cells],
        [expected[cell] for cell in cells],
    )
    assert smallest >= LEVEL / len(cells)
    return visits


def never_visited(env, visits):
    """States that are not entered whatever is done, and that were indeed not."""
    # The lake's holes and goal are never entered, nor are places where a taxi's passenger stands
    # where they want to go (Gymnasium numbers them ((row 5 + column) 5 + place) 4 + destination).
    number = np.arange(len(visits))
    never = np.zeros(len(visits), dtype=bool)
    if env is WORLDS["lake"]:
        never[[5, 7, 11, 12, 15]] = True
    elif len(visits) == 500:
        never = number // 4 % 5 == number % 4
    assert not visits[never].any()
    return never


@pytest.mark.parametrize("env", WORLDS.values(), ids=WORLDS.keys())
def test_gymnasiums_steps_agree_with_the_table(env):
    rng = np.random.default_rng(11)
    state, _ = env.reset(seed=12)
    steps = []
    for action in rng.integers(env.action_space.n, size=40_000).tolist():
        next_state, reward, terminated, _, _ = env.step(action)
        steps.append((state, action, next_state, reward, terminated))
        state = env.reset()[0] if terminated else next_state
    state, action, next_state, reward, terminated = map(np.array, zip(*steps, strict=True))
    visits = assert_agrees(env.outcomes, state, action, next_state, reward, terminated)
    never = never_visited(env, visits)
    # Forty thousand steps are too few for each of a taxi's 2,400 pairs.
    assert len(visits) == 500 or np.all(visits[~never] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("env", first_few([*WORLDS.values()], 1), ids=WORLDS.keys())
def test_a_million_sampled_steps_agree_with_the_table(env):
    n_states, n_actions, _ = env.outcomes.probability.shape
    # No action is so rare that a million steps might miss it.
    policy = np.random.default_rng(13).dirichlet(np.full(n_actions, 5.0), size=n_states)
    policy = 0.9 * policy + 0.1 / n_actions
    n_episodes, max_steps = 10_000, 100
    played = sample_transitions(
        env.outcomes, env.initial_distribution, policy, n_episodes, max_steps, jax.random.key(14)
    )
    played = type(played)(*(np.asarray(field) for field in played))
    logged = played.logged
    if env is WORLDS["garnet_episodic"]:
        # Logged up to and including the termination, and not beyond.
        alive = np.cumsum(played.terminated, axis=1) - played.terminated == 0
        first_end = np.argmax(played.terminated & logged, axis=1)
        lengths = np.where((played.terminated & logged).any(axis=1), first_end + 1, max_steps)
        np.testing.assert_array_equal(logged.sum(axis=1), lengths)
        assert not np.any(logged & ~alive)
    else:
        assert logged.all()
    visits = assert_agrees(
        env.outcomes,
        *(
            getattr(played, field)[logged]
            for field in ("state", "action", "next_state", "reward", "terminated")
        ),
    )
    never = never_visited(env, visits)
    assert np.all(visits[~never] > 0)

    # Actions, first states, and the chain itself.
    visited = visits.sum(axis=1) > 0
    totals = np.repeat(visits[visited].sum(axis=1), n_actions)
    smallest = smallest_p_value(visits[visited].ravel(), totals, policy[visited].ravel())
    assert smallest >= LEVEL / totals.size
    starts = np.bincount(played.state[:, 0], minlength=n_states)
    smallest = smallest_p_value(starts, n_episodes, env.initial_distribution)
    assert smallest >= LEVEL / n_states
    follows = logged[:, 1:]
    np.testing.assert_array_equal(played.state[:, 1:][follows], played.next_state[:, :-1][follows])


def test_what_has_probability_zero_never_happens():
    """Draws next to 1 in float32 must not fall through to a padded outcome."""
    from bayesdice_ppl.envs.tabular import thresholds
    from bayesdice_ppl.simulation.sampling import _limits, _pick

    probability = np.array([0.0, *np.full(10, 0.1), 0.0, 0.0])
    limits = _limits(jax.numpy.asarray(probability))
    draws = np.array([0.0, np.nextafter(np.float32(1), np.float32(0))], np.float32)
    for both in (limits, thresholds(probability)):
        assert _pick(both[None], draws).tolist() == [1, 10]
    np.testing.assert_allclose(limits, thresholds(probability), rtol=1e-6)
