"""The Gaussian process in closed form: against the linear model, brute force and known values."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.kernels import (
    linear,
    matern,
    squared_exponential,
    sum_of,
)
from bayesdice_ppl.features.low_rank import nystrom, random_fourier
from bayesdice_ppl.inference import exact_posterior
from bayesdice_ppl.inference.process import predict_ratio, process_covariance, process_posterior
from bayesdice_ppl.moments.process import PolicyPoints, process_moments

# Minutes in all: run by make test-slow.
pytestmark = pytest.mark.slow

# --- Oracles -------------------------------------------------------------------------------------


def laplace_gram(x, y, scale=1.0, sd=1.0):
    """matern(0.5, scale, sd), whose matrices are well conditioned."""
    return sd**2 * np.exp(-np.sqrt(((x[:, None] - y) ** 2).sum(axis=-1)) / scale)


def continuous_log(seed, n=30, m=6, n_actions=3):
    """(points, next, initial, reward, terminated) and the episode of each transition."""
    rng = np.random.default_rng(seed)

    def everywhere(count):
        states = np.repeat(rng.normal(size=(count, 1, 1)), n_actions, axis=1)
        actions = np.broadcast_to(np.linspace(-1, 1, n_actions)[:, None], states.shape)
        return np.concatenate([states, actions], axis=-1)

    points = everywhere(n)[np.arange(n), rng.integers(n_actions, size=n)]
    weights = [rng.dirichlet(np.ones(n_actions), size=size) for size in (n, m)]
    ended = rng.random(n) < 0.15
    data = (
        points,
        PolicyPoints(everywhere(n), weights[0]),
        PolicyPoints(everywhere(m), weights[1]),
        points[:, 0] + rng.normal(1.0, 0.5, size=n),
        ended,
    )
    return data, np.sort(np.r_[np.arange(m), rng.integers(m, size=n - m)])


def plain_gram(data, gamma, kernel):
    """<D_i, D_j>, <D_i, b>, <b, b> of a log with restarts, by a matrix of all the points."""
    points, following, initial, _, ended = data
    n, m = len(points), len(initial.points)
    every = np.concatenate([points, *following.points, *initial.points])
    start = np.zeros(len(every))
    start[-initial.weights.size :] = initial.weights.ravel() / m
    rows = np.zeros((n, len(every)))
    n_actions = following.weights.shape[1]
    for i in range(n):
        rows[i, i] -= 1.0
        if ended[i]:
            rows[i] += gamma * start
        else:
            first = n + n_actions * i
            rows[i, first : first + n_actions] += gamma * following.weights[i]
    b = (1 - gamma) * start
    K = kernel(every, every)
    return rows @ K @ rows.T, rows @ K @ b, b @ K @ b


def information_form(gram, cross, prior, reward, price, value_prior=None):
    """Mean and sd of (ratio, value) from the sum of the two quadratic forms' matrices."""
    n = len(gram)
    inverse = np.linalg.inv(prior)
    precision = inverse + price * gram / n**2
    right = inverse @ np.ones(n) - price * cross / n
    if value_prior is None:
        covariance = np.linalg.inv(precision)
        mean = covariance @ right
        both = np.vstack([np.eye(n), reward / n])
        return both @ mean, np.sqrt(np.diagonal(both @ covariance @ both.T))
    center, scale = value_prior
    row = np.append(reward / n, -1.0)
    joint = np.zeros((n + 1, n + 1))
    joint[:n, :n] = precision
    joint[n, n] = scale**-2
    joint += price * np.outer(row, row)
    covariance = np.linalg.inv(joint)
    return covariance @ np.append(right, center / scale**2), np.sqrt(np.diagonal(covariance))


# --- The linear model ----------------------------------------------------------------------------


