"""The closed form for a Gaussian-process ratio: with a quadratic penalty, q is a Gaussian process.

The ratio at the logged points is 1 + root w with w standard normal, so that in coordinates of the
kernel's span the problem is the linear model's: condition w, and the value, on residual = 0 with
noise (epsilon / lambda) Sigma. Elsewhere the ratio follows from w by the prior's conditional.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int

from bayesdice_ppl.constraint import ChanceConstraint, invertible
from bayesdice_ppl.constraint.penalties import Squared, mahalanobis
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.kernels import Kernel, Linear
from bayesdice_ppl.inference.exact import square_root
from bayesdice_ppl.inference.gain import condition
from bayesdice_ppl.moments.process import ProcessMoments

PENALTIES = ("squared", "mahalanobis")
# Ranks differ from problem to problem, so that most are compiled anew, and LAPACK takes the time.
_QUICK = {"xla_backend_optimization_level": 0}


class ProcessPosterior(NamedTuple):
    """A Gaussian over (the ratio at n logged points, value), by way of whitened numbers w.

    Attributes
    ----------
    mean, factor
        Of (ratio, value): shape (n + 1,), and a root of the covariance, shape (n + 1, L).
    whitened_mean, whitened_factor
        Of w, which determine the ratio everywhere: shapes (Q,) and (Q, L), the same L numbers.
    metric
        Of the penalty: the identity or Sigma, on the residual's rows and the value's, shape
        (R + 1, R + 1).
    """

    mean: Float[Any, " K"]
    factor: Float[Any, "K L"]
    whitened_mean: Float[Any, " Q"]
    whitened_factor: Float[Any, "Q L"]
    metric: Float[Any, "R R"]

    @property
    def covariance(self) -> Float[np.ndarray, "K K"]:
        """Of (ratio, value), shape (n + 1, n + 1)."""
        return self.factor @ self.factor.T

    @property
    def sd(self) -> Float[np.ndarray, " K"]:
        """Standard deviations of (ratio, value), shape (n + 1,)."""
        return np.sqrt(np.sum(self.factor**2, axis=-1))


class RatioPrediction(NamedTuple):
    """The ratio at other points.

    Attributes
    ----------
    mean, covariance
        Shapes (m,) and (m, m).
    """

    mean: Float[np.ndarray, " m"]
    covariance: Float[np.ndarray, "m m"]

    @property
    def sd(self) -> Float[np.ndarray, " m"]:
        """Standard deviations, shape (m,)."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))


def process_posterior(
    moments: ProcessMoments,
    price: float,
    *,
    penalty: str = "squared",
    value_constraint: bool = True,
    episode: Int[np.ndarray, " n"] | None = None,
    ridge: float = 1.0,
) -> ProcessPosterior:
    """Closed-form posterior of the ratio and the value.

    Parameters
    ----------
    moments
        What the log says of one policy.
    price
        lambda / epsilon; the number of transitions by default elsewhere.
    penalty
        ``"squared"``: |residual|^2 / 2 in the kernel's own norm, the paper's;
        ``"mahalanobis"``: with Sigma, the residual's sampling covariance, at a pilot ratio.
    value_constraint
        True: the value is a latent of its own, tied by the row mean_i ratio_i r_i - rho. False: it
        is mean_i ratio_i r_i exactly, as in the paper.
    episode
        Number of the episode of each transition, an index into ``moments.initial``, shape (n,):
        episodes are then the independent unit of Sigma. None: transitions are.
    ridge
        Of the Mahalanobis penalty: its metric is Sigma + ridge / n on the stationarity's rows. The
        variance of the temporal-difference errors, over that of the action value in units of the
        test kernel. 0: Sigma alone, right for features that are few beside the transitions.

    Raises
    ------
    SettingsError
        A choice is unknown or out of its range.

    Notes
    -----
    Sigma alone forgets the kernel's norm and keeps its span, in which some function fits every
    temporal difference, noise included, where it has as many dimensions as there are transitions:
    the value would come out with no spread. With the ridge, and a ratio of one, its variance is
    min over u of sum_i (r_i + u'D_i)^2 / n^2 + ridge |u|^2 / n^2. Over noise of variance s2, and
    action values of covariance s2 / ridge times the test kernel, the mean of that is s2 / n.
    """
    if penalty not in PENALTIES:
        raise SettingsError(f"penalty: expected 'squared' or 'mahalanobis', found {penalty!r}.")
    for name, number, least in (("price", price, 1e-300), ("ridge", ridge, 0.0)):
        if not (np.isfinite(number) and number >= least):
            raise SettingsError(f"{name}: expected a positive number, found {number!r}.")
    if episode is not None:
        episode = np.asarray(episode)
        n, m = len(moments.reward), len(moments.initial)
        if episode.shape != (n,) or episode.min() < 0 or episode.max() >= m:
            raise SettingsError(
                f"episode: expected {n} numbers from 0 to {m - 1}, one for each transition, found "
                f"shape {episode.shape} from {episode.min()} to {episode.max()}."
            )
    added = ridge / moments.n_transitions
    with jax.enable_x64(True):
        found = _posterior(moments, float(price), episode, added, penalty, value_constraint)
        return jax.tree.map(np.asarray, found)


