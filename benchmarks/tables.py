"""Result tables as files: CSV for programs, Markdown for readers.

Both files open with the command that makes them again, the number of CPU cores and the versions.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from bayesdice_ppl.experiments.tables import as_markdown, provenance
from bayesdice_ppl.outputs import staged_file

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
    # Renamed into place, so that an interrupted run leaves the last complete table.
    with staged_file(folder / f"{name}.csv") as scratch:
        scratch.write_text(comments + frame.write_csv(), encoding="utf-8")
    table = as_markdown(frame)
    blocks = [f"# {name.capitalize().replace('_', ' ')}", "\n".join(head), table, *notes]
    with staged_file(folder / f"{name}.md") as scratch:
        scratch.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return table
