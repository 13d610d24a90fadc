"""How likely the candidate was to act as logged, relative to the logging policy.

The log's propensities say how the logging policy acted. Without them its actions can be counted in
each state, but only when the user asks for that: no propensity is ever made up.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.errors import LogsError, PoliciesError
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.logs.logs import MISSING
from bayesdice_ppl.policies import (
    ContinuousPolicy,
    Policy,
    action_frequencies,
    align_continuous,
    align_policies,
)

BEHAVIORS = ("logged", "fitted")
"""Where the logging policy's probabilities come from."""


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
        ``"logged"``: the log's propensities, which it must have. ``"fitted"``: the share n_sa / n_s
        of each action in each state, for labels.

    Returns
    -------
    array
        Shape (n,), minus infinity where the candidate never takes the logged action.

    Raises
    ------
    LogsError, PoliciesError
        The policy does not cover the log, or its densities are no numbers.
    """
    if logs.vector_actions:
        log_target = _log_density(logs, policy)
    else:
        aligned = align_policies(logs, {"policy": policy}, needs_successors=False)
        action = aligned.codes(logs)[logs.action]
        with np.errstate(divide="ignore"):
            log_target = np.log(aligned.probabilities[0][logs.state, action])
    if behavior == "fitted":
        shape = (len(logs.state_labels), len(logs.action_labels))
        shares = action_frequencies(logs.state, logs.action, shape)
        return log_target - np.log(shares[logs.state, logs.action])
    if logs.propensity is None:
        raise LogsError("the log has no column propensity. Add one, or use behavior='fitted'.")
    return log_target - np.log(logs.propensity)


def check_every_step(logs: Logs) -> None:
    """Refuse a log in whose episodes steps are missing: the product of ratios needs them all.

    Raises
    ------
    LogsError
        With the row after which a step is missing.
    """
    if logs.vector_states:
        # Observations that differ in their last digit would look like a missing step.
        return
    together = logs.episode[1:] == logs.episode[:-1]
    after = logs.next_state[:-1]
    broken = together & (after != MISSING) & (after != logs.state[1:])
    if broken.any():
        at = int(np.flatnonzero(broken)[0])
        raise LogsError(
            f"row {logs.row[at]}: the next logged step of its episode (row {logs.row[at + 1]}) is "
            "not in the state that followed, so steps are missing between them. Importance "
            "sampling needs the probability of every action of an episode: add the missing rows."
        )


def _log_density(logs: Logs, policy: Policy | ContinuousPolicy) -> Float[np.ndarray, " n"]:
    ((_, candidate),) = align_continuous(logs, {"policy": policy})
    seen = logs.state_labels[logs.state]
    found = np.asarray(candidate.log_prob(seen, logs.action_vector), dtype=np.float64)
    if found.shape != (logs.n_transitions,):
        raise PoliciesError(
            f"policy: log_prob(obs, action) gave shape {found.shape} for {logs.n_transitions} "
            f"actions; expected ({logs.n_transitions},)."
        )
    broken = np.isnan(found) | (found == np.inf)
    if broken.any():
        row = int(np.flatnonzero(broken)[0])
        raise PoliciesError(
            f"policy: log_prob of the action in row {logs.row[row]} is {found[row]:g}; expected a "
            "finite number, or minus infinity where the action is never taken."
        )
    return found
