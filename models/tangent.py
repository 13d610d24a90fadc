"""Any ratio as it is linear around a point: Laplace's approximation has a closed form on it."""

from __future__ import annotations

from typing import Any, final

import equinox as eqx
import numpyro.distributions as dist
from jaxtyping import Bool, Float

from bayesdice_ppl.arrays import library_of
from bayesdice_ppl.models import program
from bayesdice_ppl.models.coordinates import Coordinates
from bayesdice_ppl.models.gaussian import GaussianPosterior
from bayesdice_ppl.models.linear import LinearRatio
from bayesdice_ppl.models.links import IDENTITY
from bayesdice_ppl.models.modes import find_mode, linearized
from bayesdice_ppl.models.ratio import (
    FirstEstimate,
    Ratio,
    ValuePosterior,
    jacobian_of,
    pair_slopes_of,
)
from bayesdice_ppl.moments import Moments


@final
class TangentRatio(eqx.Module):
    """A ratio as it is linear around a point of its latent numbers.

    Attributes
    ----------
    inner
        The ratio.
    linear
        Its residual as a linear function of the same latent numbers, under the same prior.
    point
        The latent numbers and the value at the point, shape (L + 1,).
    converged
        Whether the point is a mode, scalar.
    """

    inner: Ratio
    linear: LinearRatio
    point: Float[Any, " L"]
    converged: Bool[Any, ""]

    @property
    def moments(self) -> Moments:
        """Moments of the policy, with the offset of the linear residual."""
        return self.linear.moments

    def latent_prior(self) -> dist.Distribution:
        """The prior of the ratio itself."""
        return self.linear.latent_prior()

    def value_prior(self) -> dist.Distribution:
        """The prior of the value."""
        return self.linear.value_prior()

    def by_pair(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b P"]:
        """The ratio itself, not its tangent."""
        return self.inner.by_pair(latent)

    def residual(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b R"]:
        """The residual as it is linear around the point."""
        return self.linear.residual(latent)

    def jacobian(self, latent: Float[Any, " L"]) -> Float[Any, "R L"]:
        """That of the linear residual, the same everywhere."""
        return self.linear.matrix[:, :-1]

    def pair_slopes(self, latent: Float[Any, " L"]) -> Float[Any, "P L"]:
        """How the ratio itself moves, not its tangent."""
        return pair_slopes_of(self.inner)(latent)

    def recorded(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b W"]:
        """What the ratio itself records."""
        return self.inner.recorded(latent)

    @property
    def refreshes(self) -> int:
        """Sigma is evaluated at the point."""
        return 1

    def estimate(
        self, noise: Float[Any, "R R"], start: Float[Any, " L"] | None = None
    ) -> FirstEstimate:
        """The estimate of the ratio itself."""
        return self.inner.estimate(noise, start)

    def posterior(
        self,
        covariance: Float[Any, "R R"],
        price: Float[Any, ""],
        *,
        value_constraint: bool = True,
    ) -> GaussianPosterior:
        """Closed form of the posterior of (latent numbers, value) on the tangent."""
        return self.linear.posterior(covariance, price, value_constraint=value_constraint)

    def value_posterior(
        self, covariance: Float[Any, "R R"], price: Float[Any, ""]
    ) -> ValuePosterior:
        """The value's posterior alone."""
        return self.linear.value_posterior(covariance, price)

    def coordinates(
        self, noise: Float[Any, "R R"], rows: Float[Any, " R"], *, value_constraint: bool
    ) -> Coordinates:
        """Coordinates of the linear residual."""
        return self.linear.coordinates(noise, rows, value_constraint=value_constraint)

    model = program.model
    guide = program.guide


def tangent_at_mode(
    ratio: Ratio, noise: Float[Any, "R R"], start: Float[Any, " L"]
) -> TangentRatio:
    """Find the mode of a ratio's posterior, and take its tangent there.

    Parameters
    ----------
    ratio
        The ratio; its latent numbers and its value have independent normal priors.
    noise
        Covariance of the residual, shape (R, R).
    start
        Latent numbers and value, shape (L + 1,), where the search starts.
    """
    latent_prior, value_prior = ratio.latent_prior(), ratio.value_prior()
    xp = library_of(start)
    mean = xp.append(xp.asarray(latent_prior.mean), value_prior.mean)
    scale = xp.sqrt(xp.append(xp.asarray(latent_prior.variance), value_prior.variance))
    jacobian = jacobian_of(ratio)
    mode = find_mode(ratio.residual, jacobian, noise, mean, scale, start)
    point = mode.latent
    matrix, offset = linearized(ratio.residual, jacobian, point)
    linear = LinearRatio(
        moments=ratio.moments._replace(offset=offset, active=xp.ones_like(point[:-1])),
        matrix=matrix,
        prior_mean=mean,
        prior_scale=scale,
        basis=None,
        by_ratio=None,
        link=IDENTITY,
    )
    return TangentRatio(ratio, linear, point, mode.converged)
