"""What a user may give as a candidate, and the policy that it stands for.

Beside objects with ``probs``, or with ``sample`` and ``log_prob``, these are functions of states,
dicts of states, arrays of probabilities and tables. Each becomes one of the two kinds of policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import narwhals as nw
import numpy as np
import polars as pl

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.tables import to_polars
from bayesdice_ppl.policies.asking import plain_array
from bayesdice_ppl.policies.by_row import RowPolicy
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy
from bayesdice_ppl.policies.table import BY_ROW, COLUMNS, read_tables
from bayesdice_ppl.policies.tabular import TabularPolicy

_KINDS = (
    "an object with a method probs(obs) -> (batch, n_actions), or for continuous actions with "
    "sample(rng_key, obs, n) and log_prob(obs, action); or a function f(states) -> (batch, "
    "n_actions), a dict {state: action} or {state: {action: probability}}, an array of "
    "probabilities, shape (states, actions), or a table with the columns state, action, prob"
)


@final
@dataclass(frozen=True)
class FunctionPolicy:
    """A policy that is a function from a batch of states to probabilities of the actions.

    Parameters
    ----------
    function
        From states, shape (batch,) or (batch, p), to probabilities, shape (batch, n_actions).
    """

    function: Callable[[Any], Any]

    def probs(self, obs: Any) -> Any:
        """Probabilities of the actions in the states ``obs``, shape (batch, n_actions)."""
        return self.function(obs)


def is_dataframe(thing: Any) -> bool:
    """Whether narwhals knows a thing as a dataframe."""
    return nw.from_native(thing, pass_through=True) is not thing


def as_policy(name: str, given: Any) -> Policy | ContinuousPolicy:
    """Turn what a user gives as a candidate into a policy.

    Parameters
    ----------
    name
        Of the candidate, for messages.
    given
        A policy, a function, a dict, an array or a table.

    Raises
    ------
    PoliciesError
        It is nothing of that kind, or its probabilities are none.
    """
    if isinstance(given, type):
        raise PoliciesError(
            f"policy {name!r}: expected a policy, found the class {given.__name__}. Give an object "
            f"of it, such as {given.__name__}(...)."
        )
    framed = is_dataframe(given)
    if not framed and isinstance(given, Policy | ContinuousPolicy):
        return given
    try:
        if isinstance(given, Mapping):
            return _from_dict(given)
        if framed:
            return _from_frame(given)
        if callable(given):
            return FunctionPolicy(given)
        array = plain_array(given)
        if isinstance(array, list | tuple) or hasattr(array, "__array__"):
            return TabularPolicy(array)
    except PoliciesError as error:
        text = str(error).removeprefix("policy 'policy', ")
        raise PoliciesError(f"policy {name!r}, {text}") from error
    raise PoliciesError(f"policy {name!r}: expected {_KINDS}; found {type(given).__name__}.")


def _from_dict(given: Mapping[Any, Any]) -> TabularPolicy:
    """A table from ``{state: action}`` or ``{state: {action: probability}}``."""
    if not given:
        raise PoliciesError("expected a dict with a state or more, found an empty one.")
    rows = {
        state: row if isinstance(row, Mapping) else {row: 1.0}
        for state, row in given.items()
        if _is_label_or_row(state, row)
    }
    actions = list(dict.fromkeys(action for row in rows.values() for action in row))
    place = {action: column for column, action in enumerate(actions)}
    table = np.zeros((len(rows), len(actions)))
    for s, (state, row) in enumerate(rows.items()):
        for action, prob in row.items():
            try:
                table[s, place[action]] = plain_array(prob)
            except (TypeError, ValueError) as cause:
                raise PoliciesError(
                    f"state {state!r}, action {action!r}: expected a probability, found {prob!r}."
                ) from cause
    return TabularPolicy(table, list(rows), actions)


def _is_label_or_row(state: Any, row: Any) -> bool:
    """True; what a state is mapped to must be a label or a dict of labels."""
    if not isinstance(row, Mapping) and np.ndim(row):
        raise PoliciesError(
            f"state {state!r}: expected an action or a dict {{action: probability}}, found "
            f"{type(row).__name__}. Name the actions."
        )
    return True


def _from_frame(given: Any) -> TabularPolicy | RowPolicy:
    """A table from columns state, action, prob, or from states in the index and action columns."""
    if hasattr(given, "index") and {*COLUMNS[1:], *BY_ROW[1:]}.isdisjoint(given.columns):
        return TabularPolicy(given.to_numpy(), given.index.tolist(), given.columns.tolist())
    frame = to_polars(given, PoliciesError)
    if "policy" in frame.columns and frame["policy"].n_unique() > 1:
        raise PoliciesError(
            "expected the table of one candidate, found several in the column policy. Give the "
            "table itself as the candidates: bayesdice_ppl.Policies.from_dataframe(table)."
        )
    whole = frame.with_columns(pl.lit("policy").alias("policy"))
    found: list[TabularPolicy | RowPolicy] = [*read_tables(whole, None).values()]
    return found[0]
