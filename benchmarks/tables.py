"""Result tables as files: CSV for programs, Markdown for readers.

A measurement is worth little without what it was made with, so both files open with the command
that redoes them, the number of CPU cores and the versions.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from bayesdice_ppl.experiments.tables import as_markdown, provenance

RESULTS = Path(__file__).parent / "results"


def write_table(
    name: str,
    rows: Sequence[Mapping[str, object]],
    *,
    command: str,
    notes: Sequence[str] = (),
    folder: Path = RESULTS,
) -> str:
    """Write rows to ``name.csv`` and ``name.md``.

    Parameters
    ----------
    name
        The files' stem.
    rows
        Column -> entry, the same columns in every row.
    command
        The command that makes the table again.
    notes
        Sentences that explain the columns, for the Markdown file.
    folder
        Where to write; made if missing.

    Returns
    -------
    str
        The Markdown table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    exact = pl.DataFrame([dict(row) for row in rows], infer_schema_length=None)
    frame = exact.with_columns(pl.col(pl.Float64).round_sig_figs(5))
    head = provenance(command)
    comments = "".join(f"# {line}\n" for line in head)
    _replace(folder / f"{name}.csv", comments + frame.write_csv())
    table = as_markdown(frame)
    blocks = [f"# {name.capitalize()}", "\n".join(head), table, *notes]
    _replace(folder / f"{name}.md", "\n\n".join(blocks) + "\n")
    return table


def _replace(path: Path, text: str) -> None:
    # Renamed into place, so that an interrupted run leaves the last complete table.
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