@partial(jax.jit, static_argnames=("penalty", "tied"), compiler_options=_QUICK)
def _posterior(
    moments: ProcessMoments,
    price: float,
    episode: Int[Array, " n"] | None,
    ridge: float,
    penalty: str,
    tied: bool,
) -> ProcessPosterior:
    matrix, offset = whitened_residual(moments)
    n_whitened = moments.root.shape[1]
    prior_mean = jnp.zeros(n_whitened + 1).at[-1].set(moments.value_mean)
    prior_scale = jnp.ones(n_whitened + 1).at[-1].set(moments.value_sd)

    def conditioned(metric: Array, tied: bool) -> tuple[Array, Array]:
        rows, columns = (None, None) if tied else (-1, -1)
        found = condition(
            matrix[:rows, :columns],
            offset[:rows],
            metric[:rows, :rows] / price,
            prior_mean[:columns],
            prior_scale[:columns],
        )
        return found.mean, found.covariance

    if penalty == "squared":
        metric = jnp.eye(len(offset))
    else:
        added = ridge * jnp.diag(jnp.append(moments.stationary, 0.0))
        first = process_covariance(moments, jnp.ones(moments.n_transitions), episode) + added
        # As for the other features, the pilot's price is n and its value is tied.
        pilot = condition(
            matrix, offset, first / moments.n_transitions, prior_mean, prior_scale
        ).mean[:-1]
        metric = process_covariance(moments, 1.0 + moments.root @ pilot, episode) + added
    mean, covariance = conditioned(metric, tied)
    factor = square_root(covariance)
    w_mean, w_factor = mean[:n_whitened], factor[:n_whitened]
    ratio_mean, ratio_factor = 1.0 + moments.root @ w_mean, moments.root @ w_factor
    if tied:
        value_mean, value_factor = mean[-1], factor[-1]
    else:
        value_mean = moments.implied_value(ratio_mean)
        value_factor = moments.reward @ ratio_factor / moments.n_transitions
    return ProcessPosterior(
        jnp.append(ratio_mean, value_mean),
        jnp.concatenate([ratio_factor, value_factor[None]]),
        w_mean,
        w_factor,
        metric,
    )


def whitened_residual(
    moments: ProcessMoments,
) -> tuple[Float[Array, "R K"], Float[Array, " R"]]:
    """The residual, value row last, as an affine function of (w, value).

    Returns
    -------
    (Array, Array)
        G, shape (R + 1, Q + 1), and c, shape (R + 1,): residual = G (w, value) + c.
    """
    n = moments.n_transitions
    rows = jnp.concatenate([moments.design, moments.reward[:, None]], axis=1)
    column = jnp.zeros((rows.shape[1], 1)).at[-1, 0].set(-1.0)
    matrix = jnp.concatenate([rows.T @ moments.root / n, column], axis=1)
    return matrix, rows.mean(axis=0) + jnp.append(moments.offset, moments.floor)


