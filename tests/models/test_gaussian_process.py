"""The Gaussian process as a NumPyro program, against its closed form and by hand."""

from functools import partial

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density
from scipy.stats import multivariate_normal, norm

from bayesdice_ppl.features.kernels import matern, squared_exponential
from bayesdice_ppl.inference.process import process_constraint, process_posterior
from bayesdice_ppl.models.gaussian_process import model
from bayesdice_ppl.moments.process import PolicyPoints, process_moments

N, PRICE = 25, 60.0


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def moments():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(2), size=N)
    ahead = PolicyPoints(rng.normal(size=(N, 2, 2)), weights)
    start = PolicyPoints(rng.normal(size=(5, 2, 2)), weights[:5])
    at = rng.normal(size=(N, 2))
    kernels = (squared_exponential(1.0), matern(1.5, 1.0, 2.0))
    return process_moments(
        *kernels, at, ahead, start, at[:, 0] + 1.0, rng.random(N) < 0.1, gamma=0.9
    )


def traced(function, *arguments, **options):
    seeded = handlers.seed(partial(function, **options), jax.random.key(1))
    return handlers.trace(seeded).get_trace(*arguments)


@pytest.mark.parametrize("value_constraint", [True, False])
def test_model_has_the_sites_of_the_program(moments, value_constraint):
    sites = traced(
        model, moments, process_constraint(moments, PRICE), value_constraint=value_constraint
    )
    kinds = {name: site["type"] for name, site in sites.items()}
    assert kinds == {
        "ratio_base": "sample",
        "ratio": "deterministic",
        "value": "sample" if value_constraint else "deterministic",
        "loss": "deterministic",
        "chance_constraint": "sample",
    }
    assert sites["chance_constraint"]["is_observed"]
    assert sites["ratio"]["value"].shape == (N,)


def test_prior_of_the_ratio_is_the_kernel(moments):
    draw = jax.vmap(
        lambda key: handlers.trace(handlers.seed(model, key)).get_trace(
            moments, process_constraint(moments, PRICE)
        )["ratio"]["value"]
    )
    draws = np.asarray(draw(jax.random.split(jax.random.key(0), 20_000)))
    prior = moments.root @ moments.root.T
    error = np.sqrt((prior**2 + np.outer(np.diagonal(prior), np.diagonal(prior))) / len(draws))
    assert (np.abs(np.cov(draws.T) - prior) < 5 * error).all()
    assert (np.abs(draws.mean(axis=0) - 1.0) < 5 * 2.0 / np.sqrt(len(draws))).all()


def test_squared_loss_is_the_quadratic_form_of_the_gram_matrix(moments):
    sites = traced(model, moments, process_constraint(moments, PRICE), value_constraint=False)
    ratio = np.asarray(sites["ratio"]["value"])
    square = ratio @ moments.gram @ ratio / N**2 + 2 * ratio @ moments.cross / N + moments.constant
    assert float(sites["loss"]["value"]) == pytest.approx(0.5 * square, rel=1e-9)
    assert float(sites["value"]["value"]) == pytest.approx(np.mean(ratio * moments.reward))
    factor = sites["chance_constraint"]
    found = float(factor["fn"].log_prob(factor["value"]))
    assert found == pytest.approx(-0.5 * PRICE * square, rel=1e-9)


def closed_form(moments, penalty, value_constraint):
    posterior = process_posterior(
        moments, PRICE, penalty=penalty, value_constraint=value_constraint
    )
    metric = posterior.metric if penalty == "mahalanobis" else None
    constraint = process_constraint(
        moments, PRICE, metric=metric, value_constraint=value_constraint
    )
    return posterior, constraint


@pytest.mark.parametrize("value_constraint", [True, False])
@pytest.mark.parametrize("penalty", ["squared", "mahalanobis"])
def test_log_density_is_the_closed_forms_up_to_a_constant(moments, penalty, value_constraint):
    posterior, constraint = closed_form(moments, penalty, value_constraint)
    mean, factor = posterior.whitened_mean, posterior.whitened_factor
    if value_constraint:
        mean = np.append(mean, posterior.mean[-1])
        factor = np.concatenate([factor, posterior.factor[-1:]])
    gaussian = multivariate_normal(mean, factor @ factor.T)
    rng = np.random.default_rng(0)
    differences, sizes = [], []
    for _ in range(20):
        latent = mean + 2.0 * factor @ rng.normal(size=factor.shape[1])
        sites = {"ratio_base": latent[: moments.root.shape[1]]}
        if value_constraint:
            sites["value"] = latent[-1]
        found, _ = log_density(
            partial(model, value_constraint=value_constraint), (moments, constraint), {}, sites
        )
        differences.append(float(found) - gaussian.logpdf(latent))
        sizes.append(gaussian.logpdf(latent))
    assert np.ptp(sizes) > 10.0
    assert np.ptp(differences) < 1e-4


def test_prior_density_of_the_value(moments):
    constraint = process_constraint(moments, PRICE)
    base = np.zeros(moments.root.shape[1])
    at = [
        float(
            log_density(model, (moments, constraint), {}, {"ratio_base": base, "value": value})[0]
        )
        for value in (0.0, 3.0)
    ]
    prior = norm(moments.value_mean, moments.value_sd)
    implied = np.mean(moments.reward)
    factors = [-0.5 * PRICE * (implied - value) ** 2 for value in (0.0, 3.0)]
    expected = prior.logpdf(3.0) - prior.logpdf(0.0) + factors[1] - factors[0]
    assert at[1] - at[0] == pytest.approx(expected, rel=1e-9)


def test_nuts_agrees_with_the_closed_form(moments):
    posterior, constraint = closed_form(moments, "squared", True)
    mcmc = MCMC(NUTS(model), num_warmup=500, num_samples=2000, progress_bar=False)
    mcmc.run(jax.random.key(3), moments, constraint)
    samples = mcmc.get_samples()
    draws = np.column_stack([samples["ratio"], samples["value"]])
    for column, center, scale in zip(draws.T, posterior.mean, posterior.sd, strict=True):
        ess = float(effective_sample_size(column[None]))
        assert ess > 300
        assert abs(column.mean() - center) < 5 * scale / np.sqrt(ess)
        squares = (column - center) ** 2 / scale**2
        ess = float(effective_sample_size(squares[None]))
        assert abs(squares.mean() - 1.0) < 5 * np.sqrt(2.0 / ess)