def tabular_process(prepared, j, wrap, *, gamma, restart):
    """The same problem, one-hot features given as kernels over (state, action) points."""
    pairs, mask = prepared.pairs, prepared.rows.mask
    logs = prepared.logs
    n_states, n_actions = len(logs.state_labels), 2
    code = np.full((n_states, n_actions), -1)
    code[pairs.state, pairs.action] = np.arange(len(pairs.state))
    target = np.zeros((n_states, n_actions))
    target[pairs.state, pairs.action] = prepared.candidates.target[j]

    def one_hot(x):
        where = jnp.asarray(code)[x[:, 0].astype(int), x[:, 1].astype(int)]
        return jax.nn.one_hot(where, len(pairs.state), dtype=x.dtype)

    def everywhere(states):
        actions = np.broadcast_to(np.arange(n_actions), (len(states), n_actions))
        states = np.broadcast_to(states[:, None], actions.shape)
        return np.stack([states, actions], axis=-1).astype(float)

    following, starts = logs.next_state[mask], logs.initial_state
    return process_moments(
        wrap(linear(one_hot)),
        wrap(linear(one_hot, sd=10.0)),
        np.stack([pairs.state, pairs.action], axis=1)[pairs.of_row].astype(float),
        PolicyPoints(everywhere(following), target[following]),
        PolicyPoints(everywhere(starts), target[starts]),
        logs.reward[mask],
        logs.terminated[mask],
        gamma=gamma,
        restart=restart,
        # One-hot features sum to 1, so that below gamma = 1 they imply it.
        normalized=gamma == 1.0,
    )


@pytest.mark.parametrize("wrap", [lambda kernel: kernel, sum_of], ids=["features", "kernel"])
@pytest.mark.parametrize(
    ("gamma", "termination"),
    [(0.0, "restart"), (0.9, "restart"), (0.9, "absorb"), (1.0, "restart")],
)
def test_with_one_hot_features_it_is_the_tabular_model(plain, gamma, termination, wrap):
    logs, policies = plain.log(3), plain.policies(1, 2)
    options = {"gamma": gamma, "on_termination": termination, "inference": "exact"}
    paper = bd.prepare(logs, policies, preset="paper", **options)
    assert paper.candidates.active.all()
    tied, untied = (
        bd.prepare(logs, policies, small_sample=False, value_constraint=tie, **options)
        for tie in (True, False)
    )
    cases = [
        ("squared", True, paper),
        ("squared", False, paper),
        ("mahalanobis", True, tied),
        ("mahalanobis", False, untied),
    ]
    for j in range(2):
        moments = tabular_process(paper, j, wrap, gamma=gamma, restart=termination == "restart")
        for penalty, value_constraint, prepared in cases:
            expected_moments, constraint, _ = prepared.problem.of(j)
            metric = prepared.problem.pilots.covariance[j]
            if penalty == "squared":
                metric = np.eye(len(metric))
            with jax.enable_x64(True):
                expected = exact_posterior(
                    expected_moments, metric, constraint.price, value_constraint=value_constraint
                )
                expected_sd = np.asarray(expected.sd)
            found = process_posterior(
                moments,
                float(constraint.price),
                penalty=penalty,
                value_constraint=value_constraint,
                ridge=0.0,
            )
            at = np.append(prepared.pairs.of_row, -1)
            np.testing.assert_allclose(found.mean, expected.mean[at], rtol=0, atol=1e-8)
            np.testing.assert_allclose(found.sd, expected_sd[at], rtol=0, atol=1e-8)


# --- Brute force ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value_constraint", [True, False])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_thirty_transitions_by_brute_force(gamma, value_constraint):
    data, _ = continuous_log(0)
    price = 300.0
    moments = process_moments(
        matern(0.5, 1.0), matern(0.5, 2.0, 3.0), *data, gamma=gamma, normalized=False
    )
    found = process_posterior(moments, price, value_constraint=value_constraint)
    gram, cross, _ = plain_gram(data, gamma, laplace_gram)
    reward = data[3]
    value_prior = (reward.mean(), 10 * reward.std()) if value_constraint else None
    prior = laplace_gram(data[0], data[0], 2.0, 3.0)
    mean, sd = information_form(gram, cross, prior, reward, price, value_prior)
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.sd, sd, rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.diagonal(found.covariance), sd**2, rtol=0, atol=1e-8)
    # The data say something: the ratio is no longer the prior's.
    assert (sd[:-1] < 0.9 * 3.0).all()
    assert np.abs(mean[:-1] - 1.0).max() > 0.3


def test_normalization_row_by_brute_force():
    data, _ = continuous_log(1)
    n, price = len(data[0]), 300.0
    moments = process_moments(matern(0.5, 1.0), matern(0.5, 2.0, 3.0), *data, gamma=0.9)
    found = process_posterior(moments, price, value_constraint=False)
    gram, cross, _ = plain_gram(data, 0.9, laplace_gram)
    prior = laplace_gram(data[0], data[0], 2.0, 3.0)
    # |g|^2 + (mean - 1)^2: one more feature, whose D_i are 1 and whose b is -1.
    mean, sd = information_form(gram + 1.0, cross - 1.0, prior, data[3], price)
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.sd, sd, rtol=0, atol=1e-8)
    assert abs(mean[:n].mean() - 1.0) < 0.2