def process_covariance(
    moments: ProcessMoments,
    ratio: Float[Array, " n"],
    episode: Int[Array, " n"] | None = None,
) -> Float[Array, "R R"]:
    """Covariance Sigma of sqrt(n) times the residual, value row last, at a given ratio.

    Parameters
    ----------
    moments
        What the log says of one policy.
    ratio
        At the logged points, shape (n,).
    episode
        Number of the episode of each transition, shape (n,), where episodes are the independent
        unit.

    Returns
    -------
    Array
        Shape (R + 1, R + 1), positive semidefinite.
    """
    n, m = moments.n_transitions, moments.initial.shape[0]
    terms = ratio[:, None] * jnp.concatenate([moments.design, moments.reward[:, None]], axis=1)
    terms = terms - terms.mean(axis=0)
    entering = moments.fresh + ratio @ moments.entry / n
    starts = entering * jnp.concatenate([moments.initial, jnp.zeros((m, 1))], axis=1)
    if episode is None:
        return terms.T @ terms / n + (n / m) * (starts.T @ starts) / m
    psi = (m / n) * jax.ops.segment_sum(terms, episode, num_segments=m) + starts
    return (n / m) * (psi.T @ psi) / m


def process_constraint(
    moments: ProcessMoments,
    price: float,
    *,
    metric: Float[Array, "R R"] | None = None,
    value_constraint: bool = True,
) -> ChanceConstraint:
    """The chance constraint that `bayesdice_ppl.models.gaussian_process.model` takes.

    Parameters
    ----------
    moments
        What the log says of one policy.
    price
        lambda / epsilon.
    metric
        Sigma of the Mahalanobis penalty, such as a posterior's ``metric``, shape (R + 1, R + 1);
        None: the squared penalty. It is inverted, and so gets the ridge that every guide's has.
    value_constraint
        As for the model.

    Returns
    -------
    ChanceConstraint
        Its epsilon is 1: Markov's surrogate needs the price alone.
    """
    with jax.enable_x64(True):
        rows = jnp.ones(moments.offset.shape[0] + 1)
        if not value_constraint:
            rows = rows.at[-1].set(0.0)
        number = jnp.asarray(float(price))
        if metric is None:
            return ChanceConstraint(Squared(rows), number, jnp.ones(()))
        square = jnp.append(jnp.mean(moments.design**2, axis=0), jnp.mean(moments.reward**2))
        return ChanceConstraint(
            mahalanobis(invertible(metric, rows, square), rows), number, jnp.ones(())
        )


def predict_ratio(
    moments: ProcessMoments,
    posterior: ProcessPosterior,
    kernel_ratio: Kernel,
    points: Float[np.ndarray, "n p"],
    new_points: Float[np.ndarray, "m p"],
) -> RatioPrediction:
    """The ratio at points that were not logged.

    Parameters
    ----------
    moments, posterior
        What the log says of one policy, and what was made of it.
    kernel_ratio, points
        The ratio's prior covariance and the logged points, as given to `process_moments`.
    new_points
        Shape (m, p).

    Notes
    -----
    The Gaussian process's conditional given the ratio at the pivots, of which w is a triangular
    transformation: what the data say of w, and what w leaves open.
    """
    with jax.enable_x64(True):
        new = jnp.asarray(new_points, jnp.float64)
        if isinstance(kernel_ratio, Linear):
            by_w = kernel_ratio.root(new)
            left = jnp.zeros((len(new), len(new)))
        else:
            if moments.pivots is None:
                raise SettingsError("kernel_ratio: the moments were made with a linear kernel.")
            known = jnp.asarray(np.asarray(points, np.float64)[moments.pivots])
            triangle = jnp.asarray(moments.root[moments.pivots])
            by_w = solve_triangular(triangle, kernel_ratio(known, new), lower=True).T
            left = kernel_ratio(new, new) - by_w @ by_w.T
        spread = by_w @ posterior.whitened_factor
        mean = 1.0 + by_w @ posterior.whitened_mean
        return RatioPrediction(np.asarray(mean), np.asarray(spread @ spread.T + left))
