import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.experiments.trials import PRIOR_BANDIT, Cell, deal


def rows(trial):
    logs = trial.logs
    return np.stack([logs.state, logs.action, logs.reward, logs.next_state], axis=1)


def test_a_trial_depends_on_seed_cell_and_number_alone():
    cell = Cell("frozenlake", 0.5, 4, 20, 10)
    third = deal(cell, 3, seed=7)
    deal(cell, 0, seed=7)
    again = deal(cell._replace(n_trials=99), 3, seed=7)
    assert np.array_equal(rows(third), rows(again))
    assert np.array_equal(jax.random.key_data(third.rng_key), jax.random.key_data(again.rng_key))
    for other in (deal(cell, 4, 7), deal(cell, 3, 8), deal(cell._replace(behavior=0.6), 3, 7)):
        assert not np.array_equal(rows(third), rows(other))


def test_true_values_are_those_of_the_world():
    bandit = deal(Cell("bandit", 0.5, 5, 1, 1, (0.0, 1.0, 0.75)), 0, 0)
    # Arms that pay with probability 0.75 and 0.25; alpha is the share of the better one.
    known = {"alpha_0.00": 0.25, "alpha_1.00": 0.75, "alpha_0.75": 0.625}
    assert dict(zip(bandit.candidates, bandit.truth, strict=True)) == pytest.approx(known)
    assert bandit.places == tuple(float(name.removeprefix("alpha_")) for name in bandit.candidates)
    lake = deal(Cell("frozenlake", 0.5, 5, 10, 1), 0, 0)
    world = bd.simulation.make_world("frozenlake")
    exact = [float(bd.true_value(world.env, policy, 0.99)) for policy in lake.candidates.values()]
    assert lake.truth == pytest.approx(exact, rel=1e-12)
    assert set(lake.candidates) == set(world.candidates)
    assert lake.gamma == 0.99


def test_arms_of_the_prior_bandit_are_uniform_and_independent():
    cell = Cell(PRIOR_BANDIT, 0.5, 2, 1, 400, (0.0, 1.0))
    trials = [deal(cell, number, 0) for number in range(400)]
    arms = np.array([trial.arms for trial in trials])
    # Mean 1/2 and variance 1/12, within 4 standard errors.
    assert np.all(np.abs(arms.mean(axis=0) - 0.5) < 4 * np.sqrt(1 / 12 / 400))
    assert abs(np.corrcoef(arms.T)[0, 1]) < 4 / np.sqrt(400)
    for trial in trials[:20]:
        known = dict(zip(trial.places, trial.truth, strict=True))
        assert known == pytest.approx({1.0: trial.arms[0], 0.0: trial.arms[1]})


def test_every_trial_of_garnet_is_another_world():
    cell = Cell("garnet", 0.5, 2, 5, 2)
    others = [deal(cell, 1, 0), deal(cell, 0, 1), deal(cell._replace(n_episodes=3), 0, 0)]
    first = np.sort(deal(cell, 0, 0).truth)
    for other in others:
        assert not np.allclose(first, np.sort(other.truth))
    assert np.array_equal(first, np.sort(deal(cell, 0, 0).truth))


def test_the_order_of_candidates_tells_nothing():
    cell = Cell("bandit", 0.5, 2, 1, 400)
    best = [int(np.argmax(deal(cell, number, 0).truth)) for number in range(400)]
    counts = np.bincount(best, minlength=5)
    # Each place holds the best in a fifth of the trials, within 4.5 standard errors.
    assert np.all(np.abs(counts - 80) < 4.5 * np.sqrt(400 * 0.2 * 0.8))


def test_an_unknown_world_is_refused():
    with pytest.raises(bd.errors.SettingsError, match="world"):
        deal(Cell("atlantis", 0.5, 2, 5, 2), 0, 0)
