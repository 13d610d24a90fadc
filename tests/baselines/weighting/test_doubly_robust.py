"""Doubly robust estimates against lists of all episodes, plain loops and the exact value."""

from itertools import product

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

from bayesdice_ppl import GaussianPolicy, Logs, TabularPolicy
from bayesdice_ppl.baselines.interface import Baseline, Query
from bayesdice_ppl.baselines.weighting.doubly_robust import (
    FittedErrors,
    bellman_episodes,
    corrected,
    doubly_robust,
    fit_errors,
)
from bayesdice_ppl.baselines.weighting.importance_sampling import importance_sampling
from bayesdice_ppl.baselines.weighting.weights import all_rows
from bayesdice_ppl.errors import LogsError, SettingsError
from tests.baselines.enumerable import (
    BEHAVIOR,
    CANDIDATE,
    CASES,
    ENDING,
    ENDLESS,
    TARGET,
    WORLDS,
    by_episode,
    discount,
    endless_value,
    episodes,
    exhaustive_log,
    expectation,
    products,
    small_log,
    termination,
)

Q = np.random.default_rng(8).normal(size=(2, 2))
V = np.sum(TARGET * Q, axis=1)
ANEW = V.mean()


def errors_of(logs, gamma, *, restart, q=Q, average=0.0):
    """A fixed Q, seen from every row, and the log weights."""
    v = np.sum(TARGET * q, axis=1)
    error, log_weight, start = [], [], []
    for episode in by_episode(logs):
        start.append(v[episode[0]["state"]])
        for row, weight in zip(episode, products(episode), strict=True):
            following = v[row["next_state"]]
            if row["terminated"]:
                following = v.mean() if restart else 0.0
            now = row["reward"] - average + gamma * following - q[row["state"], row["action"]]
            error.append(now)
            log_weight.append(np.log(weight))
    base = np.full(len(start), average)
    return FittedErrors(base, np.array(start), np.array(error)), np.array(log_weight)


def estimate_with(logs, gamma, *, restart, weighted, **given):
    fitted, log_weight = errors_of(logs, gamma, restart=restart, **given)
    how = {"restart": restart, "weighted": weighted, "name": "DR"}
    return corrected(fitted, log_weight, all_rows(logs, gamma), gamma, **how).mean()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("gamma", [0.5, 0.9])
@pytest.mark.parametrize("world", ["endless", "ending"])
def test_whatever_q_is_episodes_that_end_have_their_exact_value(world, gamma, restart, weighted):
    logs = exhaustive_log(WORLDS[world], last_ends=True)
    listed = list(episodes(WORLDS[world], TARGET, last_ends=True))
    earned = expectation(listed, lambda steps: sum(gamma**t * s[2] for t, s in enumerate(steps)))
    again = expectation(listed, lambda steps: gamma ** len(steps)) if restart else 0.0
    found = estimate_with(logs, gamma, restart=restart, weighted=weighted)
    assert abs(found - (1.0 - gamma) * earned / (1.0 - again)) < 1e-12


@pytest.mark.parametrize("weighted", [False, True])
def test_whatever_q_is_the_average_of_episodes_that_end_is_exact_at_gamma_1(weighted):
    logs = exhaustive_log(ENDING, last_ends=True)
    listed = list(episodes(ENDING, TARGET, last_ends=True))
    earned = expectation(listed, lambda steps: sum(s[2] for s in steps))
    length = expectation(listed, len)
    relative = Q - V.mean()
    found = estimate_with(logs, 1.0, restart=True, weighted=weighted, q=relative, average=0.4)
    assert abs(found - earned / length) < 1e-12


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("world", ["endless", "ending"])
def test_past_a_cut_the_model_speaks(world, restart, weighted):
    logs = exhaustive_log(WORLDS[world])
    listed = list(episodes(WORLDS[world], TARGET))
    earned = expectation(listed, lambda steps: sum(0.9**t * s[2] for t, s in enumerate(steps)))
    tail = expectation(listed, lambda steps: 0.9**3 * V[steps[-1][3]] * (not steps[-1][4]))
    again = expectation(listed, lambda steps: 0.9 ** len(steps) * steps[-1][4]) if restart else 0.0
    found = estimate_with(logs, 0.9, restart=restart, weighted=weighted)
    assert abs(found - 0.1 * (earned + tail) / (1.0 - again)) < 1e-12


