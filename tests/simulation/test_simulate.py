"""Simulated logs: their rows, their propensities, and their key."""

from dataclasses import fields

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl.envs as envs
from bayesdice_ppl.errors import EnvironmentSpecError, SettingsError
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.simulation import sample_transitions, simulate

LAKE = envs.InfiniteFrozenLake()
BEHAVIOR = envs.frozen_lake_policy(LAKE, 0.0)


def lake_frame(seed=1, n_episodes=20, max_steps=30):
    logs = simulate(LAKE, BEHAVIOR, n_episodes, max_steps, rng_key=jax.random.key(seed))
    assert isinstance(logs, Logs)
    return logs.to_dataframe()


def test_the_same_key_gives_the_same_logs_and_another_does_not():
    assert lake_frame(1).equals(lake_frame(1))
    assert not lake_frame(1).equals(lake_frame(2))


def test_rows():
    frame = lake_frame()
    assert frame.columns == [
        "episode_id",
        "step",
        "state",
        "action",
        "reward",
        "next_state",
        "terminated",
        "truncated",
        "propensity",
    ]
    assert frame["episode_id"].to_list() == np.repeat(np.arange(20), 30).tolist()
    assert frame["step"].to_list() == np.tile(np.arange(30), 20).tolist()
    assert not frame["terminated"].any()
    assert frame.filter("truncated")["step"].to_list() == [29] * 20
    assert set(frame.filter(pl.col("step") == 0)["state"]) == {0}
    later = frame.filter(pl.col("step") > 0)["state"].to_list()
    assert later == frame.filter(pl.col("step") < 29)["next_state"].to_list()


def test_propensities_are_the_policys_own_to_the_last_digit():
    frame = lake_frame()
    expected = BEHAVIOR.probabilities[frame["state"].to_numpy(), frame["action"].to_numpy()]
    np.testing.assert_array_equal(frame["propensity"].to_numpy(), expected)


def test_rewards_are_the_tables_own_to_the_last_digit():
    outcomes = envs.Bandit((0.5, 0.5)).outcomes
    rewards = np.where(outcomes.reward == 1, 1 / 3, -0.1)
    env = envs.TableEnv(outcomes._replace(reward=rewards), np.ones(1))
    frame = simulate(env, [[0.5, 0.5]], 10, 10, rng_key=jax.random.key(0)).to_dataframe()
    assert set(frame["reward"]) == {1 / 3, -0.1}


def test_the_action_space_is_the_worlds_also_where_an_action_is_never_taken():
    logs = simulate(envs.Bandit(), [[1.0, 0.0]], 5, 1, rng_key=jax.random.key(0))
    assert logs.declared_actions.tolist() == [0, 1]
    assert set(logs.to_dataframe()["propensity"]) == {1.0}


def test_episodes_of_a_world_that_ends():
    env = envs.Garnet(seed=0, termination=0.2)
    policy = envs.garnet_policy(env, 0.0, seed=0)
    frame = simulate(env, policy, 200, 10, rng_key=jax.random.key(3)).to_dataframe()
    last = frame.group_by("episode_id").last()
    assert len(last) == 200
    assert (last["terminated"] ^ last["truncated"]).all()
    assert (last.filter("truncated")["step"] == 9).all()
    assert frame["terminated"].sum() == last["terminated"].sum() > 0
    assert frame["truncated"].sum() == last["truncated"].sum() > 0


def test_sampling_vmaps_over_keys():
    outcomes, start, table = LAKE.outcomes, LAKE.initial_distribution, BEHAVIOR.probabilities
    keys = jax.random.split(jax.random.key(5), 3)
    together = jax.vmap(lambda key: sample_transitions(outcomes, start, table, 4, 6, key))(keys)
    assert together.state.shape == (3, 4, 6)
    alone = sample_transitions(outcomes, start, table, 4, 6, keys[1])
    for one, many in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, many[1])


def test_old_style_keys_are_keys():
    logs = simulate(envs.Bandit(), [[0.5, 0.5]], 2, 2, rng_key=jax.random.PRNGKey(0))
    assert logs.n_transitions == 4


@pytest.mark.parametrize(
    ("n_episodes", "max_steps", "key", "message"),
    [
        (0, 5, 0, "n_episodes"),
        (5, 0, 0, "max_steps"),
        (2.5, 5, 0, "n_episodes"),
        (5, 5, None, "rng_key"),
    ],
)
def test_impossible_settings(n_episodes, max_steps, key, message):
    rng_key = 7 if key is None else jax.random.key(key)
    with pytest.raises(SettingsError, match=message):
        simulate(LAKE, BEHAVIOR, n_episodes, max_steps, rng_key=rng_key)


def test_the_key_has_no_default():
    with pytest.raises(TypeError, match="rng_key"):
        simulate(LAKE, BEHAVIOR, 1, 1)


def test_what_is_no_world_is_refused():
    with pytest.raises(EnvironmentSpecError, match="tabular world or a Gymnasium environment"):
        simulate(object(), BEHAVIOR, 2, 1, rng_key=jax.random.key(0))


def test_one_step_is_no_log():
    with pytest.raises(SettingsError, match="two steps in all"):
        simulate(LAKE, BEHAVIOR, 1, 1, rng_key=jax.random.key(0))


@pytest.mark.parametrize("name", ["lake", "part_of_taxi", "episodic"])
def test_logs_are_what_their_own_table_reads_as(name):
    """The direct way to a log and the validated one through a table must agree to the last bit."""
    env, policy, size = {
        "lake": (LAKE, BEHAVIOR, (20, 30)),
        # So few steps that some states and actions are never seen, and labels differ from codes.
        "part_of_taxi": (TAXI := envs.InfiniteTaxi(), envs.taxi_policy(TAXI, 1.0), (3, 7)),
        "episodic": (envs.Garnet(seed=0, termination=0.2), np.full((20, 4), 0.25), (40, 10)),
    }[name]
    logs = simulate(env, policy, *size, rng_key=jax.random.key(4))
    read = Logs.from_dataframe(logs.to_dataframe(), actions=range(env.action_space.n))
    for field in fields(Logs):
        one, other = getattr(logs, field.name), getattr(read, field.name)
        np.testing.assert_array_equal(one, other, err_msg=field.name, strict=True)
