"""Surrogates against what they bound, against each other, and by finite differences."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from bayesdice_ppl import surrogates
from bayesdice_ppl.constraint.surrogates import surrogate_choice
from bayesdice_ppl.errors import SettingsError

draws = arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 20.0, allow_subnormal=False))
ALL = (surrogates.markov(), surrogates.cvar(), surrogates.bernstein(), surrogates.cdf())


def brute_force_cvar(x):
    """Over a fine grid of levels, below zero too."""
    levels = np.concatenate(
        [np.linspace(0.0, 0.999, 4000), x[(x >= 0) & (x < 1)], -np.geomspace(1e-3, 1e9, 300)]
    )
    return min(np.mean(np.maximum(x - t, 0.0)) / (1.0 - t) for t in levels)


@settings(max_examples=200, deadline=None)
@given(draws)
def test_the_bounds_are_in_order(x):
    probability = np.mean(x > 1.0)
    markov, cvar, bernstein, cdf = (surrogate.bound(x) for surrogate in ALL)
    assert cdf == probability
    assert probability <= cvar + 1e-12
    assert cvar <= min(1.0, x.mean(), bernstein) + 1e-6
    assert markov == min(1.0, x.mean())


@settings(max_examples=60, deadline=None)
@given(draws)
def test_the_best_level_of_the_conditional_value_at_risk(x):
    assert surrogates.cvar().bound(x) == pytest.approx(brute_force_cvar(x), abs=1e-6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(draws)
def test_the_best_level_of_bernstein(x):
    def log_bound(log_level):
        return logsumexp((x - 1.0) / np.exp(log_level)) - np.log(x.size)

    grid = min(log_bound(level) for level in np.linspace(-8.0, 8.0, 1000))
    found = surrogates.bernstein().bound(x)
    assert found == pytest.approx(math.exp(min(0.0, grid)), rel=1e-3, abs=1e-30)


@settings(max_examples=30, deadline=None)
@given(draws)
def test_level_zero_is_markovs(x):
    with jax.enable_x64(True):
        np.testing.assert_allclose(surrogates.cvar(0.0).cost(jnp.asarray(x), 0.0), x)
    assert surrogates.cvar(0.0).bound(x) == pytest.approx(min(1.0, x.mean()))


@pytest.mark.parametrize("surrogate", ALL, ids=str)
def test_gradients_by_finite_differences(surrogate):
    """Of the mean over a Gaussian q of a quadratic loss, in q's mean, spread and the level."""
    normal = np.random.default_rng(0).normal(size=400)

    def objective(theta):
        mean, spread, level = theta
        excess = (mean + jnp.exp(spread) * normal) ** 2
        return jnp.mean(surrogate.cost(excess, level))

    with jax.enable_x64(True):
        at = np.array([0.4, -0.5, 0.37])
        gradient = jax.grad(objective)(at)
        for i in range(3):
            step = np.zeros(3)
            step[i] = 1e-6
            slope = (objective(at + step) - objective(at - step)) / 2e-6
            # The kink of the conditional value at risk lies within the step for no draw here.
            assert gradient[i] == pytest.approx(float(slope), rel=1e-5, abs=1e-8)


def test_costs_bound_the_step():
    x = np.linspace(0.0, 5.0, 501)
    step = (x > 1.0).astype(float)
    for surrogate, levels in (
        (surrogates.markov(), [0.0]),
        (surrogates.cvar(), [0.0, 0.3, 0.9]),
        (surrogates.bernstein(), [0.1, 1.0, 5.0]),
    ):
        for level in levels:
            assert np.all(np.asarray(surrogate.cost(x, level)) >= step - 1e-6)


def test_bernsteins_cost_stays_finite_convex_and_above_one():
    x = np.concatenate([np.linspace(0.0, 120.0, 2000), np.geomspace(121.0, 1e6, 50)])
    with jax.enable_x64(True):
        cost = np.asarray(surrogates.bernstein(1.0).cost(jnp.asarray(x), 1.0))
        slope = np.asarray(jax.vmap(jax.grad(surrogates.bernstein(1.0).cost), (0, None))(x, 1.0))
    near = x < 50.0
    np.testing.assert_allclose(cost[near], np.exp(x[near] - 1.0), rtol=1e-12)
    assert np.all(np.diff(slope) >= 0)
    assert np.all(slope < 1e22)


def test_the_conditional_value_at_risk_against_scipys_search():
    x = np.random.default_rng(1).chisquare(3, size=5000) / 6
    found = minimize_scalar(
        lambda t: np.mean(np.maximum(x - t, 0.0)) / (1.0 - t), bounds=(0.0, 0.999), method="bounded"
    )
    assert surrogates.cvar().bound(x) == pytest.approx(found.fun, rel=1e-6)
    tight = surrogates.cvar(float(found.x)).bound(x)
    assert tight == pytest.approx(found.fun, rel=1e-9)


@pytest.mark.parametrize(
    "text", ["markov", "cvar", "cvar(0.3)", "bernstein", "bernstein(2)", "cdf", "cdf(0.05)"]
)
def test_a_choice_reads_back_from_its_text(text):
    choice = surrogate_choice(text)
    assert str(choice) == text
    assert surrogate_choice(str(choice)) == choice
    assert surrogate_choice(choice) is choice
    assert hash(choice) == hash(surrogate_choice(text))


@pytest.mark.parametrize(
    "text",
    ["hoeffding", "cvar(1)", "cvar(-0.1)", "bernstein(0)", "markov(1)", "cvar(x)", "cdf(nan)", 3],
)
def test_what_is_no_surrogate_is_refused(text):
    with pytest.raises(SettingsError, match="surrogate"):
        surrogate_choice(text)
