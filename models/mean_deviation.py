"""The paper's networks: a mean and a deviation, and noise that is one vector for a whole function.

A draw of the ratio is zeta(x) = link(m(x) + d(x)'xi) for all points x at once, with one standard
normal vector xi for each draw of the function. Independent noise for each row would average out as
1 / sqrt(n), whatever the data say. The first entry of xi belongs to the value: a draw takes its
value first, and the first column of d says how the ratio follows it. So the value's spread is right
however few columns d has.

What is q, and what is the prior. The prior is that of the linear model: independent normals on the
coefficients of the function behind the link, in the K directions of the features (on labels: on the
numbers of the pairs). The function's coefficients are its projection on these directions. q is the
Gaussian that the networks induce on (coefficients, value). Given the value it lies on a plane of
few dimensions, where its density is measured by length along the plane. KL(q || prior) is then
exact where the noise has as many entries as there are directions, and the networks can reach the
exact posterior. It is bounded by a nugget where the data leave no width at all. Outside of the
directions only weight decay holds the networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayesdice_ppl import checks
from bayesdice_ppl.models import network_program as program
from bayesdice_ppl.models.coordinates import Coordinates
from bayesdice_ppl.models.linear import LinearModel, LinearRatio
from bayesdice_ppl.models.links import LINKS, Link
from bayesdice_ppl.models.networks import Networks, make_networks
from bayesdice_ppl.models.ratio import FirstEstimate
from bayesdice_ppl.moments import Cells, Moments, Prior

_POINTS = 4
"""Pairs at which the networks are projected on the directions, for each direction."""
_NUGGET = 0.1
"""Sd of the least width, in units of 1 / sqrt(n): no direction is known better than this."""
_JITTER = 1e-9


@final
class MeanDeviationRatio(eqx.Module):
    """Mean and deviation networks on one log, for one policy, before they are trained.

    Its latent numbers are the K coefficients that have the prior. P is the number of pairs, R the
    number of rows of the residual, q that of inputs.

    Attributes
    ----------
    rough
        The linear ratio of the same link: prior, first estimate and coordinates.
    rows
        How what the link gives of each pair moves the residual, shape (P, R). In training those on
        a part of the log may follow, row for row.
    first_row
        Where in `rows` the pairs begin, scalar.
    inputs
        What the networks see of each pair, shape (P, q).
    points
        Pairs at which the function is projected, shape (M,).
    projection
        From the function at these pairs to its coefficients, in prior sds, shape (K, M).
    center
        Prior mean of the coefficients, in prior sds, shape (K,).
    nugget
        Least width, in prior sds of each coefficient, shape (K,).
    value_unit
        Unit in which the value is fitted, in reward per step, scalar.
    width, depth, noise
        Hidden units in a layer, hidden layers, and entries of the noise beside the value's.
    seed
        Of the weights at the start.
    """

    rough: LinearRatio
    rows: Float[Array, "P R"]
    first_row: Int[Array, ""]
    inputs: Float[Array, "P q"]
    points: Int[Array, " M"]
    projection: Float[Array, "K M"]
    center: Float[Array, " K"]
    nugget: Float[Array, " K"]
    value_unit: Float[Array, ""]
    width: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    noise: int = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    @property
    def moments(self) -> Moments:
        """Moments of the policy on the log."""
        return self.rough.moments

    @property
    def link(self) -> Link:
        """Between the networks' output and the ratio."""
        return self.rough.link

    def networks(self, rng_key: PRNGKeyArray) -> Networks:
        """Networks at the start, at which the mean ratio is one, or the action ratio."""
        key = jax.random.fold_in(rng_key, self.seed)
        return make_networks(key, self.inputs.shape[1], self.width, self.depth, 1 + self.noise)

    def latent_prior(self) -> dist.Distribution:
        """Independent normals on the coefficients."""
        return self.rough.latent_prior()

    def value_prior(self) -> dist.Distribution:
        """A normal around the mean reward of the log."""
        return self.rough.value_prior()

    def by_pair(self, latent: Float[Array, "*b K"]) -> Float[Array, "*b P"]:
        """The ratio of each logged pair, of a function within the directions."""
        return self.rough.by_pair(latent)

    def residual(self, latent: Float[Array, "*b K"]) -> Float[Array, "*b R"]:
        """Residual at a value of zero."""
        return self.rough.residual(latent)

    def jacobian(self, latent: Float[Array, " K"]) -> Float[Array, "R K"]:
        """How the residual moves with the coefficients."""
        return self.rough.jacobian(latent)

    def pair_slopes(self, latent: Float[Array, " K"]) -> Float[Array, "P K"]:
        """How the ratio of each pair moves with the coefficients."""
        return self.rough.pair_slopes(latent)

    def recorded(self, latent: Float[Array, "*b K"]) -> Float[Array, "*b K"]:
        """The coefficients; what was trained records its noise."""
        return latent

    @property
    def refreshes(self) -> int:
        """As often as for the linear ratio."""
        return self.rough.refreshes

    def estimate(
        self, noise: Float[Array, "R R"], start: Float[Array, " K"] | None = None
    ) -> FirstEstimate:
        """That of the linear ratio."""
        return self.rough.estimate(noise, start)

    def coordinates(
        self, noise: Float[Array, "R R"], rows: Float[Array, " R"], *, value_constraint: bool
    ) -> Coordinates:
        """Those of the linear ratio."""
        return self.rough.coordinates(noise, rows, value_constraint=value_constraint)

    model = program.model
    guide = program.guide


