"""The unit of independence: against matrices and textbook formulas, with groups and without."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.dependence import Grouping, _spread

KEY = jax.random.key(0)
ONE = {"always": bd.TabularPolicy([[1.0]])}


def frame_of(group, effect, seed=0, column="user_id"):
    """One state and one action; rewards share what their group has."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=group.max() + 1) * effect
    reward = shared[group] + rng.normal(size=len(group))
    return pl.DataFrame({"state": 0, "action": 0, "reward": reward, column: group})


def belief_of(frame, policies=ONE, **options):
    logs = bd.Logs.from_dataframe(frame)
    settings = {"gamma": 0.0, "rng_key": KEY, "draws": 50, **options}
    return bd.fit(logs, policies, **settings)


def figures(belief):
    data = belief["constant_data"]
    return (float(data[name].to_numpy()[0]) for name in ("guide_mean", "guide_sd"))


@pytest.mark.parametrize("asked", [True, False])
def test_with_equal_groups_it_is_the_textbook_interval_of_their_means(asked):
    group = np.repeat(np.arange(12), 15)
    frame = frame_of(group, 2.0)
    means = frame.group_by("user_id").mean()["reward"].to_numpy()
    belief = belief_of(frame, **({"cluster": "user_id"} if asked else {}))
    mean, sd = figures(belief)
    # The prior (ten sds wide) and the few visits' rule move both by a little.
    assert mean == pytest.approx(means.mean(), abs=0.01 * sd)
    assert sd == pytest.approx(stats.sem(means), rel=5e-3)
    df = belief["constant_data"]["degrees_of_freedom"].to_numpy()[0]
    assert df == pytest.approx(11.0, rel=1e-9)
    unit = bd.belief.BeliefView(belief).unit if hasattr(bd, "belief") else None
    assert unit is None or (unit["names"] == ["user_id"] and unit["asked"] is asked)


def test_variance_and_degrees_of_freedom_are_those_of_the_matrices():
    rng = np.random.default_rng(1)
    n, size = 60, 7
    group = np.r_[np.arange(size), rng.integers(size, size=n - size)]
    row, weight = rng.normal(size=n), rng.uniform(0.2, 2.0, size=n)
    row -= row.mean()
    found = _spread(row, np.zeros(size), weight, Grouping("g", group, np.arange(size)))
    sums = np.array([row[group == g].sum() for g in range(size)])
    within = group[:, None] == group
    scale = (row**2).sum() / (weight**2).sum()
    both = np.outer(weight, weight) * within
    off = both - np.diag(weight**2)
    excess = (sums**2).sum() - (row**2).sum()
    correlation = min(max(excess, 0.0) / (scale * off.sum()), 1.0)
    member = np.eye(size)[group]
    own = np.diag(member.T @ (scale * (np.diag(weight**2) + correlation * off)) @ member)
    share = np.array([weight[group == g].sum() for g in range(size)]) / weight.sum()
    center = np.eye(size) - np.outer(share, np.ones(size))
    covariance = center @ np.diag(own) @ center.T
    correction = own.sum() / np.trace(covariance)
    assert found.variance == pytest.approx(correction * (sums**2).sum(), rel=1e-10)
    expected = np.trace(covariance) ** 2 / np.trace(covariance @ covariance)
    assert found.degrees_of_freedom == pytest.approx(expected, rel=1e-10)
    # The sum over ordered pairs of a group, with random signs.
    products = sum(
        (row[i] * row[j]) ** 2
        for i in range(n)
        for j in range(n)
        if i != j and group[i] == group[j]
    )
    assert found.standard_error == pytest.approx(np.sqrt(2.0 * products), rel=1e-10)


def test_two_columns_that_cross_add_their_variances():
    rng = np.random.default_rng(2)
    user, day = np.repeat(np.arange(30), 30), np.tile(np.arange(30), 30)
    reward = rng.normal(size=30)[user] + rng.normal(size=30)[day] + rng.normal(size=900)
    frame = pl.DataFrame({"state": 0, "action": 0, "reward": reward, "user_id": user, "day": day})
    off = (reward - reward.mean()) / 900
    by = [np.array([off[code == g].sum() for g in range(30)]) for code in (user, day)]
    expected = sum((sums @ sums) * 30 / 29 for sums in by) - off @ off
    for options in ({}, {"cluster": ("day", "user_id")}):
        _, sd = figures(belief_of(frame, **options))
        assert sd == pytest.approx(np.sqrt(expected), rel=5e-3)


