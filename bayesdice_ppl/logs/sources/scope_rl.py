"""Logged datasets of SCOPE-RL: flat arrays of trajectories of one length.

``terminal`` says that a trajectory reached its last step, ``done`` that it ended, and at that last
step both are set, whatever the environment said. So a last step is taken as a cut, and ``done``
before it as a true end. The state after the last action is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.arrays import (
    check_length,
    read_count,
    read_flags,
    read_numbers,
    rows_of,
)
from bayesdice_ppl.logs.sources.episodes import EpisodeArrays, episode_table
from bayesdice_ppl.logs.sources.source import SourceTable, counted

LAYOUT = "SCOPE-RL"
_ARRAYS = ("state", "action", "reward", "done", "terminal")
_USED = (*_ARRAYS, "pscore", "size", "n_trajectories", "step_per_trajectory", "n_actions")


def read_scope_rl(dataset: Any) -> SourceTable:
    """Read a logged dataset.

    Parameters
    ----------
    dataset
        The dict that ``SyntheticDataset.obtain_episodes`` returns for one behavior policy.

    Raises
    ------
    LogsError
        Several datasets, or an array is missing or of another length.
    """
    if not isinstance(dataset, Mapping) and not hasattr(dataset, "keys"):
        several = " Choose one of them: datasets.get(behavior_policy_name, 0)." * hasattr(
            dataset, "get"
        )
        raise LogsError(
            f"{LAYOUT}: expected the dict of one logged dataset, found {type(dataset).__name__}."
            f"{several}"
        )
    missing = [name for name in _ARRAYS if name not in dataset]
    if missing:
        raise LogsError(
            f"{LAYOUT}: expected the arrays {', '.join(_ARRAYS)}, found no {listed(missing)}. "
            f"There is {listed(dataset) or 'nothing'}."
        )
    held = {name: rows_of(dataset[name], LAYOUT, name) for name in _ARRAYS}
    n = len(held["reward"])
    for name, array in held.items():
        check_length(len(array), n, LAYOUT, name)
    size = dataset.get("size")
    if size is not None:
        check_length(n, read_count(size, LAYOUT, "size"), LAYOUT, "rewards")
    length = n
    if dataset.get("step_per_trajectory") is not None:
        length = read_count(dataset["step_per_trajectory"], LAYOUT, "step_per_trajectory") or n
    if n % length:
        raise LogsError(
            f"{LAYOUT}: expected whole trajectories of {length:,} steps, found {n:,} rows. The "
            "arrays may be cut off."
        )
    last = np.zeros(n, dtype=bool)
    last[length - 1 :: length] = True
    terminal = read_flags(held["terminal"], n, LAYOUT, "terminal")
    done = read_flags(held["done"], n, LAYOUT, "done")
    cut = terminal | (last & ~done)
    ended = done & ~terminal
    edges = np.unique(np.r_[0, np.flatnonzero(last | done | terminal) + 1, n])
    notes = []
    both = int((done & terminal).sum())
    if both:
        notes.append(
            f"{counted(both, 'episode')} reached the last step: taken as cut there. SCOPE-RL sets "
            "done too, whether or not the environment ended. If it did (a task of fixed length), "
            "pass columns={'terminated': 'done'} (--columns terminated=done)."
        )
    early = int((ended & ~last).sum())
    if early:
        notes.append(
            f"{counted(early, 'episode')} ended before the last step; the rows after are taken as "
            "a new episode."
        )
    left = [str(name) for name in dataset if name not in _USED]
    if left:
        notes.append(f"Not used: {', '.join(left)}.")
    propensity, words = _propensities(dataset, n)

    def made() -> Iterator[EpisodeArrays]:
        for k, (start, end) in enumerate(pairwise(edges)):
            part = slice(int(start), int(end))
            yield EpisodeArrays(
                where=f"episode {k} (rows {start + 1:,} to {end:,})",
                label=k,
                observations=held["state"][part],
                actions=held["action"][part],
                rewards=held["reward"][part],
                terminated=ended[part],
                truncated=cut[part],
                propensity=None if propensity is None else propensity[part],
                extras={"done": done[part]},
            )

    taken = {
        "observations": "state",
        "actions": "action",
        "rewards": "reward",
        "terminated": "done without terminal",
        "truncated": "terminal",
        "propensity": words,
    }
    space = dataset.get("n_actions")
    actions = None if space is None else list(range(read_count(space, LAYOUT, "n_actions")))
    return episode_table(made(), LAYOUT, taken, notes=notes, actions=actions)


def _propensities(dataset: Mapping[str, Any], n: int) -> tuple[np.ndarray | None, str]:
    """Probabilities; densities of vectors are given for each number, and independent."""
    if dataset.get("pscore") is None:
        return None, ""
    pscore = rows_of(dataset["pscore"], LAYOUT, "pscore")
    if pscore.ndim == 2 and pscore.shape[1] > 1:
        columns = [read_numbers(column, n, LAYOUT, "pscore") for column in pscore.T]
        return np.prod(columns, axis=0), "the product of pscore's columns"
    return read_numbers(pscore, n, LAYOUT, "pscore"), "pscore"
