"""The model-based posterior against Beta algebra, quadrature, plain iteration and true values."""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bayesdice_ppl import TabularPolicy
from bayesdice_ppl.baselines.bayesian import dirichlet_worlds
from bayesdice_ppl.baselines.bayesian.dirichlet_model import dirichlet_model, solve_worlds
from bayesdice_ppl.baselines.bayesian.dirichlet_worlds import count_outcomes, draw_worlds
from bayesdice_ppl.baselines.interface import Baseline
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.simulation import make_world, simulate, true_value
from tests.baselines.exhaustive import (
    OUTCOMES,
    POLICY,
    SETTINGS,
    TARGET,
    exhaustive_logs,
    make_logs,
)

KEY = jax.random.key(5)
LOGGED = [(0, 0, 4, 2), (0, 1, 1, 6), (1, 0, 0, 3), (1, 2, 5, 1)]
BANDIT = np.array([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]])


def bandit_logs(logged, n_states=2, n_actions=3):
    rows = []
    for state, action, losses, wins in logged:
        rows += [(state, action, 0.0)] * losses + [(state, action, 1.0)] * wins
    full = [
        (i, 0, state, action, reward, 0, False) for i, (state, action, reward) in enumerate(rows)
    ]
    return make_logs(full, n_states, n_actions)


def within(sample, exact, errors=5.0):
    return abs(np.mean(sample) - exact) < errors * np.std(sample) / np.sqrt(len(sample))


def has_moments(draws, mean, second):
    """Whether first and second moments are within 5 standard errors of their own."""
    return within(draws, mean) and within(draws**2, second)


def test_it_is_a_baseline():
    found = dirichlet_model()
    assert isinstance(found, Baseline)
    assert (found.name, found.short, found.gives) == ("dirichlet", "dirichlet", "draws")
    assert (found.needs.labels, found.needs.bandit, found.needs.rng_key) == (True, False, True)


def test_one_context_is_beta_algebra():
    logs, target = bandit_logs(LOGGED[:2], 1), np.array([[0.5, 0.2, 0.3]])
    arms = [stats.beta(3, 5), stats.beta(7, 2), stats.beta(1, 1)]
    mean = sum(p * arm.mean() for p, arm in zip(target[0], arms, strict=True))
    variance = sum(p**2 * arm.var() for p, arm in zip(target[0], arms, strict=True))
    method = dirichlet_model(reward="beta", draws=20_000)
    found = method.estimate(logs, TabularPolicy(target), gamma=0.0, level=0.8, rng_key=KEY)
    assert has_moments(found.draws, mean, variance + mean**2)
    assert found.value == pytest.approx(found.draws.mean(), rel=1e-12)
    ends = np.quantile(found.draws, [0.1, 0.9])
    assert (found.lower, found.upper) == pytest.approx(tuple(ends), rel=1e-12)
    for arm, exact in enumerate(arms):
        only = TabularPolicy(np.eye(3)[[arm]])
        draws = method.estimate(logs, only, gamma=0.0, rng_key=KEY).draws
        assert stats.kstest(draws, exact.cdf).pvalue > 3e-5


def test_contexts_have_dirichlet_weights():
    # The start is a Beta weight of two contexts with 13 and 9 episodes, apart from the arms.
    policy, weight = TabularPolicy(BANDIT), stats.beta(13, 9)
    worth = []
    for state in (0, 1):
        arms = [
            stats.beta(1 + wins, 1 + losses)
            for action in range(3)
            for losses, wins in [next((p[2:] for p in LOGGED if p[:2] == (state, action)), (0, 0))]
        ]
        mean = sum(p * arm.mean() for p, arm in zip(BANDIT[state], arms, strict=True))
        variance = sum(p**2 * arm.var() for p, arm in zip(BANDIT[state], arms, strict=True))
        worth.append((mean, variance + mean**2))
    w, w2 = weight.mean(), weight.var() + weight.mean() ** 2
    mean = w * worth[0][0] + (1 - w) * worth[1][0]
    cross = 2 * (w - w2) * worth[0][0] * worth[1][0]
    second = w2 * worth[0][1] + (1 - 2 * w + w2) * worth[1][1] + cross
    method = dirichlet_model(reward="beta", draws=20_000)
    draws = method.estimate(bandit_logs(LOGGED), policy, gamma=0.0, rng_key=KEY).draws
    assert has_moments(draws, mean, second)
    (worlds,) = worlds_of(policy, 0.0, 20_000, logs=bandit_logs(LOGGED))
    assert stats.kstest(worlds.start[:, 0], weight.cdf).pvalue > 3e-5


