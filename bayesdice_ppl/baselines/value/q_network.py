"""The small Q network of fitted Q evaluation: two hidden layers of ReLUs, and an output per action.

Labels enter one-hot, which selects a row of the first layer's weights. Actions that are vectors
enter the first layer beside the state, and there is one output.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


@final
class PaddedLog(NamedTuple):
    """A log and a policy as the training loop reads them, padded.

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

    @property
    def vector_actions(self) -> bool:
        """Whether actions are vectors."""
        return bool(self.action.ndim == 2)


@final
class QNetwork(eqx.Module):
    """Weights and biases of the network, of h units in each hidden layer and K outputs."""

    state: Float[Array, "p h"]
    action: Float[Array, "q h"] | None
    hidden: Float[Array, "h h"]
    output: Float[Array, "h K"]
    biases: tuple[Float[Array, " h"], Float[Array, " h"], Float[Array, " K"]]

    @classmethod
    def initial(cls, table: PaddedLog, width: int, n_outputs: int, rng_key: Array) -> QNetwork:
        """Draw weights by He's rule; the last layer starts at 0, and so does Q."""
        labels = table.inputs is None
        n_state = table.start.shape[0] if table.inputs is None else table.inputs.shape[1]
        n_action = table.action.shape[1] if table.vector_actions else 0
        # Of one-hot inputs one is 1, of standardized ones all are about 1.
        first = jnp.sqrt(2.0 / ((1 if labels else n_state) + n_action))
        keys = jax.random.split(rng_key, 3)
        action = jax.random.normal(keys[2], (n_action, width)) * first if n_action else None
        return cls(
            state=jax.random.normal(keys[0], (n_state, width)) * first,
            action=action,
            hidden=jax.random.normal(keys[1], (width, width)) * jnp.sqrt(2.0 / width),
            output=jnp.zeros((width, n_outputs)),
            biases=(jnp.zeros(width), jnp.zeros(width), jnp.zeros(n_outputs)),
        )

    def of_rows(self, table: PaddedLog, rows: Array) -> Float[Array, " b"]:
        """Q of logged rows."""
        state = table.state[rows]
        first = self.state[state] if table.inputs is None else table.inputs[state] @ self.state
        if self.action is not None:
            return self._outputs(first + table.action[rows] @ self.action)[:, 0]
        outputs = self._outputs(first)
        return jnp.take_along_axis(outputs, table.action[rows][:, None], axis=1)[:, 0]

    def of_states(self, table: PaddedLog) -> Float[Array, " S"]:
        """V of every state under the policy."""
        first = self._first(table)
        if self.action is not None:
            each = self._outputs(first + table.policy @ self.action)
            return jnp.mean(each[..., 0], axis=0)
        return jnp.sum(table.policy * self._outputs(first), axis=1)

    def features(self, table: PaddedLog) -> tuple[Float[Array, "C h"], Float[Array, "S h"]]:
        """Outputs of the second hidden layer; the network is linear in them.

        Returns
        -------
        logged
            Where actions are labels, by state, (S', h); where they are vectors, by row, (n', h).
        at_state
            By state, (S', h): the same, or the mean over the policy's draws.
        """
        first = self._first(table)
        if self.action is None:
            logged = self._hidden(first)
            return logged, logged
        rows = first[table.state] + table.action @ self.action
        drawn = self._hidden(first + table.policy @ self.action)
        return self._hidden(rows), jnp.mean(drawn, axis=0)

    def _first(self, table: PaddedLog) -> Float[Array, "S h"]:
        """The first layer's sums, of every state."""
        return self.state if table.inputs is None else table.inputs @ self.state

    def _hidden(self, first: Float[Array, "... h"]) -> Float[Array, "... h"]:
        """From the first layer's sums to the second layer's outputs."""
        one, two, _ = self.biases
        return jax.nn.relu(jax.nn.relu(first + one) @ self.hidden + two)

    def _outputs(self, first: Float[Array, "... h"]) -> Float[Array, "... K"]:
        """From the first layer's sums to the outputs."""
        return self._hidden(first) @ self.output + self.biases[2]


hidden_features = jax.jit(QNetwork.features)
"""`QNetwork.features`, compiled."""
