"""Mixtures of Gaussians at many states at once: density, distribution function, draws.

Every clone of a policy whose actions are vectors says the same of a state: weights, means and
standard deviations. A single Gaussian is a mixture of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr, logsumexp

from bayesdice_ppl.errors import PoliciesError

if TYPE_CHECKING:
    from jaxtyping import Array, PRNGKeyArray


@final
class Gaussians(NamedTuple):
    """A mixture of M diagonal Gaussians over vectors of q numbers, in each of b states.

    Attributes
    ----------
    log_weight
        Shape (b, M); the exponentials sum to 1.
    mean, sd
        Shape (b, M, q), in the units of the actions.
    """

    log_weight: Float[np.ndarray, "b M"]
    mean: Float[np.ndarray, "b M q"]
    sd: Float[np.ndarray, "b M q"]

    def rows(self, keep: Any) -> Gaussians:
        """The mixtures of some states."""
        return Gaussians(self.log_weight[keep], self.mean[keep], self.sd[keep])

    def log_density(self, action: Float[np.ndarray, "*n b q"]) -> Float[np.ndarray, "*n b"]:
        """Log density of actions, in nats."""
        z = (action[..., None, :] - self.mean) / self.sd
        each = -0.5 * np.sum(z**2 + np.log(2.0 * np.pi), axis=-1) - np.sum(np.log(self.sd), axis=-1)
        density: Float[np.ndarray, "*n b"] = logsumexp(each + self.log_weight, axis=-1)
        return density

    def distribution(self, action: Float[np.ndarray, "b q"]) -> Float[np.ndarray, "b q"]:
        """P(A_k <= a_k) of each number k of an action: uniform where the mixture is right."""
        z = (action[:, None, :] - self.mean) / self.sd
        return np.exp(logsumexp(log_ndtr(z) + self.log_weight[:, :, None], axis=1)).clip(0.0, 1.0)


@final
class MixturePolicy:
    """Actions from a mixture of Gaussians that depends on the state.

    Parameters
    ----------
    mixture
        Function of b states, vectors (b, p) or labels (b,), to their `Gaussians`.
    """

    __slots__ = ("mixture",)

    def __init__(self, mixture: Callable[[Any], Gaussians]) -> None:
        self.mixture = mixture

    def sample(self, rng_key: PRNGKeyArray, obs: Any, n: int) -> Float[Array, "n batch q"]:
        """Draw n actions in each state, shape (n, batch, q)."""
        import jax
        import jax.numpy as jnp

        given = self.mixture(obs)
        key_component, key_noise = jax.random.split(rng_key)
        size = (n, *given.log_weight.shape[:1])
        which = jax.random.categorical(key_component, jnp.asarray(given.log_weight), shape=size)
        mean, sd = (
            jnp.take_along_axis(jnp.asarray(each)[None], which[:, :, None, None], axis=2)[:, :, 0]
            for each in (given.mean, given.sd)
        )
        return mean + sd * jax.random.normal(key_noise, mean.shape, mean.dtype)

    def log_prob(self, obs: Any, action: Float[Any, "*n batch q"]) -> Float[np.ndarray, "*n batch"]:
        """Log density of actions, shape (..., batch), in nats.

        Raises
        ------
        PoliciesError
            There is not one vector of the right length for each state.
        """
        given = self.mixture(obs)
        size = given.mean.shape[0], given.mean.shape[2]
        if np.shape(action)[-2:] != size:
            raise PoliciesError(
                f"action: expected shape (..., {size[0]}, {size[1]}), a vector for each "
                f"observation, found {np.shape(action)}."
            )
        return given.log_density(np.asarray(action, dtype=np.float64))
