"""Exploration through features: one-hot features are tables, and a chain whose truth is known."""

from itertools import product

import gymnasium
import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import features
from bayesdice_ppl.envs import Garnet, RiverSwim
from bayesdice_ppl.errors import EnvironmentSpecError, SettingsError
from bayesdice_ppl.exploration import (
    ExplorationTask,
    RoundRows,
    bayesdice,
    explore,
    planning,
    psrl,
    rlsvi,
    variational,
)
from bayesdice_ppl.exploration.featured import MOST_POINTS, spread_states, state_map
from bayesdice_ppl.models import (
    FeatureLog,
    feature_beliefs,
    linear_policy_belief,
    optimistic,
    pair_beliefs,
    pair_prior,
    policy_belief,
    prediction_covariance,
    quantile,
    variance,
    without_growth,
)
from benchmarks.swim import AsNumber, LongRiver
from tests.exploration_worlds import best_value, drawn_counts, flow_tests, value_of

PRIOR, GAMMA, KEY = pair_prior(0.0, 1.0), 0.9, jax.random.key(3)
ONE_HOT = features.one_hot(of="state")


def go(env, explorer, **changed):
    given = {"rounds": 6, "steps": 20, "gamma": GAMMA, "rewards": PRIOR, "rng_key": KEY}
    return explore(env, explorer, **given | changed)


@pytest.fixture(scope="module")
def logs():
    """One log as counts, and as rows through one-hot features."""
    policy = np.full((4, 2), 0.5)
    policy[2] = (1.0, 0.0)
    counts, rows = drawn_counts(Garnet(4, 2, 2, seed=3), policy, 10, 30, 4)
    _, step, state, action, reward, following = (np.array(one) for one in zip(*rows, strict=True))
    eye, tests = np.eye(4), flow_tests(4)
    log = FeatureLog(
        eye[state], action, reward, tests[following], tests[state[step == 0]], eye, tests, 2
    )
    return pair_beliefs(counts, PRIOR), feature_beliefs(log, PRIOR)


def test_one_hot_features_have_the_belief_of_tables(logs):
    pairs, linear = logs
    for seed in range(5):
        policy = np.random.default_rng(seed).dirichlet(np.ones(2), size=4)
        expected = policy_belief(pairs, policy, GAMMA)
        found = linear_policy_belief(linear, policy, GAMMA)
        assert found.mean == pytest.approx(expected.mean, rel=1e-10)
        assert found.variance == pytest.approx(expected.variance, rel=1e-10)
        np.testing.assert_allclose(found.expectations.T, expected.occupancy, atol=1e-12)
        slope = expected.occupancy * expected.pair_variance
        np.testing.assert_allclose(found.slope.T, slope, atol=1e-12)
        pairwise = prediction_covariance(linear, found.state_value, GAMMA)
        for action, one in enumerate(pairwise):
            np.testing.assert_allclose(one, np.diag(expected.pair_variance[:, action]), atol=1e-12)


def test_the_slope_is_the_derivative_of_the_variance(logs):
    """By the mean features, for a policy that is moved at one point: V fixed, as for tables."""
    linear = logs[1]
    policy = np.full((4, 2), 0.5)
    found = linear_policy_belief(linear, policy, GAMMA)
    covariance = prediction_covariance(linear, found.state_value, GAMMA)
    direct = np.einsum("akl,al->ak", covariance, found.expectations)
    np.testing.assert_allclose(found.slope, direct, atol=1e-12)
    spread = np.einsum("ak,ak->", direct, found.expectations)
    starts = found.state_value @ linear.start_noise(GAMMA) @ found.state_value
    assert found.variance == pytest.approx(spread + starts)


def test_the_program_has_the_flow_of_the_belief(logs):
    linear = logs[1]
    asked = optimistic(4, 2, gamma=GAMMA, rewards=PRIOR, optimism=variance(1.0))
    policy = np.random.default_rng(0).dirichlet(np.ones(2), size=4)
    ratio = asked.of_features(linear)
    flow, expected = ratio.flow(policy), linear_policy_belief(linear, policy, GAMMA)
    assert float(flow.center[-1]) == pytest.approx(expected.mean)
    assert float(flow.sd) == pytest.approx(expected.variance**0.5, rel=1e-4)
    by_pair = linear.occupancy(flow.center[:-1], policy) / linear.share
    residual = ratio.moments.residual(by_pair.ravel())
    np.testing.assert_allclose(residual, np.append(np.zeros(4), expected.mean), atol=1e-9)


