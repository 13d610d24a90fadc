"""Candidates by logged row: the same as functions of states, and what is refused."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import PoliciesError

KEY = jax.random.key(0)
ACTIONS = ["a", "b", "c"]


class Softmax:
    def probs(self, observation):
        weight = np.exp(observation @ np.array([[0.5, -0.5, 0.0], [0.0, 1.0, -1.0]]))
        return weight / weight.sum(axis=1, keepdims=True)


def vectors(n=300, length=1):
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(n, 2))
    action = rng.integers(0, 3, n)
    table = pl.DataFrame(
        {
            "obs_0": obs[:, 0],
            "obs_1": obs[:, 1],
            "action": [ACTIONS[a] for a in action],
            "reward": obs[:, 0] * action + rng.normal(0, 0.5, n),
            "propensity": np.full(n, 1 / 3),
        }
    )
    return table.with_columns(episode_id=pl.int_range(n) // length), obs


def long_table(probabilities, name="p"):
    n = len(probabilities)
    return pl.DataFrame(
        {
            "policy": [name] * (3 * n),
            "row": np.repeat(np.arange(1, n + 1), 3),
            "action": ACTIONS * n,
            "prob": probabilities.ravel(),
        }
    )


@pytest.mark.parametrize(("length", "gamma"), [(1, 0.0), (10, 0.9)], ids=["bandit", "chain"])
def test_rows_say_what_the_function_says(length, gamma):
    table, obs = vectors(length=length)
    # Rows of the table in another order than those of the log.
    table = table.sample(fraction=1.0, shuffle=True, seed=1) if length == 1 else table
    obs = table.select("obs_0", "obs_1").to_numpy()
    logs = bd.Logs.from_dataframe(table, actions=ACTIONS)
    found = bd.fit(logs, long_table(Softmax().probs(obs)), gamma=gamma, rng_key=KEY)
    own = bd.fit(logs, {"p": Softmax()}, gamma=gamma, rng_key=KEY)
    np.testing.assert_allclose(found["posterior/value"], own["posterior/value"], rtol=1e-8)


def test_on_labels_rows_of_a_state_have_to_agree():
    rng = np.random.default_rng(0)
    state, action = rng.integers(0, 2, 60), rng.integers(0, 3, 60)
    frame = pl.DataFrame(
        {"state": state, "action": [ACTIONS[a] for a in action], "reward": rng.random(60)}
    )
    table = np.array([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    logs = bd.Logs.from_dataframe(frame)
    by_row = bd.RowPolicy(table[state], ACTIONS)
    own = bd.TabularPolicy(table, [0, 1], ACTIONS)
    belief = bd.fit(logs, {"rows": by_row, "table": own}, gamma=0.0, rng_key=KEY)
    draws = belief["posterior/value"].to_numpy()
    np.testing.assert_array_equal(draws[..., 0], draws[..., 1])
    changed = table[state].copy()
    changed[7] = [1.0, 0.0, 0.0]
    with pytest.raises(PoliciesError, match=r"same probabilities in all rows of state \d"):
        bd.fit(logs, {"rows": bd.RowPolicy(changed, ACTIONS)}, gamma=0.0, rng_key=KEY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.filter(pl.col("row") != 3), "none for row 3"),
        (lambda t: t.with_columns(pl.col("row") - 1), "counted from 1, found 0"),
        (lambda t: t.with_columns(pl.col("row") + 1), "found row 301. Was it made for another"),
        (lambda t: t.with_columns(pl.col("row").replace(300, 10**13)), "found row 10,000,000,000,"),
        (lambda t: t.with_columns(row=pl.col("row").cast(pl.String) + "x"), "column 'row'"),
        (lambda t: t.with_columns(pl.col("prob") / 2), "state 'row 1': .* sum"),
        (lambda t: pl.concat([t, t[:1]]), "each policy, row and action once"),
        (lambda t: t.with_columns(action=pl.col("action") + "z"), "az"),
    ],
    ids=["missing", "from zero", "too many", "far", "text", "sum", "twice", "action"],
)
def test_what_does_not_fit_the_log_is_refused(change, words):
    table, obs = vectors()
    logs = bd.Logs.from_dataframe(table, actions=ACTIONS)
    with pytest.raises(PoliciesError, match=words):
        bd.fit(logs, change(long_table(Softmax().probs(obs))), gamma=0.0, rng_key=KEY)


def test_it_cannot_be_asked_about_other_states():
    with pytest.raises(PoliciesError, match="the rows of its log alone"):
        bd.RowPolicy([[0.5, 0.5]], ["a", "b"]).probs(np.zeros((3, 2)))


def test_other_methods_take_it_too():
    table, obs = vectors()
    logs = bd.Logs.from_dataframe(table, actions=ACTIONS)
    method = bd.baselines.make("wis")
    by_row = method.estimate(logs, bd.RowPolicy(Softmax().probs(obs), ACTIONS), gamma=0.0)
    own = method.estimate(logs, Softmax(), gamma=0.0)
    assert by_row.value == pytest.approx(own.value, rel=1e-12)


def test_a_table_of_states_and_rows_is_refused_and_other_columns_are_told_of():
    table = pl.DataFrame(
        {
            "policy": ["a", "a"],
            "state": [0, 1],
            "row": [1, 2],
            "action": ["x", "y"],
            "prob": [1.0, 1.0],
        }
    )
    with pytest.raises(PoliciesError, match="found both"):
        bd.Policies.from_dataframe(table)
    by_state = bd.Policies.from_dataframe(table, columns={"state": "state"})
    assert isinstance(by_state["a"], bd.TabularPolicy)
    assert isinstance(bd.Policies.from_dataframe(table.drop("state"))["a"], bd.RowPolicy)
    by_row = bd.Policies.from_dataframe(table, columns={"row": "row"})
    assert isinstance(by_row["a"], bd.RowPolicy)
    for found, left_out in ((by_state, "row"), (by_row, "state")):
        (note,) = found.notes
        assert f"were left out: {left_out!r}" in note
    assert bd.Policies.from_dataframe(table.drop("row")).notes == []
