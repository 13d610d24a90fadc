"""Multilayer perceptrons for the mean and the deviation of a random function."""

from __future__ import annotations

from itertools import pairwise
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

_DEVIATION_AT_START = 0.1
"""Sd of the deviation's last weights at the start, times the root of the width."""


@final
class Perceptron(eqx.Module):
    """A network of ReLU layers.

    Attributes
    ----------
    weights, biases
        Of each layer, shapes (below, above) and (above,).
    """

    weights: tuple[Float[Array, "below above"], ...]
    biases: tuple[Float[Array, " above"], ...]

    def __call__(self, inputs: Float[Array, "b q"]) -> Float[Array, "b k"]:
        """Outputs at some points."""
        *layers, last = zip(self.weights, self.biases, strict=True)
        hidden = inputs
        for weight, bias in layers:
            hidden = jax.nn.relu(hidden @ weight + bias)
        return hidden @ last[0] + last[1]


@final
class Networks(eqx.Module):
    """Mean and deviation of a random function m(x) + d(x)'xi.

    Attributes
    ----------
    mean
        From q inputs to a number.
    deviation
        From q inputs to a number for each entry of the noise.
    """

    mean: Perceptron
    deviation: Perceptron

    def __call__(
        self, inputs: Float[Array, "b q"]
    ) -> tuple[Float[Array, " b"], Float[Array, "b k"]]:
        """Mean and deviation at some points; every link takes a mean of 1 to a ratio of one."""
        return 1.0 + self.mean(inputs)[:, 0], self.deviation(inputs)


def make_networks(
    rng_key: PRNGKeyArray, n_inputs: int, width: int, depth: int, n_noise: int
) -> Networks:
    """Networks at random weights, with a mean of one and a small deviation.

    Parameters
    ----------
    rng_key
        Key of the weights.
    n_inputs, width, depth, n_noise
        Inputs, hidden units in a layer, hidden layers, and entries of the noise.
    """
    key_mean, key_deviation = jax.random.split(rng_key)
    hidden = (n_inputs, *[width] * depth)
    return Networks(
        _perceptron(key_mean, (*hidden, 1), 0.0),
        _perceptron(key_deviation, (*hidden, n_noise), _DEVIATION_AT_START),
    )


def _perceptron(rng_key: PRNGKeyArray, sizes: tuple[int, ...], last: float) -> Perceptron:
    """Uniform weights within 1 / sqrt(inputs); those of the last layer have a size of their own."""
    weights, biases = [], []
    for number, (below, above) in enumerate(pairwise(sizes)):
        drawn = jax.random.uniform(
            jax.random.fold_in(rng_key, number), (below + 1, above), jnp.float32, -1.0, 1.0
        )
        size = 3.0**0.5 * last if number == len(sizes) - 2 else 1.0
        layer = drawn * (size / below**0.5)
        weights.append(layer[:-1])
        biases.append(layer[-1])
    return Perceptron(tuple(weights), tuple(biases))
