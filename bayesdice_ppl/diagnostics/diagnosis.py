"""Check a fitted belief: a list of checks, each with a sentence.

Support, chance constraint, range of the rewards and ELBO are read from the belief. With the logs,
the logging policy is fitted like a candidate, and its value is compared with what the logs earned.
Each candidate gets a verdict: good, look, or do not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import numpy as np

from bayesdice_ppl.belief import BeliefView, read_statistic
from bayesdice_ppl.constraint.penalties import penalty_choice
from bayesdice_ppl.constraint.surrogates import markov
from bayesdice_ppl.diagnostics.sensitivity import MOVED, PRICE, PRIOR, sensitivity
from bayesdice_ppl.diagnostics.verdicts import Reason, Verdict, of_numbers, verdicts, warnings_of
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.fitting import FitSettings, fit_flat, flat_settings
from bayesdice_ppl.inference import Normalization
from bayesdice_ppl.logs import AnyLogs, CountedLogs, Logs
from bayesdice_ppl.plain import plain_text
from bayesdice_ppl.policies import (
    CloneReport,
    ContinuousPolicy,
    Policy,
    TabularPolicy,
    action_frequencies,
)
from bayesdice_ppl.statistics import statistic_choice

if TYPE_CHECKING:
    import polars as pl
    from xarray import DataTree

OUTSIDE_WARN = 0.01
"""Posterior mass outside the range of the logged rewards past which a check fails."""
AGREEMENT_WARN = 2.0
"""Distance past which the self-check fails, in standard errors of what the logs earned."""
MEAN_WARN, SD_WARN = 0.1, 0.1
"""How far SVI may be from the closed form: its mean in posterior sds, its sd relative."""
ELBO_WARN = 0.1
"""Most change of the ELBO over the last steps of SVI, in nats."""
MOST_POLICIES, MOST_ROWS, MOST_WORK = 20, 20_000, 2_000_000
"""Candidates, rows, and candidates times squared pairs up to which candidates are fitted again
without being asked: four fits of a second or two together."""
TAIL_MAX = 0.2
"""Discounted weight past the end of episodes with which the self-check is not made."""


class Check(NamedTuple):
    """One check: its name, whether it passed (None: neither), and a sentence."""

    name: str
    passed: bool | None
    message: str


@final
@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks of a belief.

    Attributes
    ----------
    checks
        In the order in which they were made.
    verdicts
        About each candidate: good, look, or do not use, with the reasons.
    """

    checks: tuple[Check, ...]
    verdicts: tuple[Verdict, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.passed is not False for check in self.checks)

    @property
    def table(self) -> pl.DataFrame:
        """The checks as a polars frame: check, passed, message."""
        import polars as pl

        return pl.DataFrame(
            {
                "check": [check.name for check in self.checks],
                "passed": [check.passed for check in self.checks],
                "message": [check.message for check in self.checks],
            },
            schema={"check": pl.String, "passed": pl.Boolean, "message": pl.String},
        )

    def __str__(self) -> str:
        marks = {True: "ok     ", False: "WARNING", None: "note   "}
        checks = [f"{marks[c.passed]} {c.name}: {c.message}" for c in self.checks]
        return plain_text("\n".join([*checks, *map(str, self.verdicts)]))

    def verdict(self, policy: str) -> Verdict:
        """The verdict about one candidate.

        Raises
        ------
        BeliefError
            There is no such candidate.
        """
        for each in self.verdicts:
            if each.policy == policy:
                return each
        known = ", ".join(each.policy for each in self.verdicts)
        raise BeliefError(f"policy: expected one of {known}, found {policy!r}.")

    @property
    def by_policy(self) -> pl.DataFrame:
        """A row for each reason, and one for each candidate without: a polars frame."""
        import polars as pl

        rows = [
            (v.policy, v.word, r.check, r.number, r.threshold, r.sentence, r.link)
            for v in self.verdicts
            for r in (v.reasons or (Reason("", "", None, None, False, ""),))
        ]
        text, number = pl.String, pl.Float64
        kinds = (text, text, text, number, number, text, text)
        names = ("policy", "verdict", "check", "number", "threshold", "sentence", "link")
        return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")


