"""Fitted Q evaluation with a small network, trained in one compiled loop.

Logs are padded to few different lengths, so the next log of a world finds the loop compiled.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayesdice_ppl.baselines.interface import Query
from bayesdice_ppl.baselines.value.q_network import PaddedLog, QNetwork
from bayesdice_ppl.checks import even, positive, whole
from bayesdice_ppl.features import sample_actions
from bayesdice_ppl.logs import RewardUnits, reward_units, usable_rows
from bayesdice_ppl.policies import align_continuous, align_policies, needed_states


@final
@dataclass(frozen=True)
class Training:
    """How the network of fitted Q evaluation is trained.

    Attributes
    ----------
    refits
        Number of regressions, each on the targets of the one before.
    steps
        Adam's steps in each.
    batch
        Transitions in each step.
    width
        Units of each of the two hidden layers.
    learning_rate
        Adam's at first; it falls to 0 along a cosine.
    action_draws
        Actions drawn in each state where actions are vectors, even.
    """

    refits: int
    steps: int
    batch: int
    width: int
    learning_rate: float
    action_draws: int

    def __post_init__(self) -> None:
        whole("refits", self.refits, 4)
        whole("steps", self.steps)
        whole("batch", self.batch)
        whole("width", self.width)
        positive("learning_rate", self.learning_rate)
        even("action_draws", self.action_draws)

    @classmethod
    def of(cls, method: Any) -> Training:
        """Read these settings off a method that has them, and check them."""
        return cls(*(getattr(method, each.name) for each in fields(cls)))


@final
class NetworkProblem(NamedTuple):
    """A query as the loop needs it.

    Attributes
    ----------
    table
        What the loop reads, in float64.
    n_outputs
        Number of outputs: actions that are labels, or 1.
    relative
        Whether relative values are learned, or Q itself.
    units
        Mean and standard deviation of the rewards, by which they are standardized.
    """

    table: PaddedLog
    n_outputs: int
    relative: bool
    units: RewardUnits

    @property
    def single(self) -> PaddedLog:
        """What the loop reads, in float32."""
        return jax.tree.map(
            lambda a: a.astype(np.float32) if a.dtype == np.float64 else a, self.table
        )


@final
class Trained(NamedTuple):
    """What the loop ends with, in standardized rewards.

    Attributes
    ----------
    value
        Normalized value, the mean over the last quarter of the regressions.
    network
        The network after the last regression.
    level
        Mean initial value of this network where values are relative, or 0.
    """

    value: Float[Array, ""]
    network: QNetwork
    level: Float[Array, ""]


def network_value(query: Query, training: Training) -> float:
    """Value of a policy by fitted Q evaluation with a network; the query has a key."""
    key_actions, key_train = jax.random.split(query.key)
    prepared = prepare_network(query, training, key_actions)
    found = train_network(prepared, training, key_train)
    return float(prepared.units.back(float(found.value)))


def train_network(prepared: NetworkProblem, training: Training, rng_key: PRNGKeyArray) -> Trained:
    """Train the network: the key draws the first weights and the batches."""
    found: Trained = train(
        prepared.single,
        rng_key,
        training=training,
        n_outputs=prepared.n_outputs,
        relative=prepared.relative,
    )
    return found


def prepare_network(query: Query, training: Training, rng_key: PRNGKeyArray) -> NetworkProblem:
    """Bring a log and a policy to padded, standardized arrays; the key draws vector actions.

    Raises
    ------
    LogsError, PoliciesError
        The policy does not cover the log.
    """
    logs, gamma = query.logs, query.gamma
    used = usable_rows(logs, gamma).mask
    reward = logs.reward[used]
    units = reward_units(reward)
    if units.scale == 0.0 and not query.restart:
        # Equal rewards still differ from the 0 of an absorbed episode.
        units = units._replace(scale=float(np.abs(reward).max()))
    ended = (logs.terminated[used] & (gamma > 0.0)).astype(np.float64)
    # A fresh start has relative value 0; an absorbing end has a level, which only Q itself knows.
    relative = bool(query.restart or not ended.any())
    unread = (ended > 0.0) | (gamma == 0.0)
    following = np.where(unread, 0, logs.next_state[used])
    n_states = _padded(len(logs.state_labels))
    action, policy, n_outputs = _actions(query, training, used, rng_key)
    inputs = None
    if logs.vector_states:
        inputs = _pad(_standardized(logs.state_labels), n_states)
    n_rows = _padded(len(reward))
    table = PaddedLog(
        n=np.int32(len(reward)),
        state=_pad(logs.state[used].astype(np.int32), n_rows),
        following=_pad(following.astype(np.int32), n_rows),
        action=_pad(action, n_rows),
        onward=_pad(1.0 - ended, n_rows),
        ended=_pad(ended, n_rows),
        reward=_pad(units.into(reward), n_rows),
        inputs=inputs,
        policy=_pad(policy, n_states, 1 if logs.vector_actions else 0),
        start=np.bincount(logs.initial_state, minlength=n_states) / logs.n_episodes,
        absorbed=np.float64(units.zero),
        gamma=np.float64(gamma),
    )
    return NetworkProblem(table, n_outputs, relative, units)


def _actions(
    query: Query, training: Training, used: Bool[np.ndarray, " n"], rng_key: PRNGKeyArray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Logged actions, the policy in each state, and the number of outputs of the network."""
    logs, candidates = query.logs, {"policy": query.policy}
    onward = query.gamma > 0.0
    if not logs.vector_actions:
        aligned = align_policies(logs, candidates, needs_successors=onward)
        codes = aligned.codes(logs)[logs.action[used]].astype(np.int32)
        return codes, aligned.probabilities[0], len(aligned.actions)
    needed = needed_states(logs, needs_successors=onward)
    width, n_draws = logs.action_labels.shape[1], training.action_draws
    sampled = sample_actions(
        align_continuous(logs, candidates), logs.state_labels, needed, n_draws, width, rng_key
    )
    drawn = np.zeros((n_draws, len(needed), width))
    drawn[:, sampled.rows] = sampled.action[0]
    logged = logs.action_labels[logs.action[used]]
    center, sd = logged.mean(axis=0), logged.std(axis=0)
    sd = np.where(sd > 0.0, sd, 1.0)
    return (logged - center) / sd, (drawn - center) / sd, 1


