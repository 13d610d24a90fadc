"""The entries of nested objects: paths such as ``User.country``, and one text for all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


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
    return value if isinstance(value, str) else json.dumps(value)
