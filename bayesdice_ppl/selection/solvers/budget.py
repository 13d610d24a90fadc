"""The best set of policies that a budget affords: an integer program, solved by SciPy's HiGHS.

What a launch gains is a sum over the policies it lists, each in one column: the column is a place
where order matters, and there is a single one where it does not. Only *which* policies are listed
has to be whole; the rest of the program is an assignment, whose corners are whole by themselves.
What comes back is a set, to be arranged and judged by the caller, and a bound on all others.
"""

import heapq
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesdice_ppl.losses.structure import Assignment, Sorting
from bayesdice_ppl.selection.rules import Rules, fill
from bayesdice_ppl.selection.solvers.comparing import first_of_lowest, loss_of, rounding_of
from bayesdice_ppl.selection.solvers.found import Found

# HiGHS ends when a gap is below 1e-6, whatever the unit: gains are counted in units of the largest
# over this, and costs in units of the budget over 100.
_GAIN_UNITS = 1e5
_COST_UNITS = 100.0
# HiGHS takes a number for whole that is so up to 1e-6, by which gains have been seen to grow by
# 3e-9: bounds are exact up to this share of the loss.
_EXACT = 1e-8
# Far more than has been seen to be needed; a program that needs more has a gap, and says so.
_MOST_NODES = 10_000


@final
class Launch(NamedTuple):
    """A set of policies, and how good any other can be at most.

    Attributes
    ----------
    members : tuple of int
        Policies listed, in increasing order; empty if the search was cut short before it had any.
    most : float
        No set that is allowed gains more.
    nodes : int
        How many nodes the search tree had.
    """

    members: tuple[int, ...]
    most: float
    nodes: int


def binds(rules: Rules, depth: int) -> bool:
    """Tell whether any set of at most `depth` policies is ruled out by its cost alone."""
    others = np.sort(rules.cost[~rules.required & ~rules.excluded])[::-1]
    dearest = others[: max(0, depth - int(rules.required.sum()))].sum()
    return bool(rules.cost[rules.required].sum() + dearest > rules.limit)


