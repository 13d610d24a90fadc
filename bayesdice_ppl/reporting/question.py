"""The question of a report: who is to be chosen from, how many may go live, by which score."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.digits import exact
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.scores import Score
from bayesdice_ppl.scores.catalog import CATALOG, options_of
from bayesdice_ppl.selection import Selection
from bayesdice_ppl.selection.certificate import listing
from bayesdice_ppl.selection.limits import check_limits

if TYPE_CHECKING:
    from xarray import DataTree

_LISTED = 12
"""Names that a rule lists before it counts the rest."""
_PEOPLE = ("Kendall", "Pearson", "Spearman")
"""Names that keep their capital within a sentence."""


@final
class Question(NamedTuple):
    """What was asked.

    Attributes
    ----------
    headline
        The question in one sentence.
    names
        The candidates, sorted.
    parts
        What belongs to it: a word for each, and a sentence.
    """

    headline: str
    names: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]


def ask(
    belief: DataTree, score: Score, selection: Selection, options: Mapping[str, Any]
) -> Question:
    """Put the question of a report together.

    Parameters
    ----------
    belief
        The belief.
    score
        What a ranking is judged by.
    selection
        The answer, which has the names in the order of the ranking.
    options
        What else `bayesdice_ppl.select` was given.
    """
    names = sorted(selection.order)
    many = score.launches(len(names))
    if many is None:
        headline = f"In which order are these {len(names):,} policies?"
    elif many >= len(names):
        headline = f"Should {names[0]} go live?" if many == 1 else f"Should all {many} go live?"
    elif many == 1:
        headline = f"Which one of {len(names):,} policies should go live?"
    else:
        headline = f"Which {many} of {len(names):,} policies should go live?"
    parts = [
        *([("go live", _launched(many, options))] if many is not None else []),
        ("score", _explained(score)),
        ("value", _value(selection)),
        *_rules(selection, options),
        *_log(belief),
    ]
    return Question(headline, tuple(names), tuple(parts))


def _launched(many: int, options: Mapping[str, Any]) -> str:
    at_most = "At most " if options.get("budget") is not None else ""
    return f"{at_most}{many}, the first of the ranking."


def _explained(score: Score) -> str:
    """The score's name, and what its own function says of it."""
    found = options_of(score)
    if found is None:
        return f"{score.name}, a loss of one's own; lower is better."
    meaning = (inspect.getdoc(CATALOG[found[0]]) or "").partition("\n")[0]
    if not meaning.startswith(_PEOPLE):
        meaning = f"{meaning[:1].lower()}{meaning[1:]}"
    how = "" if score.averaged else f" Judged by {score.risk.name} of the loss over the draws."
    return f"{score.name}: {meaning} The loss is lower where the ranking is better.{how}"


def _value(selection: Selection) -> str:
    if selection.reward is not None:
        return f"{selection.reward}, per step; higher is better."
    if selection.statistic != "mean":
        return f"{selection.statistic} of the reward of a step; higher is better."
    return "Reward per step that a candidate would earn; higher is better."


def _rules(selection: Selection, options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a launch has to keep to."""
    found = []
    limited = check_limits(options.get("limits"), options.get("confidence"))
    if limited is not None:
        found.append(("limits", f"{limited.text}, with a probability of {limited.confidence:g}."))
    if options.get("budget") is not None:
        costs = options.get("costs") or {}
        each = [f"{name} {exact(cost)}" for name, cost in costs.items()]
        told = f"; costs: {listing(each, _LISTED)}" if each else ""
        found.append(("budget", f"{exact(options['budget'])} in all{told}."))
    for key, word in (("must_include", "must go live"), ("must_exclude", "must not go live")):
        if options.get(key):
            found.append((word, f"{listing(list(options[key]), _LISTED)}."))
    if selection.unseen == "bounds":
        low, high = options["bounds"]
        found.append(("actions never logged", f"Anything from {low:g} to {high:g}, at worst."))
    return found


def _log(belief: DataTree) -> list[tuple[str, str]]:
    """The size of the log, where the belief has it."""
    view = BeliefView(belief)
    try:
        rows, episodes, gamma = view.n_transitions, view.n_episodes, view.settings.get("gamma")
    except BeliefError:
        # A belief of another program may use the attributes for something else.
        return []
    found = []
    if rows:
        found.append(("log", f"{_many(rows, 'transition')} in {_many(episodes, 'episode')}."))
    if isinstance(gamma, int | float):
        kind = {0.0: ", a bandit", 1.0: ", the average reward"}.get(float(gamma), "")
        found.append(("discount", f"{exact(gamma)}{kind}."))
    return found


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' if number != 1 else ''}"
