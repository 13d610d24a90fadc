"""The log as counts of transitions with the same pair, successor and termination.

Such transitions differ only in their reward. They are counted in one cell, with the first two
moments of the reward. The constraint needs no more, and a fit costs the same for a thousand
transitions as for a million.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import library_of
from bayesdice_ppl.codes import combined, distinct
from bayesdice_ppl.logs import CountedLogs, Logs
from bayesdice_ppl.moments.pairs import LoggedPairs

FEWEST_CELLS, FEWEST_STARTS = 64, 8
"""Fewer cells, or distinct start states, than these are padded to as many."""


class Cells(NamedTuple):
    """The log without any policy: transitions counted by pair, successor and termination.

    The arrays are NumPy's on the host and JAX's inside a compiled function.

    Attributes
    ----------
    pair, successor
        Codes of each cell, shape (C,). The successor of a terminated cell is not read.
    terminated
        1 where the cell's transitions ended an episode, shape (C,).
    count, reward_sum, reward_square_sum
        Number of transitions, and the sums of sigma(r) and of its square, shape (C,).
    episode
        Episode of each cell, shape (C,), if cells are kept apart by episode, else zeros.
    pair_state, pair_action
        Codes of each pair, shape (P,).
    initial_state, initial_weight
        States in which episodes start and their share of the episodes, shape (E,). If cells are
        kept apart by episode, entry e belongs to episode e.
    n_transitions, n_episodes
        n and m, scalars.
    absorbed_reward
        sigma(0), the reward after an absorbing termination, scalar.
    pair_features
        Test features of each pair, shape (P, d); None: one-hot over the pairs.
    basis
        Features of the ratio at each pair, shape (P, K), the first of them constant; None: a
        weight for each pair.
    coordinates
        What the features look at, as numbers of each pair, shape (P, q): vectors less their mean
        over their sd, labels as indicators. For models that make features of their own; None for
        linear ones and with one-hot features.
    """

    pair: Int[Any, " C"]
    successor: Int[Any, " C"]
    terminated: Float[Any, " C"]
    count: Float[Any, " C"]
    reward_sum: Float[Any, " C"]
    reward_square_sum: Float[Any, " C"]
    episode: Int[Any, " C"]
    pair_state: Int[Any, " P"]
    pair_action: Int[Any, " P"]
    initial_state: Int[Any, " E"]
    initial_weight: Float[Any, " E"]
    n_transitions: Float[Any, ""]
    n_episodes: Float[Any, ""]
    absorbed_reward: Float[Any, ""]
    pair_features: Float[Any, "P d"] | None = None
    basis: Float[Any, "P K"] | None = None
    coordinates: Float[Any, "P q"] | None = None


def count_cells(
    logs: Logs,
    pairs: LoggedPairs,
    mask: Bool[np.ndarray, " n"],
    gamma: float,
    *,
    by_episode: bool = False,
) -> tuple[Cells, Int[np.ndarray, " n"]]:
    """Count the usable transitions of a log.

    Parameters
    ----------
    logs
        The logged transitions.
    pairs
        Its pairs, from `bayesdice_ppl.moments.logged_pairs`, for the same rows.
    mask
        The rows that are used, from `bayesdice_ppl.logs.usable_rows`, shape (n,).
    gamma
        Discount; at 0 the successor is not read.
    by_episode
        Keep the cells of each episode apart, so that episodes can be the independent unit.

    Returns
    -------
    (Cells, array)
        The cells, as NumPy arrays in float64, and the cell of each row that is used, shape (n,).
    """
    ended = logs.terminated[mask] & (gamma > 0.0)
    successor = np.where(ended | (gamma == 0.0), 0, logs.next_state[mask])
    episode = logs.episode[mask] if by_episode else np.zeros(int(mask.sum()), dtype=np.int64)
    reward = logs.reward[mask]
    keys, cell = combined(pairs.of_row, successor, ended.astype(np.int64), episode)
    if by_episode:
        initial = logs.initial_state
        weight = np.full(len(initial), 1.0 / len(initial))
    else:
        initial, start = distinct(logs.initial_state)
        weight = np.bincount(start) / len(start)
    cells = Cells(
        pair=keys[0],
        successor=keys[1],
        terminated=keys[2].astype(np.float64),
        count=np.bincount(cell).astype(np.float64),
        reward_sum=np.bincount(cell, reward),
        reward_square_sum=np.bincount(cell, reward**2),
        episode=keys[3],
        pair_state=pairs.state,
        pair_action=pairs.action,
        initial_state=initial,
        initial_weight=weight,
        n_transitions=np.float64(mask.sum()),
        n_episodes=np.float64(logs.n_episodes),
        absorbed_reward=np.float64(0.0),
    )
    return cells, cell


def count_lines(
    logs: CountedLogs, pairs: LoggedPairs, mask: Bool[np.ndarray, " K"], gamma: float
) -> tuple[Cells, Int[np.ndarray, " K"]]:
    """`count_cells` of a log that was counted where it lies.

    Parameters
    ----------
    logs
        The counted log.
    pairs
        Its pairs; ``of_row`` is of its lines.
    mask
        The lines that are used, from `bayesdice_ppl.logs.usable_rows`, shape (K,).
    gamma
        Discount; at 0 the successor is not read.

    Returns
    -------
    (Cells, array)
        The cells, and the cell of each line that is used.
    """
    ended = logs.terminated[mask] & (gamma > 0.0)
    successor = np.where(ended | (gamma == 0.0), 0, logs.next_state[mask])
    none = np.zeros(len(ended), dtype=np.int64)
    keys, cell = combined(pairs.of_row, successor, ended.astype(np.int64), none)
    first, second = (sums[mask] for sums in logs.sums()[:2])
    started = logs.starts > 0.0
    initial, start = distinct(logs.state[started])
    weight = np.bincount(start, logs.starts[started]) / logs.n_episodes
    count = logs.count[mask]
    cells = Cells(
        pair=keys[0],
        successor=keys[1],
        terminated=keys[2].astype(np.float64),
        count=np.bincount(cell, count),
        reward_sum=np.bincount(cell, first),
        reward_square_sum=np.bincount(cell, second),
        episode=keys[3],
        pair_state=pairs.state,
        pair_action=pairs.action,
        initial_state=initial,
        initial_weight=weight,
        n_transitions=np.float64(count.sum()),
        n_episodes=np.float64(logs.n_episodes),
        absorbed_reward=np.float64(0.0),
    )
    return cells, cell


def round_size(size: int) -> int:
    """Round a size up, by at most a quarter, to one of few: four for each power of two."""
    step = max(2 ** (size.bit_length() - 3), 1)
    return size + -size % step


def pad_cells(cells: Cells, *, by_episode: bool = False) -> Cells:
    """Add empty cells and starts, so that logs of one world have few different shapes.

    Compiled functions then serve the next log too. An empty cell has a count of 0 and terminates,
    so that it has no successor. An added start has a weight of 0, and is the first one again.

    Parameters
    ----------
    cells
        The log.
    by_episode
        Whether cells are kept apart by episode: each start is then an episode's own, and none is
        added.
    """
    n_cells, n_starts = len(cells.count), len(cells.initial_state)
    more_cells = round_size(max(n_cells, FEWEST_CELLS)) - n_cells
    more_starts = 0 if by_episode else round_size(max(n_starts, FEWEST_STARTS)) - n_starts

    def padded(values: Any, fill: float, extra: int = more_cells) -> Any:
        return np.append(values, np.full(extra, fill, dtype=values.dtype))

    return cells._replace(
        pair=padded(cells.pair, 0),
        successor=padded(cells.successor, 0),
        terminated=padded(cells.terminated, 1.0),
        count=padded(cells.count, 0.0),
        reward_sum=padded(cells.reward_sum, 0.0),
        reward_square_sum=padded(cells.reward_square_sum, 0.0),
        episode=padded(cells.episode, 0),
        initial_state=padded(cells.initial_state, cells.initial_state[0], more_starts),
        initial_weight=padded(cells.initial_weight, 0.0, more_starts),
    )


class TransformedRewards(NamedTuple):
    """Transformed rewards of each of J entries, in place of the log's own.

    Attributes
    ----------
    by_row
        sigma_j(r_i) of each transition that is used, shape (J, n).
    cell
        The cell of each transition, shape (n,).
    total, square
        Sums over each cell of sigma_j(r) and of its square, shape (J, C).
    absorbed
        sigma_j(0), shape (J,).
    """

    by_row: Float[Any, "J n"]
    cell: Int[Any, " n"]
    total: Float[Any, "J C"]
    square: Float[Any, "J C"]
    absorbed: Float[Any, " J"]


def transformed_rewards(
    by_row: Float[np.ndarray, "J n"],
    absorbed: Float[np.ndarray, " J"],
    cell: Int[np.ndarray, " n"],
    n_cells: int,
) -> TransformedRewards:
    """Count transformed rewards into cells.

    Parameters
    ----------
    by_row
        sigma_j(r_i) of each transition that is used, shape (J, n).
    absorbed
        sigma_j(0), shape (J,).
    cell
        The cell of each transition, from `count_cells`, shape (n,).
    n_cells
        C.
    """
    total = np.stack([np.bincount(cell, row, minlength=n_cells) for row in by_row])
    square = np.stack([np.bincount(cell, row**2, minlength=n_cells) for row in by_row])
    return TransformedRewards(by_row, cell, total, square, absorbed)


def with_rewards(cells: Cells, rewards: TransformedRewards | None) -> Cells:
    """The log with the rewards of one entry; its fields lack the first axis."""
    if rewards is None:
        return cells
    return cells._replace(
        reward_sum=rewards.total,
        reward_square_sum=rewards.square,
        absorbed_reward=rewards.absorbed,
    )


def reward_moments(cells: Cells) -> tuple[Float[Any, ""], Float[Any, ""]]:
    """Mean and standard deviation of the logged sigma(r)."""
    mean = cells.reward_sum.sum() / cells.n_transitions
    square = cells.reward_square_sum.sum() / cells.n_transitions
    xp = library_of(square)
    return mean, xp.sqrt(xp.maximum(square - mean**2, 0.0))
