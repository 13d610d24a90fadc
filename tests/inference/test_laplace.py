"""Laplace's approximation: the closed form where the ratio is linear, NUTS where it is not."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.errors import SettingsError
from tests.linear_world import GAMMA, POLICIES, chain_log

FEATURES = bd.features.polynomial(2)


def fitted(logs, **given):
    given = {"gamma": GAMMA, "rng_key": jax.random.key(0), "features": FEATURES, **given}
    return BeliefView(bd.fit(logs, POLICIES, **given))


def test_on_a_linear_ratio_it_is_the_closed_form():
    logs = chain_log(3, n_episodes=30, n_steps=10)
    exact = fitted(logs, inference="exact", draws=50)
    laplace = fitted(logs, inference="laplace", draws=50)
    np.testing.assert_array_equal(laplace.value, exact.value)
    np.testing.assert_array_equal(laplace.guide_sd, exact.guide_sd)


@pytest.mark.slow
def test_on_a_log_linear_ratio_it_agrees_with_nuts():
    logs = chain_log(4, n_episodes=60, n_steps=15)
    given = {"model": bd.models.linear("exp"), "features": bd.features.polynomial(1)}
    laplace = fitted(logs, inference="laplace", **given)
    nuts = fitted(logs, inference="nuts", draws=4000, **given)
    assert nuts.r_hat.max() < 1.05
    error = nuts.guide_sd / np.sqrt(nuts.effective_draws)
    # The posterior bends a little away from its tangent.
    assert np.all(np.abs(laplace.guide_mean - nuts.guide_mean) < 4.5 * error + 0.1 * nuts.guide_sd)
    np.testing.assert_allclose(laplace.guide_sd, nuts.guide_sd, rtol=0.15)


@pytest.mark.slow
def test_no_pilot_ratio_is_negative_and_the_constraint_is_met():
    logs = chain_log(5, n_episodes=40, n_steps=15)
    found = fitted(logs, inference="laplace", model=bd.models.linear("exp"), draws=200)
    assert np.all(found.negative_mass == 0.0)
    assert np.all(found.constraint_probability > 0.5)
    assert found.settings["inference"] == "laplace"


def test_what_has_no_closed_form_even_on_the_tangent_is_refused():
    logs = chain_log(5, n_episodes=12, n_steps=5)
    for constraint in (bd.Constraint(penalty="huber(1)"), bd.Constraint(surrogate="cvar(0.5)")):
        with pytest.raises(SettingsError, match="inference='laplace': expected a quadratic"):
            fitted(logs, inference="laplace", constraint=constraint)
    with pytest.raises(SettingsError, match="expected a fixed lam"):
        fitted(
            logs,
            inference="laplace",
            model=bd.models.linear("exp"),
            constraint=bd.Constraint(lam="search"),
        )
