"""What an experiment is: cells of trials, rows from each trial, and a table and a figure of all.

The rows of every trial are kept, so that a table can be made again without running any trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from bayesdice_ppl.experiments.trials import Cell, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACE = ("world", "behavior", "episodes", "steps")
"""Columns that identify a row's cell."""


class Experiment(Protocol):
    """An experiment, with the choices that it was made with; it is sent to other processes.

    Attributes
    ----------
    name : str
        What ``bayesdice reproduce`` calls it.
    cells : tuple of Cell
        In the order in which they are run.
    settings : dict
        Every choice that rows depend on, beside the cells and the seed; JSON.
    schema : dict
        Name and type of each column that `rows` fills, in order.
    """

    @property
    def name(self) -> str:
        """What the command calls it."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Cells, in the order in which they are run."""

    @property
    def settings(self) -> dict[str, Any]:
        """Every choice that rows depend on, beside the cells and the seed."""

    @property
    def schema(self) -> dict[str, Any]:
        """Name and type of each column that `rows` fills."""

    def rows(self, trial: Trial) -> Sequence[tuple[Any, ...]]:
        """Ask every method about one log: rows in the order of `schema`."""

    def summarize(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Sum up the rows of all trials, with the columns `PLACE` and ``trial``."""

    def tables(self, summary: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Make the tables for readers from the summary, each by its heading."""

    def remarks(self, summary: pl.DataFrame) -> tuple[str, ...]:
        """Say in sentences what the table shows, and what its columns are."""

    def figure(self, summary: pl.DataFrame) -> Figure:
        """Draw the summary."""
