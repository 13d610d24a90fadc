"""BayesDICE with a linear ratio as a NumPyro program.

The prior is on the weights of the ratio (site ``zeta``) and on the policy's value (``value``); the
data enter through one factor, ``chance_constraint``, which prices the residual of the
stationarity, normalization and value constraints as seen through the multipliers ``beta``. The
guide's multipliers climb while everything else descends, so that SVI on the pair solves
min over q(zeta, value), max over q(beta | zeta, value), of
KL(q || p) + (lambda / epsilon) E_q[beta'residual - f*(beta)]   (Yang et al., eq. 14).

Both functions are plain: trace them, put another guide beside the model, or run them with an SVI
or an MCMC kernel of your own (with ``inner="exact"``, which has no multipliers to fit). Nearly
exact constraints make the posterior thin, so that a kernel needs a metric to start from: the
guide's coordinates hold one, factor factor'.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import constraints

from bayesdice_ppl import surrogates
from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.models.gradients import StopScore, reverse_gradient
from bayesdice_ppl.moments import Moments
from bayesdice_ppl.surrogates import Surrogate

_SOFTPLUS_OF_ONE = math.log(math.e - 1.0)
"""Where the softplus is 1."""


class Coordinates(NamedTuple):
    """Coordinates y in which the guide moves: latent = center + factor y.

    Attributes
    ----------
    center
        Shape (L,), with L = P + 1 latent numbers, or P without the value constraint.
    factor
        Lower triangular, shape (L, L).
    """

    center: Float[Array, " L"]
    factor: Float[Array, "L L"]


class Start(NamedTuple):
    """Where the guide starts, in its coordinates.

    The defaults are far off on purpose: three standard deviations away and three times too wide,
    so that what the guide arrives at was found and not given.

    Attributes
    ----------
    offset, scale
        Mean of every coordinate, in the direction that raises the last latent (the value, which so
        starts at least this many of its own standard deviations off), and standard deviation.
    """

    offset: float | Float[Array, ""] = 3.0
    scale: float | Float[Array, ""] = 3.0


def start_direction(coordinates: Coordinates) -> Float[Array, " L"]:
    """The signs with which all coordinates move the last latent the same way, shape (L,)."""
    last = coordinates.factor[-1]
    return jnp.where(last >= 0.0, jnp.ones_like(last), -jnp.ones_like(last))


def ratio_of(weights: Float[Array, "*b P"], link: str) -> Float[Array, "*b P"]:
    """The ratio that belongs to the weights.

    Parameters
    ----------
    weights
        Latent numbers, shape (..., P), around 1.
    link
        ``"identity"``, or ``"softplus"``: log(1 + exp(w - 1 + log(e - 1))), which is 1 at weight 1.

    Returns
    -------
    Array
        Shape (..., P).
    """
    if link == "identity":
        return weights
    return jax.nn.softplus(weights - 1.0 + _SOFTPLUS_OF_ONE)


def weight_of(ratio: Float[Array, "*b P"], link: str) -> Float[Array, "*b P"]:
    """The weights that belong to a positive ratio, shape (..., P): the inverse of `ratio_of`."""
    if link == "identity":
        return ratio
    # log(exp(r) - 1), without overflow.
    return ratio + jnp.log(-jnp.expm1(-ratio)) + 1.0 - _SOFTPLUS_OF_ONE


def by_ratio(moments: Moments, weights: Float[Array, "*b K"], link: str) -> Float[Array, "*b R"]:
    """Residual at a value of zero, as the ratio alone makes it.

    Parameters
    ----------
    moments
        What the log says of one policy.
    weights
        Shape (..., K).
    link
        As for `ratio_of`; it acts on the ratio of each pair, linear in the weights before it.

    Returns
    -------
    Array
        Shape (..., R).
    """
    if link == "identity" or moments.basis is None or moments.by_ratio is None:
        return ratio_of(weights, link) @ moments.matrix[:, :-1].T + moments.offset
    ratio = ratio_of(weights @ moments.basis.T, link)
    return ratio @ moments.by_ratio.T + moments.offset


def model(
    moments: Moments,
    constraint: ChanceConstraint,
    *,
    inner: str = "guide",
    value_constraint: bool = True,
    surrogate: Surrogate = surrogates.markov(),  # noqa: B008  an immutable NamedTuple
    level: float | Float[Array, ""] | None = None,
    link: str = "identity",
) -> None:
    """Prior and factor.

    Parameters
    ----------
    moments
        What the log says of one policy.
    constraint
        Penalty and price.
    inner
        ``"guide"``: the multipliers are the site ``beta``, to be fitted by a guide;
        ``"exact"``: the factor holds their closed-form maximum, the penalty itself.
    value_constraint
        False: the value is the deterministic sum of ratio times reward, as in the paper, and the
        noise of the rewards does not enter.
    surrogate
        What stands in for P(ell > epsilon); a level that it fits is the parameter ``level``.
    level
        Where a fitted level starts, by default where the surrogate says.
    link
        ``"identity"``: the weights are the ratio; ``"softplus"``: the ratio is their softplus, and
        never negative (see `ratio_of`).
    """
    mean, scale = moments.prior_mean, moments.prior_scale
    latent = numpyro.sample("zeta", dist.Normal(mean[:-1], scale[:-1]).to_event(1))
    fixed = by_ratio(moments, latent, link)
    if value_constraint:
        value = numpyro.sample("value", dist.Normal(mean[-1], scale[-1]))
    else:
        value = numpyro.deterministic("value", fixed[-1])
    residual = fixed + moments.matrix[:, -1] * value
    if inner == "guide":
        # No prior and no entropy: beta is a point of an inner maximization, not a belief.
        beta = numpyro.sample(
            "beta", dist.Normal(jnp.zeros_like(residual), 1.0).to_event(1).mask(False)
        )
        loss = beta @ residual - constraint.penalty.conjugate(beta)
    else:
        loss = constraint.penalty.value(residual)
    numpyro.deterministic("loss", loss)
    own = constraint.auxiliary
    if own is not None:
        # One number needs no multiplier to be fitted: the factor holds the maximum.
        own_loss = own.penalty.value(residual)
        numpyro.deterministic("normalization_loss", own_loss)
        numpyro.factor("normalization_constraint", -own.price * own_loss)
    at = jnp.asarray(surrogate.start if level is None else level, mean.dtype)
    if surrogate.fitted:
        low, high = surrogate.levels
        between = constraints.interval(low, high)
        bounds = between if math.isfinite(high) else constraints.greater_than(low)
        # In the model, as it is no part of q: it descends with q, since the bound is its infimum.
        at = numpyro.param("level", at, constraint=bounds)
    cost = surrogate.cost(loss / constraint.epsilon, at)
    numpyro.factor("chance_constraint", -constraint.price * constraint.epsilon * cost)


def guide(
    moments: Moments,
    constraint: ChanceConstraint,
    *,
    coordinates: Coordinates,
    inner: str = "guide",
    value_constraint: bool = True,
    start: Start = Start(),  # noqa: B008  an immutable NamedTuple
    **_: object,
) -> None:
    """Full-covariance Gaussian over (zeta, value), and multipliers affine in them.

    Where ratio and residual are linear and the penalty is quadratic, the best multipliers are
    affine in the ratio and the best q is Gaussian, so that this guide holds the optimum.

    Parameters
    ----------
    moments, constraint, inner, value_constraint
        As for `model`.
    coordinates
        The coordinates it moves in; any will do, good ones converge sooner.
    start
        Where it starts.
    **_
        The model's other settings, which change nothing here.
    """
    size = coordinates.center.shape[0]
    center, factor = coordinates
    loc = numpyro.param("loc", start.offset * start_direction(coordinates))
    scale_tril = numpyro.param(
        "scale_tril",
        start.scale * jnp.eye(size, dtype=center.dtype),
        constraint=constraints.lower_cholesky,
    )
    y = numpyro.sample(
        "coordinates",
        # Its constraint holds already; a check would be compiled apart, operation by operation.
        StopScore(dist.MultivariateNormal(loc, scale_tril=scale_tril, validate_args=False)),
        infer={"is_auxiliary": True},
    )
    latent = center + factor @ y
    # The change of variables, so that the ELBO is that of (zeta, value).
    volume = -jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor))))
    weights = latent[:-1] if value_constraint else latent
    numpyro.sample("zeta", dist.Delta(weights, log_density=volume, event_dim=1))
    if value_constraint:
        numpyro.sample("value", dist.Delta(latent[-1]))
    if inner == "guide":
        n_rows = moments.offset.shape[0]
        slope = numpyro.param("beta_slope", jnp.zeros((n_rows, size), center.dtype))
        level = numpyro.param("beta_level", jnp.zeros(n_rows, center.dtype))
        whitened = reverse_gradient(slope) @ y + reverse_gradient(level)
        # The residual shrinks as 1 / sqrt(price): in these units its multipliers are of order 1.
        beta = constraint.penalty.unwhiten(whitened) / jnp.sqrt(constraint.price)
        numpyro.sample("beta", dist.Delta(beta, event_dim=1).mask(False))
