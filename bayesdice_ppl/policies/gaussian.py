"""The Gaussian policy: normal actions around a function of the observation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies.tabular import number_table

if TYPE_CHECKING:
    from jaxtyping import Array, PRNGKeyArray


@final
class GaussianPolicy:
    """Independent normal actions around a function of the observation.

    Parameters
    ----------
    mean
        Function of arrays, observations (batch, p) -> mean actions (batch, q).
    sd
        Standard deviation of each action, above 0: one number, or (q,).

    Raises
    ------
    PoliciesError
        A standard deviation is not positive and finite. Later, if the shapes of mean, standard
        deviation and actions do not fit together.
    """

    __slots__ = ("mean", "sd")

    def __init__(
        self,
        mean: Callable[[Float[Array, "batch p"]], Float[Array, "batch q"]],
        sd: float | Float[np.ndarray, " q"],
    ) -> None:
        if not callable(mean):
            raise PoliciesError(
                f"mean: expected a function of observations, found {type(mean).__name__}."
            )
        scale = number_table(sd, "sd")
        if scale.ndim > 1 or scale.size == 0 or not np.all((scale > 0) & np.isfinite(scale)):
            raise PoliciesError(
                f"sd: expected a positive number, or one for each action, found {sd!r}."
            )
        scale.setflags(write=False)
        self.mean = mean
        self.sd = scale

    def sample(
        self, rng_key: PRNGKeyArray, obs: Float[Any, "batch p"], n: int
    ) -> Float[Array, "n batch q"]:
        """Draw actions.

        Parameters
        ----------
        rng_key
            A JAX key.
        obs
            Observations, shape (batch, p).
        n
            How many actions in each.

        Returns
        -------
        Array
            Shape (n, batch, q).
        """
        draw, _ = _compiled()
        return draw(self._center(obs), self.sd, rng_key, n)

    def log_prob(
        self, obs: Float[Any, "batch p"], action: Float[Any, "*n batch q"]
    ) -> Float[Array, "*n batch"]:
        """Log density of actions.

        Parameters
        ----------
        obs
            Observations, shape (batch, p).
        action
            Actions, shape (..., batch, q).

        Returns
        -------
        Array
            Shape (..., batch), in nats.
        """
        center = self._center(obs)
        if np.shape(action)[-2:] != tuple(center.shape):
            raise PoliciesError(
                f"action: expected shape (..., {center.shape[0]}, {center.shape[1]}), a vector for "
                f"each observation, found {np.shape(action)}."
            )
        _, density = _compiled()
        return density(center, self.sd, np.asarray(action))

    def mirror(
        self, obs: Float[Any, "batch p"], action: Float[Any, "*n batch q"]
    ) -> Float[np.ndarray, "*n batch q"]:
        """The actions on the other side of the mean, which are as likely as these.

        Parameters
        ----------
        obs
            Observations, shape (batch, p).
        action
            Actions, shape (..., batch, q).

        Returns
        -------
        array
            Shape (..., batch, q). The mean of a function over an action and its mirror image is
            exact where the function is linear in the action.
        """
        return 2.0 * np.asarray(self._center(obs)) - np.asarray(action)

    def normal_moments(
        self, obs: Float[Any, "batch p"]
    ) -> tuple[Float[np.ndarray, "batch q"], Float[np.ndarray, " *q"]]:
        """Mean and standard deviation of the actions, with which means of features are exact.

        Parameters
        ----------
        obs
            Observations, shape (batch, p).

        Returns
        -------
        (array, array)
            Shape (batch, q), and () or (q,).
        """
        return np.asarray(self._center(obs), dtype=np.float64), self.sd

    def _center(self, obs: Float[Any, "batch p"]) -> Float[Array, "batch q"]:
        """Mean actions, their shape checked: broadcasting would hide a wrong one."""
        center = self.mean(obs)
        shape = tuple(getattr(center, "shape", ()))
        if len(shape) != 2 or shape[0] != len(obs):
            raise PoliciesError(
                f"mean: expected a function (batch, p) -> (batch, q), found one that gives shape "
                f"{shape} for {len(obs)} observations."
            )
        if self.sd.ndim and self.sd.shape != shape[1:]:
            raise PoliciesError(
                f"sd: expected one number, or one for each of {shape[1]} actions, found "
                f"{self.sd.size}."
            )
        return center

    def __repr__(self) -> str:
        return f"GaussianPolicy(sd={self.sd.tolist()})"


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Sampling and log density around given means, compiled once for each shape."""
    import jax  # not at the top: candidates that are tables need none of it
    import jax.numpy as jnp

    @partial(jax.jit, static_argnames="n")
    def draw(center: Any, sd: Any, rng_key: Any, n: int) -> Any:
        noise = jax.random.normal(rng_key, (n, *center.shape), center.dtype)
        return center + noise * sd.astype(center.dtype)

    @jax.jit
    def density(center: Any, sd: Any, action: Any) -> Any:
        each = jax.scipy.stats.norm.logpdf(action, center, sd.astype(center.dtype))
        return jnp.sum(each, axis=-1)

    return draw, density
