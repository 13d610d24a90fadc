"""CoinDICE against empirical likelihood by other means, a general minimizer, and coverage."""

import jax
import numpy as np
import pytest
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.stats import chi2

from bayesdice_ppl.baselines.dice.coin_dice import coin_dice
from bayesdice_ppl.baselines.dice.divergence import DIVERGENCES, Members, least
from bayesdice_ppl.baselines.interface import Baseline
from bayesdice_ppl.baselines.value.lstdq import lstdq
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.policies import TabularPolicy
from tests.baselines.exhaustive import POLICY, SETTINGS, exact_value, exhaustive_logs, make_logs
from tests.linear_world import GAMMA, POLICIES, TRUTH, chain_log

SIZES = {
    "kl": lambda x: x * np.log(x) - x + 1.0,
    "reverse_kl": lambda x: x - 1.0 - np.log(x),
    "chi_square": lambda x: 0.5 * (x - 1.0) ** 2,
}


def bandit_logs(rng, rates, behavior, n):
    action = rng.choice(len(rates), p=behavior, size=n)
    reward = (rng.random(n) < np.asarray(rates)[action]).astype(float)
    rows = [(i, 0, 0, a, r, 0, False) for i, (a, r) in enumerate(zip(action, reward, strict=True))]
    return make_logs(rows, 1, len(rates))


