"""Rows weighted anew: post-stratified means by hand, and what a fit says of four logs."""

import json

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2_contingency

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.reweighting import (
    Errors,
    Move,
    SortedRows,
    among_groups,
    errors_of,
    group_rows,
    move_of,
    share_anew,
    shares_changed,
)
from benchmarks.gauge_cases import CASES

STATE_OF_PAIR, ACTIONS = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 2])


def rows(seed, n=400):
    """A log of two states with two and three actions, and a period of each row."""
    rng = np.random.default_rng(seed)
    pair, period = rng.integers(5, size=n), rng.integers(3, size=n)
    return pair, period, rng.normal(size=n) + period * (pair + 1.0)


def test_a_move_leads_to_the_mean_of_the_periods():
    pair, period, reward = rows(0)
    n, state = len(pair), STATE_OF_PAIR[pair]
    target = np.array([0.3, 0.7, 0.2, 0.5, 0.3])
    groups = group_rows(pair, np.arange(5), reward, period)
    plain = after = 0.0
    ratio = np.zeros(5)
    for p in range(5):
        here = state == STATE_OF_PAIR[p]
        ratio[p] = target[p] * here.sum() / (pair == p).sum()
        plain += here.sum() / n * target[p] * reward[pair == p].mean()
        for b in range(3):
            share = (here & (period == b)).sum() / n
            after += share * target[p] * reward[(pair == p) & (period == b)].mean()
    # A fit's errors are any numbers of the cells; here what the value is measured from.
    errors = errors_of(groups, np.full(5, 0.4), 5)
    move = move_of(groups, errors, ratio[groups.pair] * share_anew(groups, STATE_OF_PAIR))
    assert move.size == pytest.approx(after - plain, abs=1e-12)


def test_the_variance_of_a_move_is_that_of_new_errors():
    pair, period, _ = rows(1)
    rng = np.random.default_rng(2)
    weight = rng.normal(size=15)
    moves = []
    for _ in range(1_000):
        groups = group_rows(pair, np.arange(5), rng.normal(size=400), period)
        moves.append(move_of(groups, errors_of(groups, np.zeros(5), 5), weight))
    size, variance = (np.array([getattr(m, name) for m in moves]) for name in Move._fields)
    assert abs(size.mean()) < 4.5 * size.std() / np.sqrt(1_000)
    assert abs(size.var() / variance.mean() - 1.0) < 4.5 * np.sqrt(2.0 / 1_000)
    assert Move(0.5, 0.09).beyond == pytest.approx(0.4)
    assert Move(0.2, 0.09).beyond == 0.0


def test_shares_that_change_are_judged_by_pearsons_chi_square():
    pair, period, reward = rows(3)
    groups = group_rows(pair, np.arange(5), reward, period)
    statistic = freedom = 0.0
    for pairs in ((0, 1), (2, 3, 4)):
        table = [[((pair == p) & (period == b)).sum() for b in range(3)] for p in pairs]
        found = chi2_contingency(table, correction=False)
        statistic, freedom = statistic + found.statistic, freedom + found.dof
    from scipy.special import chdtrc

    expected = chdtrc(freedom, statistic)
    assert shares_changed(groups, STATE_OF_PAIR) == pytest.approx(expected, rel=1e-9)


def said(kind):
    """Gauges that speak of a log in which one thing is wrong, or none."""
    rng = np.random.default_rng(4)
    n = 4_000
    second = np.arange(n) >= n // 2 if kind in ("days", "schedule") else rng.random(n) < 0.5
    share = np.where(second, 0.8, 0.3)
    action = (rng.random(n) < share).astype(int)
    gain = 0.5 * second * (kind in ("days", "hidden"))
    reward = 0.3 * action + gain + rng.normal(size=n)
    columns = {"state": 0, "action": action, "reward": reward}
    if kind in ("hidden", "mixed"):
        columns["propensity"] = np.where(action == 1, share, 1.0 - share)
    belief = bd.fit(
        bd.Logs.from_dataframe(pl.DataFrame(columns)),
        {"one": bd.TabularPolicy([[0.1, 0.9]])},
        gamma=0.0,
        rng_key=jax.random.key(0),
        draws=10,
    )
    return {w["name"]: w for w in json.loads(belief.attrs["support_warnings"])}


@pytest.mark.parametrize(
    ("kind", "gauge"), [("days", "drift together"), ("hidden", "hidden context")]
)
def test_a_policy_that_goes_with_the_rewards_is_told_of(kind, gauge):
    found = said(kind)
    assert found[gauge]["abstain"]
    # 0.9 of the steps have a mean that is off by 0.5 (8/11 - 1/2), 0.1 by 0.5 (2/9 - 1/2). A part
    # of one standard error is in the move itself.
    off = 0.9 * 0.5 * (8 / 11 - 1 / 2) + 0.1 * 0.5 * (2 / 9 - 1 / 2)
    error = np.sqrt(0.81 / 2_200 + 0.01 / 1_800)
    assert abs(found[gauge]["number"] - off / error) < 4.5 * 1.5


