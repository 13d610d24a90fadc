"""The program of all candidates at once: its sites, its factor, and its Gaussian."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS, init_to_value
from numpyro.infer.util import log_density
from scipy.stats import multivariate_normal

from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.constraint.penalties import Mahalanobis
from bayesdice_ppl.inference import one_model_constraint
from bayesdice_ppl.models import joint_model, model

N_POLICIES, N_ROWS, N_WEIGHTS = 2, 4, 3
PRICE = 50.0


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def made_up(plain):
    """(ratios, constraint, Sigma) of two policies whose residuals err together."""
    rng = np.random.default_rng(5)
    like = plain.prepare(plain.log(8), plain.policies(9, 2), gamma=0.9).problem.ratio
    shared = rng.normal(size=(N_ROWS, N_WEIGHTS + 1))
    matrix = shared + 0.3 * rng.normal(size=(N_POLICIES, N_ROWS, N_WEIGHTS + 1))
    moments = like.moments._replace(offset=rng.normal(size=(N_POLICIES, N_ROWS)))
    ratios = replace(
        like,
        matrix=matrix,
        moments=moments,
        prior_mean=rng.normal(size=(N_POLICIES, N_WEIGHTS + 1)),
        prior_scale=rng.uniform(0.5, 2.0, size=(N_POLICIES, N_WEIGHTS + 1)),
    )
    size = N_POLICIES * N_ROWS
    root = rng.normal(size=(N_ROWS, N_ROWS))
    between = np.array([[1.0, 0.8], [0.8, 1.0]])
    sigma = np.kron(between, root @ root.T) + 0.1 * np.eye(size)
    with jax.enable_x64(True):
        penalty = Mahalanobis.of(jnp.asarray(sigma), jnp.ones(size))
        return ratios, ChanceConstraint(penalty, jnp.asarray(PRICE), jnp.asarray(0.1)), sigma


def dense_bayes(ratios, sigma):
    """Mean and covariance of the Gaussian in information form, policy by policy."""
    precision = np.diag(1.0 / ratios.prior_scale.ravel() ** 2)
    right = precision @ ratios.prior_mean.ravel()
    G = np.zeros((N_POLICIES * N_ROWS, N_POLICIES * (N_WEIGHTS + 1)))
    for j in range(N_POLICIES):
        rows = slice(j * N_ROWS, (j + 1) * N_ROWS)
        G[rows, j * (N_WEIGHTS + 1) : (j + 1) * (N_WEIGHTS + 1)] = ratios.matrix[j]
    weight = PRICE * np.linalg.inv(sigma)
    covariance = np.linalg.inv(precision + G.T @ weight @ G)
    return covariance @ (right - G.T @ weight @ ratios.moments.offset.ravel()), covariance


def by_hand(ratios, zeta, value):
    """The stacked residual."""
    latents = [np.append(*one) for one in zip(zeta, value, strict=True)]
    rows = zip(ratios.matrix, ratios.moments.offset, latents, strict=True)
    return np.concatenate([matrix @ latent + offset for matrix, offset, latent in rows])


def traced(*arguments, **options):
    seeded = handlers.seed(partial(joint_model, **options), jax.random.key(1))
    return handlers.trace(seeded).get_trace(*arguments)


def at(latent):
    """The sites of a stacked latent."""
    table = np.asarray(latent).reshape(N_POLICIES, N_WEIGHTS + 1)
    return {"zeta": table[:, :-1], "value": table[:, -1]}


@pytest.mark.parametrize(("inner", "beta"), [("exact", []), ("guide", ["beta"])])
def test_model_has_the_sites_of_the_program(made_up, inner, beta):
    ratios, constraint, _ = made_up
    sites = traced(ratios, constraint, inner=inner)
    sampled = [name for name, site in sites.items() if site["type"] == "sample"]
    assert sampled == ["zeta", "value", *beta, "chance_constraint"]
    assert sites["chance_constraint"]["is_observed"]
    assert sites["zeta"]["value"].shape == (N_POLICIES, N_WEIGHTS)
    assert sites["value"]["value"].shape == (N_POLICIES,)


def test_factor_is_one_and_minus_the_priced_penalty(made_up):
    ratios, constraint, sigma = made_up
    given = at(np.random.default_rng(0).normal(size=N_POLICIES * (N_WEIGHTS + 1)))
    fixed = handlers.substitute(joint_model, given)
    sites = handlers.trace(handlers.seed(fixed, 0)).get_trace(ratios, constraint)
    residual = by_hand(ratios, **given)
    loss = 0.5 * residual @ np.linalg.solve(sigma, residual)
    factor = sites["chance_constraint"]
    log_factor = factor["fn"].log_prob(factor["value"])
    assert log_factor.shape == ()
    assert float(log_factor) == pytest.approx(-PRICE * loss, rel=1e-10)
    assert float(sites["loss"]["value"]) == pytest.approx(loss, rel=1e-10)


def test_multipliers_carry_no_density_and_enter_the_factor_linearly(made_up):
    ratios, constraint, sigma = made_up
    rng = np.random.default_rng(1)
    given = at(rng.normal(size=N_POLICIES * (N_WEIGHTS + 1)))
    beta = rng.normal(size=N_POLICIES * N_ROWS)
    fixed = handlers.substitute(partial(joint_model, inner="guide"), {**given, "beta": beta})
    sites = handlers.trace(handlers.seed(fixed, 0)).get_trace(ratios, constraint)
    assert np.sum(sites["beta"]["fn"].log_prob(beta)) == 0.0
    expected = -PRICE * (beta @ by_hand(ratios, **given) - 0.5 * beta @ sigma @ beta)
    factor = sites["chance_constraint"]
    assert float(factor["fn"].log_prob(factor["value"])) == pytest.approx(expected, rel=1e-10)


def test_at_the_best_multipliers_the_two_forms_agree(made_up):
    ratios, constraint, sigma = made_up
    given = at(np.random.default_rng(2).normal(size=N_POLICIES * (N_WEIGHTS + 1)))
    best = np.linalg.solve(sigma, by_hand(ratios, **given))
    exact, _ = log_density(joint_model, (ratios, constraint), {}, given)
    guided, _ = log_density(
        partial(joint_model, inner="guide"), (ratios, constraint), {}, {**given, "beta": best}
    )
    assert float(guided) == pytest.approx(float(exact), rel=1e-10)


def test_density_differs_from_the_gaussians_by_a_constant(made_up):
    ratios, constraint, sigma = made_up
    mean, covariance = dense_bayes(ratios, sigma)
    gaussian = multivariate_normal(mean, covariance)
    points = mean + 3.0 * (gaussian.rvs(10, random_state=np.random.default_rng(3)) - mean)
    expected = gaussian.logpdf(points)
    found = [
        float(log_density(joint_model, (ratios, constraint), {}, at(point))[0]) for point in points
    ]
    assert np.ptp(expected) > 10.0
    assert np.ptp(found - expected) < 1e-8


def test_one_policy_has_the_density_of_its_own_program(plain):
    found = plain.prepare(plain.log(8), plain.policies(9, 1), gamma=0.9)
    problem = found.problem
    own_ratio, own_constraint, _ = problem.of(0)
    constraint = one_model_constraint(problem)
    ratio, center = np.asarray(problem.pilots.by_pair[0]), float(problem.pilots.value[0])
    for step in (0.0, 0.01, -0.02):
        zeta, value = ratio + step, np.asarray(center - step)
        own, _ = log_density(
            partial(model, inner="exact"),
            (own_ratio, own_constraint),
            {},
            {"zeta": zeta, "value": value},
        )
        joint, _ = log_density(
            joint_model,
            (problem.ratio, constraint),
            {},
            {"zeta": zeta[None], "value": value[None]},
        )
        assert float(joint) == pytest.approx(float(own), rel=1e-8)


@pytest.mark.slow
def test_nuts_draws_values_that_move_together(made_up):
    ratios, constraint, sigma = made_up
    mean, covariance = dense_bayes(ratios, sigma)
    # The latents are flattened by name: the values before the weights.
    places = np.arange(len(mean)).reshape(N_POLICIES, -1)
    order = np.concatenate([places[:, -1], places[:, :-1].ravel()])
    kernel = NUTS(
        joint_model,
        dense_mass=True,
        inverse_mass_matrix=covariance[np.ix_(order, order)],
        adapt_mass_matrix=False,
        init_strategy=init_to_value(values=at(mean)),
    )
    mcmc = MCMC(kernel, num_warmup=300, num_samples=2000, progress_bar=False)
    mcmc.run(jax.random.key(2), ratios, constraint)
    values = np.asarray(mcmc.get_samples()["value"])
    last = places[:, -1]
    sd = np.sqrt(np.diagonal(covariance)[last])
    scores = (values - mean[last]) / sd
    expected = covariance[last[0], last[1]] / sd.prod()
    assert abs(expected) > 0.2
    for column, moment in (
        (scores[:, 0], 0.0),
        (scores[:, 1], 0.0),
        (scores[:, 0] * scores[:, 1], expected),
    ):
        ess = float(effective_sample_size(column[None]))
        assert ess > 300
        assert abs(column.mean() - moment) < 5.0 * column.std() / np.sqrt(ess)
