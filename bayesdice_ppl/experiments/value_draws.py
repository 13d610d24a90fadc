"""BayesDICE's draws for one log: those of the belief that `bayesdice_ppl.fit` makes of it.

Rows are taken as independent, as those of simulated logs are: labels with ``cluster="transition"``,
vectors with ``cluster="episode"``.

A belief carries its settings, warnings and diagnostics, which take longer to lay out than a small
fit takes. Thousands of trials need the draws alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.experiments.value_beliefs import draw_belief, value_belief
from bayesdice_ppl.fitting import FitSettings, default_features, read_inputs
from bayesdice_ppl.fitting.settings import with_preset
from bayesdice_ppl.inference import draw, prepare, solve
from bayesdice_ppl.keys import split_key
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy


def draw_values(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    *,
    gamma: float,
    rng_key: PRNGKeyArray,
    draws: int,
    preset: str | None = None,
) -> Float[np.ndarray, "S N"]:
    """Draw the candidates' values from the belief that a log makes, in closed form.

    Parameters
    ----------
    logs, policies, gamma, rng_key
        As for `bayesdice_ppl.fit`.
    draws
        S.
    preset
        None for the library's defaults, or ``"paper"``.

    Returns
    -------
    array
        Shape (S, N), in reward per step. Of vectors those that ``posterior/value`` would hold with
        ``inference="exact"`` and ``behavior="none"``, the linear ratio of state and action; of
        labels other draws from the same belief, by `bayesdice_ppl.experiments.value_beliefs`.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        As `bayesdice_ppl.fit`.
    """
    choices: dict[str, Any] = {"features": default_features(logs), "inference": "exact"}
    settings = FitSettings(gamma, **with_preset(preset, {"draws": draws, **choices}))
    inputs = read_inputs(logs, policies, settings, rng_key)
    keys = split_key(rng_key)
    if settings.tabular:
        cells, candidates = inputs.cells, inputs.candidates
        belief = value_belief(cells, candidates, settings, inputs.cell_rows, inputs)
        return draw_belief(belief, draws, keys[1])
    form = settings.form
    problem = prepare(inputs.cells, inputs.candidates, form, guided=False)
    solution = solve(problem, keys[0], form, settings.inference, draws)
    drawn = draw(problem, solution, inputs.candidates, keys[1], form, settings.drawing)
    return np.asarray(drawn.value, dtype=np.float64)
