"""The unit of independence: against matrices and textbook formulas, with groups and without."""

import datetime
import json

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.groups import Grouping, group_sums, items_of, spread_of, sums_over

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
    unit = json.loads(belief.attrs["unit"])
    assert unit["names"] == ["user_id"]
    assert unit["asked"] is asked


def test_variance_and_degrees_of_freedom_are_those_of_the_matrices():
    rng = np.random.default_rng(1)
    n, size = 60, 7
    group = np.r_[np.arange(size), rng.integers(size, size=n - size)]
    row, weight = rng.normal(size=n), rng.uniform(0.2, 2.0, size=n)
    row -= row.mean()
    found = spread_of(group_sums(row, weight, group, size))
    member = np.eye(size)[group]
    within = member @ member.T
    both = np.outer(weight, weight) * within
    off = both - np.diag(weight**2)
    independent, plain = row @ row, row @ within @ row
    scale = independent / (weight @ weight)
    correlation = min(max(plain - independent, 0.0) / (scale * off.sum()), 1.0)
    rows = scale * (np.diag(weight**2) + correlation * off)
    share = member.T @ weight / weight.sum()
    center = np.eye(size) - np.outer(share, np.ones(size))
    covariance = center @ (member.T @ rows @ member) @ center.T
    alone = np.eye(n) - np.outer(weight / weight.sum(), np.ones(n))
    kept = np.trace(alone @ np.diag(weight**2) @ alone.T) / (weight @ weight)
    expected = plain * rows.sum() / np.trace(covariance) - independent / kept
    assert found.excess == pytest.approx(expected, rel=1e-9)
    df = np.trace(covariance) ** 2 / np.trace(covariance @ covariance)
    assert found.degrees_of_freedom == pytest.approx(df, rel=1e-9)
    # The sum over ordered pairs of a group, with random signs.
    products = np.outer(row, row) ** 2 * (within - np.eye(n))
    made_larger = rows.sum() / np.trace(covariance)
    expected = np.sqrt(2.0 * products.sum()) / independent * made_larger
    assert found.standard_error == pytest.approx(expected)


def test_sums_over_longer_stretches_are_those_over_their_rows():
    rng = np.random.default_rng(5)
    n, episode = 200, np.repeat([0, 1, 2], [90, 80, 30])
    row, weight = rng.normal(size=n + 3), rng.uniform(size=n + 3)
    starts = np.array([0, 90, 170])
    found = []
    for length in (8, 16, 32):
        code = np.unique(
            episode * 1_000 + (np.arange(n) - starts[episode]) // length, return_inverse=True
        )[1]
        grouping = Grouping("stretch", code, code[starts], by_order=True)
        items = items_of(grouping, episode)
        found.append(items.after(found[-1]) if found else items)
    assert found[1].parent is not None
    assert found[2].parent is not None
    for items, sums in zip(found, sums_over(found, row, weight), strict=True):
        plain = group_sums(row, weight, items.group, items.size)
        for one, other in zip(sums, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    # Groups that cross are no finer.
    across = items_of(Grouping("weekday", np.arange(n) % 7, np.arange(3)), episode)
    assert across.after(found[0]).parent is None


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


def test_users_that_take_turns_are_found_without_their_column():
    rng = np.random.default_rng(7)
    user = np.arange(1_500) % 30
    reward = rng.normal(size=30)[user] + rng.normal(size=1_500)
    frame = pl.DataFrame({"state": 0, "action": 0, "reward": reward})
    belief = belief_of(frame)
    _, sd = figures(belief)
    assert json.loads(belief.attrs["unit"])["names"] == ["place in a cycle of 30 rows"]
    known = stats.sem(reward.reshape(50, 30).mean(axis=0))
    assert sd == pytest.approx(known, rel=5e-3)
    assert belief.attrs["logged_value_standard_error"] == pytest.approx(known, rel=1e-9)


def test_a_row_with_most_of_the_weight_makes_no_groups():
    rng = np.random.default_rng(8)
    action = np.r_[1, rng.integers(2, size=299) * 0]
    frame = pl.DataFrame({"state": 0, "action": action, "reward": rng.normal(size=300)})
    table = bd.TabularPolicy([[0.1, 0.9]])
    found = [
        json.loads(belief_of(frame.sample(300, shuffle=True, seed=i), {"a": table}).attrs["unit"])[
            "names"
        ]
        for i in range(20)
    ]
    # One log in ten is taken for dependent by chance.
    assert sum(bool(names) for names in found) <= stats.binom.ppf(1.0 - 1e-4, 20, 0.1)


@pytest.mark.slow
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
        ("usr", "found 'usr'. There are: ratio, same, user_id"),
        ("same", "expected a column with two values or more, found one"),
        ("ratio", "found numbers that are not whole"),
        (("user_id", "episode"), "two different columns"),
        (("a", "b", "c"), "two different columns"),
        (7, "found 7"),
    ],
)
def test_columns_that_cannot_be_the_unit_are_refused(cluster, message):
    frame = frame_of(np.repeat(np.arange(5), 4), 1.0)
    frame = frame.with_columns(same=pl.lit("a"), ratio=pl.int_range(20) / 3.0)
    with pytest.raises(SettingsError, match=message):
        belief_of(frame, cluster=cluster)


