"""The benchmark of tails counts logs as `fit` does, and knows its worlds' values."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.experiments.value_beliefs import value_belief
from bayesdice_ppl.fitting import flat_settings
from benchmarks.tails import CELLS, LAWS, STEPS, count, make_world, on_log, play, true_values


@pytest.mark.parametrize("shape", ["1x8", "10x3"])
def test_its_beliefs_are_those_of_a_fit(shape):
    world, law = make_world(shape), LAWS["exponential"]
    log = play(world, law, 400, np.random.default_rng(0))
    columns = {"state": log.state, "action": log.action, "reward": log.reward}
    if world.move is not None:
        step, episode = np.divmod(np.arange(400), 400 // STEPS)
        columns |= {"step": step, "episode_id": episode, "next_state": log.following}
    logs = bd.Logs.from_dataframe(pl.DataFrame(columns), actions=range(world.scale.shape[1]))
    known = bd.fit(
        logs,
        {str(j): bd.TabularPolicy(table) for j, table in enumerate(world.tables)},
        gamma=world.gamma,
        rng_key=jax.random.key(0),
        inference="exact",
        cluster="transition",
        draws=2,
    )["constant_data"]
    settings = flat_settings(gamma=world.gamma, inference="exact", joint=False)
    cells, _, rows = count(world, log)
    found = value_belief(cells, on_log(world, cells), settings, rows)
    assert found.mean == pytest.approx(known["guide_mean"].to_numpy(), rel=1e-4)
    assert found.sd == pytest.approx(known["guide_sd"].to_numpy(), rel=1e-3)
    assert found.tails.skewness == pytest.approx(known["skewness"].to_numpy(), rel=2e-2)
    assert found.tails.effective == pytest.approx(known["effective_errors"].to_numpy(), rel=1e-3)


@pytest.mark.parametrize("name", ["exponential", "1 in 200", "Poisson(0.05)", "normal", "uniform"])
def test_laws_have_their_means(name):
    scale = np.full(200_000, 0.7)
    drawn = LAWS[name].draw(np.random.default_rng(1), scale)
    error = drawn.std() / np.sqrt(len(drawn))
    assert abs(drawn.mean() - LAWS[name].mean(scale)[0]) < 5 * error


def test_true_values_are_those_of_long_logs():
    world, law = make_world("10x3"), LAWS["deterministic"]
    # The policy that takes every action alike, followed for many discounted steps.
    uniform = world._replace(tables=[np.full((10, 3), 1 / 3)])
    log = play(world, law, 4_000 * STEPS, np.random.default_rng(2))
    discount = (1.0 - world.gamma) * world.gamma ** np.arange(STEPS)
    earned = discount @ log.reward.reshape(STEPS, -1)
    left = world.gamma**STEPS * world.scale.max()
    error = earned.std() / np.sqrt(len(earned))
    assert abs(earned.mean() - true_values(uniform, law)[0]) < 5 * error + left


def test_every_cell_has_a_law():
    assert {cell.law for cell in CELLS} <= set(LAWS)
