"""From moments to posteriors: pilot and posterior of all candidates, compiled once for all.

Candidates differ in their numbers and not in their shapes, so every stage is one `jax.vmap` over
them. `prepare` gives the problem that the NumPyro program of `bayesdice_ppl.models` takes, and
`solve` its posterior.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bayesdice_ppl import penalties
from bayesdice_ppl.constraint import (
    AuxiliaryConstraint,
    ChanceConstraint,
    Price,
    chance_price,
    invertible,
    live_rows,
    residual_rank,
)
from bayesdice_ppl.inference.exact import GaussianPosterior, exact_posterior, square_root
from bayesdice_ppl.inference.gain import WIDE
from bayesdice_ppl.inference.mcmc import NutsSettings, run_nuts
from bayesdice_ppl.inference.pilot import Pilot, run_pilot
from bayesdice_ppl.inference.settings import FitSettings, affine_multipliers
from bayesdice_ppl.inference.svi import SviSettings, flat_coordinates, run_svi, through_link
from bayesdice_ppl.models import Coordinates, by_ratio
from bayesdice_ppl.moments import (
    NORMALIZATION_ROW,
    Cells,
    Moments,
    MomentSettings,
    StateFeatures,
    TransformedRewards,
    build_moments,
    one_hot_features,
    with_rewards,
)
from bayesdice_ppl.penalties import PenaltyChoice
from bayesdice_ppl.surrogates import Surrogate

# For what runs once and spends its time in LAPACK: optimizing the code around it takes longer
# than it saves.
_QUICK = {"xla_backend_optimization_level": 0}


GUIDE_FEATURES = 512
"""Past as many rows of the residual, multipliers are not fitted unless that is asked for."""


class Candidates(NamedTuple):
    """The N candidates on what was logged, stacked.

    Attributes
    ----------
    target
        With one-hot features the renormalized policies, probability of each pair, shape (N, P).
    active
        1 for the weights in use, shape (N, K); see `StateFeatures`.
    kept
        Probability on logged actions in each state, shape (N, S).
    at_state
        With features other than one-hot those of each state, shape (N, S, d).
    estimated
        Which of them are the log's own frequencies and err with it, shape (N,); None: none is.
    """

    target: Float[Any, "N P"] | None
    active: Float[Any, "N K"]
    kept: Float[Any, "N S"]
    at_state: Float[Any, "N S d"] | None = None
    estimated: Bool[Any, " N"] | None = None

    def copies(
        self, rewards: TransformedRewards | None = None
    ) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " N"]]:
        """The first of each of M distinct candidates, and which of them each candidate is.

        Parameters
        ----------
        rewards
            What each counts; candidates that count differently are no copies.
        """
        table = self.target if self.at_state is None else self.at_state
        rows = [np.ascontiguousarray(row).tobytes() for row in np.asarray(table)]
        if self.estimated is not None:
            flags = np.asarray(self.estimated)
            rows = [row + flag.tobytes() for row, flag in zip(rows, flags, strict=True)]
        if rewards is not None:
            whole = np.column_stack([rewards.by_row, rewards.absorbed])
            counted = (np.ascontiguousarray(row).tobytes() for row in whole)
            rows = [row + more for row, more in zip(rows, counted, strict=True)]
        # Sorted, so that the order in which candidates are given does not matter.
        place = {row: i for i, row in enumerate(sorted(set(rows)))}
        of_row = np.array([place[row] for row in rows])
        return np.unique(of_row, return_index=True)[1], of_row


class Problem(NamedTuple):
    """All N candidates' problems, stacked along a leading axis; `of(j)` is one of them.

    Attributes
    ----------
    cells
        The log (shared).
    moments, constraint, coordinates
        What the model and the guide take.
    pilots
        The pilots, Sigma among them.
    prices
        lambda, epsilon and xi of each candidate.
    rewards
        What each entry counts instead of the log's own rewards, or None.
    """

    cells: Cells
    moments: Moments
    constraint: ChanceConstraint
    coordinates: Coordinates
    pilots: Pilot
    prices: tuple[Price, ...]
    rewards: TransformedRewards | None = None

    def of(self, j: int) -> tuple[Moments, ChanceConstraint, Coordinates]:
        """The arguments of the guide (and, but for the last, of the model) for candidate j."""
        return jax.tree.map(lambda x: x[j], (self.moments, self.constraint, self.coordinates))


class Solution(NamedTuple):
    """The posterior of every candidate, stacked.

    Attributes
    ----------
    posterior
        Means (N, K + 1) and factors (N, K + 1, L).
    elbo
        Shape (N, steps); no steps in closed form.
    drift
        How far SVI still moved in its last window, shape (N, 2); see `SviResult`.
    level
        The surrogate's level, shape (N,).
    sampled
        What NUTS drew, (N, chains, draws, P + 1), of which the posterior above is the mean and
        the covariance; None of the other engines.
    diverging
        Share of NUTS's trajectories that diverged, shape (N,).
    """

    posterior: GaussianPosterior
    elbo: Float[Any, "N steps"]
    drift: Float[Any, "N 2"]
    level: Float[Any, " N"]
    sampled: Float[Any, "N chains draws K"] | None
    diverging: Float[Any, " N"]


class _Engine(NamedTuple):
    """The settings that a compiled stage depends on: others must not compile it again."""

    inference: str
    penalty: PenaltyChoice
    surrogate: Surrogate
    link: str
    inner: str | None
    value_constraint: bool
    svi: SviSettings
    nuts: NutsSettings
    draws: int


def state_features(cells: Cells, candidate: Candidates) -> StateFeatures:
    """The features of one candidate, whose fields have lost their first axis."""
    active = jnp.asarray(candidate.active)
    if candidate.at_state is None:
        n_states = candidate.kept.shape[0]
        features = one_hot_features(cells, jnp.asarray(candidate.target), active, n_states)
        return features._replace(estimated=candidate.estimated)
    return StateFeatures(jnp.asarray(candidate.at_state), active)


def prepare(
    cells: Cells,
    candidates: Candidates,
    settings: FitSettings,
    rewards: TransformedRewards | None = None,
) -> Problem:
    """Moments, pilot, chance constraint and coordinates of every candidate.

    Parameters
    ----------
    cells
        The log.
    candidates
        The candidates; with ``rewards`` one for each of its J entries.
    settings
        The fit's settings.
    rewards
        What each entry counts instead of the log's own rewards.

    Raises
    ------
    SettingsError
        lambda, epsilon or xi are out of range.
    """
    with jax.enable_x64(True):
        moments, pilots = _pilots(
            cells,
            candidates,
            _sums(rewards),
            settings.moments,
            settings.by_episode,
            settings.small_sample,
        )
        prices = tuple(
            chance_price(
                float(cells.n_transitions),
                residual_rank(covariance[np.ix_(*2 * [_own_rows(covariance, settings)])]),
                xi=settings.xi,
                lam=None if isinstance(settings.lam, str) else settings.lam,
                epsilon=settings.epsilon,
            )
            for covariance in np.asarray(pilots.covariance)
        )
        price = jnp.asarray([p.lam / p.epsilon for p in prices])
        bound = jnp.asarray([p.epsilon for p in prices])
        own = settings.normalization
        if own is not None:
            auxiliary = chance_price(float(cells.n_transitions), 1, **own._asdict())
        constraint, coordinates = _constraints(
            cells,
            moments,
            pilots,
            _sums(rewards),
            (price, bound),
            None if own is None else (auxiliary.lam / auxiliary.epsilon, auxiliary.epsilon),
            settings.penalty,
            settings.link,
            settings.value_constraint,
            # The closed form moves in no coordinates; for many pairs they cost as much as it does.
            settings.inference != "exact" or moments.matrix.shape[-2] <= WIDE,
        )
    return Problem(cells, moments, constraint, coordinates, pilots, prices, rewards)


def _own_rows(covariance: Float[np.ndarray, "R R"], settings: FitSettings) -> Int[np.ndarray, " r"]:
    """Rows of the residual that the main constraint is about."""
    rows = np.arange(len(covariance))
    left_out = []
    if not settings.value_constraint:
        # Without the value constraint its row is no part of the residual.
        left_out.append(rows[-1])
    if settings.normalization is not None:
        left_out.append(rows[NORMALIZATION_ROW])
    return np.setdiff1d(rows, left_out)


def _sums(rewards: TransformedRewards | None) -> TransformedRewards | None:
    """What the moments need of them; rows are for the joint belief."""
    return None if rewards is None else rewards._replace(by_row=None, cell=None)


_STATIC = (
    "settings",
    "by_episode",
    "small_sample",
    "penalty",
    "link",
    "value_constraint",
    "guided",
)


@partial(jax.jit, static_argnames=_STATIC[:3], compiler_options=_QUICK)
def _pilots(
    log: Cells,
    candidates: Candidates,
    rewards: TransformedRewards | None,
    settings: MomentSettings,
    by_episode: bool,
    small_sample: bool,
) -> tuple[Moments, Pilot]:
    def one(candidate: Candidates, counted: TransformedRewards | None) -> tuple[Moments, Pilot]:
        cells = with_rewards(log, counted)
        moments = build_moments(cells, state_features(cells, candidate), settings)
        pilot = run_pilot(
            cells, moments, settings, by_episode=by_episode, small_sample=small_sample
        )
        return moments, pilot

    return jax.vmap(one)(jax.tree.map(jnp.asarray, candidates), rewards)


@partial(jax.jit, static_argnames=_STATIC[3:], compiler_options=_QUICK)
def _constraints(
    cells: Cells,
    moments: Moments,
    pilots: Pilot,
    rewards: TransformedRewards | None,
    prices: tuple[Array, Array],
    auxiliary: tuple[float, float] | None,
    penalty: PenaltyChoice,
    link: str,
    value_constraint: bool,
    guided: bool,
) -> tuple[ChanceConstraint, Coordinates]:
    def one(
        moments: Moments,
        pilot: Pilot,
        counted: TransformedRewards | None,
        price: Array,
        epsilon: Array,
    ) -> tuple[ChanceConstraint, Coordinates]:
        rows, mean_square = live_rows(with_rewards(cells, counted), moments)
        if not value_constraint:
            rows = rows.at[-1].set(0.0)
        others = rows if auxiliary is None else rows.at[NORMALIZATION_ROW].set(0.0)
        metric = invertible(pilot.covariance, others, mean_square)
        constraint = ChanceConstraint(penalty.build(metric, others), price, epsilon)
        if auxiliary is not None:
            alone = rows - others
            own = invertible(pilot.covariance, alone, mean_square)
            # A penalty of one number: the square in its own units, or as it is.
            choice = penalty if penalty.quadratic else penalties.mahalanobis()
            own_price, own_epsilon = jnp.asarray(auxiliary)
            constraint = constraint._replace(
                auxiliary=AuxiliaryConstraint(choice.build(own, alone), own_price, own_epsilon)
            )
            metric = joined_metric(metric, own, price / own_price)
        if not guided:
            size = moments.prior_mean.shape[0] - (0 if value_constraint else 1)
            return constraint, Coordinates(jnp.zeros(size), jnp.eye(size))
        tight = penalty == penalties.mahalanobis()
        coordinates = flat_coordinates(
            moments, metric, rows, price, tight=tight, value_constraint=value_constraint
        )
        if moments.basis is None:
            coordinates = through_link(coordinates, link, value_constraint=value_constraint)
        return constraint, coordinates

    return jax.vmap(one)(moments, pilots, rewards, *prices)


def solve(problem: Problem, rng_key: PRNGKeyArray, settings: FitSettings) -> Solution:
    """Posterior of every candidate, by SVI or in closed form.

    Parameters
    ----------
    problem
        From `prepare`.
    rng_key
        Key of SVI's draws, the same for every candidate, so that a candidate that is given under
        two names gets one posterior.
    settings
        The fit's settings.
    """
    engine = _Engine(*(getattr(settings, name) for name in _Engine._fields))
    if engine.inner is None:
        wide = problem.moments.matrix.shape[-2] > GUIDE_FEATURES
        affine = affine_multipliers(settings)
        engine = engine._replace(inner="guide" if affine and not wide else "exact")
    # Only NUTS's compiled function depends on how many draws are kept.
    if engine.inference == "nuts":
        engine = engine._replace(draws=settings.draws // settings.nuts.chains)
    else:
        engine = engine._replace(draws=0, nuts=NutsSettings())
    with jax.enable_x64(True):
        needed = problem._replace(prices=(), rewards=None)
        return jax.tree.map(np.asarray, _solve(needed, rng_key, engine))


@partial(jax.jit, static_argnames="engine")
def _solve(problem: Problem, rng_key: PRNGKeyArray, engine: _Engine) -> Solution:
    arguments = (problem.moments, problem.constraint, problem.coordinates)
    shared: dict[str, Any] = {
        "rng_key": rng_key,
        "value_constraint": engine.value_constraint,
        "surrogate": engine.surrogate,
        "link": engine.link,
    }
    n_policies = problem.moments.matrix.shape[0]
    nothing = Solution(
        posterior=GaussianPosterior(jnp.zeros(0), jnp.zeros(0)),
        elbo=jnp.zeros((n_policies, 0)),
        drift=jnp.zeros((n_policies, 2)),
        level=jnp.full(n_policies, engine.surrogate.start),
        sampled=None,
        diverging=jnp.zeros(n_policies),
    )
    if engine.inference == "svi":
        fit: Any = partial(run_svi, settings=engine.svi, inner=engine.inner or "guide", **shared)
        found = jax.vmap(fit)(*arguments)
        return nothing._replace(**found._asdict())
    if engine.inference == "nuts":
        sample: Any = partial(run_nuts, settings=engine.nuts, draws=engine.draws, **shared)
        drawn = jax.vmap(sample)(*arguments)
        latent = drawn.latent
        if not engine.value_constraint:
            latent = jax.vmap(partial(with_implied_values, link=engine.link))(
                problem.moments, latent
            )
        return nothing._replace(
            posterior=jax.vmap(_moments_of)(latent),
            sampled=latent,
            diverging=drawn.diverging.mean(axis=(1, 2)),
        )
    covariance = problem.pilots.covariance
    if engine.penalty == penalties.squared():
        covariance = jnp.broadcast_to(jnp.eye(covariance.shape[-1]), covariance.shape)
    own = problem.constraint.auxiliary
    if own is not None:
        share = problem.constraint.price / own.price
        covariance = jax.vmap(joined_metric)(covariance, covariance, share)
    exact = partial(exact_posterior, value_constraint=engine.value_constraint)
    return nothing._replace(
        posterior=jax.vmap(exact)(problem.moments, covariance, problem.constraint.price)
    )


def joined_metric(
    metric: Float[Array, "R R"], own: Float[Array, "R R"], share: Float[Array, ""]
) -> Float[Array, "R R"]:
    """One metric for both constraints: the normalization uncorrelated, at a price of its own.

    Parameters
    ----------
    metric, own
        Of all rows, and of the normalization's (its diagonal entry is read).
    share
        Price of the main constraint over that of the normalization.
    """
    row = NORMALIZATION_ROW
    apart = metric.at[row].set(0.0).at[:, row].set(0.0)
    return apart.at[row, row].set(own[row, row] * share)


def _moments_of(latent: Float[Array, "chains draws K"]) -> GaussianPosterior:
    """Mean and a root of the covariance of draws."""
    flat = latent.reshape(-1, latent.shape[-1])
    mean = flat.mean(axis=0)
    centered = flat - mean
    return GaussianPosterior(mean, square_root(centered.T @ centered / (flat.shape[0] - 1)))


def with_implied_values(
    moments: Moments, latent: Float[Array, "*b P"], *, link: str
) -> Float[Array, "*b K"]:
    """Append the value that each draw's ratio implies, mean_i zeta_i sigma(r_i)."""
    value = by_ratio(moments, latent, link)[..., -1]
    return jnp.concatenate([latent, value[..., None]], axis=-1)
