"""What groups share and heavy tails, in logs that were simulated from a log."""

from itertools import combinations

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import make_belief
from bayesdice_ppl.calibration.resampling import units_to_draw
from bayesdice_ppl.calibration.shared import shared_effects, shares_of
from bayesdice_ppl.calibration.worlds import table_world
from bayesdice_ppl.errors import BayesDiceError

KEY = jax.random.key(3)
QUANTILES = (np.arange(400) + 0.5) / 400
USERS, ROWS = 50, 20


def log_of_users(effect, *, coin=False, seed=0):
    rng = np.random.default_rng(seed)
    n = USERS * ROWS
    user, action = np.repeat(np.arange(USERS), ROWS), rng.integers(2, size=n)
    mean = 0.3 + 0.4 * action + effect * rng.normal(size=USERS)[user]
    reward = (rng.random(n) < mean).astype(float) if coin else mean + rng.normal(size=n)
    frame = pl.DataFrame({"state": 0, "action": action, "reward": reward, "user_id": user})
    return bd.Logs.from_dataframe(frame, actions=[0, 1])


POLICIES = {"a": bd.TabularPolicy(np.array([[0.2, 0.8]])), "b": bd.TabularPolicy(np.eye(2)[:1])}


def test_what_rows_share_is_the_mean_product_of_their_pairs():
    rng = np.random.default_rng(0)
    off, unit = rng.normal(size=30), rng.integers(7, size=30)
    pairs = [off[i] * off[j] for i, j in combinations(range(30), 2) if unit[i] == unit[j]]
    found = shares_of(off, unit)
    assert found.variance == pytest.approx(np.mean(pairs), rel=1e-12)
    assert found.score == pytest.approx(np.sum(pairs) / np.sqrt(np.sum(np.square(pairs))))
    assert shares_of(off, np.arange(30)) == (0.0, 0.0)


def test_effects_are_as_large_as_those_behind_the_log():
    rng = np.random.default_rng(1)
    unit = np.repeat(np.arange(2_000), 5)
    off = 0.5 * rng.normal(size=2_000)[unit] + rng.normal(size=10_000)
    (found,), left = shared_effects(off, {"user": unit, "other": rng.integers(500, size=10_000)})
    assert found.name == "user"
    # Variance of what is shared; its standard error is (0.25 + 1 / 5) sqrt(2 / 2,000).
    assert abs(found.sd**2 - 0.25) < 5 * 0.45 * np.sqrt(2 / 2_000)
    # What is left and what is shared make up the variance that there was.
    assert np.mean(left**2) + found.sd**2 == pytest.approx(np.mean(off**2), rel=1e-9)
    assert shared_effects(rng.normal(size=10_000), {"user": unit})[0] == []


@pytest.mark.parametrize("coin", [False, True], ids=["numbers", "coins"])
def test_rows_of_a_user_move_together_in_simulated_logs_and_values_are_exact(coin):
    logs = log_of_users(0.15 if coin else 1.0, coin=coin)
    world = table_world(logs, POLICIES, 0.0, restart=True)
    (shared,) = world.rewards.effects
    assert shared.name == "user_id"
    rng = np.random.default_rng(2)
    many = [world.play(rng) for _ in range(200)]
    np.testing.assert_array_equal(many[0].groups["user_id"], logs.groups["user_id"])
    assert set(many[0].reward) == {0.0, 1.0} if coin else True
    # Each action's mean reward is that of the world, at five standard errors over logs.
    paid = np.array([[each.reward[each.action == a].mean() for a in (0, 1)] for each in many])
    first = world._replace(probabilities=np.eye(2)[:, None, :]).values()
    assert np.all(np.abs(paid.mean(axis=0) - first) < 5 * paid.std(axis=0) / np.sqrt(200))
    # Rows of one user share about as much as they do in the log.
    sizes = []
    for each in many:
        mean = np.bincount(each.action, each.reward) / np.bincount(each.action)
        sizes.append(shares_of(each.reward - mean[each.action], shared.unit).variance)
    error = np.std(sizes) / np.sqrt(200)
    # Coins cannot take an effect past 0 and 1, which costs some of it.
    assert shared.sd**2 * (0.8 if coin else 1.0) - 5 * error < np.mean(sizes)
    assert np.mean(sizes) < shared.sd**2 + 5 * error


def mean_with_error(by_user):
    """A belief N(mean of all rewards, its error^2), with rows or users as the unit."""
    from scipy.stats import t

    def procedure(logs, policies, *, rng_key):
        off = logs.reward - logs.reward.mean()
        unit = logs.group_codes("user_id") if by_user else np.arange(len(off))
        error = np.sqrt(np.sum(np.bincount(unit, off) ** 2)) / len(off)
        values = logs.reward.mean() + error * t.ppf(QUANTILES, unit.max())
        return make_belief(np.repeat(values[:, None], len(policies), axis=1), list(policies))

    return procedure


