"""Numbers one by one: which form each takes, and what the form does to it."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import Points, Space
from bayesdice_ppl.features.columns import Compressed, Indicators, Standardized, columns_of

RNG = np.random.default_rng(0)
WEEKDAY = np.arange(700) % 7.0
NORMAL = RNG.normal(5.0, 2.0, 700)
SPENT = np.exp(RNG.normal(4.0, 1.5, 700))
ALWAYS = np.full(700, 3.0)
STATES = np.stack([WEEKDAY, NORMAL, SPENT, ALWAYS], axis=1)
SPACE = Space(Points(STATES, RNG.normal(size=(700, 1))), None, None)


def test_each_number_takes_the_form_that_its_values_ask_for():
    forms = columns_of(STATES).each
    assert [type(form) for form in forms] == [Indicators, Standardized, Compressed, Standardized]
    np.testing.assert_array_equal(forms[0].values, range(7))


def test_nine_values_are_a_number_and_eight_are_not():
    (nine,) = columns_of((np.arange(90) % 9.0)[:, None]).each
    (eight,) = columns_of((np.arange(80) % 8.0)[:, None]).each
    assert isinstance(nine, Standardized)
    assert isinstance(eight, Indicators)


def test_every_number_that_varies_has_a_variance_of_one_in_all():
    found = bd.features.columns("state").build(SPACE, None)(SPACE.points)
    assert found.shape == (700, 7 + 1 + 1 + 1)
    variance = found.var(axis=0)
    np.testing.assert_allclose([variance[:7].sum(), *variance[7:]], [1.0, 1.0, 1.0, 0.0])


def test_a_number_that_is_always_the_same_is_zero_whatever_rounding_says():
    always = np.full((1000, 1), 0.1)
    assert always.std() > 0.0
    columns = columns_of(always)
    np.testing.assert_allclose(columns(np.array([[0.1], [0.2]])), [[0.0], [0.1]], atol=1e-12)


def test_a_heavy_tail_is_compressed_and_keeps_its_order():
    (form,) = columns_of(SPENT[:, None]).each
    found = form(SPENT)[:, 0]
    np.testing.assert_array_equal(np.argsort(found), np.argsort(SPENT))
    kurtosis = np.mean(((found - found.mean()) / found.std()) ** 4)
    assert kurtosis < 6.0 < np.mean(((SPENT - SPENT.mean()) / SPENT.std()) ** 4)
    median, (lower, upper) = np.median(SPENT), np.quantile(SPENT, [0.25, 0.75])
    drawn = np.arcsinh((SPENT - median) / ((upper - lower) / 1.349))
    np.testing.assert_allclose(found, (drawn - drawn.mean()) / drawn.std(), rtol=1e-12)


def test_waves_of_one_number_each():
    choice = bd.features.columns("state", waves=2)
    assert str(choice) == "columns(of='state', waves=2)"
    found = choice.build(SPACE, None)(SPACE.points)
    assert found.shape == (700, 7 + 3 * 4)
    z = (NORMAL - NORMAL.mean()) / NORMAL.std()
    expected = [np.cos(np.pi * z / 5), np.cos(2 * np.pi * z / 5)]
    expected += [np.sin(np.pi * z / 5), np.sin(2 * np.pi * z / 5)]
    np.testing.assert_allclose(found[:, 7:11].T, expected, rtol=1e-12, atol=1e-12)


def test_a_value_that_was_not_logged_has_no_indicator():
    columns = columns_of(WEEKDAY[:, None])
    assert not columns(np.array([[6.5]])).any()
    assert (columns(np.array([[6.0]])) > 0.0).sum() == 1


def test_waves_see_the_recoded_numbers():
    choice = bd.features.fourier(40_000, length_scale=2.0, of="state", recode=True)
    assert str(choice) == "fourier(40000, length_scale=2, of='state', recode=True)"
    few = Points(SPACE.points.state[:20], SPACE.points.action[:20])
    found = choice.build(SPACE, jax.random.key(0))(few)[:, 1:]
    z = columns_of(STATES)(few.state)
    square = np.sum((z[:, None] - z) ** 2, axis=2)
    np.testing.assert_allclose(
        found @ found.T, np.exp(-square / 8.0), atol=5.0 * np.sqrt(0.5 / 20_000)
    )


def test_the_mean_under_a_normal_action_is_exact_for_states_and_unknown_for_actions():
    by_state, by_action = (bd.features.columns(of).build(SPACE, None) for of in ("state", "action"))
    mean, sd = np.zeros((700, 1)), np.ones(1)
    np.testing.assert_array_equal(by_state.under_gaussian(STATES, mean, sd), by_state(SPACE.points))
    assert by_action.under_gaussian(STATES, mean, sd) is None
    waves = bd.features.fourier(4, of="state", recode=True).build(SPACE, jax.random.key(0))
    np.testing.assert_allclose(waves.under_gaussian(STATES, mean, sd), waves(SPACE.points))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bd.features.columns("reward"), "columns: of"),
        (lambda: bd.features.columns("state", waves=-1), "columns: waves"),
        (lambda: bd.features.fourier(4, recode=True), "fourier: expected of='state'"),
        (lambda: bd.features.fourier(4, of="state", recode=1), "fourier: recode"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(SettingsError, match=message):
        make()
