"""BayesDICE with a Gaussian-process ratio as a NumPyro program.

The prior of the ratio at the logged points is Normal(1, K), drawn through whitened numbers so that
a kernel of low rank is no trouble; the data enter through one factor, which prices the kernel
norm of the residual (Yang et al., appendix A). Its closed form is
`bayesdice_ppl.inference.process.process_posterior`, which runs at sizes where this program is slow.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.moments.process import ProcessMoments


def model(
    moments: ProcessMoments,
    constraint: ChanceConstraint,
    *,
    value_constraint: bool = True,
) -> None:
    """Prior and factor.

    The sites are ``ratio_base``, shape (Q,), from which the ratio at the logged points follows,
    ``ratio``, shape (n,), and ``value``, in reward per step; the factor is ``chance_constraint``,
    -(lambda / epsilon) f(residual), and ``loss`` is f(residual).

    Parameters
    ----------
    moments
        What the log says of one policy.
    constraint
        Penalty and price, from `bayesdice_ppl.inference.process.process_constraint`.
    value_constraint
        True: the value is a latent of its own, tied by a row of the residual; False: it is
        mean_i ratio_i r_i exactly, as in the paper.
    """
    # The root of a smooth kernel's covariance is singular, so that no density of the ratio exists.
    base = numpyro.sample(
        "ratio_base", dist.Normal(jnp.zeros(moments.root.shape[1]), 1.0).to_event(1)
    )
    ratio = numpyro.deterministic("ratio", 1.0 + moments.root @ base)
    implied = moments.implied_value(ratio)
    if value_constraint:
        value = numpyro.sample("value", dist.Normal(moments.value_mean, moments.value_sd))
    else:
        value = numpyro.deterministic("value", implied)
    residual = jnp.append(moments.residual(ratio), implied - value)
    loss = numpyro.deterministic("loss", constraint.penalty.value(residual))
    numpyro.factor("chance_constraint", -constraint.price * loss)
