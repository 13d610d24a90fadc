"""What weighting whole episodes asks of a log: the logging policy's probabilities at every step.

`bayesdice_ppl.policies.log_ratio` has the ratio of one step.
"""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.logs.logs import MISSING

BEHAVIORS = ("logged", "fitted")
"""Where the logging policy's probabilities come from."""


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
