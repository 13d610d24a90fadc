"""Search for a good ranking where none can be proven best: a beam, then local search.

A beam search fills the places of the ranking one after the other. From what it finds, and from
rankings that the caller gives, single moves (swap, insert, replace) are made for as long as one
lowers the loss. Then the best of the results are changed by more than one move at a time, to see
whether climbing from there ends lower (iterated local search; Lourenço, Martin and Stützle 2003).
Nothing is drawn at random: the same problem has the same answer.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Int

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.scores.score import Objective
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.found import Found
from bayesdice_ppl.selection.solvers.judge import Judge
from bayesdice_ppl.selection.solvers.neighbors import (
    Moves,
    extended,
    first_lowest,
    kicked,
    moved,
    neighborhood,
)

BATCH = 512
BEAM_WIDTH = 8
KICKS = 64
# Share of the evaluations that the beam may take.
_BEAM_SHARE = 0.25
# Changed rankings that are climbed from side by side, so that their neighbors fill a batch.
_ABREAST = 8


def improve(
    objective: Objective,
    n_policies: int,
    depth: int,
    rules: Rules,
    starts: Int[np.ndarray, "S depth"],
    *,
    ordered: bool,
    launches: int,
    max_evaluations: int,
    scale: float = 0.0,
    batch: int = BATCH,
    beam_width: int = BEAM_WIDTH,
    kicks: int = KICKS,
) -> Found:
    """Look for the ranking of lowest loss by beam search and local search.

    Policies are numbered in order of preference, 0 first: among rankings of equal loss the one
    wins that is first in lexicographic order, as far as it was seen.

    Parameters
    ----------
    objective : callable
        Takes rankings, Int (R, depth), rows of distinct policies that the rules allow, and gives
        their losses, Float (R,), finite, lower is better.
    n_policies : int
        N.
    depth : int
        How many places of a ranking the loss depends on, at most N.
    rules : Rules
        What the policies in the first `launches` places have to meet.
    starts : Int[ndarray, "S depth"]
        Rankings to begin from, at least one, all allowed; the first is also what the beam
        completes its partial rankings from.
    ordered : bool
        Whether the order of the places matters. Where not, rows are sorted, and `launches` has to
        be `depth`.
    launches : int
        How many of the first places are launched, at most `depth`.
    max_evaluations : int
        Most rankings to judge, at least 1. It is never exceeded.
    scale : float
        Size that losses are rounded at (see `Score.loss_scale`), if it is larger than they are.
    batch : int
        Most rankings to judge in one call of the objective.
    beam_width : int
        How many partial rankings the beam keeps; fewer, or none, where they would take more than
        a quarter of the evaluations.
    kicks : int
        How many changes by more than one move have to fail in a row before the search ends.

    Returns
    -------
    Found
        Without a bound; the runner-up is the best other ranking, or set, that was seen.
        `evaluated` is `max_evaluations` if the search used them up.

    Raises
    ------
    ScoreError
        A start is not allowed, or the objective returns something of another shape or a loss that
        is not finite.
    """
    if not ordered and launches != depth:
        raise ScoreError(
            f"launches: expected {depth}, as a set is launched as a whole, found {launches}."
        )
    starts = np.asarray(starts, np.intp)
    refused = ~rules.allow(starts[:, :launches])
    if refused.any() or not len(starts):
        raise ScoreError(
            f"starts: expected rankings that the rules allow, at least one, found {len(starts)}, "
            f"of which {refused.sum()} break a rule."
        )
    judge = Judge(objective, rules, depth, launches, ordered, max_evaluations, scale, batch)
    moves = neighborhood(n_policies, depth, ordered=ordered)
    explored: set[bytes] = set()
    optima = _climb(
        judge, moves, np.concatenate([starts, _beam(judge, starts[0], beam_width)]), explored
    )
    patience = kicks
    while optima and patience > 0 and not judge.spent:
        # The best that was not yet kicked, the lexicographically first of equals.
        optima.sort(key=lambda optimum: (optimum.loss, tuple(optimum.row)), reverse=True)
        changed = kicked(optima.pop().row, n_policies, patience, ordered=ordered)
        best = tuple(judge.best[0])
        for first in range(0, len(changed), _ABREAST):
            some = changed[first : first + _ABREAST]
            optima += _climb(judge, moves, some, explored)
            patience -= len(some)
            if best != tuple(judge.best[0]):
                patience = kicks
                break
    prefix, *others = (tuple(row.tolist()) for row in judge.best)
    loss, *other_losses = judge.best_losses.tolist()
    return Found(
        prefix,
        loss,
        bound=None,
        evaluated=judge.evaluated,
        method="local search",
        runner_up=others[0] if others else None,
        runner_up_loss=other_losses[0] if others else None,
    )


def _beam(judge: Judge, start: Int[np.ndarray, " depth"], width: int) -> Int[np.ndarray, "W depth"]:
    """Fill the places one by one, keeping the best few partial rankings at each.

    A partial ranking is judged by its completion from the start's policies. A policy that is not
    one of these takes the place of the last of them that the rules allow to leave.
    """
    n_policies, depth, launches = len(judge.rules.cost), len(start), judge.launches
    per_member = depth * n_policies - depth * (depth - 1) // 2
    width = min(width, int(_BEAM_SHARE * judge.left / per_member))
    rows = start[None]
    for place in range(depth if width else 0):
        source = np.tile(np.arange(place, n_policies), len(rows))
        whole = np.repeat(extended(rows, n_policies), n_policies - place, axis=0)
        gap = np.where(source < depth, source, depth - 1)
        filled = moved(whole, Moves(np.full_like(source, place), source, gap), depth)
        for other in range(launches - 1, place - 1, -1):
            broken = np.flatnonzero((source >= launches) & ~judge.allowed(filled))
            if not len(broken):
                break
            trade = Moves(np.full_like(broken, place), source[broken], np.full_like(broken, other))
            filled[broken] = moved(whole[broken], trade, depth)
        losses = judge.losses(filled)
        # Members that are completed to the same ranking would crowd others out: the first is kept.
        first = {key: row for row, key in reversed(list(enumerate(judge.keys(filled))))}
        alone = np.sort(list(first.values()))
        alone = alone[np.isfinite(losses[alone])]
        if not len(alone):
            break
        rows = filled[alone[np.argsort(losses[alone], kind="stable")[:width]]]
    return rows if width else rows[:0]


@final
class _Climb(NamedTuple):
    row: np.ndarray
    loss: float
    # How far through the moves, in a circle, and how many since the last that helped.
    at: int = 0
    tried: int = 0


def _climb(
    judge: Judge, moves: Moves, bases: Int[np.ndarray, "R depth"], explored: set[bytes]
) -> list[_Climb]:
    """Make moves that lower the loss from each of the bases until none does.

    Moves are tried in portions, and the best of a portion is made. A climb that comes to where
    another has been ends there. What is returned has no better neighbor.
    """
    n_policies, n_moves = len(judge.rules.cost), len(moves.place)

    def is_new(row: np.ndarray) -> bool:
        key = judge.keys(row[None])[0]
        new = key not in explored
        explored.add(key)
        return new

    climbs = [
        _Climb(row, loss)
        for row, loss in zip(judge.canonical(bases), judge.losses(bases).tolist(), strict=True)
        if np.isfinite(loss) and is_new(row)
    ]
    optima: list[_Climb] = []
    while climbs and n_moves and not judge.spent:
        portion = min(n_moves, max(1, judge.batch // len(climbs)))
        chosen = (np.array([[climb.at] for climb in climbs]) + np.arange(portion)) % n_moves
        whole = extended(np.array([climb.row for climb in climbs]), n_policies)
        some = Moves(*(column[chosen.ravel()] for column in moves))
        rows = judge.canonical(moved(np.repeat(whole, portion, axis=0), some, bases.shape[1]))
        losses = judge.losses(rows).reshape(chosen.shape)
        going, climbs = climbs, []
        for climb, near, loss in zip(going, np.split(rows, len(going)), losses, strict=True):
            best = first_lowest(near, loss, judge.tolerance)
            row, at = near[best], (climb.at + portion) % n_moves
            if _precedes(row, loss[best], climb, judge.tolerance):
                if is_new(row):
                    climbs.append(_Climb(row, float(loss[best]), at))
            elif climb.tried + portion < n_moves:
                climbs.append(climb._replace(at=at, tried=climb.tried + portion))
            else:
                optima.append(climb)
    return optima


def _precedes(row: np.ndarray, loss: float, climb: _Climb, tolerance: float) -> bool:
    """Tell whether a ranking is better, or as good and lexicographically earlier."""
    if abs(loss - climb.loss) <= tolerance:
        return tuple(row) < tuple(climb.row)
    return bool(loss < climb.loss)
