"""How likely the logging policy was to act as logged, and how likely a candidate is.

The ratio of the two weights a logged action by what the candidate would have done. The logging
policy's part comes from the log's propensities, from counting labels, from a clone of the logging
policy, or from the policy itself where it is known. Which of them is the user's choice: no
propensity is ever made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.checks import one_of
from bayesdice_ppl.errors import LogsError, PoliciesError, SettingsError
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.policies.alignment import align_continuous, align_policies
from bayesdice_ppl.policies.asking import ask
from bayesdice_ppl.policies.cloning.clone import clone_policy
from bayesdice_ppl.policies.cloning.report import CloneReport
from bayesdice_ppl.policies.cloning.settings import Clone
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy
from bayesdice_ppl.policies.logging_policy import action_frequencies

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

SOURCES = ("logged", "fitted", "cloned")
"""Words for where the logging policy's probabilities come from."""


@final
class BehaviorLogProb(NamedTuple):
    """What is known of the logging policy at the logged actions.

    Attributes
    ----------
    log_prob
        Log probability of each logged action, or log density of a vector, shape (n,).
    report
        How well the logging policy was cloned, or None where it was not.
    """

    log_prob: Float[np.ndarray, " n"]
    report: CloneReport | None


def behavior_log_prob(
    logs: Logs,
    behavior: str | Policy | ContinuousPolicy,
    rng_key: PRNGKeyArray | None = None,
    settings: Clone | None = None,
) -> BehaviorLogProb:
    """Log probability with which the logging policy took each logged action.

    Parameters
    ----------
    logs
        Logged transitions, n of them. Successors are not read.
    behavior
        ``"logged"``: the log's propensities, which it must have. ``"fitted"``: the share n_sa / n_s
        of each action in each state, for labels. ``"cloned"``: a clone, see `clone_policy`. Or the
        logging policy itself.
    rng_key
        A JAX key, for ``"cloned"`` alone.
    settings
        Of the clone; None: the defaults of `Clone`.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The log lacks what the choice needs, or there is no such choice.
    """
    if not isinstance(behavior, str):
        return BehaviorLogProb(log_target(logs, behavior), None)
    if behavior == "logged":
        return BehaviorLogProb(log_logged(logs), None)
    if behavior == "fitted":
        return BehaviorLogProb(log_counted(logs), None)
    one_of("behavior", behavior, SOURCES)
    if rng_key is None:
        raise SettingsError(
            "rng_key: expected a key for behavior='cloned', found None. Give rng_key, such as "
            "jax.random.key(0)."
        )
    clone = clone_policy(logs, rng_key, Clone() if settings is None else settings)
    return BehaviorLogProb(clone.log_prob_of_log(), clone.report)


def log_ratio(
    logs: Logs, policy: Policy | ContinuousPolicy, behavior: str = "logged"
) -> Float[np.ndarray, " n"]:
    """Log of pi(a|s) / b(a|s) of every transition, b the logging policy.

    Parameters
    ----------
    logs
        Logged transitions, n of them. Successors are not read.
    policy
        The candidate: probabilities where actions are labels, densities where they are vectors.
    behavior
        As for `behavior_log_prob`, of those that need no key.

    Returns
    -------
    array
        Shape (n,), minus infinity where the candidate never takes the logged action.

    Raises
    ------
    LogsError, PoliciesError
        The policy does not cover the log, or its densities are no numbers.
    """
    target = log_target(logs, policy)
    return target - behavior_log_prob(logs, behavior).log_prob


def log_target(
    logs: Logs, policy: Policy | ContinuousPolicy, name: str = "policy"
) -> Float[np.ndarray, " n"]:
    """Log probability with which a policy takes each logged action; the log density of a vector.

    Parameters
    ----------
    logs
        Logged transitions, n of them. Successors are not read.
    policy
        The policy: probabilities where actions are labels, densities where they are vectors.
    name
        What messages call it.

    Returns
    -------
    array
        Shape (n,), in nats, minus infinity where the policy never takes the logged action.

    Raises
    ------
    LogsError, PoliciesError
        The policy does not cover the log, or its densities are no numbers.
    """
    if logs.vector_actions:
        return _log_density(logs, policy, name)
    aligned = align_policies(logs, {name: policy}, needs_successors=False)
    action = aligned.codes(logs)[logs.action]
    with np.errstate(divide="ignore"):
        log_prob: Float[np.ndarray, " n"] = np.log(aligned.probabilities[0][logs.state, action])
    return log_prob


def log_logged(logs: Logs) -> Float[np.ndarray, " n"]:
    """Log of the log's propensities, shape (n,).

    Raises
    ------
    LogsError
        The log has none.
    """
    if logs.propensity is None:
        raise LogsError(
            "behavior='logged': expected propensities, found no column propensity. Add "
            f"one, or use another behavior.{logs.proposal('propensity')}"
        )
    return np.log(logs.propensity)


def log_counted(logs: Logs) -> Float[np.ndarray, " n"]:
    """Log of the share n_sa / n_s of the logged action in its state, shape (n,).

    Raises
    ------
    LogsError
        States or actions are vectors, which have no counts.
    """
    if logs.vector_states or logs.vector_actions:
        found = "states" if logs.vector_states else "actions"
        raise LogsError(
            f"behavior: expected labels to count for 'fitted', found {found} that are vectors. Use "
            "'cloned', or 'logged' with a column propensity."
        )
    shape = (len(logs.state_labels), len(logs.action_labels))
    shares = action_frequencies(logs.state, logs.action, shape)
    return np.log(shares[logs.state, logs.action])


def _log_density(
    logs: Logs, policy: Policy | ContinuousPolicy, name: str
) -> Float[np.ndarray, " n"]:
    ((_, candidate),) = align_continuous(logs, {name: policy})
    seen = logs.state_labels[logs.state]
    action = logs.action_vector
    found = ask(name, "log_prob", lambda some: candidate.log_prob(seen[some], action[some]), seen)
    if found.shape != (logs.n_transitions,):
        raise PoliciesError(
            f"policy {name!r}: expected log_prob(obs, action) to give shape "
            f"({logs.n_transitions},), a number for each logged action, found {found.shape}."
        )
    broken = np.isnan(found) | (found == np.inf)
    if broken.any():
        row = int(np.flatnonzero(broken)[0])
        raise PoliciesError(
            f"policy {name!r}: expected log_prob to be a finite number, or minus infinity where "
            f"the action is never taken, found {found[row]:g} for the action in row "
            f"{logs.row[row]}. Correct the policy."
        )
    return found
