"""Clones on label states: counts of labels, and a Gaussian for each state.

Labels have no coordinates, so states teach nothing about each other but the spread of the whole
log.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies.cloning.gaussians import Gaussians
from bayesdice_ppl.policies.logging_policy import action_frequencies


def held_out_shares(
    state: Int[np.ndarray, " n"],
    action: Int[np.ndarray, " n"],
    shape: tuple[int, int],
    train: Bool[np.ndarray, " n"],
) -> Float[np.ndarray, "S A"]:
    """Shares of actions by state in some rows, with one made-up visit to each state.

    The visit has the shares of the whole log, so that no logged action has probability 0:
    (n_sa + share_a) / (n_s + 1).
    """
    overall = np.bincount(action, minlength=shape[1]) / len(action)
    seen = np.zeros(shape)
    np.add.at(seen, (state[train], action[train]), 1.0)
    return (seen + overall) / (seen.sum(axis=1, keepdims=True) + 1.0)


def counted_shares(
    state: Int[np.ndarray, " n"], action: Int[np.ndarray, " n"], shape: tuple[int, int]
) -> Float[np.ndarray, "S A"]:
    """Shares n_sa / n_s of the whole log, zero in states without an action."""
    return action_frequencies(state, action, shape)


@final
class GaussianTable(NamedTuple):
    """A Gaussian for each of S states.

    Attributes
    ----------
    mean, sd
        Shape (S, q).
    """

    mean: Float[np.ndarray, "S q"]
    sd: Float[np.ndarray, "S q"]

    def at(self, state: Int[np.ndarray, " b"]) -> Gaussians:
        """The Gaussians of some states, by code."""
        return Gaussians(
            np.zeros((len(state), 1)), self.mean[state][:, None], self.sd[state][:, None]
        )


def fit_gaussian_table(
    state: Int[np.ndarray, " n"],
    action: Float[np.ndarray, "n q"],
    n_states: int,
    train: Bool[np.ndarray, " n"],
) -> GaussianTable:
    """Means and standard deviations of the actions of each state, in some rows.

    Notes
    -----
    Few visits leave a mean and a spread open. So means are drawn to that of all rows by k visits, k
    the variance within states over that between them, and variances to the pooled one by two::

        mean_s = ybar + n_s / (n_s + k) (ybar_s - ybar)
        var_s  = (SS_s + 2 pool) / (max(n_s, 1) + 1) (1 + 1 / (n_s + k))

    The last factor is the doubt about the mean. A state without visits has the mean of all rows and
    the variance within and between states. Both go to the state's own as visits grow.
    """
    at, y = state[train], action[train]
    count = np.bincount(at, minlength=n_states).astype(np.float64)
    visited = count > 0.0
    total = np.stack([np.bincount(at, each, minlength=n_states) for each in y.T], axis=1)
    own = total / np.maximum(count, 1.0)[:, None]
    squares = (y - own[at]) ** 2
    within = np.stack([np.bincount(at, each, minlength=n_states) for each in squares.T], axis=1)
    freedom = np.sum(count[visited] - 1.0)
    level = y.mean(axis=0)
    spread = np.sum((y - level) ** 2, axis=0)
    pool = np.sum(within, axis=0) / freedom if freedom > 0.0 else spread / max(len(y) - 1, 1)
    # Moments: the sum of squares between states holds (visited - 1) pool and what states add.
    between = (spread - within.sum(axis=0) - (np.sum(visited) - 1.0) * pool) / max(
        len(y) - np.sum(count**2) / len(y), 1.0
    )
    between = np.maximum(between, 1e-6 * pool)
    prior = pool / between
    visits = count[:, None] + prior
    mean = level + count[:, None] / visits * (own - level)
    variance = (within + 2.0 * pool) / (np.maximum(count, 1.0) + 1.0)[:, None]
    return GaussianTable(mean, np.sqrt(variance * (1.0 + 1.0 / visits)))


@final
class StateCodes:
    """From the labels of states to their codes."""

    __slots__ = ("_code",)

    def __init__(self, labels: Shaped[np.ndarray, " S"]) -> None:
        self._code = {label: code for code, label in enumerate(labels.tolist())}

    def __call__(self, obs: Any) -> Int[np.ndarray, " b"]:
        """Codes of states.

        Raises
        ------
        PoliciesError
            A state is not in the log.
        """
        codes = []
        for label in np.asarray(obs).tolist():
            if label not in self._code:
                raise PoliciesError(
                    f"obs: expected a state of the log that was cloned, found {label!r}. A clone "
                    "knows no others."
                )
            codes.append(self._code[label])
        return np.array(codes, dtype=np.int64)
