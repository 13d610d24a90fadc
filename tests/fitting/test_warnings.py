"""What a fit says against its own belief."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.warnings import moved_shift


def test_moved_probability_is_held_against_the_width_of_the_belief():
    reward = np.array([0.0, 2.0] * 50)  # sd 1
    found = moved_shift(
        ("calm", "doubtful", "lost"),
        np.array([0.01, 0.01, 0.01]),
        np.array([0.1, 0.02, 0.005]),
        float(np.std(reward)),
    )
    assert [(w.policy, w.abstain) for w in found] == [("doubtful", False), ("lost", True)]
    assert "off by 0.5 sds" in found[0].reason
    assert "1.00%" in found[1].reason


def test_a_rare_unlogged_action_can_be_too_much_for_a_sharp_belief():
    # State 1 is one in a hundred; its action 1 was never taken, and the target always takes it.
    rng = np.random.default_rng(0)
    state = (rng.random(40_000) < 0.01).astype(int)
    action = np.where(state == 1, 0, rng.integers(0, 2, 40_000))
    frame = pl.DataFrame({"state": state, "action": action, "reward": rng.normal(1.0, 1.0, 40_000)})
    same = bd.TabularPolicy([[0.5, 0.5], [1.0, 0.0]])
    belief = bd.fit(
        bd.Logs.from_dataframe(frame),
        {"unseen": bd.TabularPolicy([[0.5, 0.5], [0.2, 0.8]]), "seen": same},
        gamma=0.0,
        rng_key=jax.random.key(0),
        inference="exact",
        draws=10,
        prior=bd.Prior(unseen="moved"),
    )
    warnings = json.loads(belief.attrs["support_warnings"])
    assert [w["policy"] for w in warnings] == ["unseen"]
    # 0.8 % of the steps, sd 1, and a belief of sd 1 / sqrt(40,000).
    assert warnings[0]["abstain"]
    known = belief["constant_data"]
    shift = known["moved_mass"].values[0] * 1.0 / known["guide_sd"].values[0]
    assert shift == pytest.approx(1.6, abs=0.2)


def devices(name, n_groups, effect, seed=0):
    """A bandit whose rows have an effect of the group that they belong to."""
    rng = np.random.default_rng(seed)
    group = rng.integers(n_groups, size=1_000)
    action = rng.integers(2, size=1_000)
    shared = effect * rng.normal(size=n_groups)
    reward = action + shared[group] + rng.normal(size=1_000)
    frame = pl.DataFrame({"state": 0, "action": action, "reward": reward, name: group})
    table = {"one": bd.TabularPolicy([[0.2, 0.8]])}
    return bd.fit(
        bd.Logs.from_dataframe(frame), table, gamma=0.0, rng_key=jax.random.key(0), draws=50
    )


def test_a_column_of_few_groups_is_told_of_and_changes_no_width():
    shared, none = devices("shelf", 6, 1.0), devices("shelf", 6, 0.0)
    said = [w for w in json.loads(shared.attrs["support_warnings"]) if w["name"] == "shared errors"]
    assert len(said) == 1
    assert not said[0]["abstain"]
    assert "cluster='shelf'" in said[0]["reason"]
    assert said[0]["number"] > 1.2
    assert not json.loads(shared.attrs["unit"])["names"]
    assert json.loads(shared.attrs["unit"])["suspected"][0]["name"] == "shelf"
    assert not json.loads(none.attrs["support_warnings"])


def test_a_robot_is_a_unit_by_its_name():
    belief = devices("robot", 12, 1.0)
    assert json.loads(belief.attrs["unit"])["names"] == ["robot"]


def test_one_first_state_is_told_where_others_would_move_the_value():
    rng = np.random.default_rng(0)
    state = rng.integers(3, size=500)
    action = rng.integers(2, size=500)
    frame = pl.DataFrame(
        {
            "episode_id": 0,
            "step": np.arange(500),
            "state": state,
            "action": action,
            "reward": 3.0 * state + action + rng.normal(size=500),
        }
    )
    table = {"one": bd.TabularPolicy([[0.2, 0.8]] * 3)}
    logs = bd.Logs.from_dataframe(frame)
    said = {
        gamma: [
            w["name"]
            for w in json.loads(
                bd.fit(logs, table, gamma=gamma, rng_key=jax.random.key(0), draws=50).attrs[
                    "support_warnings"
                ]
            )
        ]
        for gamma in (0.5, 1.0)
    }
    assert "one start" in said[0.5]
    assert "one start" not in said[1.0]
    assert "influential episode" not in said[0.5] + said[1.0]


@pytest.mark.parametrize("ratio_sd", [10.0, 0.05])
def test_a_prior_that_holds_the_ratio_at_one_is_told_on_labels(ratio_sd):
    frame = pl.DataFrame({"state": 0, "action": [0, 1] * 200, "reward": [0.0, 1.0] * 200})
    belief = bd.fit(
        bd.Logs.from_dataframe(frame.with_columns(pl.col("reward") + pl.int_range(400) % 7)),
        {"one": bd.TabularPolicy([[0.05, 0.95]])},
        gamma=0.0,
        rng_key=jax.random.key(0),
        prior=bd.Prior(ratio_sd=ratio_sd),
        draws=10,
    )
    said = [
        w for w in json.loads(belief.attrs["support_warnings"]) if w["name"] == "unmet constraint"
    ]
    assert len(said) == (ratio_sd < 1.0)
    assert all("Raise ratio_sd" in w["reason"] for w in said)
