"""From logs and a policy to moments: all that the constraint needs of the data.

`Moments` hold the residual of the stationarity, normalization and value constraints. It is an
affine function of the ratio at the logged pairs and of the value. They also hold its rows; the
residual is their mean. Models and inference see a log only through them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import added, library_of, one_hot, replaced, sums_by
from bayesdice_ppl.moments.cells import Cells, reward_moments

VALUE_ROW = -1
"""Row of the value constraint in the residual."""
NORMALIZATION_ROW = -2
"""Row of the normalization, if it has one of its own."""
NEARLY_ONE = 0.999
"""Discount past which the normalization gets a row of its own."""
ROUNDING = 1e-12
"""Share of a feature's size below which its residual is only rounding."""


class Moments(NamedTuple):
    """Residual of the constraints for one policy, affine in the ratio and the value.

    The residual is by_ratio @ ratio + offset, less the value in the last row. Its R rows are the
    stationarity constraint (one per test feature), the normalization, and the value constraint.
    With one-hot features the normalization has a row only past gamma = 0.999; below it is a sum of
    the other rows. Every field may have a leading axis over policies or trials.

    Attributes
    ----------
    by_ratio
        How the ratio of each logged pair moves the residual, shape (R, P). None inside a
        `bayesdice_ppl.inference.Problem`, where the ratio keeps what it needs.
    offset
        Residual at a ratio and a value of 0, shape (R,).
    design
        The row D~ of each cell without its reward, shape (C, R). Its spread is the noise of the
        residual. The reward of a transition adds to the last column. For a policy that is
        estimated from the same log it includes the noise of the estimate (see `build_moments`).
    initial
        phi(s0, pi) on the R rows, zero past the stationarity rows, shape (E, R).
    active
        1 for the features in use, shape (K,). With one-hot features these are the pairs that the
        policy visits; the ratio of the others is 0.
    reward_mean, reward_scale
        Mean of the logged reward, and the scale of the value's prior; scalars.
    unit
        The pair that each pair's visits are counted with, shape (P,), if some policy is estimated
        from the log: the first pair of the state for that policy, itself for all others. None:
        every pair is counted by itself.
    action_ratio
        pi(a|s) / mu(a|s) of each logged pair, shape (P,), mu the logging policy. A model of the
        ratio multiplies by it what it says itself. None: nothing is known of mu.
    """

    by_ratio: Float[Any, "R P"] | None
    offset: Float[Any, " R"]
    design: Float[Any, "C R"]
    initial: Float[Any, "E R"]
    active: Float[Any, " K"]
    reward_mean: Float[Any, ""]
    reward_scale: Float[Any, ""]
    unit: Int[Any, " P"] | None = None
    action_ratio: Float[Any, " P"] | None = None

    def residual(self, ratio: Float[Any, "*b P"]) -> Float[Any, "*b R"]:
        """Residual at a value of zero, from the ratio of each pair, shape (..., R)."""
        assert self.by_ratio is not None
        return ratio @ self.by_ratio.T + self.offset


class MomentSettings(NamedTuple):
    """What the moments depend on besides data and policy (hashable, fixed at compilation).

    Attributes
    ----------
    gamma
        Discount in [0, 1].
    restart
        True: a termination is followed by a fresh start; False: by sigma(0) for ever.
    centered
        Measure rewards from their mean in the value's row, by subtracting the normalization times
        that mean. This reduces rounding, and leaves a Mahalanobis penalty unchanged. Mass that the
        log does not cover then counts as the mean reward instead of as 0.
    tabular
        Whether features are one-hot over the logged pairs.
    own_normalization
        Whether the normalization is a chance constraint of its own.
    """

    gamma: float
    restart: bool = True
    centered: bool = False
    tabular: bool = True
    own_normalization: bool = False

    @property
    def normalized(self) -> bool:
        """Whether the normalization has a row of its own.

        At gamma = 1 the other rows do not imply it, and just below they imply it only in digits
        that are lost to rounding. Features other than one-hot may not sum to a constant at all.
        """
        return self.gamma > NEARLY_ONE or not self.tabular or self.own_normalization


class StateFeatures(NamedTuple):
    """One policy's test features in each state, and the weights that are in use.

    Attributes
    ----------
    at_state
        phi(s, pi) = E_{a ~ pi(.|s)} phi(s, a) of each state, shape (S, d).
    active
        1 for the weights in use, shape (K,).
    estimated
        Whether the policy is estimated by frequencies of the log, scalar. None: no policy is.
    action_ratio
        pi(a|s) / mu(a|s) of each logged pair, shape (P,), where it is known; else None.
    """

    at_state: Float[Any, "S d"]
    active: Float[Any, " K"]
    estimated: Bool[Any, ""] | None = None
    action_ratio: Float[Any, " P"] | None = None


def one_hot_features(
    cells: Cells,
    target: Float[Any, " P"],
    active: Float[Any, " P"],
    n_states: int,
) -> StateFeatures:
    """Expected one-hot features of a policy.

    Parameters
    ----------
    cells
        The log.
    target, active
        The renormalized policy, and 1 for the pairs it visits, shape (P,).
    n_states
        S.
    """
    n_pairs = target.shape[0]
    xp = library_of(target, cells.pair_state)
    phi = xp.zeros((n_states, n_pairs), target.dtype)
    phi = replaced(phi, (cells.pair_state, xp.arange(n_pairs)), target * active)
    return StateFeatures(phi, active)


