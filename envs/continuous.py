"""Reference policies of the worlds whose states are vectors, indexed by alpha as the others are.

CartPole's family gives probabilities of its two actions, Reacher's a Gaussian over torques.
"""

from typing import Any, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.envs.checks import check_share
from bayesdice_ppl.envs.reacher import reacher_action
from bayesdice_ppl.policies import GaussianPolicy

CART_POLE_GAINS = (0.09226, 0.15893, 1.0, 0.27453)
"""Direction in which the cart is pushed: the linear-quadratic regulator of the linearized pole
(cost of each 0.02 s step: squared state plus 0.01 times the squared push in newtons)."""

MOST_REGULATED = 0.6
"""Probability of the regulator's push at alpha = 1."""

REACHER_SD, REACHER_SD_SLOPE = 0.4, 0.3


@final
class CartPolePolicy:
    """Push the cart under the pole with some probability, and at random otherwise.

    Parameters
    ----------
    alpha
        Index in [0, 1]: the regulator's push has the probability 0.6 alpha, otherwise both pushes
        are equally likely.

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1].
    """

    __slots__ = ("alpha",)

    def __init__(self, alpha: float) -> None:
        check_share("alpha", alpha)
        self.alpha = alpha

    def probs(self, obs: Any) -> Float[np.ndarray, "batch 2"]:
        """Probabilities of pushing left and right in observations (batch, 4)."""
        right = np.asarray(obs, dtype=np.float64) @ np.array(CART_POLE_GAINS) > 0.0
        sure = np.stack([~right, right], axis=-1)
        steady = MOST_REGULATED * self.alpha
        return steady * sure + (1.0 - steady) / 2.0


def cart_pole_policy(alpha: float) -> CartPolePolicy:
    """Build CartPole's policy: a linear regulator with probability 0.6 alpha, random otherwise.

    Parameters
    ----------
    alpha
        In [0, 1]: at 0 pushes are random, and the pole falls about every 22 steps; at 1 it falls
        once in some hundreds of steps. Better policies almost never let it fall, so that no
        simulation could distinguish them.

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1].
    """
    return CartPolePolicy(alpha)


def reacher_policy(alpha: float) -> GaussianPolicy:
    """Build Reacher's policy: Gaussian around a trained one, standard deviation 0.4 - 0.3 alpha.

    Parameters
    ----------
    alpha
        In [0, 1]: 0 is the noisiest (torques with standard deviation 0.4), 1 the steadiest (0.1).

    Returns
    -------
    GaussianPolicy
        Over two torques. Draws may lie beyond [-1, 1]; the world clips them.

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1].

    Notes
    -----
    Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty", appendix
    C.1.
    """
    check_share("alpha", alpha)
    return GaussianPolicy(reacher_action, REACHER_SD - REACHER_SD_SLOPE * alpha)