def best_set(
    table: Float[np.ndarray, "N columns"],
    capacity: Int[np.ndarray, " columns"],
    rules: Rules,
    *,
    partial: bool,
    contiguous: bool = False,
    other_than: tuple[int, ...] | None = None,
) -> Launch | None:
    """Find the set of policies that gains most, each listed in one of the columns.

    Parameters
    ----------
    table : Float[ndarray, "N columns"]
        What a policy gains in a column, not negative.
    capacity : Int[ndarray, "columns"]
        How many policies a column holds; `sum(capacity)` is the number of places.
    rules : Rules
        What is allowed: at least one launch.
    partial : bool
        Whether fewer policies than places may be listed.
    contiguous : bool
        Whether a column may hold a policy only if the column before does.
    other_than : tuple of int, optional
        A set, which neither the answer nor any launch that `most` is about lies within.

    Returns
    -------
    Launch or None
        None if there is no other set.
    """
    depth = int(capacity.sum())
    room = rules.limit - rules.cost[rules.required].sum()
    open_to = ~rules.excluded & (rules.required | (rules.cost <= room))
    policy, column = _cells(table, rules, open_to, depth)
    listed, row = np.unique(policy, return_inverse=True)
    new = ~np.isin(listed, other_than or ())
    if other_than is not None and not new.any():
        return None
    # Variables: each cell; whether a policy is listed at all; how many policies a column holds.
    n_cells, n_listed, n_columns = len(policy), len(listed), len(capacity)

    def over_listed(weights: np.ndarray, least: float, most: float) -> LinearConstraint:
        whole = np.concatenate([np.zeros(n_cells), weights, np.zeros(n_columns)])
        return LinearConstraint(whole[None], least, most)

    constraints = [LinearConstraint(_one_column_each(row, column, n_columns), 0.0, 0.0)]
    if room > 0.0:
        share = np.where(rules.required[listed], 0.0, rules.cost[listed]) / room
        constraints.append(over_listed(share * _COST_UNITS, -np.inf, _COST_UNITS))
    if not partial:
        constraints.append(over_listed(np.ones(n_listed), depth, depth))
    if other_than is not None:
        constraints.append(over_listed(new, 1.0, np.inf))
    if contiguous:
        steps = np.eye(n_columns)[:-1] - np.eye(n_columns)[1:]
        before = np.hstack([np.zeros((n_columns - 1, n_cells + n_listed)), steps])
        constraints.append(LinearConstraint(before, 0.0, np.inf))
    gain = table[policy, column]
    unit = max(float(gain.max()), np.finfo(float).tiny) / _GAIN_UNITS
    nodes = 0
    while True:
        result = milp(
            np.concatenate([-gain / unit, np.zeros(n_listed + n_columns)]),
            integrality=np.repeat([0, 1, int(contiguous)], [n_cells, n_listed, n_columns]),
            bounds=Bounds(
                np.concatenate([np.zeros(n_cells), rules.required[listed], np.zeros(n_columns)]),
                np.concatenate([np.ones(n_cells + n_listed), capacity]),
            ),
            constraints=constraints,
            options={"mip_rel_gap": 0.0, "node_limit": _MOST_NODES},
        )
        nodes += int(result.mip_node_count or 0)
        if result.status == 2:
            return None
        most = float(capacity @ table.max(axis=0))
        if result.mip_dual_bound is not None:
            most = min(most, -result.mip_dual_bound * unit)
        if result.x is None:
            members = _greedy(table, rules, depth) if other_than is None else ()
            return Launch(members, most, nodes)
        chosen = result.x[n_cells : n_cells + n_listed] > 0.5
        members = tuple(listed[chosen].tolist())
        if rules.allow(np.array([members], np.intp))[0]:
            return Launch(members, most, nodes)
        # Dearer than the budget by less than HiGHS's tolerance: neither this set nor a larger one.
        constraints.append(over_listed(chosen, -np.inf, len(members) - 1.0))


def certified(
    structure: Sorting | Assignment,
    prefix: tuple[int, ...],
    others: list[tuple[int, ...]],
    best: Launch,
    second: Launch | None,
) -> Found:
    """Put together what is known of a prefix, and of the best of the others.

    Parameters
    ----------
    structure : Sorting or Assignment
        Form of the expected loss.
    prefix : tuple of int
        The members of `best`, arranged.
    others : list of tuple of int
        The members of `second`, arranged, and the best prefixes that lie within the members of
        `best`: no prefix of those is better.
    best, second : Launch, and Launch or None
        From `best_set`, the second of any other set.

    Returns
    -------
    Found
        Its bound is the loss itself where that is best, up to the tolerance of the solver.
    """
    runner_up = first_of_lowest(structure, others)
    loss = loss_of(structure, prefix)
    runner_up_loss = None if runner_up is None else loss_of(structure, runner_up)
    rounding = rounding_of(structure, loss)
    if runner_up is not None and runner_up_loss is not None and runner_up_loss < loss - rounding:
        # The search for the best was cut short.
        prefix, runner_up = runner_up, prefix
        loss, runner_up_loss = runner_up_loss, loss
    bound = _bound(structure, best, loss)
    proven = bound == loss
    if second is not None:
        proven = (
            proven
            and runner_up_loss is not None
            and _bound(structure, second, runner_up_loss) == runner_up_loss
        )
    return Found(
        prefix=prefix,
        loss=loss,
        bound=bound,
        runner_up=runner_up,
        runner_up_loss=runner_up_loss,
        runner_up_proven=proven,
        evaluated=best.nodes + (0 if second is None else second.nodes),
        method="branch and bound",
    )