def few_features(x):
    """No constant: with it, Sigma of a ratio of one would be singular."""
    return jnp.stack([x[:, 0], x[:, 0] ** 2, x[:, 1], x[:, 0] * x[:, 1]], axis=1)


def plain_covariance(terms, ratio, starts, entry, gamma, episode):
    """Sigma, one transition or one episode at a time."""
    n, m = len(terms), len(starts)
    weighted = ratio[:, None] * terms
    c0 = 1 - gamma + np.mean(ratio * entry)
    centered = np.column_stack([c0 * (starts - starts.mean(axis=0)), np.zeros(m)])
    total = np.zeros((terms.shape[1],) * 2)
    if episode is None:
        for row in weighted - weighted.mean(axis=0):
            total += np.outer(row, row) / n
        for row in centered:
            total += n / m * np.outer(row, row) / m
        return total
    for e in range(m):
        psi = centered[e].copy()
        for row in (weighted - weighted.mean(axis=0))[episode == e]:
            psi += m / n * row
        total += n / m * np.outer(psi, psi) / m
    return total


@pytest.mark.parametrize("ridge", [0.0, 5.0])
@pytest.mark.parametrize("by_episode", [False, True])
def test_mahalanobis_by_brute_force(by_episode, ridge):
    data, episode = continuous_log(2, n=40, m=12)
    points, following, initial, reward, ended = data
    episode, gamma, n = episode if by_episode else None, 0.9, len(points)
    found = process_posterior(
        process_moments(
            sum_of(linear(few_features)),
            matern(0.5, 2.0, 3.0),
            *data,
            gamma=gamma,
            normalized=False,
        ),
        float(n),
        penalty="mahalanobis",
        episode=episode,
        ridge=ridge,
    )

    def at_policy(there):
        flat = np.asarray(few_features(there.points.reshape(-1, 2).astype(float)))
        return np.einsum("nl,nld->nd", there.weights, flat.reshape(*there.weights.shape, -1))

    with jax.enable_x64(True):
        phi, phi_next, phi0 = (
            np.asarray(few_features(points)),
            at_policy(following),
            at_policy(initial),
        )
    D = gamma * np.where(ended[:, None], phi0.mean(axis=0), phi_next) - phi
    terms = np.column_stack([D, reward])
    prior = laplace_gram(points, points, 2.0, 3.0)
    mean0 = np.append(np.ones(n), reward.mean())
    P0 = np.zeros((n + 1, n + 1))
    P0[:n, :n], P0[n, n] = prior, 100 * reward.var()
    G = np.column_stack([terms.T / n, [0, 0, 0, 0, -1]])
    c = np.append((1 - gamma) * phi0.mean(axis=0), 0.0)
    ratio = np.ones(n)
    for _ in range(2):
        sigma = plain_covariance(terms, ratio, phi0, gamma * ended, gamma, episode)
        sigma += ridge / n * np.diag([1, 1, 1, 1, 0])
        precision = np.linalg.inv(P0) + n * G.T @ np.linalg.inv(sigma) @ G
        covariance = np.linalg.inv(precision)
        right = np.linalg.inv(P0) @ mean0 - n * G.T @ np.linalg.inv(sigma) @ c
        mean = covariance @ right
        ratio = mean[:n]
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.sd, np.sqrt(np.diagonal(covariance)), rtol=0, atol=1e-6)


