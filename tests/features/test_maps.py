"""Feature maps against loops, and against the kernel that random ones stand for."""

import itertools

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.features import Points, Space, principal_map

RNG = np.random.default_rng(0)
VECTORS = Points(RNG.normal(3.0, 2.0, (200, 2)), RNG.normal(-1.0, 0.5, (200, 1)))
LABELS = Points(RNG.integers(0, 3, 50), RNG.integers(0, 2, 50))
VECTOR_SPACE = Space(VECTORS, None, None)
LABEL_SPACE = Space(LABELS, np.array(["x", "y", "z"], dtype=object), np.array([10, 20]))
MIXED = Points(VECTORS.state[:50], LABELS.action)
MIXED_SPACE = Space(MIXED, None, LABEL_SPACE.action_labels)


def standardized(points):
    values = np.concatenate([points.state, points.action], axis=1)
    return (values - values.mean(axis=0)) / values.std(axis=0)


def test_polynomial_is_all_monomials_up_to_its_degree():
    found = bd.features.polynomial(3).build(VECTOR_SPACE, None)(VECTORS)
    z = standardized(VECTORS)
    expected = [
        np.prod(z ** np.array(power), axis=1)
        for power in itertools.product(range(4), repeat=3)
        if sum(power) <= 3
    ]
    assert found.shape == (200, 20)
    other = np.array(expected).T
    other = other / np.sqrt(np.mean(other**2, axis=0))
    order = np.lexsort(found[:3])
    np.testing.assert_allclose(
        found[:, order], other[:, np.lexsort(other[:3])], rtol=1e-10, atol=1e-12
    )


def test_fourier_features_add_up_to_the_squared_exponential_kernel():
    n_frequencies = 20_000
    choice = bd.features.fourier(2 * n_frequencies, length_scale=1.5)
    found = choice.build(VECTOR_SPACE, jax.random.key(0))(VECTORS)[:40, 1:]
    z = standardized(VECTORS)[:40]
    square = np.sum((z[:, None] - z) ** 2, axis=2)
    # Each frequency adds a cosine, so that an entry's standard error is at most sqrt(1/2 / h).
    np.testing.assert_allclose(
        found @ found.T, np.exp(-square / (2 * 1.5**2)), atol=5.0 * np.sqrt(0.5 / n_frequencies)
    )
    np.testing.assert_allclose(np.sum(found**2, axis=1), 1.0, rtol=1e-12)


def test_the_median_rule_takes_the_median_distance_of_logged_points():
    built = bd.features.fourier(10).build(VECTOR_SPACE, jax.random.key(0))
    z = standardized(VECTORS)
    distance = np.sqrt(np.sum((z[:, None] - z) ** 2, axis=2))
    expected = np.median(distance[np.triu_indices(200, 1)])
    assert built.length_scale == pytest.approx(expected, rel=1e-12)
    half = bd.features.fourier(10, times_median=0.5).build(VECTOR_SPACE, jax.random.key(0))
    assert half.length_scale == pytest.approx(0.5 * expected, rel=1e-12)


def test_the_same_key_gives_the_same_frequencies_and_another_one_others():
    choice = bd.features.fourier(10)
    one, same, other = (choice.build(VECTOR_SPACE, jax.random.key(k))(VECTORS) for k in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.1


def test_products_and_lists_of_one_hot_features():
    state, action = bd.features.one_hot(of="state"), bd.features.one_hot(of="action")
    both = bd.features.product(state, action).build(LABEL_SPACE, None)(LABELS)
    expected = np.zeros((50, 6))
    expected[np.arange(50), 2 * LABELS.state + LABELS.action] = 1.0
    np.testing.assert_array_equal(both, expected)
    np.testing.assert_array_equal(bd.features.one_hot().build(LABEL_SPACE, None)(LABELS), expected)
    side = bd.features.concatenate(state, action).build(LABEL_SPACE, None)(LABELS)
    np.testing.assert_array_equal(side.sum(axis=1), 2.0)
    assert side.shape == (50, 5)


def test_a_table_is_looked_up_by_label_and_a_function_is_given_labels():
    values = np.arange(24.0).reshape(3, 2, 4)
    table = bd.features.table(values, states=["z", "y", "x"], actions=[20, 10])
    found = table.build(LABEL_SPACE, None)(LABELS)
    expected = values[2 - LABELS.state, 1 - LABELS.action]
    expected = expected / np.sqrt(np.mean(expected**2, axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-14)

    def look(obs, action):
        return np.array(
            [values["zyx".index(s), [20, 10].index(a)] for s, a in zip(obs, action, strict=True)]
        )

    np.testing.assert_allclose(
        bd.features.function(look).build(LABEL_SPACE, None)(LABELS), expected, rtol=1e-14
    )


def test_principal_directions_keep_every_inner_product():
    inner = bd.features.fourier(40).build(VECTOR_SPACE, jax.random.key(3))
    rotated = principal_map(inner, VECTORS)
    before, after = inner(VECTORS), rotated(VECTORS)
    assert after.shape[1] <= before.shape[1]
    np.testing.assert_allclose(before @ before.T, after @ after.T, atol=1e-7)
    twice = principal_map(lambda points: np.tile(inner(points), 2), VECTORS)
    assert twice(VECTORS).shape[1] == after.shape[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f.polynomial(0), "at least 1"),
        (lambda f: f.polynomial(2, of="reward"), "'state', 'action', 'both'"),
        (lambda f: f.fourier(7), "even"),
        (lambda f: f.fourier(8, length_scale=-1.0), "above 0"),
        (lambda f: f.fourier(8, length_scale=1.0, times_median=2.0), "found both"),
        (lambda f: f.product(f.fourier(8)), "at least two"),
        (lambda f: f.product(f.fourier(8), 3), "feature maps"),
        (lambda f: f.function(3), "function"),
        (lambda f: f.table(np.zeros((2, 2)), states=[0, 1], actions=[0, 1]), r"\(2, 2, d\)"),
        (lambda f: f.table(np.zeros((2, 1, 3)), states=[0, 0], actions=[0]), "twice"),
        (lambda f: f.table(np.full((1, 1, 1), np.nan), states=[0], actions=[0]), "finite"),
    ],
)
def test_wrong_choices_are_refused(make, message):
    with pytest.raises(bd.errors.SettingsError, match=message):
        make(bd.features)


