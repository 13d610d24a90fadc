"""Propensities against actions: how large an error is, and how often right ones are blamed."""

import json

import jax
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.propensities import misfit


def test_the_error_is_that_of_the_propensities():
    rng = np.random.default_rng(0)
    told, state = np.array([0.25, 0.75]), np.zeros(400, dtype=int)
    found = []
    for _ in range(200):
        action = rng.integers(2, size=400)
        found.append(misfit(state, action, told[action], np.arange(400)))
    # Both actions are taken half the time: 1/4 (2 - 1)^2 + 3/4 (2/3 - 1)^2.
    square = np.array([each.error**2 for each in found])
    # Units meet all others but themselves.
    assert abs(square.mean() - 1.0 / 3.0 * (1.0 - 1.0 / 200.0)) < 4.5 * square.std() / np.sqrt(200)
    assert all(each.found == each.error for each in found)


def varied(rng, n):
    """Three states, whose propensities follow what was done before."""
    state = rng.integers(3, size=n)
    action, chance = np.empty(n, dtype=int), np.empty(n)
    last = 0
    for t in range(n):
        share = np.full(3, 0.15)
        share[(last + state[t]) % 3] = 0.7
        last = action[t] = np.searchsorted(np.cumsum(share)[:2], rng.random())
        chance[t] = share[last]
    return state, action, chance


def test_right_propensities_are_seldom_blamed_though_they_vary():
    rng = np.random.default_rng(1)
    found = np.array([misfit(*varied(rng, 150), np.arange(150)).chance for _ in range(300)])
    for level in (0.01, 0.05):
        assert (found < level).mean() < level + 4.5 * np.sqrt(level / 300)


def test_actions_that_a_unit_draws_once_are_not_blamed():
    rng = np.random.default_rng(2)
    unit, state = np.repeat(np.arange(40), 25), np.zeros(1_000, dtype=int)
    by_row, by_unit = [], []
    for _ in range(200):
        action = rng.integers(2, size=40)[unit]
        for units, found in ((np.arange(1_000), by_row), (unit, by_unit)):
            found.append(misfit(state, action, np.full(1_000, 0.5), units).chance < 0.05)
    assert np.mean(by_row) > 0.3
    assert np.mean(by_unit) < 0.05 + 4.5 * np.sqrt(0.05 / 200)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=12))
def test_a_state_of_several_actions_has_none_of_propensity_one(rows):
    """Whatever the size of the log: a plain loop over its states says how far they are off."""
    state, action = (np.array(each) for each in zip(*rows, strict=True))
    square = 0.0
    for s, _ in rows:
        taken = [a for other, a in rows if other == s]
        square += sum((1 - taken.count(a) / len(taken)) ** 2 for a in {*taken}) / len(rows)
    found = misfit(state, action, np.ones(len(rows)), np.arange(len(rows)))
    assert found.certain == (square > 0.0)
    assert found.found == pytest.approx(np.sqrt(square))
    # With one propensity below 1 in each state it may be a mixture of policies.
    mixed = np.ones(len(rows))
    mixed[np.unique(state, return_index=True)[1]] = 0.5
    assert not misfit(state, action, mixed, np.arange(len(rows))).certain


@pytest.mark.parametrize(
    ("method", "said"), [("wpdis", True), ("wpdis:fitted", False), ("dirichlet", False)]
)
def test_other_methods_say_so_where_they_use_them(method, said):
    frame = pl.DataFrame(
        {
            "state": [0, 0, 1, 1] * 5,
            "action": [0, 1] * 10,
            "reward": [0.0, 1.0, 1.0, 0.5, 0.25] * 4,
            "propensity": 1.0,
        }
    )
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1])
    policies = {"even": bd.TabularPolicy([[0.5, 0.5]] * 2)}
    found = bd.baselines.estimate_all(method, logs, policies, gamma=0.0, rng_key=jax.random.key(0))
    told = [w for w in found.support_warnings if "propensities are 1" in w]
    assert bool(told) == said
    if said:
        assert "off by 71%" in told[0]


@pytest.mark.parametrize(("told", "said"), [((1 / 3, 1 / 3), True), ((0.8, 0.2), False)])
def test_a_belief_tells_of_propensities_that_do_not_fit(told, said):
    rng = np.random.default_rng(3)
    action = (rng.random(500) < 0.2).astype(int)
    columns = {"state": 0, "action": action, "reward": rng.normal(size=500)}
    frame = pl.DataFrame({**columns, "propensity": np.array(told)[action]})
    belief = bd.fit(
        bd.Logs.from_dataframe(frame),
        {"one": bd.TabularPolicy([[0.5, 0.5]])},
        gamma=0.0,
        rng_key=jax.random.key(0),
        draws=10,
    )
    warnings = json.loads(belief.attrs["support_warnings"])
    assert [(w["name"], w["abstain"]) for w in warnings] == [("propensities", False)] * said