def test_three_groups_abstain():
    belief = belief_of(frame_of(np.repeat(np.arange(3), 50), 3.0), cluster="user_id")
    (said,) = json.loads(belief.attrs["support_warnings"])
    assert said["abstain"]
    assert "few groups of rows that move together (those of one user_id)" in said["reason"]


def test_a_candidate_that_rests_on_one_group_abstains():
    group = np.repeat(np.arange(40), 10)
    frame = frame_of(group, 2.0).with_columns(action=pl.Series((group == 0).astype(int)))
    policies = {"only one": bd.TabularPolicy([[0.0, 1.0]]), "other": bd.TabularPolicy([[1.0, 0.0]])}
    belief = belief_of(frame, policies, cluster="user_id")
    said = {w["policy"]: w["abstain"] for w in json.loads(belief.attrs["support_warnings"])}
    assert said == {"only one": True}


def test_statistics_have_the_unit_too():
    frame = frame_of(np.repeat(np.arange(60), 10), 1.5)
    belief = belief_of(frame, statistic=["mean", "cvar(0.3)", "quantile(0.5)"], draws=400)
    plain = belief_of(
        frame, statistic=["mean", "cvar(0.3)", "quantile(0.5)"], draws=400, cluster="transition"
    )
    assert not json.loads(belief.attrs["unit"])["asked"]
    for name in ("mean", "cvar(0.3)", "quantile(0.5)"):
        wide, narrow = (each[f"posterior/{name}"].std().item() for each in (belief, plain))
        assert wide > 1.7 * narrow


def test_the_problem_of_a_unit_can_be_traced():
    frame = frame_of(np.repeat(np.arange(30), 10), 1.5)
    prepared = bd.prepare(bd.Logs.from_dataframe(frame), ONE, gamma=0.0, inference="exact")
    assert prepared.problem.unit.groupings
    form = prepared.inputs.settings.form
    engine = prepared.inputs.settings.inference
    found = engine.solve(prepared.problem, KEY, form, 10)
    assert np.isfinite(found.value_sd).all()
    assert float(jax.jit(lambda problem: problem.cells.count.sum())(prepared.problem)) == 300.0


@pytest.mark.parametrize("cluster", ["day", None])
def test_groups_that_cross_episodes_of_vectors(cluster):
    class Half:
        def probs(self, obs):
            return np.full((len(obs), 2), 0.5)

    rng = np.random.default_rng(6)
    episode, day = np.repeat(np.arange(60), 20), np.tile(np.arange(20), 60)
    shared = rng.normal(size=20)
    reward = shared[day] + 0.3 * rng.normal(size=1_200)
    frame = pl.DataFrame(
        {
            "episode_id": episode,
            "obs_0": rng.normal(size=1_200),
            "action": rng.integers(2, size=1_200),
            "reward": reward,
            "propensity": 0.5,
            "day_id": day,
        }
    )
    options = {} if cluster is None else {"cluster": "day_id"}
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1])
    settings = {"gamma": 0.5, "rng_key": KEY, "draws": 50, **options}
    belief = bd.fit(logs, {"same": Half()}, **settings)
    _, sd = figures(belief)
    assert json.loads(belief.attrs["unit"])["names"] == ["day_id"]
    # The mean over days, of which discounting makes the first count most, which nobody groups.
    assert sd > 0.1
    earned = belief.attrs["logged_value_standard_error"]
    assert earned > 0.1


