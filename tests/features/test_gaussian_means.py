"""Exact means under normal actions, against Gauss-Hermite quadrature of the maps themselves."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.features import (
    GaussianMeanMap,
    Points,
    Space,
    expect,
    expect_over_samples,
    principal_map,
    sample_actions,
    sampling_variance,
)
from tests.linear_world import Drawn
from tests.marks import first_few

f = bd.features
RNG = np.random.default_rng(7)
LOGGED = Points(RNG.normal(3.0, 2.0, (150, 3)), RNG.normal(-1.0, 0.5, (150, 2)))
SPACE = Space(LOGGED, None, None)
LABELED = Points(RNG.integers(0, 3, 150), LOGGED.action)
LABELED_SPACE = Space(LABELED, np.array(["x", "y", "z"], dtype=object), None)
MEAN = RNG.normal(-1.0, 0.7, (4, 2))
SDS = {
    "one for each number": np.array([0.3, 0.6]),
    "one for each row": RNG.uniform(0.1, 0.6, (4, 2)),
    "certain": np.zeros(2),
}

KNOWN = {
    "fourier": f.fourier(20, length_scale=0.8),
    "fourier of the action": f.fourier(20, of="action"),
    "fourier of the state": f.fourier(20, of="state"),
    "polynomial": f.polynomial(4),
    "polynomial of the action": f.polynomial(9, of="action"),
    "product": f.product(f.fourier(6, of="state"), f.polynomial(3, of="action")),
    "three factors": f.product(
        f.polynomial(1, of="state"), f.fourier(4, of="state"), f.fourier(6, of="action")
    ),
    "concatenation": f.concatenate(f.fourier(6), f.polynomial(2), f.fourier(4, of="state")),
    "product of a concatenation": f.product(
        f.concatenate(f.fourier(4, of="action"), f.polynomial(2, of="action")),
        f.fourier(4, of="state"),
    ),
    "process": f.gaussian_process(
        f.kernels.squared_exponential((1.0, 2.0, 1.5, 0.9, 1.2), 2.0), n_inducing=12
    ),
    "sum of processes": f.gaussian_process(
        f.kernels.sum_of(
            f.kernels.squared_exponential(1.0), f.kernels.squared_exponential(3.0, 0.5)
        ),
        n_inducing=12,
    ),
    "process of the state": f.product(
        f.gaussian_process(f.kernels.matern(1.5, 1.0), n_inducing=5, of="state"),
        f.polynomial(2, of="action"),
    ),
}
UNKNOWN = {
    "two factors that look at the action": f.product(f.fourier(4), f.polynomial(2)),
    "rough process": f.gaussian_process(f.kernels.matern(2.5, 1.0), n_inducing=5),
    "product of kernels": f.gaussian_process(
        f.kernels.product_of(
            f.kernels.squared_exponential(1.0), f.kernels.squared_exponential(1.0)
        ),
        n_inducing=5,
    ),
    "sum with a rough one": f.gaussian_process(
        f.kernels.sum_of(f.kernels.squared_exponential(1.0), f.kernels.matern(0.5, 1.0)),
        n_inducing=5,
    ),
    "function": f.function(lambda obs, action: np.concatenate([obs, action], axis=1)),
    "function beside": f.concatenate(
        f.fourier(4), f.function(lambda obs, action: obs * action[:, :1])
    ),
    "function times": f.product(
        f.fourier(4, of="action"), f.function(lambda obs, action: np.abs(obs))
    ),
}


def by_quadrature(feature_map, states, mean, sd, n_nodes=64):
    """E phi(s, a) by a product rule of two numbers; only the map itself is asked."""
    node, weight = np.polynomial.hermite_e.hermegauss(n_nodes)
    node = np.stack(np.meshgrid(node, node), axis=-1).reshape(-1, 2)
    weight = np.outer(weight, weight).ravel() / (2.0 * np.pi)
    action = mean + sd * node[:, None]
    phi = feature_map(
        Points(np.concatenate([states] * len(node)), action.reshape(-1, action.shape[2]))
    )
    return np.einsum("k,kbd->bd", weight, phi.reshape(len(node), len(states), -1))


@pytest.mark.parametrize("spread", first_few([*SDS], 1))
@pytest.mark.parametrize("name", KNOWN)
def test_means_are_those_of_quadrature(name, spread):
    built = KNOWN[name].build(SPACE, jax.random.key(2))
    assert isinstance(built, GaussianMeanMap)
    assert built.sees == KNOWN[name].sees
    found = built.under_gaussian(LOGGED.state[:4], MEAN, SDS[spread])
    expected = by_quadrature(built, LOGGED.state[:4], MEAN, SDS[spread])
    size = 1.0 + np.abs(expected).max(axis=0)
    np.testing.assert_allclose(found / size, expected / size, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("name", ["fourier", "product", "process"])
def test_means_of_rotated_features_are_rotated_means(name):
    built = principal_map(KNOWN[name].build(SPACE, jax.random.key(2)), LOGGED)
    sd = SDS["one for each row"]
    found = built.under_gaussian(LOGGED.state[:4], MEAN, sd)
    expected = by_quadrature(built, LOGGED.state[:4], MEAN, sd)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10)


def test_labels_of_states_are_beside_the_action():
    choice = f.product(f.one_hot(of="state"), f.fourier(6, of="action"))
    built = choice.build(LABELED_SPACE, jax.random.key(2))
    sd = SDS["one for each number"]
    found = built.under_gaussian(LABELED.state[:4], MEAN, sd)
    expected = by_quadrature(built, LABELED.state[:4], MEAN, sd)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-12)


def test_one_hot_features_of_an_action_have_no_mean_under_vectors():
    labels = Points(np.zeros(4, dtype=int), np.arange(4) % 2)
    space = Space(labels, np.array([0]), np.array([0, 1]))
    for of in ("action", "both"):
        built = f.one_hot(of=of).build(space, None)
        assert built.under_gaussian(labels.state, np.zeros((4, 1)), np.ones(1)) is None


def policy_of(sd):
    return bd.GaussianPolicy(lambda obs: 0.4 * np.asarray(obs)[:, 1:] - 1.0, sd)


def expected_of(feature_map, policies, needed, key, n_draws=64):
    states = LOGGED.state
    d = feature_map(Points(states[:1], LOGGED.action[:1])).shape[1]
    return expect(
        feature_map, states, policies, states, needed, d, n_numbers=2, n_draws=n_draws, rng_key=key
    )


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_map_that_cannot_say_is_sampled_as_a_whole(name):
    choice, needed = UNKNOWN[name], np.arange(150) < 20
    built = principal_map(choice.build(SPACE, jax.random.key(2)), LOGGED)
    assert built.under_gaussian(LOGGED.state[:3], MEAN[:3], np.ones(2)) is None
    policies, key = [("one", policy_of(0.3)), ("other", policy_of([0.1, 0.7]))], jax.random.key(4)
    found = expected_of(built, policies, needed, key)
    drawn = sample_actions(policies, LOGGED.state, needed, 64, 2, key)
    d = found.at_state.shape[2]
    np.testing.assert_array_equal(
        found.at_state, expect_over_samples(built, LOGGED.state, drawn, d)
    )
    assert found.sampled.candidates == (0, 1)
    with pytest.raises(bd.errors.SettingsError, match=r"rng_key: .* 'one'"):
        expected_of(built, policies, needed, None)


def test_each_candidate_is_exact_or_sampled_for_itself():
    built = KNOWN["fourier"].build(SPACE, jax.random.key(2))
    needed = np.arange(150) % 4 == 1
    asked = []

    class Watched(Drawn):
        def __init__(self, policy):
            super().__init__(policy)
            self.sample = lambda rng_key, obs, n: (
                asked.append(len(obs)) or policy.sample(rng_key, obs, n)
            )

    policies = [
        ("first", policy_of(0.3)),
        ("drawn", Watched(policy_of(0.3))),
        ("last", policy_of([0.1, 0.7])),
    ]
    found = expected_of(built, policies, needed, jax.random.key(4), n_draws=400)
    assert found.sampled.candidates == (1,)
    assert asked == [needed.sum()]
    rows = LOGGED.state[needed]
    mean = np.asarray(policies[0][1].mean(rows))
    for j, sd in ((0, np.full(2, 0.3)), (2, np.array([0.1, 0.7]))):
        np.testing.assert_allclose(
            found.at_state[j, needed], by_quadrature(built, rows, mean, sd), rtol=0.0, atol=1e-10
        )
    np.testing.assert_array_equal(found.at_state[:, ~needed], 0.0)
    slope = RNG.normal(size=(3, found.at_state.shape[2]))
    variance = sampling_variance(built, LOGGED.state, found.sampled, slope)
    np.testing.assert_array_equal(variance[[0, 2]], 0.0)
    # The two are the same policy, so that the error of the one that is sampled is known.
    error = (found.at_state[1] - found.at_state[0])[needed] @ slope[1]
    # A mean of squares of nearly normal numbers, one for each of 37 states.
    assert np.mean(error**2 / variance[1, needed]) == pytest.approx(1.0, abs=4 * np.sqrt(2 / 37))
    np.testing.assert_array_equal(variance[1, ~needed], 0.0)


def test_features_of_the_state_need_no_action_of_anybody():
    built = principal_map(KNOWN["fourier of the state"].build(SPACE, jax.random.key(2)), LOGGED)
    needed = np.arange(150) % 4 == 1
    found = expected_of(built, [("p", Drawn(policy_of(0.3))), ("q", policy_of(1.0))], needed, None)
    assert found.sampled is None
    for at_state in found.at_state:
        np.testing.assert_allclose(at_state[needed], built(LOGGED)[needed], rtol=0.0, atol=1e-13)
        np.testing.assert_array_equal(at_state[~needed], 0.0)


def test_nothing_is_sampled_if_all_means_are_exact():
    built = KNOWN["polynomial"].build(SPACE, None)
    found = expected_of(built, [("p", policy_of(0.3))], np.ones(150, dtype=bool), None)
    assert found.sampled is None
    slope = np.ones((1, found.at_state.shape[2]))
    variance = sampling_variance(built, LOGGED.state, None, slope)
    np.testing.assert_array_equal(variance, np.zeros((1, 150)))


def test_rows_are_the_same_in_many_parts(monkeypatch):
    built = KNOWN["fourier"].build(SPACE, jax.random.key(2))

    class Varied(Drawn):
        def __init__(self, policy):
            super().__init__(policy)
            self.policy = policy

        def normal_moments(self, obs):
            return self.policy.mean(obs), np.broadcast_to(self.policy.sd, (len(obs), 2))

    policies = [("p", policy_of([0.1, 0.7])), ("by row", Varied(policy_of([0.1, 0.7])))]
    needed = np.arange(150) % 4 == 1
    whole = expected_of(built, policies, needed, None).at_state
    monkeypatch.setattr("bayesdice_ppl.features.expectation._EXACT_NUMBERS", 100)
    parts = expected_of(built, policies, needed, None).at_state
    np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(whole[1], whole[0], rtol=1e-12, atol=1e-14)