def diagnose(
    belief: DataTree,
    logs: AnyLogs | None = None,
    policies: Mapping[str, Policy | ContinuousPolicy] | None = None,
    *,
    sensitive: bool | None = None,
) -> Diagnosis:
    """Check a belief.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`.
    logs
        The logs it was fitted on: adds the self-check, a comparison with what they earned.
    policies
        The candidates: with the logs, adds the comparison of SVI with its closed form, and how far
        values move with the prior and the price.
    sensitive
        Whether to look at these moves, which takes four more fits. By default where they are quick:
        up to 20 candidates, 20,000 rows, and 2 million candidates times squared pairs of state and
        action.

    Returns
    -------
    Diagnosis
        Print it, or look at ``.table``.

    Raises
    ------
    BeliefError
        The belief was not made by `fit`.
    """
    view = BeliefView(belief)
    if not view.has(BeliefView.value) or not view.settings:
        raise BeliefError("belief: expected one from bayesdice_ppl.fit, found another DataTree.")
    if view.method:
        raise BeliefError(
            f"belief: expected one from bayesdice_ppl.fit, found one of the method {view.method}. "
            "Only BayesDICE's own beliefs can be diagnosed."
        )
    form = _form(view)
    checks = [
        *_support(view),
        *_logging_policy(view),
        _constraint(view),
        *form,
        _range(view),
        *_convergence(view),
        *_regularization(view),
    ]
    own = [_range_by_policy(view), _convergence_by_policy(view)]
    link = "docs/diagnostics.md#form"
    of_all = [Reason(each.name, each.message, None, None, False, link) for each in form]
    if logs is not None:
        checked = _self_check(view, logs)
        checks.append(checked)
        if checked.passed is False:
            link = "docs/diagnostics.md#self-check"
            of_all.append(Reason("self-check", checked.message, None, None, False, link))
        if policies is not None and view.settings.get("inference") == "svi":
            check, far = _against_exact(view, logs, policies)
            checks.append(check)
            own.append(far)
        if policies is not None:
            for check, far in _sensitivity(view, logs, policies, sensitive):
                checks.append(check)
                own.append(far)
    return Diagnosis(tuple(checks), verdicts(view, own, of_all))


def _support(view: BeliefView) -> list[Check]:
    found = warnings_of(view)
    if not found:
        return [Check("support", True, "the log covers every candidate.")]
    return [Check("support", False, warning.sentence) for warning in found]


def _logging_policy(view: BeliefView) -> list[Check]:
    """Where the action ratio of a belief on vectors comes from."""

    def check(passed: bool | None, message: str) -> list[Check]:
        return [Check("logging policy", passed, message)]

    if view.clone:
        report = CloneReport(**view.clone)
        return check(not report.poor, report.sentence)
    if view.has(BeliefView.capped_share):
        share = view.capped_share
        worst = view.names[int(np.argmax(share))]
        return check(
            None,
            "known from the log's propensities. At most "
            f"{share.max():.1%} of a candidate's weight ({worst}) lies above the cap of its ratio.",
        )
    if view.settings.get("features", "one_hot()") == "one_hot()":
        return []
    return check(
        None,
        "not known, so that the whole ratio is learned from features. Where one action changes "
        "little, every candidate then looks like the logging policy. Log propensities.",
    )


def _constraint(view: BeliefView) -> Check:
    achieved = view.constraint_probability
    lowest = view.names[int(np.argmin(achieved))]
    return Check(
        "chance constraint",
        None,
        f"P(ell <= epsilon) is between {achieved.min():.2f} and {achieved.max():.2f} (lowest: "
        f"{lowest}). It was priced at xi = {view.settings['xi']:g}, not enforced.",
    )


