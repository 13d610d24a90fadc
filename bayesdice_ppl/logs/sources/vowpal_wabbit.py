"""Logs of Vowpal Wabbit's contextual bandits: dsjson, one decision a line.

A cost is a reward times -1. ``a`` are the actions as numbers from 1, in the order in which they
were ranked, and ``p`` their probabilities in that order. The shared part of the context is the
state; each decision is an episode of its own: gamma is 0. A line with several slots (CCB) is an
episode, as `vw_slots` tells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from bayesdice_ppl.checks import is_number, is_whole
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.json_lines import read_objects
from bayesdice_ppl.logs.sources.leaves import column_of, leaves_of, text_of
from bayesdice_ppl.logs.sources.source import (
    LoggingProbabilities,
    Source,
    SourceTable,
    counted,
)
from bayesdice_ppl.logs.sources.vw_slots import has_slots, slots_of

LAYOUT = "Vowpal Wabbit dsjson"
_COST = ("_label_cost", "_label_Cost")
_CHANCE = ("_label_probability", "_label_Probability")
_ACTION = "_label_Action"
_INDEX = "_labelIndex"
_ON_SLOTS = (
    "Each line is an episode, and its slots are the steps (CCB). With gamma = 1 a value is the "
    "mean reward of a slot, and what one slot takes is not free for the next. To judge each slot "
    "by itself, with the actions that were free as they were logged, ignore episode_id, step and "
    "terminated, and use gamma = 0."
)
_CLOSE = 1e-3
"""By how much written probabilities may be off, relative: they are rounded, or of 32 bits."""


def is_dsjson(one: Mapping[str, Any]) -> bool:
    """Whether an object of JSON is a decision in Vowpal Wabbit's layout."""
    known = (*_COST, _ACTION, _INDEX, "_outcomes")
    return any(key in one for key in known) or {"a", "c", "p"} <= set(one)


def read_vw(source: Any) -> SourceTable:
    """Read decisions in dsjson.

    Parameters
    ----------
    source
        A path (plain or ``.gz``), several paths, lines of text, or dicts.

    Raises
    ------
    LogsError
        A line cannot be read, has no cost, or contradicts itself: the line, and what is wrong.
    """
    decisions: list[dict[str, Any]] = []
    skipped = dangling = line = 0
    for where, one in read_objects(source, LAYOUT):
        if not is_dsjson(one) and "c" not in one and "a" not in one:
            dangling += 1
            continue
        if one.get("_skipLearn") is True:
            skipped += 1
            continue
        place = f"{LAYOUT}, {where}"
        if decisions and has_slots(one) != ("slot" in decisions[0]):
            raise LogsError(
                f"{place}: expected lines of one kind, found one with several slots (CCB) beside "
                "lines of one decision. Read them apart."
            )
        decisions += _slots(one, place, line) if has_slots(one) else [_decision(one, place)]
        line += 1
    if not decisions:
        raise LogsError(f"{LAYOUT}: expected decisions with _label_cost, found none.")
    notes = []
    if skipped:
        notes.append(f"{counted(skipped, 'line')} with _skipLearn left out: never activated.")
    if dangling:
        notes.append(f"{counted(dangling, 'line')} without a decision left out.")
    notes += _dropped(decisions)
    in_slots = "slot" in decisions[0]
    if in_slots:
        notes.append(_ON_SLOTS)
    actions, space, named, offered = _name_actions(decisions)
    states, seen = _name_states(decisions)
    frame = {
        "state": pl.Series(states),
        "action": pl.Series(actions),
        # 0.0 - cost, and not -cost, so that a cost of 0 is a reward of 0 and not of -0.
        "reward": pl.Series([0.0 - one["cost"] for one in decisions]),
    }
    taken = {"state": seen, "action": named, "reward": "-_label_cost"}
    if len({frozenset(labels) for labels in offered}) > 1:
        frame["allowed_actions"] = pl.Series(offered)
        taken["allowed_actions"] = "_a, the actions still free" if in_slots else "_multi"
    if in_slots:
        frame["episode_id"] = pl.Series([one["line"] for one in decisions])
        frame["step"] = pl.Series([one["slot"].number for one in decisions])
        frame["terminated"] = pl.Series([one["slot"].last for one in decisions])
        taken |= {"reward": "-_label_cost of a slot", "episode_id": "a line", "step": "its slots"}
    chances = [one["chance"] for one in decisions]
    if all(chance is not None for chance in chances):
        frame["propensity"] = pl.Series(chances)
        full = all(one["chances"] for one in decisions)
        taken["propensity"] = "p of the logged action" if full else "_label_probability"
        if in_slots:
            taken["propensity"] = "_p of the logged action"
    elif any(chance is not None for chance in chances):
        lacking = next(one for one in decisions if one["chance"] is None)
        raise LogsError(
            f"{lacking['where']}: expected the probability of the action, as other lines have it, "
            "found none. Leave such lines out, or all probabilities."
        )
    extras = _extras(decisions)
    frame.update(extras)
    choices = [n for n in extras if n.startswith("a.") or (n[:2] == "c." and not _hidden(n[2:]))]
    few = len(set(states))
    if len(decisions) >= 20 and 2 * few > len(decisions):
        notes.append(
            f"{few:,} different contexts in {len(decisions):,} rows: few occur twice. Choose what "
            "the state is with columns={'state': 'c....'} (--columns state=c....)."
        )
    source = Source(LAYOUT, taken, tuple(notes), _all_chances(decisions, offered, space))
    places = [one["where"].removeprefix(f"{LAYOUT}, ") for one in decisions]
    return SourceTable(pl.DataFrame(frame), source, space, tuple(choices), places)


