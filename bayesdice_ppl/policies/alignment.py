"""Bring the candidates onto the states and actions of the log.

The action space is the declared one, or else the set of actions in the candidates' tables. A logged
action outside it means that the log and the candidates do not belong together. A logged state that
a candidate's table lacks is refused by name: nothing is made up for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import LogsError, PoliciesError
from bayesdice_ppl.logs import AnyLogs, CountedLogs
from bayesdice_ppl.logs.labels import MISSING, label_kind, shown, shown_all
from bayesdice_ppl.policies.asking import ask
from bayesdice_ppl.policies.by_row import RowPolicy
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy
from bayesdice_ppl.policies.labeled import KnowsActions
from bayesdice_ppl.policies.named_columns import by_label
from bayesdice_ppl.policies.policies import Policies
from bayesdice_ppl.policies.tabular import TabularPolicy, whole_probabilities


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

    def codes(self, logs: AnyLogs) -> Int[np.ndarray, " A_log"]:
        """Position in the action space of each of the log's action labels."""
        where = {label: i for i, label in enumerate(self.actions.tolist())}
        return np.array([where[label] for label in logs.action_labels.tolist()])


def align_policies(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    *,
    needs_successors: bool = True,
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
            f"actions: expected {label_kind(logs.action_labels)}, as in the log, found "
            f"{label_kind(actions)} in the candidates' tables. Use the same labels in both."
        )
    where = {label: i for i, label in enumerate(actions.tolist())}
    outside = np.array([label not in where for label in logs.action_labels.tolist()])
    if outside.any():
        row = int(np.flatnonzero(outside[logs.action])[0])
        label = logs.action_labels[logs.action[row]]
        raise LogsError(
            f"{logs.place(row)}: expected an action of the action space, found "
            f"{shown(label)}. The space is {source}: {shown_all(actions)}. If the log is right, "
            "declare the whole action space with actions= (--actions)."
        )
    needed = needed_states(logs, needs_successors=needs_successors)
    tables = [
        _tabulate(name, policy, logs, needed, actions, where) for name, policy in candidates.items()
    ]
    return AlignedPolicies(tuple(candidates), np.stack(tables), actions, source)


def needed_states(logs: AnyLogs, *, needs_successors: bool) -> Bool[np.ndarray, " S"]:
    """States of the log in which an action is taken, or would be (those of successors)."""
    needed = np.zeros(len(logs.state_labels), dtype=bool)
    needed[logs.state] = True
    if needs_successors:
        needed[logs.next_state[(logs.next_state != MISSING) & ~logs.terminated]] = True
    return needed


def align_continuous(
    logs: AnyLogs, policies: Mapping[str, Policy | ContinuousPolicy]
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
                f"policy {name!r}: expected an object with sample(rng_key, obs, n) and "
                "log_prob(obs, action), such as a GaussianPolicy, since the log's actions are "
                f"vectors of {logs.action_labels.shape[1]} numbers, found {type(policy).__name__}."
            )
        found.append((name, policy))
    return tuple(found)


def _action_space(logs: AnyLogs, candidates: Policies) -> tuple[np.ndarray, str]:
    if logs.declared_actions is not None:
        return logs.declared_actions, "as declared"
    spaces = [
        np.asarray(policy.actions if isinstance(policy, TabularPolicy) else policy.action_labels)
        for policy in candidates.values()
        if isinstance(policy, TabularPolicy | KnowsActions)
    ]
    if not spaces:
        raise PoliciesError(
            "actions: expected a declared action space, since the candidates are Python objects "
            "whose columns have no names, found none. Declare it with actions= when you read the "
            "log, in the order of their columns."
        )
    kinds = {label_kind(space) for space in spaces}
    if len(kinds) > 1:
        raise PoliciesError(
            "actions: expected one kind of label in all candidates, found integers in some and "
            "strings in others. Use the same labels in all."
        )
    labels = sorted({label for space in spaces for label in space.tolist()})
    dtype = np.int64 if kinds == {"integers"} else object
    return np.array(labels, dtype=dtype), "the set of actions in the candidates' table"


def _tabulate(
    name: str,
    policy: Policy | ContinuousPolicy,
    logs: AnyLogs,
    needed: Bool[np.ndarray, " S"],
    actions: np.ndarray,
    where: dict[Any, int],
) -> np.ndarray:
    if not isinstance(policy, Policy):
        raise PoliciesError(
            f"policy {name!r}: expected a method probs(obs) -> (batch, n_actions), since the log's "
            f"actions are labels, found a {type(policy).__name__}, which draws vectors."
        )
    if isinstance(policy, TabularPolicy):
        own, table = policy.actions, _of_table(name, policy, logs, needed)
        taken = policy.probabilities.any(axis=0)
    elif isinstance(policy, RowPolicy):
        if isinstance(logs, CountedLogs):
            raise PoliciesError(
                f"policy {name!r}: expected a table of states, or an object that is asked about "
                "them, for a log that is counted where it lies, found probabilities by row."
            )
        own, table = policy.action_labels, policy.in_states(logs, needed, name)
        taken = table.any(axis=0)
    else:
        own = policy.action_labels if isinstance(policy, KnowsActions) else actions
        table = _of_states(name, policy, logs, needed, own)
        taken = table.any(axis=0)
    placed = _placed(name, table, (own, taken), actions, where)
    return _within_sets(name, placed, logs, needed, actions)


