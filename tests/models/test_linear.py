"""The linear ratio: its matrix and prior, and the value's posterior alone against the whole one."""

import jax
import numpy as np
import pytest

from bayesdice_ppl import Policies, TabularPolicy
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.models import LINKS, linear
from bayesdice_ppl.models.linear import LinearRatio
from tests.marks import first_few

CASES = ("bandit", "frozen_lake_10", "garnet_absorb", "garnet_average")


@pytest.fixture(params=["eigenvectors", "cholesky"])
def factorization(request, monkeypatch):
    """Both ways of factoring: the one for few rows, and for many."""
    if request.param == "cholesky":
        monkeypatch.setattr("bayesdice_ppl.models.gaussian.WIDE", 0)
    return request.param


def of_all_candidates(function, case, covariance):
    problem = case.prepared.problem
    with jax.enable_x64(True):
        # A function of its own, so that nothing compiled for the other factorization is used.
        found = jax.jit(jax.vmap(lambda *given: function(*given)))(
            problem.ratio, covariance, problem.constraint.price
        )
        return np.asarray(found.mean), np.asarray(found.sd)


@pytest.mark.parametrize("penalty", ["mahalanobis", "squared"])
@pytest.mark.parametrize("name", first_few(CASES, 2))
def test_equals_the_whole_posterior(name, penalty, factorization, worked_case):
    case = worked_case(name)
    covariance = np.asarray(case.prepared.problem.pilots.covariance)
    if penalty == "squared":
        covariance = np.broadcast_to(np.eye(covariance.shape[-1]), covariance.shape)
    mean, sd = of_all_candidates(LinearRatio.value_posterior, case, covariance)
    whole_mean, whole_sd = of_all_candidates(LinearRatio.posterior, case, covariance)
    assert sd.shape == mean.shape[:1]
    np.testing.assert_allclose(mean, whole_mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(sd, whole_sd[:, -1], rtol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_finds_the_worked_cases(name, factorization, worked_case):
    case = worked_case(name)
    mean, sd = of_all_candidates(
        LinearRatio.value_posterior, case, case.prepared.problem.pilots.covariance
    )
    expected = case.column("influence_sd")
    # As the closed form itself: the oracle has no prior, which is worth so much of a deviation.
    assert np.abs(mean[:, -1] - case.column("plug_in_value")).max() < 0.03 * expected.min()
    assert np.abs(sd / expected - 1.0).max() < 0.01


# What is built from a log: the matrix, the prior, the ratio of each pair.


@pytest.mark.parametrize(
    ("gamma", "restart"), [(0.0, True), (0.9, True), (0.9, False), (1.0, True)]
)
def test_matrix_and_prior_equal_loops_over_transitions(plain, gamma, restart):
    logs, policies = plain.log(3, rewards="continuous"), plain.policies(5, 1)
    options = {"gamma": gamma, "on_termination": "restart" if restart else "absorb"}
    # Without the Mahalanobis penalty rewards are counted as they are, and not from their mean.
    found = plain.prepare(logs, policies, penalty="squared", **options).problem.of(0)[0]
    oracle = plain.problem(logs, policies["p0"], gamma=gamma, restart=restart)
    np.testing.assert_allclose(found.matrix, oracle.G, rtol=0, atol=1e-13)
    mean, scale = oracle.prior()
    np.testing.assert_allclose(found.prior_mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.prior_scale, scale, rtol=1e-12)


def test_a_rare_pair_has_a_wider_prior_where_the_ratio_itself_is_the_latent_number(plain):
    logs, policies = plain.log(3, rewards="continuous"), plain.policies(5, 1)
    oracle = plain.problem(logs, policies["p0"], gamma=0.9)
    _, wider = oracle.prior(prior_sd=4.0, rare_share=0.2)
    _, level = oracle.prior(prior_sd=4.0)
    assert np.any(wider > 1.5 * level)
    prior = {"gamma": 0.9, "prior_sd": 4.0, "rare_share": 0.2}
    for options, scale in (
        ({}, wider),
        ({"rare_share": 0.0}, level),
        ({"link": "softplus"}, level),
        ({"link": "exp"}, level),
        # Its metric is not the residual's own.
        ({"penalty": "squared"}, level),
    ):
        found = plain.prepare(logs, policies, **(prior | options)).problem.of(0)[0]
        np.testing.assert_allclose(found.prior_scale[:-1], scale[:-1], rtol=1e-12)
        # The program has the same prior as the closed form.
        np.testing.assert_allclose(
            np.sqrt(found.latent_prior().variance), found.prior_scale[:-1], rtol=1e-6
        )


def test_rewards_that_never_vary_still_give_a_proper_prior(plain):
    for reward, expected in ((0.0, 1.0), (-4.0, 4.0)):
        logs = plain.bandit([(0, reward), (1, reward), (0, reward)])
        fitted = plain.prepare(
            logs, Policies({"p": TabularPolicy([[0.5, 0.5]])}), gamma=0.0, small_sample=False
        )
        assert float(fitted.problem.ratio.prior_scale[0, -1]) == 10.0 * expected


@pytest.mark.parametrize("link", LINKS)
def test_residual_of_a_ratio_is_that_of_its_pairs(plain, link):
    logs, policies = plain.log(3), plain.policies(5, 1)
    model = linear(link)
    options = {"gamma": 0.9, "model": model, "penalty": "squared"}
    found = plain.prepare(logs, policies, **options).problem.of(0)[0]
    oracle = plain.problem(logs, policies["p0"], gamma=0.9)
    latent = np.random.default_rng(0).normal(1.0, 2.0, len(oracle.pairs))
    with jax.enable_x64(True):
        ratio = np.asarray(found.by_pair(latent))
        residual = np.asarray(found.residual(latent))
        assert np.asarray(LINKS[link].ratio(1.0)) == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(residual, oracle.residual(ratio, 0.0), rtol=0, atol=1e-12)
    assert (ratio.min() < 0.0) == model.linear


def test_a_model_is_hashable_has_a_text_and_refuses_unknown_links():
    assert linear() == linear("identity")
    assert hash(linear("softplus")) == hash(linear(LINKS["softplus"]))
    assert [str(linear(link)) for link in LINKS] == [
        "linear",
        "linear(link=softplus)",
        "linear(link=exp)",
    ]
    with pytest.raises(SettingsError, match="link: expected one of 'identity', 'softplus'"):
        linear("logit")
