"""Bandit feedback of the Open Bandit Pipeline (OBP): a dict of arrays, one entry a decision.

A context is a vector. Where an impression has several positions, each is a decision of its own, and
what the logging policy chose may depend on the position: it is part of the state, as a number for
each position that is 1 or 0. Each decision is an episode of its own: gamma is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row
from bayesdice_ppl.logs.sources.arrays import (
    check_length,
    is_whole_array,
    read_count,
    read_numbers,
    read_points,
    rows_of,
    to_array,
)
from bayesdice_ppl.logs.sources.source import (
    LoggingProbabilities,
    Source,
    SourceTable,
    counted,
)

LAYOUT = "OBP bandit feedback"
_USED = (
    "n_rounds",
    "n_actions",
    "n_unique_action",
    "context",
    "action",
    "position",
    "reward",
    "pscore",
    "pi_b",
    "slate_id",
    "pscore_item_position",
)
_CLOSE = 1e-4
"""By how much two probabilities of one action may differ, relative to the larger: rounding."""


def read_bandit_feedback(feedback: Any) -> SourceTable:
    """Read a dict of bandit feedback.

    Parameters
    ----------
    feedback
        ``action``, ``reward`` and perhaps ``context``, ``position``, ``pscore``, ``pi_b``,
        ``n_rounds`` and ``n_actions``; of shape (n,), or (n, L) for L positions an impression. A
        slate's has ``slate_id`` and ``pscore_item_position``.

    Raises
    ------
    LogsError
        An array is missing or of another length, a slate has one reward for all of its positions,
        or ``pscore`` contradicts ``pi_b``.
    """
    if not isinstance(feedback, Mapping) and not hasattr(feedback, "keys"):
        raise LogsError(
            f"{LAYOUT}: expected a dict with action, reward, context and pscore, found "
            f"{type(feedback).__name__}."
        )
    held = {str(key): feedback[key] for key in feedback.keys()}  # noqa: SIM118 - .npz files too
    held = {key: value for key, value in held.items() if not _is_none(value)}
    for name in ("action", "reward"):
        if name not in held:
            raise LogsError(
                f"{LAYOUT}: expected the arrays action and reward, found no {name!r}. There is "
                f"{listed(held) or 'nothing'}."
            )
    notes: list[str] = []
    action, rounds, place = _actions(held, notes)
    n = len(action)
    frame: dict[str, Any] = {}
    taken: dict[str, str] = {}
    position = _positions(held, place, n)
    _context(held, rounds, position, n, frame, taken)
    frame["action"], taken["action"] = action, "action (labels)"
    frame["reward"], taken["reward"] = _rewards(held, place, n), "reward"
    propensity, name = _propensities(held, place, n, notes)
    every = _every(held, action, rounds, position, propensity)
    if propensity is None and every is not None:
        propensity, name = every[np.arange(n), action], "pi_b of the logged action"
    if propensity is not None:
        frame["propensity"], taken["propensity"] = propensity, name
    if position is not None:
        frame["position"] = position
        if place is not None or "slate_id" in held:
            frame["impression_id"] = (
                rounds if "slate_id" not in held else _whole(held["slate_id"], n, "slate_id")
            )
    left = [name for name in held if name not in _USED]
    if left:
        notes.append(f"Not used: {', '.join(left)}.")
    series = {
        key: pl.Series(value) if np.ndim(value) == 1 else pl.Series(value).cast(pl.List(pl.Float64))
        for key, value in frame.items()
    }
    choices = tuple(name for name in ("position", "context") if name in series)
    known = None if every is None else LoggingProbabilities(every, list(range(every.shape[1])))
    source = Source(LAYOUT, taken, tuple(notes), known)
    return SourceTable(pl.DataFrame(series), source, _space(held, action), choices)


def _is_none(value: Any) -> bool:
    """None, also as a .npz file holds it."""
    return value is None or (
        isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.shape == ()
    )


def _actions(
    held: Mapping[str, Any], notes: list[str]
) -> tuple[np.ndarray, Int[np.ndarray, " n"], Int[np.ndarray, " n"] | None]:
    """Actions, the round of each, and its place in the round where a round has several."""
    array = rows_of(held["action"], LAYOUT, "action")
    place = None
    if array.ndim == 2:
        size = array.shape[1]
        rounds = np.repeat(np.arange(len(array)), size)
        place = np.tile(np.arange(size), len(array))
        array = array.ravel()
        notes.append(f"Each of the {size} positions of a round is a decision of its own.")
    else:
        rounds = np.arange(len(array) if array.ndim else 0)
    points = read_points(array, LAYOUT, "action")
    if points.vectors:
        if points.values.shape[1] != 1 or not is_whole_array(points.values):
            raise LogsError(
                f"{LAYOUT}: expected actions that are whole numbers, found numbers with decimals "
                "(continuous actions). Build a table with a column action_0 and a density as its "
                "propensity."
            )
        return points.values[:, 0].astype(np.int64), rounds, place
    n_rounds = held.get("n_rounds")
    if n_rounds is not None and "slate_id" not in held:
        check_length(
            int(rounds[-1]) + 1 if len(rounds) else 0,
            read_count(n_rounds, LAYOUT, "n_rounds"),
            LAYOUT,
            "actions",
        )
    return points.values, rounds, place


def _positions(
    held: Mapping[str, Any], place: np.ndarray | None, n: int
) -> Int[np.ndarray, " n"] | None:
    """Position of each decision; None where there is only one."""
    if "position" not in held:
        return place
    given = rows_of(held["position"], LAYOUT, "position")
    if place is not None and given.shape == (int(place.max()) + 1,):
        given = given[place]  # one list of positions for all rounds
    position = _whole(given, n, "position")
    return position if len(np.unique(position)) > 1 or place is not None else None


def _whole(values: Any, n: int, name: str) -> Int[np.ndarray, " n"]:
    numbers = read_numbers(rows_of(values, LAYOUT, name).ravel(), n, LAYOUT, name)
    if not is_whole_array(numbers):
        raise LogsError(f"{LAYOUT}: expected {name} as whole numbers, found decimals.")
    return numbers.astype(np.int64)


def _context(
    held: Mapping[str, Any],
    rounds: np.ndarray,
    position: np.ndarray | None,
    n: int,
    frame: dict[str, Any],
    taken: dict[str, str],
) -> None:
    """The state: the context's numbers and the position, or the position alone."""
    context = _contexts(held, rounds, n)
    if context is not None:
        words = f"context ({counted(context.shape[1], 'number')})"
        if position is not None:
            places = np.unique(position)
            context = np.column_stack([context, position[:, None] == places])
            words += f" and position ({len(places)} of them, as 1 or 0 each)"
        frame["obs"], taken["obs"] = context, words
    elif position is not None:
        frame["state"], taken["state"] = position, "position (labels); there is no context"
    else:
        frame["state"], taken["state"] = np.zeros(n, dtype=np.int64), "0: there is no context"


