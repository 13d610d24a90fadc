"""Worlds made of a log: their values by the log's own Bellman equation, and what is played."""

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.calibration.resampling import resampled, units_to_draw
from bayesdice_ppl.calibration.worlds import table_world
from bayesdice_ppl.errors import BayesDiceError


@pytest.mark.parametrize(
    ("gamma", "restart"), [(0.9, True), (0.9, False), (1.0, True), (0.0, True)]
)
def test_values_are_those_of_the_logs_own_bellman_equation(gamma, restart, plain):
    logs, policies = plain.log(2, n_episodes=80), plain.policies(4, 3)
    world = table_world(logs, policies, gamma, restart=restart)
    assert (world.stop > world.start).all()
    found = world.values()
    for value, policy in zip(found, policies.values(), strict=True):
        oracle = plain.problem(logs, policy, gamma=gamma, restart=restart)
        np.testing.assert_allclose(value, oracle.solve()[1], rtol=1e-6)


def test_what_is_played_has_the_logs_own_frequencies(plain):
    logs, policies = plain.log(2, n_episodes=400), plain.policies(4, 2)
    world = table_world(logs, policies, 0.9, restart=True)
    rng = np.random.default_rng(0)
    many = [world.play(rng) for _ in range(30)]
    assert all(each.n_episodes == 400 for each in many)
    n = sum(each.n_transitions for each in many)
    state = np.concatenate([each.state for each in many])
    action = np.concatenate([each.action for each in many])
    reward = np.concatenate([each.reward for each in many])
    for s in range(4):
        for a in range(2):
            here, there = (state == s) & (action == a), (logs.state == s) & (logs.action == a)
            share, expected = here.sum() / (state == s).sum(), there.sum() / (logs.state == s).sum()
            error = np.sqrt(expected * (1 - expected) / (state == s).sum())
            assert abs(share - expected) < 5 * error
            spread = logs.reward[there].std() / np.sqrt(here.sum())
            assert abs(reward[here].mean() - logs.reward[there].mean()) < 5 * spread
    assert n > 0
    one = many[0]
    last = np.r_[one.episode[1:] != one.episode[:-1], True]
    np.testing.assert_array_equal(one.next_state[~last], one.state[1:][~last[:-1]])
    assert np.all(last | ~one.terminated)
    assert one.to_dataframe().height == one.n_transitions
    # The log is one that can be read again as it is.
    again = bd.Logs.from_dataframe(one.to_dataframe())
    np.testing.assert_array_equal(again.reward, one.reward)


def test_weights_of_rows_are_those_of_the_bayesian_bootstrap(plain):
    logs, policies = plain.log(2, n_episodes=80), plain.policies(4, 2)
    world = table_world(logs, policies, 0.9, restart=True)
    rng = np.random.default_rng(1)
    many = np.stack([world.drawn(rng, weights=True).weight for _ in range(2000)])
    visits = np.repeat((world.stop - world.start).ravel(), (world.stop - world.start).ravel())
    # Dirichlet(1, ..., 1) over k rows: mean 1 / k, variance (k - 1) / (k^2 (k + 1)).
    sd = np.sqrt((visits - 1.0) / (visits**2 * (visits + 1.0)))
    assert np.all(np.abs(many.mean(axis=0) - 1.0 / visits) < 5.5 * sd / np.sqrt(2000) + 1e-12)


def test_another_pair_stands_in_for_one_that_was_never_logged():
    frame = pl.DataFrame({"state": [0, 0, 1, 1], "action": [0, 0, 0, 0], "reward": [1.0, 1, 2, 2]})
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1])
    policies = {"a": bd.TabularPolicy(np.array([[0.0, 1.0], [0.0, 1.0]]))}
    world = table_world(logs, policies, 0.0, restart=True)
    # In each state the only logged action stands in: the values are 1 and 2, in half of starts.
    drawn = world.drawn(np.random.default_rng(0), weights=False)
    np.testing.assert_allclose(drawn.values(), [1.5])
    assert set(drawn.play(np.random.default_rng(0)).action.tolist()) == {0}


def test_vectors_have_no_table():
    frame = pl.DataFrame({"obs_0": [0.0, 1.0], "action": [0, 1], "reward": [0.0, 1.0]})
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1])
    with pytest.raises(BayesDiceError, match="kind='bootstrap'"):
        table_world(logs, {"a": lambda obs: np.full((len(obs), 2), 0.5)}, 0.0, restart=True)


def test_groups_are_drawn_as_a_whole_and_copies_are_groups_of_their_own():
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(10), 3)
    frame = pl.DataFrame(
        {"state": [0] * 30, "action": [0, 1] * 15, "reward": rng.normal(size=30), "user_id": users}
    )
    logs = bd.Logs.from_dataframe(frame)
    drawn = units_to_draw(logs, ("user_id",))
    assert drawn.name == "user_id"
    found = resampled(logs, drawn.unit, np.random.default_rng(1))
    assert found.n_transitions == found.n_episodes == 30
    copies = found.groups["user_id"].to_list()
    assert len(set(copies)) == 10
    for copy in set(copies):
        rows = [i for i, each in enumerate(copies) if each == copy]
        user = int(copy.split(",")[0])
        np.testing.assert_array_equal(found.reward[rows], logs.reward[users == user])


def test_episodes_are_drawn_with_their_rows(plain):
    logs = plain.log(3)
    found = resampled(logs, units_to_draw(logs).unit, np.random.default_rng(2))
    assert found.n_episodes == logs.n_episodes
    whole = {tuple(logs.reward[logs.episode == e]) for e in range(logs.n_episodes)}
    for e in range(found.n_episodes):
        rows = found.episode == e
        assert tuple(found.reward[rows]) in whole
        np.testing.assert_array_equal(found.step[rows], np.arange(rows.sum()))