def _form(view: BeliefView) -> list[Check]:
    """What of the settings makes the width of the beliefs mean nothing."""
    settings = view.settings
    found = []
    if not _known_penalty(settings["penalty"]):
        found.append(f"the penalty is {settings['penalty']}, not mahalanobis")
    if settings["surrogate"] != str(markov()):
        found.append(f"the surrogate is {settings['surrogate']}, not markov")
    if not settings["value_constraint"]:
        found.append("there is no value constraint")
    found += [f"{name} was given" for name in ("lam", "epsilon") if settings[name] is not None]
    if not found:
        return []
    return [
        Check(
            "form",
            False,
            f"the width of this belief is not calibrated, because {_listed(found)}. Its "
            "intervals may hold far more or far less than they say. Use the default form for "
            "intervals and for losses.",
        )
    ]


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _known_penalty(name: str) -> bool:
    """Whether a penalty is measured in Sigma; one of the user's own has no name that we know."""
    try:
        return penalty_choice(name).calibrated
    except SettingsError:
        return False


def _in_reward_units(statistic: str) -> bool:
    """Whether a statistic has the unit of the reward; of a function of one's own it is unknown."""
    try:
        return statistic_choice(statistic).reward_units
    except SettingsError:
        return False


def _range(view: BeliefView) -> Check:
    statistic = read_statistic(view.belief)
    if not _in_reward_units(statistic):
        return Check("range", None, f"not made, because {statistic} is not in reward units.")
    outside, low, high = _outside(view)
    worst = view.names[int(np.argmax(outside))]
    return Check(
        "range",
        bool(outside.max() <= OUTSIDE_WARN),
        f"at most {outside.max():.1%} of the belief ({worst}) lies outside the range of the "
        f"rewards, [{low:g}, {high:g}].",
    )


def _outside(view: BeliefView) -> tuple[np.ndarray, float, float]:
    """Share of each belief outside the range of the rewards, and that range."""
    value, ends = view.value, view.reward_range
    if not ends:
        reward = view.reward
        ends = [float(reward.min()), float(reward.max())]
    low, high = ends
    if view.settings["on_termination"] == "absorb":
        low, high = min(low, 0.0), max(high, 0.0)
    return ((value < low) | (value > high)).mean(axis=(0, 1)), low, high


def _range_by_policy(view: BeliefView) -> dict[str, Reason]:
    if not _in_reward_units(read_statistic(view.belief)):
        return {}
    outside, low, high = _outside(view)
    sentence = f"share of the belief outside the range of the rewards, [{low:g}, {high:g}]."
    return of_numbers("range", sentence, view.names, outside, OUTSIDE_WARN)