def build_moments(cells: Cells, features: StateFeatures, settings: MomentSettings) -> Moments:
    """Moments of one policy.

    Parameters
    ----------
    cells
        The log, with the features of its pairs.
    features
        The policy's, on the same test features; with one-hot ones from `one_hot_features`.
    settings
        Discount and meaning of a termination.

    Notes
    -----
    With sigma the reward transform and term the true terminations, one row of the design is::

        D_i = gamma [(1 - term_i) phi(s'_i, pi) + restart term_i phi0bar] - phi(s_i, a_i)

    (Yang et al., "Offline Policy Selection under Uncertainty", eq. 8; the expectation over pi is
    exact for one-hot features). A pair that the policy does not visit has ratio 0 and zero columns.

    A policy that is estimated by frequencies, pi_hat(a|s) = n_sa / n_s, has errors from the same
    transitions. By the delta method they add zeta_i (phi(s_i, a_i) - phi(s_i, pi_hat)) to each term
    of the residual. The spread is then that of::

        D'_i = gamma [(1 - term_i) phi(s'_i, pi_hat) + restart term_i phi0bar] - phi(s_i, pi_hat)

    The design holds D'_i. The matrix stays the mean of D_i, so that the residual is the same
    function of the ratio. The ratio of the logging policy is equal for all actions of a state; D
    and D' then have the same weighted mean.
    """
    gamma = settings.gamma
    phi, active = features.at_state, features.active
    xp = library_of(phi, cells.count)
    n_pairs, n_features = cells.pair_state.shape[0], phi.shape[1]
    phi0 = phi[cells.initial_state]
    phi0bar = cells.initial_weight @ phi0

    ends = cells.terminated[:, None]
    following = (1.0 - ends) * phi[cells.successor]
    if settings.restart:
        following = following + ends * phi0bar
    if cells.pair_features is None:
        current = one_hot(cells.pair, n_pairs, phi.dtype)
        columns = [(gamma * following - current) * active]
    else:
        here = cells.pair_features[cells.pair]
        columns = [gamma * following - here]
        # At gamma = 1 the row of a constant is zero but for rounding, which would be scaled up and
        # bind.
        counted = (cells.count > 0.0)[:, None]
        size, left = (
            xp.max(xp.abs(values) * counted, axis=0)
            for values in (xp.abs(here) + xp.abs(following), columns[0])
        )
        says = left > ROUNDING * size
        columns = [columns[0] * says]
        phi0bar = phi0bar * says
        phi0 = phi0 * says
    offset = [(1.0 - gamma) * phi0bar]
    # The mass of a visit includes the mass that is absorbed after it.
    mass = xp.ones_like(ends)
    if not settings.restart:
        mass = mass + gamma / (1.0 - gamma) * ends
    if settings.normalized:
        columns.append(mass)
        offset.append(-xp.ones(1, phi.dtype))
    # Absorbed mass earns sigma(0) for ever, so a visit adds sigma(r) - sigma(0).
    floor = xp.zeros((), phi.dtype) if settings.restart else cells.absorbed_reward
    reward_mean, reward_sd = reward_moments(cells)
    base = reward_mean - floor if settings.centered else xp.zeros((), phi.dtype)
    columns.append(-floor - base * mass)
    offset.append((floor + base)[None])
    design = xp.concatenate(columns, axis=1)

    weighted = design * cells.count[:, None]
    weighted = added(weighted, np.s_[:, VALUE_ROW], cells.reward_sum) / cells.n_transitions
    by_ratio = sums_by(weighted, cells.pair, n_pairs).T
    if cells.basis is None:
        by_ratio = by_ratio * active
    n_rows = design.shape[1]
    initial = xp.zeros((phi0.shape[0], n_rows), phi.dtype)
    initial = replaced(initial, np.s_[:, :n_features], phi0)

    reward_scale = prior_reward_scale(reward_mean, reward_sd, floor, restart=settings.restart)
    unit = None
    if features.estimated is not None and cells.pair_features is None:
        unit = _units(cells, features.estimated)
        of_state = phi[cells.pair_state[cells.pair]]
        noise = xp.where(features.estimated, (current - of_state) * active, 0.0)
        design = added(design, np.s_[:, :n_features], noise)
    return Moments(
        by_ratio=by_ratio,
        offset=xp.concatenate(offset),
        design=design,
        initial=initial,
        active=active,
        reward_mean=reward_mean,
        reward_scale=reward_scale,
        unit=unit,
        action_ratio=features.action_ratio,
    )


def prior_reward_scale(
    mean: Float[Any, ""], sd: Float[Any, ""], floor: Float[Any, ""], *, restart: bool
) -> Float[Any, ""]:
    """The scale of the value's prior, from the rewards.

    Parameters
    ----------
    mean, sd
        Of the logged reward.
    floor
        The reward after an absorbing termination.
    restart
        Whether a termination is followed by a fresh start.
    """
    xp = library_of(mean, sd)
    # Equal rewards give the prior no scale; their size, or 1, takes its place.
    size = xp.where(mean == 0.0, 1.0, xp.abs(mean))
    scale = xp.where(sd > 0.0, sd, size)
    # The absorbed reward may be far from all logged rewards.
    return scale if restart else xp.sqrt(scale**2 + (mean - floor) ** 2)


def _units(cells: Cells, estimated: Bool[Any, ""]) -> Int[Any, " P"]:
    """The pair that each pair's visits are counted with: by state for an estimated policy."""
    same_state = cells.pair_state[:, None] == cells.pair_state
    xp = library_of(same_state)
    return xp.where(estimated, xp.argmax(same_state, axis=1), xp.arange(len(same_state)))
