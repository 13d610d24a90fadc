"""Columns that are missing, or that look like ours and are not mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from bayesdice_ppl.checking.fault import ERROR, WARNING, Fault, Mend
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.familiar import effects_of, guess
from bayesdice_ppl.logs.schema import COLUMNS, find_columns

NEEDED = ("state", "action", "reward")
MISSING, ALIKE, OTHER = "missing columns", "columns that look like ours", "columns"


def find(
    frame: pl.DataFrame, columns: Mapping[str, str] | None, ignore: Sequence[str] = ()
) -> tuple[list[Fault], dict[str, str]]:
    """Find faults of the columns, and the mapping under which the table is looked at further.

    Parameters
    ----------
    frame, columns, ignore
        As for `Logs.from_dataframe`.

    Returns
    -------
    (list of Fault, dict)
        The faults; and the user's mapping with the columns that seem to be meant.
    """
    mapping = dict(columns or {})
    found: list[Fault] = []
    held = [name for name in frame.columns if name not in ignore]
    for _ in range(4):
        try:
            taken = find_columns(frame, mapping, [name for name in ignore if name in held])
        except LogsError as error:
            missing = _missing(held, mapping)
            if not missing:
                return [*found, Fault(OTHER, ERROR, "", str(error))], mapping
            several = [key for key in missing if key != "state" or "obs" not in missing]
            for key in several:
                name = missing[key]
                sentence = f"There is no column {key!r}."
                if key in ("state", "obs"):
                    sentence = "There is no column 'state' (or, for vectors, 'obs')."
                mend = None
                if name:
                    sentence += f" {name!r} looks like it."
                    mend = Mend("Rename it, if it is.", (_renaming(held, name, key),))
                    mapping[key] = name
                found.append(Fault(MISSING, ERROR, name or "", sentence, mend=mend))
            if not all(missing[key] for key in several):
                return [*found, *_by_name(held, mapping)], mapping
            continue
        unused = [name for name in taken.unused if name not in ignore]
        alike, told = effects_of(frame, taken.frame, taken.vectors, unused)
        if not told:
            break
        for key, how in told.items():
            name = alike[key]
            sentence = f"{name!r} looks like {key!r} and is not mapped: {how}"
            words = "Rename it, if it is. (If it is not, ignore it: ignore=, --ignore.)"
            mend = Mend(words, (_renaming(held, name, key),))
            found.append(Fault(ALIKE, ERROR, name, sentence, mend=mend))
        mapping |= {key: alike[key] for key in told}
    return found, mapping


def _by_name(held: Sequence[str], mapping: Mapping[str, str]) -> list[Fault]:
    """What looks like a column that a log may have, where the log cannot be read yet."""
    keys = [key for key in COLUMNS if key not in (*NEEDED, "obs", "allowed_actions")]
    own = [name for name in held if name not in mapping.values()]
    found: list[Fault] = []
    for key, name in guess(own, [key for key in keys if key not in held]).items():
        if name not in held or name in COLUMNS or name in [fault.column for fault in found]:
            continue
        sentence = f"{name!r} looks like {key!r} and is not mapped."
        mend = Mend("Rename it, if it is.", (_renaming(held, name, key),))
        found.append(Fault(ALIKE, WARNING, name, sentence, mend=mend))
    return found


def _missing(held: Sequence[str], mapping: Mapping[str, str]) -> dict[str, str]:
    """Our name -> what looks like it, or nothing, of the columns that every log needs."""
    vectors = any(name.startswith("obs_") for name in held)
    found = {}
    for key in NEEDED:
        name = mapping.get(key, key)
        if name in held or (key == "state" and (vectors or "obs" in mapping or "obs" in held)):
            continue
        if key == "action" and f"{name}_0" in held:
            continue
        own = [each for each in held if each not in mapping.values()]
        found[key] = guess(own, [key]).get(key, "")
        if key == "state" and not found[key] and (numbers := guess(own, ["obs"])):
            found["obs"] = numbers["obs"]
    return found


def _renaming(held: Sequence[str], name: str, key: str) -> str:
    if name in held:
        return f"rename({{{name!r}: {key!r}}})"
    # The numbers of a vector, which a name stands before.
    several = [each for each in held if each.rpartition("_")[0] == name]
    pairs = {each: f"{key}_{each.rpartition('_')[2]}" for each in several}
    return f"rename({pairs!r})"
