"""The input of a fit after checks and counting, and the problem that it leads to.

`Inputs` holds the rows that can be used, and the features of the log and of the candidates. User
data is not read after it. `Prepared` adds the problem that an engine solves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.features import FeatureMap, SampledActions
from bayesdice_ppl.fitting.action_ratio import ActionRatios
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.inference import Problem, Rows, UnseenPairs
from bayesdice_ppl.logs import UsableRows
from bayesdice_ppl.moments import Candidates, Cells, KnownMeans, LoggedPairs

if TYPE_CHECKING:
    from bayesdice_ppl.fitting.counted import CountedFacts


class Sampling(NamedTuple):
    """What it takes to tell how far sampled actions move a value.

    Attributes
    ----------
    feature_map
        The map.
    states
        States by code: vectors, shape (S, p), or codes, shape (S,).
    sampled
        The actions that were drawn.
    """

    feature_map: FeatureMap
    states: Shaped[np.ndarray, "S *p"]
    sampled: SampledActions


class OtherTests(NamedTuple):
    """Functions that a fit is judged by, and was not fitted to.

    Attributes
    ----------
    pair_features
        The functions at each pair, shape (P, M).
    at_state
        The functions in each state under each candidate, shape (N, S, M); under all alike if they
        do not look at the action, shape (1, S, M).
    """

    pair_features: Float[np.ndarray, "P M"]
    at_state: Float[np.ndarray, "B S M"]


class Inputs(NamedTuple):
    """The input after checks and counting.

    Attributes
    ----------
    logs
        The log, `Logs` or `CountedLogs`.
    names
        Names of the candidates.
    actions, action_source
        Labels of the action space, shape (A,), or None for vectors; and where they came from.
    rows
        Which transitions are used, and how many are left out.
    pairs, cells, cell_of_row
        The pairs that were logged, the counted log, and the cell of each row that is used.
    candidates
        The candidates on what was logged.
    dead_state
        States that each candidate reaches and in which it takes no logged action, shape (N, S).
    settings
        Every choice that was made.
    sampling
        How actions were sampled, where any were; else None.
    action_ratios
        The candidates' action ratios, where the logging policy is known; else None.
    unseen
        With one-hot features the pairs that candidates take and the log does not have; else None.
    known
        What is known of the pairs' mean rewards, where the kind of reward is known; else None.
    other
        With other than one-hot features, functions to judge the fit by; else None.
    counted
        What is known of rows that lie elsewhere; None where they are held. Where they are not,
        ``rows``, ``pairs.of_row`` and ``cell_of_row`` are of the lines of the counted log.
    """

    logs: Any
    names: tuple[str, ...]
    actions: Shaped[np.ndarray, " A"] | None
    action_source: str
    rows: UsableRows
    pairs: LoggedPairs
    cells: Cells
    cell_of_row: Int[np.ndarray, " n"]
    candidates: Candidates
    dead_state: Bool[np.ndarray, "N S"]
    settings: FitSettings
    sampling: Sampling | None = None
    action_ratios: ActionRatios | None = None
    unseen: UnseenPairs | None = None
    known: KnownMeans | None = None
    other: OtherTests | None = None
    counted: CountedFacts | None = None

    @property
    def reward(self) -> Float[np.ndarray, " n"]:
        """Rewards of the rows that are used, shape (n,)."""
        return self.logs.reward[self.rows.mask]

    @property
    def cell_rows(self) -> Rows:
        """The rows that are used, behind the cells."""
        return Rows(self.cell_of_row, self.reward)


class Prepared(NamedTuple):
    """Everything between the input and the posterior.

    Attributes
    ----------
    inputs
        The input after checks and counting.
    problem
        ``problem.of(j)`` gives candidate j's ratio, constraint and coordinates: the arguments of
        `bayesdice_ppl.models.model` and ``guide``.
    """

    inputs: Inputs
    problem: Problem
