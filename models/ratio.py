"""The interface of a model of the ratio, for engines, draws, diagnosis and beliefs.

A `RatioModel` is what a user asks for, such as ``linear()``. It is hashable and has a text. On one
log and for one candidate it builds a `Ratio`, a pytree of arrays. The `Ratio` knows its prior, its
NumPyro program, and how its latent numbers give the ratio. Nothing outside `bayesdice_ppl.models`
knows what these numbers are. `docs/architecture.md` shows how to add a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from bayesdice_ppl.arrays import added
from bayesdice_ppl.models.coordinates import Coordinates
from bayesdice_ppl.models.gaussian import GaussianPosterior
from bayesdice_ppl.moments import VALUE_ROW, Cells, Moments, Prior


class FirstEstimate(NamedTuple):
    """The first estimate of the ratio, at which Sigma is evaluated.

    Attributes
    ----------
    by_pair
        The ratio of each logged pair, shape (P,).
    value
        The value that goes with it, scalar.
    slope
        How a row of the residual moves the value, in units of the value's own row, shape (R,):
        minus the action value, seen through the test features.
    latent
        The latent numbers and the value, shape (L + 1,), from which another estimate may start.
    """

    by_pair: Float[Any, " P"]
    value: Float[Any, ""]
    slope: Float[Any, " R"]
    latent: Float[Any, " L"]


class Ratio(Protocol):
    """A form of the ratio on one log, for one policy. L is the number of its latent numbers."""

    @property
    def moments(self) -> Moments:
        """Moments of the policy on the log; ``by_ratio`` may be None."""
        ...

    def latent_prior(self) -> dist.Distribution:
        """Prior of the latent numbers, one event of shape (L,)."""
        ...

    def value_prior(self) -> dist.Distribution:
        """Prior of the value, in reward per step."""
        ...

    def by_pair(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b P"]:
        """The ratio of each logged pair."""
        ...

    def residual(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b R"]:
        """Residual of the constraints at a value of zero."""
        ...

    def recorded(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b W"]:
        """What a belief keeps about the ratio of each draw; see `RatioModel.record`."""
        ...

    @property
    def refreshes(self) -> int:
        """How often Sigma is evaluated anew at the estimate; once is enough for a linear ratio."""
        ...

    def estimate(
        self, noise: Float[Any, "R R"], start: Float[Any, " L"] | None = None
    ) -> FirstEstimate:
        """The first estimate, given a first covariance of the residual.

        Parameters
        ----------
        noise
            Covariance of the residual.
        start
            The latent numbers and the value of an earlier estimate, if there is one.
        """
        ...

    def coordinates(
        self,
        noise: Float[Any, "R R"],
        rows: Float[Any, " R"],
        *,
        value_constraint: bool,
    ) -> Coordinates:
        """Coordinates in which guides and samplers move.

        Parameters
        ----------
        noise
            From `bayesdice_ppl.models.coordinates.rough_noise`.
        rows
            1 for the rows of the residual that count, shape (R,).
        value_constraint
            Whether the value is a latent number of its own, the last.
        """
        ...

    @property
    def model(self) -> Callable[..., None]:
        """The NumPyro model, a method; `bayesdice_ppl.models.model` serves any ratio."""
        ...

    @property
    def guide(self) -> Callable[..., None]:
        """The NumPyro guide, a method; `bayesdice_ppl.models.guide` serves any ratio."""
        ...


@runtime_checkable
class DifferentiatedRatio(Protocol):
    """A ratio that knows its slopes, and how to come by them sooner than by differentiation."""

    def jacobian(self, latent: Float[Any, " L"]) -> Float[Any, "R L"]:
        """How the residual moves with the latent numbers, at a point."""
        ...

    def pair_slopes(self, latent: Float[Any, " L"]) -> Float[Any, "P L"]:
        """How the ratio of each pair moves with the latent numbers, at a point."""
        ...


def jacobian_of(ratio: Ratio) -> Callable[[Float[Any, " L"]], Float[Any, "R L"]]:
    """How a ratio's residual moves with the latent numbers: its own way, or by differentiation."""
    if isinstance(ratio, DifferentiatedRatio):
        return ratio.jacobian
    return jax.jacfwd(ratio.residual)