@pytest.mark.parametrize(("world", "gamma", "restart"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_on_an_exhaustive_log_it_is_the_value_for_ever(weighted, world, gamma, restart):
    method = doubly_robust(weighted=weighted, cross_fit=False, ridge=0.0)
    found = method.estimate(
        exhaustive_log(WORLDS[world]), CANDIDATE, gamma=gamma, on_termination=termination(restart)
    )
    exact = endless_value(WORLDS[world], gamma, restart=restart)
    assert abs(found.value - exact) < 1e-9


def literal(logs, gamma, *, weighted):
    """Equations of the papers, in loops, for episodes without a termination; with the tail."""
    listed = by_episode(logs)
    m = len(listed)
    rho = [products(episode) for episode in listed]
    total = 0.0
    for e, episode in enumerate(listed):
        for t, row in enumerate(episode):
            now, before = rho[e][t] / m, (rho[e][t - 1] / m if t else 1.0 / m)
            if weighted:
                now = rho[e][t] / sum(w[t] for w in rho)
                before = rho[e][t - 1] / sum(w[t - 1] for w in rho) if t else 1.0 / m
            total += gamma**t * now * row["reward"]
            total -= gamma**t * (now * Q[row["state"], row["action"]] - before * V[row["state"]])
        total += gamma ** len(episode) * now * V[row["next_state"]]
    return (1.0 - gamma) * total


@pytest.mark.parametrize("weighted", [False, True])
def test_small_logs_against_the_papers_sums(weighted):
    logs = small_log(2, world=ENDLESS)
    found = estimate_with(logs, 0.9, restart=True, weighted=weighted)
    assert found == pytest.approx(literal(logs, 0.9, weighted=weighted), rel=1e-12)


def test_weighted_and_plain_differ():
    logs = small_log(2, world=ENDLESS)
    plain = estimate_with(logs, 0.9, restart=True, weighted=False)
    assert abs(plain - estimate_with(logs, 0.9, restart=True, weighted=True)) > 1e-3


def _fitted(logs, gamma, *, restart, ridge=1e-6, cross_fit=True):
    rows, _, starts = bellman_episodes(logs, gamma)
    termination = "restart" if restart else "absorb"
    bellman = Query(logs, CANDIDATE, gamma, on_termination=termination).rows()
    return fit_errors(bellman, rows, starts, ridge, cross_fit=cross_fit)


@pytest.mark.parametrize(("world", "gamma", "restart"), CASES)
def test_an_episode_is_judged_by_a_model_that_has_not_seen_it(world, gamma, restart):
    logs = small_log(4, world=WORLDS[world])
    changed = Logs.from_dataframe(
        logs.to_dataframe().with_columns(
            reward=pl.when(pl.col("episode_id") == 2).then(50.0).otherwise(pl.col("reward"))
        ),
        actions=[0, 1],
    )
    before, after = (_fitted(log, gamma, restart=restart) for log in (logs, changed))
    even = np.arange(12) % 2 == 0
    np.testing.assert_array_equal(before.start[even], after.start[even])
    np.testing.assert_array_equal(before.base[even], after.base[even])
    others = even[logs.episode] & (logs.episode != 2)
    np.testing.assert_array_equal(before.error[others], after.error[others])
    assert np.abs(before.base - after.base)[~even].min() > 1.0 or not restart
    assert np.abs(before.error - after.error)[~even[logs.episode]].max() > 1.0


@pytest.mark.parametrize(("world", "gamma", "restart"), CASES)
def test_the_model_is_consistent_between_states_and_actions(world, gamma, restart):
    """V is the candidate's mean of Q, on the half that the model has not seen too."""
    logs = small_log(4, world=WORLDS[world], n_episodes=40)
    fitted = _fitted(logs, gamma, restart=restart, ridge=0.0)
    rows = by_episode(logs)
    for half in (0, 1):
        mine = [row for k, episode in enumerate(rows) if k % 2 == half for row in episode]
        error = fitted.error[logs.episode % 2 == half]
        start = fitted.start[half::2]
        states = [episode[0]["state"] for episode in rows[half::2]]
        v = np.array([start[states.index(s)] for s in (0, 1)])
        anew = np.mean([v[episode[0]["state"]] for episode in rows])
        base = fitted.base[half]
        q = {}
        for row, e in zip(mine, error, strict=True):
            following = v[row["next_state"]]
            if row["terminated"]:
                following = anew if restart else 0.0
            # At gamma = 1 the model's values are relative to the start's, which is all there is.
            now = row["reward"] - base + gamma * following - e
            q.setdefault((row["state"], row["action"]), []).append(now)
        for found in q.values():
            np.testing.assert_allclose(found, found[0], atol=1e-9)
        for s in (0, 1):
            assert v[s] == pytest.approx(sum(TARGET[s, a] * q[s, a][0] for a in (0, 1)), abs=1e-9)


@pytest.mark.slow
def test_cross_fitted_estimates_are_unbiased():
    # Every episode ends, so that no model speaks for what follows.
    method, gamma, trials = doubly_robust(weighted=False), 0.9, 1000
    found = [
        method.estimate(
            small_log(seed, n_episodes=8, horizon=3, last_ends=True),
            CANDIDATE,
            gamma=gamma,
            on_termination="absorb",
        ).value
        for seed in range(trials)
    ]
    listed = episodes(ENDING, TARGET, last_ends=True)
    exact = expectation(listed, lambda steps: sum(0.1 * 0.9**t * s[2] for t, s in enumerate(steps)))
    assert abs(np.mean(found) - exact) < 4.0 * np.std(found) / np.sqrt(trials)


def test_it_is_closer_than_importance_sampling_with_the_same_weights():
    exact = endless_value(ENDLESS, 0.9, restart=True)
    logs = [small_log(seed, n_episodes=40, horizon=10, world=ENDLESS) for seed in range(60)]

    def error(method):
        found = [method.estimate(log, CANDIDATE, gamma=0.9).value for log in logs]
        return np.sqrt(np.mean((np.array(found) - exact) ** 2))

    plain = error(doubly_robust(weighted=False)), error(importance_sampling(normalized=False))
    assert plain[0] < 0.5 * plain[1]
    assert error(doubly_robust()) < error(importance_sampling())


def test_bandits_by_hand(plain):
    logs = plain.bandit([(0, 1.0), (0, 0.0), (1, 2.0), (1, 1.0)])
    frame = logs.to_dataframe().with_columns(propensity=pl.Series([0.4, 0.4, 0.6, 0.6]))
    logs = Logs.from_dataframe(frame, actions=[0, 1])
    policy = TabularPolicy([[0.3, 0.7]])
    # Rows 0 and 2 are judged by rows 1 and 3: Q = (0, 1), V = 0.7; the others by Q = (1, 2).
    by_hand = [0.7 + 0.75 * 1.0, 1.7 + 0.75 * -1.0, 0.7 + 7 / 6 * 1.0, 1.7 + 7 / 6 * -1.0]
    method = doubly_robust(weighted=False, ridge=0.0, interval="student")
    found = method.estimate(logs, policy, gamma=0.0, level=0.8)
    assert found.value == pytest.approx(np.mean(by_hand), rel=1e-12)
    expected = stats.t.interval(0.8, 3, np.mean(by_hand), stats.sem(by_hand))
    np.testing.assert_allclose([found.lower, found.upper], expected, rtol=1e-12)


def test_a_pair_that_was_never_logged_is_worth_the_mean_reward():
    rows = product([0, 1], [1.0, 3.0])
    frame = pl.DataFrame(
        [(0, a, r, 0.5) for a, r in rows],
        schema=["state", "action", "reward", "propensity"],
        orient="row",
    )
    logs = Logs.from_dataframe(frame, actions=[0, 1, 2])
    policy = TabularPolicy([[0.0, 0.0, 1.0]])
    for weighted in (False, True):
        method = doubly_robust(weighted=weighted, cross_fit=False)
        assert method.estimate(logs, policy, gamma=0.0).value == pytest.approx(2.0, rel=1e-12)


def test_absorb_and_restart_agree_where_nothing_terminates():
    logs = small_log(6, world=ENDLESS)
    values = [
        doubly_robust().estimate(logs, CANDIDATE, gamma=0.9, on_termination=when).value
        for when in ("restart", "absorb")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_without_successors_the_last_steps_are_left_out():
    logs = small_log(6, world=ENDLESS)
    bare = Logs.from_dataframe(logs.to_dataframe().drop("next_state"), actions=[0, 1])
    shorter = Logs.from_dataframe(
        logs.to_dataframe().filter(pl.col("step") < 4),
        actions=[0, 1],
    )
    values = [doubly_robust().estimate(log, CANDIDATE, gamma=0.9).value for log in (bare, shorter)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    # One episode is cut where others go on and one terminates.
    frame = pl.DataFrame(
        {
            "episode_id": [0, 0, 0, 0, 1, 1, 2, 2],
            "state": [0, 1, 0, 1, 1, 0, 1, 1],
            "action": [0, 1, 1, 0, 0, 1, 0, 1],
            "reward": [1.0] * 8,
            "terminated": [False] * 7 + [True],
            "propensity": [0.5] * 8,
        }
    )
    holes = Logs.from_dataframe(frame, actions=[0, 1])
    with pytest.raises(LogsError, match="add a column next_state"):
        doubly_robust().estimate(holes, CANDIDATE, gamma=0.9)


def test_names_needs_and_refusals():
    method = doubly_robust(interval="bca")
    assert isinstance(method, Baseline)
    assert (method.name, method.short) == ("weighted DR + bca", "wdr:bca")
    assert method.needs.propensities
    assert method.needs.labels
    assert method.needs.rng_key
    plain = doubly_robust(weighted=False, behavior="fitted")
    assert (plain.name, plain.short, plain.gives) == (
        "DR (fitted behavior)",
        "dr:fitted",
        "estimate",
    )
    logs = small_log(0)
    found = method.estimate(logs, CANDIDATE, gamma=0.9, rng_key=jax.random.key(0))
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < found.value < found.upper
    bare = Logs.from_dataframe(logs.to_dataframe().drop("propensity"), actions=[0, 1])
    assert np.isfinite(plain.estimate(bare, CANDIDATE, gamma=0.9).value)
    with pytest.raises(LogsError, match="needs the probability of each logged action"):
        method.estimate(bare, CANDIDATE, gamma=0.9, rng_key=jax.random.key(0))
    vectors = Logs.from_dataframe(
        pl.DataFrame({"obs_0": [0.0, 1.0], "action_0": [0.0, 1.0], "reward": [0.0, 1.0]})
    )
    with pytest.raises(LogsError, match="needs labels"):
        plain.estimate(vectors, GaussianPolicy(lambda x: x, 1.0), gamma=0.0)
    one = Logs.from_dataframe(logs.to_dataframe().filter(pl.col("episode_id") == 3), actions=[0, 1])
    with pytest.raises(LogsError, match="cross_fit=False"):
        doubly_robust().estimate(one, CANDIDATE, gamma=0.9)
    assert np.isfinite(doubly_robust(cross_fit=False).estimate(one, CANDIDATE, gamma=0.9).value)
    for wrong in ({"interval": "t"}, {"behavior": "guess"}, {"ridge": -1.0}):
        with pytest.raises(SettingsError, match="expected"):
            doubly_robust(**wrong)


def test_discounts_of_the_helper_are_those_of_the_value():
    assert sum(discount(0.9, t) for t in range(3)) == pytest.approx(1.0 - 0.9**3)
    assert sum(p for p, _ in episodes(ENDING, BEHAVIOR)) == pytest.approx(1.0)
