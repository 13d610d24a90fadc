"""The table of candidates: one row per policy, state and action."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.labels import as_labels, encode, sorted_labels
from bayesdice_ppl.logs.tables import map_columns
from bayesdice_ppl.policies.by_row import RowPolicy
from bayesdice_ppl.policies.tabular import TabularPolicy, whole_probabilities

COLUMNS = ("policy", "state", "action", "prob")
BY_ROW = ("policy", "row", "action", "prob")
"""The columns of a table by logged row."""
_MOST_NUMBERS = 1_000_000_000
"""Policies times states times actions, beyond which a table is not laid out: memory."""


def read_tables(
    frame: pl.DataFrame, columns: Mapping[str, str] | None
) -> dict[str, TabularPolicy] | dict[str, RowPolicy]:
    """Validate a table ``policy, state, action, prob``, or ``policy, row, action, prob``.

    Parameters
    ----------
    frame
        The table. A pair of state and action that a policy's rows leave out has probability 0.
    columns
        Our name -> the table's name.

    Returns
    -------
    dict
        Name -> policy, in the order of first appearance.

    Raises
    ------
    PoliciesError
        With the row, the policy and the state; or there are columns of both states and rows.
    """
    mapped = columns or {}
    held = {*frame.columns} - {*mapped.values()} | {*mapped}
    both = {"row", "state"} <= held
    if both and not {"row", "state"} & {*mapped}:
        raise PoliciesError(
            "expected a column 'state' or, for candidates by row of the log, a column 'row', found "
            "both. Leave one of them out, or map one of them to choose it: "
            "columns={'state': 'state'}."
        )
    by_row = "row" in held and ("row" in mapped or "state" not in held)
    names_of = BY_ROW if by_row else COLUMNS
    table, unused = map_columns(frame, columns, names_of, names_of, PoliciesError)
    if table.height == 0:
        raise PoliciesError("expected a table of candidates with rows, found none.")
    for column in names_of:
        if table[column].null_count():
            row = int(table[column].is_null().arg_true()[0])
            raise PoliciesError(
                f"row {row + 1}, column {column!r}: the value is missing. Fill it in."
            )
    policy = as_labels(table["policy"], "policy", PoliciesError).cast(pl.String)
    where = "row" if by_row else "state"
    state = as_labels(table[where], where, PoliciesError)
    action = as_labels(table["action"], "action", PoliciesError)
    prob = _probabilities(table["prob"])

    names = np.array(policy.unique(maintain_order=True).to_list(), dtype=object)
    states, actions = sorted_labels(state), sorted_labels(action)
    codes = encode(policy, names), encode(state, states), encode(action, actions)
    _check_duplicates(codes, policy, (where, state), action)
    if by_row:
        return _by_row(codes, (names, states, actions), prob, unused)

    size = len(names) * len(states) * len(actions)
    if size > _MOST_NUMBERS:
        raise PoliciesError(
            f"expected at most {_MOST_NUMBERS:,} probabilities, found {len(names):,} policies x "
            f"{len(states):,} states x {len(actions):,} actions in {table.height:,} rows. Give the "
            "candidates as functions in Python, or fewer at a time."
        )
    values = np.zeros((len(names), len(states), len(actions)))
    given = np.zeros(values.shape, dtype=bool)
    values[codes], given[codes] = prob, True
    present = given.any(axis=2)
    candidates = {}
    for j, name in enumerate(names.tolist()):
        rows = present[j]
        written, mine = given[j, rows], states[rows]
        whole, rounding = whole_probabilities(values[j, rows], mine, actions, name, written)
        candidates[name] = TabularPolicy(whole, mine, actions)
        candidates[name].rounding = rounding
        candidates[name].left_out = unused
    return candidates


def _by_row(
    codes: tuple[np.ndarray, ...],
    labels: tuple[np.ndarray, ...],
    prob: np.ndarray,
    unused: tuple[str, ...],
) -> dict[str, RowPolicy]:
    names, rows, actions = labels
    if rows.dtype == object:
        raise PoliciesError(
            f"column 'row': expected rows of the log, counted from 1, found {rows[0]!r}. States "
            "that are labels belong in a column 'state'."
        )
    candidates = {}
    for j, name in enumerate(names.tolist()):
        mine = codes[0] == j
        own, place = np.unique(codes[1][mine], return_inverse=True)
        values = np.zeros((len(own), len(actions)))
        values[place.ravel(), codes[2][mine]] = prob[mine]
        try:
            candidates[name] = RowPolicy(values, actions.tolist(), rows[own])
        except PoliciesError as error:
            raise PoliciesError(f"policy {name!r}, {error}") from error
        candidates[name].left_out = unused
    return candidates


def write_tables(policies: Mapping[str, TabularPolicy]) -> pl.DataFrame:
    """Write candidates as a table ``policy, state, action, prob``; the inverse of `read_tables`."""
    frames = []
    for name, policy in policies.items():
        n_states, n_actions = policy.probabilities.shape
        frames.append(
            pl.DataFrame(
                {
                    "policy": [name] * (n_states * n_actions),
                    "state": np.repeat(policy.states, n_actions).tolist(),
                    "action": np.tile(policy.actions, n_states).tolist(),
                    "prob": policy.probabilities.ravel(),
                }
            )
        )
    return pl.concat(frames)


def _probabilities(series: pl.Series) -> np.ndarray:
    if series.dtype == pl.String:
        parsed = series.cast(pl.Float64, strict=False)
        if parsed.null_count():
            row = int(parsed.is_null().arg_true()[0])
            raise PoliciesError(
                f"row {row + 1}, column 'prob': expected a number, found the text {series[row]!r}. "
                "Write every entry as a number, such as 0.5."
            )
        series = parsed
    if not series.dtype.is_numeric():
        raise PoliciesError(f"column 'prob': expected numbers, found {series.dtype}. Convert it.")
    prob = series.cast(pl.Float64).to_numpy()
    bad = ~((prob >= 0.0) & (prob <= 1.0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise PoliciesError(
            f"row {row + 1}, column 'prob': expected a probability in [0, 1], found {prob[row]:g}. "
            "Correct it."
        )
    return prob


def _check_duplicates(
    codes: tuple[np.ndarray, ...],
    policy: pl.Series,
    place: tuple[str, pl.Series],
    action: pl.Series,
) -> None:
    where, state = place
    keys = pl.DataFrame({str(i): code for i, code in enumerate(codes)})
    again = ~keys.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    if again.any():
        row = int(again.arg_true()[0])
        raise PoliciesError(
            f"row {row + 1}: expected each policy, {where} and action once, found policy "
            f"{policy[row]!r}, {where} {state[row]!r}, action {action[row]!r} a second time. Keep "
            "one row."
        )
