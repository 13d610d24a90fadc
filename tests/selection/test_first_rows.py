"""At gamma = 0 the first rows of episodes count, which is said; or all, if each stands alone."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd

KEY = jax.random.key(0)
POLICIES = {"zero": bd.TabularPolicy([[1.0, 0.0]] * 3), "one": bd.TabularPolicy([[0.0, 1.0]] * 3)}


def impressions(n=600):
    """Three positions of a page, each a row; action 1 is right at the top and wrong below."""
    rng = np.random.default_rng(0)
    position, action = np.tile([0, 1, 2], n), rng.integers(2, size=3 * n)
    mean = np.where(position == 0, 0.2 + 0.6 * action, 0.7 - 0.5 * action)
    return pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(n), 3),
            "state": position,
            "action": action,
            "reward": (rng.random(3 * n) < mean).astype(float),
        }
    )


def chosen(logs, gamma=0.0):
    belief = bd.fit(logs, POLICIES, gamma=gamma, rng_key=KEY)
    return belief, bd.select(belief, bd.scores.regret(k=1))


@pytest.mark.parametrize("ignore", [[], ["episode_id"]], ids=["first rows", "all rows"])
def test_which_rows_count_is_said_and_can_be_chosen(ignore):
    frame = impressions()
    belief, choice = chosen(bd.Logs.from_dataframe(frame, ignore=ignore))
    # By hand: the mean reward of each action at the top, or over the three positions.
    cells = frame.group_by("state", "action").agg(pl.col("reward").mean()).sort("state", "action")
    means = cells["reward"].to_numpy().reshape(3, 2)
    by_hand = means.mean(axis=0) if ignore else means[0]
    found = belief["constant_data/guide_mean"].to_numpy()
    np.testing.assert_allclose(found, by_hand, atol=0.002)
    assert choice.order[0] == ("zero" if ignore else "one")
    told = [remark for remark in choice.remarks if "at gamma = 0" in remark]
    assert len(told) == (not ignore)
    if told:
        assert "the states of 600 first rows count, and all 1,800 rows tell" in told[0]
        assert "--ignore episode_id" in told[0]


def test_nothing_is_said_at_another_gamma_or_of_another_programs_belief():
    frame = impressions(60).with_columns(next_state=(pl.col("state") + 1) % 3)
    belief, choice = chosen(bd.Logs.from_dataframe(frame), gamma=0.5)
    assert not any("at gamma = 0" in remark for remark in choice.remarks)
    belief.attrs["settings"] = "none of ours"
    assert not any("at gamma" in r for r in bd.select(belief, bd.scores.regret(k=1)).remarks)
