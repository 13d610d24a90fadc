"""BayesDICE as a NumPyro program, for any form of the ratio.

The prior is on the latent numbers of the ratio (site ``zeta``) and on the policy's value
(``value``). The data enter through one factor, ``chance_constraint``. It prices the residual of the
stationarity, normalization and value constraints, weighted by the multipliers ``beta``. The guide's
multipliers climb while everything else descends, so that SVI on the pair solves
min over q(zeta, value), max over q(beta | zeta, value), of
KL(q || p) + (lambda / epsilon) E_q[beta'residual - f*(beta)]   (Yang et al., eq. 14).

Both functions are plain: trace them, write another guide, or run them with an SVI or an MCMC kernel
of your own (with ``inner="exact"``, which has no multipliers to fit). Nearly exact constraints make
the posterior thin, so a kernel needs a metric to start from. The guide's coordinates have one:
factor factor'.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import constraints

from bayesdice_ppl.constraint import ChanceConstraint, Surrogate, surrogates
from bayesdice_ppl.models.coordinates import Coordinates, Start, start_direction
from bayesdice_ppl.models.gaussian import GaussianPosterior
from bayesdice_ppl.models.gradients import StopScore, reverse_gradient
from bayesdice_ppl.models.ratio import Ratio, less_value
from bayesdice_ppl.moments import VALUE_ROW


def model(
    ratio: Ratio,
    constraint: ChanceConstraint,
    *,
    inner: str = "guide",
    value_constraint: bool = True,
    surrogate: Surrogate = surrogates.markov(),  # noqa: B008  an immutable NamedTuple
    level: float | Float[Array, ""] | None = None,
) -> None:
    """Prior and factor.

    Parameters
    ----------
    ratio
        The ratio on one log, for one policy.
    constraint
        Penalty and price.
    inner
        ``"guide"``: the multipliers are the site ``beta``, to be fitted by a guide.
        ``"exact"``: the factor holds the maximum over the multipliers, the penalty itself.
    value_constraint
        False: the value is exactly the mean of ratio times reward, as in the paper, and the noise
        of the rewards does not enter.
    surrogate
        Bound that replaces P(ell > epsilon). A level that it fits is the parameter ``level``.
    level
        Where a fitted level starts; by default the surrogate's own start.
    """
    latent = numpyro.sample("zeta", ratio.latent_prior())
    fixed = ratio.residual(latent)
    if value_constraint:
        value = numpyro.sample("value", ratio.value_prior())
    else:
        value = numpyro.deterministic("value", fixed[VALUE_ROW])
    residual = less_value(fixed, value)
    if inner == "guide":
        # Beta has no prior and no entropy: it is the point of an inner maximization.
        beta = numpyro.sample(
            "beta", dist.Normal(jnp.zeros_like(residual), 1.0).to_event(1).mask(False)
        )
        loss = beta @ residual - constraint.penalty.conjugate(beta)
    else:
        loss = constraint.penalty.value(residual)
    numpyro.deterministic("loss", loss)
    own = constraint.auxiliary
    if own is not None:
        # One number needs no fitted multiplier: the factor holds the maximum.
        own_loss = own.penalty.value(residual)
        numpyro.deterministic("normalization_loss", own_loss)
        numpyro.factor("normalization_constraint", -own.price * own_loss)
    at = jnp.asarray(surrogate.start if level is None else level, fixed.dtype)
    if surrogate.fitted:
        low, high = surrogate.levels
        between = constraints.interval(low, high)
        bounds = between if math.isfinite(high) else constraints.greater_than(low)
        # The bound is an infimum over the level, so the level descends with q. It is a parameter of
        # the model, because it is not a part of q.
        at = numpyro.param("level", at, constraint=bounds)
    cost = surrogate.cost(loss / constraint.epsilon, at)
    numpyro.factor("chance_constraint", -constraint.price * constraint.epsilon * cost)


def guide(
    ratio: Ratio,
    constraint: ChanceConstraint,
    *,
    coordinates: Coordinates,
    inner: str = "guide",
    value_constraint: bool = True,
    start: Start = Start(),  # noqa: B008  an immutable NamedTuple
    **_: object,
) -> None:
    """Full-covariance Gaussian over (zeta, value), with multipliers affine in them.

    If the ratio is linear and the penalty quadratic, the best multipliers are affine in the ratio
    and the best q is Gaussian. This guide then contains the optimum.

    Parameters
    ----------
    ratio, constraint, inner, value_constraint
        As for `model`.
    coordinates
        The coordinates in which it moves. Any are valid; good ones converge sooner.
    start
        Where it starts.
    **_
        Other settings of the model, which the guide ignores.
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
        # The constraint holds already, and a check would be compiled operation by operation.
        StopScore(dist.MultivariateNormal(loc, scale_tril=scale_tril, validate_args=False)),
        infer={"is_auxiliary": True},
    )
    latent = center + factor @ y
    # The change of variables makes the ELBO that of (zeta, value).
    volume = -jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor))))
    weights = latent[:-1] if value_constraint else latent
    numpyro.sample("zeta", dist.Delta(weights, log_density=volume, event_dim=1))
    if value_constraint:
        numpyro.sample("value", dist.Delta(latent[-1]))
    if inner == "guide":
        n_rows = ratio.moments.offset.shape[0]
        slope = numpyro.param("beta_slope", jnp.zeros((n_rows, size), center.dtype))
        level = numpyro.param("beta_level", jnp.zeros(n_rows, center.dtype))
        whitened = reverse_gradient(slope) @ y + reverse_gradient(level)
        # The residual shrinks as 1 / sqrt(price): in these units its multipliers are of order 1.
        beta = constraint.penalty.unwhiten(whitened) / jnp.sqrt(constraint.price)
        numpyro.sample("beta", dist.Delta(beta, event_dim=1).mask(False))


def with_implied_value(
    ratio: Ratio, mean: Float[Array, " L"], factor: Float[Array, "L M"]
) -> GaussianPosterior:
    """Append the value that the ratio implies, mean_i zeta_i sigma(r_i), to its Gaussian.

    It is exact for a linear ratio, else to first order around the mean.

    Parameters
    ----------
    ratio
        The ratio on one log, for one policy.
    mean, factor
        Mean, shape (L,), and a root of the covariance, shape (L, M), of the latent numbers.
    """
    value, slope = jax.linearize(lambda latent: ratio.residual(latent)[VALUE_ROW], mean)
    row = jax.vmap(slope)(factor.T)
    return GaussianPosterior(jnp.append(mean, value), jnp.concatenate([factor, row[None]], axis=0))
