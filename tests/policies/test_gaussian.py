"""The Gaussian policy against SciPy's normal distribution."""

import jax
import numpy as np
import pytest
from scipy.stats import norm

from bayesdice_ppl import GaussianPolicy, Policies
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import ContinuousPolicy

OBS = np.random.default_rng(0).normal(size=(5, 3))


def mean(obs):
    return obs[:, :2] * 2.0 - 1.0


@pytest.mark.parametrize("sd", [0.7, np.array([0.3, 2.0])])
def test_density(sd):
    action = np.random.default_rng(1).normal(size=(4, 5, 2))
    found = GaussianPolicy(mean, sd).log_prob(OBS, action)
    assert found.shape == (4, 5)
    np.testing.assert_allclose(found, norm.logpdf(action, mean(OBS), sd).sum(-1), rtol=1e-5)


@pytest.mark.parametrize("sd", [0.7, np.array([0.3, 2.0])])
def test_draws(sd):
    n = 40_000
    drawn = np.asarray(GaussianPolicy(mean, sd).sample(jax.random.key(0), OBS, n), dtype=float)
    assert drawn.shape == (n, 5, 2)
    scale = np.broadcast_to(sd, (5, 2))
    assert np.all(np.abs(drawn.mean(0) - mean(OBS)) < 5 * scale / np.sqrt(n))
    assert np.all(np.abs(drawn.std(0) / scale - 1) < 5 / np.sqrt(2 * n))
    flat = drawn.reshape(n, -1) - drawn.mean(0).ravel()
    correlation = np.corrcoef(flat.T) - np.eye(10)
    assert np.abs(correlation).max() < 5 / np.sqrt(n)


def test_it_is_a_candidate():
    policy = GaussianPolicy(mean, 1.0)
    assert isinstance(policy, ContinuousPolicy)
    candidates = Policies({"p": policy})
    assert not candidates.tabular
    with pytest.raises(PoliciesError, match="'p': expected a TabularPolicy"):
        candidates.to_dataframe()


@pytest.mark.parametrize(
    "sd", [0.0, -1.0, float("nan"), float("inf"), [1.0, 0.0], [[1.0]], [], "a"]
)
def test_impossible_standard_deviations(sd):
    with pytest.raises(PoliciesError, match="sd"):
        GaussianPolicy(mean, sd)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (GaussianPolicy(lambda obs: obs[:, 0], 1.0), "mean"),
        (GaussianPolicy(lambda obs: 0.0, 1.0), "mean"),
        (GaussianPolicy(lambda obs: obs[:1], 1.0), "mean"),
        (GaussianPolicy(mean, [1.0, 2.0, 3.0]), "sd"),
        (GaussianPolicy(lambda obs: obs[:, :1], [0.5, 0.7]), "sd"),
    ],
)
def test_shapes_that_would_broadcast_are_refused(policy, message):
    with pytest.raises(PoliciesError, match=message):
        policy.sample(jax.random.key(0), OBS, 1)
    with pytest.raises(PoliciesError, match=message):
        policy.log_prob(OBS, np.zeros((5, 2)))


def test_an_action_of_another_size_has_no_density():
    with pytest.raises(PoliciesError, match=r"\(..., 5, 2\)"):
        GaussianPolicy(mean, 1.0).log_prob(OBS, np.zeros((5, 1)))


def test_a_mean_that_learns_is_asked_anew():
    class Learner:
        weight = 1.0

        def __call__(self, obs):
            return self.weight * obs[:, :2]

    learner = Learner()
    policy = GaussianPolicy(learner, 1e-6)
    before = np.asarray(policy.sample(jax.random.key(0), OBS, 1))
    learner.weight = 100.0
    after = np.asarray(policy.sample(jax.random.key(0), OBS, 1))
    np.testing.assert_allclose(after, 100 * before, rtol=1e-3)


def test_the_mean_is_a_function():
    with pytest.raises(PoliciesError, match="function"):
        GaussianPolicy(0.0, 1.0)