@final
class TrainedRatio(eqx.Module):
    """The ratio after training, a mixture of networks that started apart.

    Its latent numbers are the noise of a draw, k + 1 numbers, and one number for each of the T
    trained networks: 1 for that of the draw, 0 for the others.

    Attributes
    ----------
    untrained
        The ratio on the log.
    networks
        The trained networks, stacked along a leading axis of length T.
    """

    untrained: MeanDeviationRatio
    networks: Networks

    @property
    def moments(self) -> Moments:
        """Moments of the policy on the log."""
        return self.untrained.moments

    @property
    def refreshes(self) -> int:
        """Sigma is frozen before the training."""
        return 1

    def latent_prior(self) -> dist.Distribution:
        """Of the coefficients of a function, which the noise has none of."""
        return self.untrained.latent_prior()

    def value_prior(self) -> dist.Distribution:
        """A normal around the mean reward of the log."""
        return self.untrained.value_prior()

    def _each(
        self, latent: Float[Array, "*b L"], finish: Callable[[Float[Array, " P"]], Array]
    ) -> Array:
        """Apply a function to what the link gives of each pair, one draw after another."""
        outputs = jax.vmap(lambda networks: networks(self.untrained.inputs))(self.networks)
        mean, deviation = (jnp.asarray(x, latent.dtype) for x in outputs)
        n_noise = deviation.shape[-1]

        def one(latent: Float[Array, " L"]) -> Array:
            noise, chosen = latent[:n_noise], latent[n_noise:]
            return finish(self.untrained.link.ratio(chosen @ (mean + deviation @ noise)))

        flat = latent.reshape(-1, latent.shape[-1])
        found = jax.lax.map(one, flat)
        return found.reshape(*latent.shape[:-1], *found.shape[1:])

    def by_pair(self, latent: Float[Array, "*b L"]) -> Float[Array, "*b P"]:
        """The ratio of each logged pair."""
        rough = self.untrained.rough
        known = rough.moments.action_ratio
        factor = rough.moments.active if rough.basis is None else 1.0
        factor = factor if known is None else factor * known
        return self._each(latent, lambda linked: linked * factor)

    def residual(self, latent: Float[Array, "*b L"]) -> Float[Array, "*b R"]:
        """Residual at a value of zero."""
        rows = jnp.asarray(self.untrained.rows, latent.dtype)
        return self._each(latent, lambda linked: linked @ rows + self.moments.offset)

    def recorded(self, latent: Float[Array, "*b L"]) -> Float[Array, "*b L"]:
        """The noise of a draw, and which networks it is of."""
        return latent

    def estimate(
        self, noise: Float[Array, "R R"], start: Float[Array, " K"] | None = None
    ) -> FirstEstimate:
        """That of the ratio before training."""
        return self.untrained.estimate(noise, start)

    def coordinates(
        self, noise: Float[Array, "R R"], rows: Float[Array, " R"], *, value_constraint: bool
    ) -> Coordinates:
        """Those of the ratio before training."""
        return self.untrained.coordinates(noise, rows, value_constraint=value_constraint)

    model = program.model
    guide = program.guide


