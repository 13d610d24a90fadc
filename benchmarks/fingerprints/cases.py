"""The list of all cases."""

from __future__ import annotations

from benchmarks.fingerprints import estimates, fits, outside, rankings
from benchmarks.fingerprints.digest import Case


def cases() -> dict[str, Case]:
    """Give every case by name, those first that all others rest on."""
    return {**fits.cases(), **rankings.cases(), **estimates.cases(), **outside.cases()}
