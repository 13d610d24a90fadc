"""Experiences of RLlib: sample batches, a line of JSON each or a table with the same columns.

Rows of one ``eps_id`` are one episode, in the order of ``t``, wherever they stand. Batches whose
columns were compressed hold pickles, which are never read: they could run code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row
from bayesdice_ppl.logs.sources.arrays import (
    PointArray,
    check_length,
    is_whole_array,
    read_flags,
    read_numbers,
    read_points,
    rows_of,
)
from bayesdice_ppl.logs.sources.json_lines import read_objects
from bayesdice_ppl.logs.sources.source import Source, SourceTable

LAYOUT = "RLlib"
_REQUIRED = ("obs", "actions", "rewards", "eps_id")
_FLAGS = {"terminated": "terminateds", "truncated": "truncateds"}
_USED = (*_REQUIRED, *_FLAGS.values(), "new_obs", "t", "agent_index", "action_prob", "action_logp")
_KEPT = ("dones",)
_CLOSE = 1e-3


def is_sample_batch(one: Mapping[str, Any]) -> bool:
    """Whether an object of JSON is a batch of RLlib."""
    kind = one.get("type")
    return isinstance(kind, str) and kind in ("SampleBatch", "MultiAgentBatch")


def is_rllib_table(names: Collection[str]) -> bool:
    """Whether a table has the columns of RLlib's experiences, by their names."""
    return set(_REQUIRED) <= set(names)


def check_no_episodes(frame: pl.DataFrame) -> None:
    """Refuse Parquet of whole episodes, as RLlib writes them by default: one column of bytes.

    Raises
    ------
    LogsError
        It is that.
    """
    if frame.columns == ["item"] and frame["item"].dtype == pl.Binary:
        raise LogsError(
            f"{LAYOUT}: expected a row for each step, found whole episodes in a column 'item', "
            "packed with msgpack, which may hold pickles and is not read. Write the log as a "
            "table: config.offline_data(output_write_episodes=False, output_compress_columns=[])."
        )


def read_rllib(source: Any) -> SourceTable:
    """Read sample batches.

    Parameters
    ----------
    source
        A path (plain or ``.gz``), several paths, lines of text, a batch, or a list of batches.

    Raises
    ------
    LogsError
        A batch is compressed, of several agents, or lacks a column: the line, and what is wrong.
    """
    batches = []
    for where, one in read_objects([source] if isinstance(source, Mapping) else source, LAYOUT):
        if is_sample_batch(one) and one["type"] != "SampleBatch":
            raise LogsError(
                f"{LAYOUT}, {where}: expected a SampleBatch, found a MultiAgentBatch. Write the "
                "batches of the one policy whose log this is."
            )
        columns = {key: value for key, value in one.items() if key != "type"}
        batches.append((f"{LAYOUT}, {where}", columns))
    if not batches:
        raise LogsError(f"{LAYOUT}: expected sample batches, found none.")
    return _table([(where, _read(columns, where)) for where, columns in batches], batches)


def read_rllib_table(frame: pl.DataFrame) -> SourceTable:
    """Read a table with the columns of RLlib's experiences, one row a step.

    Raises
    ------
    LogsError
        As `read_rllib`.
    """
    columns = {name: frame[name].to_list() for name in frame.columns}
    return _table([(LAYOUT, _read(columns, LAYOUT))], [(LAYOUT, columns)])


