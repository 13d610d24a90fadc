"""A small network as plain arrays, for the use of a trained policy.

Weights are an `.npz` of arrays, read without pickle, so that a file from elsewhere cannot run
anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.errors import EnvironmentSpecError

if TYPE_CHECKING:
    from jaxtyping import Array


class Network(NamedTuple):
    """A multilayer perceptron.

    Attributes
    ----------
    weights
        One matrix a layer, (inputs, outputs).
    biases
        One vector a layer, (outputs,).
    """

    weights: tuple[Float[Any, "i o"], ...]
    biases: tuple[Float[Any, " o"], ...]


def apply(network: Network, inputs: Float[Array, "batch p"]) -> Float[Array, "batch q"]:
    """Evaluate: rectified linear units between the layers, tanh after the last.

    Parameters
    ----------
    network
        The network.
    inputs
        Shape (batch, p).

    Returns
    -------
    Array
        Shape (batch, q), each entry in [-1, 1].
    """
    return _compiled()(network, inputs)


@cache
def _compiled() -> Callable[[Network, Any], Any]:
    import jax  # not at the top: most worlds do not need it
    import jax.numpy as jnp

    def forward(network: Network, inputs: Any) -> Any:
        hidden = jnp.asarray(inputs)
        last = len(network.weights) - 1
        for i, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            hidden = hidden @ weight + bias
            hidden = jnp.tanh(hidden) if i == last else jnp.maximum(hidden, 0.0)
        return hidden

    return jax.jit(forward)


def load_network(file: Any) -> Network:
    """Read a network from arrays `weight_0, bias_0, weight_1, ...`.

    Parameters
    ----------
    file
        Path or binary file of an `.npz`.

    Raises
    ------
    EnvironmentSpecError
        Layers are missing or their shapes do not match, or a weight is not finite.
    """
    with np.load(file, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    n_layers = len(found) // 2
    expected = {f"{kind}_{i}" for kind in ("weight", "bias") for i in range(n_layers)}
    if not found or set(found) != expected:
        raise EnvironmentSpecError(
            f"{file}: expected the arrays weight_0, bias_0, weight_1, ..., found {sorted(found)}."
        )
    weights = tuple(found[f"weight_{i}"] for i in range(n_layers))
    biases = tuple(found[f"bias_{i}"] for i in range(n_layers))
    outputs = [weight.shape[-1] for weight in weights]
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        fits = weight.ndim == 2 and bias.shape == weight.shape[1:]
        if not fits or (i > 0 and weight.shape[0] != outputs[i - 1]):
            raise EnvironmentSpecError(
                f"{file}: layer {i} with weights {weight.shape} and biases {bias.shape} does not "
                "fit the layer before it."
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise EnvironmentSpecError(f"{file}: layer {i} holds a number that is not finite.")
    return Network(weights, biases)
