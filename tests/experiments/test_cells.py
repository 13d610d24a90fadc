import jax
import numpy as np
import pytest
import scipy.stats

import bayesdice_ppl as bd
from bayesdice_ppl.experiments.believing import draw_values
from bayesdice_ppl.experiments.cells import PRIOR_BANDIT, Cell, deal
from bayesdice_ppl.experiments.wide import ValueBelief, draw_belief, value_belief
from bayesdice_ppl.inference import make_settings
from bayesdice_ppl.preparation import gather


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
    assert bandit.truth == pytest.approx([0.25, 0.75, 0.625], abs=1e-12)
    assert list(bandit.candidates) == ["alpha_0.00", "alpha_1.00", "alpha_0.75"]
    lake = deal(Cell("frozenlake", 0.5, 5, 10, 1), 0, 0)
    world = bd.simulation.make_world("frozenlake")
    exact = [float(bd.true_value(world.env, policy, 0.99)) for policy in world.candidates.values()]
    assert lake.truth == pytest.approx(exact, rel=1e-12)
    assert lake.gamma == 0.99


def test_arms_of_the_prior_bandit_are_uniform_and_independent():
    cell = Cell(PRIOR_BANDIT, 0.5, 2, 1, 400, (0.0, 1.0))
    trials = [deal(cell, number, 0) for number in range(400)]
    arms = np.array([trial.arms for trial in trials])
    # Mean 1/2 and variance 1/12, within 4 standard errors.
    assert np.all(np.abs(arms.mean(axis=0) - 0.5) < 4 * np.sqrt(1 / 12 / 400))
    assert abs(np.corrcoef(arms.T)[0, 1]) < 4 / np.sqrt(400)
    truth = np.array([trial.truth for trial in trials])
    assert np.allclose(truth, arms[:, ::-1], atol=1e-15)


def test_every_trial_of_garnet_is_another_world():
    cell = Cell("garnet", 0.5, 2, 5, 2)
    first, second = deal(cell, 0, 0), deal(cell, 1, 0)
    assert not np.allclose(first.truth, second.truth)


def test_draws_are_those_of_fit():
    trial = deal(Cell("frozenlake", 0.5, 10, 50, 1), 0, 0)
    settings = {"gamma": trial.gamma, "rng_key": trial.rng_key, "draws": 200}
    belief = bd.fit(trial.logs, trial.candidates, inference="exact", **settings)
    drawn = draw_values(trial.logs, trial.candidates, **settings)
    assert np.array_equal(belief["posterior/value"].to_numpy()[0], drawn)
    paper = bd.fit(trial.logs, trial.candidates, inference="exact", preset="paper", **settings)
    drawn = draw_values(trial.logs, trial.candidates, preset="paper", **settings)
    assert np.array_equal(paper["posterior/value"].to_numpy()[0], drawn)


def test_an_unknown_world_is_refused():
    with pytest.raises(bd.errors.SettingsError, match="world"):
        deal(Cell("atlantis", 0.5, 2, 5, 2), 0, 0)


def test_values_of_a_wide_belief_are_those_of_the_fit():
    trial = deal(Cell("frozenlake", 0.5, 10, 50, 1), 0, 0)
    belief = bd.fit(
        trial.logs, trial.candidates, inference="exact", gamma=0.99, rng_key=trial.rng_key, draws=50
    )
    settings = make_settings(gamma=0.99, inference="exact")
    gathered = gather(trial.logs, trial.candidates, settings)
    found = value_belief(gathered.cells, gathered.candidates, settings)
    known = belief["constant_data"]
    assert found.mean == pytest.approx(known["guide_mean"].to_numpy(), rel=1e-8)
    assert found.sd == pytest.approx(known["guide_sd"].to_numpy(), rel=1e-8)
    df = known["degrees_of_freedom"].to_numpy()
    assert found.degrees_of_freedom == pytest.approx(df, rel=1e-8)
    assert found.correlation == pytest.approx(known["correlation"].to_numpy(), abs=1e-8)


def test_draws_of_a_wide_belief_have_its_moments():
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    belief = ValueBelief(
        np.array([1.0, -2.0]), np.array([0.5, 3.0]), np.array([8.0, np.inf]), correlation
    )
    drawn = draw_belief(belief, 20_000, jax.random.key(0))
    # A Student t with 8 degrees of freedom has variance 8 / 6.
    sd = np.array([0.5 * np.sqrt(8 / 6), 3.0])
    assert np.all(np.abs(drawn.mean(axis=0) - belief.mean) < 4.5 * sd / np.sqrt(20_000))
    # Kurtosis 4.5 gives the variance a standard error of sqrt(3.5 / S).
    assert np.all(
        np.abs(drawn.var(axis=0) / sd**2 - 1.0) < 4.5 * np.sqrt([3.5 / 20_000, 2 / 20_000])
    )
    ranks = scipy.stats.spearmanr(drawn).statistic
    # Of a Gaussian copula: (6 / pi) arcsin(r / 2).
    assert abs(ranks - 6 / np.pi * np.arcsin(0.4)) < 4.5 / np.sqrt(20_000)
