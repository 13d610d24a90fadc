"""The flow of one policy through the logged pairs, and its inverse by one system in the states.

The stationarity rows of the residual say that what flows into a pair, by the policy's choice in
each state, is what leaves it. That is a square matrix over pairs. It differs from a diagonal one by
what goes through the states, so that its inverse needs no factor larger than the states.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array, diags_array

from bayesdice_ppl.moments import SparseMoments

_LARGEST = 0.999
"""Discount of the flow that is inverted, at most: at 1 the inverse does not exist."""
_DENSE_STATES = 5000
"""States up to which a system in them is factored as a dense matrix."""
_SWEPT = 0.95
"""Discount of the flow, at most, where the system is solved by sweeps."""
_CLOSE = 1e-3
"""Share of the flow that sweeps leave out."""


@final
class PolicyFlow:
    """The test rows G of the residual's matrix for one policy, as an operator.

    Parameters
    ----------
    moments
        The policy's moments. A is the number of pairs that it visits, B that of the test rows.
    gamma
        Discount.

    Attributes
    ----------
    moments
        The policy's moments.
    redundant
        Whether the rows of the pairs add up to a multiple of the normalization's own.

    Notes
    -----
    In the rows of the pairs G = Phi'H - N: N has the share of each pair in the log, H (states,
    pairs) the flow from each pair into each state, and Phi (states, pairs) the policy's probability
    of each pair in its state. G x = b is solved by x = N^-1 (Phi'h - b), where
    (I - T) h = -H N^-1 b with T = H N^-1 Phi'.
    """

    def __init__(self, moments: SparseMoments, gamma: float) -> None:
        self.moments = moments
        self._gamma = gamma
        self.redundant = moments.redundant(gamma)
        self._across = csr_array(moments.flow.T)
        self._mass = moments.mass[:, None]

    def times(self, x: Float[np.ndarray, "A *k"]) -> Float[np.ndarray, "B *k"]:
        """G x."""
        moments = self.moments
        found: np.ndarray = self._across @ x
        return found + np.multiply.outer(moments.start, moments.fresh_mass @ x)

    def transposed(self, y: Float[np.ndarray, "B *k"]) -> Float[np.ndarray, "A *k"]:
        """G'y."""
        moments = self.moments
        found: np.ndarray = moments.flow @ y
        return found + np.multiply.outer(moments.fresh_mass, moments.start @ y)

    def dense(self, rows: slice = slice(None)) -> Float[np.ndarray, "R A"]:
        """Some rows of G."""
        moments = self.moments
        found: np.ndarray = self._across[rows].toarray()
        return found + np.multiply.outer(moments.start[rows], moments.fresh_mass)

    def solve(
        self, right: Float[np.ndarray, "A k"], *, transposed: bool = False
    ) -> Float[np.ndarray, "A k"]:
        """G^-1 right, or G'^-1 right, in the rows of the pairs.

        At a discount of nearly 1 the flow is damped a little, as the inverse would not exist.
        """
        scaled = right / self._mass
        if self._gamma == 0.0:
            return -scaled
        phi, into, start, fresh = self._parts
        if transposed:
            # H'Phi x - N x = b: x = N^-1 (H'g - b) with (I - T') g = -Phi N^-1 b.
            g = self._states.solve(-(phi @ scaled), transposed=True)
            back: np.ndarray = into.T @ g + np.multiply.outer(fresh, start @ g)
            return (back - right) / self._mass
        h = self._states.solve(-(into @ scaled + np.multiply.outer(start, fresh @ scaled)))
        found: np.ndarray = (phi.T @ h - right) / self._mass
        return found

    @cached_property
    def _parts(self) -> tuple[Any, Any, Float[np.ndarray, " S"], Float[np.ndarray, " A"]]:
        """Phi, the sparse part of H, and the start states with the flow into them."""
        moments = self.moments
        n_pairs, n_states = len(moments.pairs), int(moments.state.max()) + 1
        place = np.arange(n_pairs)
        phi = csr_array((moments.target, (moments.state, place)), shape=(n_states, n_pairs))
        member = csr_array((np.ones(n_pairs), (place, moments.state)), shape=(n_pairs, n_states))
        largest = _LARGEST if n_states <= _DENSE_STATES else _SWEPT
        damp = min(1.0, largest / self._gamma)
        # A pair's flow, less its own entry, is spread over the actions of each state. Its sum over
        # them is the flow into the state.
        out = moments.flow[:, :n_pairs] + diags_array(moments.mass)
        into = csr_array((out @ member).T) * damp
        return phi, into, moments.start[:n_pairs] @ member, moments.fresh_mass * damp

    @cached_property
    def _states(self) -> _StateSystem:
        phi, into, start, fresh = self._parts
        inverse = 1.0 / self.moments.mass
        step = csr_array(into @ diags_array(inverse) @ phi.T)
        return _StateSystem(step, start, phi @ (fresh * inverse), min(self._gamma, _SWEPT))


@final
class _StateSystem:
    """I - T for a sparse T and one fresh start: T = step + outer(start, again).

    Past some thousand states a factor of T fills up. Sweeps follow the flow instead, as many as
    leave little of it: an inverse that is near enough for a preconditioner.
    """

    def __init__(
        self,
        step: Any,
        start: Float[np.ndarray, " S"],
        again: Float[np.ndarray, " S"],
        discount: float,
    ) -> None:
        n_states = len(start)
        self._dense: Any = None
        if n_states <= _DENSE_STATES:
            from scipy.linalg import lu_factor

            whole = np.eye(n_states) - step.toarray() - np.multiply.outer(start, again)
            self._dense = lu_factor(whole, check_finite=False)
            return
        self._steps = step, csr_array(step.T)
        self._ends = (start, again), (again, start)
        self._sweeps = int(np.ceil(np.log(_CLOSE) / np.log(discount)))

    def solve(
        self, right: Float[np.ndarray, "S k"], *, transposed: bool = False
    ) -> Float[np.ndarray, "S k"]:
        """(I - T)^-1 right, or (I - T')^-1 right."""
        if self._dense is not None:
            from scipy.linalg import lu_solve

            return np.asarray(
                lu_solve(self._dense, right, trans=int(transposed), check_finite=False)
            )
        step, (start, again) = self._steps[transposed], self._ends[transposed]
        found = right
        for _ in range(self._sweeps):
            found = right + step @ found + np.multiply.outer(start, again @ found)
        return found
