"""A neural ratio: a small network for the logarithm of the ratio, all of its weights uncertain.

The network starts at random weights with a last layer of zero, where the ratio is one (or the
action ratio, where that is known). The prior of every weight is a normal around its start, so that
the posterior is the mode that `find_mode` finds, and the closed form on the tangent there. In gain
form that costs the rows of the residual, not the square of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float

from bayesdice_ppl import checks
from bayesdice_ppl.models import program
from bayesdice_ppl.models.coordinates import Coordinates, gaussian_coordinates
from bayesdice_ppl.models.links import LINKS, Link
from bayesdice_ppl.models.modes import estimate_at_mode, find_mode, linearized
from bayesdice_ppl.models.ratio import FirstEstimate
from bayesdice_ppl.moments import Cells, Moments, Prior

_GAIN = 1.5
"""Sd of what enters a unit at the start. With tanh, a little past where a unit is linear."""
_REFRESHES = 4
_CHUNK = 1024
"""Pairs whose slopes are held at a time."""


@final
class NeuralRatio(eqx.Module):
    """A neural ratio on one log, for one policy. Its latent numbers are the network's weights.

    Attributes
    ----------
    moments
        Moments of the policy on the log.
    by_ratio
        How what the link gives of each pair moves the residual, shape (R, P).
    inputs
        What the network sees of each pair, shape (P, q).
    counted
        1 for the pairs that may have a ratio, shape (P,).
    prior_mean, prior_scale
        Prior means and sds of (weights, value), shape (K + 1,).
    sizes
        Numbers of inputs, of hidden units layer by layer, and of outputs.
    link
        Between the network's output and the ratio.
    """

    moments: Moments
    by_ratio: Float[Array, "R P"]
    inputs: Float[Array, "P q"]
    counted: Float[Array, " P"]
    prior_mean: Float[Array, " K"]
    prior_scale: Float[Array, " K"]
    sizes: tuple[int, ...] = eqx.field(static=True)
    link: Link = eqx.field(static=True)

    def latent_prior(self) -> dist.Distribution:
        """Independent normals around the weights at the start."""
        return dist.Normal(self.prior_mean[:-1], self.prior_scale[:-1]).to_event(1)

    def value_prior(self) -> dist.Distribution:
        """A normal around the mean reward of the log."""
        return dist.Normal(self.prior_mean[-1], self.prior_scale[-1])

    def _linked(self, latent: Float[Array, " K"]) -> Float[Array, " P"]:
        return self.link.ratio(network(latent, self.inputs, self.sizes))

    def by_pair(self, latent: Float[Array, "*b K"]) -> Float[Array, "*b P"]:
        """The ratio of each logged pair."""
        known = self.moments.action_ratio
        factor = self.counted if known is None else self.counted * known

        def one(latent: Float[Array, " K"]) -> Float[Array, " P"]:
            return self._linked(latent) * factor

        return _each_draw(one, latent)

    def residual(self, latent: Float[Array, "*b K"]) -> Float[Array, "*b R"]:
        """Residual at a value of zero."""
        return _each_draw(
            lambda each: self.by_ratio @ self._linked(each) + self.moments.offset, latent
        )

    def recorded(self, latent: Float[Array, "*b K"]) -> Float[Array, "*b K"]:
        """The weights, layer after layer, each unit's bias last."""
        return latent

    @property
    def refreshes(self) -> int:
        """Sigma moves with the ratio."""
        return _REFRESHES

    def _slopes(
        self, latent: Float[Array, " K"], inputs: Float[Array, "b q"]
    ) -> Float[Array, "b K"]:
        """How what the link gives of some pairs moves with the weights."""

        def linked(latent: Float[Array, " K"], x: Float[Array, " q"]) -> Float[Array, ""]:
            return self.link.ratio(network(latent, x[None], self.sizes)[0])

        return jax.vmap(jax.grad(linked), (None, 0))(latent, inputs)

    def jacobian(self, latent: Float[Array, " K"]) -> Float[Array, "R K"]:
        """How the residual moves with the weights, without a slope for each pair and weight."""
        n_pairs = self.inputs.shape[0]
        extra = -n_pairs % _CHUNK
        inputs = jnp.pad(self.inputs, ((0, extra), (0, 0)))
        by_ratio = jnp.pad(self.by_ratio, ((0, 0), (0, extra)))
        parts = (
            inputs.reshape(-1, _CHUNK, inputs.shape[1]),
            by_ratio.T.reshape(-1, _CHUNK, by_ratio.shape[0]),
        )

        def add(
            total: Float[Array, "R K"], part: tuple[Array, Array]
        ) -> tuple[Float[Array, "R K"], None]:
            x, weight = part
            return total + weight.T @ self._slopes(latent, x), None

        start = jnp.zeros((by_ratio.shape[0], latent.shape[0]), latent.dtype)
        return jax.lax.scan(add, start, parts)[0]

    def pair_slopes(self, latent: Float[Array, " K"]) -> Float[Array, "P K"]:
        """How the ratio of each pair moves with the weights."""
        known = self.moments.action_ratio
        factor = self.counted if known is None else self.counted * known
        return self._slopes(latent, self.inputs) * factor[:, None]

    def estimate(
        self, noise: Float[Array, "R R"], start: Float[Array, " K"] | None = None
    ) -> FirstEstimate:
        """The mode."""
        prior = (self.prior_mean, self.prior_scale)
        begin = self.prior_mean if start is None else start
        latent, slope = estimate_at_mode(self.residual, self.jacobian, noise, *prior, begin)
        return FirstEstimate(self.by_pair(latent[:-1]), latent[-1], slope, latent)

    def coordinates(
        self, noise: Float[Array, "R R"], rows: Float[Array, " R"], *, value_constraint: bool
    ) -> Coordinates:
        """Coordinates of (weights, value), or of the weights, as it is linear around the mode."""
        size = None if value_constraint else -1
        prior = (self.prior_mean, self.prior_scale)
        point = find_mode(self.residual, self.jacobian, noise, *prior, self.prior_mean).latent
        matrix, offset = linearized(self.residual, self.jacobian, point)
        return gaussian_coordinates(
            (matrix * rows[:, None])[:, :size],
            offset * rows,
            noise,
            self.prior_mean[:size],
            self.prior_scale[:size],
        )

    model = program.model
    guide = program.guide