@pytest.mark.parametrize("strength", [0.3, 2.0])
@pytest.mark.parametrize("arm", [0, 1, 2])
def test_rewards_as_outcomes_of_a_bandit(arm, strength):
    # A Dirichlet process over two kinds of outcome is a Beta, its prior mean the log's 8 / 13; arm
    # 2 was never pulled. Ending the sticks early takes 1/1000 of the prior's variance at most.
    logs = bandit_logs(LOGGED[:2], 1)
    losses, wins = [(4, 2), (1, 6), (0, 0)][arm]
    exact = stats.beta(strength * 8 / 13 + wins, strength * 5 / 13 + losses)
    method = dirichlet_model(strength, draws=20_000)
    policy = TabularPolicy(np.eye(3)[[arm]])
    draws = method.estimate(logs, policy, gamma=0.0, rng_key=KEY).draws
    assert has_moments(draws, exact.mean(), exact.var() + exact.mean() ** 2)


def test_normal_rewards_are_students():
    rewards = np.array([1.0, 2.5, -0.5, 4.0, 7.0, 6.0])
    rows = [(i, 0, 0, int(i > 3), r, 0, False) for i, r in enumerate(rewards)]
    logs, strength = make_logs(rows, 1, 3), 0.7
    for arm, own in enumerate((rewards[:4], rewards[4:], rewards[:0])):
        n, mean = len(own), own.mean() if len(own) else 0.0
        a = 1.5 + n / 2
        b = 0.5 * rewards.var() + 0.5 * np.sum((own - mean) ** 2)
        b += 0.5 * strength * n * (mean - rewards.mean()) ** 2 / (strength + n)
        center = (strength * rewards.mean() + n * mean) / (strength + n)
        exact = stats.t(2 * a, center, np.sqrt(b / (a * (strength + n))))
        method = dirichlet_model(strength, "normal", draws=20_000)
        policy = TabularPolicy(np.eye(3)[[arm]])
        draws = method.estimate(logs, policy, gamma=0.0, rng_key=KEY).draws
        assert stats.kstest(draws, exact.cdf).pvalue > 3e-5


def chain_logs():
    """Two states, one action, and the reward is the state that is reached: 3 + 5 and 6 + 2 rows."""
    rows = [
        (0, t, s, 0, float(to), to, False)
        for t, (s, to) in enumerate([(0, 1)] * 5 + [(0, 0)] * 3 + [(1, 0)] * 6 + [(1, 1)] * 2)
    ]
    return make_logs(rows, 2, 1)


@pytest.mark.parametrize("gamma", [0.5, 0.95, 1.0])
def test_two_states_by_quadrature(gamma):
    # There are two kinds of outcome, "to 0, reward 0" and "to 1, reward 1", logged 9 and 7 times.
    strength = 1.5
    p0 = stats.beta(strength * 7 / 16 + 5, strength * 9 / 16 + 3)
    p1 = stats.beta(strength * 7 / 16 + 2, strength * 9 / 16 + 6)

    # x, the share of steps that reach 1: x = (1 - gamma x) p0 + gamma x p1 from state 0.
    node, weight = np.polynomial.legendre.leggauss(400)
    x, y = (node[:, None] + 1.0) / 2.0, (node + 1.0) / 2.0
    weight = np.outer(weight, weight) / 4.0 * p0.pdf(x) * p1.pdf(y)
    assert weight.sum() == pytest.approx(1.0, abs=1e-9)
    value = x / (1.0 - gamma * (y - x))
    mean, second = np.sum(weight * value), np.sum(weight * value**2)
    method = dirichlet_model(strength, draws=20_000)
    found = method.estimate(chain_logs(), TabularPolicy([[1.0], [1.0]]), gamma=gamma, rng_key=KEY)
    assert has_moments(found.draws, mean, second)


