"""The public NumPyro program: what a user traces, swaps and runs with tools of their own."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, init_to_value
from numpyro.infer.autoguide import AutoMultivariateNormal
from numpyro.infer.util import log_density
from scipy.stats import multivariate_normal

from bayesdice_ppl import Policies, TabularPolicy
from bayesdice_ppl.models import Start, guide, model, reverse_gradient

PULLS = [(0, 1.0)] * 6 + [(0, 0.0)] * 12 + [(1, 1.0)] * 30 + [(1, 0.0)] * 8 + [(1, 0.5)] * 4


@pytest.fixture(scope="module")
def bandit(plain):
    """(ratio, constraint, coordinates) of one policy, and its posterior's mean and sd."""
    policies = Policies({"target": TabularPolicy([[0.6, 0.4]])})
    found = plain.prepare(
        plain.bandit(PULLS), policies, gamma=0.0, inference="exact", small_sample=False
    )
    posterior = plain.solve(found, jax.random.key(0)).posterior
    factor = np.asarray(posterior.factor[0])
    problem = plain.numpy(found.problem.of(0))
    return problem, np.asarray(posterior.mean[0]), np.sqrt((factor**2).sum(axis=1))


@pytest.fixture(scope="module")
def metric(bandit):
    """Sigma of the bandit, as the penalty holds it."""
    factor = bandit[0][1].penalty.factor
    return factor @ factor.T


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def traced(function, *arguments, **options):
    seeded = handlers.seed(partial(function, **options), jax.random.key(1))
    return handlers.trace(seeded).get_trace(*arguments)


def by_hand(ratio, sigma, zeta, value):
    residual = ratio.matrix @ np.append(zeta, value) + ratio.moments.offset
    return residual, 0.5 * residual @ np.linalg.solve(sigma, residual)


def test_the_value_of_this_bandit_is_pencil_and_paper(bandit):
    _, mean, sd = bandit
    arms = [np.array([r for a, r in PULLS if a == arm]) for arm in (0, 1)]
    target = np.array([0.6, 0.4])
    by_pencil = target @ [x.mean() for x in arms]
    spread = np.sqrt(sum(p**2 * x.var() / len(x) for p, x in zip(target, arms, strict=True)))
    assert abs(mean[-1] - by_pencil) < 0.01 * spread
    assert sd[-1] == pytest.approx(spread, rel=2e-3)


def test_model_has_the_sites_of_the_program(bandit):
    (ratio, constraint, _), _, _ = bandit
    sites = traced(model, ratio, constraint)
    assert [name for name, site in sites.items() if site["type"] == "sample"] == [
        "zeta",
        "value",
        "beta",
        "chance_constraint",
    ]
    assert sites["chance_constraint"]["is_observed"]
    assert sites["zeta"]["value"].shape == (2,)
    assert sites["value"]["value"].shape == ()


def test_guide_has_the_latent_sites_of_the_model(bandit):
    (ratio, constraint, coordinates), _, _ = bandit
    sites = traced(guide, ratio, constraint, coordinates=coordinates)
    latent = {name for name, site in sites.items() if site["type"] == "sample"}
    assert latent == {"coordinates", "zeta", "value", "beta"}
    assert sites["coordinates"]["infer"]["is_auxiliary"]
    params = {name for name, site in sites.items() if site["type"] == "param"}
    assert params == {"loc", "scale_tril", "beta_slope", "beta_level"}


def test_exact_multipliers_leave_no_beta_to_fit(bandit):
    (ratio, constraint, coordinates), _, _ = bandit
    assert "beta" not in traced(model, ratio, constraint, inner="exact")
    assert "beta" not in traced(guide, ratio, constraint, coordinates=coordinates, inner="exact")


def test_beta_carries_no_density_in_model_or_guide(bandit):
    (ratio, constraint, coordinates), _, _ = bandit
    for sites in (
        traced(model, ratio, constraint),
        traced(guide, ratio, constraint, coordinates=coordinates),
    ):
        site = sites["beta"]
        assert np.sum(site["fn"].log_prob(site["value"])) == 0.0


