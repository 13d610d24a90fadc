"""Tables in files: CSV in its many spellings, JSON lines and Parquet.

The first lines of a CSV tell its separator. Where that is no comma, numbers may have decimal
commas; only columns that must hold numbers are read so, since ``1,5`` may be a label elsewhere.
"""

from __future__ import annotations

import codecs
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path

import polars as pl
import pyarrow as pa

from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.logs.limits import check_depth, check_parquet, unzip

_READERS = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
    ".parquet": "Parquet",
    ".pq": "Parquet",
}
_ENDINGS = ".csv, .tsv, .json, .jsonl, .ndjson (each also with .gz), .parquet or .pq"
_SEPARATORS = (",", ";", "\t", "|")
_SNIFFED = 65_536
"""Bytes of a file that tell its separator and its encoding."""
_GZIP = b"\x1f\x8b"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Bytes with which a file tells its encoding."""
_FAULTS = (
    pl.exceptions.PolarsError,
    pa.ArrowException,
    OSError,
    EOFError,
    UnicodeError,
    MemoryError,
    zlib.error,
)
"""What readers raise at files that are damaged, or of another kind."""
_DECIMAL = r"^\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*$"


def is_table(path: Path) -> bool:
    """Whether a file's ending is that of a table."""
    zipped = path.suffix.lower() == ".gz"
    return Path(path.stem if zipped else path).suffix.lower() in _READERS


def read_file(
    path: str | os.PathLike[str],
    error: type[BayesDiceError],
    *,
    is_number: Callable[[str], bool] = lambda name: False,
    texts: Sequence[str] = (),
) -> pl.DataFrame:
    """Read a table from a file.

    Parameters
    ----------
    path
        File ending in ``.csv``, ``.tsv``, ``.json`` (a line an object), ``.jsonl`` or ``.ndjson``,
        each also with ``.gz``, in ``.parquet`` or ``.pq``. The separator of a CSV may be a comma, a
        semicolon, a tab or a bar.
    error
        The exception class to raise, which says whose table it is.
    is_number
        Whether a column of this name must hold numbers, so that decimal commas are read.
    texts
        Columns of a CSV that are text, whatever they look like: 01 may be a name, and not 1.

    Returns
    -------
    polars.DataFrame
        The table as it stands, types inferred from all rows.

    Raises
    ------
    BayesDiceError
        The file is missing, empty, of another kind, or cannot be parsed.
    """
    path = Path(path)
    zipped = path.suffix.lower() == ".gz"
    kind = _READERS.get(Path(path.stem if zipped else path).suffix.lower())
    if kind is None or (zipped and kind == "Parquet"):
        raise error(
            f"{path}: expected a file ending in {_ENDINGS}, found "
            f"{path.suffix or 'no ending'!r}. Convert it, or read it yourself and use "
            "from_dataframe."
        )
    if not path.exists():
        raise error(f"{path}: no such file. Check the path.")
    if not path.is_file():
        raise error(f"{path}: expected a file, found a folder. Give the path of a file.")
    if path.stat().st_size == 0:
        raise error(f"{path}: expected a header and rows, found an empty file.")
    try:
        if kind == "Parquet":
            return _read_parquet(path, error)
        source, start = _plain_text(path, error)
        if kind == "JSON lines":
            check_depth(path, source.getvalue() if isinstance(source, BytesIO) else None, error)
            return _read_lines(path, source, error)
        separator = separator_of(start)
        # Types from the whole file: a column that turns to text at row 5,000 must not surprise.
        kept = dict.fromkeys(texts, pl.String)
        frame = pl.read_csv(
            source, infer_schema_length=None, separator=separator, schema_overrides=kept
        )
    except _FAULTS as cause:
        first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        hint = ". Save it in UTF-8" if "utf-8" in first_line.lower() else ""
        raise error(f"{path}: cannot be read as {kind}: {first_line}{hint}") from cause
    for name in frame.columns:
        # Polars gives this name to the second column of a name.
        original, mark, _ = name.rpartition("_duplicated_")
        if mark and original in frame.columns:
            raise error(f"{path}: column {original!r} appears more than once. Keep one.")
    return frame if separator == "," else _with_decimal_points(frame, is_number)