@pytest.mark.parametrize("kind", ["parametric", "sbc", "bootstrap"])
def test_the_wrong_unit_is_seen_and_the_right_one_covers(kind):
    logs = log_of_users(1.0, seed=4)
    # The mean of all rewards is the value of the logging policy.
    share = np.bincount(logs.action) / logs.n_transitions
    logging = {"logging": bd.TabularPolicy(share[None])}
    given = {"gamma": 0.0, "rng_key": KEY, "kind": kind, "trials": 60}
    wrong = bd.calibrate(logs, logging, procedure=mean_with_error(by_user=False), **given)
    # Errors are about sqrt(1 + 20 x 1 / 2) times as wide as those of independent rows.
    assert not wrong.covers
    assert 1.5 < wrong.record("logging").stretch < 4.5
    assert "user_id" in wrong.answer
    right = bd.calibrate(logs, logging, procedure=mean_with_error(by_user=True), **given)
    assert right.covers


def test_users_without_an_effect_are_left_alone():
    logs = log_of_users(0.0)
    world = table_world(logs, POLICIES, 0.0, restart=True)
    assert world.rewards.effects == ()
    assert units_to_draw(logs).name == "episode"
    assert units_to_draw(log_of_users(1.0)).name == "user_id"


def test_a_heavy_tail_has_rewards_that_the_log_lacks_and_a_mean_that_is_known():
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"state": 0, "action": 0, "reward": rng.pareto(2.5, size=4_000)})
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1])
    world = table_world(logs, POLICIES, 0.0, restart=True)
    (tail,) = world.rewards.tails
    assert tail.side == 1.0
    assert 0.3 < tail.law.shape < 0.55
    many = [world.play(rng).reward for _ in range(200)]
    assert max(each.max() for each in many) > logs.reward.max()
    # The mean of draws, which have a variance, against the world's.
    drawn = tail.drawn(1_000_000, rng)
    assert abs(drawn.mean() - tail.mean) < 5 * drawn.std() / 1_000
    values = world.drawn(rng, weights=False).values()
    assert world.rewards.expected.mean() == pytest.approx(values[0])
    (note,) = world.rewards.notes
    assert "heavy tail" in note
    light = log_of_users(0.0)
    assert table_world(light, POLICIES, 0.0, restart=True).rewards.tails == ()


@pytest.mark.parametrize("coin", [False, True], ids=["numbers", "coins"])
def test_few_rows_of_a_pair_have_the_spread_that_all_pairs_have(coin):
    rng = np.random.default_rng(6)
    pairs, visits = 400, 3
    state = np.repeat(np.arange(pairs), visits)
    reward = (rng.random(state.size) < 0.4).astype(float) if coin else rng.normal(size=state.size)
    frame = pl.DataFrame({"state": state, "action": 0, "reward": reward})
    logs = bd.Logs.from_dataframe(frame, actions=[0])
    one = {"a": bd.TabularPolicy(np.ones((pairs, 1)))}
    law = table_world(logs, one, 0.0, restart=True).rewards
    row = np.tile(np.arange(state.size), 200)
    drawn = law.drawn(row, row, rng).reshape(200, -1)
    error = drawn.std(axis=0) / np.sqrt(200)
    assert np.all(np.abs(drawn.mean(axis=0) - law.expected) <= 5 * error + 1e-12)
    if coin:
        assert set(np.unique(drawn)) == {0.0, 1.0}
        # Two rows in five are drawn from all.
        expected = 0.6 * reward + 0.4 * reward.mean()
        np.testing.assert_allclose(law.expected, expected)
        return
    np.testing.assert_array_equal(law.expected, reward)
    # Rows of a pair as they are have 2 / 3 of the variance that its rewards have.
    whole = drawn.reshape(200, pairs, visits).transpose(1, 0, 2).reshape(pairs, -1)
    assert abs(whole.var(axis=1).mean() - 1.0) < 5 * np.sqrt(2.0 / (pairs * (visits - 1)))
    frequent = bd.Logs.from_dataframe(frame.with_columns(state=state % 10), actions=[0])
    assert table_world(frequent, one, 0.0, restart=True).rewards.spread is None


def test_declared_rewards_stay_what_they_are():
    logs = log_of_users(1.0)
    world = table_world(logs, POLICIES, 0.0, restart=True, plain=True)
    assert set(world.play(np.random.default_rng(0)).reward) <= set(logs.reward)


def test_a_unit_that_is_asked_for_must_hold_whole_episodes_to_be_drawn():
    frame = pl.DataFrame(
        {
            "episode_id": [0, 0, 1, 1],
            "step": [0, 1, 0, 1],
            "state": 0,
            "action": 0,
            "reward": [0.0, 1.0, 2.0, 3.0],
            "site": [0, 1, 0, 1],
        }
    )
    logs = bd.Logs.from_dataframe(frame, actions=[0])
    with pytest.raises(BayesDiceError, match="cluster='site': expected one group in each episode"):
        units_to_draw(logs, ("site",))