def test_factor_is_minus_the_priced_loss_at_the_given_multipliers(bandit, metric):
    (ratio, constraint, _), _, _ = bandit
    zeta, value, beta = np.array([1.2, 0.7]), 0.3, np.array([0.4, -1.0, 2.0])
    fixed = handlers.substitute(model, {"zeta": zeta, "value": value, "beta": beta})
    sites = traced(fixed, ratio, constraint)
    residual, _ = by_hand(ratio, metric, zeta, value)
    expected = -float(constraint.price) * (beta @ residual - 0.5 * beta @ metric @ beta)
    factor = sites["chance_constraint"]
    assert float(factor["fn"].log_prob(factor["value"])) == pytest.approx(expected, rel=1e-10)
    assert float(constraint.price) == pytest.approx(len(PULLS))


def test_factor_with_exact_multipliers_is_minus_the_priced_penalty(bandit, metric):
    (ratio, constraint, _), _, _ = bandit
    zeta, value = np.array([1.2, 0.7]), 0.3
    fixed = handlers.substitute(model, {"zeta": zeta, "value": value})
    sites = traced(fixed, ratio, constraint, inner="exact")
    _, loss = by_hand(ratio, metric, zeta, value)
    factor = sites["chance_constraint"]
    found = float(factor["fn"].log_prob(factor["value"]))
    assert found == pytest.approx(-float(constraint.price) * loss, rel=1e-5)
    assert float(sites["loss"]["value"]) == pytest.approx(loss, rel=1e-5)


def test_joint_density_is_prior_plus_factor(bandit, metric):
    (ratio, constraint, _), mean, _ = bandit
    zeta, value = mean[:-1] + 0.01, mean[-1] + 0.02
    found, _ = log_density(
        partial(model, inner="exact"), (ratio, constraint), {}, {"zeta": zeta, "value": value}
    )
    _, loss = by_hand(ratio, metric, zeta, value)
    prior = multivariate_normal(ratio.prior_mean, np.diag(ratio.prior_scale**2))
    expected = prior.logpdf(np.append(zeta, value)) - float(constraint.price) * loss
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_without_the_value_constraint_the_value_is_ratio_times_reward(plain):
    policies = Policies({"target": TabularPolicy([[0.6, 0.4]])})
    found = plain.prepare(plain.bandit(PULLS), policies, gamma=0.0, value_constraint=False)
    ratio, constraint, _ = plain.numpy(found.problem.of(0))
    zeta = np.array([1.2, 0.7])
    fixed = handlers.substitute(model, {"zeta": zeta})
    sites = traced(fixed, ratio, constraint, inner="exact", value_constraint=False)
    rewards = sum(zeta[arm] * reward for arm, reward in PULLS) / len(PULLS)
    assert sites["value"]["type"] == "deterministic"
    assert float(sites["value"]["value"]) == pytest.approx(rewards, rel=1e-10)


def test_density_of_the_guide_is_that_of_a_gaussian_in_the_latents(bandit):
    (ratio, constraint, coordinates), _, _ = bandit
    scale = np.array([[0.5, 0.0, 0.0], [0.2, 1.5, 0.0], [-0.3, 0.1, 0.8]])
    loc = np.array([0.3, -0.2, 1.0])
    placed = handlers.substitute(guide, {"loc": loc, "scale_tril": scale})
    sites = traced(placed, ratio, constraint, coordinates=coordinates)
    found = sum(
        float(np.sum(site["fn"].log_prob(site["value"])))
        for site in sites.values()
        if site["type"] == "sample"
    )
    latent = np.append(sites["zeta"]["value"], sites["value"]["value"])
    # In coordinates, where the covariance is well conditioned; the volume is the factor's.
    y = np.linalg.solve(coordinates.factor, latent - coordinates.center)
    volume = np.log(np.diagonal(coordinates.factor)).sum()
    expected = multivariate_normal(loc, scale @ scale.T).logpdf(y) - volume
    assert found == pytest.approx(expected, rel=1e-6)


