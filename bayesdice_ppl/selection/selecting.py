"""From a belief and a score to a ranking, with the evidence that goes with it.

The ranking minimizes the score's expected loss under the belief (Yang et al., Offline Policy
Selection under Uncertainty, section 2.3). It comes with its Monte Carlo error, a certificate, a
table of what is believed of each candidate, and a list of what the logs cannot tell. Where that is
too much, the order is still given and no recommendation is made.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import (
    SUPPORT,
    SupportWarning,
    Which,
    note_on_starts,
    read_moments,
    read_notes,
    read_statistic,
    read_support,
    read_unseen,
    read_values,
    read_warnings,
)
from bayesdice_ppl.checks import whole
from bayesdice_ppl.errors import ScoreError, SettingsError
from bayesdice_ppl.progress import stage
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection.certificate import certify, judge
from bayesdice_ppl.selection.limits import Bounds, LaunchLimits, check_limits, keep_within
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rewards_table import ranked_reward, rewards_table, several_rewards
from bayesdice_ppl.selection.rules import check_choice, check_rules, keep_admissible
from bayesdice_ppl.selection.selection import Selection
from bayesdice_ppl.selection.solvers import Found, solve
from bayesdice_ppl.selection.table import summary_table
from bayesdice_ppl.selection.turning import notes_on_turning
from bayesdice_ppl.selection.unseen_bounds import (
    best_at_worst,
    check_unseen,
    corners,
    notes_on_bounds,
    parts_for_bounds,
    undecided,
)

if TYPE_CHECKING:
    import xarray as xr


def select(
    belief: "xr.DataTree",
    score: Score,
    *,
    abstain: bool = True,
    unseen: str = "pooled",
    bounds: tuple[float, float] | None = None,
    max_evaluations: int | None = None,
    statistic: Which = "value",
    limits: Mapping[str, Bounds] | None = None,
    confidence: float | None = None,
    costs: Mapping[str, float] | None = None,
    budget: float | None = None,
    must_include: Collection[str] = (),
    must_exclude: Collection[str] = (),
) -> Selection:
    """Rank the candidates so that the score's expected loss under the belief is lowest.

    Where there are few rankings all of them are tried. Beyond, the mean loss of precision,
    accuracy, ndcg, spearman and the regrets is minimized exactly or with a proven gap, Kendall's
    with a bound, and the rest is searched: the certificate says which. Among rankings of equal
    expected loss the one wins that lists the policy of the higher posterior mean earlier, and for
    equal means the one whose name sorts first, wherever all are tried or sorted. The same belief
    and score always give the same ranking.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, dims chain (may be left out), draw, policy in any order, in reward
        per step, and names in the coordinate `policy`. Support information is used where there is
        any: attribute `support_warnings` (JSON list of `policy`, `reason`, `abstain`) and
        `constant_data` variables `moved_mass`, `lost_mass`, `effective_sample_size`,
        `negative_mass`.
    score : Score
        From `bayesdice_ppl.scores`.
    abstain : bool
        Whether a warning that is marked so takes the recommendation away. The ranking is
        computed and given in any case.
    unseen : str
        What pairs of state and action are worth that candidates take and the log does not have.
        ``"pooled"``: as the belief has them. ``"bounds"``, for bandits: anything within `bounds`;
        the ranking is then the one whose loss is lowest at worst, and `expected_loss` is that loss.
    bounds : tuple of two floats, optional
        Lowest and highest reward of a step, for ``unseen="bounds"``.
    max_evaluations : int, optional
        Most rankings to try one by one: all of them if there are no more, else as many as a
        search may. By default 50,000; for correlation@k all are tried up to 2,000,000.
    statistic : str or mapping of str to float
        Which variable of `posterior` the values are: a belief of several statistics or rewards has
        each under its name, such as ``"cvar(0.1)"`` or ``"cost"``. Or a weight for each of several:
        ``{"quality": 1, "cost": -0.5}`` ranks by quality less half the cost.
    limits : mapping of str to (lowest, highest), optional
        Values that a candidate must have to go live, reward per step: ``{"cost": (None, 0.02)}``.
        Those that are not surely enough within all of them are excluded, and named in the notes.
        The loss is still measured against all: it includes what the limits cost. Where too few are
        within, nobody goes live, nothing is recommended, and the ranking is that without limits.
    confidence : float, optional
        Least probability, under the belief, of being within all limits (0.9).
    costs, budget : mapping of str to float, and float, optional
        What launching each candidate costs, and what the launch may cost in all, in one unit. Of
        at most k candidates as many go live as the budget affords and the loss asks for; for
        correlation@k and callables exactly k.
    must_include, must_exclude : collection of str
        Candidates that have to be among those that go live, and that must not be. The loss is
        still measured against all: a candidate that is excluded may be the best.

    Returns
    -------
    Selection
        Order, launch, expected loss, certificate and table.

    Raises
    ------
    BeliefError
        The belief lacks draws or names, or a value is NaN or infinite.
    ScoreError
        The score does not fit the candidates or names one that the belief does not have.
    SettingsError
        If `max_evaluations` is not a whole number of at least 1, no launch meets the rules, one
        that must go live is outside the limits, or `unseen` and `bounds` do not go together.
    """
    if not isinstance(score, Score):
        raise ScoreError(
            f"score: expected one of bayesdice_ppl.scores, such as scores.regret(k=2), found "
            f"{score!r}. Wrap a function of your own in scores.custom."
        )
    if max_evaluations is not None:
        max_evaluations = whole("max_evaluations", max_evaluations)
    within, limited = check_unseen(unseen, bounds), check_limits(limits, confidence)
    draws = read_values(belief, statistic)
    names, n_policies = draws.names, len(draws.names)
    support_warnings = read_warnings(belief, names, _judged(statistic, limited))
    support = read_support(belief, names)
    values = draws.values.reshape(-1, n_policies)
    score, rules = check_choice(
        score,
        names,
        costs=costs,
        budget=budget,
        must_include=must_include,
        must_exclude=must_exclude,
    )
    asked, on_limits = not rules.free or limited is not None, list[str]()
    met = None if limited is None else limited.met(belief, names)
    # What the limits leave is a finding. Rules that no launch meets by themselves are refused.
    free = keep_admissible(rules, score, values, names)
    check_rules(free, score, names)
    unmet = ""
    if limited is not None and met is not None:
        within_limits = keep_within(rules, limited, met, score, names)
        on_limits, unmet = within_limits.notes, within_limits.unmet
        try:
            rules = keep_admissible(within_limits.rules, score, values, names)
            check_rules(rules, score, names)
        except SettingsError:
            unmet = unmet or (
                f"limits: no launch has P({limited.text}) of {limited.confidence:g} or more and "
                "meets the other rules too. Widen the limits, or the rules."
            )
    rules = free if limited is None or unmet else rules
    mean = values.mean(axis=0)
    preference = sorted(range(n_policies), key=lambda i: (-mean[i], names[i]))

    problem = RankingProblem(values, score, rules).permuted(preference)
    plain = not isinstance(statistic, Mapping) and str(statistic) in (
        "value",
        *several_rewards(belief)[:1],
    )
    parts = read_unseen(belief, names) if plain else None
    of_rewards = isinstance(statistic, Mapping) or str(statistic) in several_rewards(belief)
    moments = read_moments(belief, names) if plain or of_rewards else None
    on_unseen = [] if parts is None else notes_on_turning(values, parts, score, names)
    if within is not None and limited is not None:
        raise SettingsError(
            "unseen='bounds': expected no limits beside it, which the belief as it is judges. Use "
            "unseen='pooled'."
        )
    if within is not None and not plain:
        raise SettingsError(
            f"unseen='bounds': expected the belief's value, found statistic={statistic!r}, which "
            "bounds on rewards do not bound. Use unseen='pooled'."
        )
    if within is None:
        with stage("search for the best ranking"):
            found = solve(problem, max_evaluations)
    else:
        parts = parts_for_bounds(belief, parts, names)
        places = corners(values, parts, within, names)
        ordered = [corner.permuted(preference) for corner in places]
        with stage("search for the best ranking at worst"):
            worst = best_at_worst(problem, ordered, max_evaluations)
        problem = replace(problem, values=worst.corner.values)
        found = Found(worst.prefix, worst.loss, None, worst.tried, "bounds")
        told = undecided(values, parts, within)
        on_unseen = notes_on_bounds(names, parts, within, worst, told, len(places))
    shape = draws.values.shape[:2]
    own = judge(problem, found.prefix, shape)
    other = runner_up = None
    if found.runner_up is not None:
        other = judge(problem, found.runner_up, shape)
        runner_up = tuple(names[i] for i in _order(found.runner_up, preference))
    prefix = [preference[i] for i in found.prefix]
    order = _order(found.prefix, preference)
    score.check_depth(values, order)
    launched = score.launches(n_policies)
    launch = [] if launched is None or unmet else prefix[:launched]
    k = score.depth(n_policies) if score.k is None else score.k
    warned, starts = support_warnings or [], note_on_starts(belief)
    reasons = [unmet] * bool(unmet)
    reasons += [warning.sentence for warning in warned if warning.abstain and abstain]
    return Selection(
        order=[names[i] for i in order],
        launch=[names[i] for i in launch],
        expected_loss=own.risk,
        normalized_loss=_normalized(score, values, prefix),
        loss_standard_error=own.standard_error,
        certificate=certify(problem, found, own, other, runner_up),
        score=score.name,
        k=k,
        n_draws=len(values),
        table=summary_table(draws, order, k, len(launch), moments),
        recommended=not reasons,
        reasons=reasons,
        warnings=[warning.sentence for warning in warned],
        notes=[
            *_notes_on_support(support_warnings, support),
            *([] if starts is None else [starts]),
            *read_notes(belief),
            *([moments.note] if moments is not None and moments.note else []),
            *on_limits,
            *on_unseen,
            *score.notes(values, names, prefix),
            *([] if unmet else _notes_on_places(score, len(prefix), asked=asked)),
        ],
        support=support,
        statistic=read_statistic(belief, statistic),
        risk=score.risk.name,
        baseline=score.baseline,
        unseen=unseen,
        limits_met=not unmet,
        reward=ranked_reward(belief, statistic),
        rewards=rewards_table(
            belief,
            [names[i] for i in order],
            [] if limited is None else list(limited.bounds),
            None if met is None else met[order],
        ),
    )


def _order(prefix: tuple[int, ...], preference: list[int]) -> list[int]:
    """Turn a prefix, numbered by preference, into an order of all, the rest by preference."""
    listed = set(prefix)
    rest = (place for place in range(len(preference)) if place not in listed)
    return [preference[place] for place in (*prefix, *rest)]


def _judged(statistic: Which, limited: LaunchLimits | None) -> Which:
    """Every variable that a ranking rests on, for its warnings."""
    if limited is None:
        return statistic
    ranked = list(statistic) if isinstance(statistic, Mapping) else [str(statistic)]
    return dict.fromkeys([*ranked, *limited.bounds], 1.0)


def _normalized(score: Score, values: Float[np.ndarray, "M N"], prefix: list[int]) -> float | None:
    """Give the risk of the same score without a unit, where there is one."""
    beside = score.normalized()
    if beside is None:
        return None
    losses = beside.losses(values, np.array([prefix]), fewer=True)
    return float(beside.risk.of(losses)[0])


def _notes_on_places(score: Score, n_launched: int, *, asked: bool) -> list[str]:
    """Say that fewer than k go live where that is so."""
    if score.k is None or n_launched >= score.k:
        return []
    why = "the rules afford or allow no more" if asked else "no more are allowed by the score"
    return [f"{n_launched} of {score.k} places are filled: {why}"]


def _notes_on_support(
    warned: list[SupportWarning] | None, support: dict[str, dict[str, float]]
) -> list[str]:
    """Say which support information the belief does not have."""
    notes = []
    if warned is None:
        notes.append(
            "the belief has no support warnings (attribute `support_warnings`): whether the logs "
            "cover these candidates was not checked"
        )
    unknown = [
        variable
        for variable in SUPPORT
        if any(not math.isfinite(figures.get(variable, math.nan)) for figures in support.values())
    ]
    if unknown:
        notes.append(f"the belief does not give for every candidate: {', '.join(unknown)}")
    return notes
