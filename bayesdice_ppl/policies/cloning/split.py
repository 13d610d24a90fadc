"""Folds of a log: groups of whole episodes, each of which is held out once.

The rows of an episode hang together through its states, so that a row held out alone would have
near neighbors in what the clone was fitted to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.logs.logs import Logs

if TYPE_CHECKING:
    from jaxtyping import Array


@final
class Folds(NamedTuple):
    """Which rows are held out together.

    Attributes
    ----------
    of_row
        Fold of each row, 0 to K - 1, shape (n,).
    unit
        Group of rows within which they are not told apart: the episode of each row, or its block
        of consecutive rows where there are fewer episodes than folds; shape (n,), 0 to m' - 1.
    n_folds
        K.
    whole_episodes
        Whether units are episodes.
    """

    of_row: Int[np.ndarray, " n"]
    unit: Int[np.ndarray, " n"]
    n_folds: int
    whole_episodes: bool

    def held_out(self, parts: list[Float[np.ndarray, "n *k"]]) -> Float[np.ndarray, "n *k"]:
        """Of K arrays, one from each fold's fit, the rows that this fit has not seen."""
        return np.stack(parts)[self.of_row, np.arange(len(self.of_row))]


def split_episodes(logs: Logs, count: int, rng_key: Array) -> Folds:
    """Deal the episodes out to folds, at random.

    Parameters
    ----------
    logs
        The log.
    count
        Folds, K.
    rng_key
        A JAX key for the order in which episodes are dealt.
    """
    whole = logs.n_episodes >= count
    n = logs.n_transitions
    unit = logs.episode if whole else np.arange(n) * (2 * count) // n
    m = logs.n_episodes if whole else 2 * count
    order = np.random.default_rng(seed_sequence(rng_key)).permutation(m)
    fold = np.empty(m, dtype=np.int64)
    # Blocks are dealt in their order: neighbors in different folds, and every fold early and late.
    fold[order if whole else np.arange(m)] = np.arange(m) % count
    return Folds(fold[unit], unit, count, whole)


def mean_and_error(
    values: Float[np.ndarray, " n"], unit: Int[np.ndarray, " n"]
) -> tuple[float, float]:
    """Mean over rows, and its standard error where the rows of a unit hang together.

    Notes
    -----
    The linearized error of a ratio of sums over m units, sum of values to number of rows, with the
    factor m / (m - 1).
    """
    mean = float(np.mean(values))
    within = np.bincount(unit, values - mean)
    m = len(within)
    return mean, float(np.sqrt(m / (m - 1.0) * np.sum(within**2)) / len(values))
