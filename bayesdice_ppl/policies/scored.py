"""Candidates made of scores: softmax and epsilon-greedy over action values.

What was learned is often a score of each action, a Q-value or a model's logits, and the policy is a
rule on top of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.checks import is_number
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies.asking import number_array, plain_array
from bayesdice_ppl.policies.interface import Policy
from bayesdice_ppl.policies.named_columns import by_label, column_labels, row_labels, unnamed
from bayesdice_ppl.policies.tabular import TabularPolicy

type Scores = Callable[[Any], Any]


@final
@dataclass(frozen=True)
class ScoredPolicy:
    """A policy that is a rule over scores of the actions.

    Parameters
    ----------
    scores
        Function of states, (batch,) or (batch, p), to scores, (batch, A).
    rule
        From scores to probabilities, both (batch, A).
    words
        What it is, for reports.
    """

    scores: Scores
    rule: Callable[[Float[np.ndarray, "batch A"]], Float[np.ndarray, "batch A"]]
    words: str

    def probs(self, obs: Any) -> Float[np.ndarray, "batch A"]:
        """Probabilities of the actions in the states ``obs``, shape (batch, A)."""
        return self.rule(_checked(unnamed(self.scores(obs), "scores"), len(obs)))

    def __repr__(self) -> str:
        return self.words


def softmax(
    scores: Any, temperature: float = 1.0, *, states: Any = None, actions: Any = None
) -> Policy:
    """The policy that takes actions in proportion to exp(score / temperature).

    Parameters
    ----------
    scores
        A function of states to scores, (batch, A); or a table of them, (S, A).
    temperature
        Above 0; towards 0 it takes the best action alone.
    states, actions
        Labels of a table's rows and columns, as for `TabularPolicy`.

    Raises
    ------
    PoliciesError
        The temperature is not above 0, or scores are not finite.
    """
    if not is_number(temperature) or temperature <= 0.0:
        raise PoliciesError(f"softmax: expected a temperature above 0, found {temperature!r}.")

    def rule(found: Float[np.ndarray, "batch A"]) -> Float[np.ndarray, "batch A"]:
        weight = np.exp((found - found.max(axis=1, keepdims=True)) / temperature)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    return _policy(scores, rule, f"softmax(temperature={temperature:g})", states, actions)


def epsilon_greedy(
    scores: Any, epsilon: float, *, states: Any = None, actions: Any = None
) -> Policy:
    """The policy that takes the best action, and with probability epsilon any one.

    Parameters
    ----------
    scores
        A function of states to scores, (batch, A); or a table of them, (S, A). Actions of the same
        score share its probability.
    epsilon
        In [0, 1]: the probability of an action that is drawn uniformly.
    states, actions
        Labels of a table's rows and columns, as for `TabularPolicy`.

    Raises
    ------
    PoliciesError
        Epsilon is out of range, or scores are not finite.
    """
    if not is_number(epsilon) or not 0.0 <= epsilon <= 1.0:
        raise PoliciesError(f"epsilon_greedy: expected an epsilon in [0, 1], found {epsilon!r}.")

    def rule(found: Float[np.ndarray, "batch A"]) -> Float[np.ndarray, "batch A"]:
        best = found == found.max(axis=1, keepdims=True)
        greedy = best / best.sum(axis=1, keepdims=True)
        return np.asarray((1.0 - epsilon) * greedy + epsilon / found.shape[1])

    return _policy(scores, rule, f"epsilon_greedy({epsilon:g})", states, actions)


def _policy(
    scores: Any,
    rule: Callable[[np.ndarray], np.ndarray],
    words: str,
    states: Any,
    actions: Any,
) -> Policy:
    if callable(scores):
        if states is not None or actions is not None:
            raise PoliciesError(
                f"{words}: expected labels beside a table of scores alone, found them beside a "
                "function. Declare the actions when you read the log: actions=[...]."
            )
        return ScoredPolicy(scores, rule, words)
    columns = column_labels(scores)
    if columns is not None:
        # A table has its own labels, where none are given.
        states = row_labels(scores) if states is None else states
        wanted = columns if actions is None else list(actions)
        scores, actions = by_label(scores, wanted, f"{words}: scores"), wanted
    table = number_array(plain_array(scores), f"{words}: scores")
    if table.ndim != 2:
        raise PoliciesError(
            f"{words}: expected scores of shape (states, actions), found shape {table.shape}."
        )
    return TabularPolicy(rule(_checked(table, len(table))), states, actions)


def _checked(given: Any, n_states: int) -> Float[np.ndarray, "batch A"]:
    found = number_array(plain_array(given), "scores")
    if found.ndim != 2 or len(found) != n_states or found.shape[1] == 0:
        raise PoliciesError(
            f"scores: expected shape ({n_states}, actions), a row for each state, found "
            f"{found.shape}."
        )
    if not np.isfinite(found).all():
        raise PoliciesError("scores: expected finite numbers, found NaN or infinity.")
    return found
