"""Bring the candidates onto the states and actions of the log.

The action space is what was declared, or else the set of actions that the candidates know; a
logged action outside it means that the log and the candidates do not belong together. A logged
state that a candidate's table does not have is refused by name: nothing is made up for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import LogsError, PoliciesError
from bayesdice_ppl.logs.labels import label_kind, shown
from bayesdice_ppl.logs.logs import MISSING, Logs
from bayesdice_ppl.policies.gaussian import ContinuousPolicy
from bayesdice_ppl.policies.policies import Policies
from bayesdice_ppl.policies.tabular import (
    Policy,
    TabularPolicy,
    check_probabilities,
    number_table,
)


class AlignedPolicies(NamedTuple):
    """Candidates on the log's own states and the action space.

    Attributes
    ----------
    names
        The N names, in the order given.
    probabilities
        Shape (N, S, A): in the log's states, for the actions of the action space. Zero in a state
        that only ever ended an episode, where no action is taken.
    actions
        Labels of the action space, shape (A,).
    source
        Where the action space came from, for the report.
    """

    names: tuple[str, ...]
    probabilities: Float[np.ndarray, "N S A"]
    actions: Shaped[np.ndarray, " A"]
    source: str

    def codes(self, logs: Logs) -> Int[np.ndarray, " A_log"]:
        """Position in the action space of each of the log's action labels."""
        where = {label: i for i, label in enumerate(self.actions.tolist())}
        return np.array([where[label] for label in logs.action_labels.tolist()])


def align_policies(
    logs: Logs, policies: Mapping[str, Policy | ContinuousPolicy], *, needs_successors: bool = True
) -> AlignedPolicies:
    """Tabulate every candidate on the log's states and the action space.

    Parameters
    ----------
    logs
        The logged transitions.
    policies
        The candidates.
    needs_successors
        Whether states seen only as a successor must be covered too (True for gamma > 0).

    Raises
    ------
    LogsError
        A logged action is outside the action space.
    PoliciesError
        A candidate does not cover a logged state, or its output has the wrong shape.
    """
    candidates = policies if isinstance(policies, Policies) else Policies(policies)
    actions, source = _action_space(logs, candidates)
    if label_kind(actions) != label_kind(logs.action_labels):
        raise PoliciesError(
            f"the candidates label actions with {label_kind(actions)} and the log with "
            f"{label_kind(logs.action_labels)}; use the same labels in both."
        )
    where = {label: i for i, label in enumerate(actions.tolist())}
    outside = np.array([label not in where for label in logs.action_labels.tolist()])
    if outside.any():
        row = int(np.flatnonzero(outside[logs.action])[0])
        label = logs.action_labels[logs.action[row]]
        raise LogsError(
            f"logged action {shown(label)} (row {logs.row[row]}) is outside the action space, "
            f"which is {source}: {_listed(actions)}. If the log is right, declare the whole "
            "action space with actions= (--actions)."
        )
    needed = needed_states(logs, needs_successors=needs_successors)
    tables = [
        _tabulate(name, policy, logs, needed, actions, where) for name, policy in candidates.items()
    ]
    return AlignedPolicies(tuple(candidates), np.stack(tables), actions, source)


def needed_states(logs: Logs, *, needs_successors: bool) -> Bool[np.ndarray, " S"]:
    """States of the log in which an action is taken, or would be (those of successors)."""
    needed = np.zeros(len(logs.state_labels), dtype=bool)
    needed[logs.state] = True
    if needs_successors:
        needed[logs.next_state[(logs.next_state != MISSING) & ~logs.terminated]] = True
    return needed


def align_continuous(
    logs: Logs, policies: Mapping[str, Policy | ContinuousPolicy]
) -> tuple[tuple[str, ContinuousPolicy], ...]:
    """Names and policies of the candidates of a log whose actions are vectors.

    Raises
    ------
    PoliciesError
        A candidate draws no actions.
    """
    candidates = policies if isinstance(policies, Policies) else Policies(policies)
    found = []
    for name, policy in candidates.items():
        if not isinstance(policy, ContinuousPolicy):
            raise PoliciesError(
                f"policy {name!r}: the log's actions are vectors ({logs.action_labels.shape[1]} "
                "numbers); expected an object with sample(rng_key, obs, n) and log_prob(obs, "
                "action), such as a GaussianPolicy."
            )
        found.append((name, policy))
    return tuple(found)


