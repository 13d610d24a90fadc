"""Markdown tables, and the command, machine and versions that made them."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import polars as pl

PACKAGES = ("bayesdice-ppl", "jax", "numpyro", "numpy", "scipy")
"""Packages whose versions numbers depend on."""


def package_versions(extra: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python, of `PACKAGES`, and of any others."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in (*PACKAGES, *extra)},
    }


def provenance(command: str, *, extra: Sequence[str] = ()) -> list[str]:
    """How a table was made, one sentence a line.

    Parameters
    ----------
    command
        The command that makes it again.
    extra
        Packages whose versions matter beside the usual ones.
    """
    versions = package_versions(extra)
    named = ", ".join(f"{name} {number}" for name, number in versions.items() if name != "python")
    return [
        f"Made by `{command}`.",
        f"Machine: {os.cpu_count()} CPU cores, no accelerator.",
        f"Versions: Python {versions['python']}, {named}.",
    ]


def as_markdown(frame: pl.DataFrame) -> str:
    """Write a data frame as a Markdown table."""
    lines = [frame.columns, ["---"] * len(frame.columns)]
    lines += [[_entry(entry) for entry in row] for row in frame.iter_rows()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _entry(entry: Any) -> str:
    if entry is None:
        return "-"
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    return f"{entry:.4g}" if isinstance(entry, float) else str(entry)
