"""The bandit of vectors: ten-dimensional contexts, five actions, rewards that no line fits.

The mean reward of an action is a sine of one direction of the context, a tanh of another and a
product of two coordinates; what is seen has normal noise on it.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesdice_ppl.logs import Logs
from benchmarks.vectors.play import Value
from benchmarks.vectors.policies import SoftmaxPolicy, act

N_CONTEXT, N_ACTIONS, NOISE = 10, 5, 0.5
WORLD_SEED = 16
"""Draws the directions, once for all logs."""

CHUNK = 100_000


class Directions(NamedTuple):
    """What fixes the world.

    Attributes
    ----------
    wave, slope
        Directions of the sine and of the tanh, of length 1.5 and 1, shape (5, 10).
    taste
        Directions of the logging policy's scores, of length 1, shape (5, 10): at random, and a
        little toward what pays.
    """

    wave: Float[np.ndarray, "A p"]
    slope: Float[np.ndarray, "A p"]
    taste: Float[np.ndarray, "A p"]


@cache
def directions() -> Directions:
    """The world's directions."""
    drawn = np.random.default_rng(WORLD_SEED).normal(size=(3, N_ACTIONS, N_CONTEXT))
    wave, slope, taste = drawn / np.linalg.norm(drawn, axis=2, keepdims=True)
    taste = taste + 0.5 * wave
    return Directions(1.5 * wave, slope, taste / np.linalg.norm(taste, axis=1, keepdims=True))


def mean_rewards(context: Float[np.ndarray, "n 10"]) -> Float[np.ndarray, "n 5"]:
    """Mean reward of each action in each context."""
    wave, slope, _ = directions()
    product = context[:, :N_ACTIONS] * context[:, N_ACTIONS:]
    return np.sin(context @ wave.T) + np.tanh(context @ slope.T) + 0.3 * product


def bandit_policies() -> dict[str, SoftmaxPolicy]:
    """The logging policy, first, and the candidates.

    `good` and `medium` score by the world's own directions, `tilted` is the logging policy made
    sharper, `uniform` scores nothing, and `far` mostly takes what the logging policy avoids.
    """
    wave, slope, taste = directions()
    best = wave + slope
    return {
        "logging": SoftmaxPolicy(taste),
        "good": SoftmaxPolicy(1.5 * best),
        "medium": SoftmaxPolicy(0.5 * best + 0.5 * taste),
        "tilted": SoftmaxPolicy(2.0 * taste),
        "uniform": SoftmaxPolicy(0.0 * taste),
        "far": SoftmaxPolicy(-3.0 * taste),
    }


def play_bandit(policy: SoftmaxPolicy, n: int, rng: np.random.Generator) -> Logs:
    """Log n rows, each an episode of its own, with propensities."""
    context = rng.normal(size=(n, N_CONTEXT))
    action, propensity = act(policy, context, rng)
    mean = mean_rewards(context)[np.arange(n), action]
    columns = {f"obs_{k}": numbers for k, numbers in enumerate(context.T)}
    frame = pl.DataFrame(
        columns
        | {
            "action": action,
            "reward": mean + NOISE * rng.normal(size=n),
            "propensity": propensity,
        }
    )
    return Logs.from_dataframe(frame, actions=list(range(N_ACTIONS)))


def bandit_value(policy: SoftmaxPolicy, n: int, seed: int) -> Value:
    """Mean reward over n contexts, a multiple of 100,000; actions are summed over, not drawn."""
    earned = []
    for stream in np.random.SeedSequence(seed).spawn(n // CHUNK):
        context = np.random.default_rng(stream).normal(size=(CHUNK, N_CONTEXT))
        earned.append(np.sum(policy.probs(context) * mean_rewards(context), axis=1))
    each = np.concatenate(earned)
    return Value(float(each.mean()), float(each.std(ddof=1) / np.sqrt(n)))