@pytest.mark.parametrize("optimism", [quantile(), variance(5.0)], ids=str)
def test_a_run_through_one_hot_features_is_that_of_tables(optimism):
    """Policies alike, beliefs and values within 1e-8."""
    env = RiverSwim(4)
    tables = go(env, bayesdice(optimism), rounds=12)
    linear = go(env, bayesdice(optimism, planning(), features=ONE_HOT), rounds=12)
    played = [policy.probs(np.arange(4)) for policy in linear.policies]
    seen = tables.logs.state_labels
    np.testing.assert_array_equal(np.stack(played)[:, seen], tables.policies[:, seen])
    for name in ("reward", "mean", "sd", "score", "value", "regret"):
        expected = tables.rounds[name].to_numpy()
        np.testing.assert_allclose(linear.rounds[name].to_numpy(), expected, atol=1e-8)


def test_with_full_data_the_policy_of_a_river_seen_as_a_number_is_the_best():
    """31 places in 0 to 1; the truth is by value iteration on the table behind them."""
    world, gamma = LongRiver(), 0.95
    seen, rng, n = AsNumber(world), np.random.default_rng(0), 8000
    place, action = rng.integers(31, size=n), rng.integers(2, size=n)
    chances = np.cumsum(world.transition_matrix[place, action], axis=1)
    following = (chances > rng.random((n, 1))).argmax(axis=1)
    never = np.zeros(n, dtype=bool)
    rows = RoundRows(
        *(np.arange(n), np.where(place == 0, 0, 1), seen.places[place], action),
        world.reward_matrix[place, action],
        *(seen.places[following], seen.places[following], never, never, np.full(n, 0.5)),
    )
    explorer = bayesdice(variance(0.0), features=features.fourier(40, of="state", length_scale=0.3))
    task = ExplorationTask(None, 2, gamma, PRIOR)
    state = explorer.learn(explorer.init(task), rows)
    chosen = explorer.choose(state, rng)
    policy = explorer.policy(state, chosen.policy).probs(seen.places)
    value = value_of(world, policy, gamma)
    assert value == pytest.approx(best_value(world, gamma), rel=0.01)
    # What is believed of it: within five standard deviations of the truth.
    assert abs(chosen.mean - value) < 5.0 * chosen.sd


def test_what_was_never_tried_has_the_variance_of_the_prior():
    """Far from all rows a prediction has variance (v0 + gamma^2 Var V) / (w + 1)."""
    eye, tests = np.eye(3), flow_tests(3)
    log = FeatureLog(
        eye[[0, 1]], np.zeros(2, int), np.ones(2), tests[[1, 2]], tests[[0]], eye, tests, 2
    )
    beliefs = feature_beliefs(log, PRIOR)
    value = np.array([1.0, 0.5, -0.3])
    found = np.diag(prediction_covariance(beliefs, value, GAMMA)[1])
    spread = 0.25 + GAMMA**2 * np.sum(value[1:] ** 2)
    np.testing.assert_allclose(found, spread / 2.0)


def test_moves_that_grow_are_put_back():
    rng = np.random.default_rng(0)
    axes = rng.normal(size=(4, 4))
    sizes = np.array([1.0, 1.05, -1.2, 0.3])
    grows = axes @ np.diag(sizes) @ np.linalg.inv(axes)
    found = np.sort(np.linalg.eigvals(without_growth(grows)).real)
    np.testing.assert_allclose(found, [-1.0, 0.3, 1.0, 1.0], atol=1e-8)
    stochastic = rng.dirichlet(np.ones(4), size=4)
    np.testing.assert_array_equal(without_growth(stochastic), stochastic)


def test_states_are_spread_over_where_they_were():
    rng = np.random.default_rng(0)
    states = np.concatenate([rng.normal(size=(5000, 2)), [[9.0, 9.0]]])
    kept = states[spread_states(states)]
    assert 0.2 * MOST_POINTS < len(kept) <= MOST_POINTS
    assert [9.0, 9.0] in kept.tolist()
    np.testing.assert_array_equal(spread_states(np.array([3, 3, 1, 3])), [2, 0])


def test_features_have_size_one_and_express_a_constant():
    task = ExplorationTask(None, 2, GAMMA, PRIOR)
    points = np.random.default_rng(0).normal(size=(50, 2))
    for choice in (features.fourier(20, of="state"), features.columns("state")):
        found = state_map(choice, points, task).of(points)
        assert np.mean(np.sum(found**2, axis=1)) == pytest.approx(1.0)
        fit = found @ np.linalg.lstsq(found, np.ones(50))[0]
        np.testing.assert_allclose(fit, 1.0, atol=1e-6)
    # One's own features of labels, of states alone or of both.
    labels = ExplorationTask(3, 2, GAMMA, PRIOR)
    table = np.random.default_rng(1).normal(size=(3, 2, 2))
    own = features.table(table, states=[0, 1, 2], actions=[0, 1])
    assert state_map(own, np.arange(3), labels).of(np.arange(3)).shape == (3, 4)


