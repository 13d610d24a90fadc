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
        reward,
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
