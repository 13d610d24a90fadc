"""The linear ratio: a weight for each logged pair or each feature, optionally through a link.

With the identity link the ratio is linear in Gaussian weights. Under a quadratic penalty and
Markov's surrogate the optimum over *all* q is then a Gaussian: the prior conditioned on residual =
0 with noise (epsilon / lambda) Sigma. It is the oracle of every other engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Float

from bayesdice_ppl import checks
from bayesdice_ppl.arrays import library_of, replaced, sums_by
from bayesdice_ppl.models import program
from bayesdice_ppl.models.coordinates import Coordinates, gaussian_coordinates
from bayesdice_ppl.models.gaussian import (
    GaussianPosterior,
    condition,
    condition_value,
    square_root,
)
from bayesdice_ppl.models.links import IDENTITY, LINKS, Link
from bayesdice_ppl.models.modes import estimate_at_mode, find_mode, linearized
from bayesdice_ppl.models.ratio import FirstEstimate, ValuePosterior
from bayesdice_ppl.moments import VALUE_ROW, Cells, Moments, Prior

_LIFT, _LEAST_RATIO = 0.5, 1e-3
_REFRESHES = 4
"""How often Sigma is evaluated anew for a link on features: it moves with the ratio."""


@final
class LinearRatio(eqx.Module):
    """A linear ratio on one log, for one policy.

    Attributes
    ----------
    moments
        Moments of the policy on the log.
    matrix
        G, shape (R, K + 1): residual = G (weights, value) + offset under the identity link.
    prior_mean, prior_scale
        Prior means and sds of (weights, value), shape (K + 1,).
    basis
        Features of the ratio at each pair, shape (P, K); None: a weight for each pair.
    by_ratio
        How what the link gives of each pair moves the residual, shape (R, P), for a link on
        features. Else None.
    link
        Between weights and ratio.
    """

    moments: Moments
    matrix: Float[Any, "R K"]
    prior_mean: Float[Any, " K"]
    prior_scale: Float[Any, " K"]
    basis: Float[Any, "P K"] | None
    by_ratio: Float[Any, "R P"] | None
    link: Link = eqx.field(static=True)

    def latent_prior(self) -> dist.Distribution:
        """Independent normals around a ratio of one."""
        return dist.Normal(self.prior_mean[:-1], self.prior_scale[:-1]).to_event(1)

    def value_prior(self) -> dist.Distribution:
        """A normal around the mean reward of the log."""
        return dist.Normal(self.prior_mean[-1], self.prior_scale[-1])

    def by_pair(self, latent: Float[Any, "*b K"]) -> Float[Any, "*b P"]:
        """The ratio of each logged pair."""
        if self.basis is None:
            return self.link.ratio(latent) * self.moments.active
        found = self.link.ratio((latent * self.moments.active) @ self.basis.T)
        known = self.moments.action_ratio
        return found if known is None else found * known

    def residual(self, latent: Float[Any, "*b K"]) -> Float[Any, "*b R"]:
        """Residual at a value of zero."""
        if self.by_ratio is None or self.basis is None:
            return self.link.ratio(latent) @ self.matrix[:, :-1].T + self.moments.offset
        return self.link.ratio(latent @ self.basis.T) @ self.by_ratio.T + self.moments.offset

    def recorded(self, latent: Float[Any, "*b K"]) -> Float[Any, "*b K"]:
        """The ratio of each pair with one-hot features, else the weights."""
        weights = self.link.ratio(latent) if self.basis is None else latent
        return weights * self.moments.active

    @property
    def refreshes(self) -> int:
        """How often Sigma is evaluated anew at the estimate; a link on features needs more."""
        return _REFRESHES if self._estimates else 1

    @property
    def _estimates(self) -> bool:
        """Whether the first estimate is a mode behind the link."""
        return self.by_ratio is not None and self.link.estimates

    def estimate(
        self, noise: Float[Any, "R R"], start: Float[Any, " K"] | None = None
    ) -> FirstEstimate:
        """Mean of the closed form; behind some links on features the mode.

        For other links it is the mean under the identity link.
        """
        prior = (self.prior_mean, self.prior_scale)
        if self._estimates:
            begin = self.prior_mean if start is None else start
            latent, slope = estimate_at_mode(self.residual, self.jacobian, noise, *prior, begin)
            return FirstEstimate(self.by_pair(latent[:-1]), latent[-1], slope, latent)
        found = condition_value(self.matrix, self.moments.offset, noise, *prior)
        latent = found.mean
        # The gain's row for the value is minus the action values, and minus one for the reward.
        slope = found.gain / found.gain[-1]
        return FirstEstimate(self._unlinked(latent[:-1]), latent[-1], slope, latent)

    def _unlinked(self, weights: Float[Any, " K"]) -> Float[Any, " P"]:
        """The ratio of each pair under the identity link."""
        weights = weights * self.moments.active
        if self.basis is None:
            return weights
        known = self.moments.action_ratio
        return self.basis @ weights if known is None else self.basis @ weights * known

    def jacobian(self, latent: Float[Any, " K"]) -> Float[Any, "R K"]:
        """How the residual moves with the latent numbers, at a point."""
        if self.link.linear:
            return self.matrix[:, :-1]
        if self.by_ratio is None or self.basis is None:
            return self.matrix[:, :-1] / self.link.slope(self.link.ratio(latent))
        steepness = 1.0 / self.link.slope(self.link.ratio(self.basis @ latent))
        return self.by_ratio @ (steepness[:, None] * self.basis)

    def pair_slopes(self, latent: Float[Any, " K"]) -> Float[Any, "P K"]:
        """How the ratio of each pair moves with the weights, at a point."""
        if self.basis is None:
            steepness = 1.0 / self.link.slope(self.link.ratio(latent))
            return library_of(latent).diag(steepness * self.moments.active)
        linked = self.link.ratio(self.basis @ (latent * self.moments.active))
        steepness = 1.0 / self.link.slope(linked)
        known = self.moments.action_ratio
        factor = steepness if known is None else steepness * known
        return factor[:, None] * self.basis * self.moments.active

    def posterior(
        self,
        covariance: Float[Any, "R R"],
        price: Float[Any, ""],
        *,
        value_constraint: bool = True,
    ) -> GaussianPosterior:
        """Closed form of the posterior of (weights, value), under the identity link."""
        if value_constraint:
            found = condition(
                self.matrix,
                self.moments.offset,
                covariance / price,
                self.prior_mean,
                self.prior_scale,
            )
            return GaussianPosterior(found.mean, square_root(found.covariance))
        found = condition(
            self.matrix[:-1, :-1],
            self.moments.offset[:-1],
            covariance[:-1, :-1] / price,
            self.prior_mean[:-1],
            self.prior_scale[:-1],
        )
        xp = library_of(found.mean)
        factor = square_root(found.covariance)
        # The value that the ratio implies: the residual of its row at a value of zero.
        row = self.matrix[VALUE_ROW, :-1]
        value = row @ found.mean + self.moments.offset[VALUE_ROW]
        return GaussianPosterior(
            xp.append(found.mean, value), xp.concatenate([factor, (row @ factor)[None]], axis=0)
        )

    def value_posterior(
        self, covariance: Float[Any, "R R"], price: Float[Any, ""]
    ) -> ValuePosterior:
        """Closed form of the value's posterior alone, with the value constraint.

        With many pairs `posterior` spends most of its time on the covariance of the weights and its
        root. This takes one factorization and two solves.
        """
        found = condition_value(
            self.matrix, self.moments.offset, covariance / price, self.prior_mean, self.prior_scale
        )
        # If nothing varies, rounding may make the variance negative.
        xp = library_of(found.variance)
        return ValuePosterior(found.mean, xp.sqrt(xp.maximum(found.variance, 0.0)))

    def coordinates(
        self, noise: Float[Any, "R R"], rows: Float[Any, " R"], *, value_constraint: bool
    ) -> Coordinates:
        """Coordinates of (weights, value), or of the weights."""
        size = None if value_constraint else -1
        matrix, offset = self.matrix, self.moments.offset
        if self.by_ratio is not None:
            # Behind a link on features the residual is taken as it is linear around the mode.
            prior = (self.prior_mean, self.prior_scale)
            point = find_mode(self.residual, self.jacobian, noise, *prior, self.prior_mean).latent
            matrix, offset = linearized(self.residual, self.jacobian, point)
        found = gaussian_coordinates(
            (matrix * rows[:, None])[:, :size],
            offset * rows,
            noise,
            self.prior_mean[:size],
            self.prior_scale[:size],
        )
        if self.link.linear or self.by_ratio is not None:
            return found
        return through_link(found, self.link, value_constraint=value_constraint)

    model = program.model
    guide = program.guide


@final
class LinearModel(NamedTuple):
    """The choice of a linear ratio; make one with `linear`."""

    link: Link = IDENTITY
    directions: int | None = None

    @property
    def linear(self) -> bool:
        """Whether the ratio is linear in the weights."""
        return self.link.linear

    @property
    def plain(self) -> bool:
        """All of it computes on NumPy's arrays, the search for a mode too."""
        return True

    def record(self, *, tabular: bool) -> tuple[str, str]:
        """Weights, of pairs or of features."""
        return "weights", "pair" if tabular else "feature"

    def build(self, cells: Cells, moments: Moments, prior: Prior) -> LinearRatio:
        """Build the ratio on one log, for one policy."""
        assert moments.by_ratio is not None
        basis, active = cells.basis, moments.active
        xp = library_of(moments.by_ratio)
        if basis is not None and self.directions is not None:
            # The constant, and the coarsest directions.
            basis = basis[:, : 1 + self.directions]
            active = active[: basis.shape[1]]
        by_ratio, known = moments.by_ratio, moments.action_ratio
        if known is not None:
            by_ratio = by_ratio * known
        by_weight = by_ratio if basis is None else by_ratio @ basis
        n_rows, n_weights = by_weight.shape
        value = replaced(xp.zeros((n_rows, 1), by_weight.dtype), (VALUE_ROW, 0), -1.0)
        ones = xp.ones(n_weights, by_weight.dtype)
        if basis is None:
            mean, scale = ones, ones * prior.ratio_sd
            if self.link.linear:
                visits = sums_by(cells.count, cells.pair, n_weights)
                scale = prior.of_pairs(visits, cells.n_transitions)
        else:
            # The first weight is the constant's, so the prior is centered at a ratio of 1.
            mean = replaced(xp.zeros(n_weights, by_weight.dtype), 0, 1.0)
            # Padded pairs have no constant either.
            size = xp.sqrt((basis**2).sum() / basis[:, 0].sum())
            scale = ones * prior.ratio_sd / size
        linked = basis is not None and not self.link.linear
        return LinearRatio(
            moments=moments._replace(by_ratio=None, active=active),
            matrix=xp.concatenate([by_weight, value], axis=1),
            prior_mean=xp.append(mean, moments.reward_mean),
            prior_scale=xp.append(scale, moments.reward_scale * prior.value_sd),
            basis=basis,
            by_ratio=by_ratio if linked else None,
            link=self.link,
        )

    def __str__(self) -> str:
        said = [] if self.link.linear else [f"link={self.link}"]
        if self.directions is not None:
            said.append(f"directions={self.directions}")
        return f"linear({', '.join(said)})" if said else "linear"


