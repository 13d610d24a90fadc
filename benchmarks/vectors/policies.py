"""The policies of the worlds: softmax over labels, and controllers of Pendulum.

A softmax policy of linear scores serves CartPole and the bandit; Pendulum's are Gaussian around a
controller. `act` draws actions of either kind with their propensities.
"""

from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Float, Shaped

from bayesdice_ppl.policies import GaussianPolicy

Controller = Callable[[Any], Any]
"""Observations (batch, p) -> mean actions (batch, 1), of NumPy or JAX arrays."""


@final
class SoftmaxPolicy:
    """Probabilities proportional to the exponential of linear scores.

    Parameters
    ----------
    weights
        Of each action's score, shape (A, p).
    bias
        Added to the scores, shape (A,).
    """

    __slots__ = ("bias", "weights")

    def __init__(
        self, weights: Float[np.ndarray, "A p"], bias: Float[np.ndarray, " A"] | None = None
    ) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        self.bias = np.zeros(len(self.weights)) if bias is None else np.asarray(bias, dtype=float)

    def probs(self, obs: Any) -> Float[np.ndarray, "batch A"]:
        """Probabilities of the actions in observations (batch, p)."""
        scores = np.asarray(obs, dtype=np.float64) @ self.weights.T + self.bias
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)


def act(
    policy: GaussianPolicy | SoftmaxPolicy,
    obs: Float[np.ndarray, "n p"],
    rng: np.random.Generator,
) -> tuple[Shaped[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Draw one action in each observation.

    Returns
    -------
    tuple
        Actions, shape (n,): numbers of a Gaussian policy of one action, or labels 0 .. A - 1; and
        their densities or probabilities, shape (n,).
    """
    if isinstance(policy, SoftmaxPolicy):
        probability = policy.probs(obs)
        limits = np.cumsum(probability, axis=1)
        label = np.sum(limits <= rng.random((len(obs), 1)) * limits[:, -1:], axis=1)
        return label, probability[np.arange(len(obs)), label]
    noise = rng.standard_normal(len(obs))
    sd = float(policy.sd)
    density = np.exp(-0.5 * noise**2) / (sd * np.sqrt(2.0 * np.pi))
    mean: Controller = policy.mean
    return np.asarray(mean(obs))[:, 0] + sd * noise, density


def smooth_controller(pump: float, lift: float, damping: float) -> Controller:
    """Pump energy smoothly, and pull toward the top when near it.

    Parameters
    ----------
    pump
        Torque for each unit of energy that lacks and of angular velocity, at most 2 in all.
    lift, damping
        Torque for each unit of sin(angle) and of angular velocity, at the top; half of it when
        level, none at the bottom.
    """

    def mean(obs: Any) -> Any:
        xp = obs.__array_namespace__()
        cosine, sine, speed = obs[:, 0], obs[:, 1], obs[:, 2]
        missing = -_energy(obs)
        near = (1.0 + cosine) / 2.0
        torque = 2.0 * xp.tanh(pump * missing * speed / 2.0) - near * (
            lift * sine + damping * speed
        )
        return torque[:, None]

    return mean


def swing_controller(pump: float) -> Controller:
    """Swing up by bang-bang, and balance linearly within about 37 degrees of the top.

    Parameters
    ----------
    pump
        Torque far from the top: with the motion where energy lacks, against it where there is too
        much.
    """

    def mean(obs: Any) -> Any:
        xp = obs.__array_namespace__()
        cosine, sine, speed = obs[:, 0], obs[:, 1], obs[:, 2]
        push = xp.where((_energy(obs) < 0.0) == (speed >= 0.0), pump, -pump)
        hold = xp.clip(-8.0 * xp.arctan2(sine, cosine) - 2.0 * speed, -2.0, 2.0)
        return xp.where(cosine > 0.8, hold, push)[:, None]

    return mean


def _energy(obs: Any) -> Any:
    """Energy of the pendulum, 0 when it rests at the top."""
    return 0.5 * obs[:, 2] ** 2 + 15.0 * (obs[:, 0] - 1.0)
