"""What a policy says of its normal actions, checked before anything is made of it.

A clipped or squashed policy is not normal, whatever it is made of. So the density that the policy
gives is compared with the normal density of the mean and the deviation that it gives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies.asking import number_array
from bayesdice_ppl.policies.interface import NormalPolicy

_MOST_ROWS = 64
"""Most observations in which densities are compared."""

_OFFSETS = 4
"""Actions in each of them."""


def checked_moments(
    name: str, policy: NormalPolicy, obs: Any, n_numbers: int
) -> tuple[Float[np.ndarray, "batch q"], Float[np.ndarray, "*batch q"]]:
    """Mean and standard deviation of a policy's normal actions, float64.

    Parameters
    ----------
    name, policy
        A candidate.
    obs
        Observations, shape (batch, ...).
    n_numbers
        q, the length of the log's actions.

    Returns
    -------
    (array, array)
        Shapes (batch, q), and (q,) or (batch, q).

    Raises
    ------
    PoliciesError
        A shape does not fit, a number is not finite, a deviation is negative, or the policy's
        density is another one.
    """
    given_mean, given_sd = policy.normal_moments(obs)
    mean = number_array(given_mean, f"policy {name!r}: mean of normal_moments")
    sd = number_array(given_sd, f"policy {name!r}: standard deviation of normal_moments")
    shape = (len(obs), n_numbers)
    if mean.shape != shape or sd.shape not in ((), shape[1:], shape):
        raise PoliciesError(
            f"policy {name!r}: expected normal_moments to give a mean of shape {shape} for "
            f"{len(obs)} observations, as the log's actions have {n_numbers} numbers, and a "
            f"standard deviation of shape (), {shape[1:]} or {shape}, found {mean.shape} and "
            f"{sd.shape}."
        )
    if not (np.isfinite(mean).all() and np.isfinite(sd).all() and np.all(sd >= 0.0)):
        raise PoliciesError(
            f"policy {name!r}: expected normal_moments to give finite means and finite standard "
            "deviations of at least 0, found others."
        )
    _check_density(name, policy, obs, mean, np.broadcast_to(sd, shape))
    return mean, np.broadcast_to(sd, shape[1:]) if sd.ndim < 2 else sd


def _check_density(
    name: str,
    policy: NormalPolicy,
    obs: Any,
    mean: Float[np.ndarray, "batch q"],
    sd: Float[np.ndarray, "batch q"],
) -> None:
    spread = np.flatnonzero((sd > 0.0).all(axis=1))
    if not len(spread):
        # A point mass has no density.
        return
    rows = spread[:: math.ceil(len(spread) / _MOST_ROWS)]
    mean, sd = mean[rows], sd[rows]
    # Offsets of up to two deviations that are alike in no two numbers of an action, so that
    # correlated numbers are found too.
    shape = (_OFFSETS, *mean.shape)
    offset = 2.0 * np.sin(1.0 + np.arange(math.prod(shape))).reshape(shape)
    expected = np.sum(-0.5 * offset**2 - np.log(sd * math.sqrt(2.0 * math.pi)), axis=2)
    action = mean + sd * offset
    found = number_array(policy.log_prob(obs[rows], action), f"policy {name!r}: log_prob")
    # Single precision loses the digits in which a mean is larger than the deviation.
    rounding = 1e-2 + 1e-6 * np.sum(np.abs(mean) / sd, axis=1) + 1e-4 * np.abs(expected)
    if found.shape != expected.shape or not np.all(np.abs(found - expected) <= rounding):
        raise PoliciesError(
            f"policy {name!r}: expected log_prob to be the density of the normal distribution that "
            "normal_moments gives, found another. Leave normal_moments out if actions are "
            "clipped, squashed or correlated, and they will be drawn."
        )
