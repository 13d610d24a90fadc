"""Actions that only some rows allow: the log, the candidates, and the belief by hand."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import LogsError, PoliciesError

KEY = jax.random.key(0)
ACTIONS = ["a", "b", "c"]
SETS = [["a", "b", "c"], ["a", "b"], ["c", "b"]]
POLICY = {"x": {"a": 0.6, "b": 0.3, "c": 0.1}, "y": {"b": 0.5, "c": 0.5}}
OTHER = {"x": {"c": 0.5, "b": 0.5}, "y": {"a": 0.2, "b": 0.2, "c": 0.6}}


def rows(n=900, seed=0):
    """Contexts, sets drawn apart from them, and a uniform choice among what is allowed."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(n):
        state, allowed = str(rng.choice(["x", "y"])), SETS[rng.integers(3)]
        action = str(rng.choice(allowed))
        worth = 0.2 + 0.3 * (action == "a") + 0.2 * (action == "c") * (state == "y")
        table.append((state, allowed, action, float(rng.random() < worth), 1 / len(allowed)))
    columns = ["state", "allowed_actions", "action", "reward", "propensity"]
    return pl.DataFrame(table, schema=columns, orient="row")


def renormalized(policy, state, allowed):
    """Pencil and paper: shares of what is left."""
    kept = {action: policy[state].get(action, 0.0) for action in sorted(allowed)}
    return {action: chance / sum(kept.values()) for action, chance in kept.items()}


def by_hand(table, policy):
    """The same world with the set written into the state, and the candidate for each of these."""
    names = [
        f"{state} {'-'.join(sorted(allowed))}"
        for state, allowed in zip(table["state"], table["allowed_actions"], strict=True)
    ]
    known = {
        name: renormalized(policy, name.split()[0], name.split()[1].split("-")) for name in names
    }
    return names, known


def test_the_belief_is_that_of_states_with_their_sets():
    table = rows()
    found = bd.fit(bd.Logs.from_dataframe(table), {"p": POLICY, "q": OTHER}, gamma=0.0, rng_key=KEY)
    names, known = by_hand(table, POLICY)
    _, others = by_hand(table, OTHER)
    plain = table.drop("allowed_actions").with_columns(pl.Series("state", names))
    own = bd.fit(bd.Logs.from_dataframe(plain), {"p": known, "q": others}, gamma=0.0, rng_key=KEY)
    np.testing.assert_allclose(
        found["posterior/value"], own["posterior/value"], rtol=1e-9, atol=1e-12
    )
    assert "renormalized over the actions" in found.attrs["notes"]
    assert "notes" not in own.attrs