@final
class NeuralModel(NamedTuple):
    """The choice of a neural ratio; make one with `neural`."""

    width: int
    depth: int
    link: Link
    seed: int

    @property
    def linear(self) -> bool:
        """A network is not linear in its weights."""
        return False

    def record(self, *, tabular: bool) -> tuple[str, str]:
        """Weights of the network."""
        return "weights", "weight"

    def build(self, cells: Cells, moments: Moments, prior: Prior) -> NeuralRatio:
        """Build the ratio on one log, for one policy."""
        assert moments.by_ratio is not None
        by_ratio, known = moments.by_ratio, moments.action_ratio
        if known is not None:
            by_ratio = by_ratio * known
        n_pairs = by_ratio.shape[1]
        dtype = by_ratio.dtype
        if cells.coordinates is None:
            inputs, counted = jnp.eye(n_pairs, dtype=dtype), moments.active
        else:
            inputs = jnp.asarray(cells.coordinates, dtype)
            counted = jnp.ones(n_pairs, dtype)
        sizes = (inputs.shape[1], *[self.width] * self.depth, 1)
        visits = jnp.zeros(n_pairs, dtype).at[cells.pair].add(cells.count)
        mean, scale = _weights_at_start(self.seed, inputs, visits, sizes, prior.ratio_sd)
        return NeuralRatio(
            moments=moments._replace(by_ratio=None),
            by_ratio=by_ratio,
            inputs=inputs,
            counted=counted,
            prior_mean=jnp.append(mean, moments.reward_mean),
            prior_scale=jnp.append(scale, moments.reward_scale * prior.value_sd),
            sizes=sizes,
            link=self.link,
        )

    def __str__(self) -> str:
        return f"neural(width={self.width}, depth={self.depth}, link={self.link}, seed={self.seed})"


def neural(
    width: int = 32, depth: int = 2, link: str | Link = "exp", *, seed: int = 0
) -> NeuralModel:
    """A small network for the ratio.

    Parameters
    ----------
    width, depth
        Hidden units in a layer, and hidden layers.
    link
        ``"exp"`` (default): the network gives the logarithm of the ratio. ``"softplus"`` is
        positive too. ``"identity"``: it gives the ratio.
    seed
        Of the weights at the start. Networks of other seeds differ by as much as the fit of one
        depends on its start.

    Raises
    ------
    SettingsError
        There is no such link, or a number is not a whole one of at least 1 (``seed``: 0).
    """
    return NeuralModel(
        checks.whole("neural: width", width, 1),
        checks.whole("neural: depth", depth, 1),
        link if isinstance(link, Link) else LINKS[checks.one_of("link", link, LINKS)],
        checks.whole("neural: seed", seed, 0),
    )


def network(
    latent: Float[Array, " K"], inputs: Float[Array, "b q"], sizes: tuple[int, ...]
) -> Float[Array, " b"]:
    """The network's output, around 1, at which every link gives a ratio of one.

    Parameters
    ----------
    latent
        Its weights, layer after layer; each layer is a matrix with a last row of biases.
    inputs
        What it sees.
    sizes
        Numbers of inputs, of hidden units layer by layer, and of outputs.
    """
    hidden, used = inputs, 0
    for below, above in pairwise(sizes):
        layer = latent[used : used + (below + 1) * above].reshape(below + 1, above)
        found = hidden @ layer[:-1] + layer[-1]
        hidden, used = jnp.tanh(found), used + layer.size
    return 1.0 + found[:, 0]


def _weights_at_start(
    seed: int,
    inputs: Float[Array, "P q"],
    visits: Float[Array, " P"],
    sizes: tuple[int, ...],
    ratio_sd: float,
) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """Means and sds of the prior: random weights, but for a last layer of zero.

    A layer's sd gives its units the same spread over the log, whatever the inputs are. The last
    one's gives the output the prior sd that a linear model has, in root mean square over the log.
    """
    share = visits / jnp.sum(visits)
    hidden, means, scales = inputs, [], []
    key = jax.random.key(seed)
    for number, (below, above) in enumerate(pairwise(sizes)):
        square = 1.0 + share @ jnp.sum(hidden**2, axis=1)
        last = number == len(sizes) - 2
        scale = (ratio_sd if last else _GAIN) / jnp.sqrt(square)
        drawn = jax.random.normal(jax.random.fold_in(key, number), (below + 1, above), inputs.dtype)
        layer = drawn * scale * (0.0 if last else 1.0)
        means.append(layer.ravel())
        scales.append(jnp.full(layer.size, scale))
        hidden = jnp.tanh(hidden @ layer[:-1] + layer[-1])
    return jnp.concatenate(means), jnp.concatenate(scales)


def _each_draw(function: Callable[[Array], Array], latent: Float[Array, "*b K"]) -> Array:
    """Apply a function of one draw's weights to all draws, one after another to save memory."""
    if latent.ndim == 1:
        return function(latent)
    flat = latent.reshape(-1, latent.shape[-1])
    found = jax.lax.map(function, flat)
    return found.reshape(*latent.shape[:-1], *found.shape[1:])
