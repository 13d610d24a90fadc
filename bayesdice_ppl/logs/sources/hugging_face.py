"""Datasets of Hugging Face and tables like them: a row for each step, or for each episode.

Where a row is an episode, its columns hold lists, one entry a step. It is read as a dict of arrays
then. Where a row is a step, the table is one as any other, under its own names.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.familiar import spellings
from bayesdice_ppl.logs.sources.episode_dicts import read_episodes
from bayesdice_ppl.logs.sources.source import Source, SourceTable
from bayesdice_ppl.logs.tables import to_polars

LAYOUT = "Hugging Face columns"


def read_hugging_face(dataset: Any) -> SourceTable:
    """Read a dataset of one split.

    Parameters
    ----------
    dataset
        A ``datasets.Dataset`` (anything with ``with_format``), or any dataframe.

    Raises
    ------
    LogsError
        Several splits, a stream, or no table.
    """
    frame = _frame(dataset)
    if frame.height == 0:
        raise LogsError(f"{LAYOUT}: expected rows, found none.")
    if not has_episode_rows(frame):
        return SourceTable(frame, Source(LAYOUT, {"each row": "a step, under its own names"}))
    return read_episode_rows(frame)


def has_episode_rows(frame: pl.DataFrame) -> bool:
    """Whether a row is an episode: its rewards are a list of numbers."""
    return any(
        spellings("reward", name) and isinstance(dtype, pl.List | pl.Array)
        for name, dtype in frame.schema.items()
    )


def read_episode_rows(frame: pl.DataFrame) -> SourceTable:
    """Read a table with a row for each episode, whose columns hold lists.

    Raises
    ------
    LogsError
        Lists of different lengths: which row, and how many.
    """
    lists = [n for n, dtype in frame.schema.items() if isinstance(dtype, pl.List | pl.Array)]
    label = next((n for n in frame.columns if n not in lists and spellings("episode_id", n)), None)
    labels = range(frame.height) if label is None else frame[label].to_list()
    if label is not None and len(set(labels)) != frame.height:
        raise LogsError(
            f"{LAYOUT}: expected an episode a row, found a label of {label!r} twice. Number the "
            "episodes."
        )
    single = [n for n in frame.columns if n not in lists and n != label]
    flags = [n for n in single if spellings("terminated", n) or spellings("truncated", n)]
    episodes = {}
    for key, row in zip(labels, frame.select(lists + flags).iter_rows(named=True), strict=True):
        empty = [name for name, value in row.items() if value is None]
        if empty:
            raise LogsError(
                f"{LAYOUT}, episode {key!r}: expected a list of {empty[0]}, found none."
            )
        episodes[key] = row
    table = read_episodes(episodes)
    source = Source(f"{LAYOUT}, an episode a row", table.source.taken, table.source.notes)
    left = [n for n in single if n not in flags]
    read = table._replace(source=source)
    return read.with_note(f"Not used: {', '.join(left)}.") if left else read


def _frame(dataset: Any) -> pl.DataFrame:
    if hasattr(dataset, "with_format") and hasattr(dataset, "column_names"):
        names = dataset.column_names
        if isinstance(names, dict):
            raise LogsError(
                f"{LAYOUT}: expected one split, found {listed(names)}. Choose one, such as "
                f"dataset[{next(iter(names), 'train')!r}]."
            )
        if not hasattr(dataset, "__len__"):
            raise LogsError(
                f"{LAYOUT}: expected a dataset that is loaded, found a stream. Load it without "
                "streaming=True."
            )
        # With its order and selection, which the table behind it does not have.
        dataset = dataset.with_format("arrow")[:]
    if isinstance(dataset, dict):
        try:
            return pl.DataFrame(dataset)
        except (pl.exceptions.PolarsError, TypeError, ValueError) as cause:
            raise LogsError(
                f"{LAYOUT}: expected columns of one length, cannot be read: "
                f"{str(cause).splitlines()[0]}"
            ) from cause
    return to_polars(dataset, LogsError)
