"""A policy of a finite world: one row of action probabilities for each state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float, Shaped

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.labels import label_array, shown

TOLERANCE = 1e-6
"""How far the probabilities of a state may be from summing to one."""


@final
class TabularPolicy:
    """A table of action probabilities.

    Parameters
    ----------
    probabilities
        Shape (S, A); each row in [0, 1] and summing to 1 within 1e-6.
    states, actions
        Labels of the rows and the columns, integers or strings; by default 0, 1, 2, ...

    Raises
    ------
    PoliciesError
        A shape, a probability or a sum is wrong; the state is named.
    """

    __slots__ = ("actions", "probabilities", "states")

    def __init__(
        self,
        probabilities: Any,
        states: Sequence[Any] | np.ndarray | None = None,
        actions: Sequence[Any] | np.ndarray | None = None,
    ):
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
        check_probabilities(table, labels, names)
        table.setflags(write=False)
        self.probabilities: Float[np.ndarray, "S A"] = table
        self.states: Shaped[np.ndarray, " S"] = labels
        self.actions: Shaped[np.ndarray, " A"] = names

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
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise PoliciesError(
            f"{what}: expected an array of numbers whose rows have one length ({cause})."
        ) from cause


def check_probabilities(
    table: Float[np.ndarray, "S A"],
    states: Shaped[np.ndarray, " S"],
    actions: Shaped[np.ndarray, " A"],
    who: str = "",
) -> None:
    """Refuse a table whose entries are not probabilities or whose rows do not sum to 1.

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
    off = np.abs(total - 1.0) > TOLERANCE
    if off.any():
        s = int(np.flatnonzero(off)[0])
        raise PoliciesError(
            f"{prefix}state {shown(states[s])}: expected probabilities that sum to 1 within "
            f"{TOLERANCE:g}, found a sum of {total[s]:.9g}. Normalize them, or add the actions "
            "that are missing."
        )