def test_guide_starts_where_it_is_told_to(bandit):
    (ratio, constraint, coordinates), _, _ = bandit
    sites = traced(
        guide, ratio, constraint, coordinates=coordinates, start=Start(offset=-2.0, scale=0.5)
    )
    moved = coordinates.factor[-1] * sites["loc"]["value"]
    np.testing.assert_allclose(np.abs(sites["loc"]["value"]), np.full(3, 2.0))
    assert float(moved.sum()) == pytest.approx(-2.0 * float(np.abs(coordinates.factor[-1]).sum()))
    np.testing.assert_array_equal(sites["scale_tril"]["value"], 0.5 * np.eye(3))


@pytest.fixture(scope="module")
def gradients(bandit):
    """Per key: the gradient that SVI follows, and that of the loss by central differences."""
    with jax.enable_x64(True):
        (ratio, constraint, coordinates), _, _ = bandit
        rng = np.random.default_rng(0)
        values = {
            "beta_level": 0.3 * rng.normal(size=3),
            "beta_slope": 0.3 * rng.normal(size=(3, 3)),
            "loc": 0.3 * rng.normal(size=3),
            "scale_tril": np.eye(3) + 0.1 * np.tril(rng.normal(size=(3, 3))),
        }
        flat, restore = ravel_pytree(values)
        names = np.concatenate([[name] * values[name].size for name in sorted(values)])
        upper = restore(np.arange(len(flat)))["scale_tril"][np.triu_indices(3, 1)].astype(int)
        free = np.setdiff1d(np.arange(len(flat)), upper)

        def loss(flat, key):
            elbo = Trace_ELBO()
            placed = partial(guide, coordinates=coordinates)
            return elbo.loss(key, restore(flat), model, placed, ratio, constraint)

        keys = jax.random.split(jax.random.key(5), 4000)
        followed = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(flat, keys)
        many = jax.jit(jax.vmap(loss, in_axes=(None, 0)))
        step = 1e-5
        moved = [
            (many(flat.at[k].add(step), keys) - many(flat.at[k].add(-step), keys)) / (2 * step)
            for k in free
        ]
        return names[free], np.asarray(followed)[:, free], np.stack(moved, axis=1)


def test_gradient_of_the_multipliers_is_reversed_draw_by_draw(gradients):
    names, followed, moved = gradients
    beta = np.char.startswith(names, "beta")
    assert beta.sum() == 12
    size = np.abs(moved[:, beta]).max()
    np.testing.assert_allclose(followed[:, beta], -moved[:, beta], rtol=0, atol=1e-6 * size)


def test_gradient_of_everything_else_descends_the_loss(gradients):
    """Draw by draw they differ by the score alone, whose mean is zero."""
    names, followed, moved = gradients
    rest = ~np.char.startswith(names, "beta")
    difference = followed[:, rest] - moved[:, rest]
    error = difference.std(axis=0) / np.sqrt(len(difference))
    assert (np.abs(difference.mean(axis=0)) < 5 * error + 1e-6).all()
    assert (np.abs(moved[:, rest].mean(axis=0)) > 20 * error).any()


def run(svi, n_steps, *problem):
    """SVI as a user runs it; in one scan, so that it compiles once."""
    state = svi.init(jax.random.key(7), *problem)

    @jax.jit
    def steps(state):
        return jax.lax.scan(lambda s, _: svi.update(s, *problem), state, None, length=n_steps)[0]

    return svi.get_params(steps(state))


def adam(n_steps, rate=0.05):
    return optax.adam(optax.cosine_decay_schedule(rate, n_steps), b1=0.9, b2=0.99)


