"""The entries of nested objects: paths such as ``User.country``, their columns and their text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from bayesdice_ppl.checks import is_number, is_whole


def leaves_of(thing: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Path -> value of all entries; a list of one object counts as that object.

    Parameters
    ----------
    thing
        An object of JSON.
    before
        The path to it.
    """
    found: dict[str, Any] = {}
    for key, value in thing.items():
        path = f"{before}.{key}" if before else str(key)
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for k, item in enumerate(value):
                found.update(leaves_of(item, path if len(value) == 1 else f"{path}.{k}"))
        elif isinstance(value, Mapping):
            found.update(leaves_of(value, path))
        elif value is not None:
            found[path] = value
    return found


def text_of(leaves: Mapping[str, Any]) -> str:
    """One text: ``country=US, device=phone``, sorted by path; what starts with _ is no feature."""
    parts = [
        f"{path}={_written(value)}"
        for path, value in sorted(leaves.items())
        if not any(part.startswith("_") and part != "_text" for part in path.split("."))
    ]
    return ", ".join(parts) or "-"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def column_of(values: list[Any]) -> pl.Series:
    """A column of entries that may be missing: numbers, flags, vectors, or else texts."""
    held = [value for value in values if value is not None]
    if held and all(isinstance(value, bool) for value in held):
        return pl.Series(values, dtype=pl.Boolean)
    if held and all(is_whole(value) and abs(value) < 2**63 for value in held):
        return pl.Series(values, dtype=pl.Int64)
    if held and all(is_number(value) for value in held):
        return pl.Series(values, dtype=pl.Float64, strict=False)
    if held and all(isinstance(value, list) and all(map(is_number, value)) for value in held):
        return pl.Series(
            [None if v is None else [float(number) for number in v] for v in values],
            dtype=pl.List(pl.Float64),
        )
    return pl.Series([None if v is None else _written(v) for v in values], dtype=pl.String)
