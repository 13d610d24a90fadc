"""The normalization as a chance constraint of its own, against a plain quadratic form."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.constraint import Normalization
from bayesdice_ppl.fitting import fit_flat
from bayesdice_ppl.simulation import make_world
from tests.marks import slow

KEY = jax.random.key(3)
WORLD = make_world("garnet", alpha=0.3, candidates=(0.6, 0.9), n_states=4, n_actions=2)
LOGS = bd.simulate(WORLD.env, WORLD.behavior, 40, 50, rng_key=jax.random.key(0))
OWN = Normalization(lam=0.5, epsilon=0.002)


def fitted(gamma=1.0, **given):
    given = {"inference": "exact", "draws": 2000, "small_sample": False, **given}
    return fit_flat(LOGS, WORLD.candidates, gamma=gamma, rng_key=KEY, **given)


def mass(belief):
    """Draws of mean_i zeta_i, shape (S, N)."""
    share = belief["constant_data/pair_count"].values / LOGS.n_transitions
    return belief["posterior/weights"].values[0] @ share


@pytest.mark.parametrize("gamma", [0.9, slow(1.0)])
@pytest.mark.parametrize("penalty", ["mahalanobis", slow("squared")])
def test_the_closed_form_is_the_sum_of_two_quadratic_forms(plain, gamma, penalty):
    choices = {"penalty": penalty, "normalization": OWN, "inference": "exact"}
    if penalty == "mahalanobis":
        choices["small_sample"] = False
    prepared = plain.prepare(LOGS, WORLD.candidates, gamma=gamma, **choices)
    known = fit_flat(LOGS, WORLD.candidates, gamma=gamma, rng_key=KEY, draws=2, **choices)
    n = LOGS.n_transitions
    for j in range(2):
        ratio, _, _ = prepared.problem.of(j)
        sigma = np.asarray(prepared.problem.pilots.covariance[j])
        rows = [i for i in range(len(sigma)) if i != len(sigma) - 2]
        matrix, offset = np.asarray(ratio.matrix), np.asarray(ratio.moments.offset)
        if penalty == "mahalanobis":
            main = np.linalg.pinv(sigma[np.ix_(rows, rows)], rcond=1e-11, hermitian=True)
            spread = sigma[-2, -2]
            assert np.linalg.matrix_rank(matrix[rows]) <= len(rows)
        else:
            main, spread = np.eye(len(rows)), 1.0
        price = n
        precision = np.diag(1.0 / np.asarray(ratio.prior_scale) ** 2)
        linear = precision @ np.asarray(ratio.prior_mean)
        precision = precision + price * matrix[rows].T @ main @ matrix[rows]
        linear = linear - price * matrix[rows].T @ main @ offset[rows]
        own = OWN.lam / OWN.epsilon / spread
        precision += own * np.outer(matrix[-2], matrix[-2])
        linear -= own * matrix[-2] * offset[-2]
        if penalty == "mahalanobis" and np.linalg.matrix_rank(
            sigma[np.ix_(rows, rows)], tol=1e-11
        ) < np.linalg.matrix_rank(np.c_[sigma[rows][:, rows], matrix[rows]], tol=1e-11):
            pytest.fail("an exact constraint: the quadratic form loses it, choose another world")
        covariance = np.linalg.inv(precision)
        mean = covariance @ linear
        assert known["constant_data/guide_mean"][j] == pytest.approx(mean[-1], rel=1e-4)
        assert known["constant_data/guide_sd"][j] == pytest.approx(
            np.sqrt(covariance[-1, -1]), rel=1e-3
        )


def test_a_high_price_makes_it_hold_and_a_low_one_leaves_it_to_the_others():
    tight = fitted(normalization=Normalization(lam=1e6, epsilon=0.001))
    free = fitted(normalization=Normalization(lam=1e-8, epsilon=0.001))
    assert mass(tight).std(axis=0).max() < 1e-3
    np.testing.assert_allclose(mass(tight).mean(axis=0), 1.0, atol=1e-3)
    # At gamma = 1 nothing else says how much mass there is: the prior's spread is left.
    assert mass(free).std(axis=0).min() > 1.0
    assert tight["constant_data/normalization_probability"].values.min() > 0.999
    assert free["constant_data/normalization_probability"].values.max() < 0.5


def test_by_default_it_is_calibrated_like_the_rest():
    own = fitted(normalization=True)["constant_data"]
    row = fitted()["constant_data"]
    # Only the correlation of its noise with the other rows' is given up.
    assert np.all(np.abs(own["guide_mean"] - row["guide_mean"]) < row["guide_sd"])
    np.testing.assert_allclose(own["guide_sd"], row["guide_sd"], rtol=0.5)
    assert own["normalization_lam"].values == pytest.approx(
        LOGS.n_transitions * own["normalization_epsilon"].values
    )


@pytest.mark.slow
def test_all_engines_find_the_same():
    exact = fitted(normalization=OWN)["constant_data"]
    svi = fitted(normalization=OWN, inference="svi")["constant_data"]
    nuts = fitted(normalization=OWN, inference="nuts")["constant_data"]
    sd = exact["guide_sd"].values
    assert np.all(np.abs(svi["guide_mean"].values - exact["guide_mean"].values) < 0.05 * sd)
    np.testing.assert_allclose(svi["guide_sd"].values, sd, rtol=0.03)
    error = sd / np.sqrt(nuts["effective_draws"].values)
    assert np.all(np.abs(nuts["guide_mean"].values - exact["guide_mean"].values) < 5 * error)
    np.testing.assert_allclose(
        svi["normalization_probability"], exact["normalization_probability"], atol=0.06
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: "yes", "expected True"),
        (lambda: Normalization(lam=-1.0), "normalization.lam"),
        (lambda: Normalization(xi=1.0), "normalization.xi"),
    ],
)
def test_wrong_choices_are_refused(given, message):
    with pytest.raises(bd.errors.SettingsError, match=message):
        fitted(normalization=given())