@pytest.mark.parametrize(
    ("choice", "space", "message"),
    [
        (bd.features.polynomial(2), LABEL_SPACE, "labels"),
        (bd.features.fourier(8), MIXED_SPACE, "labels"),
        (bd.features.one_hot(of="state"), MIXED_SPACE, "vectors"),
        (bd.features.polynomial(60), VECTOR_SPACE, "terms"),
        (bd.features.table(np.zeros((1, 1, 1)), states=["x"], actions=[10]), LABEL_SPACE, "no"),
    ],
)
def test_maps_that_do_not_fit_the_log_are_refused(choice, space, message):
    with pytest.raises(bd.errors.SettingsError, match=message):
        choice.build(space, jax.random.key(0))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda obs, action: "no", "array of numbers"),
        (lambda obs, action: np.zeros(len(obs)), "shape"),
        (lambda obs, action: np.full((len(obs), 1), np.inf), "finite"),
    ],
)
def test_functions_that_answer_wrongly_are_refused(answer, message):
    with pytest.raises(bd.errors.SettingsError, match=message):
        bd.features.function(answer).build(VECTOR_SPACE, None)


def test_the_size_of_a_users_features_does_not_matter():
    plain = bd.features.function(lambda obs, action: np.c_[obs, action])
    other = bd.features.function(lambda obs, action: np.c_[obs * [1.0, 1e6], action * 1e-5])
    np.testing.assert_allclose(
        plain.build(VECTOR_SPACE, None)(VECTORS), other.build(VECTOR_SPACE, None)(VECTORS)
    )
    huge = bd.features.function(lambda obs, action: np.c_[obs, action * 1e200])
    with pytest.raises(bd.errors.SettingsError, match="feature 2"):
        huge.build(VECTOR_SPACE, None)
    uneven = bd.features.function(lambda obs, action: np.ones((len(obs), len(obs) % 7 + 1)))
    built = uneven.build(VECTOR_SPACE, None)
    with pytest.raises(bd.errors.SettingsError, match="for some points"):
        built(Points(VECTORS.state[:9], VECTORS.action[:9]))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x, y: np.nan * (x @ y.T), "finite"),
        (lambda x, y: -(x @ y.T), "covariance"),
        (lambda x, y: x @ y.T + 5.0 * x[:, :1], "covariance"),
        (lambda x, y: (x @ y.T)[:3], "shape"),
        (bd.features.kernels.squared_exponential((1.0, 2.0)), "fails on them"),
    ],
)
def test_kernels_that_are_none_are_refused(kernel, message):
    with pytest.raises(bd.errors.SettingsError, match=message):
        bd.features.gaussian_process(kernel).build(VECTOR_SPACE, None)


def test_random_features_need_a_key():
    with pytest.raises(bd.errors.SettingsError, match="rng_key"):
        bd.features.fourier(8).build(VECTOR_SPACE, None)


def test_a_process_with_all_points_as_inducing_ones_has_its_kernel():
    kernel = bd.features.kernels.matern(2.5, 1.3)
    built = bd.features.gaussian_process(kernel, n_inducing=200).build(VECTOR_SPACE, None)
    found = built(VECTORS)
    z = standardized(VECTORS)
    distance = np.sqrt(5.0 * np.sum((z[:, None] - z) ** 2, axis=2)) / 1.3
    expected = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    np.testing.assert_allclose(found @ found.T, expected, atol=1e-8)
    few = bd.features.gaussian_process(kernel, n_inducing=40).build(VECTOR_SPACE, None)(VECTORS)
    assert few.shape == (200, 40)
    # A projection never has more of a point's variance than the kernel itself.
    assert np.all(np.sum(few**2, axis=1) <= 1.0 + 1e-9)
    assert np.abs(few @ few.T - expected).max() < 0.6


def test_a_process_needs_a_kernel_and_numbers():
    with pytest.raises(bd.errors.SettingsError, match="kernel"):
        bd.features.gaussian_process(3)
    choice = bd.features.gaussian_process(bd.features.kernels.squared_exponential(1.0))
    with pytest.raises(bd.errors.SettingsError, match="labels"):
        choice.build(LABEL_SPACE, None)
