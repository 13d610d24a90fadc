"""Pendulum and CartPole of Gymnasium, many copies at once in NumPy.

Gymnasium steps one copy at a time; here a step moves all copies, so that a hundred logs, or a
hundred thousand long episodes for a true value, take seconds. States are float64 and so are
observations, which Gymnasium rounds to float32.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

LARGEST_TORQUE, LARGEST_SPEED = 2.0, 8.0
FARTHEST, LARGEST_ANGLE = 2.4, 12 * 2 * np.pi / 360


class Step(NamedTuple):
    """What one step of n copies gives.

    Attributes
    ----------
    state
        The next states, shape (n, k).
    reward, terminated
        Shape (n,).
    """

    state: Float[np.ndarray, "n k"]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]


class Simulator(NamedTuple):
    """A world that is played in many copies.

    Attributes
    ----------
    start
        (rng, n) -> first states, shape (n, k).
    observe
        States (n, k) -> observations (n, p).
    step
        (states (n, k), actions (n,)) -> `Step`.
    """

    start: Callable[[np.random.Generator, int], Float[np.ndarray, "n k"]]
    observe: Callable[[Float[np.ndarray, "n k"]], Float[np.ndarray, "n p"]]
    step: Callable[[Float[np.ndarray, "n k"], np.ndarray], Step]


def start_pendulum(rng: np.random.Generator, n: int) -> Float[np.ndarray, "n 2"]:
    """Any angle (rad, 0 is up), and angular velocities up to 1 rad/s."""
    return rng.uniform([-np.pi, -1.0], [np.pi, 1.0], size=(n, 2))


def observe_pendulum(state: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 3"]:
    """Cosine and sine of the angle, and the angular velocity."""
    angle, speed = state.T
    return np.stack([np.cos(angle), np.sin(angle), speed], axis=1)


def step_pendulum(state: Float[np.ndarray, "n 2"], torque: Float[np.ndarray, " n"]) -> Step:
    """Pendulum-v1: torques are clipped to [-2, 2] before they act; nothing terminates.

    Gravity 10, mass and length 1, steps of 0.05 s. The reward is minus the squared angle, minus 0.1
    times the squared velocity, minus 0.001 times the squared torque, all before the step.
    """
    angle, speed = state.T
    torque = np.clip(torque, -LARGEST_TORQUE, LARGEST_TORQUE)
    turned = (angle + np.pi) % (2 * np.pi) - np.pi
    reward = -(turned**2 + 0.1 * speed**2 + 0.001 * torque**2)
    faster = speed + 0.05 * (15.0 * np.sin(angle) + 3.0 * torque)
    faster = np.clip(faster, -LARGEST_SPEED, LARGEST_SPEED)
    following = np.stack([angle + 0.05 * faster, faster], axis=1)
    return Step(following, reward, np.zeros(len(state), dtype=bool))


def start_cart_pole(rng: np.random.Generator, n: int) -> Float[np.ndarray, "n 4"]:
    """Position, velocity, angle and angular velocity, each within 0.05 of zero."""
    return rng.uniform(-0.05, 0.05, size=(n, 4))


def move_cart_pole(
    state: Float[np.ndarray, "n 4"], action: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "n 4"], Bool[np.ndarray, " n"]]:
    """CartPole-v1: next states, and which copies have fallen or left the track.

    A push of 10 N to the left (0) or right (1), cart of 1 kg, pole of 0.1 kg and half-length 0.5 m,
    Euler steps of 0.02 s.
    """
    place, speed, angle, turning = state.T
    force = np.where(action == 1, 10.0, -10.0)
    cosine, sine = np.cos(angle), np.sin(angle)
    push = (force + 0.05 * turning**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
    pull = push - 0.05 * turn * cosine / 1.1
    following = np.stack(
        [place + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turning, turning + 0.02 * turn],
        axis=1,
    )
    ended = (np.abs(following[:, 0]) > FARTHEST) | (np.abs(following[:, 2]) > LARGEST_ANGLE)
    return following, ended


def step_paid_cart_pole(state: Float[np.ndarray, "n 4"], action: Int[np.ndarray, " n"]) -> Step:
    """CartPole-v1 with its own reward, 1 for every step, the one that ends the episode too."""
    following, ended = move_cart_pole(state, action)
    return Step(following, np.ones(len(state)), ended)


def step_fined_cart_pole(state: Float[np.ndarray, "n 4"], action: Int[np.ndarray, " n"]) -> Step:
    """CartPole with Barto, Sutton and Anderson's reward, -1 for the step that ends the episode."""
    following, ended = move_cart_pole(state, action)
    return Step(following, -ended.astype(np.float64), ended)


def observe_cart_pole(state: Float[np.ndarray, "n 4"]) -> Float[np.ndarray, "n 4"]:
    """All of the state is observed."""
    return state


PENDULUM = Simulator(start_pendulum, observe_pendulum, step_pendulum)
PAID_CART_POLE = Simulator(start_cart_pole, observe_cart_pole, step_paid_cart_pole)
FINED_CART_POLE = Simulator(start_cart_pole, observe_cart_pole, step_fined_cart_pole)