def test_covariance_is_of_the_residual_over_repeated_logs():
    """Logs of one step an episode, at a given ratio: the spread of the residual itself."""
    kernel = linear(lambda x: jnp.stack([jnp.sin(x[:, 0]), x[:, 1]], axis=1))
    gamma, n, n_logs = 0.6, 50, 2000
    rng = np.random.default_rng(0)
    residuals = []
    for _ in range(n_logs):
        # The coordinates are rotated from log to log, and these are not: no library here.
        state, action, following = rng.normal(size=(3, n))
        ratio = 1 + 0.5 * np.tanh(state)
        phi, ahead = (np.column_stack([np.sin(s), np.tanh(s)]) for s in (state, following))
        phi[:, 1] = action
        start = np.column_stack([np.sin(state), np.tanh(state)])
        D = gamma * ahead - phi
        residuals.append(np.mean(ratio[:, None] * D, axis=0) + (1 - gamma) * start.mean(axis=0))
    spread = n * np.cov(np.array(residuals).T)

    big = 20_000
    state, action, following = rng.normal(size=(3, big))
    at = lambda s: PolicyPoints(  # noqa: E731
        np.column_stack([s, np.tanh(s)])[:, None], np.ones((len(s), 1))
    )
    moments = process_moments(
        kernel,
        kernel,
        np.column_stack([state, action]),
        at(following),
        at(state),
        np.zeros(big),
        np.zeros(big),
        gamma=gamma,
        normalized=False,
    )
    with jax.enable_x64(True):
        ratio = 1 + 0.5 * np.tanh(state)
        found = np.asarray(process_covariance(moments, ratio, np.arange(big)))[:2, :2]
    # Rotations keep the eigenvalues, whose relative error is sqrt(2 / logs).
    error = np.sqrt(2.0 / n_logs)
    values = np.linalg.eigvalsh(found) / np.linalg.eigvalsh(spread)
    np.testing.assert_allclose(values, 1.0, atol=5 * error)


# --- Low rank ------------------------------------------------------------------------------------


def test_nystrom_with_all_points_is_the_process():
    data, _ = continuous_log(3)
    every = np.concatenate([data[0], *data[1].points, *data[2].points])
    test, prior = squared_exponential(1.0), squared_exponential(1.0, 3.0)
    low = (linear(nystrom(test, every)), linear(nystrom(prior, data[0])))
    new = np.random.default_rng(0).normal(size=(5, 2))
    for penalty in ("squared", "mahalanobis"):
        found = []
        for kernels in ((test, prior), low):
            moments = process_moments(*kernels, *data, gamma=0.9)
            posterior = process_posterior(moments, 30.0, penalty=penalty)
            at_new = predict_ratio(moments, posterior, kernels[1], data[0], new)
            found.append((posterior.mean, posterior.sd, at_new.mean))
        for full, one in zip(*found, strict=True):
            np.testing.assert_allclose(one, full, rtol=0, atol=1e-6)


def test_fourier_features_approach_the_process():
    data, _ = continuous_log(4)
    test, prior = squared_exponential(1.0), matern(1.5, 1.0, 2.0)
    full = process_posterior(process_moments(test, prior, *data, gamma=0.9), 30.0)
    error = []
    for count in (50, 800, 12_800):
        far = []
        for seed in range(2):
            keys = jax.random.split(jax.random.key(seed))
            low = [
                linear(random_fourier(kernel, count, 2, key))
                for kernel, key in zip((test, prior), keys, strict=True)
            ]
            moments = process_moments(*map(sum_of, low), *data, gamma=0.9)
            one = process_posterior(moments, 30.0)
            far.append(np.sqrt(np.mean((one.mean - full.mean) ** 2)))
        error.append(np.mean(far))
    # 1 / sqrt(features): a factor of 4 each time.
    assert error[0] > 2.5 * error[1] > 2.5**2 * error[2]
    assert error[2] < 0.02


# --- Elsewhere -----------------------------------------------------------------------------------


def test_prediction_at_new_points_is_the_conditional_of_the_process():
    data, _ = continuous_log(5)
    points, prior = data[0], matern(0.5, 2.0, 3.0)
    moments = process_moments(matern(0.5, 1.0), prior, *data, gamma=0.9)
    posterior = process_posterior(moments, 30.0)
    new = np.concatenate([np.random.default_rng(1).normal(size=(4, 2)), points[:2]])
    found = predict_ratio(moments, posterior, prior, points, new)
    here, across, there = (
        laplace_gram(a, b, 2.0, 3.0) for a, b in ((points, points), (new, points), (new, new))
    )
    A = across @ np.linalg.inv(here)
    ratio, covariance = posterior.mean[:-1], posterior.covariance[:-1, :-1]
    np.testing.assert_allclose(found.mean, 1 + A @ (ratio - 1), rtol=0, atol=1e-8)
    expected = there - A @ across.T + A @ covariance @ A.T
    np.testing.assert_allclose(found.covariance, expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.sd[-2:], posterior.sd[:2], rtol=0, atol=1e-6)
    far = predict_ratio(moments, posterior, prior, points, np.full((1, 2), 1e3))
    np.testing.assert_allclose([far.mean[0], far.sd[0]], [1.0, 3.0], rtol=1e-9)


