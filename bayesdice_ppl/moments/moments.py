"""From logs and a policy to moments: all that the constraint needs to know of the data.

`Moments` hold the residual of the stationarity, normalization and value constraints as an affine
function of (weights, value), together with the rows it is a mean of. Models and inference see a
log through them only.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bayesdice_ppl.moments.cells import Cells, reward_moments

NEARLY_ONE = 0.9999
"""Discount past which the normalization gets a row of its own."""


class Moments(NamedTuple):
    """Residual of the constraints for one policy, affine in (weights, value).

    The R rows are the stationarity constraint (one per test feature), the normalization (with
    one-hot features from gamma = 0.9999 only: below, where no mass is lost, it is a sum of the
    others), and the value constraint.
    A leading axis over policies or trials may stand before every field.

    Attributes
    ----------
    matrix, offset
        G, shape (R, K + 1), and c, shape (R,): residual = G (weights, value) + c.
    design
        The row D~ of each cell without its reward, shape (C, R), whose spread is the noise of the
        residual; the reward of a transition adds to the last column. Of a policy that is estimated
        from the same log it holds the noise of the estimate too (see `build_moments`).
    initial
        phi(s0, pi) on the R rows, zero past the stationarity ones, shape (E, R).
    active
        1 for the weights in use, shape (K,); with one-hot features those of the pairs that the
        policy visits, and the ratio of the others is 0.
    prior_mean, prior_scale
        Of (weights, value), shape (K + 1,).
    by_ratio, basis
        What a link between weights and ratio needs where a weight is not a pair's ratio: the
        residual's matrix by the ratio of each pair, shape (R, P), and the ratio's features at each
        pair, shape (P, K). Else None.
    unit
        Where some policy is estimated from the log: the pair that each pair's visits are counted
        with, shape (P,), the first of its state for that policy and itself for all others. Else
        None: every pair is counted by itself.
    """

    matrix: Float[Array, "R K"]
    offset: Float[Array, " R"]
    design: Float[Array, "C R"]
    initial: Float[Array, "E R"]
    active: Float[Array, " K"]
    prior_mean: Float[Array, " K"]
    prior_scale: Float[Array, " K"]
    by_ratio: Float[Array, "R P"] | None = None
    basis: Float[Array, "P K"] | None = None
    unit: Int[Array, " P"] | None = None

    def residual(self, weights: Float[Array, " K"], value: Float[Array, ""]) -> Float[Array, " R"]:
        """Residual of the constraints where the ratio is linear in the weights, shape (R,)."""
        return self.matrix[:, :-1] @ weights + self.matrix[:, -1] * value + self.offset


ROUNDING = 1e-12
"""Share of a feature's size below which its residual is nothing but rounding."""
NORMALIZATION_ROW = -2
"""Where the normalization stands among the rows, if it has one of its own."""


class MomentSettings(NamedTuple):
    """What the moments depend on beside data and policy (hashable, fixed at compilation).

    Attributes
    ----------
    gamma
        Discount in [0, 1].
    restart
        True: a termination is followed by a fresh start; False: by sigma(0) for ever.
    prior_sd
        Prior standard deviation of the ratio, around 1: of each pair's, or with features in the
        root mean square over the logged pairs.
    value_prior_sd
        Prior standard deviation of the value, in standard deviations of the logged reward (around
        the absorbed one, where terminations absorb).
    centered
        Count rewards from their mean in the value's row, by subtracting the normalization that
        many times. A Mahalanobis penalty does not see the difference, rounding does; and mass of
        which the log has nothing then counts as the mean reward instead of as 0.
    tabular
        Whether features are one-hot over the logged pairs, of which the normalization is a sum.
    linked
        Keep what a link between weights and ratio needs.
    own_normalization
        Whether the normalization is a chance constraint of its own.
    """

    gamma: float
    restart: bool = True
    prior_sd: float = 10.0
    value_prior_sd: float = 10.0
    centered: bool = False
    tabular: bool = True
    linked: bool = False
    own_normalization: bool = False

    @property
    def normalized(self) -> bool:
        """Whether the normalization has a row of its own.

        At gamma = 1 the other rows do not imply it, and just below they do so only in digits that
        rounding takes. Features other than one-hot may not sum to a constant at all.
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
        Whether the policy is the log's own frequencies, scalar; None: no policy is.
    """

    at_state: Float[Array, "S d"]
    active: Float[Array, " K"]
    estimated: Bool[Array, ""] | None = None


