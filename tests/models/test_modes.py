"""The mode of a ratio behind a link, against a general minimizer and against the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, root

from bayesdice_ppl.models.links import EXP
from bayesdice_ppl.models.modes import find_mode, linearized

RNG = np.random.default_rng(3)
ROWS, LATENT, POINTS = 6, 4, 40
BASIS = np.column_stack([np.ones(POINTS), RNG.normal(size=(POINTS, LATENT - 1))])
BY_RATIO = RNG.normal(size=(ROWS, POINTS)) / POINTS
OFFSET = RNG.normal(size=ROWS) * 0.3
ROOT = RNG.normal(size=(ROWS, ROWS)) * 0.1
NOISE = ROOT @ ROOT.T + 1e-3 * np.eye(ROWS)
MEAN = np.r_[1.0, np.zeros(LATENT - 1), 0.5]
SCALE = np.r_[np.full(LATENT, 0.8), 3.0]


def linear(latent):
    return BY_RATIO @ (BASIS @ latent) + OFFSET


def log_linear(latent):
    return BY_RATIO @ jnp.exp(BASIS @ latent - 1.0) + OFFSET


def cost(latent, residual):
    left = np.array(residual(latent[:-1]))
    left[-1] -= latent[-1]
    prior = (latent - MEAN) / SCALE
    return 0.5 * (left @ np.linalg.solve(NOISE, left) + prior @ prior)


@pytest.mark.parametrize("residual", [linear, log_linear])
@pytest.mark.parametrize("start", [MEAN, MEAN + 2.0])
def test_it_is_the_minimum_of_the_cost(residual, start):
    with jax.enable_x64(True):
        found = find_mode(residual, jax.jacfwd(residual), NOISE, MEAN, SCALE, jnp.asarray(start))
        expected = minimize(cost, MEAN, (residual,), method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(found.cost, expected.fun, rtol=1e-3)
        np.testing.assert_allclose(found.latent, expected.x, atol=2e-2)
        assert found.converged


def test_a_search_without_an_end_says_so():
    with jax.enable_x64(True):
        nowhere = jnp.full(LATENT + 1, jnp.nan)
        found = find_mode(linear, jax.jacfwd(linear), NOISE, MEAN, SCALE, nowhere)
    assert not found.converged


def test_of_a_linear_residual_it_is_the_closed_form_in_one_step():
    with jax.enable_x64(True):
        found = find_mode(linear, jax.jacfwd(linear), NOISE, MEAN, SCALE, jnp.asarray(MEAN))
    matrix = np.column_stack([BY_RATIO @ BASIS, -np.eye(ROWS)[:, -1]])
    precision = matrix.T @ np.linalg.solve(NOISE, matrix) + np.diag(SCALE**-2)
    right = np.diag(SCALE**-2) @ MEAN - matrix.T @ np.linalg.solve(NOISE, OFFSET)
    np.testing.assert_allclose(found.latent, np.linalg.solve(precision, right), rtol=1e-8)
    assert int(found.steps) <= 2


def test_an_exact_constraint_binds_and_a_redundant_row_drops_out():
    with jax.enable_x64(True):
        twice = np.r_[np.arange(ROWS - 1), 0, ROWS - 1]  # the first row once more
        doubled = NOISE[np.ix_(twice, twice)]

        def repeated(latent):
            return log_linear(latent)[twice]

        once = find_mode(
            log_linear, jax.jacfwd(log_linear), NOISE, MEAN, SCALE, jnp.asarray(MEAN)
        ).latent
        again = find_mode(
            repeated, jax.jacfwd(repeated), doubled, MEAN, SCALE, jnp.asarray(MEAN)
        ).latent
        np.testing.assert_allclose(again, once, atol=2e-2)
        exact = NOISE.copy()
        exact[1] = exact[:, 1] = 0.0
        bound = find_mode(
            log_linear, jax.jacfwd(log_linear), exact, MEAN, SCALE, jnp.asarray(MEAN)
        ).latent
        assert abs(float(log_linear(bound[:-1])[1])) < 1e-4 * float(abs(log_linear(MEAN[:-1])[1]))


def test_the_linear_form_touches_the_residual_at_the_point():
    point = jnp.asarray(MEAN + 0.3)
    with jax.enable_x64(True):
        matrix, offset = linearized(log_linear, jax.jacfwd(log_linear), point)
        expected = log_linear(point[:-1]).at[-1].add(-point[-1])
        np.testing.assert_allclose(matrix @ point + offset, expected, rtol=1e-12)


def test_a_mean_of_one_without_noise_is_kept_and_the_rest_is_what_a_constrained_search_finds():
    """The logging policy's own ratio: of the constant, Sigma is zero where the ratio is one."""
    rng = np.random.default_rng(5)
    n, k = 400, 3
    basis = np.column_stack([np.ones(n), rng.normal(size=(n, k))])
    reward = rng.normal(size=n)
    target = np.append(1.0, rng.normal(size=k) * 0.5)
    noise = np.diag(np.append(0.0, np.full(k + 1, 1.0 / n)))
    mean, scale = np.append(np.eye(k + 1)[0], 0.0), np.append(np.full(k + 1, 5.0), 100.0)

    def residual(weights):
        ratio = jnp.exp(basis @ weights - 1.0)
        return jnp.append(basis.T @ ratio / n - target, reward @ ratio / n)

    with jax.enable_x64(True):
        found = find_mode(residual, jax.jacfwd(residual), noise, mean, scale, jnp.asarray(mean))
    assert bool(found.converged)
    latent = np.asarray(found.latent)
    ratio = np.exp(basis @ latent[:-1] - 1.0)
    np.testing.assert_allclose(ratio.mean(), 1.0, atol=1e-8)

    def cost(latent):
        ratio = np.exp(basis @ latent[:-1] - 1.0)
        left = np.append((basis.T @ ratio / n - target)[1:], reward @ ratio / n - latent[-1])
        return 0.5 * (n * left @ left + np.sum(((latent - mean) / scale) ** 2))

    one = {"type": "eq", "fun": lambda latent: np.exp(basis @ latent[:-1] - 1.0).mean() - 1.0}
    oracle = minimize(cost, mean, constraints=[one], method="SLSQP", options={"ftol": 1e-14})
    assert oracle.success
    # Gauss-Newton and SLSQP stop at points whose costs agree; the mode is flat between them.
    np.testing.assert_allclose(cost(latent), oracle.fun, atol=2e-3)
    np.testing.assert_allclose(latent, oracle.x, atol=5e-3)


