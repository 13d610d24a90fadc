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
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl.baselines.fitted_q import NetworkSettings
from bayesdice_ppl.baselines.interface import Asked
from bayesdice_ppl.baselines.q_network import (
    Parameters,
    Training,
    initial_parameters,
    logged_value,
    state_value,
)
from bayesdice_ppl.features import sample_actions
from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import (
    ContinuousPolicy,
    Policy,
    align_continuous,
    align_policies,
    needed_states,
)


@final
class Prepared(NamedTuple):
    """A question as the loop needs it.

    Attributes
    ----------
    training
        What the loop reads, in float64.
    n_outputs
        Number of outputs: actions that are labels, or 1.
    relative
        Whether relative values are learned, or Q itself.
    center, scale
        Mean and standard deviation of the rewards, by which they are standardized.
    """

    training: Training
    n_outputs: int
    relative: bool
    center: float
    scale: float

    @property
    def single(self) -> Training:
        """What the loop reads, in float32."""
        return jax.tree.map(
            lambda a: a.astype(np.float32) if a.dtype == np.float64 else a, self.training
        )


@final
class Trained(NamedTuple):
    """What the loop ends with, in standardized rewards.

    Attributes
    ----------
    value
        Normalized value, the mean over the last quarter of the regressions.
    parameters
        The network after the last regression.
    level
        Mean initial value of this network where values are relative, or 0.
    """

    value: Float[Array, ""]
    parameters: Parameters
    level: Float[Array, ""]


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
    prepared = prepare_network(logs, policy, asked, settings, key_actions)
    found = train_network(prepared, settings, key_train)
    return float(prepared.center + prepared.scale * np.float64(found.value))


def train_network(prepared: Prepared, settings: NetworkSettings, rng_key: PRNGKeyArray) -> Trained:
    """Train the network; compiled once for the settings and each padded shape.

    Parameters
    ----------
    prepared
        The question.
    settings
        How the network is trained.
    rng_key
        Key of the first weights and of the batches.
    """
    train = _trainer(settings, prepared.n_outputs, prepared.relative)
    found: Trained = train(prepared.single, rng_key)
    return found


def prepare_network(
    logs: Logs,
    policy: Policy | ContinuousPolicy,
    asked: Asked,
    settings: NetworkSettings,
    rng_key: PRNGKeyArray,
) -> Prepared:
    """Bring a log and a policy to padded, standardized arrays.

    Parameters
    ----------
    logs, policy, asked, settings
        As for `network_value`.
    rng_key
        Key of the draws of actions that are vectors.

    Raises
    ------
    LogsError, PoliciesError
        The policy does not cover the log.
    """
    rows = usable_rows(logs, asked.gamma).mask
    reward = logs.reward[rows]
    center, scale = reward.mean(), reward.std()
    scale = scale if scale > 0.0 else 1.0
    ended = (logs.terminated[rows] & (asked.gamma > 0.0)).astype(np.float64)
    # A fresh start has relative value 0; an absorbing end has a level, which only Q itself knows.
    relative = bool(asked.restart or not ended.any())
    unread = (ended > 0.0) | (asked.gamma == 0.0)
    following = np.where(unread, 0, logs.next_state[rows])
    n_states = _padded(len(logs.state_labels))
    action, probabilities, n_outputs = _actions(logs, policy, asked, settings, rows, rng_key)
    inputs = None
    if logs.vector_states:
        inputs = _pad(_standardized(logs.state_labels), n_states)
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
        start=np.bincount(logs.initial_state, minlength=n_states) / logs.n_episodes,
        absorbed=np.float64(-center / scale),
        gamma=np.float64(asked.gamma),
    )
    return Prepared(training, n_outputs, relative, float(center), float(scale))


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
        fitted = logged_value(parameters, training, rows)
        return jnp.mean((fitted - targets[rows]) ** 2)

    def adam(carry: Any, key: Array, training: Training, targets: Array) -> tuple[Any, None]:
        parameters, state = carry
        rows = jax.random.randint(key, (settings.batch,), 0, training.n)
        gradient = jax.grad(loss)(parameters, training, targets, rows)
        updates, state = optimizer.update(gradient, state, parameters)
        return (optax.apply_updates(parameters, updates), state), None

    def refit(carry: Any, key: Array, training: Training) -> tuple[Any, Array]:
        parameters, state, at_state, level = carry
        after = 0.0 if relative else training.absorbed / (1.0 - training.gamma)
        onward = (at_state - level)[training.following]
        following = training.onward * onward + training.ended * after
        targets = training.reward + training.gamma * following
        (parameters, state), _ = jax.lax.scan(
            partial(adam, training=training, targets=targets),
            (parameters, state),
            jax.random.split(key, settings.steps),
        )
        at_state = state_value(parameters, training)
        at_start = training.start @ at_state
        level = at_start if relative else 0.0
        value = at_start if relative else (1.0 - training.gamma) * at_start
        return (parameters, state, at_state, level), value

    @jax.jit
    def train(training: Training, rng_key: Array) -> Trained:
        key_start, key_loop = jax.random.split(rng_key)
        parameters = initial_parameters(training, settings.width, n_outputs, key_start)
        at_state = state_value(parameters, training)
        carry: Any = (parameters, optimizer.init(parameters), at_state, 0.0)
        (parameters, _, _, level), values = jax.lax.scan(
            partial(refit, training=training), carry, jax.random.split(key_loop, settings.refits)
        )
        return Trained(jnp.mean(values[-(settings.refits // 4) :]), parameters, level)

    return train


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