def _elbo_change(view: BeliefView) -> np.ndarray:
    """How far the ELBO moved between its last two windows; NaN where it is not finite."""
    elbo = view.elbo
    # By then the learning rate is nearly zero, and the start of the last window is long past.
    part = max(elbo.shape[1] // 40, 1)
    last, before = elbo[:, -part:], elbo[:, -2 * part : -part]
    change = np.abs(last.mean(axis=1) - before.mean(axis=1))
    return np.where(np.isfinite(last).all(axis=1), change, np.nan)


def _convergence_by_policy(view: BeliefView) -> dict[str, Reason]:
    if not view.has(BeliefView.elbo):
        return {}
    sentence = "the ELBO still changed over the last steps, in nats. Raise steps in Svi(...)."
    return of_numbers("convergence", sentence, view.names, _elbo_change(view), ELBO_WARN)


def _convergence(view: BeliefView) -> list[Check]:
    if not view.has(BeliefView.elbo):
        return []
    change = _elbo_change(view)
    if np.isnan(change).any():
        return [Check("convergence", False, "the last ELBO is not finite. Fit again.")]
    worst = view.names[int(np.argmax(change))]
    return [
        Check(
            "convergence",
            bool(change.max() <= ELBO_WARN),
            f"over the last steps the ELBO changed by at most {change.max():.2g} nats ({worst}).",
        )
    ]


def _regularization(view: BeliefView) -> list[Check]:
    """The choice with the lowest held-out loss, and the number of ties with it."""
    rows = view.regularization
    if not rows:
        return []
    best = next(row for row in rows if row["chosen"])
    ties = sum(row["tie"] for row in rows) - 1
    return [
        Check(
            "regularization",
            None,
            f"{best['features']} with prior_sd {best['prior_sd']:g} has the lowest held-out loss "
            f"({best['held_out_loss']:.3g}) of {len(rows)} choices. {ties} others are within 2 "
            "standard errors of it.",
        )
    ]


def _self_check(view: BeliefView, logs: AnyLogs) -> Check:
    """Compare the value of the logging policy, fitted if need be, with the logs' own returns."""

    def check(passed: bool | None, message: str) -> Check:
        return Check("self-check", passed, message)

    earned = view.earned
    if earned is None:
        return check(None, "the belief does not say what the logs earned.")
    if logs.vector_states or logs.vector_actions or not _can_refit(view):
        return check(
            None,
            "not made, because it needs labels with one-hot features. Fit the logging policy as a "
            f"candidate, and compare its value with what the logs earned, {earned.value:.4g}.",
        )
    mean = _logging_mean(view, logs)
    known = isfinite(earned.standard_error)
    sure = f"standard error {earned.standard_error:.2g}" if known else "one episode"
    message = (
        f"the logging policy, fitted as a candidate, is worth {mean:.4g}; the logs earned "
        f"{earned.value:.4g} ({sure})"
    )
    if not earned.standard_error > 0.0:
        return check(None, f"{message}. Without a standard error the two cannot be compared.")
    # The tail is relative to the weight that was logged.
    beyond = earned.tail / (1.0 + earned.tail)
    unseen = f"{beyond:.0%} of the discounted weight lies beyond the end of the episodes"
    if earned.tail > TAIL_MAX:
        return check(None, f"{message}. The two cannot be compared: {unseen}.")
    distance = abs(mean - earned.value) / earned.standard_error
    return check(
        bool(distance <= AGREEMENT_WARN),
        f"{message}. They are {distance:.1f} standard errors apart; {unseen}.",
    )


def _logging_mean(view: BeliefView, logs: AnyLogs) -> float:
    """Posterior mean of the logging policy's mean reward, from the belief or from a fit."""
    if view.logged_policy and read_statistic(view.belief) == "mean":
        return float(view.guide_mean[view.names.index(view.logged_policy)])
    shape = (len(logs.state_labels), len(logs.action_labels))
    count = logs.count if isinstance(logs, CountedLogs) else None
    table = action_frequencies(logs.state, logs.action, shape, count)
    table[table.sum(axis=1) == 0.0] = 1.0 / shape[1]  # states in which no action was logged
    behavior = TabularPolicy(table, logs.state_labels, logs.action_labels)
    return float(_refit(view, logs, {"behavior": behavior}).guide_mean[0])


def _against_exact(
    view: BeliefView, logs: AnyLogs, policies: Mapping[str, Policy | ContinuousPolicy]
) -> tuple[Check, dict[str, Reason]]:
    """Compare SVI's moments with those of the closed form, where there is one."""

    def check(passed: bool | None, message: str) -> tuple[Check, dict[str, Reason]]:
        return Check("svi against closed form", passed, message), {}

    if read_statistic(view.belief) != "mean":
        return check(None, "only the mean can be compared. Fit again with inference='exact'.")
    if view.settings.get("link", "identity") is None:
        return check(None, "not made: only linear models are fitted again. Compare with NUTS.")
    if not _can_refit(view):
        return check(
            None, "the belief keeps its features only as text. Fit again with inference='exact'."
        )
    if not _settings(view).form.affine_multipliers:
        return check(
            None,
            "not made: this penalty, surrogate or link has no closed form. Compare with NUTS.",
        )
    exact = _refit(view, logs, policies)
    mean, sd = exact.guide_mean, exact.guide_sd
    safe = np.where(sd > 0, sd, 1.0)
    shift = np.abs(view.guide_mean - mean) / safe
    scale = np.abs(view.guide_sd - sd) / safe
    found, _ = check(
        bool(shift.max() <= MEAN_WARN and scale.max() <= SD_WARN),
        f"means differ by at most {shift.max():.3f} posterior sd, and sds by {scale.max():.1%}.",
    )
    sentence = "its mean, in sds, or its sd, as a share, is off that of the closed form. Fit again."
    far = np.maximum(shift / MEAN_WARN, scale / SD_WARN) * MEAN_WARN
    return found, of_numbers(found.name, sentence, view.names, far, MEAN_WARN)


def _sensitivity(
    view: BeliefView,
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    asked: bool | None,
) -> list[tuple[Check, dict[str, Reason]]]:
    """Other priors and other prices, where a closed form makes them cheap."""
    closed = _can_refit(view) and _settings(view).form.affine_multipliers
    candidates = set(policies) >= set(view.names)
    if not closed or not candidates or read_statistic(view.belief) != "mean":
        message = (
            "not made: it needs labels, the mean reward and a closed form. Elsewhere see "
            "arviz.psense_summary, after bd.add_log_likelihood and bd.add_prior."
        )
        return [(Check(name, None, message), {}) for name in (PRIOR, PRICE)]
    n_policies, n_pairs = len(view.names), len(logs.state_labels) * len(logs.action_labels)
    large = n_policies > MOST_POLICIES or logs.n_transitions > MOST_ROWS
    large = large or n_policies * n_pairs**2 > MOST_WORK
    if asked is False or (asked is None and large):
        message = "not made, as four more fits would take long. Ask with sensitive=True."
        return [(Check(name, None, message), {}) for name in (PRIOR, PRICE)]
    again = {name: policies[name] for name in view.names}
    found = []
    for move in sensitivity(view, lambda change: _refit(view, logs, again, **change)):
        check = Check(move.name, bool(move.moved.max() <= MOVED), f"{move.sentence}.")
        sentence = f"{move.sentence}. {move.advice}"
        found.append((check, of_numbers(move.name, sentence, view.names, move.moved, MOVED)))
    return found


def _kept(view: BeliefView) -> dict[str, Any]:
    """The settings that a fit of other candidates on the same logs keeps."""
    engines = ("inference", "svi", "nuts", "minmax")
    other = (*engines, "draws", "preset", "features", "statistic", "model")
    kept = {name: value for name, value in view.settings.items() if name not in other}
    if kept.get("normalization"):
        kept["normalization"] = Normalization(**kept["normalization"])
    return kept


def _settings(view: BeliefView) -> FitSettings:
    return flat_settings(**_kept(view))


def _refit(
    view: BeliefView,
    logs: AnyLogs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    **changed: Any,
) -> BeliefView:
    engine = "exact" if _settings(view).form.affine_multipliers else "svi"
    if isinstance(logs, Logs) and len(logs.rewards) > 1:
        # The value is that of the first reward.
        logs = logs.with_reward(logs.reward_name)
    # The closed form is not random, and the two draws of `fit` are not used.
    kept = _kept(view) | changed
    belief = fit_flat(logs, policies, rng_key=jax.random.key(0), inference=engine, draws=2, **kept)
    return BeliefView(belief)


def _can_refit(view: BeliefView) -> bool:
    """Whether the settings can be rebuilt: other features and models are kept only as text."""
    settings = view.settings
    return settings.get("features", "one_hot()") == "one_hot()" and settings.get("link") is not None