def test_independent_rows_are_seldom_taken_for_groups():
    group = np.repeat(np.arange(40), 10)
    found = [
        belief_of(frame_of(group, 0.0, seed))["constant_data"]["error_inflation"].to_numpy()[0]
        for seed in range(100)
    ]
    # One test at 1.645 standard errors; the excess is a little skewed.
    taken = sum(factor > 1.0 for factor in found)
    assert taken <= stats.binom.ppf(1.0 - 1e-5, 100, 0.07)


def test_rows_of_one_long_episode_that_follow_each_other():
    rng = np.random.default_rng(3)
    n, keep = 6_000, 0.9
    noise = np.empty(n)
    noise[0] = rng.normal()
    for t in range(1, n):
        noise[t] = keep * noise[t - 1] + np.sqrt(1.0 - keep**2) * rng.normal()
    frame = pl.DataFrame({"episode_id": 0, "state": 0, "action": 0, "reward": noise})
    _, sd = figures(belief_of(frame, gamma=1.0))
    # The variance of the mean of a first-order process.
    expected = np.sqrt((1.0 + keep) / (1.0 - keep) / n)
    assert 0.75 * expected < sd < 1.4 * expected


def test_rows_of_one_episode_that_share_an_effect_move_together():
    rng = np.random.default_rng(4)
    episode = np.repeat(np.arange(80), 25)
    state = rng.integers(3, size=2_000)
    reward = rng.normal(size=80)[episode] + 0.2 * state + rng.normal(size=2_000)
    action = rng.integers(2, size=2_000)
    frame = pl.DataFrame(
        {"episode_id": episode, "state": state, "action": action, "reward": reward}
    )
    table = bd.TabularPolicy(np.full((3, 2), 0.5))
    belief = belief_of(frame, {"uniform": table}, gamma=0.9)
    _, sd = figures(belief)
    assert sd == pytest.approx(stats.sem(reward.reshape(80, 25).mean(axis=1)), rel=0.15)
    plain = belief_of(frame, {"uniform": table}, gamma=0.9, cluster="transition")
    assert sd > 2.5 * next(iter(list(figures(plain))[1:]))


def test_values_still_move_together():
    group = np.repeat(np.arange(100), 20)
    rng = np.random.default_rng(5)
    action = rng.integers(2, size=2_000)
    frame = frame_of(group, 2.0).with_columns(action=pl.Series(action))
    policies = {"first": bd.TabularPolicy([[0.8, 0.2]]), "second": bd.TabularPolicy([[0.2, 0.8]])}
    belief = belief_of(frame, policies, draws=400)
    correlation = belief["constant_data"]["correlation"].to_numpy()[0, 1]
    # Both share the users' effects, which are most of their errors.
    assert correlation > 0.95


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("usr", "found 'usr'. Columns of the log that could be one: gap, user_id"),
        ("gap", "expected a value in every row, found none in row 3"),
        (("user_id", "episode"), "two different columns"),
        (("a", "b", "c"), "two different columns"),
        (7, "found 7"),
    ],
)
def test_columns_that_cannot_be_the_unit_are_refused(cluster, message):
    frame = frame_of(np.repeat(np.arange(5), 4), 1.0)
    gap = pl.Series([None if i == 2 else i % 4 for i in range(20)])
    with pytest.raises(SettingsError, match=message):
        belief_of(frame.with_columns(gap=gap), cluster=cluster)


def test_three_groups_abstain():
    belief = belief_of(frame_of(np.repeat(np.arange(3), 50), 3.0), cluster="user_id")
    reason = next(w for w in belief.attrs["support_warnings"].split("},") if "3 groups" in w)
    assert "true" in reason


def test_codes_of_groups_survive_a_table():
    frame = frame_of(np.repeat(np.arange(6), 3), 1.0)
    logs = bd.Logs.from_dataframe(frame)
    again = bd.Logs.from_dataframe(logs.to_dataframe())
    np.testing.assert_array_equal(again.groups["user_id"], logs.groups["user_id"])
