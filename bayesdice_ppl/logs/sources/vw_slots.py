"""Lines of Vowpal Wabbit with several slots: each slot is a decision among the actions still free.

In a conditional contextual bandit (CCB) a line fills its slots one after the other, and an action
that one slot took is not free for the next. ``_outcomes`` has for each slot its cost, the actions
that were free, ``_a``, as numbers from 0 with the one that was taken first, and their
probabilities, ``_p``. So a line is an episode, and its slots are the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bayesdice_ppl.checks import is_whole
from bayesdice_ppl.errors import LogsError

SLOT = "slot"
"""Under this name the number of the slot, from 1, is part of the state."""


class SlotDecision(NamedTuple):
    """One slot of a line.

    Attributes
    ----------
    decision
        What was decided, as a line of its own with the actions that were free.
    free
        Numbers, from 1, of these among all actions of the line.
    every
        All actions of the line.
    number
        Of the slot, from 1.
    last
        Whether it is the last of its line.
    """

    decision: Mapping[str, Any]
    free: list[int]
    every: list[Any]
    number: int
    last: bool


def has_slots(one: Mapping[str, Any]) -> bool:
    """Whether a line fills several slots."""
    context = one.get("c", {})
    return "_outcomes" in one or (isinstance(context, Mapping) and "_slots" in context)


def slots_of(one: Mapping[str, Any], where: str) -> Iterator[SlotDecision]:
    """The slots of a line, each as a decision.

    Raises
    ------
    LogsError
        It has one cost for all slots, or does not say what was free, taken or paid in each.
    """
    context, outcomes = one.get("c", {}), one.get("_outcomes")
    if not isinstance(context, Mapping):
        raise LogsError(f"{where}: expected 'c' as an object, found {type(context).__name__}.")
    if not isinstance(outcomes, list) or not outcomes:
        raise LogsError(
            f"{where}: expected _outcomes, with the cost of each slot, found none. Lines that only "
            "ask for a prediction hold no decision: leave them out."
        )
    if not all(isinstance(each, Mapping) for each in outcomes):
        raise LogsError(f"{where}: expected _outcomes as a list of objects, one a slot.")
    multi, slots = context.get("_multi"), context.get("_slots")
    if any("_slot_id" in item for item in multi or () if isinstance(item, Mapping)) or (
        one.get("_label_cost") is not None and all("_label_cost" not in each for each in outcomes)
    ):
        raise LogsError(
            f"{where}: expected a cost for each slot (CCB), found slates: one cost for all slots "
            "together. What one slot earned is not known. Write each slate as one action: a text "
            "that names what is in its slots as the _tag, with the product of the slots' "
            "probabilities as its own."
        )
    if not isinstance(multi, list) or not all(isinstance(item, Mapping) for item in multi):
        raise LogsError(f"{where}: expected _multi as a list of objects, one an action.")
    if not isinstance(slots, list) or len(slots) != len(outcomes):
        found = len(slots) if isinstance(slots, list) else "none"
        raise LogsError(
            f"{where}: expected as many _slots as _outcomes, {len(outcomes)}, found {found}."
        )
    shared = {key: item for key, item in context.items() if key not in ("_multi", "_slots")}
    if SLOT in shared:
        raise LogsError(
            f"{where}: expected no {SLOT!r} in the context, which is what the number of the slot "
            "is called here. Rename it."
        )
    if "_label_cost" in one:
        raise LogsError(
            f"{where}: expected the cost of each slot in _outcomes, found a _label_cost of the "
            "whole line beside them. Take it out, if the slots' costs are all that counts."
        )
    taken = set[int]()
    for k, (outcome, slot) in enumerate(zip(outcomes, slots, strict=True), start=1):
        own = f"{where}, slot {k}"
        if not isinstance(slot, Mapping):
            raise LogsError(f"{own}: expected an object in _slots, found {slot!r}.")
        ranking, chances = outcome.get("_a"), outcome.get("_p")
        ranking = [ranking] if is_whole(ranking) else ranking
        chances = chances if isinstance(chances, list) or chances is None else [chances]
        numbers = isinstance(ranking, list) and all(is_whole(each) for each in ranking)
        if not numbers or not ranking or len(set(ranking)) != len(ranking):
            raise LogsError(
                f"{own}: expected '_a' as different numbers from 0, the taken one first, found "
                f"{ranking!r}."
            )
        if not all(0 <= each < len(multi) for each in ranking):
            raise LogsError(
                f"{own}: expected '_a' from 0 to {len(multi) - 1}, as _multi has {len(multi)} "
                f"actions, found {ranking!r}."
            )
        if taken & set(ranking):
            raise LogsError(
                f"{own}: expected '_a' without what an earlier slot of the line has taken, found "
                f"{ranking!r} after {sorted(taken)}."
            )
        taken.add(int(ranking[0]))
        ids = [each.get("_id") for each in (outcome, slot)]
        if None not in ids and ids[0] != ids[1]:
            raise LogsError(
                f"{own}: expected _outcomes in the order of _slots, found the _id {ids[0]!r} where "
                f"the slot has {ids[1]!r}."
            )
        if slot.get("_skipLearn") or outcome.get("_skipLearn"):
            raise LogsError(
                f"{own}: expected a slot to learn from, found _skipLearn. Leave such lines out."
            )
        free = sorted(int(each) for each in ranking)
        features = {key: item for key, item in slot.items() if key not in ("_id", "_inc")}
        decision = {
            "_label_cost": outcome.get("_label_cost"),
            "_label_probability": None,
            "_label_Action": free.index(ranking[0]) + 1,
            "a": [free.index(each) + 1 for each in ranking],
            "p": chances,
            "c": {
                **shared,
                SLOT: {"number": k, **features} if features else k,
                "_multi": [multi[each] for each in free],
            },
            **{key: one[key] for key in ("pdrop", "Timestamp", "EventId") if key in one},
        }
        yield SlotDecision(decision, [each + 1 for each in free], multi, k, k == len(outcomes))
