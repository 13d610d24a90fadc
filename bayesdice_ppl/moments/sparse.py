"""One policy's moments on one-hot features, with the zeros left out.

A row of the design has one entry for the pair that was left and one for each action in the state
that was reached. Thousands of pairs then cost what these entries cost, and not the square of the
pairs. The numbers are those of `bayesdice_ppl.moments.build_moments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from bayesdice_ppl.moments.candidates import Candidates
from bayesdice_ppl.moments.cells import Cells, reward_moments
from bayesdice_ppl.moments.moments import ROUNDING, MomentSettings, prior_reward_scale


class SparseMoments(NamedTuple):
    """Residual of the constraints for one policy, on the pairs that it visits.

    A is the number of these pairs, B that of the test rows: A, and one more for the normalization
    where it has a row of its own. The residual is affine in the ratio at these pairs and the
    value::

        (flow' + start fresh_mass') ratio + offset     in the test rows
        value_mass . ratio + value_offset - value      in the value's row

    Attributes
    ----------
    pairs
        The pairs among all logged ones, shape (A,).
    state, target
        State of each of them, and probability of the policy there, shape (A,).
    share, mass
        Share of the transitions in each cell, shape (C,), and at each of these pairs, shape (A,).
    rows
        The row of each cell in the design, without what a fresh start adds, shape (C, B).
    fresh
        How much of a fresh start follows each cell, shape (C,).
    start
        What a fresh start adds to a row, phi0bar, shape (B,).
    value
        Entry of each cell in the value's row, without its reward, shape (C,).
    initial
        The test features of each initial state, shape (E, B).
    flow, fresh_mass, value_mass
        The sums of ``rows``, ``fresh`` and ``value`` with rewards over each pair's transitions,
        over n: shapes (A, B), (A,) and (A,).
    offset, value_offset
        Residual at a ratio and a value of 0, shape (B,) and scalar.
    reward_mean, reward_scale
        Mean of the logged reward, and the scale of the value's prior.
    unit
        The pair that each logged pair's visits are counted with, shape (P,), if some policy is
        estimated from the log; else None.
    by_state
        Whether this policy is: the actions of a state then have no noise of their own.
    """

    pairs: Int[np.ndarray, " A"]
    state: Int[np.ndarray, " A"]
    target: Float[np.ndarray, " A"]
    share: Float[np.ndarray, " C"]
    mass: Float[np.ndarray, " A"]
    rows: csr_array
    fresh: Float[np.ndarray, " C"]
    start: Float[np.ndarray, " B"]
    value: Float[np.ndarray, " C"]
    initial: csr_array
    flow: csr_array
    fresh_mass: Float[np.ndarray, " A"]
    value_mass: Float[np.ndarray, " A"]
    offset: Float[np.ndarray, " B"]
    value_offset: float
    reward_mean: float
    reward_scale: float
    unit: Int[np.ndarray, " P"] | None
    by_state: bool = False

    def redundant(self, gamma: float) -> bool:
        """Whether the stationarity rows add up to 1 - gamma times the normalization's own row.

        They do where the normalization has a row, and no start or transition is in a state where
        the policy takes no logged action.
        """
        n_pairs = len(self.pairs)
        if len(self.start) == n_pairs or abs(self.start.sum() - 1.0) > ROUNDING:
            return False
        added_up = self.flow[:, :n_pairs].sum(axis=1) + self.fresh_mass * self.start[:n_pairs].sum()
        mass = self.flow[:, [n_pairs]].toarray()[:, 0]
        return bool(np.all(np.abs(added_up + (1.0 - gamma) * mass) <= ROUNDING * mass))

    def residual(self, ratio: Float[np.ndarray, " A"]) -> tuple[Float[np.ndarray, " B"], float]:
        """The test rows and the value's row at a value of zero."""
        moved: np.ndarray = self.flow.T @ ratio + self.start * (self.fresh_mass @ ratio)
        return moved + self.offset, float(self.value_mass @ ratio) + self.value_offset


