"""States and actions of a log: which pairs were logged, and how often."""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.checking.section import Section, counted, warning
from bayesdice_ppl.codes import combined
from bayesdice_ppl.logs import Logs

SINGLE = "one action in each state"
FEW = 5
"""Rows below which a pair was logged a few times."""


def look(logs: Logs) -> Section:
    """Count the pairs of state and action."""
    if logs.vector_states or logs.vector_actions:
        return _vectors(logs)
    n, state = logs.n_transitions, logs.state
    (of_state, _), pair = combined(state, logs.action)
    visits = np.bincount(pair)
    n_states, n_actions = len(np.unique(state)), len(logs.action_labels)
    actions = np.bincount(of_state, minlength=len(logs.state_labels))
    single = float(np.mean(actions[state] == 1))
    share = np.bincount(logs.action, minlength=n_actions) / n
    never = len(logs.state_labels) - n_states
    facts = {
        "states": n_states,
        "states_only_as_next": never,
        "actions": n_actions,
        "pairs": len(visits),
        "pairs_possible": n_states * n_actions,
        "pairs_logged_few_times": int((visits < FEW).sum()),
        "share_of_rows_in_states_with_one_action": single,
        "least_share_of_an_action": float(share.min()),
        "most_share_of_an_action": float(share.max()),
    }
    few, possible = int((visits < FEW).sum()), n_states * n_actions
    pairs = f"{len(visits):,} of their {possible:,} pairs were logged"
    if len(visits) == possible:
        pairs = f"all of their {possible:,} pairs were logged"
    lines = [
        f"{counted(n_states, 'state')}, {counted(n_actions, 'logged action')}; {pairs}, "
        f"{f'{few:,}' if few else 'none'} of them fewer than {FEW} times.",
        f"The rarest action was taken in {share.min():.2%} of the rows, the most frequent in "
        f"{share.max():.2%}.",
    ]
    if never:
        lines.append(
            f"{counted(never, 'state')} occur{'s' * (never == 1)} only as a next state: nothing "
            "was logged there."
        )
    faults = []
    if single == 1.0 and n_actions > 1:
        told = "In each state one action was taken, so that nothing is known of any other."
        faults.append(warning(SINGLE, told))
    elif single > 0.0:
        lines.append(f"{single:.1%} of the rows are in states where one action alone was taken.")
    return Section("coverage", "States and actions", facts, tuple(lines), faults=tuple(faults))


def _vectors(logs: Logs) -> Section:
    facts, parts = {}, []
    for key, vectors, labels, what in (
        ("states", logs.vector_states, logs.state_labels, "observation"),
        ("actions", logs.vector_actions, logs.action_labels, "action"),
    ):
        if vectors:
            facts[f"dimensions_of_{key}"] = labels.shape[1]
            parts.append(f"{labels.shape[1]}-dimensional {what}s")
        else:
            facts[key] = len(labels)
            parts.append(f"{len(labels):,} {'states' if key == 'states' else 'logged actions'}")
    return Section("coverage", "States and actions", facts, (f"{', '.join(parts)}.",))
