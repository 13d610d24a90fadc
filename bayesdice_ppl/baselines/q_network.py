"""The small Q network of the baselines: two hidden layers of ReLUs, and an output per action.

Labels enter one-hot, which is a row of the first layer's weights. Actions that are vectors enter
the first layer beside the state, and there is one output.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Parameters = dict[str, Any]


@final
class Training(NamedTuple):
    """Everything that the loop reads, padded.

    Attributes
    ----------
    n
        Number of rows that count; the first n do.
    state, following
        Codes of the rows, shape (n',).
    action
        Codes, shape (n',), or standardized vectors, shape (n', q).
    onward, ended, reward
        Of the rows, shape (n',); rewards standardized.
    inputs
        Standardized observations by code, shape (S', p); None for labels.
    policy
        Probabilities by state, shape (S', A), or standardized draws, shape (L, S', q).
    start
        Weight of each state among the starts, shape (S',).
    absorbed
        Standardized reward 0, which absorbing states earn.
    gamma
        Discount.
    """

    n: Int[Any, ""]
    state: Int[Any, " n"]
    following: Int[Any, " n"]
    action: Any
    onward: Float[Any, " n"]
    ended: Float[Any, " n"]
    reward: Float[Any, " n"]
    inputs: Float[Any, "S p"] | None
    policy: Float[Any, "S A"] | Float[Any, "L S q"]
    start: Float[Any, " S"]
    absorbed: Float[Any, ""]
    gamma: Float[Any, ""]


def initial_parameters(
    training: Training, width: int, n_outputs: int, rng_key: Array
) -> Parameters:
    """He's initialization; the last layer starts at 0, so that Q does."""
    labels = training.inputs is None
    n_state = training.start.shape[0] if labels else training.inputs.shape[1]  # type: ignore[union-attr]
    vectors = training.action.ndim == 2
    n_action = training.action.shape[1] if vectors else 0
    # Of one-hot inputs one is 1, of standardized ones all are about 1.
    fan = (1 if labels else n_state) + n_action
    keys = jax.random.split(rng_key, 3)
    parameters = {
        "state": jax.random.normal(keys[0], (n_state, width)) * jnp.sqrt(2.0 / fan),
        "hidden": jax.random.normal(keys[1], (width, width)) * jnp.sqrt(2.0 / width),
        "output": jnp.zeros((width, n_outputs)),
        "biases": (jnp.zeros(width), jnp.zeros(width), jnp.zeros(n_outputs)),
    }
    if vectors:
        drawn = jax.random.normal(keys[2], (n_action, width))
        parameters["action"] = drawn * jnp.sqrt(2.0 / fan)
    return parameters


def logged_value(parameters: Parameters, training: Training, rows: Array) -> Float[Array, " b"]:
    """Q of logged rows."""
    state = training.state[rows]
    first = (
        parameters["state"][state]
        if training.inputs is None
        else training.inputs[state] @ parameters["state"]
    )
    if training.action.ndim == 2:
        return _heads(parameters, first + training.action[rows] @ parameters["action"])[:, 0]
    heads = _heads(parameters, first)
    return jnp.take_along_axis(heads, training.action[rows][:, None], axis=1)[:, 0]


def state_value(parameters: Parameters, training: Training) -> Float[Array, " S"]:
    """V of every state under the policy."""
    first = _of_states(parameters, training)
    if training.action.ndim == 2:
        each = _heads(parameters, first + training.policy @ parameters["action"])
        return jnp.mean(each[..., 0], axis=0)
    return jnp.sum(training.policy * _heads(parameters, first), axis=1)


@jax.jit
def hidden_features(
    parameters: Parameters, training: Training
) -> tuple[Float[Array, "C h"], Float[Array, "S h"]]:
    """Outputs of the second hidden layer, of which the last layer is linear.

    Returns
    -------
    logged
        Where actions are labels, by state, (S', h); where they are vectors, by row, (n', h).
    at_state
        By state, (S', h): the same, or the mean over the policy's draws.
    """
    first = _of_states(parameters, training)
    if training.action.ndim == 1:
        logged = _hidden(parameters, first)
        return logged, logged
    rows = first[training.state] + training.action @ parameters["action"]
    drawn = _hidden(parameters, first + training.policy @ parameters["action"])
    return _hidden(parameters, rows), jnp.mean(drawn, axis=0)


def _of_states(parameters: Parameters, training: Training) -> Float[Array, "S h"]:
    """The first layer's sums, of every state."""
    weights = parameters["state"]
    return weights if training.inputs is None else training.inputs @ weights


def _hidden(parameters: Parameters, first: Float[Array, "... h"]) -> Float[Array, "... h"]:
    """From the first layer's sums to the second layer's outputs."""
    one, two, _ = parameters["biases"]
    return jax.nn.relu(jax.nn.relu(first + one) @ parameters["hidden"] + two)


def _heads(parameters: Parameters, first: Float[Array, "... h"]) -> Float[Array, "... A"]:
    """From the first layer's sums to the outputs."""
    return _hidden(parameters, first) @ parameters["output"] + parameters["biases"][2]