def test_it_is_a_baseline():
    found = coin_dice()
    assert isinstance(found, Baseline)
    assert (found.name, found.gives, found.needs.rng_key) == ("coin_dice", "interval", False)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_least_of_a_linear_function(divergence):
    rng = np.random.default_rng(0)
    samples = (
        Members(rng.normal(size=5), np.array([1.0, 3.0, 1.0, 2.0, 1.0])),
        Members(rng.normal(size=3), np.array([2.0, 1.0, 1.0])),
    )
    counts = np.concatenate([sample.counts for sample in samples])
    slopes = np.concatenate([sample.slope for sample in samples])
    sizes = np.repeat([8.0, 4.0], [5, 3])
    radius = 1.1

    def divergence_of(w):
        return counts @ SIZES[divergence](np.maximum(sizes * w / counts, 1e-12))

    found = minimize(
        lambda w: slopes @ w,
        counts / sizes,
        jac=lambda w: slopes,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 8,
        constraints=[
            {"type": "eq", "fun": lambda w: w[:5].sum() - 1.0},
            {"type": "eq", "fun": lambda w: w[5:].sum() - 1.0},
            {"type": "ineq", "fun": lambda w: radius - divergence_of(w)},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    weights = np.concatenate(least(samples, radius, divergence))
    assert found.success
    assert divergence_of(weights) == pytest.approx(radius, rel=1e-6)
    assert weights[:5].sum() == pytest.approx(1.0, rel=1e-12)
    assert slopes @ weights == pytest.approx(found.fun, abs=1e-6)


def test_the_least_of_nothing_to_choose_from():
    same = (Members(np.full(3, 2.0), np.array([1.0, 2.0, 1.0])),)
    assert np.allclose(least(same, 1.0, "kl")[0], [0.25, 0.5, 0.25])
    # Nine of ten members already have the least slope: all the weight goes there, KL's 10 log 10/9.
    most = (Members(np.array([0.0, 1.0]), np.array([9.0, 1.0])),)
    assert np.allclose(least(most, 1.2, "kl")[0], [1.0, 0.0], atol=1e-9)


def owen_ratio(sample, mean):
    """-2 log of Owen's empirical likelihood ratio of a mean, by its one-dimensional dual."""
    off = sample - mean
    if not off.min() < 0.0 < off.max():
        return np.inf
    ends = -1.0 / off.max(), -1.0 / off.min()
    slack = 1e-10 * (ends[1] - ends[0])
    t = brentq(lambda t: np.sum(off / (1.0 + t * off)), ends[0] + slack, ends[1] - slack)
    return 2.0 * np.sum(np.log(1.0 + t * off))


def owen_interval(sample, level):
    limit, center = chi2.ppf(level, 1), sample.mean()
    slack = 1e-9 * np.ptp(sample)
    return tuple(
        brentq(lambda mean: owen_ratio(sample, mean) - limit, center, end)
        for end in (sample.min() + slack, sample.max() - slack)
    )


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_one_arm_is_textbook_empirical_likelihood(level):
    # The importance weights of a policy that pulls one arm are equal on it and 0 elsewhere.
    rng = np.random.default_rng(1)
    action = rng.integers(2, size=40)
    reward = rng.gamma(2.0, size=40)
    logs = make_logs(
        [(i, 0, 0, a, r, 0, False) for i, (a, r) in enumerate(zip(action, reward, strict=True))],
        1,
        2,
    )
    found = coin_dice("reverse_kl", ridge=0.0).estimate(
        logs, TabularPolicy([[0.0, 1.0]]), gamma=0.0, level=level
    )
    pulled = reward[action == 1]
    expected = owen_interval(pulled, level)
    assert found.value == pytest.approx(pulled.mean(), rel=1e-12)
    assert (found.lower, found.upper) == pytest.approx(expected, rel=1e-6)


def test_two_arms_are_textbook_empirical_likelihood():
    # Estimating equations E[1{a}(r - mean_a)] = 0 (Qin and Lawless): the ratio of the weighted mean
    # is the least sum of the two arms' own, over how the mean can come about.
    rng = np.random.default_rng(2)
    arms = [rng.exponential(size=12), rng.normal(2.0, 1.0, size=20)]
    pi = np.array([0.3, 0.7])
    rows = [
        (i, 0, 0, a, r, 0, False)
        for i, (a, r) in enumerate((a, r) for a in (0, 1) for r in arms[a])
    ]
    found = coin_dice("reverse_kl", ridge=0.0).estimate(
        make_logs(rows, 1, 2), TabularPolicy([pi]), gamma=0.0, level=0.9
    )

    def ratio(mean):
        # A range of the first arm's mean in which both are within reach of their samples.
        ends = sorted((mean - pi[1] * end) / pi[0] for end in (arms[1].min(), arms[1].max()))
        low = max(ends[0], arms[0].min()) + 1e-6
        high = min(ends[1], arms[0].max()) - 1e-6
        return minimize_scalar(
            lambda first: (
                owen_ratio(arms[0], first) + owen_ratio(arms[1], (mean - pi[0] * first) / pi[1])
            ),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-10},
        ).fun

    limit = chi2.ppf(0.9, 1)
    center = pi @ [arm.mean() for arm in arms]
    expected = [
        brentq(lambda mean: ratio(mean) - limit, center, center + way, xtol=1e-9)
        for way in (-0.8, 0.8)
    ]
    assert (found.lower, found.upper) == pytest.approx(expected, rel=1e-5)


def test_one_arm_alone_with_chi_square_is_the_normal_interval():
    rng = np.random.default_rng(3)
    reward = rng.normal(size=30)
    logs = make_logs([(i, 0, 0, 0, r, 0, False) for i, r in enumerate(reward)], 1, 1)
    found = coin_dice("chi_square", ridge=0.0).estimate(logs, TabularPolicy([[1.0]]), gamma=0.0)
    half = np.sqrt(chi2.ppf(0.9, 1)) * reward.std() / np.sqrt(30)
    expected = (reward.mean() - half, reward.mean() + half)
    assert (found.lower, found.upper) == pytest.approx(expected, rel=1e-6)


def weighted_value(logs, policy, weight, start_weight, gamma, termination):
    """Value of the model that weighted counts give, pair by pair."""
    n_states, n_actions = policy.shape
    size = n_states * n_actions
    start = np.zeros(size)
    for s, v in zip(logs.initial_state, start_weight, strict=True):
        start[s * n_actions : (s + 1) * n_actions] += v * policy[s]
    mass, flow, reward = np.zeros(size), np.zeros((size, size)), np.zeros(size)
    for i, w in enumerate(weight):
        pair = logs.state[i] * n_actions + logs.action[i]
        mass[pair] += w
        reward[pair] += w * logs.reward[i]
        if not logs.terminated[i]:
            s = logs.next_state[i]
            flow[pair, s * n_actions : (s + 1) * n_actions] += w * policy[s]
        elif termination == "restart":
            flow[pair] += w * start
    logged = mass > 0.0
    flow = flow[np.ix_(logged, logged)] / mass[logged][:, None]
    reward, start = reward[logged] / mass[logged], start[logged]
    eye = np.eye(len(reward))
    if gamma < 1.0:
        return (1.0 - gamma) * start @ np.linalg.solve(eye - gamma * flow, reward)
    system = np.block([[eye - flow, np.ones((len(reward), 1))], [start, 0.0]])
    return np.linalg.solve(system, np.append(reward, 0.0))[-1]


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize(("gamma", "termination"), SETTINGS[:3])
def test_the_ends_against_a_general_minimizer(plain, divergence, gamma, termination):
    logs, policy = plain.log(3, n_states=2, n_episodes=7), plain.policies(3, 1, n_states=2)["p0"]
    n, m = logs.n_transitions, logs.n_episodes
    assert m < n < 50
    assert len(np.unique(logs.state * 2 + logs.action)) == 4
    table, radius = policy.probabilities, 0.5 * chi2.ppf(0.8, 1)

    def value_of(x):
        return weighted_value(logs, table, x[:n] / n, x[n:] / m, gamma, termination)

    found = coin_dice(divergence, ridge=0.0).estimate(
        logs, policy, gamma=gamma, on_termination=termination, level=0.8
    )
    assert found.value == pytest.approx(value_of(np.ones(n + m)), rel=1e-9)
    for sign, end in ((1.0, found.lower), (-1.0, found.upper)):
        reached = minimize(
            lambda x, sign=sign: sign * value_of(x),
            np.ones(n + m),
            method="SLSQP",
            bounds=[(1e-9, None)] * (n + m),
            constraints=[
                {"type": "eq", "fun": lambda x: x[:n].sum() - n},
                {"type": "eq", "fun": lambda x: x[n:].sum() - m},
                {"type": "ineq", "fun": lambda x: radius - SIZES[divergence](x).sum()},
            ],
            options={"ftol": 1e-10, "maxiter": 200},
        )
        assert reached.success
        assert end == pytest.approx(sign * reached.fun, abs=2e-5)


def test_it_is_lstdq_in_the_middle_and_wider_at_higher_levels(plain):
    logs, policy = plain.log(4), plain.policies(4, 1)["p0"]
    for gamma, termination in SETTINGS:
        how = {"gamma": gamma, "on_termination": termination}
        middle = lstdq().estimate(logs, policy, **how).value
        found = [
            coin_dice().estimate(logs, policy, level=level, **how) for level in (0.5, 0.9, 0.99)
        ]
        assert [one.value for one in found] == pytest.approx([middle] * 3, rel=1e-9)
        lower, upper = ([getattr(one, end) for one in found] for end in ("lower", "upper"))
        assert middle > lower[0] > lower[1] > lower[2]
        assert middle < upper[0] < upper[1] < upper[2]


def test_the_other_sign_of_rewards_turns_the_interval_over(plain):
    rows = [(i, 0, i % 2, i % 3, r, 1 - i % 2, False) for i, r in enumerate([1.0, 5.0, 2.0] * 8)]
    logs = make_logs(rows, 2, 3)
    turned = make_logs([(*row[:4], -row[4], *row[5:]) for row in rows], 2, 3)
    policy = plain.policies(0, 1, n_states=2, n_actions=3)["p0"]
    found, other = (coin_dice().estimate(one, policy, gamma=0.8) for one in (logs, turned))
    assert (found.lower, found.upper) == pytest.approx((-other.upper, -other.lower), rel=1e-6)


def test_more_of_the_same_log_is_a_narrower_interval():
    rows = [
        (s, a, r, following, ended)
        for s, a, r, following, ended in zip(
            *(
                getattr(exhaustive_logs(), name)
                for name in ("state", "action", "reward", "next_state", "terminated")
            ),
            strict=True,
        )
    ]
    widths = []
    for times in (1, 4, 16):
        logs = make_logs([(i, 0, *row) for i, row in enumerate(rows * times)], 3, 2)
        found = coin_dice().estimate(logs, POLICY, gamma=0.9)
        assert found.value == pytest.approx(exact_value(0.9, "restart"), abs=1e-4)
        widths.append(found.upper - found.lower)
    assert widths[1] / widths[0] == pytest.approx(0.5, rel=0.05)
    assert widths[2] / widths[1] == pytest.approx(0.5, rel=0.02)


def test_no_spread_is_no_width():
    rows = [(i, 0, 0, i % 2, 1.5, 0, False) for i in range(10)]
    logs, policy = make_logs(rows, 1, 2), TabularPolicy([[0.4, 0.6]])
    found = coin_dice(ridge=0.0).estimate(logs, policy, gamma=0.0)
    assert (found.lower, found.value, found.upper) == pytest.approx((1.5, 1.5, 1.5), rel=1e-12)
    # The ridge alone has something to move, by millionths.
    found = coin_dice().estimate(logs, policy, gamma=0.0)
    assert (found.lower, found.value, found.upper) == pytest.approx((1.5, 1.5, 1.5), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 100])
