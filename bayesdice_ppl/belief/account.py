"""How a belief was made, in sentences: rows left out, actions, engine, unit of independence.

The command line prints them, and a report has them.
"""

from __future__ import annotations

from math import isfinite

from bayesdice_ppl.belief.schema import BeliefView


def how_made(view: BeliefView) -> list[str]:
    """Say how a belief was made; what it does not say is left out.

    Parameters
    ----------
    view
        The belief.
    """
    lines = []
    if view.rows_left_out:
        lines.append(
            f"Left out {view.rows_left_out:,} of {view.n_transitions:,} transitions: some have no "
            "next state, and keeping only the terminated rows of the same steps would select on "
            "the outcome. Add a column next_state to keep them; it may be empty where the next row "
            "of the episode says it."
        )
    if view.action_space:
        many = f"{view.n_actions:,} actions, " if view.n_actions else ""
        lines.append(f"Action space: {many}{view.action_space}.")
    if view.engine:
        lines.append(f"Inference: {view.engine}.")
    if view.without_draws:
        lines.append(view.without_draws)
    lines += _unit(view)
    if view.n_terminated:
        termination = view.settings["on_termination"]
        then = "a new episode" if termination == "restart" else "reward 0 forever"
        lines.append(f"After a termination: {then} (--on-termination {termination}).")
    if view.earned is not None:
        lines.append(earned_words(view.earned.value, view.earned.standard_error))
    return lines


def _unit(view: BeliefView) -> list[str]:
    """What the belief takes as independent, and what the log said of it."""
    unit = view.unit
    if not unit:
        return []
    names = unit["names"]
    if names:
        groups = " and ".join(
            f"{name} ({size:,} groups)" for name, size in zip(names, unit["groups"], strict=True)
        )
        inflation = float(view.error_inflation.max())
        found = "as asked" if unit["asked"] else "because their rows move together"
        return [
            f"Unit of independence: {groups}, {found}: errors are up to {inflation:.2g} times as "
            "wide as if rows were independent."
        ]
    looked = [test for test in unit["tested"] if not test["by_order"]]
    return [
        f"No sign that rows of one {test['name']} move together ({test['size']:,} groups; errors "
        f"{test['shows']:.2g} times as wide would show)."
        for test in looked
    ]


def earned_words(value: float, standard_error: float) -> str:
    """The value of the logging policy. One episode, or one group, has no standard error."""
    sure = (
        f"standard error {standard_error:.2g}"
        if isfinite(standard_error)
        else "one episode, and so no standard error"
    )
    return f"The logging policy itself earned {value:.4g} per step ({sure})."