def test_affine_multipliers_converge_to_the_closed_form_maximizer(bandit):
    (ratio, constraint, coordinates), mean, sd = bandit
    svi = SVI(
        model, partial(guide, coordinates=coordinates), adam(3000), Trace_ELBO(num_particles=8)
    )
    found = run(svi, 3000, ratio, constraint)
    # beta* = Sigma^-1 (G x + c), x = center + factor y, in the guide's whitened units.
    whiten = np.sqrt(constraint.price) * np.linalg.inv(constraint.penalty.factor)
    slope = whiten @ ratio.matrix @ coordinates.factor
    level = whiten @ (ratio.matrix @ coordinates.center + ratio.moments.offset)
    assert np.abs(slope).max() > 0.5
    np.testing.assert_allclose(found["beta_slope"], slope, rtol=0, atol=0.01)
    np.testing.assert_allclose(found["beta_level"], level, rtol=0, atol=0.01)
    value = coordinates.center[-1] + coordinates.factor[-1] @ found["loc"]
    assert abs(value - mean[-1]) < 0.03 * sd[-1]
    spread = np.linalg.norm(coordinates.factor[-1] @ found["scale_tril"])
    assert spread == pytest.approx(sd[-1], rel=0.03)


def test_a_ready_made_guide_and_the_users_own_svi_find_the_value(bandit):
    (ratio, constraint, _), mean, sd = bandit
    exact = partial(model, inner="exact")
    own = AutoMultivariateNormal(exact)
    params = run(SVI(exact, own, adam(4000), Trace_ELBO(num_particles=8)), 4000, ratio, constraint)
    value = own.quantiles(params, [0.5])["value"][0]
    assert abs(float(value) - mean[-1]) < 0.05 * sd[-1]


def test_a_guide_written_by_hand_finds_the_value(bandit):
    """Independent normals in the problem's coordinates, and affine multipliers that climb."""
    (ratio, constraint, coordinates), mean, sd = bandit

    def mine(ratio, constraint):
        loc = numpyro.param("my_loc", jnp.full(3, 2.0))
        scale = numpyro.param(
            "my_scale", jnp.ones(3), constraint=dist.constraints.softplus_positive
        )
        y = numpyro.sample("y", dist.Normal(loc, scale).to_event(1), infer={"is_auxiliary": True})
        x = coordinates.center + coordinates.factor @ y
        numpyro.sample("zeta", dist.Delta(x[:-1], event_dim=1))
        numpyro.sample("value", dist.Delta(x[-1]))
        slope = numpyro.param("my_slope", jnp.zeros((3, 3)))
        level = numpyro.param("my_level", jnp.zeros(3))
        climbing = reverse_gradient(slope) @ y + reverse_gradient(level)
        beta = constraint.penalty.unwhiten(climbing) / jnp.sqrt(constraint.price)
        numpyro.sample("beta", dist.Delta(beta, event_dim=1).mask(False))

    params = run(SVI(model, mine, adam(4000), Trace_ELBO(num_particles=8)), 4000, ratio, constraint)
    value = coordinates.center[-1] + coordinates.factor[-1] @ np.asarray(params["my_loc"])
    assert abs(value - mean[-1]) < 0.05 * sd[-1]


def test_nuts_agrees_with_the_closed_form(bandit):
    (ratio, constraint, coordinates), mean, sd = bandit
    # The latents are flattened by name: value before zeta.
    order = [2, 0, 1]
    spread = (coordinates.factor @ coordinates.factor.T)[np.ix_(order, order)]
    start = {"zeta": coordinates.center[:-1], "value": coordinates.center[-1]}
    kernel = NUTS(
        partial(model, inner="exact"),
        dense_mass=True,
        inverse_mass_matrix=spread,
        adapt_mass_matrix=False,
        init_strategy=init_to_value(values=start),
    )
    mcmc = MCMC(kernel, num_warmup=300, num_samples=2000, progress_bar=False)
    mcmc.run(jax.random.key(2), ratio, constraint)
    samples = mcmc.get_samples()
    draws = np.column_stack([samples["zeta"], samples["value"]])
    for column, center, scale in zip(draws.T, mean, sd, strict=True):
        ess = float(effective_sample_size(column[None]))
        assert ess > 300
        assert abs(column.mean() - center) < 5 * scale / np.sqrt(ess)
        squares = (column - center) ** 2 / scale**2
        ess = float(effective_sample_size(squares[None]))
        assert abs(squares.mean() - 1.0) < 5 * np.sqrt(2.0 / ess)
