"""The candidates on the log: their probabilities of the logged pairs, and in each state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.moments.cells import Cells, TransformedRewards
from bayesdice_ppl.moments.moments import StateFeatures, one_hot_features


class Candidates(NamedTuple):
    """The N candidates on the log, stacked.

    Attributes
    ----------
    target
        With one-hot features the renormalized policies: probability of each pair, shape (N, P).
    active
        1 for the weights in use, shape (N, K); see `StateFeatures`.
    kept
        Probability on logged actions in each state, shape (N, S).
    at_state
        With other features the expected features of each state, shape (N, S, d).
    estimated
        Which candidates are frequencies of the log and share its errors, shape (N,). None: none.
    action_ratio
        pi(a|s) / mu(a|s) of each logged pair, shape (N, P), where the logging policy mu is known;
        else None.
    """

    target: Float[Any, "N P"] | None
    active: Float[Any, "N K"]
    kept: Float[Any, "N S"]
    at_state: Float[Any, "N S d"] | None = None
    estimated: Bool[Any, " N"] | None = None
    action_ratio: Float[Any, "N P"] | None = None

    def copies(
        self,
        rewards: TransformedRewards | None = None,
        unseen: Float[np.ndarray, "N U"] | None = None,
    ) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " N"]]:
        """The first of each of M distinct candidates, and which of the M each candidate is.

        Parameters
        ----------
        rewards
            Each candidate's transformed rewards; copies have equal ones.
        unseen
            What else copies have equal: their mass on pairs that were never logged, shape (N, U).
        """
        table = self.target if self.at_state is None else self.at_state
        rows = [np.ascontiguousarray(row).tobytes() for row in np.asarray(table)]
        if self.action_ratio is not None:
            known = np.ascontiguousarray(self.action_ratio)
            rows = [row + more.tobytes() for row, more in zip(rows, known, strict=True)]
        if self.estimated is not None:
            flags = np.asarray(self.estimated)
            rows = [row + flag.tobytes() for row, flag in zip(rows, flags, strict=True)]
        if unseen is not None:
            masses = (np.ascontiguousarray(row).tobytes() for row in unseen)
            rows = [row + more for row, more in zip(rows, masses, strict=True)]
        paid = [b""] * len(rows)
        if rewards is not None:
            whole = np.column_stack([rewards.by_row, rewards.absorbed])
            paid = [np.ascontiguousarray(row).tobytes() for row in whole]
        # Sorted, so that the order in which candidates are given does not matter; statistics of
        # one candidate stay in their order, which the last digit of a reward must not change.
        both = list(zip(rows, paid, strict=True))
        first = {each: i for i, each in reversed(list(enumerate(both)))}
        ordered = sorted(first, key=lambda each: (each[0], first[each]))
        place = {each: i for i, each in enumerate(ordered)}
        of_row = np.array([place[each] for each in both])
        return np.unique(of_row, return_index=True)[1], of_row


def state_features(cells: Cells, candidate: Candidates) -> StateFeatures:
    """The features of one candidate; its fields lack the first axis."""
    if candidate.at_state is None:
        n_states = candidate.kept.shape[0]
        features = one_hot_features(cells, candidate.target, candidate.active, n_states)
        return features._replace(estimated=candidate.estimated)
    return StateFeatures(candidate.at_state, candidate.active, action_ratio=candidate.action_ratio)