def _contexts(held: Mapping[str, Any], rounds: np.ndarray, n: int) -> np.ndarray | None:
    """The context of each decision, shape (n, p); None where there is none."""
    if "context" not in held:
        return None
    points = read_points(held["context"], LAYOUT, "context")
    context = points.values
    if not points.vectors:
        if context.dtype.kind not in "iu":
            raise LogsError(
                f"{LAYOUT}: expected contexts that are numbers, found labels. Build a table with a "
                "column state (Logs.from_dataframe)."
            )
        context = context.astype(np.float64)[:, None]
    if context.shape[1] == 0:
        return None
    if len(context) != n:
        # One for each round or slate, whose positions follow each other.
        place = rounds
        if "slate_id" in held:
            place = np.unique(_whole(held["slate_id"], n, "slate_id"), return_inverse=True)[1]
        check_length(len(context), int(place[-1]) + 1 if len(place) else 0, LAYOUT, "contexts")
        context = context[place]
    return context


def _rewards(held: Mapping[str, Any], place: np.ndarray | None, n: int) -> Float[np.ndarray, " n"]:
    reward = rows_of(held["reward"], LAYOUT, "reward")
    if place is not None and reward.ndim == 1 and len(reward) == n // (int(place.max()) + 1):
        shape = (len(reward), int(place.max()) + 1)
        raise LogsError(
            f"{LAYOUT}: expected a reward for each position, shape {shape}, "
            "as the actions have, found one for the whole round. What one position earned is not "
            "known. Value the round as one decision: make its whole list the action's label."
        )
    return read_numbers(reward.ravel(), n, LAYOUT, "reward")


