"""Empirical likelihood against brute force and integration; laws that say where they apply."""

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid
from scipy.optimize import brentq, minimize
from scipy.special import ndtr

from bayesdice_ppl.constraint import Constraint, Curve
from bayesdice_ppl.constraint.empirical_likelihood import likelihood_curve, log_ratio
from bayesdice_ppl.constraint.value_laws import VALUE_LAWS, Empirical, value_law_choice
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import flat_settings

ITEMS = 15


@pytest.fixture(scope="module")
def errors():
    drawn = np.random.default_rng(0).exponential(size=ITEMS)
    return (drawn - drawn.mean()) / ITEMS


ONE = np.ones(ITEMS)


@pytest.mark.parametrize("distance", [-0.3, 0.05, 0.4, 1.0])
def test_the_log_ratio_is_that_of_the_best_weights(errors, distance):
    found = minimize(
        lambda w: -np.log(ITEMS * w).sum(),
        ONE / ITEMS,
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1.0},
            {"type": "eq", "fun": lambda w: w @ (ITEMS * errors) - distance},
        ],
        bounds=[(1e-9, 1.0)] * ITEMS,
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert found.success
    assert log_ratio(errors, ONE, distance) == pytest.approx(found.fun, rel=1e-6)


def test_no_weights_reach_beyond_the_errors(errors):
    for end in (ITEMS * errors.min(), ITEMS * errors.max()):
        assert np.isinf(log_ratio(errors, ONE, 1.001 * end))
        assert np.isfinite(log_ratio(errors, ONE, 0.999 * end))


def test_items_alike_may_be_counted_together(errors):
    three = np.repeat(errors, 3) / 3.0
    found = log_ratio(errors / 3.0, np.full(ITEMS, 3.0), 0.2)
    assert found == pytest.approx(log_ratio(three, np.ones(3 * ITEMS), 0.2), rel=1e-12)


def by_root(errors, distance):
    """Owen's log ratio by the root of its own equation for the multiplier."""
    psi = ITEMS * errors - distance
    ends = -1.0 / psi.max(), -1.0 / psi.min()
    room = 1e-9 * (ends[1] - ends[0])
    lam = brentq(lambda x: (psi / (1.0 + x * psi)).sum(), ends[0] + room, ends[1] - room)
    return np.log1p(lam * psi).sum()


@pytest.mark.parametrize("wider", [1.0, 1.4])
def test_quantiles_are_those_of_the_integrated_likelihood(errors, wider):
    variance = wider * errors @ errors
    curve = likelihood_curve(errors, ONE, variance)
    at = np.linspace(curve.low, curve.high, 2001)[1:-1]
    density = np.exp([-by_root(errors, x * np.sqrt(variance)) / wider for x in at])
    below = cumulative_trapezoid(density, at, initial=0.0)
    scores = np.array([-3.0, -1.0, 0.0, 1.5, 3.0])
    share = np.interp(curve.at(scores), at, below / below[-1])
    np.testing.assert_allclose(share, ndtr(scores), atol=2e-5)


def test_many_normal_errors_give_a_normal_of_the_belief_s_width():
    n = 100_000
    errors = np.random.default_rng(1).normal(size=n)
    errors = (errors - errors.mean()) / n
    scores = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    for wider in (1.0, 1.9):
        found = likelihood_curve(errors, np.ones(n), wider * errors @ errors).at(scores)
        # What is left is the third moment, of the order of 1 / sqrt(n).
        np.testing.assert_allclose(found, scores, atol=5.0 / np.sqrt(n))


def test_no_value_is_beyond_the_errors_and_higher_scores_are_higher(errors):
    curve = likelihood_curve(errors, ONE, errors @ errors)
    found = curve.at(np.linspace(-30.0, 30.0, 4001))
    assert (np.diff(found) >= 0.0).all()
    assert (np.diff(curve.at(np.linspace(-8.0, 8.0, 4001))) > 0.0).all()
    assert curve.low <= found.min()
    assert found.max() <= curve.high


def test_errors_that_show_too_little_say_nothing(errors):
    assert likelihood_curve(np.zeros(5), np.ones(5), 1.0) is None
    square = errors @ errors
    assert likelihood_curve(errors, ONE, 2.01 * square) is None
    assert likelihood_curve(errors, ONE, 1.99 * square) is not None


def test_a_curve_goes_on_as_a_line_where_it_has_no_end():
    scores = np.linspace(-2.0, 2.0, 41)
    far = np.array([-9.0, 0.3, 5.0])
    np.testing.assert_allclose(Curve(scores, 3.0 * scores).at(far), 3.0 * far, rtol=1e-9)
    diluted = Curve(scores, 3.0 * scores).diluted(0.5).diluted(0.5)
    np.testing.assert_allclose(diluted.at(far), far + 0.25 * 2.0 * far, rtol=1e-9)


def test_laws_are_read_by_name_and_kept_with_the_settings():
    for name in VALUE_LAWS:
        assert str(value_law_choice(name)) == name
        assert flat_settings(gamma=0.0, value_law=name).flat["value_law"] == name
    assert Constraint(value_law="empirical").value_law == Empirical()
    assert len({value_law_choice(name) for name in VALUE_LAWS}) == len(VALUE_LAWS)


@pytest.mark.parametrize("given", ["normal", "empirical(3)", 3])
def test_other_laws_are_refused(given):
    with pytest.raises(SettingsError, match="value_law"):
        Constraint(value_law=given)


@pytest.mark.parametrize(
    "given",
    [{"penalty": "squared"}, {"value_constraint": False}, {"small_sample": False}],
)
def test_empirical_likelihood_is_refused_where_it_does_not_apply(given):
    with pytest.raises(SettingsError, match="value_law='empirical': expected the Mahalanobis"):
        Constraint(value_law="empirical", **given)


def test_empirical_likelihood_is_refused_by_features_and_presets():
    from bayesdice_ppl.features import fourier

    with pytest.raises(SettingsError, match="value_law='empirical': expected one-hot"):
        flat_settings(gamma=0.5, value_law="empirical", features=fourier(8))
    with pytest.raises(SettingsError, match="value_law='empirical'"):
        flat_settings(gamma=0.5, value_law="empirical", preset="paper")