def test_coverage_on_a_bandit(n):
    rates, pi, level, trials = (0.8, 0.5), (0.75, 0.25), 0.9, 400
    rng = np.random.default_rng(0)
    policy, truth, method = TabularPolicy([pi]), np.dot(rates, pi), coin_dice()
    found = [
        method.estimate(bandit_logs(rng, rates, (0.5, 0.5), n), policy, gamma=0.0, level=level)
        for _ in range(trials)
    ]
    covered = np.mean([one.lower <= truth <= one.upper for one in found])
    assert level - 0.05 <= covered <= 1.0
    # Not by being wide: the normal interval of the same mean.
    half = np.sqrt(
        chi2.ppf(level, 1) * sum(2 * p**2 * r * (1 - r) for p, r in zip(pi, rates, strict=True)) / n
    )
    assert np.mean([one.upper - one.lower for one in found]) < 1.1 * 2 * half


def test_vectors_cover_the_truth():
    # Five logs, three policies: at 99 % two misses of 15 would be one chance in a hundred.
    missed = 0
    for seed in range(5):
        logs = chain_log(10 + seed, n_episodes=60, n_steps=15)
        for policy, truth in zip(POLICIES.values(), TRUTH, strict=True):
            found = coin_dice().estimate(
                logs, policy, gamma=GAMMA, level=0.99, rng_key=jax.random.key(seed)
            )
            missed += not found.lower <= truth <= found.upper
    assert missed <= 2


def test_bad_settings_are_refused():
    with pytest.raises(SettingsError, match="divergence"):
        coin_dice("hellinger")
    with pytest.raises(SettingsError, match="ridge"):
        coin_dice(ridge=-1.0)
    with pytest.raises(SettingsError, match="level"):
        coin_dice().estimate(exhaustive_logs(), POLICY, gamma=0.5, level=1.0)
