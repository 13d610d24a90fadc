"""A log that is counted where it lies gives the belief that its rows give in memory."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import BayesDiceError, LogsError, SettingsError

STATES, ACTIONS, EPISODES, STEPS, USERS = 4, 2, 60, 6, 12
SAME = 1e-9
"""Largest relative difference of two beliefs."""
OF_ROWS = ("observed_data", "reward_range")
ROUNDED = ("loss", "constraint_probability", "surrogate_bound", "weights")
"""What few digits are left of: residuals near zero, and weights in single precision."""


def play(seed=0, steps=STEPS, effect=0.8, successors=True, offset=0.0, ends=0.1):
    """A log in which rows of one user move together by `effect`."""
    rng = np.random.default_rng(seed)
    onward = rng.dirichlet(np.ones(STATES), (STATES, ACTIONS))
    users, rows = rng.normal(size=USERS) * effect, []
    for episode in range(EPISODES):
        state = int(rng.integers(STATES))
        for step in range(steps):
            action = int(rng.integers(ACTIONS))
            reward = offset + 0.3 * state + users[episode % USERS] + rng.normal()
            after = int(rng.choice(STATES, p=onward[state, action]))
            ended = bool(rng.random() < ends)
            user = f"u{episode % USERS}"
            rows.append((episode, step, state, action, reward, after, ended, user))
            if ended:
                break
            state = after
    names = ["episode_id", "step", "state", "action", "reward"]
    names += ["next_state", "terminated", "user_id"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame if successors else frame.drop("next_state")


def candidates(labels=range(STATES)):
    tables = np.random.default_rng(1).dirichlet(np.ones(ACTIONS), (2, STATES))
    return {
        f"p{k}": bd.TabularPolicy(table, states=list(labels), actions=list(range(ACTIONS)))
        for k, table in enumerate(tables)
    }


def fit(logs, policies=None, gamma=0.9, **settings):
    policies = candidates() if policies is None else policies
    return bd.fit(logs, policies, gamma=gamma, rng_key=jax.random.key(0), **settings)


def check_same(one, other):
    """Compare all variables and attributes of two beliefs."""
    for group in one.children:
        for name, variable in one[group].data_vars.items():
            if group in OF_ROWS:
                continue
            expected, found = variable.to_numpy(), other[group][name].to_numpy()
            if expected.dtype.kind not in "fiu":
                assert np.array_equal(expected, found), name
                continue
            size = np.nanmax(np.abs(expected), initial=1.0, where=np.isfinite(expected))
            limit = 1e-4 if name in ROUNDED else SAME
            np.testing.assert_allclose(found, expected, rtol=0, atol=limit * size, err_msg=name)
    for name, expected in one.attrs.items():
        found = other.attrs[name]
        if isinstance(expected, float):
            assert found == pytest.approx(expected, rel=SAME), name
        elif name != "unit":
            assert found == expected, name
    if "unit" in one.attrs:
        expected, found = (json.loads(each.attrs["unit"]) for each in (one, other))
        assert found["names"] == expected["names"]
        assert found["groups"] == expected["groups"]
        for mine, theirs in zip(found["tested"], expected["tested"], strict=True):
            assert (mine["name"], mine["size"]) == (theirs["name"], theirs["size"])
            for number in ("wider", "score", "shows"):
                assert mine[number] == pytest.approx(theirs[number], rel=1e-6)


CASES = {
    "users": ({}, {}),
    "next-rows": ({"successors": False}, {}),
    "left-out-steps": ({"successors": False, "ends": 0.0}, {"gamma": 1.0}),
    "bandit-far-from-zero": ({"offset": 1e8, "effect": 0.0}, {"gamma": 0.0}),
    "asked-absorb": ({}, {"cluster": "user_id", "on_termination": "absorb"}),
    "logged-policy": ({"effect": 0.0}, {"include_logged": True}),
    "paper": ({}, {"preset": "paper"}),
}


@pytest.mark.parametrize(("log", "settings"), CASES.values(), ids=CASES)
def test_belief_is_that_of_the_rows_in_memory(log, settings):
    frame = play(**log)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=3).lazy()
    expected = fit(bd.Logs.from_dataframe(frame), **settings)
    check_same(expected, fit(bd.Logs.from_lazy(shuffled), **settings))


def on_duckdb(frame):
    duckdb = pytest.importorskip("duckdb")
    database = duckdb.connect()
    database.register("given", frame.to_arrow())
    database.execute("create table steps as select * from given order by reward")
    return database.table("steps")


@pytest.mark.parametrize("labels", [range(STATES), ["a", "b", "c", "d"]], ids=["numbers", "texts"])
def test_belief_from_a_database(labels):
    names = pl.Series(list(labels))
    frame = play(successors=False).with_columns(pl.col("state").map_elements(names.__getitem__))
    frame = frame.with_columns(pl.col("state").cast(names.dtype))
    policies = candidates(labels)
    expected = fit(bd.Logs.from_dataframe(frame), policies)
    check_same(expected, fit(bd.Logs.from_lazy(on_duckdb(frame)), policies))


def test_first_rows_are_whole_episodes_and_the_belief_says_so(monkeypatch):
    from bayesdice_ppl.logs.lazy import first as lazy_first

    frame = play()
    whole = fit(bd.Logs.from_lazy(frame.lazy()))
    monkeypatch.setattr(lazy_first, "SAMPLE", 100)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    logs = bd.Logs.from_lazy(shuffled.lazy())
    first, n = logs.sample, frame.height
    lengths = shuffled.group_by("episode_id", maintain_order=True).len()["len"].cum_sum()
    assert first.n_transitions == lengths.filter(lengths <= 100).max()
    belief = fit(logs)
    difference = np.abs((belief["posterior/value"] - whole["posterior/value"]).to_numpy())
    assert difference.max() < SAME
    notes = json.loads(belief.attrs["notes"])
    assert f"counted where it lies ({n:,} rows)" in notes[0]
    assert f"in the first {first.n_transitions} of them" in notes[0]
    assert "notes" not in whole.attrs


REFUSED = {
    "statistic": ({"statistic": "cvar(0.1)"}, "statistic: expected the mean reward"),
    "features": ({"features": bd.features.polynomial(2)}, "features: expected one-hot"),
    "episode": ({"cluster": "episode"}, "cluster: expected another unit"),
    "column": ({"cluster": "site"}, "There are: user_id"),
    "kind": ({"prior": bd.Prior(rewards="binary")}, "column 'reward': expected"),
}


@pytest.mark.parametrize(("settings", "words"), REFUSED.values(), ids=REFUSED)
def test_what_needs_rows_is_refused(settings, words):
    with pytest.raises(BayesDiceError) as caught:
        fit(bd.Logs.from_lazy(play().lazy()), **settings)
    assert words in str(caught.value)


def test_groups_must_be_named_in_every_row():
    holes = play().with_columns(pl.when(pl.col("step") > 0).then("user_id"))
    logs = bd.Logs.from_lazy(holes.lazy())
    assert logs.looked_at == ()
    with pytest.raises(SettingsError, match="found none in 60 rows"):
        fit(logs, cluster="user_id")


def test_others_ask_for_rows_in_memory():
    logs, key = bd.Logs.from_lazy(play().lazy()), jax.random.key(0)
    method = bd.baselines.make("dr")
    policy = candidates()["p0"]
    asked = {
        "compare": lambda: bd.compare({"a": {}, "b": {}}, logs, candidates(), rng_key=key),
        "calibrate": lambda: bd.calibrate(logs, candidates(), gamma=0.9, rng_key=key),
        "baseline": lambda: method.estimate(logs, policy, gamma=0.9, rng_key=key),
    }
    for ask in asked.values():
        with pytest.raises(LogsError, match=r"rows in memory .* logs\.sample"):
            ask()


def test_check_reports_on_the_first_rows():
    logs = bd.Logs.from_lazy(play().lazy())
    report = bd.check(logs, candidates(), gamma=0.9)
    assert report.faults == bd.check(logs.sample, candidates(), gamma=0.9).faults
    assert f"on the first {logs.n_transitions} rows" in str(report)
