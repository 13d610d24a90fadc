"""A searched price: the chance constraint holds, and only just."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import fit_flat
from bayesdice_ppl.simulation import make_world
from tests.marks import slow

KEY = jax.random.key(5)
WORLD = make_world("garnet", alpha=0.3, candidates=(0.6, 0.9), n_states=5, n_actions=2)
LOGS = bd.simulate(WORLD.env, WORLD.behavior, 60, 50, rng_key=jax.random.key(0))


def fitted(**given):
    return fit_flat(LOGS, WORLD.candidates, gamma=0.9, rng_key=KEY, **given)["constant_data"]


@pytest.mark.parametrize("inference", ["exact", slow("svi")])
@pytest.mark.parametrize("xi", [slow(0.7), 0.98])
def test_the_constraint_holds_at_the_searched_price_and_no_lower(inference, xi):
    found = fitted(inference=inference, lam="search", xi=xi, epsilon=0.004)
    assert np.all(found["constraint_probability"].values >= xi)
    assert np.all(found["constraint_probability"].values < xi + 0.01)
    lower = fitted(
        inference=inference, lam=float(found["lam"].values.min()) / 1.3, xi=xi, epsilon=0.004
    )
    assert lower["constraint_probability"].values.min() < xi
    given = fitted(inference=inference, lam=float(found["lam"].values[0]), xi=xi, epsilon=0.004)
    np.testing.assert_allclose(given["guide_sd"][0], found["guide_sd"][0], rtol=1e-6)


def test_a_higher_price_narrows_the_belief():
    wide, narrow = (
        fitted(inference="exact", lam="search", xi=xi, epsilon=0.004) for xi in (0.6, 0.99)
    )
    assert np.all(narrow["guide_sd"].values < wide["guide_sd"].values)
    assert np.all(narrow["lam"].values > wide["lam"].values)


def test_an_epsilon_that_no_ratio_meets_is_refused_by_name():
    with pytest.raises(SettingsError, match=r"lam='search', policy 'alpha_0.60'.*larger eps"):
        fitted(inference="exact", penalty="squared", lam="search", epsilon=1e-30)


def test_other_words_are_no_price():
    with pytest.raises(SettingsError, match="lam: expected a number above 0"):
        fitted(lam="find")
