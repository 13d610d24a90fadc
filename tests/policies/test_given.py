"""What may be given as a candidate: functions, dicts, arrays, tables; tensors; and what fails."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesdice_ppl as bd
from bayesdice_ppl import Policies, TabularPolicy
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import align_continuous, align_policies
from bayesdice_ppl.policies.asking import plain_array

STATES, ACTIONS = ["x", "y", "z"], ["l", "r"]
TABLE = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])


def log(**changes):
    data = {"state": ["x", "y", "z"] * 2, "action": ["l", "r"] * 3, "reward": np.arange(6.0)}
    return bd.Logs.from_dataframe(pl.DataFrame({**data, **changes}), actions=ACTIONS)


class Tensor:
    """What PyTorch's tensor with a gradient does, without PyTorch."""

    def __init__(self, values, *, attached=True, away=True):
        self.values, self.attached, self.away = np.asarray(values), attached, away

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __len__(self):
        return len(self.values)

    def detach(self):
        return Tensor(self.values, attached=False, away=self.away)

    def cpu(self):
        return Tensor(self.values, attached=self.attached, away=False)

    def numpy(self):
        assert not self.attached
        assert not self.away
        return self.values


class Object:
    def __init__(self, answer):
        self.probs = answer


def by_label(states):
    return TABLE[[STATES.index(state) for state in states]]


def long_table(**more):
    rows = [(s, a, TABLE[i, j]) for i, s in enumerate(STATES) for j, a in enumerate(ACTIONS)]
    frame = pl.DataFrame(rows, schema=["state", "action", "prob"], orient="row")
    return frame.with_columns(pl.lit(v).alias(k) for k, v in more.items())


FORMS = {
    "function": by_label,
    "object": Object(by_label),
    "tensor": Object(lambda states: Tensor(by_label(states))),
    "list of tensors": lambda states: [Tensor(row) for row in by_label(states)],
    "jax": lambda states: jnp.array(by_label(states)),
    "dataframe of a function": lambda states: pd.DataFrame(by_label(states)),
    "dict of dicts": {s: dict(zip(ACTIONS, TABLE[i], strict=True)) for i, s in enumerate(STATES)},
    "dict of both": {"x": {"r": 0.75, "l": 0.25}, "y": "l", "z": {"l": 0.5, "r": 0.5}},
    "dict of tensors": {
        s: {a: Tensor(TABLE[i, j]) for j, a in enumerate(ACTIONS)} for i, s in enumerate(STATES)
    },
    "table": long_table(),
    "table with a name": long_table(policy="mine"),
    "table of pandas": long_table().to_pandas(),
    "table with an index": long_table().to_pandas().set_index(["state", "action"]),
    "wide table": pd.DataFrame(TABLE, index=STATES, columns=ACTIONS),
    "table of actions in another order": pd.DataFrame(TABLE, STATES, ACTIONS)[["r", "l"]],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_policy(form):
    found = align_policies(log(), {"mine": FORMS[form]})
    np.testing.assert_allclose(found.probabilities[0], TABLE, rtol=1e-6)
    assert Policies({"mine": FORMS[form]}).notes == []


@pytest.mark.parametrize("make", [np.array, jnp.array, Tensor, lambda rows: rows.tolist()])
def test_an_array_stands_for_states_and_actions_from_zero(make):
    frame = pl.DataFrame({"state": [0, 1, 2] * 2, "action": [0, 1] * 3, "reward": np.arange(6.0)})
    found = align_policies(bd.Logs.from_dataframe(frame), {"mine": make(TABLE)})
    np.testing.assert_allclose(found.probabilities[0], TABLE, rtol=1e-6)
    with pytest.raises(PoliciesError, match="'mine': expected states labeled with strings"):
        align_policies(log(), {"mine": TABLE})


def test_forms_give_the_belief_of_the_table():
    key = jax.random.key(0)
    forms = ("function", "dict of dicts", "table", "tensor")
    belief = bd.fit(log(), {f: FORMS[f] for f in forms}, gamma=0.0, rng_key=key, draws=10)
    plain = {f: TabularPolicy(TABLE, STATES, ACTIONS) for f in forms}
    other = bd.fit(log(), plain, gamma=0.0, rng_key=key, draws=10)
    np.testing.assert_array_equal(belief["posterior/value"], other["posterior/value"])


def test_a_table_of_all_candidates_is_read_wherever_candidates_are():
    frame = pl.concat([long_table(policy="b"), long_table(policy="a")]).select(
        "policy", "state", "action", "prob"
    )
    assert list(Policies(frame)) == list(Policies(frame.to_pandas())) == ["b", "a"]
    belief = bd.fit(log(), frame, gamma=0.0, rng_key=jax.random.key(0), draws=10)
    assert belief["posterior"].policy.to_numpy().tolist() == ["b", "a"]
    found = bd.baselines.estimate_all(
        "dirichlet", log(), frame, gamma=0.0, rng_key=jax.random.key(0)
    )
    assert found.names == ("b", "a")


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.integers(-5, 5), st.sampled_from("abc"), min_size=1))
def test_a_dict_of_actions_takes_each_surely(chosen):
    policy = Policies({"p": chosen})["p"]
    for state, action in chosen.items():
        sure = dict(zip(policy.actions.tolist(), policy.probs([state])[0], strict=True))
        assert sure.pop(action) == 1.0
        assert not any(sure.values())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "expected a dict with a state or more"),
        ({"x": {"l": 0.5}}, "state 'x': expected probabilities that sum to 1"),
        ({"x": {"l": "half"}}, "state 'x', action 'l': expected a probability, found 'half'"),
        ({"x": [0.5, 0.5]}, "state 'x': expected an action or a dict .* found list"),
        ({"x": "l", 1: "r"}, "all integers or all strings"),
        ({"x": None}, "all integers or all strings"),
        (np.array([0.5, 0.5]), "expected shape .states, actions."),
        (np.array([[0.5, 0.6]]), "state 0: expected probabilities that sum to 1"),
        (np.array([["a"]]), "expected an array of numbers"),
        (pl.DataFrame({"state": [0], "prob": [1.0]}), "missing column 'action'"),
        (long_table().vstack(long_table()), "a second time"),
        (pl.concat([long_table(policy="a"), long_table(policy="b")]), "several in the column po"),
        (TabularPolicy, "found the class TabularPolicy. Give an object"),
        ("policy.pt", "expected an object with a method probs.* found str"),
        (7, "a dict .* found int"),
        (None, "found NoneType"),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_what_is_no_policy_is_refused_by_its_name(given, words):
    with pytest.raises(PoliciesError, match=rf"(?s)policy 'mine'.*{words}"):
        Policies({"mine": given})


