"""From logs and a policy to moments: all that the constraint needs to know of the data.

`Moments` hold the residual of the stationarity, normalization and value constraints as an affine
function of (weights, value), together with the rows it is a mean of. Models and inference see a
log through them only.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesdice_ppl.moments.cells import Cells, reward_moments

NEARLY_ONE = 0.9999
"""Discount past which the normalization gets a row of its own."""


class Moments(NamedTuple):
    """Residual of the constraints for one policy, affine in (weights, value).

    The R rows are the stationarity constraint (one per pair), the normalization (from gamma =
    0.9999 only: below, with one-hot features and no mass lost, it is a sum of the others), and the
    value constraint.
    A leading axis over policies or trials may stand before every field.

    Attributes
    ----------
    matrix, offset
        G, shape (R, P + 1), and c, shape (R,): residual = G (weights, value) + c.
    design
        The row D~ of each cell without its reward, shape (C, R); the reward of a transition adds
        to the last column.
    initial
        phi(s0, pi) on the R rows, zero past the stationarity ones, shape (E, R).
    target
        The renormalized policy, probability of each pair in its state, shape (P,).
    active
        1 for the pairs that the policy visits; the ratio of the others is 0, shape (P,).
    kept
        Probability that the policy puts on logged actions in each state, shape (S,).
    prior_mean, prior_scale
        Of (weights, value), shape (P + 1,).
    """

    matrix: Float[Array, "R K"]
    offset: Float[Array, " R"]
    design: Float[Array, "C R"]
    initial: Float[Array, "E R"]
    target: Float[Array, " P"]
    active: Float[Array, " P"]
    kept: Float[Array, " S"]
    prior_mean: Float[Array, " K"]
    prior_scale: Float[Array, " K"]

    def residual(self, weights: Float[Array, " P"], value: Float[Array, ""]) -> Float[Array, " R"]:
        """Residual of the constraints, shape (R,)."""
        return self.matrix[:, :-1] @ weights + self.matrix[:, -1] * value + self.offset


class MomentSettings(NamedTuple):
    """What the moments depend on beside data and policy (hashable, fixed at compilation).

    Attributes
    ----------
    gamma
        Discount in [0, 1].
    restart
        True: a termination is followed by a fresh start; False: by sigma(0) for ever.
    prior_sd
        Prior standard deviation of each weight, around 1.
    value_prior_sd
        Prior standard deviation of the value, in standard deviations of the logged reward (around
        the absorbed one, where terminations absorb).
    centered
        Count rewards from their mean in the value's row, by subtracting the normalization that
        many times. A Mahalanobis penalty does not see the difference, rounding does; and mass of
        which the log has nothing then counts as the mean reward instead of as 0.
    """

    gamma: float
    restart: bool = True
    prior_sd: float = 10.0
    value_prior_sd: float = 10.0
    centered: bool = False

    @property
    def normalized(self) -> bool:
        """Whether the normalization has a row of its own.

        At gamma = 1 the other rows do not imply it, and just below they do so only in digits that
        rounding takes.
        """
        return self.gamma > NEARLY_ONE


def build_moments(
    cells: Cells,
    target: Float[Array, " P"],
    active: Float[Array, " P"],
    kept: Float[Array, " S"],
    settings: MomentSettings,
) -> Moments:
    """Moments of one policy.

    Parameters
    ----------
    cells
        The log.
    target, active, kept
        The renormalized policy, the pairs it visits, and its share on logged actions, from
        `bayesdice_ppl.features`.
    settings
        Discount, meaning of a termination, priors.

    Notes
    -----
    With sigma the reward transform and term the true terminations, one row of the design is::

        D_i = gamma [(1 - term_i) phi(s'_i, pi) + restart term_i phi0bar] - phi(s_i, a_i)

    (Yang et al., "Offline Policy Selection under Uncertainty", eq. 8, with phi one-hot and the
    expectation over pi taken exactly). A pair that the policy does not visit has ratio 0 exactly;
    its columns are zero.
    """
    gamma = settings.gamma
    n_pairs = target.shape[0]
    phi = jnp.zeros((kept.shape[0], n_pairs), target.dtype)
    phi = phi.at[cells.pair_state, jnp.arange(n_pairs)].set(target * active)
    phi0 = phi[cells.initial_state]
    phi0bar = cells.initial_weight @ phi0

    ends = cells.terminated[:, None]
    following = (1.0 - ends) * phi[cells.successor]
    if settings.restart:
        following = following + ends * phi0bar
    stationarity = gamma * following - jax.nn.one_hot(cells.pair, n_pairs, dtype=target.dtype)
    columns = [stationarity * active]
    offset = [(1.0 - gamma) * phi0bar]
    # The mass that a visit stands for includes what is absorbed after it.
    mass = jnp.ones_like(ends)
    if not settings.restart:
        mass = mass + gamma / (1.0 - gamma) * ends
    if settings.normalized:
        columns.append(mass)
        offset.append(-jnp.ones(1, target.dtype))
    # Absorbed mass earns sigma(0) for ever, so a visit is worth sigma(r) - sigma(0) beside it.
    floor = jnp.zeros((), target.dtype) if settings.restart else cells.absorbed_reward
    reward_mean, reward_sd = reward_moments(cells)
    base = reward_mean - floor if settings.centered else jnp.zeros((), target.dtype)
    columns.append(-floor - base * mass)
    offset.append((floor + base)[None])
    design = jnp.concatenate(columns, axis=1)

    weighted = design * cells.count[:, None]
    weighted = weighted.at[:, -1].add(cells.reward_sum) / cells.n_transitions
    by_pair = jax.ops.segment_sum(weighted, cells.pair, num_segments=n_pairs)
    n_rows = design.shape[1]
    value_column = jnp.zeros((n_rows, 1), target.dtype).at[-1, 0].set(-1.0)
    matrix = jnp.concatenate([(by_pair * active[:, None]).T, value_column], axis=1)
    initial = jnp.zeros((phi0.shape[0], n_rows), target.dtype).at[:, :n_pairs].set(phi0)

    # Equal rewards leave no scale to set the prior by; their size, or one, stands in.
    size = jnp.where(reward_mean == 0.0, 1.0, jnp.abs(reward_mean))
    reward_scale = jnp.where(reward_sd > 0.0, reward_sd, size)
    if not settings.restart:
        # The absorbed reward is one of the rewards, and may lie far from all that were logged.
        reward_scale = jnp.sqrt(reward_scale**2 + (reward_mean - floor) ** 2)
    ones = jnp.ones(n_pairs, target.dtype)
    return Moments(
        matrix=matrix,
        offset=jnp.concatenate(offset),
        design=design,
        initial=initial,
        target=target,
        active=active,
        kept=kept,
        prior_mean=jnp.append(ones, reward_mean),
        prior_scale=jnp.append(ones * settings.prior_sd, reward_scale * settings.value_prior_sd),
    )
