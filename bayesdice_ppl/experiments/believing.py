"""BayesDICE's draws for one log: what `bayesdice_ppl.fit` draws, without the belief around them.

A belief carries its settings, warnings and diagnostics, which take longer to lay out than a small
fit takes. Thousands of trials need the draws alone, and a test holds these against `fit`'s own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.experiments.wide import draw_belief, value_belief
from bayesdice_ppl.inference import draw, make_settings, prepare, solve, split_key
from bayesdice_ppl.inference.gain import WIDE
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy
from bayesdice_ppl.preparation import default_features, gather
from bayesdice_ppl.prepared import Prepared


def draw_values(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    *,
    gamma: float,
    rng_key: PRNGKeyArray,
    draws: int,
    **given: Any,
) -> Float[np.ndarray, "S N"]:
    """Draw the candidates' values from the belief that a log makes.

    Parameters
    ----------
    logs, policies, gamma, rng_key
        As for `bayesdice_ppl.fit`.
    draws
        S.
    **given
        Any other setting of `bayesdice_ppl.fit`; the closed form unless ``inference`` is given.

    Returns
    -------
    array
        Shape (S, N), in reward per step: those that ``posterior/value`` would hold. With more than
        `bayesdice_ppl.inference.gain.WIDE` logged pairs and no settings of their own they are
        other draws from the same belief, which take a third of the time.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        As `bayesdice_ppl.fit`.
    """
    settings = make_settings(
        gamma=gamma,
        draws=draws,
        features=default_features(logs),
        **{"inference": "exact", **given},
    )
    gathered = gather(logs, policies, settings, rng_key)
    keys = split_key(rng_key)
    if settings.tabular and not given and len(gathered.pairs.state) > WIDE:
        belief = value_belief(gathered.cells, gathered.candidates, settings)
        return draw_belief(belief, draws, keys[1])
    prepared = Prepared(gathered, prepare(gathered.cells, gathered.candidates, settings))
    solution = solve(prepared.problem, keys[0], settings)
    drawn = draw(prepared.problem, solution, prepared.candidates, keys[1], settings)
    return np.asarray(drawn.value, dtype=np.float64)
