"""The benchmark of laws believes what `fit` believes, in every form."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy.special import ndtri

import bayesdice_ppl as bd
from benchmarks.laws import CELLS, FORMS, KNOWN, beliefs
from benchmarks.tails import LAWS, STEPS, make_world, play

DRAWS = 4000


@pytest.mark.parametrize("shape", ["1x2", "10x3"])
def test_its_beliefs_are_those_of_a_fit(shape):
    n = 30 if shape == "1x2" else 400
    world = make_world(shape)
    log = play(world, LAWS["Bernoulli(0.5)"], n, np.random.default_rng(0))
    columns = {"state": log.state, "action": log.action, "reward": log.reward}
    if world.move is not None:
        step, episode = np.divmod(np.arange(n), n // STEPS)
        columns |= {"step": step, "episode_id": episode, "next_state": log.following}
    logs = bd.Logs.from_dataframe(pl.DataFrame(columns), actions=range(world.scale.shape[1]))
    policies = {str(j): bd.TabularPolicy(table) for j, table in enumerate(world.tables)}
    share = np.array([0.1, 0.5, 0.9])
    score = np.repeat(ndtri(share)[:, None], len(policies), axis=1)
    for form, found in beliefs(world, log, "binary"):
        told = form == KNOWN
        belief = bd.fit(
            logs,
            policies,
            gamma=world.gamma,
            rng_key=jax.random.key(0),
            inference="exact",
            cluster="transition",
            draws=DRAWS,
            prior=bd.Prior(rewards="binary" if told else None),
            constraint=bd.Constraint(value_law="skewed" if told else form),
        )
        known = belief["constant_data"]
        assert found.mean == pytest.approx(known["guide_mean"].to_numpy(), rel=1e-3)
        assert found.sd == pytest.approx(known["guide_sd"].to_numpy(), rel=2e-3)
        value = belief["posterior/value"].to_numpy().reshape(DRAWS, -1)
        quantile = np.quantile(value, share, axis=0)
        # Standard errors of quantiles at 0.1 and 0.9 are at most 2 sd / sqrt(draws).
        assert np.abs(quantile - found.at(score)).max() < 4.5 * 2.0 * found.sd.max() / DRAWS**0.5


def test_every_cell_has_a_law():
    assert {cell.law for cell in CELLS} <= set(LAWS)
    assert FORMS[0] == "skewed"
