"""Candidates by logged row: what another system says that a candidate would do in each row.

Who has vectors as states, and the candidates in a system of their own, can write down what each
candidate's probabilities are in every row of the log. The rows are then the states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, Int, Shaped

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.labels import MISSING, label_array, shown
from bayesdice_ppl.policies.named_columns import by_label
from bayesdice_ppl.policies.tabular import number_table, whole_probabilities

if TYPE_CHECKING:
    from bayesdice_ppl.logs.logs import Logs


@final
class RowPolicy:
    """Probabilities of the actions in each row of one log.

    Parameters
    ----------
    probabilities
        Shape (rows, actions): in row i of the log's table, counted from 1, row i - 1. They sum to
        1.
    actions
        Labels of the columns.
    rows
        Which rows of the log these are, counted from 1; 1, 2, ... if it is left out.

    Raises
    ------
    PoliciesError
        A number is no probability, a sum is not 1, or the shapes do not fit together.
    """

    __slots__ = ("action_labels", "left_out", "probabilities", "rows")

    def __init__(self, probabilities: Any, actions: Any, rows: Any = None) -> None:
        labels = label_array(actions, "actions", PoliciesError)
        probabilities = by_label(probabilities, labels.tolist(), "probabilities")
        table = number_table(probabilities, "probabilities")
        self.action_labels: Shaped[np.ndarray, " A"] = labels
        if table.ndim != 2 or table.shape[1] != len(labels):
            raise PoliciesError(
                f"probabilities: expected shape (rows, {len(labels)}), a column for each "
                f"action, found {table.shape}."
            )
        numbers = np.arange(1, len(table) + 1) if rows is None else np.asarray(rows)
        if numbers.shape != (len(table),) or numbers.dtype.kind not in "iu" or not numbers.size:
            raise PoliciesError(
                f"rows: expected {len(table)} whole numbers, one or more, found {numbers.dtype} of "
                f"shape {numbers.shape}."
            )
        if numbers.min() < 1:
            raise PoliciesError(
                f"rows: expected rows of the log's table, counted from 1, found {numbers.min()}."
            )
        if len(np.unique(numbers)) != len(numbers):
            raise PoliciesError("rows: expected each row of the log once, found one twice.")
        self.left_out: tuple[str, ...] = ()
        self.rows: Int[np.ndarray, " m"] = numbers.astype(np.int64)
        self.probabilities: Float[np.ndarray, "m A"] = whole_probabilities(
            table, np.array([f"row {number}" for number in numbers], dtype=object), labels
        )[0]

    @classmethod
    def of_logging(cls, logs: Logs) -> RowPolicy:
        """The logging policy itself, from a log in which it wrote its probabilities of all actions.

        Vowpal Wabbit's dsjson (``a`` and ``p``) and OBP's feedback (``pi_b``) have them.

        Parameters
        ----------
        logs
            Such a log.

        Raises
        ------
        PoliciesError
            The log has no probabilities of all actions.
        """
        known = None if logs.source is None else logs.source.probabilities
        if known is None:
            raise PoliciesError(
                "expected a log with the probabilities of all actions in every row (Vowpal "
                "Wabbit's p, OBP's pi_b), found none. fit(..., include_logged=True) values the "
                "logging policy without them."
            )
        return cls(known.table, known.actions)

    def probs(self, obs: Any) -> Any:
        """Refuse: it knows the rows of one log, and no other states.

        Raises
        ------
        PoliciesError
            Always.
        """
        raise PoliciesError(
            "a candidate by logged row knows the rows of its log alone, and cannot be asked about "
            f"{len(obs)} other states. Give a function of states."
        )

    def in_states(
        self, logs: Logs, needed: Shaped[np.ndarray, " S"], name: str
    ) -> Float[np.ndarray, "S A"]:
        """Probabilities in each state of a log.

        Parameters
        ----------
        logs
            The log.
        needed
            States in which they are needed, shape (S,), of bool.
        name
            The candidate, for messages.

        Returns
        -------
        array
            Shape (S, A_own), a column for each of its own actions; zeros where nothing is needed.

        Raises
        ------
        PoliciesError
            A row of the log is missing, a state is no row, or rows of one labeled state differ.
        """
        if self.rows.max() > logs.row.max():
            raise PoliciesError(
                f"policy {name!r}: expected rows of the log, 1 to {logs.row.max():,}, found row "
                f"{self.rows.max():,}. Was it made for another log?"
            )
        place = np.full(int(logs.row.max()) + 1, MISSING)
        place[self.rows] = np.arange(len(self.rows))
        found = place[logs.row]
        if (found == MISSING).any():
            row = logs.row[np.flatnonzero(found == MISSING)[0]]
            raise PoliciesError(
                f"policy {name!r}: expected probabilities for every row of the log, found none for "
                f"row {row:,}, counted from 1. Add them."
            )
        table = np.zeros((len(needed), len(self.action_labels)))
        table[logs.state] = self.probabilities[found]
        differs = np.abs(table[logs.state] - self.probabilities[found]).max(axis=1) > 1e-9
        if differs.any():
            first = int(np.flatnonzero(differs)[0])
            state = logs.state_labels[logs.state[first]]
            raise PoliciesError(
                f"policy {name!r}: expected the same probabilities in all rows of state "
                f"{shown(state)}, found others in row {logs.row[first]:,}. What it acts on is not "
                "in the state: read the log with what the candidate sees as its states, or with "
                "vectors (obs_0, obs_1, ...)."
            )
        outside = np.flatnonzero(needed & ~np.isin(np.arange(len(needed)), logs.state))
        if outside.size:
            raise PoliciesError(
                f"policy {name!r}: expected a log whose next states are rows of it, found "
                f"{outside.size:,} others, of which a candidate by logged row says nothing. Use "
                "gamma = 0, leave next_obs out, or give a function of states."
            )
        return table

    def __repr__(self) -> str:
        return f"RowPolicy({len(self.rows):,} rows, {len(self.action_labels)} actions)"
