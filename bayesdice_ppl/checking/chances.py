"""The logging policy: its propensities, whether actions fit them, and whether it learned."""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.checking.section import Section, warning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.adaptive import follows_rewards
from bayesdice_ppl.fitting.propensities import misfit_of_rows
from bayesdice_ppl.logs import Logs

UNFIT, ADAPTIVE = "propensities", "adaptive log"


def look(logs: Logs) -> Section | None:
    """Compare propensities with shares, and actions with earlier rewards; None if neither can."""
    labels = not (logs.vector_states or logs.vector_actions)
    chance, lines, faults = logs.propensity, [], []
    facts: dict[str, object] = {"propensities": chance is not None}
    if chance is not None:
        facts |= {"least": float(chance.min()), "most": float(chance.max())}
        lines.append(f"Propensities are {chance.min():.3g} to {chance.max():.3g}.")
        if labels:
            found = misfit_of_rows(logs, np.ones(logs.n_transitions, dtype=bool))
            facts |= {"error": found.found, "by_chance": found.chance}
            if found.found > gauges.PROPENSITIES.warns:
                what = (
                    "are 1 in states where several actions were taken"
                    if found.certain
                    else "do not fit the shares of the actions"
                )
                told = (
                    f"Propensities {what}: they are off by {found.found:.0%} (root mean square). "
                    "A belief on labels does not use them, but importance sampling does."
                )
                faults.append(warning(UNFIT, told, "propensity"))
            else:
                lines.append("The shares of the actions fit them.")
    elif labels:
        lines.append(
            "There are no propensities. A belief on labels does not need them."
            + logs.proposal("propensity")
        )
    else:
        lines.append("There are no propensities: a fit learns the logging policy from the log.")
    if labels:
        adaptive = follows_rewards(logs.state, logs.action, logs.reward, chance)
        facts["adaptive"] = adaptive
        if adaptive:
            told = (
                "The logging policy seems to have followed its own rewards, as a bandit algorithm "
                "does. A fit corrects its means for that, or says that it cannot."
            )
            faults.append(warning(ADAPTIVE, told))
    title = "Logging policy"
    return Section("logging_policy", title, facts, tuple(lines), faults=tuple(faults))