def _action_space(logs: Logs, candidates: Policies) -> tuple[np.ndarray, str]:
    if logs.declared_actions is not None:
        return logs.declared_actions, "as declared"
    spaces = [
        np.asarray(policy.actions)
        for policy in candidates.values()
        if isinstance(policy, TabularPolicy)
    ]
    if not spaces:
        raise PoliciesError(
            "the candidates are Python objects, and their columns need names: declare the action "
            "space, in the order of their columns, with actions= when reading the log."
        )
    kinds = {label_kind(space) for space in spaces}
    if len(kinds) > 1:
        raise PoliciesError("some candidates label actions with integers and some with strings.")
    labels = sorted({label for space in spaces for label in space.tolist()})
    dtype = np.int64 if kinds == {"integers"} else object
    return np.array(labels, dtype=dtype), "the set of actions in the candidates' table"


def _tabulate(
    name: str,
    policy: Policy | ContinuousPolicy,
    logs: Logs,
    needed: Bool[np.ndarray, " S"],
    actions: np.ndarray,
    where: dict[Any, int],
) -> np.ndarray:
    table = np.zeros((len(needed), len(actions)))
    if not isinstance(policy, Policy):
        raise PoliciesError(
            f"policy {name!r} draws continuous actions, and the log's actions are labels; expected "
            "a method probs(obs) -> (batch, n_actions)."
        )
    if isinstance(policy, TabularPolicy) and logs.vector_states:
        raise PoliciesError(
            f"policy {name!r} is a table over states with labels, and the log's states are "
            f"vectors ({logs.state_labels.shape[1]} numbers); expected an object with a method "
            "probs(obs) -> (batch, n_actions)."
        )
    if not isinstance(policy, TabularPolicy):
        rows = np.flatnonzero(needed)
        found = number_table(policy.probs(logs.state_labels[rows]), f"policy {name!r}: probs")
        if found.shape != (len(rows), len(actions)):
            raise PoliciesError(
                f"policy {name!r}: probs gave shape {found.shape} for {len(rows)} states; "
                f"expected {(len(rows), len(actions))}, one column per action of the action space."
            )
        check_probabilities(found, logs.state_labels[rows], actions, name)
        table[rows] = found
        return table
    if label_kind(policy.states) != label_kind(logs.state_labels):
        raise PoliciesError(
            f"policy {name!r} labels states with {label_kind(policy.states)} and the log with "
            f"{label_kind(logs.state_labels)}; use the same labels in both."
        )
    if label_kind(policy.actions) != label_kind(actions):
        raise PoliciesError(
            f"policy {name!r} labels actions with {label_kind(policy.actions)} and the action "
            f"space has {label_kind(actions)}; use the same labels in both."
        )
    unknown = [
        label
        for label, used in zip(
            policy.actions.tolist(), policy.probabilities.any(axis=0), strict=True
        )
        if used and label not in where
    ]
    if unknown:
        raise PoliciesError(
            f"policy {name!r} takes action {unknown[0]!r}, which is outside the declared action "
            "space; add it to actions= (--actions)."
        )
    known = np.array([label in where for label in policy.actions.tolist()])
    columns = [where[label] for label in policy.actions[known].tolist()]
    rows_of = {label: i for i, label in enumerate(policy.states.tolist())}
    for s, label in enumerate(logs.state_labels.tolist()):
        if label in rows_of:
            table[s, columns] = policy.probabilities[rows_of[label]][known]
        elif needed[s]:
            raise PoliciesError(
                f"policy {name!r} has no rows for state {label!r}, which the log visits; add "
                "them (their probabilities must sum to 1)."
            )
    return table


def _listed(labels: np.ndarray) -> str:
    shown = ", ".join(str(label) for label in labels[:8].tolist())
    return shown if len(labels) <= 8 else f"{shown}, ... ({len(labels)} actions)"