def linear(link: str | Link = IDENTITY, *, directions: int | None = None) -> LinearModel:
    """A linear ratio.

    Parameters
    ----------
    link
        ``"identity"`` (default): the ratio is linear in the weights. ``"softplus"``: no draw of the
        ratio is negative. ``"exp"``: the logarithm of the ratio is linear in the weights.
    directions
        How many directions of the features the ratio may use, the coarsest first; the constraint
        tests them all. With fewer directions than tests P(ell <= epsilon) tells whether the
        features can express the ratio. By default all. For features other than one-hot.

    Raises
    ------
    SettingsError
        There is no such link, or `directions` is not a whole number of at least 1.
    """
    if directions is not None:
        checks.whole("linear: directions", directions, 1)
    return LinearModel(
        link if isinstance(link, Link) else LINKS[checks.one_of("link", link, LINKS)], directions
    )


def through_link(coordinates: Coordinates, link: Link, *, value_constraint: bool) -> Coordinates:
    """Transform coordinates of the ratio into those of the weights behind a link, to first order.

    A ratio near zero belongs to a weight far below, where the softplus is flat. In units of the
    ratio that weight would be hundreds of steps away.

    Parameters
    ----------
    coordinates
        Those of the ratio and, with the value constraint, the value.
    link
        Between weights and ratio.
    value_constraint
        Whether the last coordinate is the value, which has no link.
    """
    center, factor = coordinates
    sd = jnp.sqrt(jnp.sum(factor**2, axis=1))
    # A ratio that may be zero is placed half a standard deviation above it, where the link slopes.
    ratio = jnp.maximum(center, jnp.maximum(_LIFT * sd, _LEAST_RATIO))
    is_value = jnp.arange(center.shape[0]) == center.shape[0] - (1 if value_constraint else 0)
    moved = jnp.where(is_value, center, link.weight(ratio))
    return Coordinates(moved, factor * jnp.where(is_value, 1.0, link.slope(ratio))[:, None])
