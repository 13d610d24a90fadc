"""Fitted Q evaluation with a small network, trained in one compiled loop.

Logs are padded to few different lengths, so that the next log of a world finds the loop compiled.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayesdice_ppl.baselines.fitted_q import NetworkSettings
from bayesdice_ppl.baselines.interface import Asked
from bayesdice_ppl.features import sample_actions
from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import (
    ContinuousPolicy,
    Policy,
    align_continuous,
    align_policies,
    needed_states,
)

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


def network_value(
    logs: Logs,
    policy: Policy | ContinuousPolicy,
    asked: Asked,
    settings: NetworkSettings,
    rng_key: PRNGKeyArray,
) -> float:
    """Value of a policy by fitted Q evaluation with a network.

    Parameters
    ----------
    logs, policy, asked
        The log, the candidate, the question.
    settings
        How the network is trained.
    rng_key
        Key of the draws.
    """
    key_actions, key_train = jax.random.split(rng_key)
    rows = usable_rows(logs, asked.gamma).mask
    reward = logs.reward[rows]
    center, scale = reward.mean(), reward.std()
    scale = scale if scale > 0.0 else 1.0
    ended = (logs.terminated[rows] & (asked.gamma > 0.0)).astype(np.float64)
    # A fresh start has relative value 0; an absorbing end has a level, which only Q itself knows.
    relative = asked.restart or not ended.any()
    unread = (ended > 0.0) | (asked.gamma == 0.0)
    following = np.where(unread, 0, logs.next_state[rows])
    n_states = _padded(len(logs.state_labels))
    action, probabilities, n_actions = _actions(logs, policy, asked, settings, rows, key_actions)
    inputs = None
    if logs.vector_states:
        inputs = _pad(_standardized(logs.state_labels), n_states)
    start = np.bincount(logs.initial_state, minlength=n_states) / logs.n_episodes
    n_rows = _padded(len(reward))
    axis = 1 if logs.vector_actions else 0
    training = Training(
        n=np.int32(len(reward)),
        state=_pad(logs.state[rows].astype(np.int32), n_rows),
        following=_pad(following.astype(np.int32), n_rows),
        action=_pad(action, n_rows),
        onward=_pad(1.0 - ended, n_rows),
        ended=_pad(ended, n_rows),
        reward=_pad((reward - center) / scale, n_rows),
        inputs=inputs,
        policy=_pad(probabilities, n_states, axis),
        start=start,
        absorbed=np.float64(-center / scale),
        gamma=np.float64(asked.gamma),
    )
    single = jax.tree.map(lambda a: a.astype(np.float32) if a.dtype == np.float64 else a, training)
    found = _trainer(settings, n_actions, relative)(single, key_train)
    return float(center + scale * np.float64(found))


def _actions(
    logs: Logs,
    policy: Policy | ContinuousPolicy,
    asked: Asked,
    settings: NetworkSettings,
    rows: np.ndarray,
    rng_key: PRNGKeyArray,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Logged actions, the policy in each state, and the number of outputs of the network."""
    if not logs.vector_actions:
        aligned = align_policies(logs, {"policy": policy}, needs_successors=asked.gamma > 0.0)
        codes = aligned.codes(logs)[logs.action[rows]].astype(np.int32)
        return codes, aligned.probabilities[0], len(aligned.actions)
    candidates = align_continuous(logs, {"policy": policy})
    needed = needed_states(logs, needs_successors=asked.gamma > 0.0)
    width = logs.action_labels.shape[1]
    sampled = sample_actions(
        candidates, logs.state_labels, needed, settings.action_draws, width, rng_key
    )
    drawn = np.zeros((settings.action_draws, len(needed), width))
    drawn[:, sampled.rows] = sampled.action[0]
    logged = logs.action_labels[logs.action[rows]]
    center, sd = logged.mean(axis=0), logged.std(axis=0)
    sd = np.where(sd > 0.0, sd, 1.0)
    return (logged - center) / sd, (drawn - center) / sd, 1


@cache
def _trainer(settings: NetworkSettings, n_outputs: int, relative: bool) -> Any:
    """The loop, compiled once for these settings and each shape."""
    schedule = optax.cosine_decay_schedule(settings.learning_rate, settings.refits * settings.steps)
    optimizer = optax.adam(schedule)

    def loss(parameters: Parameters, training: Training, targets: Array, rows: Array) -> Array:
        # Targets are of all rows, so that a step only looks them up.
        fitted = _logged_value(parameters, training, rows)
        return jnp.mean((fitted - targets[rows]) ** 2)

    def adam(carry: Any, key: Array, training: Training, targets: Array) -> tuple[Any, None]:
        parameters, state = carry
        rows = jax.random.randint(key, (settings.batch,), 0, training.n)
        gradient = jax.grad(loss)(parameters, training, targets, rows)
        updates, state = optimizer.update(gradient, state, parameters)
        return (optax.apply_updates(parameters, updates), state), None

    def refit(carry: Any, key: Array, training: Training) -> tuple[Any, Array]:
        parameters, state, level = carry
        at_state = _state_value(parameters, training) - level
        after = 0.0 if relative else training.absorbed / (1.0 - training.gamma)
        following = training.onward * at_state[training.following] + training.ended * after
        targets = training.reward + training.gamma * following
        (parameters, state), _ = jax.lax.scan(
            partial(adam, training=training, targets=targets),
            (parameters, state),
            jax.random.split(key, settings.steps),
        )
        at_start = training.start @ _state_value(parameters, training)
        level = at_start if relative else 0.0
        value = at_start if relative else (1.0 - training.gamma) * at_start
        return (parameters, state, level), value

    @jax.jit
    def train(training: Training, rng_key: Array) -> Array:
        key_start, key_loop = jax.random.split(rng_key)
        parameters = _initial(training, settings.width, n_outputs, key_start)
        carry = (parameters, optimizer.init(parameters), 0.0)
        _, values = jax.lax.scan(
            partial(refit, training=training), carry, jax.random.split(key_loop, settings.refits)
        )
        return jnp.mean(values[-(settings.refits // 4) :])

    return train


def _initial(training: Training, width: int, n_outputs: int, rng_key: Array) -> Parameters:
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


def _heads(parameters: Parameters, first: Float[Array, "... h"]) -> Float[Array, "... A"]:
    """From the first layer's sums to the outputs."""
    one, two, three = parameters["biases"]
    hidden = jax.nn.relu(jax.nn.relu(first + one) @ parameters["hidden"] + two)
    return hidden @ parameters["output"] + three


def _logged_value(parameters: Parameters, training: Training, rows: Array) -> Float[Array, " b"]:
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


def _state_value(parameters: Parameters, training: Training) -> Float[Array, " S"]:
    """V of every state under the policy."""
    weights = parameters["state"]
    first = weights if training.inputs is None else training.inputs @ weights
    if training.action.ndim == 2:
        each = _heads(parameters, first + training.policy @ parameters["action"])
        return jnp.mean(each[..., 0], axis=0)
    return jnp.sum(training.policy * _heads(parameters, first), axis=1)


def _standardized(values: Float[np.ndarray, "S p"]) -> Float[np.ndarray, "S p"]:
    sd = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)


def _padded(size: int) -> int:
    """The next of few lengths, at most an eighth more."""
    step = max(2 ** (size.bit_length() - 4), 1)
    return size + -size % step


def _pad(values: np.ndarray, size: int, axis: int = 0) -> np.ndarray:
    """Zeros at the end."""
    width = [(0, 0)] * values.ndim
    width[axis] = (0, size - values.shape[axis])
    return np.pad(values, width)