def filled(members: tuple[int, ...], rules: Rules, depth: int) -> list[int]:
    """Add policies, the preferred first, while there are places and the budget lasts."""
    launch = list(members)
    spent = rules.cost[launch].sum()
    for i in np.flatnonzero(~rules.excluded).tolist():
        if len(launch) < depth and i not in launch and spent + rules.cost[i] <= rules.limit:
            launch.append(i)
            spent += rules.cost[i]
    return launch


def preferred(
    launch: list[int], gain: Float[np.ndarray, "N places"], rules: Rules, tolerance: float
) -> list[int]:
    """Trade each policy for the most preferred one that gains as much at its place, if affordable.

    Parameters
    ----------
    launch : list of int
        Policies by place.
    gain : Float[ndarray, "N places"]
        What a policy gains at a place.
    rules : Rules
        What is allowed.
    tolerance : float
        Gains that are no further apart are equal.

    Returns
    -------
    list of int
        Another launch that gains as much, or the same.
    """
    launch = list(launch)
    for place, i in enumerate(launch):
        if rules.required[i]:
            continue
        room = rules.limit - rules.cost[launch].sum() + rules.cost[i]
        as_good = gain[:i, place] >= gain[i, place] - tolerance
        as_good &= ~rules.excluded[:i] & (rules.cost[:i] <= room)
        as_good[[j for j in launch if j < i]] = False
        if as_good.any():
            launch[place] = int(np.argmax(as_good))
    return launch


def _bound(structure: Sorting | Assignment, launch: Launch, loss: float) -> float:
    """Turn the most that can be gained into a bound on the loss, at most the loss itself."""
    bound = structure.offset - launch.most
    return loss if bound >= loss - _EXACT * max(abs(structure.offset), abs(loss)) else bound


def _one_column_each(row: np.ndarray, column: np.ndarray, n_columns: int) -> sparse.coo_array:
    """Have each policy that is listed in one cell, and count the cells of a column."""
    n_cells, n_listed = len(row), int(row.max()) + 1
    cells, one = np.arange(n_cells), np.ones(n_cells)
    of_policy = sparse.csr_array((one, (row, cells)), shape=(n_listed, n_cells))
    of_column = sparse.csr_array((one, (column, cells)), shape=(n_columns, n_cells))
    return sparse.block_array(
        [
            [of_policy, -sparse.eye_array(n_listed), None],
            [of_column, None, -sparse.eye_array(n_columns)],
        ]
    )


def _greedy(table: np.ndarray, rules: Rules, depth: int) -> tuple[int, ...]:
    """List as many policies as can be afforded, those that gain most the sooner."""
    order = np.argsort(-table.max(axis=1), kind="stable")
    launches = (fill(order, rules, size) for size in range(depth, 0, -1))
    return tuple(sorted(next(launch for launch in launches if launch is not None)))


def _cells(
    table: np.ndarray, rules: Rules, open_to: Bool[np.ndarray, " N"], depth: int
) -> tuple[Int[np.ndarray, " cells"], Int[np.ndarray, " cells"]]:
    """List the policies and columns that can matter.

    Where at least `spare` policies cost no more and gain no less in a column than policy i does,
    two of them are not listed elsewhere, and at least one gives another set than the best: i is not
    needed there, not even for the second best set.
    """
    spare = depth - int(rules.required.sum()) + 1
    required = np.flatnonzero(rules.required & open_to)
    others = np.flatnonzero(~rules.required & open_to)
    policies, columns = [], []
    for column, gain in enumerate(table.T):
        kept, best = required.tolist(), list[float]()
        for i in others[np.lexsort((-gain[others], rules.cost[others]))].tolist():
            if len(best) < spare:
                heapq.heappush(best, gain[i])
            elif gain[i] > best[0]:
                heapq.heapreplace(best, gain[i])
            else:
                continue
            kept.append(i)
        policies += kept
        columns += [column] * len(kept)
    return np.array(policies), np.array(columns)