def pair_slopes_of(ratio: Ratio) -> Callable[[Float[Any, " L"]], Float[Any, "P L"]]:
    """How the ratio of each pair moves with the latent numbers; see `jacobian_of`."""
    if isinstance(ratio, DifferentiatedRatio):
        return ratio.pair_slopes
    return jax.jacfwd(ratio.by_pair)


class ValuePosterior(NamedTuple):
    """The means of a Gaussian over (weights, value), and the value's spread.

    Attributes
    ----------
    mean
        Means of (weights, value), shape (K + 1,).
    sd
        Standard deviation of the value, in reward per step, scalar.
    """

    mean: Float[Any, " K"]
    sd: Float[Any, ""]


class LinearGaussianRatio(Ratio, Protocol):
    """A ratio that is linear in Gaussian latent numbers, and so has a closed form."""

    def posterior(
        self, covariance: Float[Any, "R R"], price: Float[Any, ""], *, value_constraint: bool
    ) -> GaussianPosterior:
        """Closed form of the posterior of (latent numbers, value).

        Called only if `RatioModel.linear` is true and the penalty is quadratic.

        Parameters
        ----------
        covariance
            The penalty's metric, shape (R, R).
        price
            lambda / epsilon.
        value_constraint
            False: the value is exactly the mean of ratio times reward.
        """
        ...

    def value_posterior(
        self, covariance: Float[Any, "R R"], price: Float[Any, ""]
    ) -> ValuePosterior:
        """Means of (latent numbers, value), and the spread of the value alone."""
        ...


@runtime_checkable
class RatioModel(Protocol):
    """A form of the ratio that a user asks for (hashable); the belief keeps its text."""

    @property
    def linear(self) -> bool:
        """Whether the ratio is linear in latent numbers with a Gaussian prior.

        Then the posterior has a closed form under a quadratic penalty and Markov's surrogate, and
        the best multipliers are affine.
        """
        ...

    def record(self, *, tabular: bool) -> tuple[str, str]:
        """Names of the belief's variable for `Ratio.recorded` and of its last dimension.

        Parameters
        ----------
        tabular
            Whether features are one-hot over the logged pairs; the dimension ``"pair"`` then has
            the pairs' labels.
        """
        ...

    def build(self, cells: Cells, moments: Moments, prior: Prior) -> Ratio:
        """Build the ratio on one log, for one policy.

        Parameters
        ----------
        cells
            The log, with the features of its pairs.
        moments
            Moments of the policy on it.
        prior
            Widths of the priors.
        """
        ...


@runtime_checkable
class PlainModel(RatioModel, Protocol):
    """A model whose ratio computes on NumPy's arrays as it does on JAX's.

    Its preparation and its closed form are then not compiled, so that no log waits for a compiler.
    """

    @property
    def plain(self) -> bool:
        """Whether this holds."""
        ...


@runtime_checkable
class TrainedModel(RatioModel, Protocol):
    """A model whose q is trained on the log, by an engine that trains.

    Its ratio has the prior in its latent numbers. Those of the trained ratio are others.
    """

    @property
    def trained(self) -> bool:
        """Whether an engine that trains is needed."""
        ...


def value_prior(moments: Moments, prior: Prior) -> dist.Normal:
    """The prior of the value, the same for every model, in reward per step."""
    return dist.Normal(moments.reward_mean, moments.reward_scale * prior.value_sd)


def less_value(residual: Float[Any, "*b R"], value: Float[Any, "*b"]) -> Float[Any, "*b R"]:
    """Residual of the constraints, from the residual at a value of zero."""
    return added(residual, np.s_[..., VALUE_ROW], -value)