def test_it_is_so_in_chains_too():
    table = rows().with_columns(episode_id=pl.int_range(900) // 6)
    found = bd.fit(bd.Logs.from_dataframe(table), {"p": POLICY}, gamma=0.9, rng_key=KEY)
    names, known = by_hand(table, POLICY)
    plain = table.drop("allowed_actions").with_columns(pl.Series("state", names))
    own = bd.fit(bd.Logs.from_dataframe(plain), {"p": known}, gamma=0.9, rng_key=KEY)
    np.testing.assert_allclose(
        found["posterior/value"], own["posterior/value"], rtol=1e-6, atol=1e-9
    )


class Softmax:
    """A candidate on vectors; with `sets` it knows what each row allows, found by the row."""

    def __init__(self, sets=None):
        self.sets = sets

    def probs(self, observation):
        weight = np.exp(observation @ np.array([[0.5, -0.5, 0.0], [0.0, 1.0, -1.0]]))
        if self.sets is not None:
            weight = weight * np.array([self.sets[tuple(row)] for row in observation.tolist()])
        return weight / weight.sum(axis=1, keepdims=True)


def test_on_vectors_each_row_has_its_set():
    rng = np.random.default_rng(1)
    table = rows(500).drop("state")
    obs = rng.normal(size=(500, 2))
    table = table.with_columns(obs_0=obs[:, 0], obs_1=obs[:, 1])
    sets = {
        tuple(row): [action in allowed for action in ACTIONS]
        for row, allowed in zip(obs.tolist(), table["allowed_actions"], strict=True)
    }
    found = bd.fit(
        bd.Logs.from_dataframe(table, actions=ACTIONS), {"p": Softmax()}, gamma=0.0, rng_key=KEY
    )
    plain = bd.Logs.from_dataframe(table.drop("allowed_actions"), actions=ACTIONS)
    own = bd.fit(plain, {"p": Softmax(sets)}, gamma=0.0, rng_key=KEY)
    np.testing.assert_allclose(found["posterior/value"], own["posterior/value"], rtol=1e-9)


def test_without_propensities_vectors_are_refused():
    table = rows(200).drop("state", "propensity").with_columns(obs_0=pl.int_range(200) / 100)
    logs = bd.Logs.from_dataframe(table.with_columns(obs_1=0.0), actions=ACTIONS)
    with pytest.raises(LogsError, match="a clone of a policy on vectors does not know"):
        bd.fit(logs, {"p": Softmax()}, gamma=0.0, rng_key=KEY)


@pytest.mark.parametrize("form", ["texts", "integers"])
def test_texts_and_integers_are_sets_too(form):
    table = rows(100)
    expected = bd.Logs.from_dataframe(table)
    if form == "texts":
        table = table.with_columns(pl.col("allowed_actions").list.join(" | "))
    else:
        code = {"a": 0, "b": 1, "c": 2}
        table = table.with_columns(
            pl.col("action").replace_strict(code),
            pl.Series("allowed_actions", [[code[a] for a in s] for s in table["allowed_actions"]]),
        )
        table = table.with_columns(
            pl.col("allowed_actions").list.eval(pl.element().cast(pl.String)).list.join("|")
        )
    found = bd.Logs.from_dataframe(table)
    np.testing.assert_array_equal(found.allowed.mask, expected.allowed.mask)
    np.testing.assert_array_equal(found.state, expected.state)


def test_a_log_goes_through_a_frame():
    logs = bd.Logs.from_dataframe(rows(60).with_columns(episode_id=pl.int_range(60) // 3))
    again = bd.Logs.from_dataframe(logs.to_dataframe())
    for name in ("state", "action", "reward", "next_state", "propensity"):
        np.testing.assert_array_equal(getattr(again, name), getattr(logs, name))
    np.testing.assert_array_equal(again.allowed.mask, logs.allowed.mask)
    assert set(logs.seen_states) == {"x", "y"}


def test_a_candidate_that_knows_the_sets_may_say_so():
    table = rows(300)
    logs = bd.Logs.from_dataframe(table)
    names = logs.state_labels.tolist()
    knows = {name: renormalized(POLICY, name[0], name[3:-1].split("|")) for name in names}
    found = bd.fit(logs, {"p": POLICY, "knows": knows}, gamma=0.0, rng_key=KEY)
    draws = found["posterior/value"].to_numpy()
    np.testing.assert_allclose(draws[..., 0], draws[..., 1], rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"allowed_actions": [["a"], []]},
            "row 2, column 'allowed_actions': expected at least one",
        ),
        ({"allowed_actions": [["a"], None]}, "row 2, column 'allowed_actions'"),
        ({"allowed_actions": [["a"], ["a", None]]}, "found a missing one"),
        ({"allowed_actions": [["a"], ["a"]]}, "row 2.*the action that was taken, 'b', among"),
        ({"allowed_actions": [[1], [2]]}, "expected strings, as in the column 'action'"),
        ({"allowed_actions": [0.5, 0.7]}, "expected lists of actions"),
        ({"action": [0, 1], "allowed_actions": ["a|b", "b"]}, "expected integers, as in"),
        ({"allowed_actions": [["a"], ["b"]], "next_state": ["x", "x"]}, "no column 'next_state'"),
        ({"action": [[0.1], [0.2]], "allowed_actions": [["a"], ["b"]]}, "found vectors"),
    ],
    ids=["empty", "null", "null inside", "not taken", "kind", "numbers", "text", "next", "vectors"],
)
def test_what_is_no_set_of_actions_is_refused(change, words):
    table = {"state": ["x", "y"], "action": ["a", "b"], "reward": [0.0, 1.0]} | change
    with pytest.raises(LogsError, match=words):
        bd.Logs.from_dataframe(pl.DataFrame(table))


def test_a_candidate_without_an_allowed_action_is_named():
    logs = bd.Logs.from_dataframe(rows(50), actions=ACTIONS)
    words = r"policy 'p'.*that row \d+ of the log allows, 'b', 'c'"
    with pytest.raises(PoliciesError, match=words):
        bd.fit(logs, {"p": {"x": "a", "y": "a"}}, gamma=0.0, rng_key=KEY)


def test_states_that_are_written_alike_are_refused():
    table = {
        "state": ["x", "x [a]"],
        "action": ["b", "b"],
        "reward": [0.0, 1.0],
        "allowed_actions": [["a] [b", "b"], ["b"]],
    }
    logs = bd.Logs.from_dataframe(pl.DataFrame(table))
    assert len(logs.state_labels) == 2
    table["allowed_actions"] = [["a] [b"], ["b"]]
    table["action"] = ["a] [b", "b"]
    with pytest.raises(LogsError, match="Leave brackets and bars out"):
        bd.Logs.from_dataframe(pl.DataFrame(table))


def test_sets_within_the_declared_action_space():
    table = rows(20)
    sets = table["allowed_actions"].to_list()
    sets[7] = [*sets[7], "z"]
    table = table.with_columns(pl.Series("allowed_actions", sets))
    with pytest.raises(LogsError, match=r"row 8, column 'allowed_actions': .* found 'z'"):
        bd.Logs.from_dataframe(table, actions=ACTIONS)
    assert bd.Logs.from_dataframe(table, actions=[*ACTIONS, "z"]).n_transitions == 20


def test_a_whole_number_is_a_set_of_one_and_blanks_are_no_action():
    frame = pl.DataFrame(
        {"state": 0, "action": [0, 1, 0], "reward": [1.0, 2.0, 0.5], "allowed_actions": [0, 1, 0]}
    )
    assert bd.Logs.from_dataframe(frame).allowed is not None
    texts = frame.with_columns(allowed_actions=pl.Series(["0|1", "0| 1", " "]))
    with pytest.raises(LogsError, match="row 3, column 'allowed_actions': expected at least one"):
        bd.Logs.from_dataframe(texts)
    missing = frame.with_columns(allowed_actions=pl.Series([0, None, 0]))
    with pytest.raises(LogsError, match="row 2, column 'allowed_actions': expected at least one"):
        bd.Logs.from_dataframe(missing)
