"""Two gradient tools for the guides: reversal, and a distribution without score.

The multipliers must climb while everything else descends, in one optimizer and one ELBO. And a
full-covariance guide converges to its optimum, and not to a cloud around it, only if the score of
the sample adds no noise.
"""

from __future__ import annotations

from typing import ClassVar, final

import jax
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import constraints


def reverse_gradient(parameter: Float[Array, "..."]) -> Float[Array, "..."]:
    """The same value with the opposite gradient: descent becomes ascent.

    It is applied to the *parameters* of the multipliers' guide, not to the multipliers. They also
    depend on the ratio, and the ratio's gradient must keep its sign.
    """
    return 2.0 * jax.lax.stop_gradient(parameter) - parameter


@final
class StopScore(dist.Distribution):
    """A reparametrized distribution whose log density has no gradient by its own parameters.

    The gradient of log q by its parameters is zero on average, and only noise. Without it the
    gradient of the ELBO has no variance when q is the posterior (Roeder, Wu and Duvenaud, "Sticking
    the Landing", 2017).

    Parameters
    ----------
    base
        The distribution to sample from.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.real_vector
    pytree_data_fields = ("base",)

    def __init__(self, base: dist.Distribution):
        self.base = base
        super().__init__(base.batch_shape, base.event_shape)

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw from the base, with gradients to its parameters."""
        return self.base.sample(key, sample_shape)

    def log_prob(self, value: Array) -> Array:
        """Log density of the base with its parameters held fixed."""
        return jax.tree.map(jax.lax.stop_gradient, self.base).log_prob(value)
