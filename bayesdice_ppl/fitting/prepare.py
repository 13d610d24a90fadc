"""From logs and candidates to the problem that inference solves.

The input is checked and turned into counts and features. One-hot features of the logged pairs are
made here, all others in `bayesdice_ppl.fitting.featured`. An engine of your own starts here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.arrays import each
from bayesdice_ppl.errors import LogsError, PoliciesError, SettingsError
from bayesdice_ppl.fitting.correcting import corrected
from bayesdice_ppl.fitting.counted import (
    CountedFacts,
    check_counted,
    check_counted_rewards,
    pair_sums,
)
from bayesdice_ppl.fitting.defaults import AUTO, with_defaults
from bayesdice_ppl.fitting.featured import featured_inputs
from bayesdice_ppl.fitting.inputs import Inputs, Prepared
from bayesdice_ppl.fitting.row_facts import facts_of
from bayesdice_ppl.fitting.settings import FitSettings, is_setting, refuse_moved, with_preset
from bayesdice_ppl.inference import Dependence, UnseenPairs, prepare_values
from bayesdice_ppl.inference import prepare as prepare_problem
from bayesdice_ppl.inference.dependence import GroupedRows
from bayesdice_ppl.logs import AnyLogs, CountedLogs, Logs, UsableRows, usable_rows
from bayesdice_ppl.models import TrainedModel
from bayesdice_ppl.moments import (
    Candidates,
    KnownMeans,
    LoggedPairs,
    check_rewards,
    count_cells,
    count_lines,
    logged_pairs,
    pad_cells,
    pair_rewards,
    reach,
    renormalize,
)
from bayesdice_ppl.policies import ContinuousPolicy, Policy, align_policies, with_logged_policy

MIN_EPISODES = 10
"""Fewest episodes from which a spread between episodes is taken."""


def prepare_fit(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    settings: FitSettings,
    rng_key: PRNGKeyArray | None = None,
    *,
    guided: bool = True,
    dependent: bool = True,
    judged: bool = False,
    alone: bool = False,
) -> Prepared:
    """Bring logs and candidates to the problem that inference solves.

    Parameters
    ----------
    logs, policies, settings
        The input and every choice.
    rng_key
        Key of random features and of sampled actions; not needed where there are none.
    guided
        Whether coordinates are wanted for an engine that moves in none.
    dependent
        Whether the unit of independence is looked for; it sets widths alone.
    judged
        Whether the fit is judged by functions that it is not fitted to; see
        `bayesdice_ppl.fitting.overidentification`.
    alone
        Whether the values alone are wanted where there are many weights.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.
    """
    inputs = read_inputs(logs, policies, settings, rng_key, judged=judged)
    engine, dependence, behind = settings.inference, None, None
    facts = facts_of(inputs)
    if dependent:
        dependence = corrected(inputs, facts.dependence())
        check_fixed_policy(settings, dependence)
        behind = dependence if isinstance(dependence, Dependence) else None
        if behind is None and settings.by_episode:
            behind = facts.by_episode()
    if alone and settings.eliminates(*inputs.candidates.active.shape):
        problem = prepare_values(
            inputs.cells,
            inputs.candidates,
            settings.form,
            dependence,
            rows=facts.powers,
            known=inputs.known,
        )
        return Prepared(inputs, problem)
    problem = prepare_problem(
        inputs.cells,
        inputs.candidates,
        settings.form,
        dependence=dependence,
        rows=facts.powers,
        behind=behind,
        known=inputs.known,
        guided=guided or engine.guided,
        tangent=engine.tangent,
    )
    return Prepared(inputs, problem)


def read_inputs(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    settings: FitSettings,
    rng_key: PRNGKeyArray | None = None,
    *,
    judged: bool = False,
) -> Inputs:
    """Check the input and bring logs and candidates onto features; see `prepare_fit`."""
    gamma = settings.gamma
    if not isinstance(logs, AnyLogs):
        raise LogsError(
            f"logs: expected Logs (read_logs or Logs.from_dataframe), found {type(logs).__name__}."
        )
    if isinstance(logs, CountedLogs):
        check_counted(logs, settings)
    if settings.form.by_episode and logs.n_episodes < MIN_EPISODES:
        raise LogsError(
            f"cluster={settings.cluster or 'episode'!r}: expected at least {MIN_EPISODES} episodes "
            f"in the log, found {logs.n_episodes}: with {settings.features} episodes are the unit. "
            "Log more episodes, or use cluster='transition'."
        )
    check_logged_policy(logs, settings)
    rows = usable_rows(logs, gamma)
    if isinstance(logs, CountedLogs) or settings.tabular:
        return _tabular_inputs(logs, policies, settings, rows)
    return featured_inputs(logs, policies, settings, rows, rng_key, judged=judged)


def check_fixed_policy(settings: FitSettings, dependence: GroupedRows | None) -> None:
    """Refuse what is known of rewards, and laws of errors, where means are corrected.

    Raises
    ------
    SettingsError
        The log's policy followed its rewards, and the values have means and widths of their own.
    """
    if dependence is None or dependence.correction is None:
        return
    asked = []
    if settings.prior.rewards is not None:
        asked.append(f"prior.rewards={settings.prior.rewards.flat!r}")
    if settings.constraint.value_law.needs_errors:
        asked.append(f"value_law={str(settings.constraint.value_law)!r}")
    if asked:
        raise SettingsError(
            f"{' and '.join(asked)}: expected the log of a fixed policy, found one whose policy "
            "seems to have followed its own rewards. Its means are corrected for that, which these "
            f"do not know of. Leave {'them' if len(asked) > 1 else 'it'} out."
        )


def check_logged_policy(logs: AnyLogs, settings: FitSettings) -> None:
    """Refuse to estimate the logging policy where its actions cannot be counted state by state.

    Raises
    ------
    SettingsError
        ``include_logged`` with vectors, or with features other than one-hot.
    """
    if not settings.include_logged:
        return
    found = "" if settings.tabular else f"the features {settings.features}"
    if logs.vector_states or logs.vector_actions:
        found = f"a log whose {'state' if logs.vector_states else 'action'}s are vectors"
    if found:
        raise SettingsError(
            "include_logged=True: expected labels and one-hot features, as the logging policy is "
            f"estimated by counting its actions in each state, found {found}. Give the logging "
            "policy as a candidate instead, under a name of its own."
        )


def _tabular_inputs(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    settings: FitSettings,
    rows: UsableRows,
) -> Inputs:
    """One-hot features on the logged pairs, each candidate renormalized over them."""
    if logs.vector_states or logs.vector_actions:
        part = "state" if logs.vector_states else "action"
        raise SettingsError(
            f"features: expected labels for one_hot(), found a log whose {part}s are vectors. "
            "Leave features out, or give fourier(...), polynomial(...) or function(...)."
        )
    gamma = settings.gamma
    aligned = align_policies(logs, policies, needs_successors=gamma > 0.0)
    pairs = logged_pairs(logs, aligned.codes(logs), rows.mask)
    counted = CountedFacts(logs) if isinstance(logs, CountedLogs) else None
    if isinstance(logs, CountedLogs):
        cells, cell_of_row = count_lines(logs, pairs, rows.mask, gamma)
    else:
        cells, cell_of_row = count_cells(
            logs, pairs, rows.mask, gamma, by_episode=settings.form.by_episode
        )
    cells = pad_cells(cells, by_episode=settings.form.by_episode)
    kind, known = settings.prior.rewards, None
    if kind is not None:
        if isinstance(logs, CountedLogs):
            rewards = pair_sums(logs, pairs, rows.mask)
        else:
            rewards = pair_rewards(pairs.of_row, logs.reward[rows.mask], len(pairs.state))
        known = KnownMeans(kind, rewards)
    if settings.include_logged:
        aligned = with_logged_policy(aligned, logs, rows.mask)

    onward = (cells.terminated == 0.0) & (gamma > 0.0)
    starts = np.zeros(len(logs.state_labels), dtype=bool)
    starts[cells.initial_state] = True
    everywhere = np.ones(len(pairs.state))
    targets, kept = each(
        lambda table: renormalize(table, pairs.state, pairs.action, everywhere),
        aligned.probabilities,
    )
    edges = (cells.pair[onward], cells.successor[onward])
    reached = [reach(target, pairs.state, edges, starts) for target in targets]
    active = np.stack([r.pair for r in reached])
    for name, own in zip(aligned.names, active, strict=True):
        # At a discount of 0 its value is that of pairs that were never logged.
        if gamma > 0.0 and not own.any():
            raise PoliciesError(
                f"policy {name!r}: expected a policy that takes a logged action in a state where "
                "episodes start, found one of whose actions none were logged there. The log says "
                "nothing of it: leave it out."
            )
    estimated = None
    if settings.include_logged and np.any(targets[-1, active[-1]] < 1.0):
        # With one action in each state the frequencies are exact.
        estimated = np.arange(len(targets)) == len(targets) - 1
    candidates = Candidates(targets, active.astype(np.float64), kept, estimated=estimated)
    return Inputs(
        logs=logs,
        names=aligned.names,
        actions=aligned.actions,
        action_source=aligned.source,
        rows=rows,
        pairs=pairs,
        cells=cells,
        cell_of_row=cell_of_row,
        candidates=candidates,
        dead_state=np.stack([r.dead_state for r in reached]),
        settings=settings,
        unseen=_unseen_pairs(aligned.probabilities, pairs),
        known=known,
        counted=counted,
    )


def _unseen_pairs(probabilities: Float[np.ndarray, "N S A"], pairs: LoggedPairs) -> UnseenPairs:
    """The pairs that some candidate takes and the log does not have."""
    taken = np.any(probabilities > 0.0, axis=0)
    taken[pairs.state, pairs.action] = False
    state, action = np.nonzero(taken)
    return UnseenPairs(state, action, probabilities[:, state, action])


def prepare(
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    *,
    gamma: float,
    rng_key: PRNGKeyArray | None = None,
    **given: Any,
) -> Prepared:
    """Bring logs and candidates to the problem that the NumPyro program takes.

    Parameters
    ----------
    logs
        Logged transitions of one policy.
    policies
        Name -> candidate.
    gamma
        Discount in [0, 1].
    rng_key
        A key of `jax.random`; needed where features are random or actions are drawn (vectors).
    **given
        Any other setting of `bayesdice_ppl.fit`.

    Returns
    -------
    Prepared
        ``prepared.problem.of(j)`` gives the arguments of `bayesdice_ppl.models.model` and
        ``guide`` for the j-th candidate. Its arrays are float64: run your inference under
        ``jax.enable_x64(True)``.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.
    """
    refuse_moved("prepare", {name: given[name] for name in given if not is_setting(name)})
    # A program to run inference on is the ratio itself, not its tangent.
    given = {name: value for name, value in given.items() if value is not None}
    model = given.get("model")
    if given.get("inference", AUTO) == AUTO and not isinstance(model, TrainedModel):
        given["inference"] = "svi"
    asked = given
    chosen = with_defaults(logs, gamma, with_preset(asked.pop("preset", None), asked))
    settings = FitSettings(gamma, **chosen)
    if not settings.plain:
        raise SettingsError(
            "statistic: expected the mean reward for prepare, found another statistic. Use fit, or "
            "transform the rewards of the log."
        )
    if isinstance(logs, CountedLogs):
        check_counted_rewards(logs, settings)
    elif isinstance(logs, Logs):
        check_rewards(settings.prior.rewards, logs.reward)
    return prepare_fit(logs, policies, settings, rng_key)