@pytest.mark.parametrize("xp", [np, jnp])
def test_few_weights_under_a_wide_prior_reach_their_mode(xp):
    """An exponential tilt: its weights solve the moment equations, known far better than a prior.

    The mean ratio has no noise at the start, and steps were damped in units of the prior only.
    """
    rng = np.random.default_rng(0)
    n = 500
    basis = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    target = np.array([1.0, 0.3, -0.4])
    rows = np.column_stack([basis, rng.normal(size=n)])
    noise = np.zeros((8, 8))
    own = np.r_[0, 1, 2, 7]
    noise[np.ix_(own, own)] = np.cov(rows.T) / n
    mean = np.array([1.0, 0.0, 0.0, 0.0])
    scale = np.array([6.0, 6.0, 6.0, 10.0])
    tests = np.zeros((8, n))
    tests[own] = rows.T / n
    offset = np.zeros(8)
    offset[:3] = -target

    def residual(weights):
        return xp.asarray(tests) @ xp.exp(xp.asarray(basis) @ weights - 1.0) + offset

    def jacobian(weights):
        ratio = xp.exp(xp.asarray(basis) @ weights - 1.0)
        return xp.asarray(tests) @ (ratio[:, None] * basis)

    with jax.enable_x64(True):
        given = [xp.asarray(each) for each in (noise, mean, scale, mean)]
        found = find_mode(residual, jacobian, *given)
    assert bool(found.converged)
    solved = root(lambda weights: basis.T @ np.exp(basis @ weights - 1.0) / n - target, mean[:3]).x
    sd = 1.0 / np.sqrt(n)
    np.testing.assert_allclose(np.asarray(found.latent)[:3], solved, atol=0.02 * sd)


@pytest.mark.parametrize("action_ratio", [1e-2, 1e-4, 1e-6])
def test_a_factor_beside_a_small_action_ratio_is_reached(action_ratio):
    # One point whose ratio is 1: rho exp(w - 1) = 1, and the value is the ratio times 0.5.
    def residual(latent):
        ratio = action_ratio * EXP.ratio(latent)
        return np.array([ratio[0] - 1.0, 0.5 * ratio[0]])

    def jacobian(latent):
        # By central differences: what a clip does to the link is seen by no formula.
        ends = [residual(latent + h) for h in (1e-6, -1e-6)]
        return ((ends[0] - ends[1]) / 2e-6)[:, None]

    noise = np.diag([1e-4, 1e-4])
    scale = np.array([100.0, 10.0])
    mode = find_mode(residual, jacobian, noise, np.array([1.0, 0.0]), scale, np.array([1.0, 0.0]))
    assert mode.converged
    # The prior pulls by (log(1 / rho) / 100) / 100 against a precision of 1e4.
    np.testing.assert_allclose(mode.latent[0], 1.0 - np.log(action_ratio), atol=1e-5)
    np.testing.assert_allclose(mode.latent[1], 0.5, atol=1e-4)