def test_prediction_of_a_process_with_features_needs_them():
    data, _ = continuous_log(5)
    moments = process_moments(matern(0.5, 1.0), linear(few_features), *data, gamma=0.9)
    posterior = process_posterior(moments, 30.0)
    found = predict_ratio(moments, posterior, linear(few_features), data[0], data[0])
    np.testing.assert_allclose(found.mean, posterior.mean[:-1], rtol=1e-9)
    with pytest.raises(SettingsError, match="linear kernel"):
        predict_ratio(moments, posterior, matern(0.5, 1.0), data[0], data[0])


@pytest.mark.parametrize(
    ("options", "word"),
    [({"penalty": "huber"}, "penalty"), ({"price": 0.0}, "price"), ({"ridge": -1.0}, "ridge")],
)
def test_impossible_settings_are_refused(options, word):
    moments = process_moments(matern(0.5, 1.0), matern(0.5, 1.0), *continuous_log(0)[0], gamma=0.9)
    with pytest.raises(SettingsError, match=word):
        process_posterior(moments, **{"price": 30.0, **options})


# --- Known values --------------------------------------------------------------------------------


def bandit(seed, n=300):
    """Contexts in [-1, 1], two arms pulled evenly; a target that prefers one on each side."""
    rng = np.random.default_rng(seed)
    state, arm = rng.uniform(-1, 1, size=n), rng.integers(2, size=n)

    def mean_reward(s, a):
        return np.where(a == 1, np.sin(3 * s), 0.5 * s)

    def target(s):
        return 1 / (1 + np.exp(-4 * s))

    grid = (np.arange(100_000) + 0.5) / 50_000 - 1
    truth = np.mean(target(grid) * mean_reward(grid, 1) + (1 - target(grid)) * mean_reward(grid, 0))
    both = np.stack([np.column_stack([state, np.full(n, a)]) for a in (0.0, 1.0)], axis=1)
    chosen = np.column_stack([1 - target(state), target(state)])
    reward = mean_reward(state, arm) + 0.5 * rng.normal(size=n)
    points = np.column_stack([state, arm]).astype(float)
    taken = np.where(arm == 1, target(state), 1 - target(state))
    return (points, None, PolicyPoints(both, chosen), reward, np.zeros(n)), truth, 2 * taken


@pytest.mark.parametrize("penalty", ["squared", "mahalanobis"])
@pytest.mark.parametrize("make", [squared_exponential, lambda scale, sd: matern(1.5, scale, sd)])
def test_value_and_ratio_of_a_bandit_with_contexts(make, penalty):
    for seed in range(2):
        data, truth, ratio = bandit(seed)
        moments = process_moments(make((1.0, 0.5), 1.0), make((1.0, 0.5), 2.0), *data, gamma=0.0)
        found = process_posterior(moments, 300.0, penalty=penalty)
        assert abs(found.mean[-1] - truth) < 4 * found.sd[-1]
        # A belief that says something: the rewards' mean alone is known to 0.05.
        assert found.sd[-1] < 0.2
        prior_error = np.sqrt(np.mean((ratio - 1) ** 2))
        assert np.sqrt(np.mean((found.mean[:-1] - ratio) ** 2)) < 0.5 * prior_error


SMOOTH = matern(1.5, (1.0, 0.5))
PLACES = np.stack(np.meshgrid(np.linspace(-1, 1, 8), [0.0, 1.0]), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(lambda: linear(nystrom(SMOOTH, PLACES)), id="nystrom"),
        # Every log has another rank, and is compiled anew.
        pytest.param(lambda: SMOOTH, id="full", marks=pytest.mark.slow),
    ],
)
def test_values_of_the_bandit_scatter_as_the_belief_says(kernel):
    z, test = [], kernel()
    for seed in range(60):
        data, truth, _ = bandit(seed, n=150)
        moments = process_moments(test, linear(nystrom(SMOOTH, PLACES), sd=3.0), *data, gamma=0.0)
        found = process_posterior(moments, 150.0, penalty="mahalanobis")
        z.append((found.mean[-1] - truth) / found.sd[-1])
    # Mean square 1 with relative error sqrt(2 / 60).
    assert abs(np.mean(np.square(z)) - 1.0) < 4 * np.sqrt(2 / 60)