def _propensities(
    held: Mapping[str, Any], place: np.ndarray | None, n: int, notes: list[str]
) -> tuple[np.ndarray | None, str]:
    if "pscore_item_position" in held:
        notes.append("pscore is of whole slates, and not used.")
        name = "pscore_item_position"
        return read_numbers(rows_of(held[name], LAYOUT, name).ravel(), n, LAYOUT, name), name
    if "slate_id" in held and "pscore" in held:
        notes.append(
            "pscore is of whole slates, and not used. With return_pscore_item_position=True OBP "
            "gives that of each position."
        )
        return None, ""
    if "pscore" not in held:
        return None, ""
    pscore = rows_of(held["pscore"], LAYOUT, "pscore")
    if place is not None and pscore.ndim == 1 and len(pscore) != n:
        notes.append("pscore has one entry a round, and not one a position: not used.")
        return None, ""
    return read_numbers(pscore.ravel(), n, LAYOUT, "pscore"), "pscore"


def _every(
    held: Mapping[str, Any],
    action: np.ndarray,
    rounds: np.ndarray,
    position: np.ndarray | None,
    propensity: np.ndarray | None,
) -> Float[np.ndarray, "n A"] | None:
    """Probabilities of all actions, if there are any; refused where they contradict the logged."""
    if "pi_b" not in held or action.dtype.kind not in "iu" or "slate_id" in held:
        return None
    every = to_array(held["pi_b"], LAYOUT, "pi_b")
    if every.ndim == 2:
        every = every[:, :, None]
    count = int(rounds[-1]) + 1
    fits = every.ndim == 3 and every.dtype.kind in "iuf" and len(every) == count
    if not (fits and action.min() >= 0 and action.max() < every.shape[1]):
        raise LogsError(
            f"{LAYOUT}: expected pi_b of shape (rounds, actions, positions), found {every.shape} "
            f"for {count:,} rounds and actions up to {action.max()}."
        )
    places = np.zeros(len(action), dtype=int)
    if position is not None and every.shape[2] > 1:
        places = np.unique(position, return_inverse=True)[1]
    if places.max() >= every.shape[2]:
        raise LogsError(
            f"{LAYOUT}: expected pi_b for {int(places.max()) + 1} positions, found "
            f"{every.shape[2]}."
        )
    told = every[rounds, action, places]
    propensity = told if propensity is None else propensity
    broken = np.abs(told - propensity) > _CLOSE * np.maximum(np.abs(told), np.abs(propensity))
    if broken.any():
        at = first_row(broken)
        raise LogsError(
            f"{LAYOUT}, row {at + 1:,}: expected one probability of the logged action, found "
            f"pscore {propensity[at]:g} and pi_b {told[at]:g}. One of the two is of another log."
        )
    table = every[rounds, :, places].astype(np.float64)
    total = table.sum(axis=1)
    odd = ~(np.abs(total - 1.0) <= _CLOSE) | (table < 0.0).any(axis=1)
    if odd.any():
        at = first_row(odd)
        raise LogsError(
            f"{LAYOUT}, row {at + 1:,}: expected probabilities pi_b that sum to 1, found a sum of "
            f"{total[at]:g}."
        )
    return table / total[:, None]


def _space(held: Mapping[str, Any], action: np.ndarray) -> list[int] | None:
    """All actions, 0 .. n_actions - 1, if the feedback says how many there are."""
    size = held.get("n_actions", held.get("n_unique_action"))
    if size is None or action.dtype.kind not in "iu":
        return None
    return list(range(read_count(size, LAYOUT, "n_actions")))