@pytest.mark.parametrize("termination", ["restart", "absorb"])
def test_an_end_by_quadrature(termination):
    # One state: stay for nothing (9 rows), or end with a reward of 1 (3 rows).
    rows = [(e, t, 0, 0, float(t == 3), 0, t == 3) for e in range(3) for t in range(4)]
    gamma, end = 0.9, stats.beta(2 * 0.25 + 3, 2 * 0.75 + 9)

    def moment(power):
        def value(q):
            left = 1.0 if termination == "restart" else (1 - gamma) / (1 - gamma * (1 - q))
            return q * left

        return quad(lambda q: value(q) ** power * end.pdf(q), 0.0, 1.0)[0]

    found = dirichlet_model(2.0, draws=20_000).estimate(
        make_logs(rows, 1, 1),
        TabularPolicy([[1.0]]),
        gamma=gamma,
        rng_key=KEY,
        on_termination=termination,
    )
    assert has_moments(found.draws, moment(1), moment(2))


def worlds_of(policy, gamma, draws, strength=1.0, logs=None):
    model = count_outcomes(logs or exhaustive_logs(), policy, gamma, rewards=True)
    return list(draw_worlds(model, None, strength, gamma, draws, KEY))


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_each_world_by_iteration(gamma, termination):
    (worlds,) = worlds_of(POLICY, gamma, 6)
    found = solve_worlds(worlds, gamma, restart=termination == "restart")
    for b in range(6):
        now, values, steps = worlds.start[b], [], 1500
        for _ in range(steps):
            values.append(now @ worlds.reward[b])
            after = now @ worlds.moves[b]
            now = after[:3] + (after[3] * worlds.start[b] if termination == "restart" else 0.0)
        if gamma == 1.0:
            exact = np.mean(values[steps // 2 :])
        else:
            exact = (1 - gamma) * sum(gamma**t * v for t, v in enumerate(values))
        assert found[b] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_worlds_have_the_posterior_mean(strength):
    (worlds,) = worlds_of(POLICY, 0.9, 8000, strength)
    assert np.allclose(worlds.moves.sum(axis=2), 1.0, rtol=1e-12)
    assert np.allclose(worlds.start.sum(axis=1), 1.0, rtol=1e-12)
    # By hand: counts of outcomes, and of all rows together for the prior.
    counts, earned = np.zeros((3, 2, 4)), np.zeros((3, 2))
    for pair, (outcomes, times) in OUTCOMES.items():
        for quarters, successor, reward, ended in outcomes:
            counts[(*pair, 3 if ended else successor)] += quarters * times
            earned[pair] += quarters * times * reward
    n = counts.sum(axis=2, keepdims=True)
    base, mean = counts.sum(axis=(0, 1)) / n.sum(), earned.sum() / n.sum()
    moves = np.sum(TARGET[:, :, None] * (strength * base + counts) / (strength + n), axis=1)
    reward = np.sum(TARGET * (strength * mean + earned) / (strength + n[:, :, 0]), axis=1)
    for s in range(3):
        assert within(worlds.reward[:, s], reward[s])
        assert all(within(worlds.moves[:, s, j], moves[s, j]) for j in range(4))


def test_a_pair_that_was_never_logged():
    # From state 1 the policy does what nobody did: T' and its reward have the log's own means, and
    # the variances of a Dirichlet process, h (1 - h) / (1 + strength).
    rows = [(0, t, t % 2, 0, float(t % 3), (t + 1) % 2, False) for t in range(12)]
    logs, strength = make_logs(rows, 2, 2), 0.8
    (worlds,) = worlds_of(TabularPolicy([[1.0, 0.0], [0.0, 1.0]]), 0.9, 20_000, strength, logs)
    moves, reward = worlds.moves[:, 1, 0], worlds.reward[:, 1]
    assert has_moments(moves, 0.5, 0.25 + 0.25 / (1 + strength))
    assert has_moments(reward, 1.0, 1.0 + (2 / 3) / (1 + strength))
    # The reward comes with the successor: both are read off the same transitions.
    at_zero = np.mean([r for *_, r, to, _ in rows if to == 0])
    covariance = 0.5 * (at_zero - 1.0) / (1 + strength)
    assert within((moves - 0.5) * (reward - 1.0), covariance)


@pytest.mark.parametrize("name", ["outcome", "beta"])
def test_a_million_transitions_give_the_true_value(name):
    world = make_world("frozenlake")
    logs = simulate(world.env, world.behavior, 2000, 500, rng_key=jax.random.key(0))
    assert logs.n_transitions == 1_000_000
    policy, gamma = world.candidates["alpha_0.75"], 0.95
    found = dirichlet_model(reward=name).estimate(logs, policy, gamma=gamma, rng_key=KEY)
    truth, sd = true_value(world.env, policy, gamma), found.draws.std()
    assert 0.0 < sd < 0.02 * truth
    assert abs(found.value - truth) < 5 * sd


@pytest.mark.parametrize("entries", [1 << 20, 40])
@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_draws_are_joint(monkeypatch, entries, gamma, termination):
    monkeypatch.setattr(dirichlet_worlds, "ENTRIES", entries)
    logs = exhaustive_logs()

    def draws(table, actions=None, key=KEY):
        return (
            dirichlet_model(draws=50)
            .estimate(
                logs,
                TabularPolicy(table, actions=actions),
                gamma=gamma,
                rng_key=key,
                on_termination=termination,
            )
            .draws
        )

    assert draws(TARGET).shape == (50,)
    assert np.array_equal(draws(TARGET), draws(TARGET.copy()))
    assert not np.allclose(draws(TARGET), draws(TARGET, key=jax.random.key(6)))
    near = np.corrcoef(draws(TARGET), draws(0.99 * TARGET + 0.005))[0, 1]
    assert near > 0.99


def test_a_mixture_of_policies_is_one_of_draws():
    logs, first, second = bandit_logs(LOGGED), BANDIT, BANDIT[::-1]
    for reward in ("outcome", "beta", "normal"):

        def draws(table, reward=reward):
            method = dirichlet_model(reward=reward)
            return method.estimate(logs, TabularPolicy(table), gamma=0.0, rng_key=KEY).draws

        mixed = draws(0.25 * first + 0.75 * second)
        assert np.allclose(mixed, 0.25 * draws(first) + 0.75 * draws(second), rtol=1e-12)


def test_the_action_space_does_not_change_the_worlds(plain):
    logs, table = plain.log(0), np.full((4, 2), 0.5)
    wider = np.c_[np.zeros(4), table]
    one = TabularPolicy(table)
    other = TabularPolicy(wider, actions=[-1, 0, 1])
    draws = [
        dirichlet_model(draws=40).estimate(logs, policy, gamma=0.9, rng_key=KEY).draws
        for policy in (one, other)
    ]
    assert np.allclose(*draws, rtol=1e-12)


def test_a_row_that_leads_nowhere_is_left_out_with_its_step():
    # At the second step one episode terminates and one successor is not known: none of it counts.
    full = [
        (e, t, (e + t) % 2, e % 2, float(e), (e + t + 1) % 2, e == 1 and t == 1)
        for e in range(4)
        for t in (0, 1)
    ]
    gap = [(*row[:5], -1 if row[:2] == (2, 1) else row[5], row[6]) for row in full]
    policy = TabularPolicy([[0.3, 0.7], [0.6, 0.4]])
    with_gap, shorter, whole = (
        dirichlet_model(draws=20)
        .estimate(make_logs(rows, 2, 2), policy, gamma=0.9, rng_key=KEY)
        .draws
        for rows in (gap, [row for row in full if row[1] == 0], full)
    )
    np.testing.assert_array_equal(with_gap, shorter)
    assert not np.allclose(whole, shorter)


def test_what_does_not_suit_is_refused():
    logs, policy = exhaustive_logs(), POLICY
    with pytest.raises(SettingsError, match="rng_key"):
        dirichlet_model().estimate(logs, policy, gamma=0.9)
    with pytest.raises(LogsError, match="two values"):
        dirichlet_model(reward="beta").estimate(logs, policy, gamma=0.9, rng_key=KEY)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"prior": 0.0}, "prior: expected a number above 0"),
        ({"prior": 1e9}, "prior: expected at most 1000"),
        ({"reward": "gamma"}, "reward"),
        ({"draws": 1.5}, "draws"),
        ({"reward_prior": (1.0, -1.0)}, "reward_prior: expected a number above 0"),
        ({"reward_values": (1.0, np.inf)}, "reward_values"),
    ],
)
def test_bad_settings_are_refused(settings, word):
    with pytest.raises(SettingsError, match=word):
        dirichlet_model(**settings)
