"""All candidates in one NumPyro program: their residuals on the same logs, priced by one factor.

Candidates are judged on the same transitions, so their residuals have correlated errors. Here they
are stacked, and one Mahalanobis penalty under their full covariance prices them all. The belief
over all values is joint, without a copula. `bayesdice_ppl.inference.one_model_posterior` is its
closed form, and `bayesdice_ppl.inference.one_model_constraint` makes the constraint.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.models.gaussian import condition
from bayesdice_ppl.models.linear import LinearRatio


def joint_model(ratios: LinearRatio, constraint: ChanceConstraint, *, inner: str = "exact") -> None:
    """Priors of N candidates, and one factor.

    The sites are ``zeta``, shape (N, P), and ``value``, shape (N,), in reward per step, with the
    priors of `bayesdice_ppl.models.model`; the factor is ``chance_constraint``.

    Parameters
    ----------
    ratios
        The linear ratio of each candidate, stacked along a leading axis: ``problem.ratio``.
    constraint
        Penalty and price of the stacked residual of N R rows, one candidate after another.
    inner
        ``"exact"``: the factor holds the maximum over the multipliers, the penalty itself.
        ``"guide"``: the multipliers are the site ``beta``, shape (N R,), to be fitted by a guide.

    Notes
    -----
    The factor is -(lambda / epsilon) f(x) with f(x) = x' Sigma^-1 x / 2 and x the stacked residual
    (Yang et al., eq. 14, for all candidates at once).
    """
    mean, scale = ratios.prior_mean, ratios.prior_scale
    # No plate: the factor ties the candidates to each other.
    zeta = numpyro.sample("zeta", dist.Normal(mean[:, :-1], scale[:, :-1]).to_event(2))
    value = numpyro.sample("value", dist.Normal(mean[:, -1], scale[:, -1]).to_event(1))
    latent = jnp.concatenate([zeta, value[:, None]], axis=1)
    residual = (jnp.einsum("nrk,nk->nr", ratios.matrix, latent) + ratios.moments.offset).ravel()
    if inner == "guide":
        # Beta has no prior and no entropy: it is the point of an inner maximization.
        beta = numpyro.sample(
            "beta", dist.Normal(jnp.zeros_like(residual), 1.0).to_event(1).mask(False)
        )
        loss = beta @ residual - constraint.penalty.conjugate(beta)
    else:
        loss = constraint.penalty.value(residual)
    numpyro.deterministic("loss", loss)
    numpyro.factor("chance_constraint", -constraint.price * loss)


def joint_posterior(
    ratios: LinearRatio, noise: Float[Array, "NR NR"]
) -> tuple[Float[Array, "N K"], Float[Array, "NK NK"]]:
    """Closed form of the posterior of all candidates' (weights, value).

    Parameters
    ----------
    ratios
        As for `joint_model`, under the identity link.
    noise
        Covariance of the stacked residual.

    Returns
    -------
    (Array, Array)
        Means, shape (N, K + 1), and the covariance of all of them, one candidate after another.
    """
    found = condition(
        block_diag(*ratios.matrix),
        ratios.moments.offset.ravel(),
        noise,
        ratios.prior_mean.ravel(),
        ratios.prior_scale.ravel(),
    )
    return found.mean.reshape(ratios.prior_mean.shape), found.covariance