def test_vectors_are_explored_and_a_killed_run_goes_on(tmp_path):
    env = gymnasium.make("CartPole-v1")
    explorer = bayesdice(features=features.fourier(10, of="state"))
    given = {"rounds": 4, "steps": 50, "on_termination": "absorb"}
    whole = go(env, explorer, **given)
    assert whole.best is None
    assert whole.logs.n_transitions == 200
    assert whole.logs.state_labels.shape[1] == 4
    go(env, explorer, **given | {"rounds": 2}, folder=tmp_path / "run")
    (tmp_path / "run" / "rounds" / "00002.json").unlink()
    again = go(env, explorer, **given, folder=tmp_path / "run")
    for name in ("reward", "ended", "mean", "sd", "score"):
        assert again.rounds[name].to_list() == whole.rounds[name].to_list()
    assert again.logs.to_dataframe().equals(whole.logs.to_dataframe())
    states = whole.logs.state_labels
    for one, other in zip(again.policies, whole.policies, strict=True):
        np.testing.assert_array_equal(one.probs(states), other.probs(states))


def test_after_the_end_nothing_is_paid():
    """Every step ends the episode with probability 0.3: the value is below the restarted one."""
    env = Garnet(4, 2, 2, seed=1, termination=0.3)
    done = go(env, rlsvi(features=ONE_HOT), rounds=4, steps=50, on_termination="absorb")
    world = bd.envs.as_tabular(env)
    table = done.policies[-1].probs(np.arange(4))
    moves = np.einsum("sa,sat->st", table, world.transition_matrix)
    reward = np.sum(table * world.reward_matrix, axis=1)
    value = np.linalg.solve(np.eye(4) - GAMMA * moves, reward)
    exact = (1.0 - GAMMA) * world.initial_distribution @ value
    assert done.rounds["value"][-1] == pytest.approx(exact)
    restarted = go(env, rlsvi(features=ONE_HOT), rounds=4, steps=50)
    assert done.best < 0.5 * restarted.best


def test_the_average_reward_is_that_of_the_long_run():
    env = RiverSwim(4)
    done = go(env, bayesdice(), rounds=12, gamma=1.0)
    averages = []
    for actions in product(range(2), repeat=4):
        policy = np.eye(2)[list(actions)]
        averages.append(bd.true_value(env, policy, 1.0))
    assert done.best == pytest.approx(max(averages), abs=1e-5)
    assert done.rounds["value"][-1] == pytest.approx(max(averages), abs=1e-5)
    counts, _ = drawn_counts(env, np.full((4, 2), 0.5), 3, 20, 0)
    pairs, policy = pair_beliefs(counts, PRIOR), np.full((4, 2), 0.5)
    exact, close = (policy_belief(pairs, policy, gamma) for gamma in (1.0, 1.0 - 1e-6))
    assert exact.mean == pytest.approx(close.mean, rel=1e-4)
    assert exact.variance == pytest.approx(close.variance, rel=1e-4)


@pytest.mark.parametrize(
    ("explorer", "changed", "error", "said"),
    [
        (bayesdice(features=ONE_HOT), {"gamma": 1.0}, SettingsError, "through features, found 1"),
        (psrl(), {"on_termination": "absorb"}, SettingsError, "expected an explorer through feat"),
        (psrl(), {"on_termination": "stop"}, SettingsError, "on_termination: expected one of"),
    ],
    ids=["average", "tables", "unknown"],
)
def test_what_does_not_go_together_is_refused(explorer, changed, error, said):
    with pytest.raises(error, match=said):
        go(RiverSwim(4), explorer, **changed)


def test_worlds_that_do_not_fit_are_refused():
    with pytest.raises(EnvironmentSpecError, match=r"action_space: expected Discrete"):
        go(gymnasium.make("Pendulum-v1"), bayesdice(features=features.fourier(10, of="state")))
    with pytest.raises(SettingsError, match="features: expected a feature map"):
        bayesdice(features="fourier")
    with pytest.raises(SettingsError, match="one_hot: expected states that are labels"):
        go(gymnasium.make("CartPole-v1"), bayesdice(features=ONE_HOT))


@pytest.mark.slow
@pytest.mark.parametrize("optimism", [variance(5.0), quantile()], ids=str)
def test_the_program_comes_as_far_as_planning(optimism):
    """On 200 steps of a river; lambda_2 is large, so that both maximize the same."""
    explorer = bayesdice(features=features.fourier(12, of="state", length_scale=0.5))
    kept = []

    def learn(state, rows):
        kept.append(explorer.learn(state, rows))
        return kept[-1]

    go(AsNumber(LongRiver()), explorer._replace(learn=learn), rounds=4, steps=50)
    beliefs, rng = kept[-1].beliefs(), np.random.default_rng(0)
    planned = planning().find(beliefs, GAMMA, optimism, rng)
    fitted = variational(PRIOR, lambda_2=20.0).find(beliefs, GAMMA, optimism, rng)
    assert fitted.score >= 0.99 * planned.score