def test_sigma_alone_forgets_what_a_rich_kernel_cannot_know():
    """Guards the ridge: without it some function of the kernel fits all the noise."""
    data, _, _ = bandit(0, n=150)
    kernel = matern(0.5, 1.0)
    moments = process_moments(kernel, matern(0.5, 1.0, 3.0), *data, gamma=0.0)
    with_ridge, without = (
        process_posterior(moments, 150.0, penalty="mahalanobis", ridge=ridge).sd[-1]
        for ridge in (1.0, 0.0)
    )
    # What the noise of the rewards alone leaves: 0.5 / sqrt(150) at a ratio of one.
    assert with_ridge > 0.5 / np.sqrt(150)
    assert without < 0.1 * 0.5 / np.sqrt(150)


def chain(seed, gamma, n_episodes=40, n_steps=20, up=0.65):
    """s' = 0.7 s + 0.4 a + 0.2 noise, a = +-1, r = s^2 + 0.3 a + 0.3 noise; an exact value."""
    rng = np.random.default_rng(seed)
    state = np.zeros((n_episodes, n_steps + 1))
    state[:, 0] = 0.5 * rng.normal(size=n_episodes)
    action = rng.choice([-1.0, 1.0], size=(n_episodes, n_steps))
    for t in range(n_steps):
        noise = 0.2 * rng.normal(size=n_episodes)
        state[:, t + 1] = 0.7 * state[:, t] + 0.4 * action[:, t] + noise
    here, ahead = state[:, :-1].ravel(), state[:, 1:].ravel()
    reward = here**2 + 0.3 * action.ravel() + 0.3 * rng.normal(size=here.size)

    first, second, truth, drift = 0.0, 0.25, 0.0, 2 * up - 1
    for t in range(3000):
        truth += (1 - gamma) * gamma**t * (second + 0.3 * drift)
        second = 0.49 * second + 2 * 0.7 * 0.4 * drift * first + 0.16 + 0.04
        first = 0.7 * first + 0.4 * drift

    def everywhere(s):
        points = np.stack([np.column_stack([s, np.full(len(s), a)]) for a in (-1.0, 1.0)], axis=1)
        return PolicyPoints(points, np.tile([1 - up, up], (len(s), 1)))

    data = (
        np.column_stack([here, action.ravel()]),
        everywhere(ahead),
        everywhere(state[:, 0]),
        reward,
        np.zeros(here.size),
    )
    return data, truth, np.repeat(np.arange(n_episodes), n_steps)


def quadratic(x):
    """The action value of the chain is among these."""
    s, a = x[:, 0], x[:, 1]
    return jnp.stack([jnp.ones_like(s), s, s**2, a, s * a], axis=1)


@pytest.mark.parametrize(
    ("test", "penalty", "by_episode"),
    [
        (linear(quadratic), "mahalanobis", False),
        (linear(quadratic), "mahalanobis", True),
        (squared_exponential(1.0), "mahalanobis", False),
        (squared_exponential(1.0), "mahalanobis", True),
        (squared_exponential(1.0), "squared", False),
    ],
)
def test_value_of_a_linear_gaussian_chain(test, penalty, by_episode):
    for seed in range(2):
        data, truth, episode = chain(seed, 0.9)
        moments = process_moments(test, squared_exponential(1.0, 3.0), *data, gamma=0.9)
        found = process_posterior(
            moments, 800.0, penalty=penalty, episode=episode if by_episode else None
        )
        assert abs(found.mean[-1] - truth) < 4 * found.sd[-1]
        # The behavior's own value is far off, in these units.
        assert found.sd[-1] < 0.25


@pytest.mark.slow
def test_two_thousand_transitions_take_less_than_twenty_seconds():
    rng = np.random.default_rng(0)
    n, n_actions, m, p = 2000, 8, 100, 5

    def somewhere(count):
        return PolicyPoints(
            rng.normal(size=(count, n_actions, p)), rng.dirichlet(np.ones(n_actions), size=count)
        )

    data = (
        rng.normal(size=(n, p)),
        somewhere(n),
        somewhere(m),
        rng.normal(size=n),
        rng.random(n) < 0.02,
    )
    start = time.perf_counter()
    moments = process_moments(
        squared_exponential(1.0), squared_exponential(2.0, 3.0), *data, gamma=0.95
    )
    found = process_posterior(moments, float(n))
    assert time.perf_counter() - start < 20.0
    assert np.isfinite(found.sd).all()
    assert (found.sd[:-1] < 3.0).all()