@final
class MeanDeviationModel(NamedTuple):
    """The choice of mean and deviation networks; make one with `mean_deviation`."""

    width: int
    depth: int
    noise: int
    link: Link
    seed: int

    @property
    def linear(self) -> bool:
        """Networks are not linear in their weights."""
        return False

    @property
    def trained(self) -> bool:
        """It gives a ratio only once it is trained."""
        return True

    def record(self, *, tabular: bool) -> tuple[str, str]:
        """The noise of each draw, and which networks it is of."""
        return "noise", "component"

    def build(self, cells: Cells, moments: Moments, prior: Prior) -> MeanDeviationRatio:
        """Build the ratio on one log, for one policy."""
        assert moments.by_ratio is not None
        rough = LinearModel(self.link).build(cells, moments, prior)
        by_ratio, known = moments.by_ratio, moments.action_ratio
        if known is not None:
            by_ratio = by_ratio * known
        n_pairs = by_ratio.shape[1]
        scale = jnp.asarray(rough.prior_scale[:-1])
        active = jnp.asarray(rough.moments.active)
        if rough.basis is None:
            # Indicators of unit mean square, as vectors are in units of their sd.
            inputs = jnp.sqrt(1.0 * n_pairs) * jnp.eye(n_pairs)
            points = jnp.arange(n_pairs)
            projection = jnp.diag(active)
        else:
            assert cells.coordinates is not None
            inputs = jnp.asarray(cells.coordinates)
            points = _spread_points(n_pairs, _POINTS * scale.shape[0])
            at_points = jnp.asarray(rough.basis)[points] * active
            square = at_points.T @ at_points
            level = jnp.trace(square) / len(square)
            projection = jnp.linalg.solve(
                square + _JITTER * level * jnp.eye(len(square)), at_points.T
            )
            projection = projection * active[:, None]
        least = _NUGGET / jnp.sqrt(cells.n_transitions)
        single = jnp.float32
        return MeanDeviationRatio(
            rough=rough,
            rows=jnp.asarray(by_ratio.T, single),
            first_row=jnp.asarray(0),
            inputs=jnp.asarray(inputs, single),
            points=points,
            projection=jnp.asarray(projection / scale[:, None], single),
            center=jnp.asarray(active * rough.prior_mean[:-1] / scale, single),
            nugget=jnp.asarray(least / scale, single),
            value_unit=jnp.asarray(moments.reward_scale / jnp.sqrt(cells.n_transitions), single),
            width=self.width,
            depth=self.depth,
            noise=self.noise,
            seed=self.seed,
        )

    def __str__(self) -> str:
        return (
            f"mean_deviation(width={self.width}, depth={self.depth}, noise={self.noise}, "
            f"link={self.link}, seed={self.seed})"
        )


def mean_deviation(
    width: int = 64, depth: int = 2, *, noise: int = 16, link: str | Link = "exp", seed: int = 0
) -> MeanDeviationModel:
    """The paper's mean and deviation networks (ReLU), for `bayesdice_ppl.inference.MinMax`.

    Parameters
    ----------
    width, depth
        Hidden units in a layer, and hidden layers, of each network.
    noise
        Entries of the noise of a draw, beside the one of the value. With as many as the features
        have directions q can have any covariance.
    link
        ``"exp"`` (default): the networks give the logarithm of the ratio. ``"softplus"`` is
        positive too. ``"identity"``: they give the ratio.
    seed
        Of the weights at the start.

    Raises
    ------
    SettingsError
        There is no such link, or a number is not a whole one of at least 1 (``seed``: 0).
    """
    return MeanDeviationModel(
        checks.whole("mean_deviation: width", width, 1),
        checks.whole("mean_deviation: depth", depth, 1),
        checks.whole("mean_deviation: noise", noise, 1),
        link if isinstance(link, Link) else LINKS[checks.one_of("link", link, LINKS)],
        checks.whole("mean_deviation: seed", seed, 0),
    )


def _spread_points(n_pairs: int, most: int) -> Int[Array, " M"]:
    """Pairs spread evenly over the log; those that pad it are zero in every direction."""
    number = min(n_pairs, most)
    return (jnp.arange(number) * n_pairs) // number
