"""Rankings that differ from a given one by a single move, many at a time.

All moves are of one kind. A ranking is written with the policies that it does not list at its end,
in order of preference. The policy at position q goes to place p; the one at x makes room and takes
its position; those between p and x move by one. With x = p that is a swap, or a replacement if q is
past the listed places; with x = q it is an insertion.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.scores.forms import ROUNDING, Form
from bayesdice_ppl.selection.rules import Rules

# Points of the sequence for each block exchange wanted: some are too small, or there already.
_POINTS = 16
# Indices in the neighbors of a ranking, above which they are too many to list.
_MOST_INDICES = 20_000_000


@final
class Moves(NamedTuple):
    """Single moves of a ranking of `depth` listed policies, as positions that count from 0.

    Attributes
    ----------
    place : Int[ndarray, "K"]
        Place that is filled anew: p < depth.
    source : Int[ndarray, "K"]
        Position of the policy that fills it: q, listed if q < depth.
    gap : Int[ndarray, "K"]
        Position of the policy that makes room: x, q itself or a listed one.
    """

    place: Int[np.ndarray, " K"]
    source: Int[np.ndarray, " K"]
    gap: Int[np.ndarray, " K"]


def neighborhood(n_policies: int, depth: int, *, ordered: bool) -> Moves:
    """List the moves of a local search.

    Parameters
    ----------
    n_policies : int
        N.
    depth : int
        How many policies a ranking lists, at most N.
    ordered : bool
        Whether their order matters.

    Returns
    -------
    Moves
        Each listed policy replaced by each unlisted one, those of the preferred first: depth (N -
        depth). Where order matters, also each unlisted one inserted at each place while the last
        is dropped, each two places swapped, and each policy inserted at each other place.
    """
    unlisted, place = (a.ravel() for a in np.mgrid[depth:n_policies, :depth])
    parts = [(place, unlisted, place)]
    if ordered:
        shifting = place < depth - 1
        parts.append((place[shifting], unlisted[shifting], np.full(shifting.sum(), depth - 1)))
        low, high = np.triu_indices(depth, 1)
        parts.append((low, high, low))
        # To the next place is a swap.
        far = high - low > 1
        parts += [(low[far], high[far], high[far]), (high[far], low[far], low[far])]
    return Moves(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def extended(rankings: Int[np.ndarray, "R depth"], n_policies: int) -> Int[np.ndarray, "R N"]:
    """Append the policies that each ranking leaves out, the preferred, of lower index, first."""
    left_out = np.ones((len(rankings), n_policies), bool)
    np.put_along_axis(left_out, rankings, False, axis=1)
    rest = np.nonzero(left_out)[1].reshape(len(rankings), -1)
    return np.concatenate([rankings, rest], axis=1)


def moved(whole: Int[np.ndarray, "R N"], moves: Moves, depth: int) -> Int[np.ndarray, "R depth"]:
    """Make one move in each ranking.

    Parameters
    ----------
    whole : Int[ndarray, "R N"]
        Rankings with the unlisted policies at the end: see `extended`.
    moves : Moves
        R moves, the first for the first ranking; or K moves of a single ranking.
    depth : int
        How many policies are listed.

    Returns
    -------
    Int[ndarray, "R depth"]
        The rankings after the moves.
    """
    place, source, gap = (column[:, None] for column in moves)
    position = np.arange(depth)
    origin = np.where(position == source, gap, position)
    origin = np.where((place < position) & (position <= gap), position - 1, origin)
    origin = np.where((gap <= position) & (position < place), position + 1, origin)
    origin = np.where(position == place, source, origin)
    return np.take_along_axis(whole, origin, axis=1)


def best_neighbor(
    form: Form, prefix: tuple[int, ...], rules: Rules, *, ordered: bool
) -> list[tuple[int, ...]]:
    """Find the best launch that differs by one move, where all can be listed.

    Parameters
    ----------
    form : Form
        The expected loss.
    prefix : tuple of int
        What it differs from; all of it is launched.
    rules : Rules
        Which launches are allowed.
    ordered : bool
        Whether the order of the policies matters; where not, rows are sorted.

    Returns
    -------
    list of tuple of int
        One, or none. Of equals the lexicographically first.
    """
    n_policies, depth = len(rules.cost), len(prefix)
    n_moves = depth * (n_policies - depth) * (1 + ordered) + ordered * depth**2
    if n_moves * depth > _MOST_INDICES:
        return []
    moves = neighborhood(n_policies, depth, ordered=ordered)
    whole = extended(np.array([prefix]), n_policies)
    rows = moved(np.broadcast_to(whole, (len(moves.place), n_policies)), moves, depth)
    rows = rows if ordered else np.sort(rows, axis=1)
    rows = rows[rules.allow(rows)]
    if not len(rows):
        return []
    losses = form.losses(rows)
    best = first_lowest(rows, losses, ROUNDING * max(1.0, float(np.abs(losses).max())))
    return [tuple(rows[best].tolist())]


def first_lowest(
    rows: Int[np.ndarray, "R depth"], losses: Float[np.ndarray, " R"], tolerance: float
) -> int:
    """Give the index of the lowest loss, and of the lexicographically first row among equals."""
    lowest = np.flatnonzero(losses <= losses.min() + tolerance)
    return int(lowest[0] if len(lowest) == 1 else lowest[np.lexsort(rows[lowest].T[::-1])[0]])


def kicked(
    ranking: Int[np.ndarray, " depth"], n_policies: int, most: int, *, ordered: bool
) -> Int[np.ndarray, "R depth"]:
    """Change a ranking by more than one move could undo: let two adjacent blocks change places.

    Blocks of listed and unlisted policies count alike, so that a block from the end trades several
    policies at once. A Halton sequence picks the blocks: evenly spread, however many are taken, and
    the same every time.

    Parameters
    ----------
    ranking : Int[ndarray, "depth"]
        Listed policies.
    n_policies : int
        N.
    most : int
        Largest number of rankings to give.
    ordered : bool
        Whether order matters; where not, at least two policies are traded, and rows are sorted.

    Returns
    -------
    Int[ndarray, "R depth"]
        Different rankings, R at most `most`.
    """
    from scipy.stats.qmc import Halton

    depth = len(ranking)
    points = Halton(3, scramble=False).random(_POINTS * most)
    if depth == n_policies:
        first, middle, end = np.sort((points * (n_policies + 1)).astype(int), axis=1).T
    else:
        first = (points[:, 0] * depth).astype(int)
        behind = np.sort(points[:, 1:], axis=1) * (n_policies - first)[:, None]
        middle, end = (first[:, None] + 1 + behind.astype(int)).T
    position = np.arange(depth)
    a, b, c = first[:, None], middle[:, None], end[:, None]
    shift = np.where(position < a + c - b, b - a, b - c)
    origin = np.where((a <= position) & (position < c), position + shift, position)
    far = (origin >= depth).sum(axis=1) > 1
    if ordered:
        far |= (np.minimum(middle - first, end - middle) > 1) & (first < depth - 1)
    rows = extended(ranking[None], n_policies)[0][origin[far]]
    rows = rows if ordered else np.sort(rows, axis=1)
    distinct = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    return rows[distinct[:most]]
