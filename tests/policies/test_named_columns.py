"""Tables whose columns have names are read by these, and never by place."""

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import PoliciesError

LABELS = ["hold", "buy"]


@pytest.fixture(scope="module")
def logs():
    rng = np.random.default_rng(0)
    state, action = rng.choice(["x", "y"], 300), rng.choice(LABELS, 300)
    table = {"state": state, "action": action, "reward": (action == "buy").astype(float)}
    return bd.Logs.from_dataframe(pl.DataFrame(table), actions=LABELS)


def always_buy(n, names=("buy", "hold")):
    return pd.DataFrame({name: [float(name == "buy")] * n for name in names})


def value(logs, candidate):
    belief = bd.fit(logs, {"p": candidate}, gamma=0.0, rng_key=jax.random.key(0))
    return float(belief["posterior/value"].mean())


@pytest.mark.parametrize(
    "candidate",
    [
        lambda states: always_buy(len(states)),
        lambda states: pl.from_pandas(always_buy(len(states))),
        lambda states: np.tile([0.0, 1.0], (len(states), 1)),
        bd.TabularPolicy(always_buy(2), ["x", "y"], LABELS),
        bd.TabularPolicy(always_buy(2).set_axis(["y", "x"])),
        bd.policies.softmax(100.0 * always_buy(2).set_axis(["x", "y"])),
        bd.policies.epsilon_greedy(always_buy(2), 0.0, states=["x", "y"], actions=LABELS),
        bd.RowPolicy(always_buy(300), LABELS),
    ],
    ids=["pandas", "polars", "array", "table", "own labels", "softmax", "greedy", "rows"],
)
def test_the_best_action_is_worth_one_whatever_the_order_of_its_columns(logs, candidate):
    assert value(logs, candidate) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: lambda states: always_buy(len(states), ("buy", "sell")),
        lambda: bd.TabularPolicy(always_buy(2, ("buy", "sell")), ["x", "y"], LABELS),
        lambda: bd.RowPolicy(always_buy(300, ("buy", "sell")), LABELS),
        lambda: bd.policies.softmax(lambda states: always_buy(len(states))),
    ],
    ids=["function", "table", "rows", "scores"],
)
def test_columns_of_other_names_are_refused(logs, make):
    with pytest.raises(PoliciesError, match=r"found 'buy', '(sell|hold)'|found a table with"):
        value(logs, make())


def test_columns_that_are_only_numbered_stay_in_their_places(logs):
    assert value(logs, lambda s: pd.DataFrame([[0.0, 1.0]] * len(s))) == pytest.approx(
        1.0, abs=1e-3
    )


def test_true_values_and_simulated_logs_read_names_too():
    world = bd.envs.Bandit((0.1, 0.9))

    class Best:
        def probs(self, obs):
            return pd.DataFrame({1: [1.0] * len(obs), 0: [0.0] * len(obs)})

    assert float(bd.true_value(world, Best(), gamma=0.0)) == pytest.approx(0.9)
    played = bd.simulate(world, Best(), 20, 1, rng_key=jax.random.key(0))
    assert played.action_labels.tolist() == [1]
