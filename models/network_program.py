"""The NumPyro program of mean and deviation networks, for stochastic variational inference.

The site ``noise`` has the same law in model and guide: what is uncertain of the ratio and of the
value is said by the parameters of networks and value. Their distance to the prior enters as one
factor, ``prior``. The constraint enters at fixed multipliers ``beta``, where it is a sum over pairs
of state and action. The plate ``pairs`` takes a mini-batch of them, and NumPyro scales its factor
by the number of pairs over that of the batch, so that its mean is the factor of the whole log.
(A penalty of a batch's mean would not do: its mean is larger by the variance of the batch.)

The multipliers' parameters climb by a reversed gradient, as in `bayesdice_ppl.models.program`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.contrib.module import eqx_module

from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.models.gradients import reverse_gradient
from bayesdice_ppl.models.networks import Networks
from bayesdice_ppl.moments import VALUE_ROW

_DRAWS = 16
_SCALE_AT_START = 1.0


class FunctionDraws(NamedTuple):
    """What the networks say at some pairs, for several draws of the function.

    Attributes
    ----------
    mean, deviation
        Shapes (B,) and (B, k + 1).
    linked
        What the link gives, shape (S, B).
    """

    mean: Float[Array, " B"]
    deviation: Float[Array, "B k"]
    linked: Float[Array, "S B"]


def model(
    ratio: Any,
    constraint: ChanceConstraint,
    *,
    networks: Networks,
    draws: int = _DRAWS,
    batch: int | None = None,
    value_constraint: bool = True,
    **_: object,
) -> None:
    """Prior and constraint.

    Parameters
    ----------
    ratio
        A `bayesdice_ppl.models.MeanDeviationRatio` on one log, for one policy.
    constraint
        Price and penalty, a square, in single precision.
    networks
        Where mean and deviation start.
    draws
        Even number S of functions that are drawn a step, in mirrored pairs.
    batch
        Pairs in a mini-batch; None: all of them.
    value_constraint
        False: the value is exactly the mean of ratio times reward, and has no site.
    **_
        Other settings of the guide, which the model ignores.
    """
    n_pairs, n_rows = ratio.inputs.shape[0], ratio.rows.shape[1]
    size = 1 + ratio.noise
    noise = numpyro.sample("noise", _standard(draws, size))
    mean = eqx_module("mean", networks.mean)
    deviation = eqx_module("deviation", networks.deviation)
    both = Networks(mean, deviation)
    beta = numpyro.sample("beta", _standard(draws, n_rows))
    offset = jnp.asarray(ratio.moments.offset, noise.dtype)
    outside = beta @ offset
    value_kl = jnp.zeros((), noise.dtype)
    if value_constraint:
        value, value_kl = _value(ratio, noise[:, 0])
        outside = outside - beta[:, VALUE_ROW] * value
    outside = outside - jax.vmap(constraint.penalty.conjugate)(beta)
    divergence = value_kl + _divergence(ratio, both, apart=int(value_constraint))
    numpyro.factor("prior", -divergence)
    with numpyro.plate("pairs", n_pairs, subsample_size=batch) as chosen:
        # (S, B): the multipliers' worth of each pair's visits, times the pair's ratio.
        worth = beta @ ratio.rows[ratio.first_row + chosen].T
        inside = worth * draw_functions(both, ratio, ratio.inputs[chosen], noise).linked
        numpyro.factor("chance_constraint", -constraint.price * jnp.mean(inside, axis=0))
    numpyro.factor("multipliers", -constraint.price * jnp.mean(outside))


def guide(
    ratio: Any,
    constraint: ChanceConstraint,
    *,
    draws: int = _DRAWS,
    start: Float[Array, " R"] | None = None,
    **_: object,
) -> None:
    """Noise in mirrored pairs, and multipliers that see it.

    Parameters
    ----------
    ratio, constraint, draws
        As for `model`.
    start
        Whitened multipliers at the start, shape (R,); zero if None.
    **_
        Other settings of the model, which the guide ignores.
    """
    n_rows, size = ratio.rows.shape[1], 1 + ratio.noise
    half = numpyro.sample("half_noise", _standard(draws // 2, size), infer={"is_auxiliary": True})
    # NumPyro draws in double precision where it is enabled.
    half = jnp.asarray(half, jnp.float32)
    noise = jnp.concatenate([half, -half])
    numpyro.sample("noise", dist.Delta(noise, event_dim=2).mask(False))
    begin = jnp.zeros(n_rows, noise.dtype) if start is None else start
    level = numpyro.param("beta_level", begin)
    slope = numpyro.param("beta_slope", jnp.zeros((n_rows, size), noise.dtype))
    whitened = reverse_gradient(level) + noise @ reverse_gradient(slope).T
    # The residual shrinks as 1 / sqrt(price): in these units its multipliers are of order 1.
    beta = constraint.penalty.unwhiten(whitened) / jnp.sqrt(constraint.price)
    numpyro.sample("beta", dist.Delta(beta, event_dim=2).mask(False))


def draw_functions(
    networks: Networks, ratio: Any, inputs: Float[Array, "B q"], noise: Float[Array, "S k"]
) -> FunctionDraws:
    """The function at some pairs, for each vector of noise.

    Parameters
    ----------
    networks
        Mean and deviation.
    ratio
        As for `model`.
    inputs
        What the networks see of the pairs.
    noise
        One vector for each draw of the function.
    """
    mean, deviation = networks(inputs)
    return FunctionDraws(mean, deviation, ratio.link.ratio(mean + noise @ deviation.T))


def _standard(draws: int, size: int) -> dist.Distribution:
    """Standard normals without a score: their law is the same in model and guide."""
    zero = jnp.zeros((draws, size), jnp.float32)
    return dist.Normal(zero, jnp.ones((), jnp.float32)).to_event(2).mask(False)


def _value(ratio: Any, noise: Float[Array, " S"]) -> tuple[Float[Array, " S"], Float[Array, ""]]:
    """The value of each draw, and the distance of its law to the prior."""
    prior = ratio.value_prior()
    center, spread = (jnp.asarray(x, noise.dtype) for x in (prior.loc, prior.scale))
    loc = numpyro.param("value_loc", jnp.zeros((), noise.dtype)) * ratio.value_unit
    log_scale = numpyro.param("value_log_scale", jnp.full((), _SCALE_AT_START, noise.dtype))
    scale = jnp.exp(log_scale) * ratio.value_unit
    divergence = 0.5 * ((loc / spread) ** 2 + (scale / spread) ** 2 - 1.0)
    return center + loc + scale * noise, divergence - jnp.log(scale / spread)


def _divergence(ratio: Any, networks: Networks, *, apart: int) -> Float[Array, ""]:
    """KL of the function's coefficients to their prior, given the value; see `mean_deviation`.

    Parameters
    ----------
    ratio, networks
        As for `model`.
    apart
        Columns of the deviation that are known given the value, and so have no width of their own.
    """
    mean, deviation = networks(ratio.inputs[ratio.points])
    off = ratio.projection @ mean - ratio.center
    spread = ratio.projection @ deviation
    own = spread[:, apart:] / ratio.nugget[:, None]
    # In units of the least width, so that single precision holds the widths of all directions.
    square = own.T @ own + jnp.eye(own.shape[1], dtype=own.dtype)
    factor = jnp.linalg.cholesky(jnp.asarray(square, jnp.float64))
    log_volume = jnp.sum(jnp.log(jnp.diagonal(factor)))
    trace = jnp.sum(off**2) + jnp.sum(spread**2)
    return 0.5 * trace - jnp.asarray(log_volume, trace.dtype)