@pytest.mark.parametrize("order", ["in time", "by state"])
def test_contexts_that_stick_in_time_are_found_and_a_sorted_log_is_not(order):
    rng = np.random.default_rng(0)
    n_states, n = 5, 2_000
    state = np.repeat(rng.integers(n_states, size=n // 40), 40)
    if order == "by state":
        state = np.sort(rng.integers(n_states, size=n))
    reward = 2.0 * state + rng.normal(size=n)
    frame = pl.DataFrame({"state": state, "action": rng.integers(2, size=n), "reward": reward})
    belief = bd.fit(
        bd.Logs.from_dataframe(frame),
        {"even": bd.TabularPolicy([[0.5, 0.5]] * n_states)},
        gamma=0.0,
        rng_key=jax.random.key(0),
        draws=50,
    )
    found = json.loads(belief.attrs["unit"])["names"]
    sd = belief["constant_data/guide_sd"].values[0]
    if order == "by state":
        assert not found
        return
    assert "stretch" in found[0]
    # 50 contexts of variance 8 are drawn, and not 2,000.
    assert sd == pytest.approx(np.sqrt(8.0 / 50), rel=0.3)


def test_columns_that_are_looked_at():
    n = 60
    frame = pl.DataFrame(
        {
            "state": 0,
            "action": 0,
            "reward": np.arange(n) % 7 * 1.0,
            "userId": np.arange(n) // 6,
            "site": ["a", "b", "c"] * 20,
            "weekday": np.arange(n) % 7,
            "date": [datetime.date(2024, 1, 1 + i % 14) for i in range(n)],
            "device": np.arange(n) % 2,
            "is_member": [True, False] * 30,
            "color": np.arange(n) % 5,
            "batch": np.arange(n) % 25,
            "patient": [None if i == 3 else i // 4 for i in range(n)],
            "store_id": np.where(np.arange(n) == 5, np.nan, np.arange(n) // 3),
        }
    )
    logs = bd.Logs.from_dataframe(frame)
    assert logs.looked_at == ("userId", "site", "date", "batch", "patient", "store_id")
    assert logs.of_few_groups == ("weekday", "color")
    codes = logs.group_codes("patient")
    # A row without a value is a group of its own.
    assert np.sum(codes == codes[3]) == 1
    assert len(np.unique(codes)) == 16


def test_columns_survive_a_table():
    frame = frame_of(np.repeat(np.arange(6), 3), 1.0)
    spare = frame.rename({"state": "s"}).with_columns(state=pl.lit(7))
    logs = bd.Logs.from_dataframe(spare, columns={"state": "s"})
    again = bd.Logs.from_dataframe(logs.to_dataframe())
    np.testing.assert_array_equal(again.group_codes("user_id"), logs.group_codes("user_id"))
    np.testing.assert_array_equal(again.state_labels, logs.state_labels)


def follow_each_other(n, keep, seed):
    rng = np.random.default_rng(seed)
    noise = np.empty(n)
    noise[0] = rng.normal()
    for t in range(1, n):
        noise[t] = keep * noise[t - 1] + np.sqrt(1.0 - keep**2) * rng.normal()
    return noise


def test_rows_without_episodes_that_follow_each_other():
    noise = follow_each_other(4_000, 0.8, 7)
    state = np.repeat(np.arange(4), 1_000)
    frame = pl.DataFrame({"state": state, "action": 0, "reward": noise + 3.0 * state})
    table = bd.TabularPolicy(np.ones((4, 1)))
    belief = belief_of(frame, {"always": table})
    # Sorting by state is no dependence: the states' values spread as independent ones do.
    expected = np.sqrt((1.0 + 0.8) / (1.0 - 0.8) / 4_000 + np.var(3.0 * np.arange(4)) / 4_000)
    _, sd = figures(belief)
    assert 0.8 * expected < sd < 1.3 * expected


def test_a_log_too_short_for_its_memory_abstains():
    noise = follow_each_other(800, 0.99, 8)
    frame = pl.DataFrame({"episode_id": 0, "state": 0, "action": 0, "reward": noise})
    belief = belief_of(frame, gamma=1.0)
    said = json.loads(belief.attrs["support_warnings"])
    assert any(w["abstain"] and "longer than it tells" in w["reason"] for w in said)