def _read_lines(path: Path, source: Path | BytesIO, error: type[BayesDiceError]) -> pl.DataFrame:
    """Read JSON lines, of which none names a column twice: readers differ in which they take."""
    content = source.getvalue() if isinstance(source, BytesIO) else source.read_bytes()
    frame = pl.read_ndjson(BytesIO(content), infer_schema_length=None)
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    if len(lines) != frame.height:
        raise error(
            f"{path}: expected a row in each of {len(lines):,} lines, found {frame.height:,} rows. "
            "Write one object a line."
        )
    # A line with every column, and as many names as columns, has each once.
    whole = frame.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    for (number, line), complete in zip(lines, whole, strict=True):
        if complete and line.count(b'":') == frame.width:
            continue
        pairs = json.loads(line, object_pairs_hook=list)
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise error(f"{path}, line {number}: {twice!r} is given twice. Give it once.")
    return frame


def read_parquet(path: Path, error: type[BayesDiceError]) -> tuple[pl.DataFrame, Mapping[str, str]]:
    """Read Parquet with the metadata that its writer added.

    Parameters
    ----------
    path
        The file.
    error
        The exception class to raise.

    Raises
    ------
    BayesDiceError
        The file is missing, damaged or no Parquet.
    """
    import pyarrow.parquet as pq

    try:
        frame = _read_parquet(path, error)
        added = pq.read_metadata(path).metadata or {}
    except _FAULTS as cause:
        first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise error(f"{path}: cannot be read as Parquet: {first_line}") from cause
    texts = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in added.items()}
    return frame, texts


def _read_parquet(path: Path, error: type[BayesDiceError]) -> pl.DataFrame:
    """Read Parquet by Arrow, which says what is damaged, where polars writes panics to stderr."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        check_parquet(path, file, error)
        table = file.read()
    table.validate(full=True)
    # Without metadata of its columns, which may be damaged too and says nothing of their content.
    plain = pa.Table.from_arrays([_plain(c) for c in table.columns], names=table.column_names)
    frame = pl.from_arrow(plain)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column of UUIDs as their texts; any other as it is."""
    if "uuid" not in str(column.type):
        return column
    return pa.array([None if value is None else str(value) for value in column.to_pylist()])


def separator_of(start: str) -> str:
    """The separator of a CSV: of those in the header, outside quotes, the most frequent one."""
    header = next((line for line in start.splitlines() if line.strip()), "")
    outside = "".join(header.split('"')[::2])
    return max(_SEPARATORS, key=outside.count)


def _plain_text(path: Path, error: type[BayesDiceError]) -> tuple[Path | BytesIO, str]:
    """What polars can read of a file of text, unzipped and in UTF-8, and how it starts."""
    with path.open("rb") as file:
        start = file.read(_SNIFFED)
    zipped = start.startswith(_GZIP)
    if zipped:
        start = unzip(path, error)
    mark = next((mark for mark in _MARKS if start.startswith(mark)), b"")
    if not zipped and not mark:
        return path, start.decode("utf-8", errors="replace")
    content = start if zipped else path.read_bytes()
    if mark:
        content = content.decode(_MARKS[mark]).encode()
    return BytesIO(content), content[:_SNIFFED].decode("utf-8", errors="replace")


def _with_decimal_points(frame: pl.DataFrame, is_number: Callable[[str], bool]) -> pl.DataFrame:
    """Read the decimal commas of columns that must hold numbers."""
    changed = []
    for series in frame.get_columns():
        if series.dtype != pl.String or not is_number(series.name):
            continue
        fits = series.str.contains(_DECIMAL)
        points = series.str.strip_chars().str.replace(",", ".")
        # What is no number stays, and the message about it names its row.
        mended = pl.select(pl.when(fits).then(points).otherwise(series).alias(series.name))
        column = mended.to_series()
        changed.append(column.cast(pl.Float64) if fits.all() else column)
    return frame.with_columns(changed)
