"""Exact values: by pencil and paper, against independent computations, against simulation."""

import jax
import numpy as np
import pytest

import bayesdice_ppl.envs as envs
from bayesdice_ppl.errors import EnvironmentSpecError, PoliciesError, SettingsError
from bayesdice_ppl.policies import TabularPolicy
from bayesdice_ppl.simulation import sample_transitions, true_ratio, true_value
from bayesdice_ppl.simulation.tables import policy_moves
from bayesdice_ppl.simulation.truth import occupancy

ONLY = TabularPolicy(np.ones((2, 1)))


def chain(moves, rewards, start, ends=None):
    """Build the world of one action with these transitions, (S, S), and rewards, (S,)."""
    n_states = len(rewards)
    moves = np.asarray(moves, dtype=float)
    ends = np.zeros(n_states) if ends is None else np.asarray(ends, dtype=float)
    probability = np.concatenate([moves * (1 - ends[:, None]), ends[:, None]], axis=1)[:, None]
    shape = probability.shape
    outcomes = envs.Outcomes(
        probability=probability,
        next_state=np.broadcast_to(np.r_[np.arange(n_states), 0], shape),
        reward=np.broadcast_to(np.asarray(rewards, dtype=float)[:, None, None], shape),
        terminated=np.broadcast_to(np.r_[np.zeros(n_states, bool), True], shape),
    )
    return envs.TableEnv(outcomes, np.asarray(start, dtype=float))


# P(s_t = 0) = 2/3 + 1/3 0.1^t from state 0, as 0.1 is the other eigenvalue.
TWO = chain([[0.7, 0.3], [0.6, 0.4]], [1.0, 0.0], [1.0, 0.0])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.999999])
def test_two_states_by_pencil_and_paper(gamma):
    expected = 2 / 3 + (1 - gamma) / (3 * (1 - 0.1 * gamma))
    # The system's condition number is of the order 1 / (1 - gamma).
    assert true_value(TWO, ONLY, gamma) == pytest.approx(expected, abs=1e-14 / (1 - gamma))


def test_two_states_average_reward():
    assert true_value(TWO, ONLY, 1) == pytest.approx(2 / 3, abs=1e-14)
    periodic = chain([[0, 1], [1, 0]], [1.0, 0.0], [1.0, 0.0])
    assert true_value(periodic, ONLY, 1.0) == pytest.approx(0.5, abs=1e-14)


@pytest.mark.parametrize("gamma", [0.0, 0.7, 1.0])
def test_a_bandit_is_worth_its_mean(gamma):
    policy = envs.bandit_policy(envs.Bandit(), 0.9)
    assert true_value(envs.Bandit(), policy, gamma) == pytest.approx(0.7, abs=1e-14)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.0, 0.010525038757907732),
        (0.75, 0.01472847886937414),
        (0.8, 0.015059566762405736),
        (0.85, 0.015397710714396778),
        (0.9, 0.015743041042013985),
        (0.95, 0.0160956895610035),
    ],
)
def test_the_lakes_values_from_an_independent_dense_computation(alpha, expected):
    env = envs.InfiniteFrozenLake()
    policy = envs.frozen_lake_policy(env, alpha)
    assert true_value(env, policy, 0.99) == pytest.approx(expected, abs=1e-12)


WORLDS = {
    # gamma^steps bounds what the cut leaves out, in units of the largest reward.
    "bandit": (envs.Bandit(), 0.9, 150),
    "contexts": (envs.ContextualBandit(contexts=(0.4, 0.3, 0.2, 0.1)), 0.9, 150),
    "lake": (envs.InfiniteFrozenLake(), 0.97, 500),
    "garnet": (envs.Restart(envs.Garnet(seed=6, termination=0.05)), 0.95, 300),
    "river": (envs.Restart(envs.RiverSwim(), probability=0.05), 0.95, 400),
    "taxi": (envs.InfiniteTaxi(), 0.97, 600),
}
QUICK = ("garnet",)
N_EPISODES, N_CHUNKS = 100_000, 10


