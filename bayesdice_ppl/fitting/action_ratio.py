"""The action ratio of every candidate: how much likelier it was to act as logged than the log was.

Where the logging policy mu is known, the ratio of a candidate is pi(a|s) / mu(a|s) times a function
of the state. What remains to be learned is smoother, and has fewer numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs, UsableRows
from bayesdice_ppl.moments import LoggedPairs
from bayesdice_ppl.policies import CloneReport, ContinuousPolicy, Policy
from bayesdice_ppl.policies.behavior import behavior_log_prob, log_target

MOST = 20.0
"""Largest action ratio that is used; one row of more weight could decide alone."""


class ActionRatios(NamedTuple):
    """The action ratios of N candidates.

    Attributes
    ----------
    by_pair
        pi(a|s) / mu(a|s) of each logged pair, at most `MOST`, shape (N, P).
    capped
        Share of each candidate's weight that lies above the cap, and is lost, shape (N,).
    mean, error
        Mean over the log of the ratios before the cap, which is 1 for right ones, and its standard
        error, shape (N,).
    report
        How well the logging policy was cloned; None where it was not.
    """

    by_pair: Float[np.ndarray, "N P"]
    capped: Float[np.ndarray, " N"]
    mean: Float[np.ndarray, " N"]
    error: Float[np.ndarray, " N"]
    report: CloneReport | None


def action_ratios(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    names: tuple[str, ...],
    pairs: LoggedPairs,
    rows: UsableRows,
    behavior: str,
    rng_key: PRNGKeyArray | None,
) -> ActionRatios:
    """Divide what each candidate would have done by what the logging policy did.

    Parameters
    ----------
    logs, policies, names
        The log, and the candidates in their order.
    pairs, rows
        The logged pairs, and which transitions are used. Transitions of one pair share the mean of
        their ratios.
    behavior
        ``"logged"``: by the log's propensities. ``"cloned"``: by a clone of the logging policy.
    rng_key
        Key of the clone.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The log has no propensities, the policy cannot be cloned, or a density is no number.
    """
    known = behavior_log_prob(logs, behavior, rng_key)
    if not np.isfinite(known.log_prob).all():
        row = int(logs.row[np.flatnonzero(~np.isfinite(known.log_prob))[0]])
        raise LogsError(
            f"behavior={behavior!r}: expected a positive, finite probability or density of every "
            f"logged action, found another in row {row}. Use behavior='none'."
        )
    visits = np.bincount(pairs.of_row, minlength=len(pairs.state))
    found, capped, mean, error = [], [], [], []
    for name in names:
        ratio = np.exp(log_target(logs, policies[name], name) - known.log_prob)[rows.mask]
        by_pair = np.bincount(pairs.of_row, ratio, minlength=len(visits)) / visits
        least = np.minimum(by_pair, MOST)
        found.append(least)
        mean.append(ratio.mean())
        error.append(ratio.std() / np.sqrt(len(ratio)))
        whole = visits @ by_pair
        capped.append(1.0 - (visits @ least) / whole if whole > 0.0 else 0.0)
    return ActionRatios(
        np.stack(found), np.array(capped), np.array(mean), np.array(error), known.report
    )