def sparse_moments(cells: Cells, candidate: Candidates, settings: MomentSettings) -> SparseMoments:
    """Moments of one policy.

    Parameters
    ----------
    cells
        The log, on one-hot features, as NumPy's arrays.
    candidate
        One of `Candidates`; its fields lack the first axis.
    settings
        Discount and meaning of a termination.
    """
    gamma, n = settings.gamma, float(cells.n_transitions)
    n_states, n_cells = candidate.kept.shape[0], len(cells.count)
    active = np.asarray(candidate.active) > 0.0
    pairs = np.flatnonzero(active)
    place = np.full(len(active), -1)
    place[pairs] = np.arange(len(pairs))
    pair, count, ends = place[cells.pair], np.asarray(cells.count), np.asarray(cells.terminated)
    own = np.flatnonzero(pair >= 0)
    share = count / n
    target, state = np.asarray(candidate.target)[pairs], cells.pair_state[pairs]
    n_pairs = len(pairs)
    at_state = csr_array((target, (state, np.arange(n_pairs))), shape=(n_states, n_pairs))
    initial = at_state[cells.initial_state]
    start: np.ndarray = np.asarray(cells.initial_weight) @ initial
    leaves = csr_array((np.ones(len(own)), (own, pair[own])), shape=(n_cells, n_pairs))
    rows = row_scaled(at_state[cells.successor], gamma * (1.0 - ends)) - leaves
    fresh = gamma * ends if settings.restart else np.zeros(n_cells)
    mass = np.ones(n_cells)
    if not settings.restart:
        mass = mass + gamma / (1.0 - gamma) * ends
    offset = (1.0 - gamma) * start
    floor = 0.0 if settings.restart else float(cells.absorbed_reward)
    mean, sd = (float(each) for each in reward_moments(cells))
    base = mean - floor if settings.centered else 0.0
    value = -floor - base * mass
    weighted = csr_array((share[own], (pair[own], own)), shape=(n_pairs, n_cells))
    flow = weighted @ rows
    some_estimated = candidate.estimated is not None
    estimated = some_estimated and bool(candidate.estimated)
    unit = np.arange(len(active)) if some_estimated else None
    if estimated:
        # See `build_moments`: the spread has the noise of the policy's own frequencies.
        rows = rows + leaves - at_state[cells.pair_state[cells.pair]]
        states, first = np.unique(cells.pair_state, return_index=True)
        unit = first[np.searchsorted(states, cells.pair_state)]
    if settings.normalized:
        rows, flow = _beside(rows, mass), _beside(flow, weighted @ mass)
        initial = _beside(initial, np.zeros(initial.shape[0]))
        start, offset = np.append(start, 0.0), np.append(offset, -1.0)
    scale = prior_reward_scale(
        np.float64(mean), np.float64(sd), np.float64(floor), restart=settings.restart
    )
    paid = np.asarray(cells.reward_sum) / n
    return SparseMoments(
        pairs=pairs,
        state=state,
        target=target,
        share=share,
        mass=weighted @ np.ones(n_cells),
        rows=csr_array(rows),
        fresh=fresh,
        start=start,
        value=value,
        initial=csr_array(initial),
        flow=csr_array(flow),
        fresh_mass=weighted @ fresh,
        value_mass=weighted @ value + np.bincount(pair[own], paid[own], n_pairs),
        offset=offset,
        value_offset=floor + base,
        reward_mean=mean,
        reward_scale=float(scale),
        unit=unit,
        by_state=estimated,
    )


def row_scaled(rows: csr_array, factor: Float[np.ndarray, " C"]) -> csr_array:
    """Each row of a sparse matrix times a number."""
    data = rows.data * np.repeat(factor, np.diff(rows.indptr))
    return csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def _beside(rows: Any, column: Float[np.ndarray, " C"]) -> csr_array:
    from scipy.sparse import hstack

    return csr_array(hstack([rows, csr_array(column[:, None])], format="csr"))
