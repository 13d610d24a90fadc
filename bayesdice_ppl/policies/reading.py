"""Candidates from a table: one row per policy, state and action."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import polars as pl

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.labels import as_labels, encode, sorted_labels
from bayesdice_ppl.logs.tables import map_columns, read_table
from bayesdice_ppl.policies.policies import Policies
from bayesdice_ppl.policies.tabular import TabularPolicy, check_probabilities

COLUMNS = ("policy", "state", "action", "prob")


def read_policies(
    path: str | os.PathLike[str], *, columns: Mapping[str, str] | None = None
) -> Policies:
    """Read candidates from a CSV or Parquet table ``policy, state, action, prob``.

    A pair of state and action that a policy's rows leave out has probability 0; a state that they
    leave out is refused when the log visits it.

    Parameters
    ----------
    path
        The file.
    columns
        Our name -> the file's name, e.g. ``{"prob": "probability"}``.

    Raises
    ------
    PoliciesError
        The file cannot be read; a probability is outside [0, 1]; those of a state do not sum to 1
        within 1e-6; a (policy, state, action) appears twice. The message says where.
    """
    frame = read_table(path, PoliciesError)
    try:
        return build_policies(frame, columns=columns)
    except PoliciesError as error:
        raise PoliciesError(f"{path}: {error}") from error


def build_policies(frame: pl.DataFrame, *, columns: Mapping[str, str] | None = None) -> Policies:
    """Validate a polars frame of candidates; see `read_policies`."""
    table, _ = map_columns(frame, columns, COLUMNS, COLUMNS, PoliciesError)
    if table.height == 0:
        raise PoliciesError("the table of candidates has no rows.")
    for column in COLUMNS:
        if table[column].null_count():
            row = int(table[column].is_null().arg_true()[0])
            raise PoliciesError(f"row {row + 1}, column {column!r}: the value is missing.")
    policy = as_labels(table["policy"], "policy", PoliciesError).cast(pl.String)
    state = as_labels(table["state"], "state", PoliciesError)
    action = as_labels(table["action"], "action", PoliciesError)
    prob = _probabilities(table["prob"])

    names = np.array(policy.unique(maintain_order=True).to_list(), dtype=object)
    states, actions = sorted_labels(state), sorted_labels(action)
    codes = encode(policy, names), encode(state, states), encode(action, actions)
    _check_duplicates(codes, policy, state, action)

    values = np.zeros((len(names), len(states), len(actions)))
    present = np.zeros((len(names), len(states)), dtype=bool)
    values[codes] = prob
    present[codes[0], codes[1]] = True
    candidates = {}
    for j, name in enumerate(names.tolist()):
        rows = present[j]
        check_probabilities(values[j, rows], states[rows], actions, name)
        candidates[name] = TabularPolicy(values[j, rows], states[rows], actions)
    return Policies(candidates)


def _probabilities(series: pl.Series) -> np.ndarray:
    if series.dtype == pl.String:
        parsed = series.cast(pl.Float64, strict=False)
        if parsed.null_count():
            row = int(parsed.is_null().arg_true()[0])
            raise PoliciesError(
                f"row {row + 1}, column 'prob': expected a number, found the text {series[row]!r}."
            )
        series = parsed
    if not series.dtype.is_numeric():
        raise PoliciesError(f"column 'prob': expected numbers, found {series.dtype}.")
    prob = series.cast(pl.Float64).to_numpy()
    bad = ~((prob >= 0.0) & (prob <= 1.0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise PoliciesError(
            f"row {row + 1}, column 'prob': expected a probability in [0, 1], found {prob[row]:g}."
        )
    return prob


def _check_duplicates(
    codes: tuple[np.ndarray, ...], policy: pl.Series, state: pl.Series, action: pl.Series
) -> None:
    keys = pl.DataFrame({str(i): code for i, code in enumerate(codes)})
    again = ~keys.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    if again.any():
        row = int(again.arg_true()[0])
        raise PoliciesError(
            f"row {row + 1}: policy {policy[row]!r}, state {state[row]!r}, action {action[row]!r} "
            "appears a second time; keep one row."
        )
