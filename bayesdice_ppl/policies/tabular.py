"""A policy of a finite world: one row of action probabilities for each state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.labels import label_array, shown
from bayesdice_ppl.policies.asking import number_array
from bayesdice_ppl.policies.named_columns import by_label, column_labels, row_labels

TOLERANCE = 1e-6
"""How far the probabilities of a state may be from summing to one."""
_DIGITS = range(2, 9)
"""Decimals from which on probabilities that were written so may add up to a bit less or more."""
_MOST_OFF = 0.02
"""What such rounding may add up to at most; an action that is missing would be taken for it."""


@final
class TabularPolicy:
    """A table of action probabilities.

    Parameters
    ----------
    probabilities
        Shape (S, A); each row in [0, 1] and summing to 1, within 1e-6 or within what writing them
        with so few decimals may come to: half of the last one for each action, at most 0.02. Rows
        off by more than 1e-6 are divided by their sum, and `rounding` has by how much they were.
    states, actions
        Labels of the rows and the columns, integers or strings; by default 0, 1, 2, ...

    Raises
    ------
    PoliciesError
        A shape, a probability or a sum is wrong; the state is named.
    """

    __slots__ = ("actions", "left_out", "probabilities", "rounding", "states")

    def __init__(
        self,
        probabilities: Any,
        states: Sequence[Any] | np.ndarray | None = None,
        actions: Sequence[Any] | np.ndarray | None = None,
    ):
        columns = column_labels(probabilities)
        if columns is not None:
            # A table has its own labels, where none are given.
            states = row_labels(probabilities) if states is None else states
            actions = columns if actions is None else list(actions)
            probabilities = by_label(probabilities, actions, "probabilities")
        table = number_table(probabilities, "probabilities")
        if table.ndim != 2 or 0 in table.shape:
            raise PoliciesError(
                f"probabilities: expected shape (states, actions), found {table.shape}."
            )
        n_states, n_actions = table.shape
        labels = label_array(range(n_states) if states is None else states, "states", PoliciesError)
        names = label_array(
            range(n_actions) if actions is None else actions, "actions", PoliciesError
        )
        if (len(labels), len(names)) != table.shape:
            raise PoliciesError(
                f"probabilities: expected shape ({len(labels)}, {len(names)}), as there are "
                f"{len(labels)} states and {len(names)} actions, found {table.shape}."
            )
        table, rounding = whole_probabilities(table, labels, names)
        table.setflags(write=False)
        self.probabilities: Float[np.ndarray, "S A"] = table
        self.states: Shaped[np.ndarray, " S"] = labels
        self.actions: Shaped[np.ndarray, " A"] = names
        self.rounding: float = rounding
        self.left_out: tuple[str, ...] = ()

    def probs(self, obs: Any) -> Float[np.ndarray, "batch A"]:
        """Probabilities of ``self.actions`` in the given states.

        Parameters
        ----------
        obs
            State labels, shape (batch,).

        Raises
        ------
        PoliciesError
            A state that the table does not have.
        """
        where = {label: row for row, label in enumerate(self.states.tolist())}
        labels = np.asarray(obs)
        if labels.ndim != 1:
            raise PoliciesError(
                f"obs: expected state labels of shape (batch,), found {labels.shape}."
            )
        rows = []
        for label in labels.tolist():
            if label not in where:
                raise PoliciesError(
                    f"obs: expected a state of the policy's table, found {label!r}. Add its row."
                )
            rows.append(where[label])
        return self.probabilities[rows]

    def __repr__(self) -> str:
        return f"TabularPolicy({len(self.states)} states, {len(self.actions)} actions)"


def number_table(values: Any, what: str) -> np.ndarray:
    """Copy numbers into a float64 array.

    Raises
    ------
    PoliciesError
        They are not numbers, or rows differ in length.
    """
    return number_array(values, what)


def whole_probabilities(
    table: Float[np.ndarray, "S A"],
    states: Shaped[np.ndarray, " S"],
    actions: Shaped[np.ndarray, " A"],
    who: str = "",
    given: Bool[np.ndarray, "S A"] | None = None,
    *,
    rounded: bool = True,
) -> tuple[Float[np.ndarray, "S A"], float]:
    """Make rows of probabilities sum to 1 that do not because they were written with few decimals.

    Parameters
    ----------
    table
        Probabilities.
    states, actions
        Labels, for messages.
    who
        The policy, for messages.
    given
        Which entries were written; all, if it is left out.
    rounded
        Whether they may have been written with few decimals, and not computed.

    Returns
    -------
    (array, float)
        The table, shape (S, A), and the largest distance of a sum from 1 that was mended; 0 if
        none was.

    Raises
    ------
    PoliciesError
        With the policy (``who``), the state and the action.
    """
    prefix = f"policy {who!r}, " if who else ""
    bad = ~((table >= 0.0) & (table <= 1.0))
    if bad.any():
        s, a = np.argwhere(bad)[0]
        raise PoliciesError(
            f"{prefix}state {shown(states[s])}, action {shown(actions[a])}: expected a probability "
            f"in [0, 1], found {table[s, a]:g}. Correct it."
        )
    total = table.sum(axis=1)
    distance = np.abs(total - 1.0)
    off = np.flatnonzero(distance > TOLERANCE)
    if not len(off):
        return table, 0.0
    written = table[off]
    count = np.full(len(off), table.shape[1]) if given is None else given[off].sum(axis=1)
    allowed = np.maximum(
        _rounding(written, count) if rounded else 0.0, np.full(len(off), TOLERANCE)
    )
    broken = distance[off] > allowed
    if broken.any():
        at = int(np.flatnonzero(broken)[0])
        s = off[at]
        raise PoliciesError(
            f"{prefix}state {shown(states[s])}: expected probabilities that sum to 1 within "
            f"{allowed[at]:g}, found a sum of {total[s]:.9g}. Normalize them, or add the actions "
            "that are missing."
        )
    mended = table.copy()
    mended[off] = written / total[off, None]
    return mended, float(distance[off].max())


def _rounding(
    written: Float[np.ndarray, "k A"], count: Int[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """What the sums of rows may be off by if their numbers were rounded to the decimals they have.

    Each may be off by half of its last decimal. Rows with more decimals than anybody writes were
    computed, and are off by 0.
    """
    allowed = np.zeros(len(written))
    for digits in reversed(_DIGITS):
        fits = np.all(np.abs(np.round(written, digits) - written) < 1e-12, axis=1)
        # All of them off by as much to one side is no rounding; but the sum itself is rounded.
        most = (0.5 * count[fits] - 1e-6) * 10.0**-digits
        allowed[fits] = np.minimum(most, _MOST_OFF + 1e-9)
    # One decimal is no rounding that anybody means.
    allowed[np.all(np.abs(np.round(written, 1) - written) < 1e-12, axis=1)] = 0.0
    return allowed