def _read(columns: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The columns of one batch, as arrays of one length."""
    for name in (*_REQUIRED, "new_obs"):
        if isinstance(columns.get(name), str):
            raise LogsError(
                f"{where}: expected {name} as numbers, found text: it is compressed, and holds a "
                "pickle, which is never read. Write it again with "
                "output_config={'compress_columns': []}."
            )
    missing = [name for name in _REQUIRED if name not in columns]
    if missing:
        raise LogsError(
            f"{where}: expected the columns {', '.join(_REQUIRED)}, found no {listed(missing)}. "
            f"There is {listed(columns) or 'nothing'}."
        )
    n = len(rows_of(columns["rewards"], where, "rewards"))
    seen = read_points(columns["obs"], where, "obs")
    acted = read_points(columns["actions"], where, "actions")
    check_length(len(seen.values), n, where, "obs")
    check_length(len(acted.values), n, where, "actions")
    read: dict[str, Any] = {
        "seen": seen,
        "acted": acted,
        "reward": read_numbers(columns["rewards"], n, where, "rewards"),
        "episode": _labels(columns["eps_id"], n, where, "eps_id"),
    }
    if "new_obs" in columns:
        read["following"] = read_points(columns["new_obs"], where, "new_obs")
        check_length(len(read["following"].values), n, where, "new_obs")
    for key, name in _FLAGS.items():
        if name in columns:
            read[key] = read_flags(columns[name], n, where, name)
    for name in _KEPT:
        if name in columns:
            read[name] = read_flags(columns[name], n, where, name)
    for key, name in (("t", "t"), ("agent", "agent_index")):
        if name in columns:
            read[key] = _labels(columns[name], n, where, name)
    chance = _chances(columns, n, where)
    if chance is not None:
        read["propensity"] = chance
    return read


def _labels(values: Any, n: int, where: str, name: str) -> np.ndarray:
    points = read_points(values, where, name)
    array = points.values
    if points.vectors:
        if array.shape[1] != 1 or not is_whole_array(array):
            raise LogsError(f"{where}: expected {name} as one whole number a step.")
        array = array[:, 0].astype(np.int64)
    check_length(len(array), n, where, name)
    return array


def _chances(columns: Mapping[str, Any], n: int, where: str) -> np.ndarray | None:
    """Probabilities or densities: as they are, or from their logarithms."""
    read = {
        name: read_numbers(columns[name], n, where, name)
        for name in ("action_prob", "action_logp")
        if columns.get(name) is not None
    }
    if not read:
        return None
    chance = read.get("action_prob")
    with np.errstate(over="ignore"):  # what overflows is refused as no finite number
        logged = np.exp(read["action_logp"]) if "action_logp" in read else None
    if chance is None or logged is None:
        return logged if chance is None else chance
    broken = np.abs(chance - logged) > _CLOSE * np.maximum(np.abs(chance), np.abs(logged))
    if broken.any():
        at = first_row(broken)
        raise LogsError(
            f"{where}, step {at + 1:,}: expected one probability, found action_prob {chance[at]:g} "
            f"and exp(action_logp) {logged[at]:g}. Leave the wrong one out."
        )
    return chance


def _table(read: list[tuple[str, dict[str, Any]]], given: list[tuple[str, Any]]) -> SourceTable:
    first_where, first = read[0]
    for where, one in read[1:]:
        if set(one) != set(first):
            raise LogsError(
                f"{where}: expected the columns that {first_where} has, {listed(sorted(first))}, "
                f"found {listed(sorted(one))}."
            )
        for key, name in (("seen", "obs"), ("acted", "actions"), ("following", "new_obs")):
            if key in first and one[key].values.shape[1:] != first[key].values.shape[1:]:
                raise LogsError(
                    f"{where}: expected {name} that are {first[key].words}, as {first_where} has, "
                    f"found {one[key].words}."
                )

    def whole(key: str) -> np.ndarray:
        return np.concatenate([one[key] for _, one in read])

    def points(key: str) -> PointArray:
        return PointArray(np.concatenate([one[key].values for _, one in read]))

    seen, acted = points("seen"), points("acted")
    before, after = ("obs", "next_obs") if seen.vectors else ("state", "next_state")
    episode, notes = whole("episode"), []
    frame: dict[str, pl.Series] = {"episode_id": pl.Series(episode)}
    if "agent" in first and len(np.unique(whole("agent"))) > 1:
        both = [f"{e}/{a}" for e, a in zip(episode, whole("agent"), strict=True)]
        frame["episode_id"] = pl.Series(both)
        notes.append("Each agent of an episode (agent_index) is an episode of its own.")
    taken = {"episode_id": "eps_id"}
    if "t" in first:
        frame["step"], taken["step"] = pl.Series(whole("t")), "t"
    frame[before], taken[before] = seen.series(), f"obs ({seen.words})"
    frame["action"], taken["action"] = acted.series(), f"actions ({acted.words})"
    frame["reward"], taken["reward"] = pl.Series(whole("reward")), "rewards"
    if "following" in first:
        following = points("following")
        if following.values.shape[1:] != seen.values.shape[1:]:
            raise LogsError(
                f"{LAYOUT}: expected new_obs that are {seen.words}, as obs are, found "
                f"{following.words}."
            )
        frame[after], taken[after] = following.series(), "new_obs"
    for key, name in _FLAGS.items():
        if key in first:
            frame[key], taken[key] = pl.Series(whole(key)), name
    if "propensity" in first:
        logs_only = "action_prob" not in given[0][1]
        frame["propensity"] = pl.Series(whole("propensity"))
        taken["propensity"] = "exp(action_logp)" if logs_only else "action_prob"
    for name in _KEPT:
        if name in first and "terminated" not in first:
            frame[name] = pl.Series(whole(name))
    left = sorted({str(name) for _, one in given for name in one} - {*_USED, *_KEPT})
    if left:
        notes.append(f"Not used: {', '.join(left)}.")
    table = pl.DataFrame(frame)
    ordered = _in_time(table)
    if ordered is not table:
        notes.append("Fragments of episodes stood apart: rows are in the order of eps_id and t.")
    return SourceTable(ordered, Source(LAYOUT, taken, tuple(notes)))


def _in_time(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of each episode together and by t; the table itself where they are so already."""
    if "step" not in table.columns or not table["step"].dtype.is_numeric():
        return table
    labels = table["episode_id"].to_numpy()
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    order = np.lexsort((table["step"].to_numpy(), first[number]))
    return table if (np.diff(order) == 1).all() else table[order]
