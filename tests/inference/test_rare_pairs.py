"""A pair that the log hardly has and the candidate lives on: the width by pencil and paper.

In state 0 the log stays, in 4,970 of 4,975 rows; otherwise it goes to state 1, from where one row
in five leads back. The candidate always leaves state 0. It spends a sixth of its steps there, so
the ratio of a pair with 5 of 5,000 rows is 167.
"""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd

POLICY = {"leaves": bd.TabularPolicy([[0.0, 1.0], [1.0, 0.0]])}
LEFT = np.array([1.4, 1.2, 1.0, 0.8, 0.6])
"""Rewards of the five rows that leave state 0: mean 1, mean square of deviations 0.08."""


def visit(order):
    """One of five times in state 0 that end in leaving it, and the five steps in state 1."""
    stays = [(0, 0, 0.0, 0)] * 994
    away = [(1, 0, 0.0, 1)] * 4 + [(1, 0, 0.0, 0)]
    return [*stays, (0, 1, LEFT[order], 1), *away]


def a_log():
    rows = [row for order in range(5) for row in visit(order)]
    frame = pl.DataFrame(rows, schema=["state", "action", "reward", "next_state"], orient="row")
    return bd.Logs.from_dataframe(frame.with_columns(episode_id=pl.lit(0)), actions=[0, 1])


def fitted(inference="exact", **prior):
    return bd.fit(
        a_log(),
        POLICY,
        gamma=1.0,
        rng_key=jax.random.key(0),
        inference=inference,
        draws=100,
        cluster="transition",
        prior=bd.Prior(**prior),
        constraint=bd.Constraint(small_sample=False),
    )["constant_data"]


def by_hand():
    """Value and sd, with d the candidate's shares of steps.

    d_1 / 5 = d_0, so d = (1/6, 5/6). V_1 - V_0 = 5 (0 - rho), as state 1 pays nothing. A temporal
    difference varies in state 0 by its rewards alone, and in state 1 by where it leads: V_0 in one
    row of five, else V_1. The variance of the value is sum d^2 variance / visits.
    """
    rho = LEFT.mean() / 6.0
    leads = 0.2 * 0.8 * (5.0 * rho) ** 2
    return rho, np.sqrt((1 / 6) ** 2 * LEFT.var() / 5 + (5 / 6) ** 2 * leads / 25)


def test_the_width_is_that_by_hand_and_one_prior_sd_for_all_pairs_is_too_narrow():
    value, sd = by_hand()
    # Rewards are nearly always zero here, and a prior of the value in their sd would draw it there.
    found = fitted(value_sd=1e3)
    assert found.guide_sd.item() == pytest.approx(sd, rel=0.02)
    # What is left is the prior's of the ratio: a share of 1/6 of its steps, at an sd of 1.
    assert found.guide_mean.item() == pytest.approx(value, abs=0.05 * sd)
    wide = fitted(ratio_sd=1e3, value_sd=1e3)
    assert wide.guide_mean.item() == pytest.approx(value, abs=1e-3 * sd)
    narrow = fitted(rare_share=0.0, value_sd=1e3)
    # The prior holds the ratio of the first estimate down, and Sigma is frozen there.
    assert narrow.guide_sd.item() < 0.9 * sd


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["svi", "nuts"])
def test_the_program_has_the_same_belief(engine):
    exact, found = fitted(), fitted(engine)
    sd = exact.guide_sd.item()
    # SVI's own error; NUTS has the Monte Carlo error of some thousand draws beside.
    assert found.guide_mean.item() == pytest.approx(exact.guide_mean.item(), abs=0.15 * sd)
    assert found.guide_sd.item() == pytest.approx(sd, rel=0.1)
