"""phi(s, pi) against sums by hand, and the error of sampling against repeated sampling."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.features import (
    Points,
    Space,
    expect_over_labels,
    expect_over_samples,
    sample_actions,
    sampling_variance,
)

RNG = np.random.default_rng(5)
STATES = RNG.normal(size=(30, 2))
NEEDED = np.arange(30) % 3 > 0


def square(points):
    """All squares and products of a state's numbers with an action's."""
    values = np.concatenate([points.state, points.action.reshape(len(points.state), -1)], axis=1)
    return np.concatenate([values, values**2, values[:, :1] * values[:, -1:]], axis=1)


def test_expectation_over_labels_is_the_sum_over_the_action_space():
    probabilities = RNG.dirichlet(np.ones(3), size=(4, 30))
    found = expect_over_labels(square, STATES, probabilities, NEEDED, 7)
    for j, s in [(0, 1), (3, 29), (2, 14)]:
        expected = sum(
            probabilities[j, s, a] * square(Points(STATES[s : s + 1], np.array([a])))[0]
            for a in range(3)
        )
        np.testing.assert_allclose(found[j, s], expected, rtol=1e-12)
    np.testing.assert_array_equal(found[:, ~NEEDED], 0.0)


def gaussian(sd):
    return bd.GaussianPolicy(lambda obs: np.asarray(obs)[:, :1] + 0.5, sd)


def test_mirrored_pairs_are_exact_for_what_is_linear_in_the_action():
    policies = [("narrow", gaussian(0.1)), ("wide", gaussian(2.0))]
    sampled = sample_actions(policies, STATES, NEEDED, 4, 1, jax.random.key(0))
    found = expect_over_samples(square, STATES, sampled, 7)
    mean = STATES[:, 0] + 0.5
    for j in range(2):
        np.testing.assert_allclose(found[j, NEEDED, 2], mean[NEEDED], atol=1e-6)
    assert np.abs(found[1, NEEDED, 5] - (mean[NEEDED] ** 2 + 4.0)).max() > 0.1


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_sampling_variance_is_that_of_repeated_sampling(symmetric):
    inner = gaussian(1.0)

    class Plain:
        sample, log_prob = inner.sample, inner.log_prob

    policy = inner if symmetric else Plain()
    slope = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.7, 0.3]])
    means, claimed = [], []
    for seed in range(400):
        sampled = sample_actions([("p", policy)], STATES, NEEDED, 8, 1, jax.random.key(seed))
        means.append(expect_over_samples(square, STATES, sampled, 7)[0] @ slope[0])
        claimed.append(sampling_variance(square, STATES, sampled, slope)[0])
    truth, found = np.var(means, axis=0, ddof=1)[NEEDED], np.mean(claimed, axis=0)[NEEDED]
    # Over twenty states; a variance from 400 repeats of skewed numbers has an error below 10 %.
    assert np.mean(found / truth) == pytest.approx(1.0, abs=5 * 0.1 / np.sqrt(20))
    np.testing.assert_array_equal(np.mean(claimed, axis=0)[~NEEDED], 0.0)


def test_policies_that_draw_the_wrong_thing_are_refused():
    class Wrong:
        def __init__(self, answer):
            self.answer = answer

        def sample(self, rng_key, obs, n):
            return self.answer(n, len(obs))

        def log_prob(self, obs, action):
            return np.zeros(len(obs))

    for answer, message in [
        (lambda n, b: np.zeros((n, b)), "shape"),
        (lambda n, b: np.full((n, b, 1), np.nan), "finite"),
    ]:
        with pytest.raises(bd.errors.PoliciesError, match=message):
            sample_actions([("odd", Wrong(answer))], STATES, NEEDED, 4, 1, jax.random.key(0))


def test_a_space_knows_its_labels():
    space = Space(Points(STATES, np.zeros(30, dtype=int)), None, np.array(["go"]))
    assert space.labels("state") is None
    assert space.labels("action").tolist() == ["go"]
