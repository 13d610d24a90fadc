"""Figures of a log, each beside a plain count, a formula, or a log that was made to show it."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from scipy.stats import f_oneway

import bayesdice_ppl as bd
from bayesdice_ppl.checking import periods
from tests.checking.faulty_logs import good, mended


def facts(frame, name, **settings):
    report = bd.check(frame, **{"gamma": 0.9, **settings})
    return report.to_dict()["figures"].get(name)


def kinds(frame, **settings):
    return [fault.kind for fault in bd.check(frame, **{"gamma": 0.9, **settings}).warnings]


def bandit(n, seed, *, actions=3):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "state": rng.integers(0, 2, n),
            "action": rng.integers(0, actions, n),
            "reward": rng.normal(size=n),
            "propensity": np.full(n, 1.0 / actions),
        }
    )


def test_episodes_rewards_and_pairs_are_counted():
    frame = good().filter((pl.col("episode_id") > 0) | (pl.col("step") < 4))
    frame = frame.filter((pl.col("state") > 0) | (pl.col("action") == 0))
    frame = frame.drop("step", "propensity").with_columns(next_state=pl.lit(None, pl.Int64))
    # Of a log without a gap, whatever rows were taken out.
    found = facts(frame, "episodes")
    lengths = frame.group_by("episode_id").len()["len"]
    assert found["rows"] == frame.height
    assert found["episodes"] == 40
    assert found["length"] == {
        "least": lengths.min(),
        "median": lengths.median(),
        "most": lengths.max(),
    }
    assert found["terminated"] == int(frame["terminated"].sum())
    assert found["truncated"] == 40 - found["terminated"]
    rewards = facts(frame, "rewards")
    assert rewards["least"] == frame["reward"].min()
    assert rewards["mean"] == pytest.approx(frame["reward"].mean(), abs=1e-12)
    assert rewards["distinct"] == frame["reward"].n_unique()
    pairs = frame.group_by("state", "action").len()
    coverage = facts(frame, "coverage")
    assert (coverage["pairs"], coverage["pairs_possible"]) == (len(pairs), 8)
    assert coverage["pairs_logged_few_times"] == int((pairs["len"] < 5).sum())
    alone = frame.filter(pl.col("state") == 0).height / frame.height
    assert coverage["share_of_rows_in_states_with_one_action"] == pytest.approx(alone)


def test_periods_of_single_rows_are_compared_as_an_analysis_of_variance_does():
    frame = bandit(600, 3)
    found = facts(frame, "periods", gamma=0.0)
    parts = np.array_split(frame["reward"].to_numpy(), 10)
    assert [row["value"] for row in found["periods"]] == pytest.approx([p.mean() for p in parts])
    errors = [part.std(ddof=1) / np.sqrt(len(part)) for part in parts]
    assert [row["standard_error"] for row in found["periods"]] == pytest.approx(errors)
    assert found["by_chance"] == pytest.approx(f_oneway(*parts).pvalue, rel=1e-9)


def test_rewards_that_change_are_told_and_others_are_not():
    frame = bandit(2000, 4)
    assert periods.DRIFT not in kinds(frame, gamma=0.0)
    later = frame.with_columns(reward=pl.col("reward") + (pl.int_range(pl.len()) >= 1000) * 0.5)
    assert periods.DRIFT in kinds(later, gamma=0.0)


def test_periods_follow_the_calendar_where_there_is_one():
    moments = [datetime(2024, 1, 1) + timedelta(hours=6 * k) for k in range(200)]
    frame = bandit(200, 5).with_columns(when=pl.Series(moments[::-1]))
    found = facts(frame, "periods", gamma=0.0)
    assert found["column"] == "when"
    assert not found["in_order"]
    assert found["period"] == "week"
    by_week = frame.sort("when").group_by_dynamic("when", every="1w").agg(pl.col("reward").mean())
    assert [row["from"] for row in found["periods"]] == [
        str(day.date()) for day in by_week["when"].to_list()
    ]
    assert [row["value"] for row in found["periods"]] == pytest.approx(by_week["reward"].to_list())


def test_propensities_that_do_not_fit_are_told():
    frame = bandit(3000, 6)
    assert "propensities" not in kinds(frame, gamma=0.0)
    wrong = frame.with_columns(propensity=pl.when(pl.col("action") == 0).then(0.6).otherwise(0.2))
    assert "propensities" in kinds(wrong, gamma=0.0)
    sure = frame.with_columns(propensity=pl.lit(1.0))
    assert "propensities" in kinds(sure, gamma=0.0)


def test_columns_whose_rows_move_together_are_told():
    rng = np.random.default_rng(7)
    user = rng.integers(0, 60, 3000)
    frame = bandit(3000, 8).with_columns(
        user_id=pl.Series(user), reward=pl.col("reward") + pl.Series(rng.normal(size=60)[user])
    )
    found = {each["name"]: each for each in facts(frame, "dependence", gamma=0.0)["groupings"]}
    # Groups of 50 with a correlation of one half: errors are sqrt(1 + 49 / 2) = 5 times as wide.
    assert found["user_id"]["shows"]
    assert 3.5 < found["user_id"]["wider"] < 6.5
    device = frame.rename({"user_id": "device"}).with_columns(pl.col("device") % 12)
    assert "rows that move together" in kinds(
        device.with_columns(reward=pl.col("reward") + pl.col("device") * 0.2), gamma=0.0
    )


@pytest.mark.parametrize("unit", [1e-90, 1e48, 1e90])
def test_no_unit_of_the_rewards_is_too_large_or_too_small(unit):
    frame = bandit(400, 9).with_columns(user_id=pl.int_range(pl.len()) % 40)
    plain, scaled = (
        bd.check(each, gamma=0.0).to_dict()["figures"]
        for each in (frame, frame.with_columns(pl.col("reward") * unit))
    )
    assert scaled["dependence"]["groupings"][0] == pytest.approx(
        plain["dependence"]["groupings"][0]
    )
    assert scaled["periods"]["by_chance"] == pytest.approx(plain["periods"]["by_chance"])
    assert scaled["logging_policy"] == plain["logging_policy"]


def test_several_logging_policies_have_their_shares_and_the_belief_is_right_of_the_mixture():
    # Two states; action 1 leads to state 1, action 0 to state 0; state 1 pays 1. One policy mostly
    # takes action 1, the other mostly 0, and the candidate takes 1 with a half everywhere.
    rng = np.random.default_rng(11)
    m, steps, gamma = 300, 20, 0.9
    first = np.arange(m) % 3 == 0
    state, rows = np.zeros(m, dtype=int), []
    for step in range(steps):
        chance = np.where(first, 0.8, 0.3)
        action = (rng.random(m) < chance).astype(int)
        slips = rng.random(m) < 0.1
        following = np.where(slips, 1 - action, action)
        rows.append(
            pl.DataFrame(
                {
                    "episode_id": np.arange(m),
                    "step": step,
                    "state": state,
                    "action": action,
                    "reward": state + rng.normal(size=m),
                    "next_state": following,
                    "propensity": np.where(action == 1, chance, 1.0 - chance),
                    "logging_policy": np.where(first, "bold", "shy"),
                }
            )
        )
        state = following
    frame = pl.concat(rows)
    found = facts(frame, "policies")
    assert {each["name"]: each["rows"] for each in found["policies"]} == {
        "bold": 100 * steps,
        "shy": 200 * steps,
    }
    # Of each policy alone the shares differ from the propensities of the other; of the mixture
    # they are as they should be.
    assert "propensities" not in kinds(frame)
    half = bd.Policies({"half": {0: {0: 0.5, 1: 0.5}, 1: {0: 0.5, 1: 0.5}}})
    logs = bd.Logs.from_dataframe(frame)
    import jax

    belief = bd.fit(logs, half, gamma=gamma, rng_key=jax.random.key(0), inference="exact")
    # It starts in state 0 and is in each with a half from then on.
    true = gamma * 0.5
    sd = float(belief["posterior/value"].std())
    assert 0.001 < sd < 0.05
    assert abs(float(belief["posterior/value"].mean()) - true) < 4.5 * sd
    # The column itself moves nothing.
    alone = bd.Logs.from_dataframe(frame.drop("logging_policy"))
    without = bd.fit(alone, half, gamma=gamma, rng_key=jax.random.key(0), inference="exact")
    np.testing.assert_array_equal(belief["posterior/value"], without["posterior/value"])


def test_rows_without_a_next_state_are_an_error_only_if_none_is_left():
    frame = good().drop("next_state", "propensity")
    report = bd.check(frame, gamma=0.9)
    assert report.usable
    assert facts(frame, "episodes")["usable_rows"] == 200
    alone = frame.drop("episode_id", "step", "terminated")
    report = bd.check(alone, gamma=0.9)
    assert [fault.kind for fault in report.errors] == ["unknown next states"]
    assert bd.check(alone, gamma=0.0).usable


def test_ends_of_some_rows_without_episodes_are_told_and_mended():
    frame = good().drop("episode_id", "step", "next_state")
    ends = (pl.int_range(pl.len()) % 6 == 5).alias("terminated")
    frame = frame.with_columns(ends)
    warned = [f for f in bd.check(frame, gamma=0.0).warnings if f.kind == "episodes without a name"]
    after = mended(frame, warned[0])
    assert bd.Logs.from_dataframe(after).n_episodes == 40
    assert bd.check(after, gamma=0.9).usable


def test_states_that_a_candidate_reaches_without_a_logged_action_are_named():
    frame = good().filter(pl.len().over("episode_id") == 6)
    frame = frame.with_columns(
        action=pl.when(pl.col("state") == 2).then(0).otherwise(pl.col("action"))
    )
    policy = {s: {1: 1.0} for s in range(4)}
    report = bd.check(frame, bd.Policies({"ones": policy}), gamma=0.9, actions=[0, 1])
    assert report.to_dict()["figures"]["candidates"]["unknown_states"] == {"ones": [2]}
    assert report.thin
    assert report.exit_code() == 3
    wrong = bd.check(frame, bd.Policies({"part": {0: {1: 1.0}}}), gamma=0.9, actions=[0, 1])
    assert [fault.kind for fault in wrong.errors] == ["candidates"]


def test_candidates_are_held_beside_a_log_of_vectors():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"obs_0": rng.normal(size=100), "action": [0, 1] * 50, "reward": rng.random(100)}
    )
    policies = {"even": lambda obs: np.full((len(obs), 2), 0.5)}
    report = bd.check(frame.with_columns(propensity=0.5), policies, gamma=0.0, actions=[0, 1])
    assert [fault.sentence for fault in report.faults if fault.severity == "error"] == []
    (even,) = report.to_dict()["figures"]["candidates"]["candidates"]
    # The candidate is the logging policy: every row counts, and alike.
    np.testing.assert_allclose(even["effective_transitions"], 100.0, rtol=0.05)
