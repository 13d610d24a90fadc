"""A run in a folder: its settings, and for each round the rows, the policy and its value.

A round is there when its JSON file is, which is written last. Nothing else is kept: the state of an
explorer follows from the rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import polars as pl

from bayesdice_ppl.errors import OutputError
from bayesdice_ppl.exploration.explorers import Chosen, RoundRows
from bayesdice_ppl.outputs import staged_file, write_json
from bayesdice_ppl.plain import shortened

SETTINGS, ROUNDS = "run.json", "rounds"


@final
class RoundResult(NamedTuple):
    """One round.

    Attributes
    ----------
    rows
        Its steps.
    chosen
        Its policy, with what was believed of it.
    value
        True value of the policy, reward per step, or None.
    seconds
        What the choice took.
    """

    rows: RoundRows
    chosen: Chosen
    value: float | None
    seconds: float


def known_seed(path: Path) -> int | None:
    """The seed of a run that is in a folder, or None."""
    file = path / SETTINGS
    if not file.is_file():
        return None
    found = _read(file).get("seed")
    return found if isinstance(found, int) else None


def _read(file: Path) -> dict[str, Any]:
    """A file of JSON with names in it.

    Raises
    ------
    OutputError
        It holds something else.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise OutputError(f"{file}: cannot be read: {cause}. Name another folder.") from cause
    if not isinstance(found, dict):
        raise OutputError(f"{file}: expected the settings of a run. Name another folder.")
    return found


@final
class RunFolder:
    """The folder of a run; of a run in memory it does nothing.

    Parameters
    ----------
    path
        The folder, or None.
    settings
        What the run is known by.

    Raises
    ------
    OutputError
        The folder holds something else or another run, or cannot be written.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]):
        self.path = path
        if path is None:
            return
        # As it is read back.
        settings = json.loads(json.dumps(settings))
        file = path / SETTINGS
        if file.exists():
            found = _read(file)
            if not any((path / ROUNDS).glob("*.json")):
                # No round was finished, so that nothing is lost.
                write_json(settings, file)
                return
            other = [key for key in settings if found.get(key) != settings[key]]
            if other or set(found) != set(settings):
                key = other[0] if other else sorted(set(found) ^ set(settings))[0]
                raise OutputError(
                    f"{path}: expected a run with {key} = {settings.get(key)!r}, found one with "
                    f"{found.get(key)!r}. Name another folder, or repeat the run's own settings."
                )
            return
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise OutputError(f"{path}: expected an empty folder or a run. Name another folder.")
        try:
            (path / ROUNDS).mkdir(parents=True)
        except OSError as cause:
            raise OutputError(f"{path}: cannot be made: {cause.strerror}.") from cause
        write_json(settings, file)

    def read(self, at: int) -> RoundResult | None:
        """A round that is there, counted from 0.

        Raises
        ------
        OutputError
            Its files cannot be read.
        """
        if self.path is None or not self._file(at, "json").exists():
            return None
        said, file = _read(self._file(at, "json")), self._file(at, "parquet")
        try:
            frame = pl.read_parquet(file)
            rows = RoundRows(*(frame[name].to_numpy() for name in RoundRows._fields))
            chosen = Chosen(np.array(said["policy"]), said["mean"], said["sd"], said["score"])
            return RoundResult(rows, chosen, said["value"], said["seconds"])
        except (OSError, KeyError, pl.exceptions.PolarsError) as cause:
            why = shortened(str(cause).splitlines()[0])
            raise OutputError(
                f"{file}: expected the rows of round {at + 1}, found a file that cannot be read or "
                f"lacks a part ({why}). Delete {self._file(at, 'json').name}: the round is then "
                "played again, the same."
            ) from cause

    def write(self, at: int, result: RoundResult) -> None:
        """Keep a round, counted from 0."""
        if self.path is None:
            return
        with staged_file(self._file(at, "parquet")) as scratch:
            pl.DataFrame(result.rows._asdict()).write_parquet(scratch)
        said = result.chosen._asdict() | {"value": result.value, "seconds": result.seconds}
        write_json(said | {"policy": result.chosen.policy.tolist()}, self._file(at, "json"))

    def _file(self, at: int, ending: str) -> Path:
        assert self.path is not None
        return self.path / ROUNDS / f"{at + 1:05d}.{ending}"
