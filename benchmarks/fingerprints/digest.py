"""Results boiled down to a few numbers, and held against those of an earlier run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

TOLERANCES = {"exact": 1e-10, "network": 1e-6, "svi": 1e-6, "nuts": 1e-3}
"""Largest relative difference of a number, by the kind of its case."""

SINGLE_PRECISION = 1e-6
"""The same for numbers that are kept in single precision."""

_WHOLE = 10
"""Arrays up to this size are kept whole; longer ones as a summary."""
_SMALL = 1e-5
"""Numbers below it count as of this size: a zero may come out as a rounding."""


class Case(NamedTuple):
    """One thing that is run.

    Attributes
    ----------
    kind
        A key of `TOLERANCES`.
    run
        Gives name -> result: numbers, arrays, words, and mappings of these.
    """

    kind: str
    run: Callable[[], Mapping[str, Any]]


class Verdict(NamedTuple):
    """How a case compares with its fingerprint.

    Attributes
    ----------
    case, kind
        Which case.
    worst, where
        Largest relative difference of a number, and of which.
    faults
        Everything that is over the tolerance, differs, is missing or is new.
    """

    case: str
    kind: str
    worst: float
    where: str
    faults: tuple[str, ...]


def digest(found: Mapping[str, Any]) -> dict[str, Any]:
    """Boil results down to JSON, one entry a leaf.

    Words, whole numbers and flags are kept as they are. An array of numbers becomes its shape and,
    where it is long, its mean, standard deviation, mean weighted by position, and ends.
    """
    return dict(_leaves("", found))


def _leaves(path: str, found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, Mapping):
        for name, each in found.items():
            yield from _leaves(f"{path}/{name}" if path else str(name), each)
    elif isinstance(found, list | tuple) and any(isinstance(one, Mapping) for one in found):
        # Rows of a table become its columns.
        for name in found[0]:
            yield from _leaves(f"{path}/{name}", [row[name] for row in found])
    elif isinstance(found, list | tuple) and any(isinstance(one, list | tuple) for one in found):
        for place, each in enumerate(found):
            yield from _leaves(f"{path}[{place}]", each)
    elif found is None or isinstance(found, str | bool | int):
        yield path, found
    else:
        yield path, _array(np.asarray(found))


def _array(array: np.ndarray) -> Any:
    if array.dtype == object and all(one is None or isinstance(one, float) for one in array.flat):
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        words = [str(one) for one in array.ravel().tolist()]
        if len(words) <= _WHOLE:
            return words
        return [len(words), hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]]
    flat = array.ravel().astype(np.float64)
    kind = "i" if array.dtype.kind != "f" else "f4" if array.itemsize < 8 else "f8"
    kept = flat
    if flat.size > _WHOLE:
        place = np.linspace(-1.0, 1.0, flat.size)
        summary = [flat.mean(), flat.std(), float(np.mean(place * flat))]
        kept = np.concatenate([summary, flat[:2], flat[-2:]])
    shape = ",".join(map(str, array.shape))
    return {kind: " ".join([shape or "-", *(f"{number:.12g}" for number in kept)])}


def compare_leaves(case: str, kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Verdict:
    """Hold the digest of a case against its fingerprint."""
    faults = [f"{path}: missing" for path in old if path not in new]
    faults += [f"{path}: new" for path in new if path not in old]
    worst, where = 0.0, ""
    for path in old.keys() & new.keys():
        before, after = old[path], new[path]
        difference, allowed = 0.0, TOLERANCES[kind]
        if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
            (precision,) = before
            difference = _relative(before[precision].split(), after[precision].split())
            if precision != "f8":
                allowed = SINGLE_PRECISION if precision == "f4" else TOLERANCES["exact"]
            if precision == "f8" and difference > worst:
                worst, where = difference, path
        elif isinstance(before, str) and isinstance(after, str):
            # Of long lists in one text only the entries that differ.
            old_parts, new_parts = before.split("; "), after.split("; ")
            faults += [f"{path}: was {one}" for one in old_parts if one not in new_parts]
            faults += [f"{path}: is {one}" for one in new_parts if one not in old_parts]
        elif before != after:
            difference = float("inf")
        if difference > allowed:
            faults.append(f"{path}: differs by {difference:.1e}, was {before}, is {after}")
    return Verdict(case, kind, worst, where, tuple(sorted(faults)))


def _relative(before: list[str], after: list[str]) -> float:
    """Largest difference, relative to the largest number; infinite where the shapes differ."""
    if before[0] != after[0]:
        return float("inf")
    old, new = (np.array(each[1:], dtype=np.float64) for each in (before, after))
    finite = np.isfinite(old)
    same = np.array_equal(old[~finite], new[~finite], equal_nan=True)
    if not same or not np.isfinite(new[finite]).all():
        return float("inf")
    size = np.max(np.abs([old[finite], new[finite]]), initial=_SMALL)
    return float(np.max(np.abs(old[finite] - new[finite]), initial=0.0) / size)
