"""What is kept of beliefs and of nested results: everything but the words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr

WORDS = frozenset(("answer", "notes", "reason", "reasons", "statement", "versions", "warnings"))
"""Entries of results that are sentences, of which only the number is kept."""


def describe(belief: xr.DataTree) -> dict[str, Any]:
    """Everything that a belief holds, but its words."""
    found: dict[str, Any] = {}
    for group in sorted(belief.children):
        for name, variable in belief[group].data_vars.items():
            dims = ",".join(map(str, variable.dims))
            found[f"{group}/{name}({dims})"] = variable.to_numpy()
        for name, values in belief[group].coords.items():
            repeated = name in ("policy", "other_policy") and group != "posterior"
            if repeated or values.dtype.kind in "iu":
                continue
            found[f"{group}/coords/{name}"] = values.to_numpy()
    attrs: dict[str, Any] = {}
    for name, text in belief.attrs.items():
        if name in ("created_at", "versions"):
            continue
        if name == "support_warnings":
            rows = json.loads(text)
            attrs[name] = [f"{row['policy']}: {row['abstain']}" for row in rows]
        elif name == "settings":
            attrs[name] = settings_text(_read(text))
        else:
            attrs[name] = _read(text)
    return found | {"attrs": attrs}


def settings_text(settings: Mapping[str, Any]) -> str:
    """All settings in one text, sorted by name."""
    return "; ".join(f"{name}={settings[name]}" for name in sorted(settings))


def _read(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def plain(content: Any) -> Any:
    """Leave the words out of nested results, and keep how many there are."""
    if isinstance(content, Mapping):
        kept = {}
        for name, each in content.items():
            if name not in WORDS:
                kept[name] = plain(each)
            elif isinstance(each, list | tuple):
                kept[f"n_{name}"] = len(each)
        return kept
    if isinstance(content, list | tuple):
        return [plain(each) for each in content]
    return content