@pytest.mark.parametrize(
    ("env", "gamma", "n_steps"),
    [
        pytest.param(*world, id=name, marks=[pytest.mark.slow] if name not in QUICK else [])
        for name, world in WORLDS.items()
    ],
)
def test_values_are_what_a_hundred_thousand_episodes_earn(env, gamma, n_steps):
    n_states, n_actions, _ = env.outcomes.probability.shape
    policy = np.random.default_rng(1).dirichlet(np.ones(n_actions), size=n_states)
    if n_states > 100:
        # At random, a taxi may circle for millions of steps and forget its start too late.
        policy = 0.3 * policy + 0.7 * envs.taxi_policy(env, 1.0).probabilities
    # Average reward is taken after a burn-in that has forgotten the start.
    moves = policy_moves(env.outcomes, policy).toarray()
    second = np.sort(np.abs(np.linalg.eigvals(moves)))[-2] if n_states > 1 else 0.0
    burn_in = n_steps // 2
    assert second**burn_in < 1e-5
    weight = (1 - gamma) * gamma ** np.arange(n_steps)
    discounted, average = [], []
    for key in jax.random.split(jax.random.key(2), N_CHUNKS):
        played = sample_transitions(
            env.outcomes, env.initial_distribution, policy, N_EPISODES // N_CHUNKS, n_steps, key
        )
        rewards = np.asarray(played.reward, dtype=np.float64)
        discounted.append(rewards @ weight)
        average.append(rewards[:, burn_in:].mean(axis=1))
    for earned, discount in ((discounted, gamma), (average, 1.0)):
        each = np.concatenate(earned)
        error = each.std(ddof=1) / np.sqrt(N_EPISODES)
        cut = gamma**n_steps * np.abs(env.outcomes.reward).max()
        assert cut < 0.05 * error
        assert abs(each.mean() - true_value(env, policy, discount)) <= 5 * error + cut


def test_a_true_value_is_a_number_that_knows_how_sure_it_is():
    value = true_value(TWO, ONLY, 0.5)
    assert isinstance(value, float)
    assert value.exact
    assert (value.standard_error, value.left_out) == (0.0, 0.0)
    assert f"{value:.3f}" == "0.842"
    assert repr(value).startswith("TrueValue(0.84")


def test_sparse_and_dense_solves_agree(monkeypatch):
    env = envs.Restart(envs.Garnet(40, 3, 4, seed=1, termination=0.1))
    policy = envs.garnet_policy(env, 0.5, seed=2)
    dense = [true_value(env, policy, gamma) for gamma in (0.0, 0.9, 1.0)]
    monkeypatch.setattr("bayesdice_ppl.simulation.truth.DENSE_STATES", 0)
    sparse = [true_value(env, policy, gamma) for gamma in (0.0, 0.9, 1.0)]
    np.testing.assert_allclose(sparse, dense, rtol=1e-12)


def test_the_discounted_value_tends_to_the_average_one():
    env = envs.Garnet(seed=3)
    policy = envs.garnet_policy(env, 0.2, seed=4)
    near = true_value(env, policy, 1 - 1e-8)
    assert near == pytest.approx(true_value(env, policy, 1.0), abs=1e-7)


def test_the_average_reward_must_be_unique():
    apart = np.eye(2)
    with pytest.raises(EnvironmentSpecError, match=r"not unique.*states 0 and 1"):
        true_value(chain(apart, [1.0, 0.0], [0.5, 0.5]), ONLY, 1.0)
    # Where only one of the parts can be reached, it is.
    assert true_value(chain(apart, [1.0, 0.0], [0.0, 1.0]), ONLY, 1.0) == 0.0
    # A transient start does not matter either.
    fading = chain([[0.5, 0.5], [0.0, 1.0]], [1.0, 0.25], [1.0, 0.0])
    assert true_value(fading, ONLY, 1.0) == pytest.approx(0.25, abs=1e-14)


def test_nothing_is_earned_after_the_end():
    env = chain([[1.0]], [2.0], [1.0], ends=[0.2])
    policy = TabularPolicy(np.ones((1, 1)))
    # Step t is reached with probability 0.8^t.
    assert true_value(env, policy, 0.5) == pytest.approx(0.5 * 2 / (1 - 0.4), abs=1e-14)
    with pytest.raises(EnvironmentSpecError, match=r"terminates.*Restart"):
        true_value(env, policy, 1.0)
    with pytest.raises(EnvironmentSpecError, match=r"terminates.*Restart"):
        true_ratio(env, policy, policy, 0.5)
    assert true_value(envs.Restart(env), policy, 1.0) == pytest.approx(2.0, abs=1e-14)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_gamma_outside_its_range(gamma):
    with pytest.raises(SettingsError, match=r"gamma: expected a discount in \[0, 1\]"):
        true_value(TWO, ONLY, gamma)


