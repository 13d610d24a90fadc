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

from bayesdice_ppl.scores.forms import Assignment, Sorting
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.found import Found, optimum

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
        Policies listed, in increasing order.
    most : float
        No set that is allowed gains more.
    nodes : int
        How many nodes the search tree had.
    """

    members: tuple[int, ...]
    most: float
    nodes: int


def best_set(
    table: Float[np.ndarray, "N columns"],
    capacity: Int[np.ndarray, " columns"],
    rules: Rules,
    *,
    partial: bool,
    contiguous: bool = False,
) -> Launch:
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
    """
    depth = int(capacity.sum())
    room = rules.limit - rules.cost[rules.required].sum()
    open_to = ~rules.excluded & (rules.required | (rules.cost <= room))
    policy, column = _cells(table, rules, open_to, depth)
    listed, row = np.unique(policy, return_inverse=True)
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
        most = float(capacity @ table.max(axis=0))
        if result.mip_dual_bound is not None:
            most = min(most, -result.mip_dual_bound * unit)
        if result.x is None:
            return Launch(_greedy(table, rules, depth), most, nodes)
        chosen = result.x[n_cells : n_cells + n_listed] > 0.5
        members = tuple(listed[chosen].tolist())
        if rules.allow(np.array([members], np.intp))[0]:
            return Launch(members, most, nodes)
        # Dearer than the budget by less than HiGHS's tolerance: neither this set nor a larger one.
        constraints.append(over_listed(chosen, -np.inf, len(members) - 1.0))


def certified(
    form: Sorting | Assignment, prefix: tuple[int, ...], others: list[tuple[int, ...]], best: Launch
) -> Found:
    """Report the best set, arranged, with a bound that allows for the tolerance of the solver.

    Parameters
    ----------
    form : Sorting or Assignment
        The expected loss.
    prefix : tuple of int
        The members of `best`, arranged.
    others : list of tuple of int
        Prefixes near to it.
    best : Launch
        From `best_set`.
    """
    found = optimum(form, prefix, "branch and bound", others)
    bound = form.offset - best.most
    exact = bound >= found.loss - _EXACT * max(abs(form.offset), abs(found.loss))
    return found._replace(bound=found.loss if exact else bound, evaluated=best.nodes)


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
    launches = (rules.fill(order, size) for size in range(depth, 0, -1))
    return tuple(sorted(next(launch for launch in launches if launch is not None)))


def _cells(
    table: np.ndarray, rules: Rules, open_to: Bool[np.ndarray, " N"], depth: int
) -> tuple[Int[np.ndarray, " cells"], Int[np.ndarray, " cells"]]:
    """List the policies and columns that can matter.

    Where as many policies as there are free places cost no more and gain no less in a column than
    policy i does, one of them is not listed elsewhere: i is not needed there.
    """
    spare = max(1, depth - int(rules.required.sum()))
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