def one_hot_features(
    cells: Cells,
    target: Float[Array, " P"],
    active: Float[Array, " P"],
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
    phi = jnp.zeros((n_states, n_pairs), target.dtype)
    phi = phi.at[cells.pair_state, jnp.arange(n_pairs)].set(target * active)
    return StateFeatures(phi, active)


def cell_ratio(cells: Cells, moments: Moments, weights: Float[Array, " K"]) -> Float[Array, " C"]:
    """The ratio of each cell, linear in the weights, shape (C,)."""
    weights = weights * moments.active
    by_pair = weights if cells.basis is None else cells.basis @ weights
    return by_pair[cells.pair]


def build_moments(cells: Cells, features: StateFeatures, settings: MomentSettings) -> Moments:
    """Moments of one policy.

    Parameters
    ----------
    cells
        The log, with the features of its pairs.
    features
        The policy's, on the same test features; with one-hot ones from `one_hot_features`.
    settings
        Discount, meaning of a termination, priors.

    Notes
    -----
    With sigma the reward transform and term the true terminations, one row of the design is::

        D_i = gamma [(1 - term_i) phi(s'_i, pi) + restart term_i phi0bar] - phi(s_i, a_i)

    (Yang et al., "Offline Policy Selection under Uncertainty", eq. 8, the expectation over pi
    taken exactly for one-hot features). A pair that the policy does not visit has ratio 0 exactly;
    its columns are zero.

    A policy that is estimated by the log's own frequencies, pi_hat(a|s) = n_sa / n_s, errs with the
    same transitions. By the delta method its error adds zeta_i (phi(s_i, a_i) - phi(s_i, pi_hat))
    to each term of the residual, so that the spread of the sum is that of::

        D'_i = gamma [(1 - term_i) phi(s'_i, pi_hat) + restart term_i phi0bar] - phi(s_i, pi_hat)

    The design then holds D'_i. The matrix stays the mean of D_i: the residual as a function of the
    ratio is the same, and with a ratio that is equal for all actions of a state, as that of the
    logging policy is, D and D' have the same weighted mean.
    """
    gamma = settings.gamma
    phi, active = features.at_state, features.active
    n_pairs, n_features = cells.pair_state.shape[0], phi.shape[1]
    phi0 = phi[cells.initial_state]
    phi0bar = cells.initial_weight @ phi0

    ends = cells.terminated[:, None]
    following = (1.0 - ends) * phi[cells.successor]
    if settings.restart:
        following = following + ends * phi0bar
    if cells.pair_features is None:
        current = jax.nn.one_hot(cells.pair, n_pairs, dtype=phi.dtype)
        columns = [(gamma * following - current) * active]
    else:
        here = cells.pair_features[cells.pair]
        columns = [gamma * following - here]
        # At gamma = 1 a constant says nothing; what rounding leaves of its row would be scaled up
        # and bind.
        counted = (cells.count > 0.0)[:, None]
        size, left = (
            jnp.max(jnp.abs(values) * counted, axis=0)
            for values in (jnp.abs(here) + jnp.abs(following), columns[0])
        )
        says = left > ROUNDING * size
        columns = [columns[0] * says]
        phi0bar = phi0bar * says
        phi0 = phi0 * says
    offset = [(1.0 - gamma) * phi0bar]
    # The mass that a visit stands for includes what is absorbed after it.
    mass = jnp.ones_like(ends)
    if not settings.restart:
        mass = mass + gamma / (1.0 - gamma) * ends
    if settings.normalized:
        columns.append(mass)
        offset.append(-jnp.ones(1, phi.dtype))
    # Absorbed mass earns sigma(0) for ever, so a visit is worth sigma(r) - sigma(0) beside it.
    floor = jnp.zeros((), phi.dtype) if settings.restart else cells.absorbed_reward
    reward_mean, reward_sd = reward_moments(cells)
    base = reward_mean - floor if settings.centered else jnp.zeros((), phi.dtype)
    columns.append(-floor - base * mass)
    offset.append((floor + base)[None])
    design = jnp.concatenate(columns, axis=1)

    weighted = design * cells.count[:, None]
    weighted = weighted.at[:, -1].add(cells.reward_sum) / cells.n_transitions
    by_ratio = jax.ops.segment_sum(weighted, cells.pair, num_segments=n_pairs).T
    by_weight = by_ratio * active if cells.basis is None else by_ratio @ cells.basis
    n_rows, n_weights = by_weight.shape
    value_column = jnp.zeros((n_rows, 1), phi.dtype).at[-1, 0].set(-1.0)
    initial = jnp.zeros((phi0.shape[0], n_rows), phi.dtype).at[:, :n_features].set(phi0)

    # Equal rewards leave no scale to set the prior by; their size, or one, stands in.
    size = jnp.where(reward_mean == 0.0, 1.0, jnp.abs(reward_mean))
    reward_scale = jnp.where(reward_sd > 0.0, reward_sd, size)
    if not settings.restart:
        # The absorbed reward is one of the rewards, and may lie far from all that were logged.
        reward_scale = jnp.sqrt(reward_scale**2 + (reward_mean - floor) ** 2)
    ones = jnp.ones(n_weights, phi.dtype)
    if cells.basis is None:
        weight_mean, weight_scale = ones, ones * settings.prior_sd
    else:
        # The first weight is the constant's: the prior's center is a ratio of 1 everywhere.
        weight_mean = jnp.zeros(n_weights, phi.dtype).at[0].set(1.0)
        size_of_row = jnp.sqrt(jnp.mean(jnp.sum(cells.basis**2, axis=1)))
        weight_scale = ones * settings.prior_sd / size_of_row
    linked = settings.linked and cells.basis is not None
    unit = None
    if features.estimated is not None and cells.pair_features is None:
        unit = _units(cells, features.estimated)
        of_state = phi[cells.pair_state[cells.pair]]
        noise = jnp.where(features.estimated, (current - of_state) * active, 0.0)
        design = design.at[:, :n_features].add(noise)
    return Moments(
        matrix=jnp.concatenate([by_weight, value_column], axis=1),
        offset=jnp.concatenate(offset),
        design=design,
        initial=initial,
        active=active,
        prior_mean=jnp.append(weight_mean, reward_mean),
        prior_scale=jnp.append(weight_scale, reward_scale * settings.value_prior_sd),
        by_ratio=by_ratio if linked else None,
        basis=cells.basis if linked else None,
        unit=unit,
    )


def _units(cells: Cells, estimated: Bool[Array, ""]) -> Int[Array, " P"]:
    """The pair that each pair's visits are counted with: of an estimated policy, by state."""
    same_state = cells.pair_state[:, None] == cells.pair_state
    return jnp.where(estimated, jnp.argmax(same_state, axis=1), jnp.arange(len(same_state)))