@pytest.mark.parametrize("kind", ["schedule", "mixed"])
def test_a_policy_that_changes_by_itself_is_not(kind):
    assert not set(said(kind)) & {"drift together", "hidden context", "propensities"}


def of_groups(fault):
    """What is said of three groups with other shares of actions, and of other rewards or the same.

    Also the value of the first candidate's belief, with its sd.
    """
    (case,) = [case for case in CASES if case.gauge is gauges.APART]
    asked = case.make(fault)
    logs = bd.Logs.from_dataframe(asked.frame)
    # As if rows were independent: three groups have a Student t of two degrees of freedom.
    options = {**asked.options, "cluster": "transition", "draws": 400}
    belief = bd.fit(logs, asked.policies, rng_key=jax.random.key(0), **options)
    warnings = json.loads(belief.attrs["support_warnings"])
    sd = float(belief["posterior/value"].sel(policy="a").std())
    return {w["policy"]: w for w in warnings if w["name"] == "confounded groups"}, sd


def test_groups_with_other_shares_and_other_rewards_are_told_of():
    found, sd = of_groups(True)
    assert found["a"]["abstain"]
    assert "Put hospital into the state" in found["a"]["reason"]
    # Group k has the mean 0.5 k, and the shares of the case.
    shares = np.array([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]])
    by_action = (0.5 * np.arange(3)) @ (shares / shares.sum(axis=0))
    off = 0.5 - np.array([0.6, 0.3, 0.1]) @ by_action
    # A part of one standard error is in the move itself, as above.
    assert abs(found["a"]["number"] - abs(off) / sd) < 4.5 * 1.5
    assert abs(off) / sd > 4.0
    assert of_groups(False)[0] == {}


def test_groups_that_differ_by_themselves_are_a_sample_of_many():
    # By hand: 20 groups of one pair, with weights off by c and errors by b.
    rng = np.random.default_rng(5)
    c, b = rng.normal(size=20), rng.normal(size=20)
    pair, other = np.zeros(20, dtype=int), np.arange(20)
    ones = np.ones(20)
    groups = SortedRows(pair, pair, other, 50.0 * ones, 50.0 * b, 50.0 * b**2, other)
    errors = Errors(50.0 * (b - b.mean()), 50.0 * (b - b.mean()) ** 2, np.array([1000.0]))
    each = (c - c.mean()) * (b - b.mean()) / 20
    move = move_of(groups, errors, c)
    assert move.size == pytest.approx(each.sum())
    found = among_groups(groups, errors, c, move)
    assert found.variance == pytest.approx(max(each @ each, move.variance))
    # Three standard errors of independent groups are not reached, and are where b follows c.
    assert found.size == 0.0
    # Of 20 equal moves it is the root of 20.
    sign = np.tile([1.0, -1.0], 10)
    errors = Errors(50.0 * sign, 50.0 * ones, np.array([1000.0]))
    assert among_groups(groups, errors, sign, move_of(groups, errors, sign)).size == 1.0


@pytest.mark.parametrize(
    ("name", "empty", "abstains"),
    [("ward", 0.0, True), ("ward", 0.05, True), ("station", 0.0, False)],
)
def test_two_groups_are_looked_at_with_rows_of_neither(name, empty, abstains):
    # A ward that treats more has sicker patients. A text without a name for it only warns.
    rng = np.random.default_rng(8)
    n = 4_000
    sick = rng.integers(2, size=n)
    action = (rng.random(n) < np.where(sick, 0.8, 0.2)).astype(int)
    group = pl.Series([f"group {k}" for k in sick]).to_frame("g")
    group = group.select(pl.when(pl.Series(rng.random(n) >= empty)).then("g"))["g"]
    frame = pl.DataFrame(
        {"state": 0, "action": action, "reward": 0.3 * action - sick + 0.3 * rng.normal(size=n)}
    ).with_columns(group.alias(name))
    belief = bd.fit(
        bd.Logs.from_dataframe(frame),
        {"one": bd.TabularPolicy([[0.1, 0.9]])},
        gamma=0.0,
        rng_key=jax.random.key(0),
        draws=10,
        cluster="transition",
    )
    (said,) = [
        w for w in json.loads(belief.attrs["support_warnings"]) if w["name"] == "confounded groups"
    ]
    assert said["abstain"] == abstains
    assert name in said["reason"]