def _of_states(
    name: str,
    policy: Policy,
    logs: AnyLogs,
    needed: Bool[np.ndarray, " S"],
    own: Shaped[np.ndarray, " A_own"],
) -> Float[np.ndarray, "S A_own"]:
    """What a policy says that is asked about states."""
    rows = np.flatnonzero(needed)
    states = logs.seen_states[rows]
    what = f"policy {name!r}: probs"
    found = ask(
        name, "probs", lambda some: by_label(policy.probs(states[some]), own.tolist(), what), states
    )
    if found.shape != (len(rows), len(own)):
        raise PoliciesError(
            f"policy {name!r}: expected probs of {len(rows)} states to give shape "
            f"{(len(rows), len(own))}, one column for each action of the action space, "
            f"found {found.shape}."
        )
    table = np.zeros((len(needed), len(own)))
    table[rows] = whole_probabilities(found, states, own, name, rounded=False)[0]
    return table


def _of_table(
    name: str, policy: TabularPolicy, logs: AnyLogs, needed: Bool[np.ndarray, " S"]
) -> Float[np.ndarray, "S A_own"]:
    """What a table of labeled states says."""
    if logs.vector_states:
        raise PoliciesError(
            f"policy {name!r}: expected an object with a method probs(obs) -> (batch, n_actions), "
            f"since the log's states are vectors of {logs.state_labels.shape[1]} numbers, found a "
            "table over labeled states."
        )
    kinds = {label_kind(logs.seen_states), label_kind(logs.state_labels)}
    if label_kind(policy.states) not in kinds:
        raise PoliciesError(
            f"policy {name!r}: expected states labeled with {label_kind(logs.seen_states)}, as in "
            f"the log, found {label_kind(policy.states)}. Use the same labels in both."
        )
    table = np.zeros((len(needed), len(policy.actions)))
    rows_of = {label: i for i, label in enumerate(policy.states.tolist())}
    # A table that knows of the sets has a row for each state with its set.
    both = zip(logs.state_labels.tolist(), logs.seen_states.tolist(), strict=True)
    for s, (whole, seen) in enumerate(both):
        label = whole if whole in rows_of else seen
        if label in rows_of:
            table[s] = policy.probabilities[rows_of[label]]
        elif needed[s]:
            raise PoliciesError(
                f"policy {name!r}: expected rows for state {label!r}, which the log visits, found "
                "none. Add them; their probabilities must sum to 1."
            )
    return table


def _placed(
    name: str,
    table: Float[np.ndarray, "S A_own"],
    columns: tuple[Shaped[np.ndarray, " A_own"], Bool[np.ndarray, " A_own"]],
    actions: Shaped[np.ndarray, " A"],
    where: dict[Any, int],
) -> Float[np.ndarray, "S A"]:
    """Bring a policy's own columns, labels and whether they are taken, onto the action space."""
    own, taken = columns
    if own is actions:
        return table
    if label_kind(own) != label_kind(actions):
        raise PoliciesError(
            f"policy {name!r}: expected actions labeled with {label_kind(actions)}, as in the "
            f"action space, found {label_kind(own)}. Use the same labels in both."
        )
    labels = own.tolist()
    used = zip(labels, taken.tolist(), strict=True)
    unknown = [label for label, is_taken in used if is_taken and label not in where]
    if unknown:
        raise PoliciesError(
            f"policy {name!r}: expected actions of the declared action space, found "
            f"{unknown[0]!r}. Add it to actions= (--actions)."
        )
    known = [column for column, label in enumerate(labels) if label in where]
    placed = np.zeros((len(table), len(actions)))
    placed[:, [where[labels[column]] for column in known]] = table[:, known]
    return placed


def _within_sets(
    name: str,
    table: Float[np.ndarray, "S A"],
    logs: AnyLogs,
    needed: Bool[np.ndarray, " S"],
    actions: np.ndarray,
) -> Float[np.ndarray, "S A"]:
    """Renormalize a candidate over the actions that each state allows, where the log says which."""
    sets = logs.allowed
    if sets is None:
        return table
    kept = np.where(sets.allows(actions), table, 0.0)
    total = kept.sum(axis=1)
    nothing = needed & (total <= 0.0)
    if nothing.any():
        state = int(np.flatnonzero(nothing)[0])
        row = np.flatnonzero(logs.state == state)
        where = logs.place(int(row[0])) if row.size else "a state of the log"
        raise PoliciesError(
            f"policy {name!r}: expected a probability above 0 for one of the actions that {where} "
            f"allows, {sets.shown(state)}, found none. Say what it does where its first choice is "
            "not allowed: give its other choices a small probability, such as 0.01."
        )
    return kept / np.where(total > 0.0, total, 1.0)[:, None]
