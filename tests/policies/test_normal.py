"""What policies say of their normal actions, and what is refused."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import bayesdice_ppl as bd
from bayesdice_ppl.policies import NormalPolicy, checked_moments

OBS = np.random.default_rng(1).normal(size=(200, 3))


class Said:
    """A policy of two numbers that says of itself what it is told to."""

    def __init__(self, mean, sd, density=None):
        self.mean, self.sd, self.density = mean, sd, density

    def sample(self, rng_key, obs, n):
        raise AssertionError("nobody should ask")

    def normal_moments(self, obs):
        return self.mean(obs), self.sd(obs)

    def log_prob(self, obs, action):
        if self.density is None:
            return norm.logpdf(action, self.mean(obs), self.sd(obs)).sum(axis=-1)
        return self.density(obs, action)


def first_two(obs):
    return obs[:, :2]


@pytest.mark.parametrize("sd", [0.3, [0.001, 20.0]])
def test_a_gaussian_policy_says_its_mean_and_deviation(sd):
    policy = bd.GaussianPolicy(lambda obs: 100.0 * obs[:, :2], sd)
    assert isinstance(policy, NormalPolicy)
    mean, found = checked_moments("p", policy, OBS, 2)
    np.testing.assert_allclose(mean, 100.0 * OBS[:, :2], rtol=1e-7)
    np.testing.assert_array_equal(found, np.broadcast_to(sd, 2))
    drawn = np.asarray(policy.sample(jax.random.key(0), OBS[:2], 4000))
    standard = (drawn - mean[:2]) / found
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=5 / np.sqrt(4000))
    np.testing.assert_allclose(standard.std(axis=0), 1.0, atol=5 / np.sqrt(8000))


def test_deviations_may_differ_from_state_to_state_and_be_zero():
    policy = Said(first_two, lambda obs: np.exp(obs[:, 1:]))
    mean, sd = checked_moments("p", policy, OBS, 2)
    np.testing.assert_array_equal(mean, OBS[:, :2])
    np.testing.assert_array_equal(sd, np.exp(OBS[:, 1:]))
    sure = Said(first_two, lambda obs: 0.0, lambda obs, action: np.zeros(len(obs)))
    np.testing.assert_array_equal(checked_moments("p", sure, OBS, 2)[1], [0.0, 0.0])


def squashed(obs, action):
    """Density of tanh of normal numbers, in the numbers that come out."""
    inside = np.clip(action, -0.999, 0.999)
    return (norm.logpdf(np.arctanh(inside), obs[:, :2], 0.5) - np.log1p(-(inside**2))).sum(axis=-1)


def correlated(obs, action):
    law = multivariate_normal([0.0, 0.0], [[0.25, 0.1], [0.1, 0.25]])
    return law.logpdf(action - obs[:, :2])


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Said(lambda obs: obs[:, :1], lambda obs: 1.0), r"\(200, 2\)"),
        (Said(first_two, lambda obs: np.ones(3)), r"\(3,\)"),
        (Said(lambda obs: np.full((len(obs), 2), np.nan), lambda obs: 1.0), "finite"),
        (Said(first_two, lambda obs: -1.0), "at least 0"),
        (Said(first_two, lambda obs: 0.5, squashed), "log_prob"),
        (Said(first_two, lambda obs: 0.5, correlated), "log_prob"),
        (Said(first_two, lambda obs: 0.5, lambda obs, action: np.zeros(3)), "log_prob"),
    ],
)
def test_what_is_not_normal_is_refused(policy, message):
    with pytest.raises(bd.errors.PoliciesError, match=message):
        checked_moments("p", policy, OBS, 2)


def test_the_policies_of_reacher_are_normal_and_those_of_labels_are_not():
    mean, sd = checked_moments("p", bd.envs.reacher_policy(0.5), np.zeros((3, 10)), 2)
    assert mean.shape == (3, 2)
    np.testing.assert_allclose(sd, 0.25)
    assert not isinstance(bd.TabularPolicy([[1.0]]), NormalPolicy)