def fails(states, kind=KeyError):
    if "y" in list(states):
        raise kind("no such shelf")
    return by_label(states)


@pytest.mark.parametrize("kind", [KeyError, RuntimeError, AssertionError, RecursionError])
@pytest.mark.parametrize("form", [lambda f: f, Object], ids=["function", "object"])
def test_a_policy_that_raises_is_named_with_the_state_and_the_cause(form, kind):
    policy = form(lambda states: fails(states, kind))
    with pytest.raises(PoliciesError) as caught:
        align_policies(log(), {"good": by_label, "bad": policy})
    words = f"policy 'bad': probs failed in state 'y': {kind.__name__}: "
    assert str(caught.value).startswith(words)
    assert "no such shelf" in str(caught.value)
    assert "Correct it" in str(caught.value)
    assert isinstance(caught.value.__cause__, kind)


def test_a_policy_that_fails_only_on_many_states_says_so():
    def picky(states):
        assert len(states) == 1, "one at a time, please"
        return by_label(states)

    with pytest.raises(PoliciesError, match=r"for 3 states at once.* one at a time, please"):
        align_policies(log(), {"p": picky})


def test_an_interruption_is_not_taken_for_a_fault():
    def slow(states):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        align_policies(log(), {"p": slow})


def test_vectors_are_shown_by_their_first_numbers():
    frame = pl.DataFrame(
        {"obs": [[0.5, *range(8)], [1.5, *range(8)]], "action": ["l", "r"], "reward": [0.0, 1.0]}
    )
    logs = bd.Logs.from_dataframe(frame, actions=ACTIONS)

    def broken(obs):
        raise ValueError(f"shape {obs.shape}") if (obs[:, 0] > 1).any() else ZeroDivisionError

    with pytest.raises(PoliciesError, match=r"in state \[0.5, 0, 1, 2, 3, 4, ...\]: ValueError"):
        align_policies(logs, {"p": broken})


def test_continuous_policies_of_tensors_are_converted_and_named_where_they_fail():
    class Torch:
        def sample(self, rng_key, obs, n):
            return Tensor(np.zeros((n, len(obs), 1)))

        def log_prob(self, obs, action):
            if self.broken:
                raise ValueError("mat1 and mat2 must have the same dtype")
            return Tensor(np.full(np.shape(action)[:-1], -0.5))

        broken = False

    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "obs_0": rng.normal(size=60),
            "action_0": rng.normal(size=60),
            "reward": rng.normal(size=60),
        }
    ).with_columns(propensity=pl.lit(0.4))
    logs, policy = bd.Logs.from_dataframe(frame), Torch()
    assert align_continuous(logs, {"t": policy})
    belief = bd.fit(logs, {"t": policy}, gamma=0.0, rng_key=jax.random.key(0), draws=10)
    assert np.isfinite(belief["posterior/value"]).all()
    policy.broken = True
    with pytest.raises(PoliciesError, match=r"'t': log_prob failed in state \[.*same dtype"):
        bd.fit(logs, {"t": policy}, gamma=0.0, rng_key=jax.random.key(0), draws=10)


def test_arrays_of_other_libraries_are_taken_for_what_they_are():
    frame = pl.DataFrame({"a": [1.0]})
    assert plain_array(frame) is frame
    assert plain_array([1, 2]) == [1, 2]
    assert plain_array(Tensor([1.0])).tolist() == [1.0]
