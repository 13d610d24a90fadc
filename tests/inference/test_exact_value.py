"""The value's posterior alone, against the whole posterior and against the worked cases."""

import jax
import numpy as np
import pytest

from bayesdice_ppl.inference.exact import exact_posterior, exact_value

CASES = ("bandit", "frozen_lake_10", "garnet_absorb", "garnet_average")


@pytest.fixture(params=["eigenvectors", "cholesky"])
def factorization(request, monkeypatch):
    """Both ways of factoring: the one for few rows, and for many."""
    if request.param == "cholesky":
        for module in ("gain", "exact"):
            monkeypatch.setattr(f"bayesdice_ppl.inference.{module}.WIDE", 0)
    return request.param


def of_all_candidates(function, case, covariance):
    problem = case.prepared.problem
    with jax.enable_x64(True):
        # A function of its own, so that nothing compiled for the other factorization is used.
        found = jax.jit(jax.vmap(lambda *given: function(*given)))(
            problem.moments, covariance, problem.constraint.price
        )
        return np.asarray(found.mean), np.asarray(found.sd)


@pytest.mark.parametrize("penalty", ["mahalanobis", "squared"])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_whole_posterior(name, penalty, factorization, worked_case):
    case = worked_case(name)
    covariance = np.asarray(case.prepared.problem.pilots.covariance)
    if penalty == "squared":
        covariance = np.broadcast_to(np.eye(covariance.shape[-1]), covariance.shape)
    mean, sd = of_all_candidates(exact_value, case, covariance)
    whole_mean, whole_sd = of_all_candidates(exact_posterior, case, covariance)
    assert sd.shape == mean.shape[:1]
    np.testing.assert_allclose(mean, whole_mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(sd, whole_sd[:, -1], rtol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_finds_the_worked_cases(name, factorization, worked_case):
    case = worked_case(name)
    mean, sd = of_all_candidates(exact_value, case, case.prepared.problem.pilots.covariance)
    expected = case.column("influence_sd")
    # As the closed form itself: the oracle has no prior, which is worth so much of a deviation.
    assert np.abs(mean[:, -1] - case.column("plug_in_value")).max() < 0.03 * expected.min()
    assert np.abs(sd / expected - 1.0).max() < 0.01