def _all_chances(
    decisions: list[dict[str, Any]], offered: list[list[Any]], space: list[Any]
) -> LoggingProbabilities | None:
    """Probabilities of all actions, where every line has them."""
    if not all(one["chances"] for one in decisions):
        return None
    rows = [one["chances"] for one in decisions]
    if offered:
        rows = [
            {labels[number - 1]: chance for number, chance in row.items()}
            for row, labels in zip(rows, offered, strict=True)
        ]
    return LoggingProbabilities.of_rows(rows, space)


def _slots(one: Mapping[str, Any], where: str, line: int) -> list[dict[str, Any]]:
    """What the slots of a line say, a decision each."""
    return [
        {
            **_decision(slot.decision, f"{where}, slot {slot.number}"),
            "slot": slot,
            "line": line,
        }
        for slot in slots_of(one, where)
    ]


def _decision(one: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a line says, checked against itself."""
    context = one.get("c", {})
    if not isinstance(context, Mapping):
        raise LogsError(f"{where}: expected 'c' as an object, found {type(context).__name__}.")
    cost = _first(one, _COST)
    if cost is None:
        raise LogsError(
            f"{where}: expected _label_cost, found none. Lines that only ask for a prediction hold "
            "no decision: leave them out."
        )
    if not is_number(cost):
        raise LogsError(f"{where}: expected _label_cost as a finite number, found {cost!r}.")
    number = _number(one, where)
    multi = context.get("_multi")
    if multi is not None and not (
        isinstance(multi, list) and all(isinstance(item, Mapping) for item in multi)
    ):
        raise LogsError(f"{where}: expected _multi as a list of objects, one an action.")
    if multi is not None and number > len(multi):
        raise LogsError(
            f"{where}: expected an action from 1 to {len(multi)}, as _multi has, found {number}."
        )
    chance, chances = _chance(one, number, multi, where)
    return {
        "where": where,
        "cost": float(cost),
        "number": number,
        "chance": chance,
        "chances": chances,
        "drop": one.get("pdrop", 0.0) or 0.0,
        "multi": multi,
        "state": leaves_of({key: item for key, item in context.items() if key != "_multi"}),
        "time": one.get("Timestamp"),
        "event": one.get("EventId"),
    }


def _first(one: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((one[name] for name in names if one.get(name) is not None), None)


def _number(one: Mapping[str, Any], where: str) -> int:
    """Number of the logged action, from 1."""
    action, index, ranking = one.get(_ACTION), one.get(_INDEX), one.get("a")
    for name, value in ((_ACTION, action), (_INDEX, index)):
        if value is not None and not is_whole(value):
            raise LogsError(f"{where}: expected {name} as a whole number, found {value!r}.")
    if action is None and index is None:
        if isinstance(ranking, list) and ranking and is_whole(ranking[0]):
            return int(ranking[0])
        raise LogsError(f"{where}: expected {_ACTION} or {_INDEX}, found neither.")
    if action is not None and index is not None and int(action) != int(index) + 1:
        raise LogsError(
            f"{where}: expected {_INDEX} to be {_ACTION} minus 1, found {index} and {action}."
        )
    number = int(action if action is not None else index + 1)  # type: ignore[operator]
    if number < 1:
        raise LogsError(f"{where}: expected {_ACTION} from 1, found {number}.")
    return number


def _chance(
    one: Mapping[str, Any], number: int, multi: list[Any] | None, where: str
) -> tuple[float | None, dict[int, float]]:
    """Probability of the logged action, and of every action by its number, where they stand."""
    told = _first(one, _CHANCE)
    if told is not None and not is_number(told):
        raise LogsError(f"{where}: expected a probability, found {told!r}.")
    ranking, chances = one.get("a"), one.get("p")
    if chances is None:
        return None if told is None else float(told), {}
    if not isinstance(ranking, list) or not isinstance(chances, list):
        raise LogsError(f"{where}: expected 'a' and 'p' as lists, found other things.")
    if len(ranking) != len(chances) or (multi is not None and len(multi) != len(ranking)):
        raise LogsError(
            f"{where}: expected as many probabilities as actions, found {len(ranking)} in 'a', "
            f"{len(chances)} in 'p'"
            + (f", {len(multi)} in '_multi'." if multi is not None else ".")
        )
    numbers = all(is_whole(action) and action >= 1 for action in ranking)
    if not numbers or len(set(ranking)) != len(ranking):
        raise LogsError(f"{where}: expected 'a' as different numbers from 1, found {ranking!r}.")
    if number not in ranking:
        raise LogsError(f"{where}: expected the logged action {number} among 'a', {ranking!r}.")
    if not all(is_number(chance) and chance >= 0 for chance in chances):
        raise LogsError(f"{where}: expected 'p' as probabilities, found {chances!r}.")
    if not math.isclose(sum(chances), 1.0, rel_tol=_CLOSE):
        raise LogsError(
            f"{where}: expected probabilities 'p' that sum to 1, found {sum(chances):g}."
        )
    chance = float(chances[ranking.index(number)])
    kept = 1.0 - float(one.get("pdrop", 0.0) or 0.0)
    close = (
        [math.isclose(float(told), c, rel_tol=_CLOSE) for c in (chance, chance * kept)]
        if (told is not None)
        else [True]
    )
    if not any(close):
        raise LogsError(
            f"{where}: expected one probability of the logged action, found _label_probability "
            f"{told:g} and {chance:g} in 'p'. One of the two is wrong."
        )
    every = zip(ranking, chances, strict=True)
    return chance, {int(action): float(each) for action, each in every}


def _dropped(decisions: list[dict[str, Any]]) -> list[str]:
    shares = {one["drop"] for one in decisions}
    odd = next((one for one in decisions if not is_number(one["drop"])), None)
    if odd is not None:
        raise LogsError(f"{odd['where']}: expected pdrop as a number, found {odd['drop']!r}.")
    if len(shares) > 1:
        other = next(one for one in decisions if one["drop"] != decisions[0]["drop"])
        raise LogsError(
            f"{other['where']}: expected one share of events that were dropped before logging, "
            f"pdrop, found {other['drop']:g} after {decisions[0]['drop']:g}. Rows would count "
            "unequally. Give the lines of one share."
        )
    share = decisions[0]["drop"]
    if not share:
        return []
    return [f"A share of {share:g} of all events was dropped at random before logging (pdrop)."]


def _name_actions(
    decisions: list[dict[str, Any]],
) -> tuple[list[Any], list[Any], str, list[list[Any]]]:
    """Labels of the logged actions and all labels; what they are; those that each row offered.

    Labels are tags, numbers or features. What was offered is empty where rows do not say.
    """
    offers = [one["multi"] for one in decisions]
    if any(offer is None for offer in offers):
        space = {one["number"] for one in decisions}
        space.update(action for one in decisions for action in one["chances"])
        return (
            [one["number"] for one in decisions],
            sorted(space),
            "_label_Action (a number from 1)",
            [],
        )
    tagged = all(isinstance(item.get("_tag"), str) for offer in offers for item in offer)
    if tagged:
        names = [[item["_tag"] for item in offer] for offer in offers]
        what = "_tag"
    elif "slot" in decisions[0] and all(
        one["slot"].every == decisions[0]["slot"].every for one in decisions
    ):
        names = [one["slot"].free for one in decisions]
        what = "a number from 1: _multi is the same in all lines"
    elif all(offer == offers[0] for offer in offers):
        names = [list(range(1, len(offer) + 1)) for offer in offers]
        what = "_label_Action (a number from 1: _multi is the same in all rows)"
    else:
        known: dict[str, str] = {}
        names = []
        for offer in offers:
            keys = [repr(item) for item in offer]
            for key, item in zip(keys, offer, strict=True):
                if key not in known:
                    known[key] = text_of(leaves_of(item))
            names.append([known[key] for key in keys])
        what = "the action's features in _multi, as text: the same number stands for different ones"
    for one, labels in zip(decisions, names, strict=True):
        if len(set(labels)) != len(labels):
            double = next(label for label in labels if labels.count(label) > 1)
            raise LogsError(
                f"{one['where']}: expected actions that differ, found {double!r} twice in _multi. "
                "Give each a _tag of its own."
            )
    every = sorted({label for labels in names for label in labels})
    logged = [labels[one["number"] - 1] for one, labels in zip(decisions, names, strict=True)]
    return logged, every, what, names


def _name_states(decisions: list[dict[str, Any]]) -> tuple[list[Any], str]:
    """Labels of the states: the shared context as text."""
    texts = [text_of(one["state"]) for one in decisions]
    keys = list(dict.fromkeys(key for one in decisions for key in one["state"]))
    visible = [key for key in keys if not _hidden(key)]
    if not visible:
        return [0] * len(decisions), "0: there is no shared context"
    if len(visible) == 1:
        only = visible[0]
        values = [one["state"].get(only) for one in decisions]
        if all(isinstance(value, str) for value in values):
            return values, f"c.{only}"
    shown = ", ".join(f"c.{key}" for key in visible[:5])
    more = f" and {len(visible) - 5} more" if len(visible) > 5 else ""
    return texts, f"the shared context as text ({shown}{more})"


def _hidden(key: str) -> bool:
    """Whether a property is no feature: Vowpal Wabbit leaves out what starts with _."""
    return any(part.startswith("_") and part != "_text" for part in key.split("."))


def _extras(decisions: list[dict[str, Any]]) -> dict[str, pl.Series]:
    """Entries of the context, and of the logged action, as columns to choose from."""
    rows = [{f"c.{key}": value for key, value in one["state"].items()} for one in decisions]
    for row, one in zip(rows, decisions, strict=True):
        if one["multi"] is not None:
            chosen = leaves_of(one["multi"][one["number"] - 1])
            row.update({f"a.{key}": value for key, value in chosen.items()})
        if isinstance(one["time"], str):
            row["Timestamp"] = one["time"]
        if isinstance(one["event"], str):
            row["EventId"] = one["event"]
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = column_of([row.get(name) for row in rows])
    return columns