def test_ratio_of_a_bandit():
    env = envs.Bandit()
    ratio = true_ratio(env, [[0.9, 0.1]], [[0.5, 0.5]], 0.7)
    np.testing.assert_allclose(ratio, [[1.8, 0.2]], rtol=1e-13)
    never = true_ratio(env, [[0.9, 0.1]], [[1.0, 0.0]], 0.7)
    np.testing.assert_allclose(never, [[0.9, np.inf]], rtol=1e-13)
    np.testing.assert_array_equal(true_ratio(env, [[1.0, 0.0]], [[1.0, 0.0]], 0.7), [[1.0, 0.0]])


def test_ratio_of_a_policy_to_itself():
    env = envs.InfiniteFrozenLake()
    policy = envs.frozen_lake_policy(env, 0.0)
    ratio = true_ratio(env, policy, policy, 1.0)
    visited = np.setdiff1d(np.arange(16), [5, 7, 11, 12, 15])
    np.testing.assert_allclose(ratio[visited], 1.0, rtol=1e-10)
    assert not np.delete(ratio, visited, axis=0).any()


@pytest.mark.parametrize("horizon", [None, 1, 40])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_reweighted_logs_have_the_targets_value(horizon, gamma):
    env = envs.Restart(envs.Garnet(seed=9, termination=0.1))
    behavior = envs.garnet_policy(env, 0.0, seed=1)
    target = envs.garnet_policy(env, 0.9, seed=1)
    ratio = true_ratio(env, target, behavior, gamma, horizon=horizon)
    moves = policy_moves(env.outcomes, behavior.probabilities)
    if horizon is None:
        logged = occupancy(moves, env.initial_distribution, 1.0)
    else:
        dense, now = moves.toarray(), env.initial_distribution
        states = [now := now @ dense if t else now for t in range(horizon)]
        logged = np.mean(states, axis=0)
    pairs = logged[:, None] * behavior.probabilities
    assert np.sum(ratio * pairs) == pytest.approx(1.0, abs=1e-12)
    assert np.sum(ratio * pairs * env.reward_matrix) == pytest.approx(
        true_value(env, target, gamma), abs=1e-12
    )


def test_horizon_must_be_positive():
    with pytest.raises(SettingsError, match="horizon"):
        true_ratio(TWO, ONLY, ONLY, 0.5, horizon=0)


def test_policies_are_matched_by_label():
    env = envs.Garnet(3, 2, 2, seed=0)
    table = np.array([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]])
    shuffled = TabularPolicy(table[[2, 0, 1]][:, [1, 0]], states=[2, 0, 1], actions=[1, 0])
    expected = true_value(env, table, 0.9)
    assert true_value(env, shuffled, 0.9) == pytest.approx(expected, abs=1e-15)

    class Callable:
        def probs(self, obs):
            return table[obs]

    assert true_value(env, Callable(), 0.9) == pytest.approx(expected, abs=1e-15)


def test_an_action_left_out_has_probability_zero():
    best_only = TabularPolicy(np.ones((1, 1)), states=[0], actions=[0])
    assert true_value(envs.Bandit(), best_only, 0.5) == pytest.approx(0.75, abs=1e-15)


def test_only_unreachable_states_may_be_left_out():
    env = envs.InfiniteFrozenLake()
    whole = envs.frozen_lake_policy(env, 0.5)
    visited = np.setdiff1d(np.arange(16), [5, 7, 11, 12, 15])
    part = TabularPolicy(whole.probabilities[visited], states=visited)
    for gamma in (0.9, 1.0):
        assert true_value(env, part, gamma) == pytest.approx(true_value(env, whole, gamma))
    with pytest.raises(PoliciesError, match="no row for state 14"):
        true_value(env, TabularPolicy(whole.probabilities[:14]), 0.9)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((2, 2), 0.5), r"expected probabilities of shape \(1, 2\)"),
        ([[0.5, 0.4]], "state 0: expected nonnegative probabilities that sum to 1"),
        ([[1.5, -0.5]], "nonnegative"),
        (TabularPolicy([[0.5, 0.5]], states=["a"]), "state 'a'"),
        (TabularPolicy([[0.5, 0.5]], actions=[0, 2]), "action 2 .* integers 0 to 1"),
    ],
)
def test_policies_of_another_world_are_refused(policy, message):
    with pytest.raises(PoliciesError, match=message):
        true_value(envs.Bandit(), policy, 0.5)