@partial(jax.jit, static_argnames=("training", "n_outputs", "relative"))
def train(
    table: PaddedLog, rng_key: Array, *, training: Training, n_outputs: int, relative: bool
) -> Trained:
    """Run the loop; compiled once for the settings and each padded shape."""
    schedule = optax.cosine_decay_schedule(training.learning_rate, training.refits * training.steps)
    optimizer = optax.adam(schedule)

    def loss(network: QNetwork, targets: Array, rows: Array) -> Array:
        # Targets are of all rows, so a step only looks them up.
        return jnp.mean((network.of_rows(table, rows) - targets[rows]) ** 2)

    def adam(carry: Any, key: Array, targets: Array) -> tuple[Any, None]:
        network, state = carry
        rows = jax.random.randint(key, (training.batch,), 0, table.n)
        gradient = jax.grad(loss)(network, targets, rows)
        updates, state = optimizer.update(gradient, state, network)
        return (optax.apply_updates(network, updates), state), None

    def refit(carry: Any, key: Array) -> tuple[Any, Array]:
        network, state, at_state, level = carry
        after = 0.0 if relative else table.absorbed / (1.0 - table.gamma)
        onward = (at_state - level)[table.following]
        targets = table.reward + table.gamma * (table.onward * onward + table.ended * after)
        (network, state), _ = jax.lax.scan(
            partial(adam, targets=targets), (network, state), jax.random.split(key, training.steps)
        )
        at_state = network.of_states(table)
        at_start = table.start @ at_state
        level = at_start if relative else 0.0
        value = at_start if relative else (1.0 - table.gamma) * at_start
        return (network, state, at_state, level), value

    key_start, key_loop = jax.random.split(rng_key)
    network = QNetwork.initial(table, training.width, n_outputs, key_start)
    carry: Any = (network, optimizer.init(network), network.of_states(table), 0.0)
    (network, _, _, level), values = jax.lax.scan(
        refit, carry, jax.random.split(key_loop, training.refits)
    )
    return Trained(jnp.mean(values[-(training.refits // 4) :]), network, level)


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
