from dataclasses import replace

import jax
import numpy as np
import pytest
import scipy.stats

import bayesdice_ppl as bd
from bayesdice_ppl.experiments.trials import Cell, deal
from bayesdice_ppl.experiments.value_beliefs import ValueBelief, draw_belief, value_belief
from bayesdice_ppl.experiments.value_draws import draw_values
from bayesdice_ppl.fitting import flat_settings, read_inputs
from tests.marks import slow

LOGS = [("bandit", 30, 1), slow("frozenlake", 6, 50), slow("garnet", 4, 60)]


def fitted(trial, **given):
    return bd.fit(
        trial.logs,
        trial.candidates,
        gamma=trial.gamma,
        rng_key=trial.rng_key,
        inference="exact",
        **given,
    )


@pytest.mark.parametrize("preset", [None, slow("paper")])
@pytest.mark.parametrize(("world", "n_episodes", "max_steps"), LOGS)
def test_the_belief_is_that_of_the_fit(world, n_episodes, max_steps, preset):
    trial = deal(Cell(world, 0.5, n_episodes, max_steps, 1), 0, 0)
    known = fitted(trial, preset=preset, draws=50, cluster="transition")["constant_data"]
    settings = flat_settings(gamma=trial.gamma, inference="exact", preset=preset)
    inputs = read_inputs(trial.logs, trial.candidates, settings)
    found = value_belief(inputs.cells, inputs.candidates, settings, inputs.cell_rows, inputs)
    # Up to the wide prior, which meets the hidden variance there and not here.
    assert found.mean == pytest.approx(known["guide_mean"].to_numpy(), rel=1e-5)
    assert found.sd == pytest.approx(known["guide_sd"].to_numpy(), rel=1e-4)
    df = known["degrees_of_freedom"].to_numpy()
    assert found.degrees_of_freedom == pytest.approx(df, rel=1e-8)
    if preset is None:
        assert found.tails.skewness == pytest.approx(
            known["skewness"].to_numpy(), rel=1e-2, abs=1e-8
        )
    assert found.correlation == pytest.approx(known["correlation"].to_numpy(), abs=1e-8)


def test_rewards_without_spread_leave_values_without_spread():
    # Every pull of an arm paid alike: the least that any belief could know of its spread.
    trial = deal(Cell("bandit", 0.5, 12, 1, 1), 0, 0)
    logs = replace(trial.logs, reward=(trial.logs.action == 0).astype(np.float64))
    drawn = draw_values(logs, trial.candidates, gamma=0.0, rng_key=trial.rng_key, draws=50)
    assert np.abs(drawn - np.array(trial.places)).max() < 1e-6


@pytest.mark.slow
def test_draws_on_vectors_are_those_of_the_fit():
    world = bd.simulation.make_world("cartpole", candidates=(0.5, 0.9))
    logs = bd.simulate(world.env, world.behavior, 12, 20, rng_key=jax.random.key(0))
    settings = {"gamma": 0.9, "rng_key": jax.random.key(1), "draws": 40}
    belief = bd.fit(logs, world.candidates, inference="exact", **settings)
    drawn = draw_values(logs, world.candidates, **settings)
    assert np.array_equal(belief["posterior/value"].to_numpy()[0], drawn)


@pytest.mark.slow
def test_the_paper_s_form_draws_independently():
    trial = deal(Cell("frozenlake", 0.5, 10, 50, 1), 0, 0)
    settings = {"gamma": 0.99, "rng_key": trial.rng_key, "draws": 4_000}
    paper = draw_values(trial.logs, trial.candidates, preset="paper", **settings)
    usual = draw_values(trial.logs, trial.candidates, **settings)
    off = np.triu_indices(5, 1)
    assert np.all(np.abs(np.corrcoef(paper.T)[off]) < 4.5 / np.sqrt(4_000))
    assert np.all(np.corrcoef(usual.T)[off] > 0.5)


def test_other_settings_are_refused():
    trial = deal(Cell("bandit", 0.5, 10, 1, 1), 0, 0)
    settings = flat_settings(gamma=0.0, inference="exact", penalty="squared")
    inputs = read_inputs(trial.logs, trial.candidates, settings)
    with pytest.raises(bd.errors.SettingsError, match="default settings"):
        value_belief(inputs.cells, inputs.candidates, settings, inputs.cell_rows)


def test_draws_have_the_moments_of_their_belief():
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    belief = ValueBelief(
        np.array([1.0, -2.0]),
        np.array([0.5, 3.0]),
        np.array([8.0, np.inf]),
        None,
        correlation,
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
